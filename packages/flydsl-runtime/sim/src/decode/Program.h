//===- Program.h - decoded code of one code object -------------*- C++ -*-===//
#ifndef FLYSIM_DECODE_PROGRAM_H
#define FLYSIM_DECODE_PROGRAM_H

#include "exec/Inst.h"
#include "loader/CodeObject.h"
#include "support/Arch.h"

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace flysim {

class Disassembler;
struct RegisterUse;

/// The instructions of one executable range in address order.
struct Program {
  const ArchInfo *arch = nullptr;
  bool wave32 = false;
  bool indexesRegisters = false; ///< has instructions that may begin the index mode of gfx9
  uint64_t base = 0, size = 0;
  std::vector<Inst> insts;
  std::vector<int32_t> indexAt; ///< dword offset -> instruction, -1 inside one

  /// Index of the instruction at `addr`; raises IllegalAddress if there is none.
  uint32_t indexOf(uint64_t addr) const;
  uint64_t addressOf(const Inst &i) const { return base + i.pc; }
  /// Assembly text of an instruction: disassembled again the first time, then kept. Thread safe.
  std::string text(const Inst &i) const;
  /// The registers of an instruction (disassembled again).
  RegisterUse registerUse(const Inst &i) const;

  std::shared_ptr<Disassembler> disassembler;
  std::deque<InstExt> exts;
  std::deque<Inst> halves; ///< second operations of VOPD
  struct ConstRow {
    alignas(64) uint32_t lanes[2 * kRow];
  };
  std::deque<ConstRow> constants;
  std::map<uint64_t, const uint32_t *> constantAt;
  /// A broadcast row pair for `value`, shared between uses.
  const uint32_t *constant(uint64_t value);

private:
  mutable std::mutex textsMutex;
  mutable std::unordered_map<uint32_t, std::string> texts; ///< by byte offset in the code range
};

class RawInst;
enum class Fidelity : uint8_t;
/// Resolves one disassembled instruction into `inst`.
Fidelity decodeInstruction(Program &program, const RawInst &raw, Inst &inst);

/// True if an instruction may write EXEC.
bool writesExec(const Inst &inst);

/// Decides which instructions run together with those after them (`Inst::run`, `Inst::joined`), and which a wave
/// passes without anything to decide (`Inst::steers`).
void joinRuns(Program &program);

/// Decodes every instruction in `range`. Unknown bytes become instructions that
/// fault when executed.
std::unique_ptr<Program> decodeProgram(const CodeObject &object, const CodeRange &range,
                                       const ArchInfo &arch, bool wave32);

} // namespace flysim

#endif
