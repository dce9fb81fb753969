//===- Profile.cpp - counters of a launch ---------------------------------===//

#include "observe/Profile.h"

#include "loader/SourceLines.h"
#include "observe/Access.h"
#include "observe/Lines.h"
#include "observe/TimingTable.h"
#include "observe/Traffic.h"

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
  l2Missed += o.l2Missed;
  sideMissed += o.sideMissed;
  partial += o.partial;
  ldsBytes += o.ldsBytes;
  ldsDegree = std::max(ldsDegree, o.ldsDegree);
  ldsCycles += o.ldsCycles;
  ldsIdeal += o.ldsIdeal;
}

namespace {

/// Work-groups of a launch of which each one's instructions are counted: 4 bytes each.
constexpr uint64_t kMostCounted = 1 << 22;

/// Work-groups that the timing model replays: those that a round-robin dispatcher
/// gives to the first compute unit.
constexpr unsigned kLeastSampledGroups = 16;
/// Bound of the recorded instructions of a launch (8 bytes each), all waves together.
constexpr size_t kTraceOps = 16000000;

struct Shared {
  LaunchProfile profile;
  Traffic::Lease traffic; ///< of the launch as soon as it is known
  HostArrays arrays;
  uint64_t resident = 1; ///< work-groups that run at once, each with scratch of its own
  uint64_t stride = 1;  ///< distance of the sampled work-groups
  uint64_t first = 0;   ///< the first of them
  uint64_t samples = 0; ///< how many: enough to see the steady state between start and drain
  size_t opsPerGroup = 0; ///< bound of the recorded instructions of one of them
  std::mutex mutex;

  explicit Shared(const std::vector<Region> &hostRanges) : arrays(hostRanges) {}
};

class ProfileGroup final : public GroupObserver {
public:
  explicit ProfileGroup(Shared &shared)
      : shared(shared), arch(*shared.profile.arch), infos(shared.profile.infos),
        l1(timingTable(arch).l1Bytes), ldsCosts(infos.size()), linePatterns(infos.size()), lines(shared.arrays),
        source(shared.traffic->source()), moves(source.moves) {
    counters.resize(infos.size());
    counted.resize(infos.size());
    for (size_t i = 0; i < infos.size(); ++i)
      counted.seen[i] = looksAt(infos[i]);
    ldsBytesPerClk = std::max(1u, timingTable(arch).ldsBytesPerClk);
    seesRuns = true;
  }
  ~ProfileGroup() override {
    counted.finish();
    std::lock_guard<std::mutex> lock(shared.mutex);
    for (size_t i = 0; i < counters.size(); ++i) {
      const Executions &e = counted.executions[i];
      counters[i].issued = e.issued;
      counters[i].partial = e.partial;
      counters[i].lanes = e.lanes + (e.issued - e.partial) * shared.profile.waveSize;
      if (infos[i].whole)
        counters[i].bytes = e.issued * infos[i].bytes;
      shared.profile.counters[i].add(counters[i]);
    }
    for (size_t i = 0; i < infos.size(); ++i) {
      const LdsPattern *worst = ldsCosts.worst(i);
      if (!worst || worst->degree < 2)
        continue;
      LdsPattern &kept = shared.profile.ldsPatterns[i];
      // Of equals the first one of the grid, whichever thread ran it.
      if (worst->degree > kept.degree || (worst->degree == kept.degree && worst->group < kept.group))
        kept = *worst;
    }
  }

  void startGroup(Workgroup &wg, uint64_t linear) override {
    // The work-groups of a cluster start together: `linear` counts clusters.
    unsigned slot = wg.clusterIndex;
    if (slot == 0)
      shared.traffic->begin(source, linear);
    linear = linear * wg.clusterSize + slot;
    if (slot == 0) {
      l1.clear();
      ldsCosts.begin(linear);
      pages.clear();
      nextDrain = moves.size() + kManyMoves;
      recorded = 0;
      waves = wg.numWaves;
      last.assign(size_t(wg.clusterSize) * waves, ~size_t(0));
      traces.resize(wg.clusterSize);
      counted.issued.assign(wg.clusterSize, 0);
    }
    bool sampled = (shared.profile.what & kProfileTiming) && linear >= shared.first &&
                   (linear - shared.first) % shared.stride < wg.clusterSize &&
                   (linear - shared.first) / shared.stride < shared.samples;
    recording = sampled || (slot && recording);
    tally = recording ? nullptr : &counted;
    traces[slot].linearId = linear;
    const Selection &s = shared.profile.selection;
    traces[slot].shown = !s.one || (wg.id[0] == s.workgroup[0] && wg.id[1] == s.workgroup[1] &&
                                    wg.id[2] == s.workgroup[2]);
    traces[slot].waves.clear();
    if (sampled)
      traces[slot].waves.resize(wg.numWaves);
  }

  void endGroup(Workgroup &wg) override {
    if (wg.clusterIndex + 1 == wg.clusterSize)
      shared.traffic->end(source);
    std::vector<uint32_t> &all = shared.profile.groupIssued;
    if (uint64_t id = traces[wg.clusterIndex].linearId; id < all.size())
      all[id] = counted.issued[wg.clusterIndex]; // each work-group has an entry of its own
    if (traces[wg.clusterIndex].waves.empty())
      return;
    std::lock_guard<std::mutex> lock(shared.mutex);
    shared.profile.traces.push_back(std::move(traces[wg.clusterIndex]));
  }

  void instruction(Wave &w, const Inst &inst) override {
    size_t index = w.pc - 1;
    const InstInfo &info = infos[index];
    // A split barrier's wait is tried again until it completes: one instruction.
    size_t &before = last[size_t(w.wg->clusterIndex) * waves + w.id];
    if (info.unit == Unit::Barrier && before == index)
      return;
    before = index;
    counted.count(index, w);
    if (looksAt(info) || recording)
      details(w, inst, index, info, counters[index]);
  }

  void memoryAccess(Wave &w, const Inst &inst) override {
    const size_t index = w.pc - 1;
    TraceOp unused;
    memory(w, inst, index, infos[index], counters[index], unused);
  }

private:
  /// True for memory accesses of which each run tells something of its own.
  static bool looksAt(const InstInfo &info) { return info.space != MemSpace::None && !info.whole; }

  /// What a memory access costs, and the record of the instruction.
  void details(Wave &w, const Inst &inst, size_t index, const InstInfo &info, InstCounters &c) {
    TraceOp op;
    op.inst = static_cast<uint32_t>(index);
    if (looksAt(info))
      memory(w, inst, index, info, c, op);
    if (!recording || recorded >= shared.opsPerGroup)
      return;
    GroupTrace &trace = traces[w.wg->clusterIndex];
    if (trace.waves.empty())
      return;
    trace.waves[w.id].ops.push_back(op);
    ++recorded;
  }

  /// Set bits of a mask of four sectors.
  static constexpr uint8_t kBits[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};

  static uint16_t clip(uint64_t n) { return static_cast<uint16_t>(std::min<uint64_t>(n, 65535)); }

  void memory(Wave &w, const Inst &inst, size_t index, const InstInfo &info, InstCounters &c,
              TraceOp &op) {
    if (info.space == MemSpace::Tensor) {
      tensorMove(w, inst, index, info, c, op);
      return;
    }
    if (info.space == MemSpace::Lds) {
      uint64_t bytes = uint64_t(__builtin_popcountll(w.exec() & w.fullMask)) * info.bytes * info.pairs;
      LdsCost cost = ldsCosts.find(index, w, inst, info);
      c.bytes += bytes;
      c.ldsBytes += bytes;
      c.ldsCycles += cost.cycles;
      c.ldsIdeal += cost.ideal;
      c.ldsDegree = std::max<uint64_t>(c.ldsDegree, cost.degree);
      op.cost = clip(cost.cycles);
      return;
    }
    if (linePatterns.find(index, w, inst, info, lines)) {
      c.bytes += uint64_t(w.lanes) * info.bytes;
      moveLines(w.lanes * info.bytes, index, info, c, op);
      return;
    }
    if (!describeAccess(w, inst, info, access))
      return;
    unsigned active = static_cast<unsigned>(__builtin_popcountll(access.lanes));
    c.bytes += uint64_t(active) * access.bytes * access.count;
    if (info.space == MemSpace::Scalar)
      return;
    if (info.space == MemSpace::Flat)
      active -= flatLds(w, info, c);
    lines.clear();
    if (w.scratchPerLane)
      collectScratch(w, access);
    lines.add(access);
    lines.gather(info.load);
    moveLines(active * access.bytes, index, info, c, op);
  }

  /// Moves the lines of an access of `bytes` by all lanes.
  void moveLines(unsigned bytes, size_t index, const InstInfo &info, InstCounters &c, TraceOp &op) {
    if (info.toLds)
      c.ldsBytes += bytes;
    op.cost = clip(std::max(1u, bytes / 64));
    if (!bytes)
      return;
    c.lines += lines.size();
    op.cost = std::max(op.cost, clip(lines.size()));
    unsigned l2 = 0;
    const auto inst = static_cast<uint32_t>(index);
    for (const LineStretch &s : lines.stretches()) {
      uint64_t line = lines.origin() + s.line;
      for (unsigned left = s.count, here; left; line += here, left -= here) {
        here = std::min(left, kPageLines - unsigned(line % kPageLines)); // those of one page
        // Stores and atomics go through to L2 in sectors.
        if (!info.load)
          l2 += move(line, inst, here, s.sectors, true);
        else
          l2 += fill(line, inst, l1.touch(pages.renumber(line), here));
      }
    }
    moved(l2, c, op);
  }

  /// Fetches the lines from `line` on whose bits are set in `absent`; how many sectors.
  unsigned fill(uint64_t line, uint32_t inst, uint64_t absent) {
    unsigned sectors = 0;
    while (absent) { // one stretch of bits after the other
      const unsigned from = static_cast<unsigned>(__builtin_ctzll(absent));
      const unsigned count = static_cast<unsigned>(__builtin_ctzll(~(absent >> from)));
      sectors += move(line + from, inst, count, kAllSectors, false);
      absent &= absent + (uint64_t(1) << from);
    }
    return sectors;
  }

  /// Moves sectors of lines of one page; how many.
  unsigned move(uint64_t line, uint32_t inst, unsigned count, unsigned sectors, bool write) {
    moves.emplace_back(line, inst, static_cast<uint16_t>(count), static_cast<uint8_t>(sectors), write);
    return count * kBits[sectors];
  }
  /// The instruction has moved all: `l2` sectors.
  void moved(uint64_t l2, InstCounters &c, TraceOp &op) {
    op.l2Bytes32 = clip(l2);
    c.l2Bytes += l2 * kSectorBytes;
    if (moves.size() < nextDrain)
      return;
    shared.traffic->drain(source);
    nextDrain = moves.size() + kManyMoves;
  }

  /// A tensor move goes between L2 and LDS, past L1.
  void tensorMove(Wave &w, const Inst &inst, size_t index, const InstInfo &info, InstCounters &c,
                  TraceOp &op) {
    uint64_t ldsBytes = describeTensor(w, inst, stretches), l2 = 0;
    c.ldsBytes += ldsBytes;
    op.cost = clip((ldsBytes + ldsBytesPerClk - 1) / ldsBytesPerClk);
    for (const Run &r : stretches) {
      c.bytes += r.bytes;
      const uint64_t begin = shared.arrays.place(r.from), last = begin + r.bytes - 1;
      const uint64_t whole = (last + 1) / kLineBytes; // the lines before it go together, page by page
      for (uint64_t line = begin / kLineBytes, here; line <= last / kLineBytes; line += here) {
        const unsigned from = line == begin / kLineBytes ? unsigned(begin % kLineBytes / kSectorBytes) : 0;
        const unsigned to = line == last / kLineBytes ? unsigned(last % kLineBytes / kSectorBytes) : 3;
        here = from || line >= whole ? 1 : std::min<uint64_t>(whole - line, kPageLines - line % kPageLines);
        c.lines += here;
        l2 += move(line, static_cast<uint32_t>(index), unsigned(here), (2u << to) - (1u << from), !info.load);
      }
    }
    moved(l2, c, op);
  }

  /// Takes the lanes out of the access whose flat address lies in the LDS.
  unsigned flatLds(const Wave &w, const InstInfo &info, InstCounters &c) {
    uint64_t base = reinterpret_cast<uint64_t>(w.wg->lds);
    unsigned found = 0;
    for (uint64_t m = access.lanes; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      if (access.addr[0][l] - base >= w.wg->ldsSize)
        continue;
      access.lanes &= ~(1ull << l);
      ++found;
    }
    c.ldsBytes += uint64_t(found) * info.bytes;
    return found;
  }

  /// Takes the lanes out of the access that reach scratch, and adds their sectors as a device has them: dword k
  /// of all lanes side by side, waves one after the other, and the place of a work-group that has ended goes to
  /// a later one. The host's address tells nothing: it is that of the thread which happens to run the wave.
  void collectScratch(const Wave &w, MemoryAccess &a) {
    constexpr uint64_t kBase = uint64_t(1) << 61; // neither an address of the host nor one of HostArrays
    auto host = reinterpret_cast<uint64_t>(w.scratch);
    uint64_t dwords = (w.scratchPerLane + 3) / 4 * uint64_t(w.lanes);
    uint64_t place = traces[w.wg->clusterIndex].linearId % shared.resident * waves + w.id;
    for (uint64_t m = a.lanes; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      uint64_t at = a.addr[0][l] - host;
      if (at >= uint64_t(w.scratchPerLane) * w.lanes)
        continue;
      a.lanes &= ~(1ull << l);
      uint64_t lane = at / w.scratchPerLane, offset = at % w.scratchPerLane;
      for (uint64_t k = offset / 4; k <= (offset + a.bytes - 1) / 4; ++k) {
        uint64_t sector = (kBase + 4 * (place * dwords + k * w.lanes + lane)) / kSectorBytes;
        lines.addSectors(sector / kSectorsOfLine, 1u << sector % kSectorsOfLine);
      }
    }
  }

  Shared &shared;
  const ArchInfo &arch;
  const std::vector<InstInfo> &infos;
  std::vector<InstCounters> counters; ///< what `counted` does not have
  Tally counted;
  L1Cache l1;
  LdsCosts ldsCosts;
  LinePatterns linePatterns;
  MemoryAccess access;
  Lines lines; ///< of an access
  std::vector<Run> stretches; ///< of a tensor move
  Traffic::Source &source;
  /// Moves of the work-groups that run here, and how many are worth an attempt to drain them.
  std::vector<LineMove> &moves;
  static constexpr size_t kManyMoves = 1 << 14;
  size_t nextDrain = kManyMoves;
  PageNumbers pages;    ///< of these work-groups
  unsigned ldsBytesPerClk = 128, waves = 0;
  std::vector<size_t> last; ///< number of the last instruction of each wave
  bool recording = false;
  size_t recorded = 0;
  std::vector<GroupTrace> traces; ///< of the work-groups of the cluster
};

class ProfileLaunch final : public LaunchObserver {
public:
  ProfileLaunch(const Dispatch &d, unsigned what, const Selection &selection,
                void (*done)(LaunchProfile &&))
      : shared(d.hostRanges), done(done), object(d.object), program(d.program) {
    LaunchProfile &p = shared.profile;
    const KernelInfo &k = *d.kernel;
    p.kernel = k.name;
    p.code = d.object->digest();
    p.arch = d.program->arch;
    std::copy(d.grid, d.grid + 3, p.grid);
    std::copy(d.block, d.block + 3, p.block);
    p.waveSize = k.waveSize();
    p.clusterSize = d.cluster[0] * d.cluster[1] * d.cluster[2];
    p.wavesPerGroup = (d.block[0] * d.block[1] * d.block[2] + p.waveSize - 1) / p.waveSize;
    p.vgprs = k.vgprs;
    p.sgprs = k.sgprs;
    p.agprs = k.agprs;
    p.ldsBytes = k.ldsBytes + d.dynamicLds;
    p.scratchBytes = k.scratchBytes;
    p.what = what;
    p.selection = selection;
    p.infos = classify(*d.program, p.waveSize);
    p.counters.resize(p.infos.size());
    uint64_t groups = uint64_t(d.grid[0]) * d.grid[1] * d.grid[2];
    if ((what & kProfileTiming) && groups <= kMostCounted)
      p.groupIssued.assign(groups, 0);
    shared.stride = std::max<uint64_t>(1, std::min<uint64_t>(groups, p.arch->computeUnits));
    Occupancy o = occupancy(*p.arch, p.vgprs, p.sgprs, p.ldsBytes, p.wavesPerGroup, p.waveSize);
    shared.resident = uint64_t(p.arch->computeUnits) * o.groupsPerCu;
    shared.samples = std::max(kLeastSampledGroups, 4 * o.groupsPerCu);
    shared.opsPerGroup = kTraceOps / shared.samples;
    const bool timing = what & kProfileTiming;
    shared.traffic = Traffic::take(*p.arch, p.infos.size(),
                                   timing ? std::max<uint64_t>(1, shared.resident / p.clusterSize) : 0);
    shared.first = selection.computeUnit % shared.stride;
    const int64_t *at = selection.workgroup;
    if (selection.one && at[0] < d.grid[0] && at[1] < d.grid[1] && at[2] < d.grid[2]) {
      // The chosen one, with those that ran on its compute unit before and beside it.
      uint64_t place = 0, size = 1;
      for (unsigned k = 3; k-- > 0;) {
        place = place * (d.grid[k] / d.cluster[k]) + static_cast<uint64_t>(at[k]) / d.cluster[k];
        size *= d.cluster[k];
      }
      place *= size;
      shared.first = place - std::min(place / shared.stride, shared.samples / 2) * shared.stride;
    }
  }
  ~ProfileLaunch() override {
    shared.traffic->finish();
    LaunchProfile &p = shared.profile;
    for (size_t i = 0; i < p.counters.size(); ++i) {
      InstCounters &c = p.counters[i];
      (p.infos[i].load ? c.readBytes : c.writtenBytes) = shared.traffic->absentSectors(i) * kSectorBytes;
      c.l2Missed = shared.traffic->absentFromDie(i) * kSectorBytes;
      c.sideMissed = shared.traffic->memoryBehindDies(i) * kSectorBytes;
    }
    p.texts.resize(p.infos.size());
    p.sources.resize(p.infos.size());
    p.addresses.resize(p.infos.size());
    std::vector<uint64_t> ran;
    for (size_t i = 0; i < p.infos.size(); ++i) {
      const Inst &inst = program->insts[i];
      p.addresses[i] = program->addressOf(inst) - object->bias;
      if (!p.counters[i].issued)
        continue;
      p.texts[i] = program->text(inst);
      ran.push_back(p.addresses[i]);
    }
    std::vector<std::string> lines = sourceLines(*object, ran);
    for (size_t i = 0, k = 0; i < p.infos.size(); ++i)
      if (p.counters[i].issued)
        p.sources[i] = std::move(lines[k++]);
    std::sort(p.traces.begin(), p.traces.end(),
              [](const GroupTrace &a, const GroupTrace &b) { return a.linearId < b.linearId; });
    done(std::move(p));
  }
  std::unique_ptr<GroupObserver> group() override {
    return std::make_unique<ProfileGroup>(shared);
  }

private:
  Shared shared;
  void (*done)(LaunchProfile &&);
  const CodeObject *object;
  const Program *program;
};

} // namespace

std::unique_ptr<LaunchObserver> profileLaunch(const Dispatch &dispatch, unsigned what,
                                              const Selection &selection, void (*done)(LaunchProfile &&)) {
  return std::make_unique<ProfileLaunch>(dispatch, what, selection, done);
}

} // namespace flysim
