//===- Races.cpp - conflicting accesses that nothing orders ---------------===//

#include "check/Races.h"

#include "exec/ExecInline.h"

#include <algorithm>
#include <cstring>

namespace flysim {

namespace {

constexpr uint64_t kLdsBit = uint64_t(1) << 63;
constexpr unsigned kNoLane = 255;

void join(WaveClock &to, const WaveClock &from) {
  for (unsigned k = 0; k < kMaxWaves; ++k)
    to[k] = std::max(to[k], from[k]);
}

} // namespace

bool storedBytes(Wave &w, const Inst &i, const InstInfo &info, unsigned lane, unsigned pair,
                 uint8_t *out) {
  if (!info.store || info.bytes > 16)
    return false;
  bool ds = info.space == MemSpace::Lds;
  const Operand &o = ds ? i.src[1 + pair] : i.data;
  if (o.kind != OperandKind::Vgpr || (i.def && i.def->facts.memory.async))
    return false;
  const uint32_t *r = row(w, o);
  if (info.bytes >= 4) {
    for (unsigned k = 0; k < info.bytes / 4; ++k)
      memcpy(out + 4 * k, &r[k * kRow + lane], 4);
    return true;
  }
  uint32_t v = r[lane];
  if (i.def && i.def->facts.memory.half == Half::High)
    v >>= 16;
  memcpy(out, &v, info.bytes);
  return true;
}

RaceCheck::RaceCheck(const Dispatch &d, SharedAccesses &shared, Findings &findings)
    : d(d), shared(shared), findings(findings),
      plainStoresAreAtomic(d.program->arch->has.scopes == ScopeSyntax::None) {}

void RaceCheck::startGroup(const Workgroup &wg) {
  group = wg.id[0] + d.grid[0] * (wg.id[1] + d.grid[1] * wg.id[2]);
  lds.assign((wg.ldsSize + 3) / 4, AccessCells());
  ldsReads.assign(lds.size() * wg.numWaves, AccessCell());
  waves.assign(wg.numWaves, WaveState());
  for (unsigned k = 0; k < wg.numWaves; ++k)
    waves[k].clock[k] = 1;
  barrier[0] = barrier[1] = named = WaveClock{};
  atomics.clear();
  objects.clear();
  std::lock_guard<std::mutex> lock(shared.mutex);
  order = &shared.groups[group];
}

void RaceCheck::tick(unsigned wave) { ++waves[wave].clock[wave]; }

void RaceCheck::signal(const Wave &w, bool whole) {
  WaveState &s = waves[w.id];
  join(whole ? barrier[s.generation & 1] : named, s.clock);
  tick(w.id);
}

void RaceCheck::pass(const Wave &w, bool whole) {
  WaveState &s = waves[w.id];
  join(s.clock, whole ? barrier[s.generation & 1] : named);
  s.generation += whole;
}

void RaceCheck::end(const Wave &w) {
  // An ended wave counts as arrived at the barrier that it would have come to next.
  join(barrier[waves[w.id].generation & 1], waves[w.id].clock);
}

void RaceCheck::clusterBarrier(const Wave &w, bool signals) {
  std::lock_guard<std::mutex> lock(shared.mutex);
  synchronise(w.id, reinterpret_cast<uint64_t>(w.wg->cluster), signals);
  tick(w.id);
}

/// Called with the lock held for global addresses.
void RaceCheck::synchronise(unsigned wave, uint64_t address, bool release) {
  WaveState &s = waves[wave];
  WaveClock &known = atomics[address];
  if (release) {
    join(known, s.clock);
  } else {
    join(s.clock, known);
  }
  if (address & kLdsBit) {
    auto object = release ? objects.end() : objects.find(address & ~kLdsBit);
    if (object == objects.end())
      return;
    for (const Arrival &a : object->second)
      if (uint32_t &ended = waves[a.wave].ended[a.transfer]; !ended)
        ended = a.clock;
    object->second.clear();
    return;
  }
  if (release) {
    order->releases.push_back(++shared.next);
    shared.released[address] = shared.next;
  } else if (auto it = shared.released.find(address); it != shared.released.end()) {
    order->acquired = std::max(order->acquired, it->second);
  }
}

/// The wave arrives at the barrier object, with those of its transfers that count there and are the
/// `first` of the pending ones or later.
void RaceCheck::arrive(const Wave &w, uint64_t at, Counter transfers, size_t first) {
  auto [object, fresh] = objects.try_emplace(at);
  if (fresh) // who has read it was waiting for this
    for (uint64_t n = at / 4; n < std::min<uint64_t>(at / 4 + 2, lds.size()); ++n)
      std::fill_n(ldsReads.begin() + static_cast<ptrdiff_t>(n * waves.size()), waves.size(), AccessCell());
  WaveState &s = waves[w.id];
  for (size_t n = first; n < s.pending.size(); ++n)
    if (s.pending[n].counter == transfers)
      object->second.push_back({w.id, s.pending[n].transfer, s.clock[w.id]});
  synchronise(w.id, at | kLdsBit, true);
  tick(w.id);
}

bool RaceCheck::ordered(const AccessCell &c, uint32_t wave) {
  if (c.transfer) {
    uint32_t ended = waves[c.wave].ended[c.clock];
    return ended && (c.wave == wave || ended <= waves[wave].clock[c.wave]);
  }
  if (c.group == group)
    return c.wave == wave || c.clock <= waves[wave].clock[c.wave];
  auto it = shared.groups.find(c.group);
  if (it == shared.groups.end())
    return true;
  const std::vector<uint64_t> &r = it->second.releases;
  return r.size() > c.releases && r[c.releases] <= order->acquired;
}

void RaceCheck::tell(Wave &w, const Inst &i, unsigned lane, bool write, const AccessCell &c,
                     uint64_t at, bool inLds) {
  Site other;
  other.inst = c.inst;
  other.group[0] = c.group % d.grid[0];
  other.group[1] = c.group / d.grid[0] % d.grid[1];
  other.group[2] = c.group / d.grid[0] / d.grid[1];
  other.wave = c.wave;
  other.lane = c.lane;
  other.what = c.atomic ? "atomic" : c.write ? "write" : "read";
  bool across = c.group != group;
  std::string place = format(inLds ? "LDS offset %llu" : "address 0x%llx", (unsigned long long)at);
  Allocation a;
  if (!inLds && AddressSpace::instance().find(at, a))
    place += " (" + AddressSpace::instance().describe(at) + ")";
  Site site = siteOf(w, i, static_cast<int>(lane), write ? "write" : "read");
  // Scalar loads and tensor moves belong to no lane.
  site.lane = lane == kNoLane ? -1 : site.lane;
  other.lane = c.lane == kNoLane ? -1 : other.lane;
  const char *lacks = across       ? "no atomic operation that orders the work-groups"
                      : running(c) ? "no wait for its end"
                                   : "no barrier in between";
  findings.add(FaultKind::Trap, "race",
               format("%s at %s, which %s by %s with %s", write ? "write" : "read",
                      place.c_str(), c.write ? "was written" : "was read",
                      findings.describe(other, across).c_str(),
                      lacks),
               site, Place{inLds ? "lds" : "global", at, 4}, &other);
}

void RaceCheck::touch(Wave &w, const Inst &i, AccessCells &cells, unsigned lane, uint8_t bytes,
                      bool write, bool atomic, uint64_t at, bool inLds, uint32_t transfer) {
  AccessCell *place = nullptr;
  for (AccessCell &c : cells.cell) {
    if (!c.inst) {
      place = place ? place : &c;
      continue;
    }
    bool mine = c.group == group && c.wave == w.id && (transfer || !running(c));
    if (mine && c.write == write && c.atomic == atomic && (bytes & c.bytes) == c.bytes)
      place = &c;
    if (mine || !(c.bytes & bytes) || !(write || c.write) || bothAtomic(c, write, atomic) ||
        ordered(c, w.id))
      continue;
    tell(w, i, lane, write, c, at, inLds);
  }
  if (!place) {
    // Something has to go: what is ordered before this access, else the oldest place.
    place = &cells.cell[at / 4 & 3];
    for (AccessCell &c : cells.cell)
      if ((!c.write || write) && ordered(c, w.id))
        place = &c;
  }
  *place = AccessCell{&i,   group, transfer ? transfer : waves[w.id].clock[w.id],
                      inLds ? 0u : static_cast<uint32_t>(order->releases.size()),
                      static_cast<uint8_t>(w.id), static_cast<uint8_t>(lane), bytes, write, atomic,
                      transfer != kNoTransfer};
}

void RaceCheck::touchLds(Wave &w, const Inst &i, unsigned lane, uint8_t bytes, bool write,
                         bool atomic, uint64_t at, uint32_t transfer) {
  size_t n = at / 4;
  AccessCell *reads = &ldsReads[n * waves.size()];
  // The transfers of a wave are done in order.
  auto mine = [&](const AccessCell &c) { return c.wave == w.id && (transfer || !running(c)); };
  if (write) {
    for (unsigned k = 0; k < waves.size(); ++k)
      if (reads[k].inst && !mine(reads[k]) && (reads[k].bytes & bytes) && !(atomic && reads[k].atomic) &&
          !ordered(reads[k], w.id))
        tell(w, i, lane, true, reads[k], at, true);
    touch(w, i, lds[n], lane, bytes, write, atomic, at, true, transfer);
    return;
  }
  for (const AccessCell &c : lds[n].cell)
    if (c.inst && c.write && !mine(c) && (c.bytes & bytes) && !(atomic && c.atomic) &&
        !ordered(c, w.id))
      tell(w, i, lane, false, c, at, true);
  AccessCell &own = reads[w.id];
  if (own.inst && running(own) && !transfer)
    return; // the transfer may read later than this
  uint32_t clock = transfer ? transfer : waves[w.id].clock[w.id];
  bool same = own.clock == clock && own.transfer == (transfer != kNoTransfer);
  own = AccessCell{&i, group, clock, 0, static_cast<uint8_t>(w.id), static_cast<uint8_t>(lane),
                   static_cast<uint8_t>(bytes | (same ? own.bytes : 0)), false, atomic,
                   transfer != kNoTransfer};
}

void RaceCheck::counters(const Wave &w, const InstInfo &info) {
  WaveState &s = waves[w.id];
  for (size_t n = 0; n < s.pending.size();) {
    const WaveState::Pending &p = s.pending[n];
    auto k = static_cast<size_t>(p.counter);
    if (info.wait[k] == kNoWait || p.number + info.wait[k] > s.issued[k]) {
      ++n;
      continue;
    }
    if (uint32_t &ended = s.ended[p.transfer]; !ended)
      ended = s.clock[w.id];
    s.pending.erase(s.pending.begin() + static_cast<ptrdiff_t>(n));
  }
  if (info.counter != Counter::Count)
    ++s.issued[static_cast<size_t>(info.counter)];
}

void RaceCheck::moves(Wave &w, const Inst &i, const InstInfo &info, const std::vector<LdsMove> &list) {
  WaveState &s = waves[w.id];
  auto transfer = static_cast<uint32_t>(s.ended.size());
  s.ended.push_back(0);
  s.pending.push_back({transfer, info.counter, s.issued[static_cast<size_t>(info.counter)]});
  bool toLds = !info.store;
  std::lock_guard<std::mutex> lock(shared.mutex);
  auto dwords = [](uint64_t first, unsigned bytes, auto &&f) {
    uint64_t begin = first & ~3ull, count = (first - begin + bytes + 3) / 4;
    for (uint64_t n = 0; n < count; ++n) {
      uint64_t at = begin + 4 * n, left = first - begin + bytes - 4 * n;
      unsigned from = n == 0 ? static_cast<unsigned>(first - begin) : 0;
      unsigned to = left < 4 ? static_cast<unsigned>(left) : 4;
      f(at, static_cast<uint8_t>((1u << to) - (1u << from)));
    }
  };
  for (const LdsMove &m : list) {
    unsigned lane = m.lane < 0 ? kNoLane : static_cast<unsigned>(m.lane);
    if (!m.inside(*w.wg))
      continue;
    dwords(m.lds, m.bytes, [&](uint64_t at, uint8_t bytes) {
      touchLds(w, i, lane, bytes, toLds, false, at, transfer);
    });
    // Private memory belongs to one lane; a store of what is there already changes nothing.
    if (!m.memory || info.space == MemSpace::Scratch)
      continue;
    if (!toLds && w.mem->check(m.memory, m.memoryBytes, true) &&
        memcmp(reinterpret_cast<const void *>(m.memory), w.wg->lds + m.lds, m.memoryBytes) == 0)
      continue;
    dwords(m.memory, m.memoryBytes, [&](uint64_t at, uint8_t bytes) {
      touch(w, i, shared.at(at / 4), lane, bytes, !toLds, false, at, false);
    });
  }
  if (auto object = arrivalOf(w, i, info))
    arrive(w, *object, info.counter, s.pending.size() - 1);
}

void RaceCheck::memory(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access,
                       bool scoped) {
  auto ldsBase = reinterpret_cast<uint64_t>(w.wg->lds);
  std::unique_lock<std::mutex> lock(shared.mutex, std::defer_lock);
  const MemoryFacts &facts = i.def->facts.memory;
  const bool anyAtomic = info.atomic || scoped, write = info.store || info.atomic;
  WaveState &state = waves[w.id];
  // A plain store of one lane may be a signal; others take it for one only by atomic loads. (One for each
  // store of every lane would be more than memory holds.)
  bool one = access.lanes && !(access.lanes & (access.lanes - 1));
  bool mayRelease = plainStoresAreAtomic && info.store && one && (access.bytes == 4 || access.bytes == 8);
  for (uint64_t m = access.lanes; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    for (unsigned k = 0; k < access.count; ++k) {
      uint64_t addr = access.addr[k][l];
      bool inLds = access.ldsSpace;
      if (!inLds && addr - ldsBase < w.wg->ldsSize) {
        inLds = true;
        addr -= ldsBase;
      }
      // Flat instructions reach the wave's private memory by its host address.
      if (!inLds && addr - reinterpret_cast<uint64_t>(w.scratch) < uint64_t(w.scratchPerLane) * w.lanes)
        continue;
      if (!inLds && !lock.owns_lock())
        lock.lock();
      if (inLds && addr + access.bytes > w.wg->ldsSize)
        continue;
      uint64_t cell = addr & ~7ull;
      if (inLds && facts.arrives)
        arrive(w, cell, facts.async ? Counter::Async : Counter::Count, 0);
      bool polls = inLds && info.load && !objects.empty() && objects.count(cell);
      bool atomic = anyAtomic || polls;
      uint8_t value[16];
      bool known = write && !atomic && storedBytes(w, i, info, l, k, value);
      if (known && !inLds)
        known = w.mem->check(addr, access.bytes, true);
      const auto *now = reinterpret_cast<const uint8_t *>(inLds ? ldsBase + addr : addr);
      if (known && memcmp(value, now, access.bytes) == 0)
        continue;
      bool exempt = !inLds && d.service && addr >= d.service->exchange.lo && addr < d.service->exchange.hi;
      // By number, not by address: the last ones have nothing behind them.
      uint64_t first = addr & ~3ull;
      unsigned words = exempt ? 0 : static_cast<unsigned>((addr - first + access.bytes + 3) / 4);
      for (unsigned n = 0; n < words; ++n) {
        uint64_t at = first + 4 * n;
        uint8_t bytes = 0;
        for (unsigned b = 0; b < 4; ++b)
          bytes |= static_cast<uint8_t>((at + b - addr < access.bytes) << b);
        if (inLds)
          touchLds(w, i, l, bytes, write, atomic, at);
        else
          touch(w, i, shared.at(at / 4), info.space == MemSpace::Scalar ? kNoLane : l, bytes, write,
                atomic, at, false);
      }
      bool signals = mayRelease && !inLds;
      if (!atomic && !signals)
        continue;
      uint64_t key = polls ? cell | kLdsBit : inLds ? addr | kLdsBit : addr;
      if (write)
        synchronise(w.id, key, true);
      // An arrival that copies will make gives the wave no state: their end is known from a read of the object.
      if (atomic && !info.store && !(facts.arrives && facts.async))
        state.acquire.push_back(key);
    }
  }
  if (write && (anyAtomic || mayRelease))
    tick(w.id);
}

void RaceCheck::after(Wave &w) {
  WaveState &s = waves[w.id];
  if (s.acquire.empty())
    return;
  std::lock_guard<std::mutex> lock(shared.mutex);
  for (uint64_t key : s.acquire)
    synchronise(w.id, key, false);
  s.acquire.clear();
}

} // namespace flysim
