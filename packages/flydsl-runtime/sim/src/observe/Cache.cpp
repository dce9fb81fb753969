//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>
#include <new>

#include <sys/mman.h>

namespace flysim {

/// The logarithm of the largest power of two that is not above `n`.
static unsigned floorLog2(uint64_t n) { return 63u - static_cast<unsigned>(__builtin_clzll(n)); }

L1Cache::L1Cache(unsigned bytes) : sets(1u << floorLog2(std::max(1u, bytes / kLineBytes / kWays))) {
  tags.assign(size_t(sets) * kWays, ~0ull);
}

void L1Cache::clear() { std::fill(tags.begin(), tags.end(), ~0ull); }

void SharedCache::Unmap::operator()(uint32_t *p) const { munmap(p, bytes); }

/// Zeros that are not from the heap, which clears what it has used before.
static uint32_t *mapZeros(size_t bytes) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    throw std::bad_alloc();
  return static_cast<uint32_t *>(p);
}

// A stride off a power of two: else the ways of a set would share a set of the host's cache.
SharedCache::SharedCache(uint64_t bytes)
    : setBits(floorLog2(std::max<uint64_t>(1, bytes / kLineBytes / kWays))), wayStride((size_t(1) << setBits) + 16),
      size(kWays * wayStride * sizeof(uint32_t) + (size_t(1) << setBits)), ways(mapZeros(size), Unmap{size}),
      victims(reinterpret_cast<uint8_t *>(ways.get() + kWays * wayStride)) {}

unsigned SharedCache::touch(const LineMove &move, unsigned first, unsigned count) {
  const uint32_t sectors = move.sectors, bits = move.write ? sectors << 4 | sectors : sectors;
  const unsigned marks = move.write ? 4 : 0; // where an entry has the sectors that are not absent
  const uint64_t setMask = (uint64_t(1) << setBits) - 1;
  unsigned absent = 0;
  for (uint64_t line = move.line + first, end = line + count; line < end; ++line) {
    const uint64_t mixed = line ^ line >> 17, index = mixed & setMask;
    const auto tag = static_cast<uint32_t>((mixed >> setBits) + 1); // 0 is an empty way
    uint32_t *set = ways.get() + index;
    unsigned way = 0;
    while (way < kWays && set[way * wayStride] && set[way * wayStride] >> 8 != tag)
      ++way; // those behind an empty way are empty, too
    uint32_t before = 0;
    if (way == kWays) {
      way = victims[index];
      victims[index] = static_cast<uint8_t>((way + 1) % kWays);
    } else {
      before = set[way * wayStride];
    }
    set[way * wayStride] = tag << 8 | (before & 0xff) | bits;
    absent += static_cast<unsigned>(__builtin_popcount(sectors & ~(before >> marks)));
  }
  return absent;
}

} // namespace flysim
