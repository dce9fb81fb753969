//===- Unwritten.cpp - memory that nobody wrote ---------------------------===//

#include "check/Unwritten.h"

#include "memory/Memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace flysim {

namespace {

/// The dword at `address` (a multiple of 4) of memory that nobody wrote.
uint32_t unwritten(uint64_t address) {
  uint64_t x = (address >> 2) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  return static_cast<uint32_t>(x * 0xbf58476d1ce4e5b9ull >> 32);
}

/// The program has said of host memory that nobody wrote it.
std::atomic<bool> anyHost{false};

} // namespace

void fillUnwritten(uint64_t base, uint64_t size) {
  if (size > kMaxUnwritten)
    return;
  for (uint64_t at = 0; at < size; at += 4) {
    uint32_t v = unwritten(base + at);
    memcpy(reinterpret_cast<void *>(base + at), &v, std::min<uint64_t>(4, size - at));
  }
}

bool neverWritten(uint64_t address, uint32_t value) {
  address &= ~3ull;
  if (value != unwritten(address))
    return false;
  Allocation a;
  return anyHost.load(std::memory_order_relaxed) ||
         (AddressSpace::instance().find(address, a) && a.size <= kMaxUnwritten);
}

} // namespace flysim

/// Host memory that the program has not written yet: filled with the pattern, so that the uninit
/// check tells what is read before it is written. Only whole dwords count.
extern "C" __attribute__((visibility("default"))) void flysimUnwritten(void *base, size_t bytes) {
  auto at = (reinterpret_cast<uint64_t>(base) + 3) & ~3ull;
  uint64_t end = (reinterpret_cast<uint64_t>(base) + bytes) & ~3ull;
  if (at >= end)
    return;
  flysim::anyHost = true;
  flysim::fillUnwritten(at, end - at);
}
