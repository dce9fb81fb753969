//===- GroupProgress.cpp - waves that do not get on -----------------------===//
//
// A wave may wait for memory that another one writes: it goes round a loop that changes nothing. Such waves get short
// turns, and a launch in which all waves do so for ever ends with an error.
//
//===----------------------------------------------------------------------===//

#include "exec/GroupRunner.h"

#include <algorithm>
#include <iterator>

namespace flysim {

namespace {

/// Instructions of the longest loop in which a wave is taken to wait for memory.
constexpr uint32_t kSpinLoop = 128;
/// Turns of the longest loop of a group that is looked at for changing nothing; those of a random schedule are short.
constexpr unsigned kLongestRound = 8, kLongestRandomRound = 4096;
/// Instructions of the longest way through a loop that is looked at for changing nothing.
constexpr size_t kLongestLoop = 4096;

uint64_t hash(const uint32_t *data, size_t count, uint64_t seed) {
  for (size_t k = 0; k < count; ++k)
    seed = (seed ^ data[k]) * 0x9e3779b97f4a7c15ull;
  return seed ^ seed >> 32;
}

} // namespace

/// True when the wave, in a short loop, has come back to where it was with the same
/// registers: it does nothing until others write the memory that it reads. Runs some
/// instructions to find the place in the loop again.
bool GroupRunner::spins(Wave &w, Place &p) {
  auto scalars = [&] { return hash(w.s, kSink, w.scc); };
  if (w.pc - p.pc + kSpinLoop > 2 * kSpinLoop) {
    p = Place{w.pc, scalars()};
    return false;
  }
  for (unsigned n = 0; n < kSpinLoop && w.pc != p.pc; ++n) {
    runOne(w);
    ++w.executed;
    if (w.state != WaveState::Running)
      return false;
  }
  uint64_t now = scalars();
  if (w.pc != p.pc || now != p.scalars) {
    p = Place{w.pc, now};
    return false;
  }
  if (p.spins)
    return true;
  uint64_t vectors = hash(w.v, size_t(usedRows) * kRow, 1);
  std::swap(p.vectors, vectors);
  return p.vectors == vectors;
}

void GroupRunner::runWatched(Wave &w) {
  round.known &= loops.known(w.pc);
  stores->before(w, w.pc);
  runOne(w);
  stores->after(w);
}

uint64_t GroupRunner::stateOfWaves() const {
  uint64_t state = 0;
  for (const Wave &w : waves) {
    const uint32_t others[] = {w.pc, w.scc, w.mode, w.barrierDone, static_cast<uint32_t>(w.barrierWait),
                               static_cast<uint32_t>(w.state)};
    state = hash(others, std::size(others), state);
    state = hash(w.s, kSink, state);
    state = hash(w.v, size_t(usedRows) * kRow, state);
  }
  return state;
}

/// Looks whether all waves together come back to what they were, and change nothing on the way. To be called after each
/// turn in which a barrier was released or instructions were watched. A look ends with the first change.
void GroupRunner::lookAtRound(bool released) {
  round.releases += released;
  if (!round.watched) {
    if (round.releases < (d.stuckSeen ? kSoonRound : round.nextLook))
      return;
    if (!stores)
      stores = std::make_unique<StoreWatch>(*d.program);
    stores->take();
    const unsigned next = round.nextLook;
    round = Round();
    round.nextLook = next;
    round.state = stateOfWaves();
    round.watched = true;
    return;
  }
  const bool same = !stores->take() && round.known;
  if (same && released && (!round.period || round.period == round.releases) && stateOfWaves() == round.state) {
    round.period = round.releases;
    round.turns = round.releases = 0;
    round.stuck = true;
    d.stuckSeen = true;
    return;
  }
  const bool before = !round.period || round.releases < round.period;
  if (same && before && ++round.turns < (random ? kLongestRandomRound : kLongestRound))
    return;
  const unsigned next = std::min(2 * round.nextLook, 1u << 30);
  round = Round();
  round.nextLook = next;
}

/// Runs the wave until it comes to `head` again, with the instructions in `path`. False if it does
/// not, or stops.
bool GroupRunner::walkLoop(Wave &w, uint32_t head, std::vector<uint32_t> &path) {
  path.clear();
  do {
    if (path.size() == kLongestLoop)
      return false;
    path.push_back(w.pc);
    runWatched(w);
    ++w.executed;
    if (w.state == WaveState::Yield)
      w.state = WaveState::Running; // sleeping is part of waiting
    if (w.state != WaveState::Running)
      return false;
  } while (w.pc != head);
  return true;
}

/// True if the wave's loop repeats itself: the same way twice, from the same registers as far as they
/// matter on that way.
bool GroupRunner::loopsForEver(Wave &w) {
  if (w.msb[0] | w.msb[1] | w.msb[2] | w.msb[3])
    return false;
  if (!stores)
    stores = std::make_unique<StoreWatch>(*d.program);
  stores->take();
  std::vector<uint32_t> first, second, registers;
  const uint32_t head = w.pc;
  bool keeps;
  if (!walkLoop(w, head, first) || !loops.needed(first, registers, keeps))
    return false;
  uint64_t before = LoopState::hash(w, registers);
  if (!walkLoop(w, head, second) || first != second || LoopState::hash(w, registers) != before)
    return false;
  // Both rounds: in the first one a store would show what others have written since the last look.
  return !stores->take() || !keeps;
}

bool GroupRunner::stuck() const {
  if (round.stuck)
    return true;
  bool any = false;
  for (size_t k = 0; k < waves.size(); ++k) {
    any |= places[k].stuck;
    if (!places[k].stuck && waves[k].state != WaveState::Ended && waves[k].state != WaveState::AtBarrier)
      return false;
  }
  return any;
}

} // namespace flysim
