//===- Profile.cpp - counters of a launch ---------------------------------===//

#include "observe/Profile.h"

#include "loader/SourceLines.h"
#include "observe/Access.h"
#include "observe/TimingTable.h"

#include <algorithm>
#include <cstring>

namespace flysim {

void InstCounters::add(const InstCounters &o) {
  issued += o.issued;
  lanes += o.lanes;
  bytes += o.bytes;
  lines += o.lines;
  l2Bytes += o.l2Bytes;
  readBytes += o.readBytes;
  writtenBytes += o.writtenBytes;
  ldsCycles += o.ldsCycles;
  ldsIdeal += o.ldsIdeal;
}

namespace {

/// Work-groups that the timing model replays: those that a round-robin dispatcher
/// gives to the first compute unit.
constexpr unsigned kLeastSampledGroups = 16;
/// Bound of the recorded instructions of one work-group, all waves together.
constexpr size_t kTraceOps = 2000000;

struct Shared {
  LaunchProfile profile;
  SharedCache cache;
  uint64_t stride; ///< distance of the sampled work-groups
  uint64_t samples; ///< how many: enough to see the steady state between start and drain
  std::mutex mutex;

  explicit Shared(const ArchInfo &arch) : cache(timingTable(arch).sharedCacheBytes) {}
};

class ProfileWorker final : public WorkerObserver {
public:
  explicit ProfileWorker(Shared &shared)
      : shared(shared), infos(shared.profile.infos), l1(timingTable(*shared.profile.arch).l1Bytes) {
    counters.resize(infos.size());
  }
  ~ProfileWorker() override {
    std::lock_guard<std::mutex> lock(shared.mutex);
    for (size_t i = 0; i < counters.size(); ++i)
      shared.profile.counters[i].add(counters[i]);
  }

  void startGroup(Workgroup &wg, uint64_t linear) override {
    l1.clear();
    recording = (shared.profile.what & kProfileTiming) && linear % shared.stride == 0 &&
                linear / shared.stride < shared.samples;
    if (recording) {
      trace = GroupTrace();
      trace.linearId = linear;
      trace.waves.resize(wg.numWaves);
      recorded = 0;
    }
  }

  void endGroup(Workgroup &) override {
    if (!recording)
      return;
    std::lock_guard<std::mutex> lock(shared.mutex);
    shared.profile.traces.push_back(std::move(trace));
  }

  void instruction(Wave &w, const Inst &inst) override {
    size_t index = static_cast<size_t>(&inst - w.program->insts.data());
    const InstInfo &info = infos[index];
    InstCounters &c = counters[index];
    uint64_t exec = w.exec() & w.fullMask;
    // A split barrier's wait is tried again until it completes: one instruction.
    if (info.unit == Unit::Barrier && recording && !trace.waves[w.id].ops.empty() &&
        trace.waves[w.id].ops.back().inst == index)
      return;
    ++c.issued;
    c.lanes += static_cast<unsigned>(__builtin_popcountll(exec));
    TraceOp op;
    op.inst = static_cast<uint32_t>(index);
    if (info.space != MemSpace::None)
      memory(w, inst, info, c, op);
    if (recording && recorded < kTraceOps) {
      trace.waves[w.id].ops.push_back(op);
      ++recorded;
    }
  }

private:
  void memory(Wave &w, const Inst &inst, const InstInfo &info, InstCounters &c, TraceOp &op) {
    if (!describeAccess(w, inst, info, access))
      return;
    unsigned active = static_cast<unsigned>(__builtin_popcountll(access.lanes));
    c.bytes += uint64_t(active) * access.bytes * access.count;
    if (info.space == MemSpace::Scalar)
      return;
    if (access.ldsSpace) {
      unsigned cycles = ldsCycles(access, info, *w.program->arch);
      c.ldsCycles += cycles;
      c.ldsIdeal += ldsIdealCycles(access, info, *w.program->arch);
      op.cost = static_cast<uint16_t>(cycles);
      return;
    }
    op.cost = static_cast<uint16_t>(std::max(1u, active * access.bytes / 64));
    if (!active)
      return;
    op.level = Level::L1;
    collectLines(access);
    c.lines += lineCount;
    op.cost = std::max<uint16_t>(op.cost, static_cast<uint16_t>(std::min(lineCount, 65535u)));
    unsigned l2 = 0, mem = 0;
    for (unsigned k = 0; k < lineCount; ++k) {
      if (info.load && l1.touch(lines[k]))
        continue;
      // Loads fill whole lines; stores and atomics go through to L2 in sectors.
      unsigned sectors = info.load ? 15u : sectorsOf[k];
      unsigned fresh = shared.cache.touch(lines[k], sectors, !info.load);
      l2 += static_cast<unsigned>(__builtin_popcount(sectors));
      mem += static_cast<unsigned>(__builtin_popcount(fresh));
    }
    if (mem)
      op.level = Level::Memory;
    else if (l2)
      op.level = Level::L2;
    op.l2Bytes32 = static_cast<uint16_t>(std::min(l2, 65535u));
    op.memBytes32 = static_cast<uint16_t>(std::min(mem, 65535u));
    c.l2Bytes += uint64_t(l2) * kSectorBytes;
    (info.load ? c.readBytes : c.writtenBytes) += uint64_t(mem) * kSectorBytes;
  }

  /// The distinct lines of an access and, per line, its sectors.
  void collectLines(const MemoryAccess &a) {
    lineCount = 0;
    for (uint64_t m = a.lanes; m; m &= m - 1) {
      uint64_t from = a.addr[0][__builtin_ctzll(m)], to = from + a.bytes - 1;
      for (uint64_t sector = from / kSectorBytes; sector <= to / kSectorBytes; ++sector)
        addSector(sector);
    }
  }
  void addSector(uint64_t sector) {
    uint64_t line = sector / (kLineBytes / kSectorBytes);
    unsigned bit = 1u << (sector % (kLineBytes / kSectorBytes));
    // Neighbouring lanes mostly share the line found last.
    for (unsigned k = lineCount; k-- > 0;)
      if (lines[k] == line) {
        sectorsOf[k] |= bit;
        return;
      }
    if (lineCount < kMaxLines) {
      lines[lineCount] = line;
      sectorsOf[lineCount++] = bit;
    }
  }

  static constexpr unsigned kMaxLines = 256;
  Shared &shared;
  const std::vector<InstInfo> &infos;
  std::vector<InstCounters> counters;
  L1Cache l1;
  MemoryAccess access;
  uint64_t lines[kMaxLines];
  unsigned sectorsOf[kMaxLines], lineCount = 0;
  bool recording = false;
  size_t recorded = 0;
  GroupTrace trace;
};

class ProfileLaunch final : public LaunchObserver {
public:
  ProfileLaunch(const Dispatch &d, unsigned what, void (*done)(LaunchProfile &&))
      : shared(*d.program->arch), done(done), object(d.object), program(d.program) {
    LaunchProfile &p = shared.profile;
    const KernelInfo &k = *d.kernel;
    p.kernel = k.name;
    p.arch = d.program->arch;
    std::copy(d.grid, d.grid + 3, p.grid);
    std::copy(d.block, d.block + 3, p.block);
    p.waveSize = k.waveSize();
    p.wavesPerGroup = (d.block[0] * d.block[1] * d.block[2] + p.waveSize - 1) / p.waveSize;
    p.vgprs = k.vgprs;
    p.sgprs = k.sgprs;
    p.agprs = k.agprs;
    p.ldsBytes = k.ldsBytes + d.dynamicLds;
    p.scratchBytes = k.scratchBytes;
    p.what = what;
    p.infos = classify(*d.program, p.waveSize);
    p.counters.resize(p.infos.size());
    uint64_t groups = uint64_t(d.grid[0]) * d.grid[1] * d.grid[2];
    shared.stride = std::max<uint64_t>(1, std::min<uint64_t>(groups, p.arch->computeUnits));
    Occupancy o = occupancy(*p.arch, p.vgprs, p.sgprs, p.ldsBytes, p.wavesPerGroup, p.waveSize);
    shared.samples = std::max(kLeastSampledGroups, 4 * o.groupsPerCu);
  }
  ~ProfileLaunch() override {
    LaunchProfile &p = shared.profile;
    p.texts.resize(p.infos.size());
    p.sources.resize(p.infos.size());
    p.addresses.resize(p.infos.size());
    for (size_t i = 0; i < p.infos.size(); ++i) {
      const Inst &inst = program->insts[i];
      p.addresses[i] = program->addressOf(inst) - object->bias;
      if (!p.counters[i].issued)
        continue;
      p.texts[i] = program->text(inst);
      p.sources[i] = sourceLine(*object, p.addresses[i]);
    }
    std::sort(p.traces.begin(), p.traces.end(),
              [](const GroupTrace &a, const GroupTrace &b) { return a.linearId < b.linearId; });
    done(std::move(p));
  }
  std::unique_ptr<WorkerObserver> worker() override {
    return std::make_unique<ProfileWorker>(shared);
  }

private:
  Shared shared;
  void (*done)(LaunchProfile &&);
  const CodeObject *object;
  const Program *program;
};

} // namespace

std::unique_ptr<LaunchObserver> profileLaunch(const Dispatch &dispatch, unsigned what,
                                              void (*done)(LaunchProfile &&)) {
  return std::make_unique<ProfileLaunch>(dispatch, what, done);
}

Occupancy occupancy(const ArchInfo &arch, unsigned vgprs, unsigned sgprs, unsigned ldsBytes,
                    unsigned wavesPerGroup, unsigned waveSize) {
  auto alignUp = [](unsigned n, unsigned to) { return (n + to - 1) / to * to; };
  unsigned most, file, granule;
  if (arch.gfx1250()) {
    most = 16, file = 1024, granule = 16;
  } else if (arch.gfx12()) {
    most = 16, file = waveSize == 32 ? 1536 : 768, granule = waveSize == 32 ? 24 : 12;
  } else {
    most = 8, file = 512, granule = 8;
  }
  Occupancy o;
  o.limit = "waves per SIMD";
  unsigned waves = most;
  auto limit = [&](unsigned n, const char *why) {
    if (n < waves) {
      waves = n;
      o.limit = why;
    }
  };
  limit(file / alignUp(std::max(1u, vgprs), granule), "VGPRs");
  if (!arch.gfx12() && sgprs)
    limit(800 / alignUp(sgprs, 16), "SGPRs");
  const TimingTable &t = timingTable(arch);
  unsigned perGroup = std::max(1u, wavesPerGroup);
  // Like LLVM, waves per SIMD counts what the resources allow, also where that is no
  // whole number of work-groups.
  auto limitGroups = [&](unsigned groups, const char *why) {
    limit(std::max(1u, groups * perGroup / t.simdsPerLds), why);
  };
  if (perGroup > 1)
    limitGroups(t.maxBarriers, "work-groups per compute unit");
  if (ldsBytes)
    limitGroups(t.ldsPool / alignUp(ldsBytes, t.ldsGranule), "LDS");
  o.wavesPerSimd = waves;
  o.groupsPerCu = std::max(1u, waves * t.simdsPerLds / perGroup);
  return o;
}

} // namespace flysim
