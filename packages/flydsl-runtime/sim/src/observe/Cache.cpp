//===- Cache.cpp - tag-only caches ----------------------------------------===//

#include "observe/Cache.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include <sys/mman.h>

namespace flysim {

/// The logarithm of the largest power of two that is not above `n`.
static unsigned floorLog2(uint64_t n) { return 63u - static_cast<unsigned>(__builtin_clzll(n)); }

L1Cache::L1Cache(unsigned bytes)
    : setBits(floorLog2(std::max(kTogether, bytes / kLineBytes / kWays))),
      tags((size_t(kWays) << setBits) / kTogether, Tags{} - 1), fitting(uint64_t(kWays) << setBits),
      present((fitting + kPageLines - 1) / kPageLines) {}

void L1Cache::clear() {
  if (!few)
    std::fill(tags.begin(), tags.end(), Tags{} - 1);
  std::fill(present.begin(), present.end(), 0);
  touched = 0;
  few = true;
}

void L1Cache::fillSets() {
  few = false;
  for (unsigned k = 0; k < touched; ++k)
    touchSets(touches[k].line, touches[k].count);
}

/// The size of the host's huge pages, and the least of what is mapped apart from the heap. The heap clears what it has
/// used before, which for less than a huge page is faster than a fault for each small one.
constexpr size_t kHugePage = size_t(2) << 20;
/// Of what is smaller, small launches use too little to have huge pages cleared for it.
constexpr size_t kLeastAdvised = 4 * kHugePage;

void SharedCache::Release::operator()(uint32_t *p) const {
  if (bytes < kHugePage)
    free(p);
  else
    munmap(p, bytes);
}

// What is never touched of many zeros is never mapped: a small launch pays for little.
SharedCache::Words SharedCache::zeros(size_t bytes) {
  if (bytes < kHugePage) {
    if (void *p = calloc(bytes, 1))
      return Words(static_cast<uint32_t *>(p), Release{bytes});
    throw std::bad_alloc();
  }
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED)
    throw std::bad_alloc();
  if (bytes >= kLeastAdvised)
    madvise(p, bytes, MADV_HUGEPAGE); // where the host cannot, small pages do as well
  return Words(static_cast<uint32_t *>(p), Release{bytes});
}

// A stride off a power of two: else the ways of a set would share a set of the host's cache.
SharedCache::SharedCache(uint64_t bytes)
    : setBits(floorLog2(std::max<uint64_t>(kPageLines, bytes / kLineBytes / kWays))),
      fitting(std::min(uint64_t(kWays) << setBits, kMostNumbers)), mostLines(std::max(fitting, kLeastNumbers)),
      wayStride((size_t(1) << setBits) + 16),
      arrivals(zeros(mostLines * sizeof(uint32_t) + mostLines + kBytes)),
      marks(reinterpret_cast<uint8_t *>(arrivals.get() + mostLines)), ways(nullptr, Release{0}) {}

/// A bit for each byte of a word that has some of its low four bits.
static uint32_t bytesWithBits(uint64_t word) {
  word |= word >> 1;
  word |= word >> 2;
  return static_cast<uint32_t>((word & 0x0101010101010101) * 0x0102040810204080 >> 56);
}

bool SharedCache::cameBefore(uint64_t line, unsigned count) const {
  uint64_t any = 0;
  for (unsigned done = 0; done < count; done += kBytes) {
    any |= marksAt(line + done) & bytesOf(std::min(kBytes, count - done));
  }
  return any != 0;
}

SharedCache::Absent SharedCache::touchMet(const LineMove &move, uint64_t line, unsigned count) {
  if (furthest > fitting && (line + count > mostLines || cameBefore(line, count)))
    fillSets();
  return roomy ? touchRoomy(move, line, count) : touchSets(move, line, count);
}

inline SharedCache::Absent SharedCache::touchRoomy(const LineMove &move, uint64_t line, unsigned count) {
  const uint32_t sectors = move.sectors, bits = marksOf(move);
  const unsigned from = move.write ? 4 : 0; // where a byte has the sectors that are not absent
  Absent absent;
  for (unsigned done = 0; done < count; done += kBytes) {
    const unsigned lines = std::min(kBytes, count - done);
    const uint64_t each = kEach & bytesOf(lines);
    const uint64_t before = marksAt(line + done), after = before | bits * each;
    if (after == before)
      continue;
    memcpy(marks + line + done, &after, sizeof after);
    const uint64_t missing = sectors * each & ~(before >> from);
    absent.sectors += static_cast<unsigned>(__builtin_popcountll(missing));
    if (!(before & 255 * each)) { // as of most moves that miss some
      absent.lines |= ~(~0u << lines) << done;
      arrive(line + done, lines);
      continue;
    }
    absent.lines |= bytesWithBits(missing) << done;
    uint32_t fresh = bytesWithBits(each) & ~bytesWithBits(before | before >> 4);
    for (unsigned first = done; fresh;) { // one stretch after the other
      const auto skipped = static_cast<unsigned>(__builtin_ctz(fresh));
      const auto together = static_cast<unsigned>(__builtin_ctz(~(fresh >> skipped)));
      arrive(line + first + skipped, together);
      first += skipped + together;
      fresh >>= skipped + together;
    }
  }
  return absent;
}

void SharedCache::fillSets() {
  if (!ways) {
    ways = zeros(wayBytes() + (size_t(1) << setBits));
    next = reinterpret_cast<uint8_t *>(ways.get()) + wayBytes();
  }
  roomy = false;
  for (const uint32_t *a = arrivals.get(); a != arrivals.get() + arrived; ++a) {
    const uint64_t first = *a / kPageLines, end = first + *a % kPageLines + 1;
    for (uint64_t line = first; line < end; ++line) {
      const size_t index = indexOf(line);
      ways.get()[index + takeWay(index) * wayStride] = tagOf(line, setBits) << 8 | marks[line];
      comesFirst(line, 1);
    }
  }
}

void SharedCache::clear() {
  memset(marks, 0, std::min(furthest, mostLines));
  furthest = 0;
  arrived = 0;
  if (!roomy)
    memset(ways.get(), 0, wayBytes() + (size_t(1) << setBits));
  met.clear();
  roomy = true;
}

inline unsigned SharedCache::takeWay(size_t index) {
  const unsigned way = next[index];
  next[index] = static_cast<uint8_t>((way + 1) % kWays);
  return way;
}

inline bool SharedCache::takeWayTogether(size_t index, unsigned &way) {
  constexpr uint32_t kEach = 0x01010101;
  static_assert(sizeof kEach == kTogether, "a byte for each");
  uint32_t each;
  memcpy(&each, next + index, sizeof each);
  way = each & 0xff;
  if (each != way * kEach)
    return false;
  memset(next + index, int((way + 1) % kWays), kTogether);
  return true;
}

inline unsigned SharedCache::touchOne(const Request &r, size_t index) {
  uint32_t *set = ways.get() + index;
  unsigned way = 0;
  while (way < kWays && set[way * wayStride] >> 8 != r.tag)
    way = set[way * wayStride] ? way + 1 : kWays; // those behind an empty way are empty, too
  uint32_t before = 0;
  if (way == kWays)
    way = takeWay(index);
  else
    before = set[way * wayStride];
  set[way * wayStride] = r.tag << 8 | (before & 0xff) | r.bits;
  return static_cast<unsigned>(__builtin_popcount(r.sectors & ~(before >> r.marks)));
}

[[gnu::always_inline]] inline bool SharedCache::touchTogether(const Request &r, size_t index, Absent &absent) {
  Entries before = {};
  unsigned way = 0;
  while (way < kWays) {
    before = *together(index, way);
    const auto same = Halves(before >> 8 == r.tag), used = Halves(before);
    if (~(same[0] & same[1]) == 0) // all of them
      break;
    if (same[0] | same[1])
      return false;
    way = used[0] | used[1] ? way + 1 : kWays;
  }
  if (way == kWays) {
    if (!takeWayTogether(index, way))
      return false;
    before = Entries{};
  }
  *together(index, way) = r.tag << 8 | (before & 0xff) | r.bits;
  // Their bits, added by pairs and then over all lines.
  Entries missing = r.sectors & ~(before >> r.marks);
  const auto bits = Halves(Entries(missing != 0) & Entries{1, 2, 4, 8});
  const uint64_t both = bits[0] | bits[1];
  absent.lines = static_cast<uint32_t>((both | both >> 32) & 15);
  missing = (missing & 5) + (missing >> 1 & 5);
  missing = (missing & 3) + (missing >> 2);
  const auto sums = Halves(missing);
  const uint64_t sum = sums[0] + sums[1];
  absent.sectors = static_cast<unsigned>(sum + (sum >> 32));
  return true;
}

inline void SharedCache::bring(const Request &r, uint64_t line, unsigned count) {
  const uint32_t entry = r.tag << 8 | r.bits;
  for (const uint64_t end = line + count; line < end;) {
    const size_t index = indexOf(line), first = index / kTogether * kTogether;
    unsigned way;
    if (line % kTogether == 0 && end - line >= kTogether && takeWayTogether(first, way)) {
      *together(first, way) = Entries{} + entry;
      line += kTogether;
    } else {
      ways.get()[index + takeWay(index) * wayStride] = entry;
      ++line;
    }
  }
}

inline bool SharedCache::comesFirst(uint64_t line, unsigned count) {
  static_assert(kPageLines == 32, "a bit for each line of a page");
  const uint64_t page = line / kPageLines;
  if (__builtin_expect(page >= met.size(), 0))
    met.resize(std::max<size_t>(page + 1, 2 * met.size()));
  const uint32_t lines = (~uint32_t(0) >> (kPageLines - count)) << line % kPageLines, before = met[page];
  met[page] = before | lines;
  return !(before & lines);
}

/// Four bits, each moved to the place whose number differs from its own by `turn`, which is below 4.
static uint32_t turnedBits(uint32_t bits, unsigned turn) {
  if (turn & 1)
    bits = (bits & 5) << 1 | (bits & 10) >> 1;
  return turn & 2 ? (bits & 3) << 2 | bits >> 2 : bits;
}

SharedCache::Absent SharedCache::touchSets(const LineMove &move, uint64_t begin, unsigned count) {
  const Request r(move, setBits);
  if (comesFirst(begin, count)) {
    bring(r, begin, count);
    return {count * static_cast<unsigned>(__builtin_popcount(r.sectors)), ~uint32_t(0) >> (kPageLines - count)};
  }
  Absent absent;
  for (uint64_t line = begin, end = line + count; line < end;) {
    const size_t index = indexOf(line);
    // Lines that share all but their last bits have sets that do: in another order.
    const size_t first = index / kTogether * kTogether;
    Absent here;
    unsigned done = 1;
    if (line % kTogether == 0 && end - line >= kTogether && touchTogether(r, first, here)) {
      here.lines = turnedBits(here.lines, turnOf(line) % kTogether);
      done = kTogether;
    } else {
      here.sectors = touchOne(r, index);
      here.lines = here.sectors != 0;
    }
    absent.sectors += here.sectors;
    absent.lines |= here.lines << (line - begin);
    line += done;
  }
  return absent;
}

} // namespace flysim
