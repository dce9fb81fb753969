//===- GroupRunner.cpp - one resident work-group or cluster ---------------===//

#include "exec/GroupRunner.h"

#include "exec/Interrupt.h"
#include "check/Checks.h"
#include "loader/SourceLines.h"
#include "support/CrashGuard.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace flysim {

namespace {

/// Instructions that a wave runs before the next wave of its work-group gets a turn,
/// so that waves that spin on memory make progress together.
constexpr uint64_t kSlice = 20000;
/// A wave that waits for memory is looked for every so many instructions. One that was found waiting gets short turns.
constexpr uint64_t kLook = 2000, kWaitingLook = 16;

/// Relative indexing may name registers past the file; they land in these rows.
constexpr unsigned kSpareRows = 40;

uint64_t nextRandom(uint64_t &state) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state * 0x2545f4914f6cdd1dull;
}

template <class T> T *allocate(size_t count) {
  auto *p = static_cast<T *>(aligned_alloc(64, (count * sizeof(T) + 127) / 64 * 64));
  if (!p)
    raise(FaultKind::OutOfMemory, "no host memory for the simulated registers");
  return p;
}

unsigned barrierSlotOf(int id) {
  return static_cast<unsigned>(id > 0 ? id : (id == -1 ? 0 : 16 - id));
}

} // namespace

GroupRunner::GroupRunner(const Dispatch &dispatch, uint64_t kernarg, uint64_t packet,
                         std::unique_ptr<GroupObserver> observer)
    : d(dispatch), initial(dispatch, kernarg, packet), limit(dispatch.mostInstructions), lanes(initial.lanes),
      numWaves(initial.waves()), usedRows(initial.usedRows()), loops(*dispatch.program),
      observer(std::move(observer)) {
  const ArchInfo &arch = *d.program->arch;
  rows = arch.vgprRows;
  // Compilers read the whole of an aligned piece of which a part is asked, up to 16 bytes: memory is given out in larger
  // pieces than that.
  ldsSize = (d.kernel->ldsBytes + d.dynamicLds + 15) / 16 * 16;
  // A dynamic stack needs more than the descriptor's fixed size.
  scratchPerLane = d.kernel->scratchBytes + (d.kernel->dynamicStack ? 16384 : 0);
  // WAVESIZE of COMPUTE_TMPRING_SIZE: 15 bits of 1 KiB before gfx12, 18 bits of 256 bytes.
  uint64_t mostScratch = uint64_t(arch.has.scratchMiB) << 20;
  if (uint64_t(scratchPerLane) * lanes > mostScratch)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s needs %u bytes of scratch per lane; a wave of %s has %llu MiB",
                 d.kernel->name.c_str(), scratchPerLane, arch.name,
                 (unsigned long long)(mostScratch >> 20)));
  unsigned size = d.cluster[0] * d.cluster[1] * d.cluster[2];
  wgs.resize(size);
  waves.resize(size_t(size) * numWaves);
  places.resize(waves.size());
  size_t ldsStride = (size_t(ldsSize) + 127) / 64 * 64;
  registers = allocate<uint32_t>((waves.size() * rows + kSpareRows) * kRow);
  lds = allocate<uint8_t>(ldsStride * size);
  scratch = allocate<uint8_t>(size_t(scratchPerLane) * lanes * waves.size());
  temps = allocate<Temps>(1);
  memset(lds, 0, ldsStride * size);
  memset(static_cast<void *>(temps), 0, sizeof(Temps));
  temps->prepare(lanes);
  for (size_t i = 0; i < waves.size(); ++i)
    initial.clearVectors(registers + i * rows * kRow);
  random = d.scheduleSeed;
  order.resize(waves.size());
  bool bounds = d.checks & kCheckOob;
  cache.exactReads(bounds);
  if (d.host != Dispatch::Host::Mapped) {
    writable = d.hostRanges;
    // Flat instructions reach LDS and scratch by their host addresses.
    auto own = [&](const void *p, size_t bytes) {
      auto at = reinterpret_cast<uint64_t>(p);
      writable.push_back(Region{at, at + bytes, true});
    };
    own(lds, ldsStride * size);
    own(scratch, size_t(scratchPerLane) * lanes * waves.size());
    writable = disjoint(std::move(writable)); // arguments may be views of one array
    // A launch that is checked for bounds may not read other host memory either.
    cache.limitHost(&writable, d.host == Dispatch::Host::Arrays && !bounds);
  }
  cache.refresh();
}

GroupRunner::~GroupRunner() {
  free(registers);
  free(lds);
  free(scratch);
  free(temps);
}

void GroupRunner::begin(uint64_t linear) {
  uint64_t across[3], place[3];
  for (unsigned i = 0; i < 3; ++i)
    across[i] = d.grid[i] / d.cluster[i];
  place[0] = linear % across[0];
  place[1] = linear / across[0] % across[1];
  place[2] = linear / across[0] / across[1];
  size_t ldsStride = (size_t(ldsSize) + 127) / 64 * 64;
  for (unsigned k = 0; k < wgs.size(); ++k) {
    Workgroup &wg = wgs[k];
    new (&wg) Workgroup(); // in place: an assignment makes another one first
    const unsigned in[3] = {k % d.cluster[0], k / d.cluster[0] % d.cluster[1],
                            k / d.cluster[0] / d.cluster[1]};
    for (unsigned i = 0; i < 3; ++i) {
      wg.idInCluster[i] = in[i];
      wg.id[i] = static_cast<uint32_t>(place[i] * d.cluster[i] + in[i]);
      wg.clusterDims[i] = d.cluster[i];
    }
    wg.lds = lds + k * ldsStride;
    wg.ldsSize = ldsSize;
    wg.waves = waves.data() + size_t(k) * numWaves;
    wg.numWaves = numWaves;
    wg.cluster = wgs.data();
    wg.clusterSize = static_cast<unsigned>(wgs.size());
    wg.clusterIndex = k;
    for (unsigned i = 0; i < numWaves; ++i)
      start(wg.waves[i], wg, i);
  }
  rounds = sleeps = 0;
  round = Round();
  waits = false;
  if (observer)
    for (Workgroup &wg : wgs)
      observer->startGroup(wg, linear);
  if (random)
    random = (d.scheduleSeed ^ linear * 0xbf58476d1ce4e5b9ull) | 1;
}

void GroupRunner::start(Wave &w, Workgroup &wg, unsigned index) {
  size_t at = wg.clusterIndex * size_t(numWaves) + index;
  new (&w) Wave(); // in place: an assignment makes another one first
  w.id = index;
  w.v = registers + at * rows * kRow;
  w.tmp = temps;
  w.mem = &cache;
  w.products = &products;
  w.wg = &wg;
  w.scratchPerLane = scratchPerLane;
  w.scratch = scratch + at * lanes * scratchPerLane;
  initial.setUp(w);
  places[at] = Place();
}

/// Fails when the index mode of gfx9 takes an operand of `i` beyond the vector registers: the
/// rows behind them are other registers (a0 is row 256), or those of the next wave.
static void checkIndexed(const Wave &w, const Inst &i) {
  auto check = [&](const Operand &o) {
    if (o.kind != OperandKind::Vgpr || !w.msb[o.msb])
      return;
    unsigned at = o.reg + w.msb[o.msb], last = o.reg < 256 ? 256 : 512;
    if (at + o.count > last)
      raise(FaultKind::IllegalAddress,
            format("GPR indexing (s_set_gpr_idx) reaches %c%u; the last register is %c255",
                   o.reg < 256 ? 'v' : 'a', at + o.count - 1 - (last - 256), o.reg < 256 ? 'v' : 'a'));
  };
  for (const Operand *o : {&i.dst, &i.src[0], &i.src[1], &i.src[2], &i.data})
    check(*o);
  if (i.ext)
    for (const Operand *o : {&i.ext->scale[0], &i.ext->scale[1], &i.ext->index})
      check(*o);
}

namespace {
/// Instructions that a wave has run one after the other, all on the lanes that are active now.
struct Straight {
  Tally &tally;
  Wave &w;
  uint32_t first = w.pc; ///< the first of them that is not counted yet
  ~Straight() { countTo(w.pc); }
  void countTo(uint32_t end) {
    if (end != first)
      tally.countStraight(first, end, w);
    first = end;
  }
};
} // namespace

/// True for a wave at a split barrier's wait that has not completed: the instruction runs again when it does.
static bool triesAgain(const Wave &w) { return w.state == WaveState::AtBarrier && w.barrierWait; }

/// The loop of a wave whose observer is shown memory accesses and has all instructions counted.
void GroupRunner::runCounted(Wave &w, uint64_t &budget, Tally &tally) {
  const Inst *code = d.program->insts.data();
  if (quietEnds.empty()) {
    quietEnds.resize(tally.seen.size());
    for (auto n = static_cast<uint32_t>(quietEnds.size()), end = n; n-- > 0; quietEnds[n] = end)
      if (code[n].steers || tally.seen[n])
        end = n;
  }
  const uint32_t *const quietEnd = quietEnds.data();
  Straight straight{tally, w};
  uint64_t left = budget;
  do {
    for (const uint32_t end = quietEnd[w.pc]; w.pc < end && left; --left) {
      const Inst &i = code[w.pc++];
      w.cur = &i;
      i.run(w, i);
    }
    if (!left)
      break;
    const uint32_t index = w.pc++;
    const Inst &i = code[index];
    w.cur = &i;
    if (tally.seen[index])
      observer->memoryAccess(w, i);
    if (!i.steers) {
      i.run(w, i);
      continue;
    }
    straight.countTo(w.pc);
    i.run(w, i);
    straight.first = w.pc;
    if (triesAgain(w))
      tally.takeBack(index, w);
  } while (w.state == WaveState::Running && --left);
  budget = left;
}

void GroupRunner::runOne(Wave &w) {
  const Inst &i = d.program->insts[w.pc++];
  w.cur = &i;
  if (d.program->indexesRegisters && (w.mode >> 27 & 1))
    checkIndexed(w, i);
  if (!observer) {
    i.exec(w, i);
  } else if (!observer->seesRuns || d.program->indexesRegisters) {
    observer->instruction(w, i);
    i.exec(w, i);
  } else {
    const uint32_t next = w.pc;
    for (unsigned n = 0; n <= i.joined; ++n, ++w.pc)
      observer->instruction(w, (&i)[n]);
    w.pc = next;
    i.run(w, i);
  }
}

void GroupRunner::runLoop(Wave &w, uint64_t &budget) {
  if (__builtin_expect(d.program->indexesRegisters || observer, 0)) {
    if (observer && observer->tally && !d.program->indexesRegisters)
      return runCounted(w, budget, *observer->tally);
    do
      runOne(w);
    while (w.state == WaveState::Running && --budget);
    return;
  }
  const Inst *code = d.program->insts.data();
  do {
    const Inst &i = code[w.pc++];
    w.cur = &i;
    i.run(w, i);
  } while (w.state == WaveState::Running && --budget);
}

void GroupRunner::runSlice(Wave &w, uint64_t slice) {
  running = &w;
  w.state = WaveState::Running;
  uint64_t address = 0;
  Place &place = places[static_cast<size_t>(&w - waves.data())];
  auto run = [&] {
    if (round.watched) {
      uint64_t left = slice;
      do
        runWatched(w);
      while (w.state == WaveState::Running && --left);
      w.executed += slice - left;
      pollInterrupt();
      return;
    }
    // Where one is stuck, others will be.
    if (place.nextLook == kFirstLook && d.stuckSeen.load(std::memory_order_relaxed))
      place.nextLook = kSoonLook;
    if (w.executed >= place.nextLook || place.spins) {
      place.stuck = loopsForEver(w);
      if (place.stuck)
        d.stuckSeen = true;
      // Stuck waves are looked at in every turn, and have no other: they cannot go on by themselves.
      place.nextLook = place.stuck ? 0 : w.executed + w.executed / 4;
      if (place.stuck || w.state != WaveState::Running)
        return;
    }
    for (uint64_t done = 0, part; done < slice; done += part) {
      part = std::min(slice - done, place.spins ? kWaitingLook : kLook);
      uint64_t left = part;
      runLoop(w, left);
      w.executed += part - left;
      unpolled += part - left;
      // Short waves end by thousands in a period: they share a look at the clock.
      if (unpolled >= kLook || w.state != WaveState::Ended) {
        unpolled = 0;
        pollInterrupt();
      }
      if (__builtin_expect(stopRequests() != d.stops, 0))
        return;
      if (w.state != WaveState::Running)
        place.spins = false;
      else if (!random || nextRandom(random) % 32 == 0)
        place.spins = spins(w, place);
      if (w.state != WaveState::Running || place.spins)
        return;
    }
  };
  // Host memory can disappear while a kernel uses it; that is the kernel's fault, not a crash.
  if (!protectedCall(run, address)) {
    cache.refresh();
    raise(FaultKind::IllegalAddress,
          format("access to 0x%llx, which the host process has not mapped (any more)",
                 (unsigned long long)address));
  }
  if (stopRequests() != d.stops)
    raise(FaultKind::Interrupted, "the host program interrupted the launch");
  if (w.executed > limit)
    raise(FaultKind::InstructionLimit,
          format("the wave has executed %llu instructions (FLYDSL_SIM_MAX_INSTRUCTIONS); "
                 "endless loop?",
                 (unsigned long long)w.executed));
  waits &= place.spins || place.stuck || (w.state != WaveState::Running && w.state != WaveState::Yield);
  if (triesAgain(w))
    --w.pc;
}

/// Wakes waves whose barrier is complete; false if every live wave is stuck.
bool GroupRunner::releaseBarriers(Workgroup &wg) {
  unsigned live = 0, plain = 0;
  bool woken = false;
  for (unsigned i = 0; i < numWaves; ++i) {
    Wave &w = wg.waves[i];
    live += w.state != WaveState::Ended;
    plain += w.state == WaveState::AtBarrier && w.barrierWait == 0;
  }
  // A wave that ended counts as arrived.
  Barrier &own = wg.barriers[0];
  if (own.signals && own.signals >= live) {
    own.signals = 0;
    for (unsigned i = 0; i < numWaves; ++i)
      wg.waves[i].barrierDone |= 1;
  }
  for (unsigned i = 0; i < numWaves; ++i) {
    Wave &w = wg.waves[i];
    if (w.state != WaveState::AtBarrier)
      continue;
    if (w.barrierWait == 0 ? plain == live
                           : (w.barrierDone >> barrierSlotOf(w.barrierWait) & 1) != 0) {
      w.state = WaveState::Running;
      w.barrierWait = 0;
      woken = true;
    }
  }
  return woken;
}

void GroupRunner::deadlock() {
  std::string text = "barrier divergence: the waves wait for each other (";
  const char *separator = "";
  for (Wave &w : waves) {
    if (w.state == WaveState::Ended)
      continue;
    text += separator + format("wave %u at pc 0x%llx", w.id,
                               w.cur ? (unsigned long long)(d.program->addressOf(*w.cur) -
                                                            d.object->bias)
                                     : 0ull);
    separator = ", ";
    running = &w;
  }
  raise(FaultKind::BarrierDivergence, text + ")");
}

bool GroupRunner::step() {
  bool ran = false, live = false, slept = false;
  waits = true;
  for (unsigned i = 0; i < order.size(); ++i)
    order[i] = i;
  if (random)
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[nextRandom(random) % i]);
  for (unsigned i : order) {
    Wave &w = waves[i];
    if (w.state == WaveState::Running || w.state == WaveState::Yield) {
      runSlice(w, random ? 1 + nextRandom(random) % 64 : kSlice);
      slept |= w.state == WaveState::Yield;
      ran = true;
    }
    live |= w.state != WaveState::Ended;
  }
  if (!live) {
    if (observer)
      for (Workgroup &wg : wgs)
        observer->endGroup(wg);
    return true;
  }
  // Random schedules take small steps, which say nothing about waiting.
  rounds += random ? (nextRandom(random) % 256 == 0) : 1;
  sleeps += slept;
  bool released = false;
  for (Workgroup &wg : wgs) {
    bool woken = releaseBarriers(wg);
    if (woken && observer)
      observer->barrier(wg);
    released |= woken;
  }
  waits &= ran && !released;
  if (released || round.watched)
    lookAtRound(released);
  if (!released && !ran)
    deadlock();
  return false;
}

/// The scalar address that an access of memory starts from, 0 if it has none.
static uint64_t scalarBase(const Wave &w, const Inst &i) {
  const Operand &o = i.src[1];
  if (o.kind != OperandKind::Sgpr || o.reg + 1u >= kSink)
    return 0;
  return (w.s[o.reg] | uint64_t(w.s[o.reg + 1]) << 32) & 0xffffffffffffull;
}

/// The source line of an instruction, or of the nearest one before it that has a line: what the
/// compiler adds, such as masks of loops, has none.
static std::string lineOf(const Dispatch &d, const Inst &inst) {
  constexpr unsigned kReach = 16;
  std::string line;
  const Inst *first = d.program->insts.data();
  for (const Inst *i = &inst; line.empty() && i >= first && i + kReach > &inst; --i)
    line = sourceLine(*d.object, d.program->addressOf(*i) - d.object->bias);
  return line;
}

/// The named array that a fault of an access is about, or null.
const LaunchArgument *GroupRunner::arrayOf(const Fault &f) const {
  if (!f.finding.empty())
    return argumentOf(d.arguments, f.address, 0);
  return f.bytes ? argumentOf(d.arguments, f.address, scalarBase(*running, *running->cur)) : nullptr;
}

static std::string relation(const LaunchArgument &array, const Fault &f) {
  std::string text = format("%s of %u bytes %s", f.write ? "write" : "read", f.bytes,
                            array.relation(f.address, f.bytes).c_str());
  constexpr uint64_t kWidest = 16; // bytes of an access, which is no fault on hardware if they are of one page
  if (!f.write && array.distance(f.address) == 0 && f.address % kWidest + f.bytes <= kWidest)
    text += ", from inside and within 16 aligned bytes: a compiler may have widened a load of what is there";
  return text;
}

Fault GroupRunner::located(const Fault &f) const {
  Fault full = f;
  full.text = where(f);
  if (running && running->cur) {
    const Inst &i = *running->cur;
    auto site = std::make_shared<FaultSite>();
    site->what = f.text;
    const LaunchArgument *array = arrayOf(f);
    if (array && f.finding.empty())
      site->what = array->place(f.address) + ": " + relation(*array, f) + "; " + f.text;
    site->instruction = d.program->text(i);
    site->source = lineOf(d, i);
    site->pc = d.program->addressOf(i) - d.object->bias;
    std::copy(running->wg->id, running->wg->id + 3, site->group);
    site->wave = running->id;
    full.site = std::move(site);
  }
  return full;
}

std::string GroupRunner::where(const Fault &f) const {
  std::string kernel = format("kernel %s (%s)", d.kernel->name.c_str(), d.program->arch->name);
  if (!running || !running->cur)
    return kernel + ": " + f.text;
  const Inst &i = *running->cur;
  uint64_t pc = d.program->addressOf(i) - d.object->bias;
  kernel += format(", instruction '%s' at pc 0x%llx", d.program->text(i).c_str(),
                   (unsigned long long)pc);
  std::string line = lineOf(d, i);
  const uint32_t *id = running->wg->id;
  std::string thread = format("workgroup (%u,%u,%u), wave %u", id[0], id[1], id[2], running->id);
  if (f.lane >= 0)
    thread += format(", lane %d", f.lane);
  const LaunchArgument *array = arrayOf(f);
  if (!array) {
    if (!line.empty())
      kernel += ", source " + line;
    return kernel + ", " + thread + ": " + f.text;
  }
  // What a person needs first: which array, where in it, which line, which thread.
  std::string place = array->place(f.address) + ", " + (line.empty() ? "" : line + ", ") + thread + ": ";
  if (!f.finding.empty())
    return place + f.finding + "\n  " + kernel;
  return place + relation(*array, f) + "\n  " + kernel + ": " + f.text;
}

} // namespace flysim
