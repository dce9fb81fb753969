//===- Candidates.h - who issues next ------------------------------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_CANDIDATES_H
#define FLYSIM_OBSERVE_CANDIDATES_H

#include <cstdint>
#include <queue>
#include <vector>

namespace flysim {

/// A candidate issue, ordered by clock, then by priority and age of the wave.
struct Candidate {
  uint64_t at;
  uint64_t turn; ///< of those with one clock, the one with the least goes first
  Candidate() = default;
  /// `priority`: of s_setprio. Waves are numbered by age.
  Candidate(uint64_t at, uint32_t wave, int priority)
      : at(at), turn(uint64_t(INT32_MAX - int64_t(priority)) << 32 | wave) {}
  uint32_t wave() const { return static_cast<uint32_t>(turn); }
  /// True if `o` goes first, of two with one clock.
  bool yieldsTo(const Candidate &o) const { return turn > o.turn; }
  bool operator<(const Candidate &o) const { // priority_queue keeps the largest on top
    // Compared as one number, without a branch: which one is larger, no host can foresee.
    typedef unsigned __int128 Both;
    return (Both(at) << 64 | turn) > (Both(o.at) << 64 | o.turn);
  }
};

/// Candidates, and those that stand in line for the next issue slot of a SIMD and a category of instructions: only the
/// first of a line can get it, so that the others need not be asked each time that it is taken.
class Candidates {
public:
  explicit Candidates(unsigned lines) : lines(lines) {}
  bool empty() const { return queue.empty(); }
  const Candidate &top() const { return queue.top(); }
  void push(const Candidate &c) { queue.push(c); }
  Candidate pop() {
    Candidate c = queue.top();
    queue.pop();
    return c;
  }
  /// `c` was popped, and cannot issue before the slot of a line is free, which is at `c.at`.
  void standInLine(unsigned line, const Candidate &c) {
    Line &l = lines[line];
    if (l.first != kNone && l.first != c.wave() && c.yieldsTo(l.firstCandidate)) {
      l.others.push(c);
      return;
    }
    if (l.first == kNone || l.first == c.wave()) {
      l.first = c.wave();
      l.firstCandidate = c;
    }
    queue.push(c);
  }
  /// `wave` issues, or waits for something else than the slot: if it was the first of the line, another one is, for
  /// the slot that is free at `at`.
  void leaveLine(unsigned line, unsigned wave, uint64_t at) {
    Line &l = lines[line];
    if (l.first != wave)
      return;
    l.first = kNone;
    if (l.others.empty())
      return;
    l.firstCandidate = l.others.top();
    l.others.pop();
    l.firstCandidate.at = at;
    l.first = l.firstCandidate.wave();
    queue.push(l.firstCandidate);
  }

private:
  static constexpr unsigned kNone = ~0u;
  struct Later {
    bool operator()(const Candidate &a, const Candidate &b) const { return a.yieldsTo(b); }
  };
  struct Line {
    unsigned first = kNone; ///< a wave that is a candidate of `queue`
    Candidate firstCandidate{};
    std::priority_queue<Candidate, std::vector<Candidate>, Later> others;
  };
  std::priority_queue<Candidate> queue;
  std::vector<Line> lines;
};

} // namespace flysim

#endif
