//===- Machine.cpp - running a grid ---------------------------------------===//

#include "exec/Machine.h"

#include "exec/ThreadPool.h"
#include "exec/Wave.h"
#include "loader/SourceLines.h"
#include "memory/Memory.h"
#include "observe/Observer.h"
#include "support/Error.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace flysim {

namespace {

/// Instructions that a wave runs before the next wave of its work-group gets a turn,
/// so that waves that spin on memory make progress together.
constexpr uint64_t kSlice = 20000;

uint64_t instructionLimit() {
  const char *text = getenv("FLYDSL_SIM_MAX_INSTRUCTIONS");
  uint64_t limit = text ? strtoull(text, nullptr, 0) : 0;
  return limit ? limit : 4000000000ull;
}

/// Everything a worker needs to run one work-group at a time.
class Worker {
public:
  Worker(const Dispatch &d, uint64_t kernarg, uint64_t packet, uint64_t limit,
         LaunchObserver *launch)
      : d(d), kernarg(kernarg), packet(packet), limit(limit),
        observer(launch ? launch->worker() : nullptr) {
    const ArchInfo &arch = *d.program->arch;
    lanes = d.kernel->waveSize();
    items = d.block[0] * d.block[1] * d.block[2];
    numWaves = (items + lanes - 1) / lanes;
    rows = arch.vgprRows;
    ldsSize = d.kernel->ldsBytes + d.dynamicLds;
    // A dynamic stack needs more than the descriptor's fixed size.
    scratchPerLane = d.kernel->scratchBytes + (d.kernel->dynamicStack ? 16384 : 0);
    registers = static_cast<uint32_t *>(
        aligned_alloc(64, size_t(numWaves) * rows * kRow * sizeof(uint32_t)));
    lds = static_cast<uint8_t *>(aligned_alloc(64, (size_t(ldsSize) + 127) / 64 * 64));
    scratch = static_cast<uint8_t *>(
        aligned_alloc(64, (size_t(scratchPerLane) * lanes * numWaves + 127) / 64 * 64));
    temps = static_cast<Temps *>(aligned_alloc(64, sizeof(Temps)));
    if (!registers || !lds || !scratch || !temps)
      raise(FaultKind::OutOfMemory, "no host memory for the simulated registers");
    memset(lds, 0, ldsSize);
    memset(temps, 0, sizeof(Temps));
    clearRegisters();
    waves.resize(numWaves);
    cache.refresh();
  }
  ~Worker() {
    free(registers);
    free(lds);
    free(scratch);
    free(temps);
  }

  void run(uint64_t linear) {
    wg.id[0] = static_cast<uint32_t>(linear % d.grid[0]);
    wg.id[1] = static_cast<uint32_t>(linear / d.grid[0] % d.grid[1]);
    wg.id[2] = static_cast<uint32_t>(linear / d.grid[0] / d.grid[1]);
    wg.lds = lds;
    wg.ldsSize = ldsSize;
    wg.waves = waves.data();
    wg.numWaves = numWaves;
    for (Barrier &b : wg.barriers)
      b = Barrier{};
    for (unsigned i = 0; i < numWaves; ++i)
      start(waves[i], i);
    if (observer)
      observer->startGroup(wg, linear);
    schedule();
    if (observer)
      observer->endGroup(wg);
  }

  /// The place of the last fault: which wave was running.
  std::string where(const Fault &f) const;

private:
  void clearRegisters() {
    // Only what the kernel may name; the rest of the file is never touched.
    const ArchInfo &arch = *d.program->arch;
    unsigned granule = arch.gfx1250() ? 16 : (lanes == 64 && arch.gfx12() ? 4 : 8);
    unsigned total = ((d.kernel->rsrc1 & 63) + 1) * granule;
    unsigned accum = arch.gfx12() ? total : 4 * ((d.kernel->rsrc3 & 63) + 1);
    unsigned vector = std::min(total, std::min(accum, rows));
    for (unsigned i = 0; i < numWaves; ++i) {
      uint32_t *v = registers + size_t(i) * rows * kRow;
      memset(v, 0, size_t(vector) * kRow * 4);
      if (total > accum && rows > 256)
        memset(v + 256 * kRow, 0, size_t(std::min(total - accum, 256u)) * kRow * 4);
    }
  }

  void start(Wave &w, unsigned index);
  void initScalars(Wave &w);
  void initVectors(Wave &w);
  void schedule();
  void runSlice(Wave &w);
  bool releaseBarriers();
  [[noreturn]] void deadlock();

  const Dispatch &d;
  uint64_t kernarg, packet, limit;
  std::unique_ptr<WorkerObserver> observer;
  unsigned lanes, items, numWaves, rows;
  uint32_t ldsSize, scratchPerLane;
  uint32_t *registers = nullptr;
  uint8_t *lds = nullptr, *scratch = nullptr;
  Temps *temps = nullptr;
  std::vector<Wave> waves;
  Workgroup wg;
  AccessCache cache;
  const Wave *running = nullptr;
};

void Worker::start(Wave &w, unsigned index) {
  const ArchInfo &arch = *d.program->arch;
  w = Wave();
  w.id = index;
  w.v = registers + size_t(index) * rows * kRow;
  w.lanes = lanes;
  w.blocks = lanes / 32;
  w.fullMask = lanes == 64 ? ~0ull : 0xffffffffull;
  w.m0Index = arch.gfx12() ? 125 : 124;
  w.program = d.program;
  w.tmp = temps;
  w.mem = &cache;
  w.wg = &wg;
  w.scratchPerLane = scratchPerLane;
  w.scratch = scratch + size_t(index) * lanes * scratchPerLane;
  w.mode = (d.kernel->rsrc1 >> 12 & 0xff) | (arch.gfx12() ? 0 : (d.kernel->rsrc1 >> 21 & 1) << 8 |
                                                                    (d.kernel->rsrc1 >> 23 & 1) << 9);
  w.fpSpecial = (w.mode & 0xff) != 0xf0;
  if (arch.gfx12()) {
    // Flat addresses of private memory: the aperture, on gfx1250 with the lane in bits 56:52.
    w.laneInAperture = arch.gfx1250();
    w.s[kFlatScratchBase + 1] = kPrivateAperture;
  }
  unsigned first = index * lanes, count = std::min(lanes, items - first);
  w.setExec(count == 64 ? ~0ull : (1ull << count) - 1);
  initScalars(w);
  initVectors(w);
  w.pc = d.program->indexOf(d.kernel->entryAddr);
}

void Worker::initScalars(Wave &w) {
  const ArchInfo &arch = *d.program->arch;
  const KernelInfo &k = *d.kernel;
  unsigned next = 0;
  auto pair = [&](uint64_t v) {
    memcpy(&w.s[next], &v, 8);
    next += 2;
  };
  if (k.properties & 1)
    next += 4;
  if (k.properties & 2)
    pair(packet);
  if (k.properties & 4)
    pair(packet);
  if (k.properties & 8)
    pair(kernarg);
  if (k.properties & 16)
    pair(1);
  if (k.properties & 32)
    pair(0);
  if (k.properties & 64)
    w.s[next++] = scratchPerLane;
  unsigned preload = k.preload & 127, skip = k.preload >> 7;
  for (unsigned i = 0; i < preload; ++i, ++next) {
    size_t at = size_t(skip + i) * 4;
    if (at + 4 <= d.kernarg->size())
      memcpy(&w.s[next], d.kernarg->data() + at, 4);
  }
  next = std::max(next, k.userSgprs(arch.gfx1250()));
  if (arch.gfx12()) {
    w.s[kTtmp0 + 9] = wg.id[0];
    w.s[kTtmp0 + 7] = (wg.id[1] & 0xffff) | wg.id[2] << 16;
    w.s[kTtmp0 + 8] = w.id << 25;
    return;
  }
  for (unsigned i = 0; i < 3; ++i)
    if (k.rsrc2 >> (7 + i) & 1)
      w.s[next++] = wg.id[i];
}

void Worker::initVectors(Wave &w) {
  uint32_t x = w.id * lanes % d.block[0], rest = w.id * lanes / d.block[0];
  uint32_t y = rest % d.block[1], z = rest / d.block[1];
  for (unsigned l = 0; l < lanes; ++l) {
    w.v[l] = x | y << 10 | z << 20;
    if (++x == d.block[0]) {
      x = 0;
      if (++y == d.block[1]) {
        y = 0;
        ++z;
      }
    }
  }
}

void Worker::runSlice(Wave &w) {
  running = &w;
  w.state = WaveState::Running;
  const Inst *code = d.program->insts.data();
  uint64_t budget = kSlice;
  if (__builtin_expect(observer != nullptr, 0)) {
    do {
      const Inst &i = code[w.pc++];
      w.cur = &i;
      observer->instruction(w, i);
      i.exec(w, i);
    } while (w.state == WaveState::Running && --budget);
  } else {
    do {
      const Inst &i = code[w.pc++];
      w.cur = &i;
      i.exec(w, i);
    } while (w.state == WaveState::Running && --budget);
  }
  w.executed += kSlice - budget;
  if (w.executed > limit)
    raise(FaultKind::InstructionLimit,
          format("the wave has executed %llu instructions (FLYDSL_SIM_MAX_INSTRUCTIONS); "
                 "endless loop?",
                 (unsigned long long)w.executed));
  if (w.state == WaveState::AtBarrier && w.barrierWait)
    --w.pc; // s_barrier_wait runs again when its barrier completes
}

unsigned barrierSlotOf(int id) {
  return static_cast<unsigned>(id > 0 ? id : (id == -1 ? 0 : 16 - id));
}

/// Wakes waves whose barrier is complete; false if every live wave is stuck.
bool Worker::releaseBarriers() {
  unsigned live = 0, plain = 0;
  bool woken = false;
  for (Wave &w : waves) {
    live += w.state != WaveState::Ended;
    plain += w.state == WaveState::AtBarrier && w.barrierWait == 0;
  }
  // A wave that ended counts as arrived.
  Barrier &own = wg.barriers[0];
  if (own.signals && own.signals >= live) {
    own.signals = 0;
    for (Wave &w : waves)
      w.barrierDone |= 1;
  }
  for (Wave &w : waves) {
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

void Worker::deadlock() {
  std::string text = "barrier divergence: the waves wait for each other (";
  const char *separator = "";
  for (Wave &w : waves) {
    if (w.state == WaveState::Ended)
      continue;
    text += separator + format("wave %u at pc 0x%x", w.id, w.cur ? w.cur->pc : 0);
    separator = ", ";
    running = &w;
  }
  raise(FaultKind::BarrierDivergence, text + ")");
}

void Worker::schedule() {
  for (;;) {
    bool ran = false, live = false;
    for (Wave &w : waves) {
      if (w.state == WaveState::Ended)
        continue;
      live = true;
      if (w.state == WaveState::AtBarrier)
        continue;
      runSlice(w);
      ran = true;
    }
    if (!live)
      return;
    bool released = releaseBarriers();
    if (released && observer)
      observer->barrier(wg);
    if (!released && !ran)
      deadlock();
  }
}

std::string Worker::where(const Fault &f) const {
  std::string text = format("kernel %s (%s)", d.kernel->name.c_str(), d.program->arch->name);
  if (running && running->cur) {
    const Inst &i = *running->cur;
    text += format(", instruction '%s' at pc 0x%llx", d.program->text(i).c_str(),
                   (unsigned long long)(d.program->addressOf(i) - d.object->bias));
    std::string line = sourceLine(*d.object, d.program->addressOf(i) - d.object->bias);
    if (!line.empty())
      text += ", source " + line;
    text += format(", workgroup (%u,%u,%u), wave %u", wg.id[0], wg.id[1], wg.id[2], running->id);
    if (f.lane >= 0)
      text += format(", lane %d", f.lane);
  }
  return text + ": " + f.text;
}

void validate(const Dispatch &d) {
  const ArchInfo &arch = *d.program->arch;
  const KernelInfo &k = *d.kernel;
  uint64_t items = uint64_t(d.block[0]) * d.block[1] * d.block[2];
  if (items == 0 || items > 1024 || items > k.maxWorkgroup)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s: a work-group of %ux%ux%u has %llu work-items; the kernel allows 1 to "
                 "%u",
                 k.name.c_str(), d.block[0], d.block[1], d.block[2], (unsigned long long)items,
                 std::min(k.maxWorkgroup, 1024u)));
  if (k.reqdWorkgroup[0])
    for (unsigned i = 0; i < 3; ++i)
      if (k.reqdWorkgroup[i] != d.block[i])
        raise(FaultKind::InvalidConfiguration,
              format("kernel %s needs a work-group of %ux%ux%u, not %ux%ux%u", k.name.c_str(),
                     k.reqdWorkgroup[0], k.reqdWorkgroup[1], k.reqdWorkgroup[2], d.block[0],
                     d.block[1], d.block[2]));
  uint64_t lds = uint64_t(k.ldsBytes) + d.dynamicLds;
  if (lds > arch.ldsPerWorkgroup)
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s needs %llu bytes of LDS; %s has %u per work-group", k.name.c_str(),
                 (unsigned long long)lds, arch.name, arch.ldsPerWorkgroup));
}

/// Kernarg segment and AQL packet in device memory, reused between launches.
struct LaunchMemory {
  static constexpr uint64_t kBytes = 64 * 1024;
  uint64_t base = AddressSpace::instance().allocate(kBytes, MemKind::Device, 0);
};

void fillPacket(uint8_t *p, const Dispatch &d, uint64_t kernarg) {
  memset(p, 0, 64);
  auto put = [&](unsigned at, auto value) { memcpy(p + at, &value, sizeof value); };
  put(0, uint16_t(2));
  put(2, uint16_t(3));
  for (unsigned i = 0; i < 3; ++i) {
    put(4 + 2 * i, uint16_t(d.block[i]));
    put(12 + 4 * i, uint32_t(d.grid[i] * d.block[i]));
  }
  put(24, d.kernel->scratchBytes);
  put(28, uint32_t(d.kernel->ldsBytes + d.dynamicLds));
  put(32, d.kernel->descriptorAddr);
  put(40, kernarg);
}

std::mutex launchMutex;

} // namespace

void runDispatch(const Dispatch &dispatch) {
  validate(dispatch);
  uint64_t total = uint64_t(dispatch.grid[0]) * dispatch.grid[1] * dispatch.grid[2];
  if (total == 0)
    return;
  std::lock_guard<std::mutex> lock(launchMutex);
  static LaunchMemory memory;
  if (!memory.base || dispatch.kernarg->size() + 128 > LaunchMemory::kBytes)
    raise(FaultKind::OutOfMemory, "no memory for the kernel arguments");
  uint64_t packet = memory.base, kernarg = memory.base + 64;
  memcpy(reinterpret_cast<void *>(kernarg), dispatch.kernarg->data(), dispatch.kernarg->size());
  fillPacket(reinterpret_cast<uint8_t *>(packet), dispatch, kernarg);

  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex faultMutex;
  Fault first{FaultKind::Trap, "", -1};
  uint64_t limit = instructionLimit();
  std::unique_ptr<LaunchObserver> observer = observerFor(dispatch);
  auto body = [&] {
    try {
      Worker worker(dispatch, kernarg, packet, limit, observer.get());
      try {
        for (uint64_t g; !failed.load(std::memory_order_relaxed) && (g = next++) < total;)
          worker.run(g);
      } catch (const Fault &f) {
        std::lock_guard<std::mutex> guard(faultMutex);
        if (!failed.exchange(true))
          first = Fault{f.kind, worker.where(f), f.lane};
      }
    } catch (const Fault &f) {
      std::lock_guard<std::mutex> guard(faultMutex);
      if (!failed.exchange(true))
        first = f;
    }
  };
  ThreadPool::instance().run(static_cast<unsigned>(std::min<uint64_t>(total, workerCount())), body);
  if (failed)
    throw first;
}

} // namespace flysim
