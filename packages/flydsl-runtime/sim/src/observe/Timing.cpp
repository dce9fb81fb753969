//===- Timing.cpp - cycle-approximate model of a compute unit -------------===//

#include "observe/Timing.h"

#include "observe/Candidates.h"
#include "observe/Port.h"
#include "observe/TimingTable.h"

#include <algorithm>
#include <cmath>

namespace flysim {

const char *stallName(Stall stall) {
  static const char *const kNames[] = {"none",   "dependency", "memory",    "lds",   "barrier",
                                       "valu",   "matrix",     "lds_queue", "vmem_queue",
                                       "issue",  "fetch"};
  return kNames[static_cast<unsigned>(stall)];
}

namespace {

constexpr unsigned kMaxSimds = TimingTable::kMaxSimds;
constexpr unsigned kGroupStart = 40; ///< clocks to start a work-group's waves

/// When a vector register can be read.
struct Row {
  uint64_t ready = 0;
  uint64_t added = 0;   ///< by the matrix operation that adds to exactly the operand that was written
  uint16_t operand = 0; ///< the first register of that operand
};

/// When an instruction could issue, and what keeps it until then.
struct Attempt {
  uint64_t at = 0;
  Stall cause = Stall::None;
  bool park = false;
  void need(uint64_t clock, Stall what) {
    if (clock > at) {
      at = clock;
      cause = what;
    }
  }
};

struct ModelWave {
  const std::vector<TraceOp> *ops = nullptr;
  size_t next = 0;
  unsigned group = 0, index = 0, simd = 0;
  uint64_t ready = 0;     ///< earliest clock of the next issue
  Stall readyCause = Stall::None;
  Attempt own;            ///< the next issue, as far as the wave itself decides it
  std::vector<uint64_t> outstanding[kCounters]; ///< completion clocks in issue order
  std::vector<Row> rows;
  unsigned arrivals = 0, waits = 0;
  int priority = 0; ///< by s_setprio
  bool parked = false, ended = false;
};

struct ModelGroup {
  const GroupTrace *trace = nullptr;
  std::vector<unsigned> waves;
  std::vector<uint64_t> release; ///< clock of each completed barrier generation
  unsigned live = 0;
};

double memoryBytesOf(const InstCounters &c, const Conditions &conditions) {
  return static_cast<double>(conditions.dies ? c.sideMissed : c.readBytes + c.writtenBytes);
}

class ComputeUnit {
public:
  ComputeUnit(const LaunchProfile &p, unsigned resident, double memoryBytesPerClk, double sideBytesPerClk,
              const Conditions &conditions, bool wantEvents)
      : p(p), t(timingTable(*p.arch)), rdna(p.arch->has.rdna), resident(std::max(1u, resident)),
        memoryBytesPerClk(memoryBytesPerClk), sideBytesPerClk(sideBytesPerClk),
        memoryLatency(static_cast<unsigned>(conditions.memoryLatency)),
        sideLatency(static_cast<unsigned>(conditions.sideLatency)), wantEvents(wantEvents) {
    result.instructions.resize(p.infos.size());
    for (size_t n = 0; n < p.counters.size(); ++n) {
      const InstCounters &c = p.counters[n];
      double moved = memoryBytesOf(c, conditions);
      missShare.push_back(c.l2Bytes ? std::min(1.0, moved / static_cast<double>(c.l2Bytes)) : 0.0);
      missDue.push_back(moved > 0 ? 1.0 - missShare.back() : 0.0);
      double missed = c.l2Bytes && sideBytesPerClk > 0 ? double(c.l2Missed) / double(c.l2Bytes) : 0.0;
      sideShare.push_back(std::max(0.0, missed - missShare.back()));
      sideDue.push_back(0.0);
    }
    for (const InstInfo &info : p.infos) {
      for (const RegRange &r : info.reads)
        rows = std::max<unsigned>(rows, r.first + r.count);
      for (const RegRange &r : info.writes)
        rows = std::max<unsigned>(rows, r.first + r.count);
    }
    groups.resize(p.traces.size());
  }

  TimingResult run() {
    for (unsigned g = 0; g < std::min<size_t>(resident, groups.size()); ++g)
      startGroup(g * 8);
    while (!queue.empty()) {
      const Candidate c = queue.pop();
      ModelWave &w = waves[c.wave()];
      Attempt a = attempt(w);
      if (a.park) {
        w.parked = true;
        continue;
      }
      const Unit unit = p.infos[(*w.ops)[w.next].inst].unit;
      const unsigned line = lineOf(w, unit);
      const uint64_t &slot = slotFree[w.simd][category(unit)];
      if (a.at > c.at) {
        const Candidate later(a.at, c.wave(), w.priority);
        if (occupiesSlot(unit) && a.at == slot) {
          queue.standInLine(line, later);
          continue;
        }
        queue.leaveLine(line, c.wave(), slot);
        if (!queue.empty() && later < queue.top()) {
          queue.push(later);
          continue;
        }
      }
      issue(c.wave(), a);
      queue.leaveLine(line, c.wave(), slot);
    }
    result.sampleCycles = static_cast<uint64_t>(last);
    return std::move(result);
  }

  std::vector<uint64_t> finished; ///< clock at which each work-group ended

private:
  void startGroup(uint64_t clock) {
    if (nextGroup >= groups.size())
      return;
    ModelGroup &g = groups[nextGroup];
    g.trace = &p.traces[nextGroup];
    for (const WaveTrace &trace : g.trace->waves) {
      unsigned id = static_cast<unsigned>(waves.size());
      waves.emplace_back();
      ModelWave &w = waves.back();
      w.ops = &trace.ops;
      w.group = nextGroup;
      w.index = static_cast<unsigned>(g.waves.size());
      w.simd = nextSimd++ % t.simdsPerCu;
      w.ready = clock + kGroupStart;
      w.rows.resize(rows);
      g.waves.push_back(id);
      if (trace.ops.empty()) {
        w.ended = true;
        continue;
      }
      ++g.live;
      enqueue(id);
    }
    ++nextGroup;
  }

  uint64_t align(uint64_t clock, unsigned simd) const {
    if (t.turn == 1)
      return clock;
    uint64_t phase = simd % t.turn;
    return (clock + t.turn - 1 - phase) / t.turn * t.turn + phase;
  }

  static unsigned category(Unit u) {
    switch (u) {
    case Unit::Trans:
    case Unit::Matrix:
      return static_cast<unsigned>(Unit::Valu);
    case Unit::VmemStore:
      return static_cast<unsigned>(Unit::VmemLoad);
    default:
      return static_cast<unsigned>(u);
    }
  }

  static unsigned lineOf(const ModelWave &w, Unit u) {
    return w.simd * static_cast<unsigned>(Unit::Count) + category(u);
  }

  static bool occupiesSlot(Unit u) {
    return u != Unit::Wait && u != Unit::Internal && u != Unit::Barrier;
  }

  /// When the wave's next instruction can issue, as far as its registers and counters tell: what other waves do does
  /// not change it.
  Attempt ownAttempt(const ModelWave &w) const {
    const InstInfo &info = p.infos[(*w.ops)[w.next].inst];
    Attempt a{w.ready, w.readyCause};
    for (unsigned n = 0; n < 4; ++n) {
      const RegRange &r = info.reads[n];
      // A matrix result is forwarded to the operation that adds to exactly these registers.
      bool adds = info.unit == Unit::Matrix && info.srcC == int(n);
      for (const Row *row = w.rows.data() + r.first, *end = row + r.count; row != end; ++row)
        a.need(adds && row->operand == r.first ? row->added : row->ready, Stall::Dependency);
    }
    if (info.unit == Unit::Wait)
      for (unsigned c = 0; c < kCounters; ++c)
        if (info.wait[c] != kNoWait && w.outstanding[c].size() > info.wait[c]) {
          uint64_t done = w.outstanding[c][w.outstanding[c].size() - 1 - info.wait[c]];
          bool vm = c == unsigned(Counter::Vm) || c == unsigned(Counter::Store) ||
                    c == unsigned(Counter::Async) || c == unsigned(Counter::Tensor);
          a.need(done, vm ? Stall::Memory : Stall::Lds);
        }
    return a;
  }

  /// The wave, whose state has changed, is a candidate for its next instruction.
  void enqueue(unsigned id) {
    ModelWave &w = waves[id];
    w.own = ownAttempt(w);
    queue.push({align(w.own.at, w.simd), id, w.priority});
  }

  /// When the wave's next instruction can issue, given everything issued so far.
  Attempt attempt(const ModelWave &w) {
    const TraceOp &op = (*w.ops)[w.next];
    const InstInfo &info = p.infos[op.inst];
    Attempt a = w.own;
    auto need = [&](uint64_t clock, Stall cause) { a.need(clock, cause); };
    if (info.unit == Unit::Barrier && waitsAtBarrier(info)) {
      ModelGroup &g = groups[w.group];
      if (w.waits < g.release.size()) {
        need(g.release[w.waits], Stall::Barrier);
      } else if (w.arrivals <= w.waits) {
        // s_barrier: arriving and waiting are one instruction; it issues to arrive.
      } else {
        a.park = true;
        return a;
      }
    }
    switch (info.unit) {
    case Unit::Valu:
    case Unit::Trans:
      need(valuFree[w.simd], Stall::Valu);
      if (info.unit == Unit::Trans)
        need(transFree[w.simd], Stall::Valu);
      break;
    case Unit::Matrix:
      need(valuFree[w.simd], Stall::Valu);
      need(matrixFree[w.simd], Stall::Matrix);
      break;
    case Unit::Lds:
      if (lds.freeFrom() > 64)
        need(static_cast<uint64_t>(lds.freeFrom()) - 64, Stall::LdsBusy);
      break;
    case Unit::VmemLoad:
    case Unit::VmemStore:
      if (l1.freeFrom() > 64)
        need(static_cast<uint64_t>(l1.freeFrom()) - 64, Stall::VmemBusy);
      break;
    default:
      break;
    }
    // A wave that lost its turn to others asks for the first slot behind all of theirs.
    if (occupiesSlot(info.unit))
      need(slotFree[w.simd][category(info.unit)], Stall::Issue);
    a.at = align(a.at, w.simd);
    return a;
  }

  // The split form has a signal that does not wait; other operations on named barriers do neither.
  static bool waitsAtBarrier(const InstInfo &info) {
    return info.barrier == BarrierRole::Whole || info.barrier == BarrierRole::Wait;
  }
  static bool arrivesAtBarrier(const InstInfo &info) {
    return info.barrier == BarrierRole::Whole || info.barrier == BarrierRole::Signal;
  }

  void arrive(ModelWave &w, uint64_t clock) {
    ModelGroup &g = groups[w.group];
    ++w.arrivals;
    completeBarriers(g, clock);
  }

  void completeBarriers(ModelGroup &g, uint64_t clock) {
    for (;;) {
      bool all = g.live > 0;
      for (unsigned id : g.waves)
        all &= waves[id].ended || waves[id].arrivals > g.release.size();
      if (!all)
        return;
      g.release.push_back(clock + t.barrierLatency);
      for (unsigned id : g.waves) {
        ModelWave &o = waves[id];
        if (o.parked) {
          o.parked = false;
          queue.push({std::max(g.release.back(), o.ready), id, o.priority});
        }
      }
    }
  }

  /// Moves through L2 and, if the lines were not there, through the memory-side cache or the memory; when
  /// the last byte is there. `serve` is how a port serves it.
  double fetch(const TraceOp &op, double from, unsigned &latency, Interval (Port::*serve)(double, double)) {
    if (!op.l2Bytes32)
      return from;
    const double bytes = op.l2Bytes32 * 32.0;
    latency = t.l2Latency;
    from = (l2.*serve)(from, bytes / t.l2BytesPerClk).to;
    // Which work-group is the first to fetch a line that many share is chance on a real machine and here. The
    // replay takes the share of the launch's accesses that went to memory, spread evenly, the first one first.
    double &due = missDue[op.inst], &sideTurn = sideDue[op.inst];
    due += missShare[op.inst];
    sideTurn += sideShare[op.inst];
    if (due >= 1) {
      due -= 1;
      latency = memoryLatency;
      return (memory.*serve)(from, bytes / memoryBytesPerClk).to;
    }
    if (sideTurn >= 1) {
      sideTurn -= 1;
      latency = sideLatency;
      return (side.*serve)(from, bytes / sideBytesPerClk).to;
    }
    return from;
  }

  /// A move of the tensor data mover, of which there is one for two SIMDs. It moves one request after the
  /// other: what waits for its turn keeps neither LDS nor memory from serving others. When the last byte is
  /// there; `busy` is when the mover works on it.
  double tensorMove(const ModelWave &w, const TraceOp &op, uint64_t at, Interval &busy, unsigned &latency) {
    constexpr unsigned kPiece = 8; ///< clocks of the LDS; between two pieces others have their turns
    double &engine = tensorFree[w.simd / 2];
    double start = std::max<double>(at, engine) + t.tensorStart;
    double fetched = fetch(op, start, latency, &Port::reserve);
    double clocks = std::max<double>(op.l2Bytes32 * 32.0 / t.tensorBytesPerClk, op.cost);
    double delivered = start;
    for (unsigned clock = 0; clock < op.cost; clock += kPiece)
      delivered = lds.reserve(start + clocks * clock / op.cost, std::min(kPiece, op.cost - clock)).to;
    engine = start + clocks;
    busy = {start, engine};
    result.tensorBusy += static_cast<uint64_t>(clocks);
    result.ldsBusy += op.cost;
    return std::max({fetched, engine, delivered});
  }

  Interval memoryOp(ModelWave &w, const InstInfo &info, const TraceOp &op, uint64_t at) {
    double done;
    Interval busy;
    if (info.unit == Unit::Lds) {
      unsigned cost = std::max<unsigned>(1, op.cost);
      busy = lds.take(at, cost);
      result.ldsBusy += cost;
      done = busy.to + t.ldsLatency;
    } else if (info.unit == Unit::Smem) {
      done = at + t.scalarLatency;
    } else {
      double moved;
      unsigned latency = t.l1Latency;
      if (info.space == MemSpace::Tensor) {
        latency = t.l2Latency;
        moved = tensorMove(w, op, at, busy, latency);
      } else {
        double cost = std::max(1.0, op.cost * 64.0 / t.l1BytesPerClk);
        busy = l1.take(at, cost);
        result.l1Busy += static_cast<uint64_t>(cost);
        moved = fetch(op, busy.to, latency, &Port::take);
        if (info.toLds && op.cost)
          lds.take(at, op.cost * 64.0 / t.ldsBytesPerClk);
      }
      done = moved + latency;
      last = std::max(last, info.load ? done : moved);
    }
    if (info.counter != Counter::Count) {
      auto &list = w.outstanding[static_cast<unsigned>(info.counter)];
      uint64_t clock = static_cast<uint64_t>(done);
      list.push_back(list.empty() ? clock : std::max(clock, list.back()));
      // What completed long ago cannot delay a wait: keep the list short.
      if (list.size() > 256)
        list.erase(list.begin(), list.begin() + 128);
    }
    return busy;
  }

  /// Issue slots that gfx9 needs between a matrix result and a vector read of it.
  unsigned matrixWait(const InstInfo &info) const {
    unsigned passes = info.cycles / 4;
    if (!info.xdl)
      return passes + 2;
    return passes <= 2 ? 5 : passes + 3 + p.arch->has.matrixHazard;
  }

  void vectorOp(ModelWave &w, const InstInfo &info, uint64_t at) {
    uint64_t done = at + info.cycles;
    unsigned s = w.simd;
    uint64_t ready, added;
    if (info.unit == Unit::Matrix) {
      matrixFree[s] = done;
      valuFree[s] = info.xdl ? at + t.turn : done;
      result.matrixBusy += info.cycles;
      result.matrixFlops += info.flops;
      if (rdna) {
        ready = added = done + t.valuLatency;
      } else {
        ready = at + 4ull * (matrixWait(info) + 1);
        added = done + (info.cycles <= 8 ? 8 : 0);
      }
    } else {
      bool separate = rdna && info.unit == Unit::Trans;
      valuFree[s] = separate ? at + t.turn : done;
      if (separate)
        transFree[s] = done;
      result.valuBusy += separate ? t.turn : info.cycles;
      ready = added = rdna ? at + std::max<unsigned>(t.valuLatency, info.cycles) : done;
    }
    for (const RegRange &r : info.writes)
      std::fill_n(w.rows.begin() + r.first, r.count, Row{ready, added, r.first});
  }

  void issue(unsigned id, const Attempt &a) {
    ModelWave &w = waves[id];
    const TraceOp &op = (*w.ops)[w.next];
    const InstInfo &info = p.infos[op.inst];
    uint64_t stalled = a.at - w.ready, at = a.at;
    TimingEvent *event = account(w, op, info, a, stalled);
    Interval busy;
    w.readyCause = Stall::None;
    w.ready = at + t.turn;
    if (occupiesSlot(info.unit))
      slotFree[w.simd][category(info.unit)] = at + t.turn;
    switch (info.unit) {
    case Unit::Valu:
    case Unit::Trans:
    case Unit::Matrix:
      vectorOp(w, info, at);
      break;
    case Unit::Smem:
    case Unit::Lds:
    case Unit::VmemLoad:
    case Unit::VmemStore:
      busy = memoryOp(w, info, op, at);
      break;
    case Unit::Internal:
      w.ready = at + uint64_t(info.cycles) * t.turn;
      if (info.priority >= 0)
        w.priority = info.priority;
      break;
    case Unit::Branch:
      if (w.next + 1 < w.ops->size() && (*w.ops)[w.next + 1].inst != op.inst + 1) {
        w.ready = at + t.branchPenalty;
        w.readyCause = Stall::Fetch;
      }
      break;
    case Unit::Barrier: {
      bool both = arrivesAtBarrier(info) && waitsAtBarrier(info);
      if (both && w.arrivals <= w.waits) {
        // Arrive now; the same instruction completes when the others have arrived.
        last = std::max<double>(last, at);
        arrive(w, at);
        enqueue(id);
        return;
      }
      if (waitsAtBarrier(info))
        ++w.waits;
      else if (arrivesAtBarrier(info))
        arrive(w, at);
      break;
    }
    default:
      break;
    }
    if (event && busy.to > 0) {
      event->busyFrom = static_cast<uint64_t>(busy.from);
      event->busyTo = static_cast<uint64_t>(busy.to);
    }
    last = std::max<double>(last, at + 1);
    if (++w.next == w.ops->size())
      end(id, at + 1);
    else
      enqueue(id);
  }

  TimingEvent *account(const ModelWave &w, const TraceOp &op, const InstInfo &info, const Attempt &a,
                       uint64_t stalled) {
    InstTiming &it = result.instructions[op.inst];
    ++it.issued;
    result.waveCycles += stalled + t.turn;
    it.stall[static_cast<unsigned>(a.cause)] += stalled;
    result.stall[static_cast<unsigned>(a.cause)] += stalled;
    const GroupTrace &group = *groups[w.group].trace;
    if (!wantEvents || !group.shown)
      return nullptr;
    if (result.events.size() >= p.selection.maxEvents) {
      result.eventsTruncated = true;
      return nullptr;
    }
    bool vector = info.unit == Unit::Matrix || info.unit == Unit::Valu || info.unit == Unit::Trans;
    uint64_t end = a.at + (vector ? info.cycles : t.turn);
    result.events.push_back({op.inst, group.linearId, static_cast<uint16_t>(w.index), static_cast<uint8_t>(w.simd), a.cause,
                             a.at, end, vector ? a.at : 0, vector ? end : 0,
                             static_cast<uint32_t>(std::min<uint64_t>(stalled, 0xffffffffu))});
    return &result.events.back();
  }

  void end(unsigned id, uint64_t clock) {
    ModelWave &w = waves[id];
    w.ended = true;
    w.rows = {};
    ModelGroup &g = groups[w.group];
    --g.live;
    if (g.live) {
      completeBarriers(g, clock);
      return;
    }
    finished.push_back(clock);
    startGroup(clock);
  }

  const LaunchProfile &p;
  const TimingTable &t;
  bool rdna;
  unsigned resident;
  unsigned rows = 0; ///< vector registers that the program names
  double memoryBytesPerClk, sideBytesPerClk;
  unsigned memoryLatency, sideLatency;
  bool wantEvents;
  TimingResult result;
  std::vector<double> missShare, missDue, sideShare, sideDue; ///< of each instruction
  std::vector<ModelWave> waves;
  std::vector<ModelGroup> groups;
  Candidates queue{kMaxSimds * static_cast<unsigned>(Unit::Count)};
  unsigned nextGroup = 0, nextSimd = 0;
  uint64_t valuFree[kMaxSimds] = {}, transFree[kMaxSimds] = {}, matrixFree[kMaxSimds] = {};
  /// The first issue slot that is not taken, of each category of instructions.
  uint64_t slotFree[kMaxSimds][static_cast<unsigned>(Unit::Count)] = {};
  Port lds, l1, l2, side, memory;
  double last = 0;
  double tensorFree[(kMaxSimds + 1) / 2] = {};
};

} // namespace

TimingResult replay(const LaunchProfile &p, const Conditions &conditions, bool wantEvents) {
  const TimingTable &t = timingTable(*p.arch);
  uint64_t total = uint64_t(p.grid[0]) * p.grid[1] * p.grid[2];
  uint64_t active = std::min<uint64_t>(total, p.arch->computeUnits);
  auto shareOf = [&](double bytesPerSec) {
    double bytesPerClk = bytesPerSec / (conditions.clockMhz * 1e6);
    return std::min<double>(bytesPerClk / double(std::max<uint64_t>(1, active)), t.l2BytesPerClk);
  };
  // gfx120x: two compute units share an LDS; this model follows one of them.
  Occupancy o = occupancy(*p.arch, p.vgprs, p.sgprs, p.ldsBytes,
                          p.wavesPerGroup, p.waveSize);
  unsigned resident = std::max(1u, o.groupsPerCu * t.simdsPerCu / t.simdsPerLds);
  ComputeUnit cu(p, resident, shareOf(conditions.memoryBytesPerSec), shareOf(conditions.sideBytesPerSec),
                 conditions, wantEvents);
  TimingResult r = cu.run();
  r.sampleGroups = static_cast<unsigned>(p.traces.size());
  r.groupsPerCu = (total + p.arch->computeUnits - 1) / p.arch->computeUnits;
  r.cycles = static_cast<double>(r.sampleCycles);
  size_t n = cu.finished.size();
  if (r.groupsPerCu > n && n) {
    // Steady state: from the end of the first batch to the start of the drain.
    size_t first = n > 2 * resident ? resident - 1 : 0, end = n > 2 * resident ? n - resident : n - 1;
    double rate = end > first ? double(cu.finished[end] - cu.finished[first]) / double(end - first)
                              : double(r.sampleCycles) / double(n);
    r.cycles += double(r.groupsPerCu - n) * rate;
  }
  uint64_t issued = 0, recorded = 0;
  for (size_t n = 0; n < p.counters.size(); ++n) {
    const InstCounters &c = p.counters[n];
    issued += c.issued;
    r.memoryBytes += memoryBytesOf(c, conditions);
    r.behindL2Bytes += double(c.l2Missed);
  }
  for (const GroupTrace &g : p.traces)
    for (const WaveTrace &w : g.waves)
      recorded += w.ops.size();
  // A recording that was cut off stands for all that the groups executed.
  double perGroup = double(issued) / double(std::max<uint64_t>(1, total));
  double kept = double(recorded) / double(std::max<size_t>(1, p.traces.size()));
  if (kept > 0 && perGroup > 1.5 * kept)
    r.cycles *= perGroup / kept;
  r.memoryCycles = r.memoryBytes / conditions.memoryBytesPerSec * conditions.clockMhz * 1e6;
  r.cycles = std::max(r.cycles, r.memoryCycles);
  if (conditions.sideBytesPerSec > 0)
    r.cycles = std::max(r.cycles, r.behindL2Bytes / conditions.sideBytesPerSec * conditions.clockMhz * 1e6);
  return r;
}

TimingResult estimateTiming(const LaunchProfile &p, bool wantEvents) {
  const TimingTable &t = timingTable(*p.arch);
  return replay(p, {t.clockMhz, t.memoryBytesPerSec, double(t.memoryLatency), 0, 0, false}, wantEvents);
}

} // namespace flysim
