//===- LateStores.h - stores that other devices see late -------*- C++ -*-===//
//
// The memory model lets a plain store stay in the caches of its device until it is released
// at system scope. With the check "late" it does: what a store has written to memory that
// several devices use is taken back, and put there again when it is released, when its own
// device accesses it, or at the end of the launch. A kernel that lacks a release then
// computes with what was there before.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_LATESTORES_H
#define FLYSIM_CHECK_LATESTORES_H

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace flysim {

/// The hidden stores of a launch. Thread safe.
class LateStores {
public:
  ~LateStores(); ///< shows what is hidden
  /// Takes back the bytes of a dword that a store has written; what it held before is given.
  void hide(uint64_t address, uint32_t before, unsigned bytes);
  /// Puts back what is hidden of a dword.
  void show(uint64_t address);

private:
  struct Hidden {
    uint32_t value;
    unsigned bytes;
  };
  std::mutex mutex;
  std::unordered_map<uint64_t, Hidden> hidden; ///< by address of the dword
};

} // namespace flysim

#endif
