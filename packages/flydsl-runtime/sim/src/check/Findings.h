//===- Findings.h - what the checks have found -----------------*- C++ -*-===//
#ifndef FLYSIM_CHECK_FINDINGS_H
#define FLYSIM_CHECK_FINDINGS_H

#include "exec/Machine.h"
#include "exec/Wave.h"
#include "support/Error.h"

#include <mutex>
#include <set>
#include <string>
#include <tuple>

namespace flysim {

/// One access or instruction of a finding.
struct Site {
  const Inst *inst = nullptr;
  uint32_t group[3] = {0, 0, 0};
  unsigned wave = 0;
  int lane = -1; ///< -1: all lanes, or not known
  const char *what = ""; ///< "read", "write", ...
};

/// Where a finding is: an address or register, if it is about one.
struct Place {
  const char *space = ""; ///< "lds" (offset), "global" (address), "private" (offset) or ""
  uint64_t address = 0;
  unsigned bytes = 0;
};

/// The findings of one launch, told by all its threads. A finding ends the launch unless the
/// process collects them; one that was told before (same instructions) is told once.
class Findings {
public:
  explicit Findings(const Dispatch &d) : d(d) {}

  /// `check` is the check's name. `other` is the earlier access it conflicts with, or the
  /// instruction that the value came from. Raises a Fault unless findings are collected.
  void add(FaultKind kind, const char *check, const std::string &text, const Site &site,
           const Place &place = {}, const Site *other = nullptr);
  /// "'ds_read ...' at pc 0x40 of wave 1 (file.py:3)" for texts.
  std::string describe(const Site &site, bool group) const;

private:
  std::string json(const char *check, const std::string &text, const Site &site,
                   const Place &place, const Site *other) const;
  const Dispatch &d;
  std::mutex mutex; ///< guards `told`
  std::set<std::tuple<std::string, const Inst *, const Inst *>> told;
};

/// True when findings are collected and launches go on (flysimCheck with a limit).
bool collectingFindings();

/// Sites of an instruction that a wave is about to run.
Site siteOf(const Wave &w, const Inst &i, int lane, const char *what = "");

} // namespace flysim

#endif
