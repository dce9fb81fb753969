//===- Scopes.h - accesses of memory that several devices share -*- C++ -*-===//
//
// A write reaches another device when the writer has released it at system scope, and the
// other one sees it when it has acquired at system scope since. On the instructions:
//
// - a plain store lies in a cache of its device until a write-back of system scope
//   (buffer_wbl2 sc0 sc1, global_wb scope:SCOPE_SYS) that the wave has waited for; the
//   write-back of a work-group takes what its own waves have stored, and what work-groups of
//   the device have stored that signalled each other at device scope;
// - a plain load may return what a cache of its device has held since the last invalidation
//   of system scope (buffer_inv sc0 sc1, global_inv scope:SCOPE_SYS) of its work-group, and
//   that is after what had been released when the latest signal was given that the
//   work-group has read;
// - loads, stores and atomic operations of system scope go past the caches.
//
// A load of what another device wrote that breaks one of these is reported: memory whose
// release or acquire is missing, a flag that is set by a plain store, or polled by a plain
// load. What is reported is a race by the memory model; that nothing is, is no proof, since
// only what the schedule brings about is seen. A launch begins with an acquire and ends with
// a release.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_CHECK_SCOPES_H
#define FLYSIM_CHECK_SCOPES_H

#include "check/Findings.h"
#include "check/LateStores.h"
#include "check/Moves.h"
#include "check/SharedRecords.h"
#include "check/StaleLoads.h"
#include "observe/Access.h"

#include <mutex>
#include <vector>

namespace flysim {

struct ArchInfo;
struct Inst;

/// How far an instruction is coherent.
enum class Scope : uint8_t { Wave, Group, Device, System };

/// Scope of an instruction by its cache policy, in the bits of the architecture.
Scope scopeOf(const Inst &i, const ArchInfo &arch);
/// Whether the policy asks for coherence beyond the caches of a compute unit.
bool isScoped(const Inst &i, const ArchInfo &arch);

/// What the work-groups of a launch share.
class LaunchScopes {
public:
  /// \p late: plain stores of this launch stay hidden until they are released.
  /// \p stale: its plain loads give what was there before a write that it need not see.
  LaunchScopes(const Dispatch &d, bool late, bool stale);
  ~LaunchScopes(); ///< the end of the launch releases everything

  struct Store {
    const SharedRecord *record;
    uint64_t dword;
    uint64_t address() const { return record->base + 4 * dword; }
  };

private:
  friend class ScopeCheck;
  void release(std::vector<Store> &stores);
  const uint32_t device;
  bool enabled;
  bool late, stale;
  LateStores hidden;
  std::mutex mutex;
  std::vector<std::shared_ptr<const SharedRecord>> held; ///< while the launch uses them
  uint64_t begun;                              ///< when the launch acquired what there was
  uint64_t acquired;                           ///< by any work-group at system scope, up to this time
  std::vector<Store> handedOn;                 ///< signalled at device scope, not yet released
};

/// The check of one resident work-group.
class ScopeCheck {
public:
  ScopeCheck(const Dispatch &d, LaunchScopes &launch, Findings &findings)
      : d(d), launch(launch), findings(findings) {}
  void startGroup(const Workgroup &wg);
  void endGroup();
  /// Before any instruction: write-backs that it waits for are complete.
  void counters(const Wave &w, const InstInfo &info);
  /// Before an instruction for caches runs.
  void cache(const Wave &w, CacheOp op, Scope scope);
  /// Before a memory instruction, or a transfer to or from LDS, runs.
  void memory(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access, Scope scope);
  void moves(Wave &w, const Inst &i, const InstInfo &info, const std::vector<LdsMove> &list);
  /// After the last instruction of the wave has run.
  void after(Wave &w);

private:
  /// A load of system scope. Who wrote what it returned is known when it has run.
  struct Poll {
    const Inst *inst;
    int lane;
    const SharedRecord *record;
    uint64_t dword;
  };
  /// A dword of which a store is about to write some bytes, and what it holds before. Only when
  /// the store has run is it hidden, and among those that a release shows: another wave of the
  /// work-group may release between.
  struct Before {
    LaunchScopes::Store store;
    uint32_t value;
    unsigned bytes;
  };
  static Before bytesOf(LaunchScopes::Store store, uint64_t first, unsigned count);
  void touch(Wave &w, const InstInfo &info, const StaleLoads::Target &target, bool read, bool write,
             Scope scope);
  /// Tells of what a load may miss, and whether it may.
  bool read(Wave &w, const Inst &i, int lane, uint64_t address, LastWrite last, Scope scope);
  const SharedRecord *recordOf(uint64_t address);

  const Dispatch &d;
  LaunchScopes &launch;
  Findings &findings;
  const SharedRecord *latest = nullptr; ///< where the last access was
  uint64_t known = 0; ///< what was released up to this time is seen
  uint64_t seen = 0;  ///< the time of the latest signal that was read
  std::vector<LaunchScopes::Store> stored; ///< and not released
  std::vector<uint8_t> writingBack;        ///< by wave: it has not waited yet
  std::vector<std::vector<Poll>> polls;    ///< by wave
  std::vector<std::vector<Before>> writing; ///< by wave, with late stores
  std::vector<StaleLoads> loading;          ///< by wave
};

} // namespace flysim

#endif
