//===- Cache.h - tag-only caches -------------------------------*- C++ -*-===//
//
// Which lines a launch fetches at each level. Tags only: data always comes from
// memory. Lines are 128 bytes, in sectors of 32 bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_CACHE_H
#define FLYSIM_OBSERVE_CACHE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace flysim {

constexpr unsigned kLineBytes = 128, kSectorBytes = 32;
constexpr unsigned kSectorsOfLine = kLineBytes / kSectorBytes;
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

/// The moves of one instruction, line after line. It keeps the last of them apart from the list, so that the fields
/// stay in registers: read back whole, what was just written in parts stalls the host.
class MovesOf {
public:
  MovesOf(std::vector<LineMove> &moves, size_t inst, bool write)
      : moves(moves), inst(static_cast<uint32_t>(inst)), write(write) {}
  ~MovesOf() { close(); }
  void add(uint64_t line, unsigned sectors) {
    if (line % kPageLines == 0 || line != first + count || sectors != same) {
      close();
      first = line;
      count = 0;
      same = sectors;
    }
    ++count;
  }

private:
  void close() {
    if (count)
      moves.push_back({first, inst, static_cast<uint16_t>(count), static_cast<uint8_t>(same), write});
  }
  std::vector<LineMove> &moves;
  const uint32_t inst;
  const bool write;
  uint64_t first = 0;
  unsigned count = 0, same = 0; ///< lines of the last move, and their sectors
};

/// First-level vector cache of one compute unit: least recently used, one thread.
class L1Cache {
public:
  explicit L1Cache(unsigned bytes);
  /// True if the line is present; it is afterwards.
  bool touch(uint64_t line) {
    uint64_t *set = &tags[size_t(line & (sets - 1)) * kWays];
    // The line comes to the front, and those that were before it go one place back.
    uint64_t next = line;
    for (unsigned way = 0; way < kWays; ++way) {
      const uint64_t here = set[way];
      set[way] = next;
      if (here == line)
        return true;
      next = here;
    }
    return false;
  }
  void clear();

private:
  static constexpr unsigned kWays = 4;
  std::vector<uint64_t> tags; ///< kWays per set, most recent first
  unsigned sets;
};

/// A cache that compute units share: the L2 of a die, or all that lies before the memory (L2 and memory-side cache).
class SharedCache {
public:
  explicit SharedCache(uint64_t bytes);
  /// Marks the sectors of `count` of the lines that are moved, from number `from` on; returns how many sectors were
  /// absent. Of a write those count that became dirty now.
  unsigned touch(const LineMove &move, unsigned from, unsigned count);

private:
  static constexpr unsigned kWays = 8;
  /// Neighbouring lines whose sets are looked at together: so many 32-bit words has a vector of every host.
  static constexpr unsigned kTogether = 4;
  /// What a move asks of each of its lines. They are of one page, so that they have one tag.
  struct Request {
    uint32_t tag, sectors, bits;
    unsigned marks; ///< where an entry has the sectors that are not absent
  };
  /// The absent sectors of the line whose set is `index`.
  unsigned touchOne(const Request &r, size_t index);
  /// The same of the `kTogether` lines whose sets start at `index`, if all have or get the same way;
  /// false, with nothing done, if not.
  bool touchTogether(const Request &r, size_t index, unsigned &absent);

  struct Release {
    size_t bytes;
    void operator()(uint32_t *p) const;
  };
  const unsigned setBits; ///< logarithm of the number of sets
  const size_t wayStride; ///< entries from one way to the next
  const size_t size;      ///< bytes that they take
  /// Way after way, each with an entry for every set: (tag + 1) << 8 | dirty sectors << 4 | present sectors; 0: empty.
  /// Lines are numbered as they are met, so that a tag of 24 bits names more of them than a launch can move. A set
  /// fills its ways in order, so that a launch which does not fill the cache touches the first of them alone, at
  /// neighbouring places for neighbouring lines. What is never touched of a large cache is never mapped: a small launch
  /// pays for little.
  std::unique_ptr<uint32_t, Release> ways;
  uint8_t *victims; ///< the way of each full set that is replaced next, behind the ways
};

} // namespace flysim

#endif
