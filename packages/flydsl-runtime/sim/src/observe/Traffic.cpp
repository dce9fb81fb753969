//===- Traffic.cpp - what work-groups move through L2 and behind ----------===//

#include "observe/Traffic.h"

#include <algorithm>

namespace flysim {

HostArrays::Part HostArrays::partAround(uint64_t address) const {
  auto next = std::upper_bound(arrays.begin(), arrays.end(), address,
                               [](uint64_t a, const Region &r) { return a < r.lo; });
  if (next == arrays.begin() || address >= std::prev(next)->hi)
    return {next == arrays.begin() ? 0 : std::prev(next)->hi,
            next == arrays.end() ? ~uint64_t(0) : next->lo, 0};
  auto it = std::prev(next);
  // Above every address of the host; no array is as long as the distance.
  auto index = static_cast<uint64_t>(it - arrays.begin());
  return {it->lo, it->hi, (uint64_t(1) << 62) + (index << 46) + (it->lo & 15) - it->lo};
}

Traffic::Source &Traffic::source() {
  std::lock_guard<std::mutex> lock(mutex);
  return sources.emplace_back();
}

void Traffic::begin(Source &s, uint64_t linear) {
  if (s.ends.empty()) {
    s.moves.clear();
    s.first = linear;
  } else if (s.first + s.ends.size() != linear) {
    hand(s);
    s.first = linear;
  }
}

void Traffic::end(Source &s) {
  s.ends.push_back(s.moves.size());
  if (s.moves.size() >= kManyMoves || s.ends.size() >= kManyGroups)
    hand(s);
}

void Traffic::apply(uint64_t linear, LineMove *from, LineMove *to) {
  for (LineMove *m = from; m != to; ++m) {
    m->line = pages.renumber(m->line);
    absent[m->inst] += cache.touch(*m, 0, m->count).sectors;
  }
  if (dies)
    dies->add(linear, from, to);
}

void Traffic::apply(Source &s) {
  LineMove *const moves = s.moves.data();
  size_t from = 0;
  for (size_t end : s.ends) {
    apply(s.first++, moves + from, moves + end);
    from = end;
  }
  if (from < s.moves.size())
    apply(s.first, moves + from, moves + s.moves.size());
  s.ends.clear();
  s.moves.clear();
}

void Traffic::applyUnlocked(std::unique_lock<std::mutex> &lock, Source &s) {
  lock.unlock();
  try {
    apply(s);
  } catch (...) { // the host has no memory: nobody may wait for this thread
    lock.lock();
    applying = false;
    caughtUp.notify_all();
    throw;
  }
  lock.lock();
}

void Traffic::hand(Source &s) {
  std::unique_lock<std::mutex> lock(mutex);
  if (applying || s.first != next) {
    held += s.moves.size();
    const size_t moves = s.moves.size();
    const uint64_t behind = s.first + s.ends.size();
    waiting.emplace(s.first, std::move(s));
    if (spare.empty()) { // work-groups mostly move as much as those before them
      s = Source();
      s.moves.reserve(moves);
    } else {
      s = std::move(spare.back());
      spare.pop_back();
    }
    s.first = behind;
    // The caches follow one after the other what many threads move.
    caughtUp.wait(lock, [this] { return !applying || held < kMostHeld; });
    return;
  }
  applying = true;
  applyUnlocked(lock, s);
  next = s.first;
  while (!waiting.empty() && waiting.begin()->first == next) {
    Source later = std::move(waiting.extract(waiting.begin()).mapped());
    held -= later.moves.size();
    applyUnlocked(lock, later);
    next = later.first;
    spare.push_back(std::move(later));
    caughtUp.notify_all();
  }
  applying = false;
  caughtUp.notify_all();
}

void Traffic::drain(Source &s) {
  if (!s.ends.empty()) {
    const auto end = s.moves.begin() + static_cast<ptrdiff_t>(s.ends.back());
    std::vector<LineMove> running(end, s.moves.end());
    s.moves.erase(end, s.moves.end());
    hand(s);
    s.moves.insert(s.moves.end(), running.begin(), running.end());
  }
  std::unique_lock<std::mutex> lock(mutex);
  if (applying || s.first != next)
    return;
  applying = true;
  applyUnlocked(lock, s);
  applying = false;
  caughtUp.notify_all();
}

void Traffic::finish() {
  std::lock_guard<std::mutex> lock(mutex);
  for (Source &s : sources)
    if (!s.ends.empty()) {
      s.moves.erase(s.moves.begin() + static_cast<ptrdiff_t>(s.ends.back()), s.moves.end());
      waiting.emplace(s.first, std::move(s));
    }
  sources.clear();
  for (auto &later : waiting)
    apply(later.second);
  waiting.clear();
  if (dies)
    dies->flush();
}

} // namespace flysim
