//===- Cache.h - tag-only caches -------------------------------*- C++ -*-===//
//
// Which lines a launch fetches at each level. Tags only: data always comes from
// memory. Lines are 128 bytes, in sectors of 32 bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_CACHE_H
#define FLYSIM_OBSERVE_CACHE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace flysim {

constexpr unsigned kLineBytes = 128, kSectorBytes = 32;
constexpr unsigned kSectorsOfLine = kLineBytes / kSectorBytes;
constexpr unsigned kAllSectors = (1u << kSectorsOfLine) - 1;
constexpr unsigned kPageLines = 4096 / kLineBytes;

/// Neighbouring lines of a page of which an instruction moves the same sectors.
struct LineMove {
  uint64_t line; ///< the first of them
  uint32_t inst;
  uint16_t count; ///< of lines
  uint8_t sectors;
  bool write;
  LineMove(uint64_t line, uint32_t inst, uint16_t count, uint8_t sectors, bool write)
      : line(line), inst(inst), count(count), sectors(sectors), write(write) {}
};

/// First-level vector cache of one compute unit: least recently used, one thread.
class L1Cache {
public:
  explicit L1Cache(unsigned bytes);
  /// Which of `count` lines of one page, from `line` on, are absent: a bit for each. They are present afterwards.
  uint64_t touch(uint64_t line, unsigned count) {
    if (few) {
      if (line + count <= fitting && touched < kMostTouches)
        return touchFew(line, count);
      fillSets();
    }
    return touchSets(line, count);
  }
  void clear();

private:
  static constexpr unsigned kWays = 4;

  // Lines are numbered as they are met. While no number exceeds the lines of the cache, what came once stays, and each
  // line has a bit. Most work-groups that stream end before; what was touched is kept for those that do not.

  struct Touch {
    uint32_t line, count;
  };
  static constexpr unsigned kMostTouches = 64;
  uint64_t touchFew(uint64_t line, unsigned count) {
    touches[touched++] = {static_cast<uint32_t>(line), count};
    const uint32_t lines = (~uint32_t(0) >> (kPageLines - count)) << line % kPageLines;
    uint32_t &here = present[line / kPageLines];
    const uint32_t absent = lines & ~here;
    here |= lines;
    return absent >> line % kPageLines;
  }
  /// There are more lines: enters those that came into their sets.
  void fillSets();

  // From then on each line has an entry in its set.

  uint64_t touchSets(uint64_t line, unsigned count);
  /// The same of a line that comes without neighbours.
  bool touchOne(uint64_t line);

  /// Neighbouring lines whose sets are looked at together: so many 32-bit words has a vector of every host.
  static constexpr unsigned kTogether = 4;
  typedef int32_t Tags __attribute__((vector_size(kTogether * sizeof(int32_t))));
  typedef uint64_t Halves __attribute__((vector_size(sizeof(Tags))));
  const unsigned setBits;
  /// kWays for each vector of neighbouring sets, most recent first. A tag of 32 bits names more lines than a
  /// work-group can load, which are numbered as they are met; that of an empty way is -1.
  std::vector<Tags> tags;
  const uint64_t fitting;        ///< lines of the cache
  std::vector<uint32_t> present; ///< by page, a bit for each line
  Touch touches[kMostTouches];
  unsigned touched = 0;
  bool few = true;
};

inline bool L1Cache::touchOne(uint64_t line) {
  const uint64_t set = line & ((uint64_t(1) << setBits) - 1);
  Tags *ways = &tags[set / kTogether * kWays];
  // The line comes to the front, and those that were before it go one place back.
  const auto tag = static_cast<int32_t>(line >> setBits);
  int32_t next = tag;
  for (unsigned way = 0; way < kWays; ++way) {
    const int32_t here = ways[way][set % kTogether];
    ways[way][set % kTogether] = next;
    if (here == tag)
      return false;
    next = here;
  }
  return true;
}

inline uint64_t L1Cache::touchSets(uint64_t line, unsigned count) {
  if (count == 1)
    return touchOne(line);
  const uint64_t setMask = (uint64_t(1) << setBits) - 1, begin = line / kTogether * kTogether;
  const auto skipped = static_cast<int>(line - begin), end = skipped + static_cast<int>(count);
  uint64_t absent = 0; // from `begin` on
  for (int at = 0; at < end; at += int(kTogether)) {
    const uint64_t first = begin + unsigned(at);
    Tags *ways = &tags[(first & setMask) / kTogether * kWays];
    const Tags place = Tags{0, 1, 2, 3} + at, tag = Tags{} + static_cast<int32_t>(first >> setBits);
    Tags next = tag, done = Tags(place < skipped) | Tags(place >= end);
    for (unsigned way = 0; way < kWays; ++way) {
      const Tags here = ways[way];
      ways[way] = (here & done) | (next & ~done);
      done |= Tags(here == tag);
      next = here;
    }
    const auto bits = Halves(~done & Tags{1, 2, 4, 8});
    const uint64_t both = bits[0] | bits[1];
    absent |= ((both | both >> 32) & 15) << at;
  }
  return absent >> skipped;
}

/// A cache that compute units share: the L2 of a die, or all that lies before the memory (L2 and memory-side cache).
class SharedCache {
public:
  explicit SharedCache(uint64_t bytes);
  /// Sectors that a move did not find, and a bit for each of its lines that lacked some.
  struct Absent {
    unsigned sectors = 0;
    uint32_t lines = 0;
  };
  /// Marks the sectors of `count` of the lines that are moved, from number `from` on. Of a write those are absent that
  /// became dirty now.
  Absent touch(const LineMove &move, unsigned from, unsigned count) {
    const uint64_t line = move.line + from;
    if (!roomy)
      return touchSets(move, line, count);
    furthest = std::max(furthest, line + count);
    if (count <= kBytes && line + count <= mostLines && !(marksAt(line) & bytesOf(count)))
      return bringFew(move, line, count);
    return touchMet(move, line, count);
  }
  /// Forgets all lines. What was mapped for them stays.
  void clear();

private:
  static constexpr unsigned kWays = 8;
  /// Neighbouring lines whose sets are looked at together: so many 32-bit words has a vector of every host.
  static constexpr unsigned kTogether = 4;
  /// What spreads lines over the sets, the same for those of a page.
  static uint64_t turnOf(uint64_t line) { return line >> 17; }
  static uint32_t tagOf(uint64_t line, unsigned setBits) {
    return static_cast<uint32_t>(((line ^ turnOf(line)) >> setBits) + 1); // 0 is an empty way
  }
  /// What a move asks of each of its lines. They are of one page, so that they have one tag.
  struct Request {
    uint32_t tag, sectors, bits;
    unsigned marks; ///< where an entry has the sectors that are not absent
    Request(const LineMove &m, unsigned setBits)
        : tag(tagOf(m.line, setBits)), sectors(m.sectors), bits(marksOf(m)),
          marks(m.write ? 4 : 0) {}
  };
  typedef uint32_t Entries __attribute__((vector_size(kTogether * sizeof(uint32_t))));
  typedef uint64_t Halves __attribute__((vector_size(sizeof(Entries))));

  // Lines are numbered as they are met, and each set gets one of every 2^setBits numbers. While no number exceeds the
  // lines of the cache, no set has more of them than ways: what came once stays, and each line has a byte for itself.
  // Beyond that so it goes on while lines come that never came before, as in a launch that streams: they are absent,
  // whatever the sets have.

  static constexpr unsigned kBytes = 8; ///< that are looked at together
  /// Lines of 128 MiB: a byte for each is little.
  static constexpr uint64_t kLeastNumbers = uint64_t(1) << 20;
  static constexpr uint64_t kEach = ~uint64_t(0) / 255; ///< 1 in each byte
  /// All bits of the first `count` bytes of a word, of which there are some.
  static uint64_t bytesOf(unsigned count) { return ~uint64_t(0) >> 8 * (kBytes - count); }
  /// The bytes of kBytes lines.
  uint64_t marksAt(uint64_t line) const {
    uint64_t word;
    memcpy(&word, marks + line, sizeof word);
    return word;
  }
  /// What a move leaves in the byte of a line: a write makes its sectors dirty.
  static uint32_t marksOf(const LineMove &m) { return m.write ? m.sectors << 4 | m.sectors : m.sectors; }
  /// `touch` of at most kBytes lines that have a byte each and come for the first time, as most do.
  Absent bringFew(const LineMove &move, uint64_t line, unsigned count) {
    const uint64_t after = marksAt(line) | (marksOf(move) * kEach & bytesOf(count));
    memcpy(marks + line, &after, sizeof after);
    arrive(line, count);
    return {count * static_cast<unsigned>(__builtin_popcount(move.sectors)), (1u << count) - 1};
  }
  /// True if some of the lines came before. Called while each has a byte.
  bool cameBefore(uint64_t line, unsigned count) const;
  /// `touch` while there was room for the lines.
  Absent touchMet(const LineMove &move, uint64_t line, unsigned count);
  /// The same if there still is.
  Absent touchRoomy(const LineMove &move, uint64_t line, unsigned count);
  /// `count` lines of a page from `line` on come for the first time.
  void arrive(uint64_t line, unsigned count) {
    arrivals.get()[arrived++] = static_cast<uint32_t>(line * kPageLines + count - 1);
  }
  /// There is no more room: enters the lines that came into their sets.
  void fillSets();

  // From then on each line has an entry in its set.

  /// `touch` with sets.
  Absent touchSets(const LineMove &move, uint64_t line, unsigned count);
  size_t indexOf(uint64_t line) const { return (line ^ turnOf(line)) & ((uint64_t(1) << setBits) - 1); }
  /// The entries of a way for the neighbouring sets from `index` on.
  Entries *together(size_t index, unsigned way) {
    return reinterpret_cast<Entries *>(ways.get() + index + way * wayStride);
  }
  /// The way that a set fills or replaces next: it is taken.
  unsigned takeWay(size_t index);
  /// The same of `kTogether` neighbouring sets; false, with nothing done, if they do not have one way next.
  bool takeWayTogether(size_t index, unsigned &way);
  /// Enters lines none of which came before: they are in no way.
  void bring(const Request &r, uint64_t line, unsigned count);
  /// True if none of the lines of a page, `count` from `line` on, was moved before. From now on they were.
  bool comesFirst(uint64_t line, unsigned count);
  /// The number of absent sectors of the line whose set is `index`.
  unsigned touchOne(const Request &r, size_t index);
  /// What is absent of the `kTogether` lines whose sets start at `index`, if all have or get the same way;
  /// false, with nothing done, if not. Lines in the order of their sets.
  bool touchTogether(const Request &r, size_t index, Absent &absent);

  struct Release {
    size_t bytes;
    void operator()(uint32_t *p) const;
  };
  typedef std::unique_ptr<uint32_t, Release> Words;
  static Words zeros(size_t bytes);

  const unsigned setBits; ///< logarithm of the number of sets
  const uint64_t fitting;   ///< lines of the cache
  const uint64_t mostLines; ///< that can have a byte
  const size_t wayStride; ///< entries from one way to the next
  /// While there is room: what came, in the order in which it did, since sets replace what came first. Neighbouring
  /// lines of a page are one of them: the first line * kPageLines + their number - 1.
  Words arrivals;
  static constexpr uint64_t kMostNumbers = (uint64_t(1) << 32) / kPageLines; ///< of lines that arrivals can name
  size_t arrived = 0;
  /// By line, behind the arrivals: dirty sectors << 4 | present sectors.
  uint8_t *const marks;
  bool roomy = true;
  uint64_t furthest = 0; ///< the line behind all that came; beyond `fitting`, lines may have gone
  /// Way after way, each with an entry for every set: (tag + 1) << 8 | dirty sectors << 4 | present sectors; 0: empty.
  /// A tag of 24 bits names more lines than a launch can move.
  Words ways;
  /// The bytes of the ways.
  size_t wayBytes() const { return kWays * wayStride * sizeof(uint32_t); }
  uint8_t *next = nullptr; ///< the way of each set that is filled or replaced next, behind the ways
  /// By page, a bit for each line that was moved before. Most lines of a launch that streams come once: nobody need
  /// look for them.
  std::vector<uint32_t> met;
};

} // namespace flysim

#endif
