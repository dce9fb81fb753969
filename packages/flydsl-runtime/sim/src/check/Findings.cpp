//===- Findings.cpp - what the checks have found --------------------------===//

#include "check/Findings.h"

#include "check/Checks.h"
#include "check/FindingsFile.h"
#include "hip/Runtime.h"
#include "loader/SourceLines.h"
#include "support/Json.h"
#include "support/Settings.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace flysim {

namespace {

constexpr int kFromEnvironment = -1;
std::atomic<int> chosen{kFromEnvironment};
std::atomic<unsigned> limit{0};
std::mutex collected; ///< guards `findings`
std::vector<std::string> findings;
/// Findings of launches that end with their first one: the last few are kept.
constexpr size_t kKept = 64;

} // namespace

unsigned parseChecks(const std::string &list) {
  static const struct {
    const char *name;
    unsigned bit;
  } kNames[] = {{"oob", kCheckOob},         {"uninit", kCheckUninit}, {"race", kCheckRace},
                {"barrier", kCheckBarrier}, {"nan", kCheckNan},       {"buffer", kCheckBuffer},
                {"approx", kCheckApprox},   {"late", kCheckLate | kCheckRace},
                {"stale", kCheckStale | kCheckRace},
                {"all", kCheckOob | kCheckUninit | kCheckRace | kCheckBarrier}};
  unsigned checks = 0;
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string name = list.substr(at, comma - at);
    at = comma + 1;
    while (!name.empty() && name.front() == ' ')
      name.erase(0, 1);
    while (!name.empty() && name.back() == ' ')
      name.pop_back();
    if (name.empty())
      continue;
    unsigned bit = 0;
    for (const auto &n : kNames)
      if (name == n.name)
        bit = n.bit;
    if (!bit)
      raise(FaultKind::InvalidConfiguration,
            "FLYDSL_SIM_CHECK: '" + name +
                "' is none of oob, uninit, race, barrier, nan, buffer, approx, late, stale, all");
    checks |= bit;
  }
  return checks;
}

unsigned requestedChecks() {
  int own = chosen.load(std::memory_order_relaxed);
  if (own != kFromEnvironment)
    return static_cast<unsigned>(own);
  const char *text = textSetting("FLYDSL_SIM_CHECK");
  return text ? parseChecks(text) : 0;
}

bool collectingFindings() {
  return limit.load(std::memory_order_relaxed) != 0 || recordingFindings();
}

Site siteOf(const Wave &w, const Inst &i, int lane, const char *what) {
  Site s;
  s.inst = &i;
  for (unsigned k = 0; k < 3; ++k)
    s.group[k] = w.wg->id[k];
  s.wave = w.id;
  s.lane = lane;
  s.what = what;
  return s;
}

std::string Findings::describe(const Site &site, bool group) const {
  uint64_t pc = d.program->addressOf(*site.inst) - d.object->bias;
  std::string text = format("'%s' at pc 0x%llx of wave %u", d.program->text(*site.inst).c_str(),
                            (unsigned long long)pc, site.wave);
  if (group)
    text += format(" of workgroup (%u,%u,%u)", site.group[0], site.group[1], site.group[2]);
  if (site.lane >= 0)
    text += format(", lane %d", site.lane);
  std::string line = sourceLine(*d.object, pc);
  return line.empty() ? text : text + " (" + line + ")";
}

std::string Findings::json(const char *check, const std::string &text, const Site &site,
                           const Place &place, const Site *other) const {
  Json j;
  auto put = [&](const Site &s) {
    uint64_t pc = d.program->addressOf(*s.inst) - d.object->bias;
    j.field("access", s.what).field("instruction", d.program->text(*s.inst)).field("pc", pc);
    j.field("source", sourceLine(*d.object, pc));
    j.key("workgroup").open('[');
    for (unsigned k = 0; k < 3; ++k)
      j.value(uint64_t(s.group[k]));
    j.close(']');
    j.field("wave", uint64_t(s.wave));
    if (s.lane >= 0)
      j.field("lane", uint64_t(s.lane));
  };
  j.open('{');
  j.field("check", check).field("message", text).field("kernel", d.kernel->name);
  j.field("arch", d.program->arch->name);
  put(site);
  if (*place.space)
    j.field("space", place.space).field("address", place.address).field("bytes", uint64_t(place.bytes));
  if (other && other->inst) {
    j.key("other").open('{');
    put(*other);
    j.close('}');
  }
  j.close('}');
  return j.text;
}

void Findings::add(FaultKind kind, const char *check, const std::string &what, const Site &site,
                   const Place &place, const Site *other) {
  std::string text = what, said = "check " + std::string(check) + ": ";
  const LaunchArgument *array =
      strcmp(place.space, "global") ? nullptr : argumentOf(d.arguments, place.address, 0);
  if (array && array->distance(place.address) != 0)
    array = nullptr;
  if (array)
    text += ", at " + array->place(place.address);
  unsigned most = limit.load(std::memory_order_relaxed);
  // A program that collects its findings itself (flysimCheck) keeps them to itself.
  bool toFile = !most && recordingFindings();
  bool fresh;
  {
    std::lock_guard<std::mutex> lock(mutex);
    fresh = told.insert({check, site.inst, other ? other->inst : nullptr}).second;
  }
  if (fresh) {
    std::string entry = json(check, text, site, place, other);
    if (toFile) {
      // The same instructions in another launch are the same finding.
      auto pc = [&](const Site *s) {
        return s && s->inst ? std::to_string(d.program->addressOf(*s->inst) - d.object->bias) : "";
      };
      recordFinding(d.kernel->name + " " + check + " " + pc(&site) + " " + pc(other), entry);
    }
    std::lock_guard<std::mutex> lock(collected);
    if (!most && findings.size() >= kKept)
      findings.erase(findings.begin());
    if (!most || findings.size() < most)
      findings.push_back(std::move(entry));
  }
  if (most || toFile)
    return;
  Fault fault{kind, said + text, site.lane};
  if (array) {
    fault.address = place.address;
    fault.finding = said + what;
  }
  throw fault;
}

} // namespace flysim

using namespace flysim;

/// Chooses the checks of later launches: a list as in FLYDSL_SIM_CHECK, or null for what the
/// environment says. With a limit, launches go on after a finding and up to `most` of them
/// are collected; with 0 the first finding is the error of its launch.
FLYSIM_API hipError_t flysimCheck(const char *names, unsigned most) {
  return guarded([&] {
    chosen = names ? static_cast<int>(parseChecks(names)) : kFromEnvironment;
    limit = most;
    return hipSuccess;
  });
}

/// The findings since the last call, as a JSON list (see guardedText).
FLYSIM_API const char *flysimCheckTake() {
  return guardedText([] {
    std::lock_guard<std::mutex> lock(collected);
    std::string text = jsonList(findings);
    findings.clear();
    return text;
  });
}
