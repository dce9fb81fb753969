//===- Unwritten.cpp - memory that nobody wrote ---------------------------===//

#include "check/Unwritten.h"

#include "memory/Memory.h"

#include <algorithm>
#include <cstring>

namespace flysim {

namespace {

/// The dword at `address` (a multiple of 4) of memory that nobody wrote.
uint32_t unwritten(uint64_t address) {
  uint64_t x = (address >> 2) * 0x9e3779b97f4a7c15ull;
  x ^= x >> 29;
  return static_cast<uint32_t>(x * 0xbf58476d1ce4e5b9ull >> 32);
}

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
  Allocation a;
  return value == unwritten(address) && AddressSpace::instance().find(address, a) &&
         a.size <= kMaxUnwritten;
}

} // namespace flysim
