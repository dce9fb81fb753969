//===- Arguments.cpp - the arrays that a launch was given -----------------===//

#include "memory/Arguments.h"

#include "support/Error.h"

#include <algorithm>

namespace flysim {

namespace {

/// An address farther than this from every array is about none of them; where there are several, and
/// nothing says which one is meant, the nearest is a guess that only a short distance justifies.
constexpr uint64_t kNear = uint64_t(1) << 30, kNearest = uint64_t(1) << 20;

std::string list(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t v : values)
    text += (text.empty() ? "" : ",") + std::to_string(v);
  return text;
}

bool dense(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides) {
  int64_t expected = 1;
  for (size_t k = shape.size(); k-- > 0; expected *= shape[k])
    if (shape[k] != 1 && strides[k] != expected)
      return false;
  return true;
}

} // namespace

LaunchArgument::LaunchArgument(const FlysimArgument &given)
    : name(given.name ? given.name : "?"), type(given.type ? given.type : "?"),
      base(reinterpret_cast<uint64_t>(given.base)), itemBytes(std::max(1u, given.itemBytes)),
      shape(given.shape, given.shape + given.rank), strides(given.strides, given.strides + given.rank) {
  low = base;
  int64_t count = 1;
  for (size_t k = 0; k < shape.size(); ++k)
    if (shape[k] <= 0)
      count = 0;
  high = low + (count ? itemBytes : 0);
  if (!count)
    return;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 1 || strides[k] == 0)
      continue;
    int64_t reach = (shape[k] - 1) * strides[k] * int64_t(itemBytes);
    (reach < 0 ? low : high) += static_cast<uint64_t>(reach);
    modes.push_back(Mode{shape[k], strides[k] < 0 ? -strides[k] : strides[k]});
    count *= shape[k];
  }
  std::sort(modes.begin(), modes.end(), [](const Mode &a, const Mode &b) { return a.stride > b.stride; });
  gaps = static_cast<uint64_t>(count) * itemBytes < high - low;
}

std::string LaunchArgument::text() const {
  std::string t = name + " (" + type + "[" + list(shape) + "]";
  if (!dense(shape, strides))
    t += " with strides [" + list(strides) + "]";
  return t + ")";
}

std::string LaunchArgument::place(uint64_t address) const {
  bool behind = address >= base;
  uint64_t bytes = behind ? address - base : base - address;
  bool whole = bytes % itemBytes == 0;
  uint64_t n = whole ? bytes / itemBytes : bytes;
  return text() + format(" %c %llu %s%s", behind ? '+' : '-', (unsigned long long)n,
                         whole ? "element" : "byte", n == 1 ? "" : "s");
}

std::string LaunchArgument::relation(uint64_t address, unsigned bytes) const {
  if (address < low)
    return "before the start of " + name;
  if (address + bytes > high)
    return "past the end of " + name;
  return (inGap(address, bytes) ? "between the rows of " : "in ") + name;
}

uint64_t LaunchArgument::distance(uint64_t address) const {
  return address < low ? low - address : address < high ? 0 : address - high;
}

bool LaunchArgument::inGap(uint64_t address, unsigned bytes) const {
  if (!gaps)
    return false;
  for (uint64_t at = address; at < address + bytes; ++at) {
    if (at < low || at >= high)
      continue;
    // Strides of arrays whose modes do not interleave: the largest one decides first.
    int64_t rest = static_cast<int64_t>((at - low) / itemBytes);
    for (const Mode &m : modes)
      rest -= std::min(rest / m.stride, m.extent - 1) * m.stride;
    if (rest != 0)
      return true;
  }
  return false;
}

const LaunchArgument *argumentOf(const std::vector<LaunchArgument> &arguments, uint64_t address,
                                 uint64_t hint) {
  const LaunchArgument *best = nullptr;
  uint64_t near = arguments.size() > 1 ? kNearest : kNear;
  for (const LaunchArgument &a : arguments)
    if (hint && hint >= a.low && hint < a.high)
      return &a;
    else if (a.distance(address) < near && (!best || a.distance(address) < best->distance(address)))
      best = &a;
  return best;
}

} // namespace flysim
