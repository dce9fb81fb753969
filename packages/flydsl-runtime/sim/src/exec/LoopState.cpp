//===- LoopState.cpp - does a loop ever leave? ----------------------------===//

#include "exec/LoopState.h"

#include "decode/Program.h"

#include <atomic>
#include <set>

namespace flysim {

namespace {
std::atomic<uint64_t> ended{0}, now{0};
} // namespace

Turn::Turn() { now.fetch_add(1, std::memory_order_relaxed); }
Turn::~Turn() {
  ended.fetch_add(1, std::memory_order_relaxed);
  now.fetch_sub(1, std::memory_order_relaxed);
}
uint64_t Turn::count() {
  // While a turn runs, each look finds another number: a turn may take long.
  return now.load(std::memory_order_relaxed) ? ended.fetch_add(1, std::memory_order_relaxed) + 1
                                             : ended.load(std::memory_order_relaxed);
}

const RegisterUse &LoopState::useOf(uint32_t index) {
  auto [it, fresh] = uses.try_emplace(index);
  if (fresh)
    it->second = program.registerUse(program.insts[index]);
  return it->second;
}

bool LoopState::needed(const std::vector<uint32_t> &path, std::vector<uint32_t> &registers, bool &keeps) {
  bool loads[2] = {}, stores[2] = {}; // of memory, of LDS
  for (uint32_t index : path) {
    const RegisterUse &use = useOf(index);
    if (!use.known)
      return false;
    loads[use.lds] |= use.loads;
    stores[use.lds] |= use.stores;
  }
  keeps = (loads[0] && stores[0]) || (loads[1] && stores[1]);
  // Liveness around the circle: what is needed behind the last instruction is what the first needs.
  std::set<uint32_t> live;
  for (size_t before = ~size_t(0); before != live.size();) {
    before = live.size();
    std::set<uint32_t> at = live;
    for (size_t k = path.size(); k-- > 0;) {
      const RegisterUse &use = useOf(path[k]);
      bool matters = use.acts;
      for (uint32_t r : use.defs)
        matters |= at.count(r) != 0;
      if (!matters)
        continue;
      if (use.whole)
        for (uint32_t r : use.defs)
          at.erase(r);
      at.insert(use.uses.begin(), use.uses.end());
    }
    live.insert(at.begin(), at.end());
  }
  registers.assign(live.begin(), live.end());
  return true;
}

uint64_t LoopState::hash(const Wave &w, const std::vector<uint32_t> &registers) {
  uint64_t seed = 0;
  auto mix = [&](uint32_t v) { seed = (seed ^ v) * 0x9e3779b97f4a7c15ull; };
  for (uint32_t r : registers) {
    mix(r);
    if (r >= RegisterUse::kVectors)
      for (unsigned l = 0; l < w.lanes; ++l)
        mix(w.v[size_t(r - RegisterUse::kVectors) * kRow + l]);
    else
      mix(r == RegisterUse::kScc ? w.scc : w.s[r % kSgprFile]);
  }
  return seed ^ seed >> 32;
}

StoreWatch::StoreWatch(const Program &program)
    : program(program), infos(classify(program, program.wave32 ? 32 : 64)) {}

void StoreWatch::bytes(const Wave &w, std::vector<uint8_t> &out) const {
  out.clear();
  for (uint64_t m = access.lanes; m; m &= m - 1)
    for (unsigned k = 0, l = static_cast<unsigned>(__builtin_ctzll(m)); k < access.count; ++k) {
      uint64_t at = access.addr[k][l];
      if (access.ldsSpace && at + access.bytes > w.wg->ldsSize)
        continue; // dropped
      const uint8_t *from = access.ldsSpace ? w.wg->lds + at : reinterpret_cast<const uint8_t *>(at);
      out.insert(out.end(), from, from + access.bytes);
    }
}

void StoreWatch::before(Wave &w, uint32_t index) {
  const InstInfo &info = infos[index];
  watched = false;
  if (!info.store && !info.atomic && !info.toLds)
    return;
  // Where the bytes are is not known of transfers to LDS, and of flat and scalar addresses.
  bool known = info.space == MemSpace::Global || info.space == MemSpace::Buffer ||
               info.space == MemSpace::Lds || info.space == MemSpace::Scratch;
  watched = known && !info.toLds && !program.insts[index].lds &&
            describeAccess(w, program.insts[index], info, access);
  if (watched)
    bytes(w, held);
  else
    changed = true;
}

void StoreWatch::after(const Wave &w) {
  if (!watched)
    return;
  bytes(w, now);
  changed |= now != held;
}

} // namespace flysim
