//===- ProfileApi.cpp - profiles as JSON, and the calls that ask for them -===//

#include "check/Checks.h"
#include "hip/Runtime.h"
#include "observe/Breakpoints.h"
#include "observe/Observer.h"
#include "observe/Profile.h"
#include "observe/Several.h"
#include "observe/Sustained.h"
#include "observe/Timing.h"
#include "observe/TimingTable.h"
#include "support/Json.h"

#include <algorithm>
#include <atomic>
#include <mutex>

namespace flysim {

namespace {

constexpr size_t kMaxLaunches = 10000;

void stalls(Json &j, const std::array<uint64_t, kStalls> &values) {
  j.key("stall").open('{');
  for (unsigned k = 0; k < kStalls; ++k)
    if (values[k])
      j.field(stallName(static_cast<Stall>(k)), values[k]);
  j.close('}');
}

/// Who asks which bank for what, in the worst access of an instruction.
void pattern(Json &j, const LaunchProfile &p, size_t n) {
  auto found = p.ldsPatterns.find(n);
  if (found == p.ldsPatterns.end())
    return;
  LdsPhases phases = ldsPhases(p.infos[n], *p.arch, p.waveSize);
  j.key("lds_pattern").open('{');
  j.field("banks", phases.banks).field("bytes", uint64_t(p.infos[n].bytes));
  j.key("address").open('[');
  for (unsigned l = 0; l < p.waveSize; ++l)
    j.value(uint64_t(found->second.address[l]));
  j.close(']').key("active").open('[');
  for (unsigned l = 0; l < p.waveSize; ++l)
    j.value(uint64_t(found->second.lanes >> l & 1));
  j.close(']').key("phases").open('[');
  for (const auto &lanes : phases.lanes) {
    j.open('[');
    for (unsigned l : lanes)
      j.value(uint64_t(l));
    j.close(']');
  }
  j.close(']').close('}');
}

void instruction(Json &j, const LaunchProfile &p, const TimingResult *r, size_t n) {
  const InstCounters &c = p.counters[n];
  const InstInfo &info = p.infos[n];
  j.open('{');
  j.field("address", p.addresses[n]).field("text", p.texts[n]).field("source", p.sources[n]);
  j.field("unit", unitName(info.unit)).field("issued", c.issued).field("lanes", c.lanes);
  if (c.partial)
    j.field("partial", c.partial);
  if (info.flops)
    j.field("flops", uint64_t(info.flops)).field("busy", uint64_t(info.cycles));
  if (info.space != MemSpace::None) {
    static const char *const kSpaces[] = {"", "global", "flat", "scratch", "buffer", "lds", "scalar", "tensor"};
    j.field("space", kSpaces[static_cast<unsigned>(info.space)]);
    j.field("kind", info.load ? "load" : (info.store ? "store" : "atomic"));
    j.field("bytes", c.bytes);
    if (c.ldsBytes)
      j.field("lds_bytes", c.ldsBytes);
    if (info.space == MemSpace::Lds)
      j.field("lds_cycles", c.ldsCycles).field("lds_ideal", c.ldsIdeal).field("lds_degree", c.ldsDegree);
    else if (info.space != MemSpace::Scalar)
      j.field("lines", c.lines).field("l2_bytes", c.l2Bytes).field("read_bytes", c.readBytes)
          .field("written_bytes", c.writtenBytes);
  }
  if (info.laneFlops)
    j.field("vector_flops", uint64_t(info.laneFlops) * c.lanes);
  pattern(j, p, n);
  if (r) {
    const InstTiming &t = r->instructions[n];
    j.field("sampled", t.issued);
    stalls(j, t.stall);
  }
  j.close('}');
}

void sustained(Json &j, const SustainedResult &s) {
  j.key("sustained").open('{');
  j.field("estimate", true).field("microseconds", s.microseconds).field("clock_mhz", s.clockMhz);
  j.field("power", s.power).field("memory_bytes", s.memoryBytes).field("reread_bytes", s.rereadBytes);
  j.field("behind_l2_bytes", s.behindL2Bytes).field("l2_hit", s.l2Hit);
  j.field("imbalance", s.imbalance).field("unevenness", s.unevenness).field("bound", s.bound).close('}');
}

void timing(Json &j, const LaunchProfile &p, const TimingResult &r) {
  const TimingTable &t = timingTable(*p.arch);
  j.key("timing").open('{');
  j.field("estimate", true).field("cycles", r.cycles);
  j.field("microseconds", r.cycles / t.clockMhz).field("memory_cycles", r.memoryCycles);
  j.field("sample_cycles", r.sampleCycles).field("sample_groups", r.sampleGroups);
  j.field("groups_per_cu", r.groupsPerCu).field("wave_cycles", r.waveCycles);
  j.field("simds", t.simdsPerCu).field("valu_busy", r.valuBusy).field("matrix_busy", r.matrixBusy);
  j.field("lds_busy", r.ldsBusy).field("l1_busy", r.l1Busy).field("tensor_busy", r.tensorBusy).field("matrix_flops", r.matrixFlops);
  stalls(j, r.stall);
  j.close('}');
}

void machine(Json &j, const LaunchProfile &p) {
  const TimingTable &t = timingTable(*p.arch);
  Occupancy o = occupancy(*p.arch, p.vgprs, p.sgprs, p.ldsBytes, p.wavesPerGroup, p.waveSize);
  j.key("machine").open('{');
  j.field("clock_mhz", t.clockMhz).field("memory_bytes_per_second", t.memoryBytesPerSec);
  j.field("compute_units", p.arch->computeUnits).field("simds_per_cu", t.simdsPerCu);
  j.field("peak_flops_per_clk", t.peakFlopsPerClk).field("l2_bytes_per_clk", t.l2BytesPerClk);
  j.field("peak_vector_flops_per_clk", t.peakVectorFlopsPerClk);
  // The rules of occupancy(), as data for what-if questions.
  j.field("max_waves", t.maxWaves).field("vgpr_file", t.vgprFile(p.waveSize));
  j.field("vgpr_granule", t.vgprGranule(p.waveSize)).field("sgpr_file", t.sgprFile);
  j.field("sgpr_granule", t.sgprGranule).field("lds_pool", t.ldsPool).field("lds_granule", t.ldsGranule);
  j.field("simds_per_lds", t.simdsPerLds).field("max_barriers", t.maxBarriers);
  j.field("instruction_cache_bytes", t.instructionCacheBytes);
  j.close('}');
  j.key("occupancy").open('{');
  j.field("waves_per_simd", o.wavesPerSimd).field("groups_per_cu", o.groupsPerCu);
  j.field("limit", o.limit).close('}');
}

void traceEvents(Json &j, const LaunchProfile &p, const TimingResult &r) {
  j.key("events").open('[');
  for (const TimingEvent &e : r.events) {
    j.open('[');
    j.value(uint64_t(e.inst)).value(e.group).value(uint64_t(e.wave)).value(uint64_t(e.simd));
    j.value(e.start).value(e.end).value(uint64_t(e.stalled)).value(uint64_t(e.cause));
    j.value(e.busyFrom).value(e.busyTo);
    j.close(']');
  }
  j.close(']');
  j.field("events_truncated", r.eventsTruncated);
  j.key("event_text").open('{');
  for (size_t n = 0; n < p.texts.size(); ++n)
    if (!p.texts[n].empty())
      j.key(std::to_string(n).c_str()).value(p.texts[n]);
  j.close('}');
}

std::string launchJson(const LaunchProfile &p, size_t &events) {
  TimingResult result;
  bool timed = (p.what & kProfileTiming) != 0;
  if (timed)
    result = estimateTiming(p, (p.what & kProfileTrace) != 0);
  Json j;
  j.open('{');
  j.field("kernel", p.kernel).field("code", p.code).field("arch", p.arch->name).field("simulated", true);
  for (auto [name, dims] : {std::pair{"grid", p.grid}, std::pair{"block", p.block}}) {
    j.key(name).open('[');
    for (unsigned k = 0; k < 3; ++k)
      j.value(uint64_t(dims[k]));
    j.close(']');
  }
  j.field("wave_size", p.waveSize).field("waves_per_group", p.wavesPerGroup);
  j.field("vgprs", uint64_t(p.vgprs)).field("sgprs", uint64_t(p.sgprs)).field("agprs", uint64_t(p.agprs));
  j.field("lds_bytes", uint64_t(p.ldsBytes)).field("scratch_bytes", uint64_t(p.scratchBytes));
  machine(j, p);
  j.key("instructions").open('[');
  for (size_t n = 0; n < p.counters.size(); ++n)
    if (p.counters[n].issued)
      instruction(j, p, timed ? &result : nullptr, n);
  j.close(']');
  if (timed) {
    timing(j, p, result);
    sustained(j, estimateSustained(p, result));
  }
  if (p.what & kProfileTrace)
    traceEvents(j, p, result);
  events = result.events.size();
  j.close('}');
  return j.text;
}

std::atomic<unsigned> wanted{0};
std::mutex profilesMutex;
std::vector<std::string> profiles;
Selection selection;        ///< guarded by profilesMutex

void keep(LaunchProfile &&p) {
  {
    // What earlier launches left of the trace's bound.
    std::lock_guard<std::mutex> lock(profilesMutex);
    p.selection.maxEvents = std::min(p.selection.maxEvents, selection.maxEvents);
  }
  size_t events = 0;
  std::string text = launchJson(p, events);
  std::lock_guard<std::mutex> lock(profilesMutex);
  selection.maxEvents -= std::min<uint64_t>(selection.maxEvents, events);
  if (profiles.size() < kMaxLaunches)
    profiles.push_back(std::move(text));
}

} // namespace

std::unique_ptr<LaunchObserver> observerFor(const Dispatch &dispatch) {
  // Breakpoints first: whoever looks at single waves does not measure the launch.
  if (std::unique_ptr<LaunchObserver> breaks = breakLaunch(dispatch))
    return breaks;
  std::unique_ptr<LaunchObserver> checks = checkLaunch(dispatch);
  unsigned what = wanted.load(std::memory_order_relaxed);
  if (!what)
    return checks;
  std::lock_guard<std::mutex> lock(profilesMutex);
  return several(std::move(checks), profileLaunch(dispatch, what, selection, keep));
}

} // namespace flysim

using namespace flysim;

/// Starts (1 counters, 2 timing, 4 trace; timing and trace include counters) or, with
/// 0, stops profiling of later launches. Returns what was collected before.
FLYSIM_API unsigned flysimProfile(unsigned what) {
  if (what & (kProfileTiming | kProfileTrace))
    what |= kProfileCounters;
  if (what & kProfileTrace)
    what |= kProfileTiming;
  return wanted.exchange(what);
}

/// Chooses what later launches show in their traces: a work-group (three numbers, or
/// null for those of a compute unit), the compute unit, and the most events of all
/// launches together.
FLYSIM_API void flysimProfileSelect(const int64_t *workgroup, uint64_t computeUnit, uint64_t maxEvents) {
  std::lock_guard<std::mutex> lock(profilesMutex);
  selection = Selection();
  selection.one = workgroup != nullptr;
  if (workgroup)
    std::copy(workgroup, workgroup + 3, selection.workgroup);
  selection.computeUnit = computeUnit;
  selection.maxEvents = maxEvents;
}

/// The constants of the timing model for an architecture, as a JSON list; null for an
/// unknown one. Valid until the calling thread calls again.
FLYSIM_API const char *flysimTimingTable(const char *arch) {
  static thread_local std::string text;
  const ArchInfo *info = nullptr;
  hipError_t error = guarded([&] {
    info = arch ? findArch(arch) : nullptr;
    if (info)
      text = timingTableJson(*info);
    return hipSuccess;
  });
  return info && !error ? text.c_str() : nullptr;
}

/// The profiles of the launches that ended since the last call, as a JSON list (see guardedText).
FLYSIM_API const char *flysimProfileTake() {
  return guardedText([] {
    std::lock_guard<std::mutex> lock(profilesMutex);
    std::string text = jsonList(profiles);
    profiles.clear();
    return text;
  });
}
