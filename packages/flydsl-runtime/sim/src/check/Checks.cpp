//===- Checks.cpp - opt-in checks of running kernels ----------------------===//
//
// A Checker watches the work-groups that run in one place and asks the checks that the
// process wants: Races, Twin (uninit), Numbers (nan), Approximate (approx), and here
// bounds and barriers.
//
//===----------------------------------------------------------------------===//

#include "check/Checks.h"

#include "check/Approximate.h"
#include "check/Moves.h"
#include "check/Multicast.h"
#include "check/Numbers.h"
#include "check/Races.h"
#include "check/Scopes.h"
#include "check/Twin.h"
#include "exec/BufferInline.h"
#include "observe/Classify.h"

#include <set>

namespace flysim {

namespace {

/// What the checks need to know of an instruction besides InstInfo.
struct Extra {
  bool scoped = false;   ///< a load or store that is coherent beyond the work-group
  Scope scope = Scope::Wave;
  CacheOp cache = CacheOp::None;
  bool ownPlace = false; ///< its addresses are not those of describeAccess
  bool extentMark = false;
  bool ends = false;     ///< the wave
  BarrierRole barrier = BarrierRole::None;
};

Extra extraOf(const Program &p, const Inst &i) {
  Extra e;
  if (!i.def)
    return e;
  const OpFacts &facts = i.def->facts;
  const MemoryFacts &m = facts.memory;
  bool memory = m.space == MemSpace::Global || m.space == MemSpace::Flat || m.space == MemSpace::Buffer ||
                m.space == MemSpace::Scalar;
  e.extentMark = facts.marks && i.imm == kExtentMark;
  e.cache = m.cache;
  if (memory || e.cache != CacheOp::None)
    e.scope = scopeOf(i, *p.arch);
  e.scoped = memory && isScoped(i, *p.arch);
  e.ownPlace = memory && m.ownAddress;
  e.barrier = facts.barrier == BarrierRole::Other ? BarrierRole::None : facts.barrier;
  e.ends = facts.branch == BranchOn::End;
  return e;
}

/// The load that the compare value of a compare-and-swap comes from: the first guess of a
/// loop. What it read is compared before it counts, so that it is no race with atomic
/// operations. Returns `n` if there is none.
size_t guessOf(const Program &p, const std::vector<InstInfo> &infos, size_t n) {
  constexpr size_t kReach = 400;
  const Inst &swap = p.insts[n];
  Operand want = swap.data;
  if (want.kind != OperandKind::Vgpr)
    return n;
  want.reg = static_cast<uint16_t>(want.reg + infos[n].bytes / 4);
  for (size_t k = n; k-- > (n > kReach ? n - kReach : 0);)
    for (const Inst *i = &p.insts[k]; i; i = i->ext ? i->ext->second : nullptr) {
      if (i->dst.kind != want.kind || want.reg < i->dst.reg ||
          want.reg >= i->dst.reg + std::max<unsigned>(1, i->dst.count))
        continue;
      if (infos[k].load)
        return k;
      if (!i->def || !i->def->facts.moves || !i->src[0])
        return n;
      uint16_t part = static_cast<uint16_t>(want.reg - i->dst.reg);
      want = i->src[0];
      want.reg = static_cast<uint16_t>(want.reg + part);
      break;
    }
  return n;
}

/// What is known of a launch as a whole.
struct LaunchChecks {
  LaunchChecks(const Dispatch &d, unsigned checks)
      : d(d), checks(checks), findings(d), infos(classify(*d.program, d.kernel->waveSize())),
        scopes(d, checks & kCheckLate, checks & kCheckStale) {
    for (size_t n = 0; n < infos.size(); ++n) {
      infos[n].toLds |= d.program->insts[n].lds; // buffer loads have a modifier instead of a name
      extras.push_back(extraOf(*d.program, d.program->insts[n]));
    }
    for (const LaunchArgument &a : d.arguments)
      gaps |= (checks & kCheckOob) && a.hasGaps();
    for (size_t n = 0; n < infos.size(); ++n)
      if (const OpDef *def = d.program->insts[n].def; def && def->facts.memory.compareSwap)
        extras[guessOf(*d.program, infos, n)].scoped = true;
  }
  const Dispatch &d;
  unsigned checks;
  bool gaps = false; ///< some array has padding, and stores there are looked for
  Findings findings;
  std::vector<InstInfo> infos;
  std::vector<Extra> extras;
  SharedAccesses accesses;
  LaunchScopes scopes;
  ApproximateGlobal approximate;
};

/// The checks of one resident work-group.
struct GroupChecks {
  GroupChecks(LaunchChecks &launch, Findings &findings)
      : races(launch.d, launch.accesses, findings), scopes(launch.d, launch.scopes, findings), twin(launch.d, launch.infos, findings),
        numbers(findings) {
    if (launch.checks & kCheckApprox)
      approximate = std::make_unique<ApproximateCheck>(launch.d, launch.infos, launch.approximate, findings);
  }
  RaceCheck races;
  ScopeCheck scopes;
  TwinCheck twin;
  NumberCheck numbers;
  std::unique_ptr<ApproximateCheck> approximate;
  std::vector<uint32_t> passed; ///< barriers, per wave
  std::vector<Extra> arrived;   ///< the barrier that a wave has waited at
};

class Checker : public GroupObserver {
public:
  explicit Checker(LaunchChecks &launch)
      : launch(launch), d(launch.d), checks(launch.checks), base(d.program->insts.data()),
        findings(launch.findings), multicasts(launch.findings) {}

  void startGroup(Workgroup &wg, uint64_t) override {
    if (groups.size() < wg.clusterSize) {
      twins.resize(wg.clusterSize);
      while (groups.size() < wg.clusterSize)
        groups.push_back(std::make_unique<GroupChecks>(launch, findings));
    }
    GroupChecks &g = of(wg);
    g.passed.assign(wg.numWaves, 0);
    g.arrived.assign(wg.numWaves, Extra());
    if (checks & kCheckRace) {
      g.races.startGroup(wg);
      g.scopes.startGroup(wg);
    }
    if (checks & kCheckUninit)
      g.twin.startGroup(wg, twins[wg.clusterIndex]);
    if (checks & kCheckNan)
      g.numbers.startGroup(wg);
    if (g.approximate)
      g.approximate->startGroup(wg);
  }

  void endGroup(Workgroup &wg) override {
    if (checks & kCheckRace)
      of(wg).scopes.endGroup();
    if (!(checks & kCheckBarrier))
      return;
    if (wg.clusterIndex + 1 == wg.clusterSize)
      multicasts.endCluster();
    const std::vector<uint32_t> &n = of(wg).passed;
    for (unsigned k = 1; k < wg.numWaves; ++k)
      if (n[k] != n[0])
        return findings.add(FaultKind::BarrierDivergence, "barrier",
                            format("wave 0 passed %u barriers, wave %u passed %u", n[0], k, n[k]),
                            siteOf(wg.waves[k], *wg.waves[k].cur, -1, "end"));
  }

  void instruction(Wave &w, const Inst &i) override {
    size_t n = static_cast<size_t>(&i - base);
    const InstInfo &info = launch.infos[n];
    const Extra &extra = launch.extras[n];
    GroupChecks &g = of(*w.wg);
    finishBarrier(w, g);
    if (checks & kCheckNan)
      g.numbers.before(w, i);
    if (checks & kCheckRace) {
      g.races.after(w);
      g.scopes.after(w);
    }
    if (checks & kCheckUninit)
      g.twin.before(w, i, info);
    if (g.approximate)
      g.approximate->before(w, i, info);
    if (checks & kCheckRace) {
      g.races.counters(w, info);
      g.scopes.counters(w, info);
      if (extra.cache != CacheOp::None)
        g.scopes.cache(w, extra.cache, extra.scope);
    }
    if (extra.barrier != BarrierRole::None || extra.ends)
      return barrier(w, i, extra, g);
    if ((checks & kCheckBarrier) && info.space == MemSpace::Tensor && info.load)
      multicasts.request(w, i);
    if (!(checks & (kCheckOob | kCheckRace | kCheckBuffer)) || extra.ownPlace)
      return;
    if (extra.extentMark && (checks & kCheckOob))
      beyondExtent(w, i);
    bool moves = movesLds(i, info);
    if (info.space == MemSpace::None || (info.space == MemSpace::Scratch && !moves))
      return;
    if ((checks & kCheckBuffer) && info.space == MemSpace::Buffer)
      descriptorBounds(w, i, info);
    access.lanes = 0;
    bool described = describeAccess(w, i, info, access);
    if (described && (checks & kCheckOob) && access.ldsSpace)
      ldsBounds(w, i, info);
    if (described && launch.gaps && info.store && !access.ldsSpace)
      rowBounds(w, i);
    if (moves && (checks & (kCheckOob | kCheckRace)))
      describeMoves(w, i, info, access, list);
    if (moves && (checks & kCheckOob))
      moveBounds(w, i, info);
    if (!(checks & kCheckRace))
      return;
    if (moves) {
      g.races.moves(w, i, info, list);
      g.scopes.moves(w, i, info, list);
    } else if (described) {
      g.scopes.memory(w, i, info, access, extra.scope);
      g.races.memory(w, i, info, access, extra.scoped);
    }
  }

private:
  GroupChecks &of(const Workgroup &wg) { return *groups[wg.clusterIndex]; }

  /// A wave that goes on has passed the barrier that it waited at.
  void finishBarrier(Wave &w, GroupChecks &g) {
    Extra &at = g.arrived[w.id];
    if (at.barrier == BarrierRole::None)
      return;
    at.barrier = BarrierRole::None;
    if (checks & kCheckRace)
      g.races.pass(w, true);
  }

  void barrier(Wave &w, const Inst &i, const Extra &extra, GroupChecks &g) {
    bool races = checks & kCheckRace;
    if (extra.ends) {
      if (races)
        g.races.end(w);
      return;
    }
    bool wait = extra.barrier == BarrierRole::Wait;
    int id = wait ? static_cast<int16_t>(i.imm)
             : extra.barrier == BarrierRole::Whole || !i.src[0] ? -1
             : i.src[0].kind == OperandKind::Const        ? static_cast<int>(i.src[0].row[0])
                                                          : 1;
    if (wait) {
      unsigned slot = id > 0 ? (w.joinedBarrier ? w.joinedBarrier : static_cast<unsigned>(id))
                      : id == -1 ? 0
                                 : static_cast<unsigned>(16 - id);
      if (!(w.barrierDone >> (slot & 31) & 1))
        return; // seen again when the barrier is complete
      if (races && id == -3)
        g.races.clusterBarrier(w, false);
      else if (races)
        g.races.pass(w, id == -1);
      g.passed[w.id] += id == -1;
      return;
    }
    if (checks & kCheckBarrier)
      wholeWave(w, i);
    if (races && id == -3)
      g.races.clusterBarrier(w, true);
    if (races)
      g.races.signal(w, id == -1);
    if (extra.barrier == BarrierRole::Whole) {
      g.arrived[w.id] = extra;
      ++g.passed[w.id];
    }
  }

  void wholeWave(Wave &w, const Inst &i) {
    unsigned items = d.block[0] * d.block[1] * d.block[2], first = w.id * w.lanes;
    unsigned count = std::min(w.lanes, items - first);
    uint64_t all = count == 64 ? ~0ull : (1ull << count) - 1;
    if (w.exec() != all)
      findings.add(FaultKind::BarrierDivergence, "barrier",
                   format("the barrier is reached with %d of %u lanes active (EXEC 0x%llx)",
                          __builtin_popcountll(w.exec()), count, (unsigned long long)w.exec()),
                   siteOf(w, i, -1, "barrier"));
  }

  void ldsBounds(Wave &w, const Inst &i, const InstInfo &info) {
    for (uint64_t m = access.lanes; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      for (unsigned k = 0; k < access.count; ++k) {
        uint64_t at = access.addr[k][l];
        if (at + access.bytes <= w.wg->ldsSize)
          continue;
        return findings.add(FaultKind::IllegalAddress, "oob",
                            format("%s of %u bytes at LDS offset %llu of %u",
                                   info.store ? "write" : "read", access.bytes,
                                   (unsigned long long)at, w.wg->ldsSize),
                            siteOf(w, i, static_cast<int>(l), info.store ? "write" : "read"),
                            Place{"lds", at, access.bytes});
      }
    }
  }

  /// A store that the compiler has marked: its coordinate is beyond the extent of a mode, though
  /// its address may well be that of an element.
  void beyondExtent(Wave &w, const Inst &i) {
    uint64_t lanes = w.exec() & w.fullMask;
    if (!lanes)
      return; // the branch around the mark is left out where it costs more than the mark
    unsigned l = static_cast<unsigned>(__builtin_ctzll(lanes));
    auto reg = [&](unsigned r) { return w.v[r * 64 + l]; };
    uint64_t at = reg(4) | uint64_t(reg(5)) << 32;
    const LaunchArgument *array = at ? argumentOf(d.arguments, at, 0) : nullptr;
    bool inside = array && array->distance(at) == 0;
    std::string text = format("write beyond the extent of mode %u%s%s: index %d, and the extent is %d", reg(2),
                              inside ? " of " : "", inside ? array->label().c_str() : "",
                              static_cast<int>(reg(0)), static_cast<int>(reg(1)));
    findings.add(FaultKind::IllegalAddress, "oob", text, siteOf(w, i, static_cast<int>(l), "write"),
                 at ? Place{"global", at, 0} : Place{});
    for (uint64_t m = lanes; m && marked.size() < kMostMarked; m &= m - 1) {
      l = static_cast<unsigned>(__builtin_ctzll(m));
      marked.insert(reg(4) | uint64_t(reg(5)) << 32);
    }
  }

  /// Stores to the padding between the rows of an array.
  void rowBounds(Wave &w, const Inst &i) {
    for (uint64_t m = access.lanes; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      for (unsigned k = 0; k < access.count; ++k) {
        uint64_t at = access.addr[k][l];
        const LaunchArgument *gap = gapAt(at);
        if (gap && !marked.count(at)) // else it has been told
          return findings.add(FaultKind::IllegalAddress, "oob",
                              format("write of %u bytes %s", access.bytes,
                                     gap->relation(at, access.bytes).c_str()),
                              siteOf(w, i, static_cast<int>(l), "write"),
                              Place{"global", at, access.bytes});
      }
    }
  }

  /// The array between whose rows an access lies; null if it may be about an element of another.
  const LaunchArgument *gapAt(uint64_t at) const {
    const LaunchArgument *gap = nullptr;
    for (const LaunchArgument &a : d.arguments) {
      if (a.distance(at) != 0)
        continue;
      if (!a.inGap(at, access.bytes))
        return nullptr;
      gap = &a;
    }
    return gap;
  }

  void moveBounds(Wave &w, const Inst &i, const InstInfo &info) {
    for (const LdsMove &m : list) {
      if (m.inside(*w.wg))
        continue;
      const char *what = info.store ? "read" : "write";
      return findings.add(FaultKind::IllegalAddress, "oob",
                          format("transfer between memory and LDS: %s of %u bytes at LDS offset "
                                 "%llu of %u (the hardware drops it)",
                                 what, static_cast<unsigned>(m.bytes), (unsigned long long)m.lds,
                                 w.wg->ldsSize),
                          siteOf(w, i, m.lane, what), Place{"lds", m.lds, static_cast<unsigned>(m.bytes)});
    }
  }

  void descriptorBounds(Wave &w, const Inst &i, const InstInfo &info) {
    Addressing addressing(w, i);
    const Resource &r = addressing.resource();
    for (uint64_t m = w.exec() & w.fullMask; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      Access a = addressing.at(l, info.bytes, info.atomic);
      if (a.valid == info.bytes)
        continue;
      const char *what = info.store ? "write" : "read";
      return findings.add(
          FaultKind::IllegalAddress, "buffer",
          format("%s of %u bytes at offset %lld of a buffer of %llu %s (the hardware %s)", what,
                 info.bytes, (long long)(a.addr - r.base), (unsigned long long)r.records,
                 r.stride ? "records" : "bytes", info.store ? "drops it" : "returns zero"),
          siteOf(w, i, static_cast<int>(l), what), Place{"global", a.addr, info.bytes});
    }
  }

  LaunchChecks &launch;
  const Dispatch &d;
  unsigned checks;
  const Inst *base;
  Findings &findings;
  MulticastCheck multicasts; ///< of the cluster that runs
  std::vector<std::unique_ptr<GroupChecks>> groups; ///< by place in the cluster
  std::vector<Workgroup> twins;
  MemoryAccess access;
  std::vector<LdsMove> list;
  static constexpr size_t kMostMarked = 4096;
  std::set<uint64_t> marked; ///< addresses of stores that the compiler has marked
};

class CheckedLaunch : public LaunchObserver {
public:
  CheckedLaunch(const Dispatch &d, unsigned checks) : launch(d, checks) {}
  std::unique_ptr<GroupObserver> group() override { return std::make_unique<Checker>(launch); }

private:
  LaunchChecks launch;
};

} // namespace

std::unique_ptr<LaunchObserver> checkLaunch(const Dispatch &dispatch) {
  return dispatch.checks ? std::make_unique<CheckedLaunch>(dispatch, dispatch.checks) : nullptr;
}

} // namespace flysim
