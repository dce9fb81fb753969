//===- Cache.h - tag-only caches -------------------------------*- C++ -*-===//
//
// Which lines a launch fetches at each level. Tags only: data always comes from
// memory. Lines are 128 bytes, in sectors of 32 bytes.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_OBSERVE_CACHE_H
#define FLYSIM_OBSERVE_CACHE_H

#include <cstdint>
#include <cstdlib>
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
  static constexpr unsigned kWays = 8; ///< one line of the host's cache for each set
  struct Free {
    void operator()(void *p) const { ::free(p); }
  };
  // Pages that no launch touches are never mapped: a small launch pays for little.
  std::unique_ptr<uint8_t[], Free> memory;
  /// In `memory`, on a line of the host's cache: (line + 1) << 8 | dirty sectors << 4 |
  /// present sectors; 0: empty.
  uint64_t *ways;
  std::unique_ptr<uint8_t[], Free> next; ///< victim of each set
  uint64_t sets;
};

} // namespace flysim

#endif
