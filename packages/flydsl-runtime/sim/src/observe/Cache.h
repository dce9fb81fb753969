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

/// Sectors of one line that an instruction moves.
struct LineMove {
  uint64_t line;
  uint32_t inst;
  uint8_t sectors;
  bool write;
};

/// First-level vector cache of one compute unit: least recently used, one thread.
class L1Cache {
public:
  explicit L1Cache(unsigned bytes);
  /// True if the line is present; it is afterwards.
  bool touch(uint64_t line);
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
  /// Marks sectors of a line (bit per sector); returns those that were absent. With
  /// `write`, returns the sectors that became dirty now.
  unsigned touch(uint64_t line, unsigned sectors, bool write);

private:
  static constexpr unsigned kWays = 8;
  struct Unmap {
    size_t bytes;
    void operator()(uint64_t *p) const;
  };
  const uint64_t sets, wayStride; ///< stride: entries from one way to the next
  const size_t size;              ///< bytes that are mapped
  /// Way after way, each with an entry for every set: (line + 1) << 8 | dirty sectors << 4 |
  /// present sectors; 0: empty. A set fills its ways in order, so that a launch which does not fill
  /// the cache touches the first of them alone, at neighbouring places for neighbouring lines. Pages
  /// that are never touched are never mapped: a small launch pays for little.
  std::unique_ptr<uint64_t, Unmap> ways;
  uint8_t *next; ///< victim of each set, behind the ways
};

} // namespace flysim

#endif
