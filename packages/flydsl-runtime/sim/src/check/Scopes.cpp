//===- Scopes.cpp - accesses of memory that several devices share ---------===//

#include "check/Scopes.h"

#include "decode/Program.h"

namespace flysim {

namespace {
/// Bits of the cache policy (AMDGPU::CPol in LLVM).
enum : unsigned { kGlc = 1, kSc0 = 1, kSc1 = 16, kScopeField = 3u << 3 };
} // namespace

bool isScoped(const Inst &i, const ArchInfo &arch) {
  return (i.policy & (arch.has.scopes == ScopeSyntax::Field  ? kScopeField
                      : arch.has.scopes == ScopeSyntax::Bits ? kSc0 | kSc1
                                                             : kGlc)) != 0;
}

Scope scopeOf(const Inst &i, const ArchInfo &arch) {
  constexpr Scope kFields[] = {Scope::Wave, Scope::Group, Scope::Device, Scope::System};
  bool atomic = i.def->facts.memory.atomic;
  if (arch.has.scopes == ScopeSyntax::Field)
    return kFields[i.policy >> 3 & 3];
  if (arch.has.scopes == ScopeSyntax::None)
    return atomic || (i.policy & kGlc) ? Scope::Device : Scope::Wave;
  if (i.def->facts.memory.space == MemSpace::Scalar)
    return Scope::Wave; // scalar loads have glc, which is no scope
  // sc0 of an atomic operation asks for the old value; it is performed in the device's cache.
  bool low = i.policy & kSc0, high = i.policy & kSc1;
  if (atomic)
    return high ? Scope::System : Scope::Device;
  return high ? (low ? Scope::System : Scope::Device) : low ? Scope::Group : Scope::Wave;
}

LaunchScopes::LaunchScopes(const Dispatch &d, bool late, bool stale)
    : device(deviceNumber(d.device)), late(late), stale(stale),
      held(SharedRecords::instance().all()) {
  const ArchInfo &arch = *d.program->arch;
  enabled = !held.empty() && arch.has.scopes != ScopeSyntax::None;
  acquired = begun = sharedTime();
}

LaunchScopes::~LaunchScopes() { release(handedOn); }

void LaunchScopes::release(std::vector<Store> &stores) {
  uint64_t now = sharedTime();
  for (const Store &s : stores) {
    if (late)
      hidden.show(s.address());
    std::atomic<uint64_t> &cell = s.record->cells[s.dword];
    uint64_t before = cell.load();
    LastWrite last = LastWrite::of(before);
    if (!last.cached || last.device != device)
      continue; // written again by another device
    last.cached = false;
    last.time = now;
    cell.compare_exchange_strong(before, last.packed());
  }
  stores.clear();
}

void ScopeCheck::startGroup(const Workgroup &wg) {
  seen = known = launch.begun;
  stored.clear();
  latest = nullptr;
  writingBack.assign(wg.numWaves, 0);
  polls.assign(wg.numWaves, {});
  writing.assign(wg.numWaves, {});
  loading.assign(wg.numWaves, {});
}

void ScopeCheck::endGroup() {
  if (stored.empty())
    return;
  std::lock_guard<std::mutex> lock(launch.mutex);
  launch.handedOn.insert(launch.handedOn.end(), stored.begin(), stored.end());
  stored.clear();
}

const SharedRecord *ScopeCheck::recordOf(uint64_t address) {
  if (latest && address - latest->base < latest->size)
    return latest;
  for (const auto &record : launch.held)
    if (address - record->base < record->size)
      return latest = record.get();
  return nullptr;
}

void ScopeCheck::counters(const Wave &w, const InstInfo &info) {
  if (!launch.enabled || !writingBack[w.id])
    return;
  auto waits = [&](Counter c) { return info.wait[static_cast<size_t>(c)] == 0; };
  if (!waits(Counter::Vm) && !waits(Counter::Store))
    return;
  writingBack[w.id] = 0;
  std::lock_guard<std::mutex> lock(launch.mutex);
  launch.release(stored);
  launch.release(launch.handedOn);
}

void ScopeCheck::cache(const Wave &w, CacheOp op, Scope scope) {
  if (!launch.enabled || scope < Scope::Device)
    return;
  if (op == CacheOp::WriteBack) {
    writingBack[w.id] |= scope == Scope::System;
    return;
  }
  std::lock_guard<std::mutex> lock(launch.mutex);
  if (scope == Scope::System && isAfter(seen, launch.acquired))
    launch.acquired = seen;
  known = launch.acquired;
}

void ScopeCheck::memory(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access,
                        Scope scope) {
  if (!launch.enabled || access.ldsSpace)
    return;
  bool write = info.store || info.atomic, read = info.load || info.atomic;
  if (write && scope >= Scope::Device && !stored.empty()) {
    // A signal to other work-groups of the device: what they write back includes these.
    std::lock_guard<std::mutex> lock(launch.mutex);
    launch.handedOn.insert(launch.handedOn.end(), stored.begin(), stored.end());
    stored.clear();
  }
  for (uint64_t m = access.lanes; m; m &= m - 1) {
    int lane = __builtin_ctzll(m);
    for (unsigned k = 0; k < access.count; ++k)
      touch(w, info,
            {&i, info.space == MemSpace::Scalar ? -1 : lane, access.addr[k][lane], access.bytes}, read,
            write, scope);
  }
}

void ScopeCheck::moves(Wave &w, const Inst &i, const InstInfo &info, const std::vector<LdsMove> &list) {
  if (!launch.enabled || info.space == MemSpace::Scratch)
    return;
  for (const LdsMove &m : list)
    if (m.memory)
      touch(w, info, {&i, m.lane, m.memory, m.memoryBytes, static_cast<int64_t>(m.lds)}, !info.store,
            info.store, Scope::Wave);
}

/// The bytes of a dword that an access of \p count bytes at \p first has, and what the dword holds.
ScopeCheck::Before ScopeCheck::bytesOf(LaunchScopes::Store store, uint64_t first, unsigned count) {
  Before b{store, 0, 0};
  uint64_t dword = store.address();
  for (unsigned k = 0; k < 4; ++k) {
    b.value |= static_cast<uint32_t>(reinterpret_cast<volatile uint8_t *>(dword)[k]) << (8 * k);
    b.bytes |= unsigned(dword + k - first < count) << k;
  }
  return b;
}

void ScopeCheck::touch(Wave &w, const InstInfo &info, const StaleLoads::Target &target, bool read,
                       bool write, Scope scope) {
  const Inst &i = *target.inst;
  uint64_t address = target.address;
  unsigned bytes = target.bytes;
  const SharedRecord *record = recordOf(address);
  if (!record)
    return;
  uint64_t first = (address - record->base) / 4;
  uint64_t end = std::min((address - record->base + bytes + 3) / 4, (record->size + 3) / 4);
  for (uint64_t n = first; n < end; ++n) {
    std::atomic<uint64_t> &cell = record->cells[n];
    uint64_t bits = cell.load();
    bool hides = launch.late && write && !info.atomic && scope != Scope::System;
    if (launch.late)
      launch.hidden.show(record->base + 4 * n);
    if (hides)
      writing[w.id].push_back(bytesOf({record, n}, address, bytes));
    if (read && scope == Scope::System)
      polls[w.id].push_back({&i, target.lane, record, n});
    else if (read && bits &&
             this->read(w, i, target.lane, record->base + 4 * n, LastWrite::of(bits), scope) &&
             launch.stale && !write)
      loading[w.id].note(target, record->base + 4 * n, record->before[n].load());
    if (!write)
      continue;
    // Of stores with no release between them, what was there before the first one may be read.
    if (LastWrite last = LastWrite::of(bits); !bits || !last.cached || last.device != launch.device)
      record->before[n].store(*reinterpret_cast<const volatile uint32_t *>(record->base + 4 * n));
    LastWrite now;
    now.device = launch.device;
    now.cached = scope != Scope::System;
    now.time = now.cached ? 0 : sharedTime();
    cell.store(now.packed());
    if (now.cached && !hides && bits != now.packed())
      stored.push_back({record, n});
  }
}

void ScopeCheck::after(Wave &w) {
  loading[w.id].apply(w);
  for (const Before &b : writing[w.id]) {
    launch.hidden.hide(b.store.address(), b.value, b.bytes);
    stored.push_back(b.store);
  }
  writing[w.id].clear();
  for (const Poll &p : polls[w.id])
    if (uint64_t bits = p.record->cells[p.dword].load())
      read(w, *p.inst, p.lane, p.record->base + 4 * p.dword, LastWrite::of(bits), Scope::System);
  polls[w.id].clear();
}

bool ScopeCheck::read(Wave &w, const Inst &i, int lane, uint64_t address, LastWrite last, Scope scope) {
  if (last.device == launch.device)
    return false;
  if (!last.cached && scope == Scope::System && isAfter(last.time, seen))
    seen = last.time;
  if (!last.cached && (scope == Scope::System || !isAfter(last.time, known)))
    return false;
  std::string writer = deviceText(last.device);
  std::string place = format("address 0x%llx (%s)", (unsigned long long)address,
                             AddressSpace::instance().describe(address).c_str());
  std::string text =
      last.cached ? format("read at %s of what %s wrote by a plain store and has not released at system "
                           "scope (a signal needs a store of system scope, other memory a release fence "
                           "before the signal)",
                           place.c_str(), writer.c_str())
                  : format("read at %s of what %s released after the last signal that was acquired at "
                           "system scope (a poll needs loads of system scope, other memory an acquire "
                           "fence after the signal and a release fence before it)",
                           place.c_str(), writer.c_str());
  findings.add(FaultKind::Trap, "race", text, siteOf(w, i, lane, "read"), Place{"global", address, 4});
  return true;
}

} // namespace flysim
