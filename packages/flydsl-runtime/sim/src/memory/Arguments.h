//===- Arguments.h - the arrays that a launch was given --------*- C++ -*-===//
//
// A program may say which arrays the next launch gets, with their names. Faults and findings
// then speak of "Y (float32[4,64]) + 70 elements" rather than of an address.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_MEMORY_ARGUMENTS_H
#define FLYSIM_MEMORY_ARGUMENTS_H

#include <cstdint>
#include <string>
#include <vector>

/// One array as flysimLaunchArguments takes it; everything is copied. Shape and strides (in
/// elements) have `rank` entries.
struct FlysimArgument {
  const char *name, *type;
  const void *base; ///< the element at coordinate 0
  uint32_t itemBytes, rank;
  const int64_t *shape, *strides;
};

namespace flysim {

/// An array of a launch.
class LaunchArgument {
public:
  explicit LaunchArgument(const FlysimArgument &given);

  const std::string &label() const { return name; }
  /// "Y (float32[4,64])", with the strides where they are not those of a dense array.
  std::string text() const;
  /// "Y (float32[64]) + 64 elements": where an address is, seen from the first element.
  std::string place(uint64_t address) const;
  /// "past the end of Y", "before the start of Y", "between the rows of Y" or "in Y".
  std::string relation(uint64_t address, unsigned bytes) const;
  /// Bytes between the array's memory and an address; 0 inside.
  uint64_t distance(uint64_t address) const;
  /// True if some byte lies between elements that are not adjacent (padding of rows).
  bool inGap(uint64_t address, unsigned bytes) const;
  bool hasGaps() const { return gaps; }

  uint64_t low = 0, high = 0; ///< the bytes from the lowest element to the highest, half open

private:
  std::string name, type;
  uint64_t base;
  uint32_t itemBytes;
  std::vector<int64_t> shape, strides;
  struct Mode {
    int64_t extent, stride; ///< stride positive, in elements
  };
  std::vector<Mode> modes; ///< without those of one element or stride 0, largest stride first
  bool gaps = false;
};

/// The array that an access is about: the one that holds `hint` (the scalar base address of the
/// access, or 0), else the nearest. Null if none is near.
const LaunchArgument *argumentOf(const std::vector<LaunchArgument> &arguments, uint64_t address,
                                 uint64_t hint);

} // namespace flysim

#endif
