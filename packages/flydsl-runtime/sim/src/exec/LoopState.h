//===- LoopState.h - does a loop ever leave? -------------------*- C++ -*-===//
//
// A wave is stuck when its loop comes back with every register that matters unchanged: those that
// decide branches, addresses and what is stored. A counter that only counts does not matter. Such a
// loop ends only if others write the memory that it reads. A loop that reads and writes the same kind
// of memory is stuck when its stores find there what they store.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_LOOPSTATE_H
#define FLYSIM_EXEC_LOOPSTATE_H

#include "decode/Disassembler.h"
#include "exec/Wave.h"
#include "observe/Access.h"

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace flysim {

struct Program;

/// The time in which a thread has waves that are not known to be stuck, of any launch.
class Turn {
public:
  Turn();
  ~Turn();
  Turn(const Turn &) = delete;
  Turn &operator=(const Turn &) = delete;
  /// Turns that have ended so far; changes while one lasts, too.
  static uint64_t count();
};

class LoopState {
public:
  explicit LoopState(const Program &program) : program(program) {}

  /// The registers that one way through a loop needs at its start, as RegisterUse numbers them.
  /// `path`: its instructions in the order in which they ran. `keeps`: they decide what the loop does
  /// next only if it changes no memory. False if they do not: it reads a clock.
  bool needed(const std::vector<uint32_t> &path, std::vector<uint32_t> &registers, bool &keeps);
  /// True unless the instruction depends on more than registers and memory, such as a clock.
  bool known(uint32_t index) { return useOf(index).known; }
  /// A hash of these registers.
  static uint64_t hash(const Wave &w, const std::vector<uint32_t> &registers);

private:
  const RegisterUse &useOf(uint32_t index);
  const Program &program;
  std::unordered_map<uint32_t, RegisterUse> uses; ///< by instruction
};

/// Whether instructions change memory.
class StoreWatch {
public:
  explicit StoreWatch(const Program &program);
  /// Before and after the instruction runs.
  void before(Wave &w, uint32_t index);
  void after(const Wave &w);
  /// Some instruction since the last call has changed memory, or may have.
  bool take() { return std::exchange(changed, false); }

private:
  /// The bytes that the instruction may write, in order of its addresses.
  void bytes(const Wave &w, std::vector<uint8_t> &out) const;

  const Program &program;
  std::vector<InstInfo> infos;
  MemoryAccess access;
  std::vector<uint8_t> held, now;
  bool watched = false, changed = false;
};

} // namespace flysim

#endif
