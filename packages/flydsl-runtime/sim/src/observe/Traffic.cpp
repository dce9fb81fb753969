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

void Traffic::apply(uint64_t linear, std::vector<LineMove> &moves) {
  for (LineMove &m : moves) {
    m.line = pages.renumber(m.line);
    absent[m.inst] += cache.touch(m, 0, m.count).sectors;
  }
  if (dies)
    dies->add(linear, moves);
  moves.clear();
}

void Traffic::applyUnlocked(std::unique_lock<std::mutex> &lock, uint64_t linear, std::vector<LineMove> &moves) {
  lock.unlock();
  try {
    apply(linear, moves);
  } catch (...) { // the host has no memory: nobody may wait for this thread
    lock.lock();
    applying = false;
    caughtUp.notify_all();
    throw;
  }
  lock.lock();
}

void Traffic::end(uint64_t linear, std::vector<LineMove> &moves) {
  std::unique_lock<std::mutex> lock(mutex);
  if (applying || linear != next) {
    const auto place = static_cast<size_t>(linear - next);
    if (place >= waiting.size())
      waiting.resize(place + 1);
    waiting[place].ended = true;
    waiting[place].moves.swap(moves);
    held += waiting[place].moves.size();
    if (spare.empty()) { // work-groups mostly move as much as those before them
      moves.reserve(waiting[place].moves.size());
    } else {
      moves.swap(spare.back());
      spare.pop_back();
    }
    // The caches follow one after the other what many threads move.
    caughtUp.wait(lock, [this] { return !applying || held < kMostHeld; });
    return;
  }
  applying = true;
  applyUnlocked(lock, linear, moves);
  for (;;) {
    ++next;
    if (!waiting.empty())
      waiting.pop_front();
    if (waiting.empty() || !waiting.front().ended)
      break;
    std::vector<LineMove> later = std::move(waiting.front().moves);
    held -= later.size();
    applyUnlocked(lock, next, later);
    spare.push_back(std::move(later));
    caughtUp.notify_all();
  }
  applying = false;
  caughtUp.notify_all();
}

void Traffic::drain(uint64_t linear, std::vector<LineMove> &moves) {
  std::unique_lock<std::mutex> lock(mutex);
  if (applying || linear != next)
    return;
  applying = true;
  applyUnlocked(lock, linear, moves);
  applying = false;
  caughtUp.notify_all();
}

void Traffic::finish() {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t linear = next;
  for (Later &later : waiting) {
    if (later.ended)
      apply(linear, later.moves);
    ++linear;
  }
  waiting.clear();
  if (dies)
    dies->flush();
}

} // namespace flysim
