//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>
#include <new>

namespace flysim {

namespace {
uint64_t powerOfTwoBelow(uint64_t n) {
  uint64_t p = 1;
  while (p * 2 <= n)
    p *= 2;
  return p;
}
} // namespace

L1Cache::L1Cache(unsigned bytes)
    : sets(static_cast<unsigned>(powerOfTwoBelow(std::max(1u, bytes / kLineBytes / kWays)))) {
  tags.assign(size_t(sets) * kWays, ~0ull);
}

bool L1Cache::touch(uint64_t line) {
  uint64_t *set = &tags[size_t(line & (sets - 1)) * kWays];
  unsigned way = 0;
  while (way < kWays - 1 && set[way] != line)
    ++way;
  bool hit = set[way] == line;
  for (; way > 0; --way)
    set[way] = set[way - 1];
  set[0] = line;
  return hit;
}

void L1Cache::clear() { std::fill(tags.begin(), tags.end(), ~0ull); }

SharedCache::SharedCache(uint64_t bytes)
    : sets(powerOfTwoBelow(std::max<uint64_t>(1, bytes / kLineBytes / kWays))) {
  static_assert(sizeof(Way) == 8 && sizeof(std::atomic<uint8_t>) == 1, "plain memory");
  memory.reset(static_cast<uint8_t *>(calloc(sets * kWays * sizeof(Way) + 64, 1)));
  next.reset(static_cast<std::atomic<uint8_t> *>(calloc(sets, 1)));
  if (!memory || !next)
    throw std::bad_alloc();
  ways = reinterpret_cast<Way *>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
}

bool SharedCache::mark(Way *set, uint64_t line, unsigned sectors, bool write, unsigned &fresh) {
  unsigned bits = write ? sectors << 4 | sectors : sectors;
  for (unsigned k = 0; k < kWays; ++k) {
    uint64_t held = set[k].tag.load(std::memory_order_relaxed);
    if (held >> 8 != line)
      continue;
    if ((held & bits) == bits) {
      fresh = 0; // nothing to write: the common case, and other threads keep the line
      return true;
    }
    // What the word held before says which sectors are new, also when two threads mark at once.
    uint64_t before = set[k].tag.fetch_or(bits, std::memory_order_relaxed);
    fresh = sectors & ~(write ? before >> 4 & 15 : before & 15);
    return true;
  }
  return false;
}

unsigned SharedCache::touch(uint64_t line, unsigned sectors, bool write) {
  uint64_t index = (line ^ line >> 17) & (sets - 1);
  ++line; // 0 is an empty way
  Way *set = &ways[index * kWays];
  unsigned fresh;
  if (mark(set, line, sectors, write, fresh))
    return fresh;
  // One thread at a time adds a line to a set, so that no line is fetched twice.
  std::atomic<uint8_t> &state = next[index];
  uint8_t victim = state.load(std::memory_order_relaxed) & ~kLocked;
  while (!state.compare_exchange_weak(victim, victim | kLocked, std::memory_order_acquire))
    victim &= static_cast<uint8_t>(~kLocked);
  if (!mark(set, line, sectors, write, fresh)) {
    set[victim % kWays].tag.store(line << 8 | (write ? sectors << 4 | sectors : sectors),
                                  std::memory_order_relaxed);
    victim = (victim + 1) % kWays;
    fresh = sectors;
  }
  state.store(victim, std::memory_order_release);
  return fresh;
}

} // namespace flysim
