//===- Port.h - what serves one request at a time -----------------*- C++ -*-===//

#ifndef FLYSIM_OBSERVE_PORT_H
#define FLYSIM_OBSERVE_PORT_H

#include <algorithm>
#include <deque>

namespace flysim {

/// Clocks from the first to the one behind the last.
struct Interval {
  double from = 0, to = 0;
};

/// What serves one request at a time: the LDS, a cache, the memory.
class Port {
public:
  /// Serves an access that arrives `from` this clock on, behind those before it and around what is
  /// reserved.
  Interval take(double from, double clocks) {
    Interval got{std::max(from, free), 0};
    free = got.from;
    for (; !reserved.empty() && reserved.front().from < free + clocks; reserved.pop_front()) {
      clocks -= std::max(0.0, reserved.front().from - free);
      free = std::max(free, reserved.front().to);
    }
    free += clocks;
    got.to = free;
    return got;
  }

  /// Keeps the first stretch of `clocks` from `from` on for what arrives only then. Accesses that arrive
  /// until then are served first: the port does not wait.
  Interval reserve(double from, double clocks) {
    from = std::max(from, free);
    auto next = reserved.begin();
    for (; next != reserved.end() && next->from < from + clocks; ++next)
      from = std::max(from, next->to);
    return *reserved.insert(next, {from, from + clocks});
  }

  /// When all accesses that were taken are served.
  double freeFrom() const { return free; }

private:
  double free = 0;
  std::deque<Interval> reserved; ///< in order, without overlap
};

} // namespace flysim

#endif // FLYSIM_OBSERVE_PORT_H
