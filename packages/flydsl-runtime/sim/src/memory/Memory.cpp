//===- Memory.cpp - the simulated device's address space ------------------===//

#include "memory/Memory.h"

#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace flysim {

namespace {
constexpr uint64_t kPage = 4096;
constexpr uint64_t roundUp(uint64_t v, uint64_t a) { return (v + a - 1) / a * a; }
} // namespace

std::vector<Region> disjoint(std::vector<Region> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const Region &a, const Region &b) { return a.lo < b.lo; });
  std::vector<Region> joined;
  for (const Region &r : ranges) {
    if (!joined.empty() && r.lo < joined.back().hi)
      joined.back().hi = std::max(joined.back().hi, r.hi);
    else if (r.lo < r.hi)
      joined.push_back(r);
  }
  return joined;
}

AddressSpace &AddressSpace::instance() {
  // Never destroyed: worker threads and atexit handlers of the host program may
  // still use device memory while static objects are torn down.
  static AddressSpace *space = new AddressSpace;
  return *space;
}

uint64_t AddressSpace::allocate(uint64_t size, MemKind kind, int device) {
  uint64_t body = roundUp(std::max<uint64_t>(size, 1), kPage);
  if (body < size || body > (uint64_t(1) << 46))
    return 0;
  uint64_t total = body + 2 * kPage;
  void *map = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return 0;
  auto start = reinterpret_cast<uint64_t>(map);
  if (mprotect(reinterpret_cast<void *>(start + kPage), body, PROT_READ | PROT_WRITE)) {
    munmap(map, total);
    return 0;
  }
  Allocation a{start + kPage, size, start, total, kind, device};
  std::unique_lock lock(mutex);
  allocations[start] = a;
  inUse += size;
  return a.base;
}

bool AddressSpace::release(uint64_t base) {
  std::unique_lock lock(mutex);
  auto it = allocations.find(base - kPage);
  if (it == allocations.end() || it->second.piece)
    return false;
  munmap(reinterpret_cast<void *>(it->second.mapBase), it->second.mapSize);
  forgetHost(it->second.mapBase, it->second.mapSize);
  if (it->second.sharedFile >= 0)
    close(it->second.sharedFile);
  inUse -= it->second.size;
  allocations.erase(it);
  gen.fetch_add(1, std::memory_order_release);
  return true;
}

void AddressSpace::setSharedFile(uint64_t base, int file) {
  std::unique_lock lock(mutex);
  auto it = allocations.find(base - kPage);
  if (it != allocations.end())
    it->second.sharedFile = file;
}

bool AddressSpace::addPiece(uint64_t base, uint64_t size, int file, uint64_t offset, int device) {
  std::unique_lock lock(mutex);
  auto next = allocations.lower_bound(base);
  if (next != allocations.end() && next->first < base + size)
    return false;
  if (next != allocations.begin()) {
    const Allocation &before = std::prev(next)->second;
    if (before.mapBase + before.mapSize > base)
      return false;
  }
  if (mmap(reinterpret_cast<void *>(base), size, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
           static_cast<off_t>(offset)) == MAP_FAILED)
    return false;
  Allocation a{base, size, base, size, MemKind::Device, device};
  a.piece = true;
  a.readable = a.writable = false;
  allocations[base] = a;
  return true;
}

/// True if pieces begin at `base`, end at `base + size`, and leave no gap.
bool AddressSpace::fills(uint64_t base, uint64_t size) const {
  uint64_t at = base;
  for (auto it = allocations.find(base); it != allocations.end() && at < base + size; ++it) {
    if (!it->second.piece || it->first != at)
      return false;
    at += it->second.size;
  }
  return size && at == base + size;
}

bool AddressSpace::setAccess(uint64_t base, uint64_t size, bool readable, bool writable) {
  std::unique_lock lock(mutex);
  if (!fills(base, size) ||
      mprotect(reinterpret_cast<void *>(base), size,
               (readable ? PROT_READ : PROT_NONE) | (writable ? PROT_WRITE : PROT_NONE)))
    return false;
  for (auto it = allocations.find(base); it != allocations.end() && it->first < base + size; ++it) {
    it->second.readable = readable;
    it->second.writable = writable;
  }
  gen.fetch_add(1, std::memory_order_release);
  return true;
}

bool AddressSpace::removePieces(uint64_t base, uint64_t size) {
  std::unique_lock lock(mutex);
  if (!fills(base, size))
    return false;
  mmap(reinterpret_cast<void *>(base), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  forgetHost(base, size);
  allocations.erase(allocations.find(base), allocations.lower_bound(base + size));
  gen.fetch_add(1, std::memory_order_release);
  return true;
}

/// The accessible range around `addr` from allocation `it` on, which `addr` lies in.
bool AddressSpace::allowed(std::map<uint64_t, Allocation>::const_iterator it, uint64_t addr,
                           uint64_t size, bool write, Region &out) const {
  const Allocation &a = it->second;
  auto open = [&](const Allocation &p) { return write ? p.writable : p.readable; };
  if (addr < a.base || addr >= a.base + a.size || !open(a))
    return false;
  out = Region{a.base, a.base + a.size, a.writable};
  while (a.piece && addr + size > out.hi) {
    if (++it == allocations.end() || !it->second.piece || it->first != out.hi || !open(it->second))
      return false;
    out.hi += it->second.size;
    out.writable &= it->second.writable;
  }
  return addr + size <= out.hi;
}

/// Takes a range that is not mapped any more out of the snapshot of the host's mappings.
void AddressSpace::forgetHost(uint64_t base, uint64_t size) {
  uint64_t end = base + size;
  for (size_t n = 0; n < hostMaps.size(); ++n) {
    Region r = hostMaps[n];
    if (r.hi <= base || r.lo >= end)
      continue;
    hostMaps[n].hi = std::max(r.lo, base); // may be empty
    if (r.hi > end)
      hostMaps.insert(hostMaps.begin() + static_cast<ptrdiff_t>(++n), Region{std::max(r.lo, end), r.hi, r.writable});
  }
}

void AddressSpace::registerHost(uint64_t base, uint64_t size) {
  std::unique_lock lock(mutex);
  registered[base] = Allocation{base, size, 0, 0, MemKind::HostRegistered, 0};
}

bool AddressSpace::unregisterHost(uint64_t base) {
  std::unique_lock lock(mutex);
  return registered.erase(base) != 0;
}

std::vector<uint64_t> AddressSpace::heldBy(int device) const {
  std::shared_lock lock(mutex);
  std::vector<uint64_t> bases;
  for (const auto &[start, a] : allocations)
    if (a.device == device && !a.piece && a.kind != MemKind::Module && a.kind != MemKind::Service)
      bases.push_back(a.base);
  return bases;
}

bool AddressSpace::find(uint64_t addr, Allocation &out) const {
  std::shared_lock lock(mutex);
  for (const auto *table : {&allocations, &registered}) {
    auto it = table->upper_bound(addr);
    if (it == table->begin())
      continue;
    const Allocation &a = std::prev(it)->second;
    if (addr >= a.base && addr < a.base + std::max<uint64_t>(a.size, 1)) {
      out = a;
      return true;
    }
  }
  return false;
}

bool AddressSpace::lookup(uint64_t addr, uint64_t size, bool write, Region &out) {
  if (addr + size < addr)
    return false;
  {
    std::shared_lock lock(mutex);
    auto it = allocations.upper_bound(addr);
    if (it != allocations.begin()) {
      const Allocation &a = std::prev(it)->second;
      if (addr < a.mapBase + a.mapSize)
        return allowed(std::prev(it), addr, size, write, out);
    }
  }
  return lookupHost(addr, size, write, out);
}

bool AddressSpace::lookupDevice(uint64_t addr, uint64_t size, bool write, Region &out) {
  if (addr + size < addr)
    return false;
  std::shared_lock lock(mutex);
  if (auto it = allocations.upper_bound(addr);
      it != allocations.begin() && std::prev(it)->second.piece && allowed(std::prev(it), addr, size, write, out))
    return true;
  for (const auto *table : {&allocations, &registered}) {
    auto it = table->upper_bound(addr);
    if (it == table->begin())
      continue;
    const Allocation &a = std::prev(it)->second;
    if (!a.piece && addr >= a.base && addr + size <= a.base + a.size) {
      out = Region{a.base, a.base + a.size, true};
      return true;
    }
  }
  return false;
}

bool AddressSpace::lookupPages(uint64_t addr, uint64_t size, Region &out) {
  std::shared_lock lock(mutex);
  auto it = allocations.upper_bound(addr);
  if (it == allocations.begin() || addr + size < addr)
    return false;
  const Allocation &a = std::prev(it)->second;
  uint64_t end = a.base + roundUp(std::max<uint64_t>(a.size, 1), kPage);
  if (addr < a.base || addr + size > end || a.piece)
    return false;
  out = Region{a.base, end, false};
  return true;
}

bool AddressSpace::lookupHost(uint64_t addr, uint64_t size, bool write, Region &out) {
  std::unique_lock lock(mutex);
  // The snapshot of the host's mappings goes stale as the host allocates and frees,
  // so a miss reads it again before it counts as a fault.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (attempt == 1 || hostMaps.empty())
      readHostMaps();
    auto it = std::upper_bound(hostMaps.begin(), hostMaps.end(), addr,
                               [](uint64_t v, const Region &r) { return v < r.lo; });
    if (it == hostMaps.begin())
      continue;
    const Region &r = *std::prev(it);
    if (addr + size <= r.hi && (r.writable || !write)) {
      out = r;
      return true;
    }
  }
  return false;
}

bool AddressSpace::hostMapping(uint64_t addr, Region &out) {
  {
    std::shared_lock lock(mutex);
    auto it = allocations.upper_bound(addr);
    if (it != allocations.begin() &&
        addr < std::prev(it)->second.mapBase + std::prev(it)->second.mapSize)
      return false;
  }
  return lookupHost(addr, 1, false, out);
}

uint64_t AddressSpace::readableFrom(uint64_t addr) {
  std::unique_lock lock(mutex);
  readHostMaps();
  uint64_t end = addr;
  for (const Region &r : hostMaps)
    if (r.lo <= end && end < r.hi)
      end = r.hi;
  return end - addr;
}

void AddressSpace::readHostMaps() {
  hostMaps.clear();
  FILE *file = fopen("/proc/self/maps", "re");
  if (!file)
    return;
  char line[1024];
  while (fgets(line, sizeof line, file)) {
    unsigned long lo, hi;
    char perms[8];
    if (sscanf(line, "%lx-%lx %7s", &lo, &hi, perms) != 3 || perms[0] != 'r')
      continue;
    bool writable = perms[1] == 'w';
    if (!hostMaps.empty() && hostMaps.back().hi == lo && hostMaps.back().writable == writable)
      hostMaps.back().hi = hi;
    else
      hostMaps.push_back(Region{lo, hi, writable});
  }
  fclose(file);
}

std::string AddressSpace::describe(uint64_t addr) const {
  std::shared_lock lock(mutex);
  const Allocation *best = nullptr;
  uint64_t bestDistance = uint64_t(1) << 40;
  for (const auto &entry : allocations) {
    const Allocation &a = entry.second;
    uint64_t distance = addr < a.base ? a.base - addr
                                      : (addr >= a.base + a.size ? addr - (a.base + a.size) : 0);
    if (distance < bestDistance) {
      bestDistance = distance;
      best = &a;
    }
  }
  if (!best)
    return addr < kPage ? "near the null pointer" : "not in any allocation";
  const char *side = addr < best->base ? "before the start" : "past the end";
  if (addr >= best->base && addr < best->base + best->size)
    return format("%llu bytes into the allocation of %llu bytes at 0x%llx",
                  (unsigned long long)(addr - best->base), (unsigned long long)best->size,
                  (unsigned long long)best->base);
  return format("%llu bytes %s of the allocation of %llu bytes at 0x%llx",
                (unsigned long long)bestDistance, side, (unsigned long long)best->size,
                (unsigned long long)best->base);
}

void AccessCache::refresh() {
  uint64_t now = AddressSpace::instance().generation();
  // Host mappings can vanish without notice, so no entry outlives a launch.
  for (Region &r : entries)
    r = Region{};
  gen = now;
}

/// The region of an access when host memory is limited to the arrays of the launch.
bool AccessCache::find(AddressSpace &space, uint64_t addr, uint64_t size, bool write, Region &r) const {
  if (space.lookupDevice(addr, size, write, r))
    return true;
  auto it = std::upper_bound(hostWritable->begin(), hostWritable->end(), addr,
                             [](uint64_t a, const Region &x) { return a < x.lo; });
  if (it != hostWritable->begin() && addr + size >= addr && addr + size <= std::prev(it)->hi) {
    r = *std::prev(it);
    return true;
  }
  for (const auto &owner : own)
    for (const Region &x : owner.second)
      if (addr >= x.lo && addr < x.hi && size <= x.hi - addr) {
        r = x;
        return true;
      }
  if (write || !readsHost || !space.lookup(addr, size, false, r))
    return false;
  r.writable = false;
  return true;
}

bool AccessCache::miss(uint64_t addr, uint64_t size, bool write) {
  AddressSpace &space = AddressSpace::instance();
  if (space.generation() != gen)
    refresh();
  Region r;
  if (hostWritable ? !find(space, addr, size, write, r) : !space.lookup(addr, size, write, r))
    if (write || exact || !space.lookupPages(addr, size, r))
      return false;
  entries[next] = r;
  next = (next + 1) % kEntries;
  return true;
}

} // namespace flysim
