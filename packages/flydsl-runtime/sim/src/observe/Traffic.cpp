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
    absent[m.inst] += cache.touch(m, 0, m.count);
  }
  if (dies)
    dies->add(linear, moves);
  moves.clear();
}

void Traffic::end(uint64_t linear, std::vector<LineMove> &moves) {
  std::lock_guard<std::mutex> lock(mutex);
  if (linear != next) {
    const auto place = static_cast<size_t>(linear - next - 1);
    if (place >= waiting.size())
      waiting.resize(place + 1);
    waiting[place].ended = true;
    waiting[place].moves.swap(moves);
    if (!spare.empty()) {
      moves.swap(spare.back());
      spare.pop_back();
    }
    return;
  }
  apply(linear, moves);
  for (++next; !waiting.empty(); ++next) {
    Later first = std::move(waiting.front());
    waiting.pop_front();
    if (!first.ended)
      break;
    apply(next, first.moves);
    spare.push_back(std::move(first.moves));
  }
}

void Traffic::drain(uint64_t linear, std::vector<LineMove> &moves) {
  std::lock_guard<std::mutex> lock(mutex);
  if (linear == next)
    apply(linear, moves);
}

void Traffic::finish() {
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t linear = next;
  for (Later &later : waiting) {
    ++linear;
    if (later.ended)
      apply(linear, later.moves);
  }
  waiting.clear();
  if (dies)
    dies->flush();
}

} // namespace flysim
