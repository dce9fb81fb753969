//===- Sustained.cpp - what a machine keeps up over many launches ---------===//

#include "observe/Sustained.h"

#include "observe/TimingTable.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <vector>

namespace flysim {

namespace {

uint64_t groupsOf(const LaunchProfile &p) { return uint64_t(p.grid[0]) * p.grid[1] * p.grid[2]; }

/// What each compute unit of a die has to do, least on top.
typedef std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> Loads;

/// Work-groups (or clusters) go to the dies in turns, whatever these have to do, and on its die to the compute unit
/// that has least to do, in the order of the grid: what the one that ends last has to do.
uint64_t longestLoad(const LaunchProfile &p) {
  const unsigned units = p.arch->computeUnits, dies = std::min(units, std::max(1u, timingTable(*p.arch).dies));
  std::vector<Loads> loads(dies);
  for (unsigned k = 0; k < units; ++k)
    loads[k % dies].push(0);
  uint64_t longest = 0;
  for (size_t group = 0; group < p.groupIssued.size(); ++group) {
    Loads &own = loads[group / p.clusterSize % dies];
    const uint64_t load = own.top() + p.groupIssued[group];
    own.pop();
    own.push(load);
    longest = std::max(longest, load);
  }
  return longest;
}

/// The time of the compute unit that ends last, over that of the same number of work-groups like the replayed ones, and
/// over the mean.
void balance(const LaunchProfile &p, const TimingResult &peak, SustainedResult &s) {
  if (p.groupIssued.empty() || p.traces.empty() || !peak.groupsPerCu)
    return;
  double replayed = 0;
  for (const GroupTrace &g : p.traces)
    replayed += g.linearId < p.groupIssued.size() ? p.groupIssued[g.linearId] : 0;
  replayed /= double(p.traces.size());
  if (replayed <= 0)
    return;
  const uint64_t longest = longestLoad(p);
  const uint64_t all = std::accumulate(p.groupIssued.begin(), p.groupIssued.end(), uint64_t(0));
  s.imbalance = double(longest) / (replayed * double(peak.groupsPerCu));
  s.unevenness = double(longest) * double(std::min<size_t>(p.groupIssued.size(), p.arch->computeUnits)) / double(all);
}

/// What a matrix instruction draws when the unit is never idle, by its rate: a rate of twice the
/// 16-bit one is that of 8 bits, one of four times that of 6 and 4.
double matrixPower(const TimingTable &t, const InstInfo &info) {
  double rate = double(info.flops) / std::max<unsigned>(1, info.cycles) * t.simdsPerCu / t.peakFlopsPerClk;
  return rate < 0.75   ? t.powerMatrixWide
         : rate < 1.5  ? t.powerMatrix16
         : rate < 3.0  ? t.powerMatrix8
                       : t.powerMatrix4;
}

/// Power at the peak clock, as a share of the limit.
double powerOf(const LaunchProfile &p, const TimingTable &t, const TimingResult &r, double seconds) {
  double clocks = double(std::max<uint64_t>(1, r.sampleCycles)) * t.simdsPerCu;
  double matrix = 0, busy = 0;
  for (size_t n = 0; n < p.infos.size(); ++n)
    if (p.infos[n].flops && r.instructions[n].issued) {
      double own = double(r.instructions[n].issued) * p.infos[n].cycles;
      matrix += own * matrixPower(t, p.infos[n]);
      busy += own;
    }
  // Compute units without work draw nothing but what is always drawn.
  double total = double(groupsOf(p));
  double used = total / (double(std::max<uint64_t>(1, r.groupsPerCu)) * p.arch->computeUnits);
  double memory = seconds > 0 ? r.memoryBytes / seconds / t.memoryBytesPerSec : 0;
  return t.powerIdle + std::min(1.0, used) * (matrix + double(r.valuBusy) * t.powerVector) / clocks +
         std::min(1.0, memory) * t.powerMemory;
}

} // namespace

SustainedResult estimateSustained(const LaunchProfile &p, const TimingResult &peak) {
  const TimingTable &t = timingTable(*p.arch);
  SustainedResult s;
  Conditions conditions{t.clockMhz, t.memoryBytesPerSec * t.memoryAchieved, double(t.memoryLatency),
                        t.sideBytesPerSec, double(t.sideLatency), true};
  TimingResult r = replay(p, conditions, false);
  double seconds = r.cycles / (t.clockMhz * 1e6);
  s.power = powerOf(p, t, r, seconds);
  double share = 1.0;
  if (s.power > 1.0) {
    share = std::pow((1.0 - t.powerIdle) / (s.power - t.powerIdle), 1.0 / t.powerExponent);
    // What lies behind the dies keeps its speed: with fewer engine clocks a second it waits less for each.
    conditions.clockMhz = t.clockMhz * share;
    conditions.memoryLatency *= share;
    conditions.sideLatency *= share;
    r = replay(p, conditions, false);
  }
  s.clockMhz = conditions.clockMhz;
  s.memoryBytes = r.memoryBytes;
  s.rereadBytes = std::max(0.0, r.memoryBytes - peak.memoryBytes);
  s.behindL2Bytes = r.behindL2Bytes;
  double l2Bytes = 0;
  for (const InstCounters &c : p.counters)
    l2Bytes += double(c.l2Bytes);
  s.l2Hit = l2Bytes > 0 ? 1.0 - r.behindL2Bytes / l2Bytes : 1.0;
  balance(p, peak, s);
  double balanced = r.cycles / s.clockMhz;
  double memory = r.memoryBytes / conditions.memoryBytesPerSec * 1e6;
  double side = conditions.sideBytesPerSec > 0 ? r.behindL2Bytes / conditions.sideBytesPerSec * 1e6 : 0.0;
  double uneven = std::max({balanced * s.imbalance, memory, side});
  s.microseconds = uneven + t.launchMicroseconds;
  // What the time would lose without it decides: the memory first, which hides the others.
  double slower = balanced * (1.0 - share), worst = 0.25 * s.microseconds;
  bool moves = std::max(memory, side) > 0.85 * uneven;
  s.bound = !moves ? "issue" : memory >= side ? "memory" : "memory-side cache";
  auto consider = [&](double lost, const char *name) {
    if (lost > worst && !moves) {
      worst = lost;
      s.bound = name;
    }
  };
  consider(slower, "clock");
  consider(uneven - balanced, "imbalance");
  consider(t.launchMicroseconds, "launch");
  return s;
}

} // namespace flysim
