//===- Unwritten.h - memory that nobody wrote ------------------*- C++ -*-===//
//
// hipMalloc fills what it hands out with a pattern of the address while the uninit check is
// on. Memory that still has it was never written. A program may do the same with memory of its own
// (flysimUnwritten).
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_UNWRITTEN_H
#define FLYSIM_CHECK_UNWRITTEN_H

#include <cstdint>

namespace flysim {

/// Fills fresh device memory with the pattern.
void fillUnwritten(uint64_t base, uint64_t size);
/// Allocations above this size are not filled (the host would have to provide the memory).
constexpr uint64_t kMaxUnwritten = uint64_t(1) << 30;

/// True when the dword of device memory that holds `address` still has the pattern: `value`
/// is what it holds.
bool neverWritten(uint64_t address, uint32_t value);

/// Bits in which the twin of something unwritten differs: some in every byte.
inline uint32_t flip(uint64_t n) {
  return static_cast<uint32_t>(n * 0x9e3779b97f4a7c15ull >> 32) | 0x01010101u;
}

} // namespace flysim

#endif
