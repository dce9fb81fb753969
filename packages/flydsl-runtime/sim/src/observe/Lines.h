//===- Lines.h - the lines that an access touches --------------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_LINES_H
#define FLYSIM_OBSERVE_LINES_H

#include "observe/Access.h"
#include "observe/Cache.h"
#include "observe/Traffic.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace flysim {

/// Neighbouring lines of which an access touches the same sectors.
struct LineStretch {
  uint64_t line; ///< the first of them
  unsigned count, sectors;
};

/// The distinct lines of one access and, per line, its sectors, in the order of the lanes. Addresses of the host
/// become places on a device (HostArrays).
class Lines {
public:
  explicit Lines(const HostArrays &arrays) : arrays(arrays) {}
  void clear() { count = 0, behind = 0; }
  /// Adds what the lanes of `a` touch.
  void add(const MemoryAccess &a);
  /// Adds sectors of the line at a place.
  void addSectors(uint64_t line, unsigned sectors);

  /// The lines of an access as seen from the place of an address.
  struct Shape {
    uint64_t low = 0; ///< the place's position in its line
    unsigned count = 0;
    std::vector<LineStretch> stretches; ///< their lines as distances, modulo 2^64
  };
  /// After the last addition: the lines are those that were added. `whole`: with all of their sectors, since loads fill
  /// whole lines.
  void gather(bool whole);
  /// The lines are those of `shape` around `place`, which must have the same position in its line. The shape must
  /// live as long as they are asked for.
  void set(uint64_t place, const Shape &shape) { place0 = place / kLineBytes, now = &shape; }
  /// The shape of the lines, seen from `place`.
  void keep(uint64_t place, Shape &shape) const;

  unsigned size() const { return now->count; }
  /// Their lines are distances from `origin`, modulo 2^64.
  const std::vector<LineStretch> &stretches() const { return now->stretches; }
  uint64_t origin() const { return place0; }

  /// The place of `address`; false if [from, to) lies in more than one array. `part` is the one that the caller met
  /// last: an instruction mostly stays in one array.
  bool placeOf(uint64_t address, uint64_t from, uint64_t to, HostArrays::Part &part, uint64_t &place) const;

private:
  /// Adds the sectors of [from, to), at their places.
  void touch(uint64_t from, uint64_t to);

  static constexpr unsigned kMost = 256; // 64 lanes of 64 bytes, at any alignment
  const HostArrays &arrays;
  HostArrays::Part part; ///< the one that was accessed last
  uint64_t lines[kMost], behind = 0; ///< the first line behind all that were added
  unsigned masks[kMost], count = 0;
  Shape gathered;               ///< of those, at their lines
  const Shape *now = &gathered; ///< the lines of the access, as distances from this one:
  uint64_t place0 = 0;
};

/// The lines of global and buffer accesses by whole waves. Lanes mostly have the distances from each other that
/// they had when the instruction ran before: the same lines, somewhere else.
class LinePatterns {
public:
  explicit LinePatterns(size_t instructions) : memos(instructions) {}
  /// Sets `lines` to those that `inst`, number `index`, is about to access on `wave`. False, with nothing known of
  /// them, if not all lanes of the wave access memory, or not by 32-bit offsets from one address.
  bool find(size_t index, Wave &wave, const Inst &inst, const InstInfo &info, Lines &lines);

private:
  struct Memo {
    HostArrays::Part part; ///< the array that was accessed last
    LanePattern pattern;
    uint32_t below = 0, above = 0; ///< how far the lowest and the highest offset are from the first lane's
    /// By the sector of a line in which the first lane's address lies: waves that go on in other columns of a tile
    /// have the same offsets, and other lines.
    Lines::Shape shapes[kSectorsOfLine];
  };
  std::vector<std::unique_ptr<Memo>> memos;
};

} // namespace flysim

#endif
