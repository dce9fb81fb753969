//===- Traffic.cpp - what work-groups move through L2 and behind ----------===//

#include "observe/Traffic.h"

#include "observe/TimingTable.h"

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

namespace {
/// Those that no launch has.
struct Unused {
  std::mutex mutex;
  std::vector<std::unique_ptr<Traffic>> list;
  static Unused &instance() {
    static auto *unused = new Unused;
    return *unused;
  }
};
/// So many are kept: of a launch, and of one beside it.
constexpr size_t kMostUnused = 2;
} // namespace

Traffic::Traffic(const ArchInfo &arch) : arch(arch), cache(timingTable(arch).sharedCacheBytes) {}

Traffic::Lease Traffic::take(const ArchInfo &arch, size_t instructions, uint64_t resident) {
  Lease lease;
  {
    Unused &unused = Unused::instance();
    std::lock_guard<std::mutex> lock(unused.mutex);
    auto mine = std::find_if(unused.list.begin(), unused.list.end(), [&](const auto &t) { return &t->arch == &arch; });
    if (mine != unused.list.end()) {
      lease.reset(mine->release());
      unused.list.erase(mine);
    }
  }
  if (!lease)
    lease.reset(new Traffic(arch));
  lease->begin(instructions, resident);
  return lease;
}

void Traffic::GiveBack::operator()(Traffic *t) const noexcept {
  std::unique_ptr<Traffic> mine(t);
  mine->release();
  Unused &unused = Unused::instance();
  std::lock_guard<std::mutex> lock(unused.mutex);
  if (unused.list.size() == kMostUnused)
    unused.list.erase(unused.list.begin());
  try {
    unused.list.push_back(std::move(mine));
  } catch (const std::bad_alloc &) { // the next launch makes another one
  }
}

void Traffic::begin(size_t instructions, uint64_t resident) {
  const TimingTable &t = timingTable(arch);
  followed = resident != 0;
  if (followed) {
    if (!dies)
      dies = std::make_unique<DieCaches>(t.dies, t.dieCacheBytes, t.sharedCacheBytes);
    dies->begin(resident, instructions);
  }
  cache.clear();
  absent.assign(instructions, 0);
  applying = false;
  next = held = 0;
  waiting.clear();
  sources.clear();
  pages.clear();
}

void Traffic::release() {
  if (dies)
    dies->release();
  constexpr size_t kMostSpare = 64, kMostKept = size_t(1) << 14; ///< and moves of each
  if (spare.size() > kMostSpare)
    spare.resize(kMostSpare);
  for (Source &s : spare)
    if (s.moves.capacity() > kMostKept)
      s = Source();
}

Traffic::Source &Traffic::source() {
  std::lock_guard<std::mutex> lock(mutex);
  if (spare.empty())
    return sources.emplace_back();
  sources.push_back(std::move(spare.back()));
  spare.pop_back();
  return sources.back();
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
  size_t lines = 0;
  for (LineMove *m = from; m != to; ++m) {
    lines += m->count;
    m->line = pages.renumber(m->line);
    absent[m->inst] += cache.touch(*m, 0, m->count).sectors;
  }
  if (followed)
    dies->add(linear, from, to, lines);
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
    } else {
      s.moves.clear();
      spare.push_back(std::move(s));
    }
  sources.clear();
  for (auto &later : waiting) {
    apply(later.second);
    spare.push_back(std::move(later.second));
  }
  waiting.clear();
  if (followed)
    dies->flush();
}

} // namespace flysim
