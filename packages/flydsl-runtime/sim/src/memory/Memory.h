//===- Memory.h - the simulated device's address space ---------*- C++ -*-===//
//
// Device addresses are host addresses. Device allocations are mapped between
// guard pages and checked to the byte, registered host memory too. Other host memory
// is out of reach unless the launch says otherwise: it may state arrays (NumPy's), or
// that whatever the process has mapped will do.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_MEMORY_MEMORY_H
#define FLYSIM_MEMORY_MEMORY_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>
#include <vector>

namespace flysim {

/// What a device allocation is for (reported by hipPointerGetAttributes). Service: the simulator's own, for arguments
/// of kernels and what they print or allocate.
enum class MemKind : uint8_t { Device, HostPinned, HostRegistered, Managed, Module, Service };

struct Allocation {
  uint64_t base = 0;     ///< first usable byte
  uint64_t size = 0;     ///< bytes that the program asked for
  uint64_t mapBase = 0;  ///< start of the mapping including guards (0: not ours)
  uint64_t mapSize = 0;
  MemKind kind = MemKind::Device;
  int device = 0;
  /// Part of a reserved range: accesses may go on into the piece behind it.
  bool piece = false;
  bool readable = true, writable = true; ///< of a piece: what hipMemSetAccess allows
  int sharedFile = -1; ///< the memory file behind it, once other processes may map it
};

/// An address range that accesses may use without asking again.
struct Region {
  uint64_t lo = 1, hi = 0;
  bool writable = false;
};

/// The same memory as sorted ranges that do not overlap: what lies in one of `ranges` lies in one of them.
std::vector<Region> disjoint(std::vector<Region> ranges);

/// The allocation table. Thread safe.
class AddressSpace {
public:
  static AddressSpace &instance();

  /// Maps `size` bytes (256-byte aligned, zero filled) with a guard page at each
  /// end. Returns 0 when the host has no memory.
  uint64_t allocate(uint64_t size, MemKind kind, int device);
  /// Frees the allocation that starts at `base`; false if there is none.
  bool release(uint64_t base);
  /// The allocation at `base` lies in a memory file from now on, which is closed with it.
  void setSharedFile(uint64_t base, int file);
  /// Maps `size` bytes of a file (whole pages) at `base`, in a range that the caller has
  /// reserved, without access; false when the host refuses.
  bool addPiece(uint64_t base, uint64_t size, int file, uint64_t offset, int device);
  /// What the pieces in a range may be used for; false if they do not fill it.
  bool setAccess(uint64_t base, uint64_t size, bool readable, bool writable);
  /// Takes the pieces of a range away; false if they do not fill it exactly.
  bool removePieces(uint64_t base, uint64_t size);
  /// Memory that is not part of an allocation yet counts as used.
  void account(int64_t bytes) { inUse += static_cast<uint64_t>(bytes); }
  /// Records host memory that the program registered.
  void registerHost(uint64_t base, uint64_t size);
  bool unregisterHost(uint64_t base);

  /// Where the allocations begin that the program has on `device`, those of modules and pieces of ranges apart.
  std::vector<uint64_t> heldBy(int device) const;
  /// The allocation that contains `addr` (registered host memory too).
  bool find(uint64_t addr, Allocation &out) const;
  /// The range around `addr` that may be accessed; false for a wild address.
  bool lookup(uint64_t addr, uint64_t size, bool write, Region &out);
  /// The same for device allocations (and registered host memory) alone.
  bool lookupDevice(uint64_t addr, uint64_t size, bool write, Region &out);
  /// As `lookup` for a read that may end behind an allocation, within its last page, as
  /// on hardware (which knows pages, not allocations).
  bool lookupPages(uint64_t addr, uint64_t size, Region &out);
  /// How many bytes from `addr` on the process may read, whatever they are.
  uint64_t readableFrom(uint64_t addr);
  /// The mapping of host memory that is no allocation around `addr`; false if there is none.
  bool hostMapping(uint64_t addr, Region &out);
  /// Words that describe where `addr` lies, for error messages.
  std::string describe(uint64_t addr) const;

  uint64_t bytesInUse() const { return inUse; }
  /// Changes whenever a region may have disappeared; caches compare it.
  uint64_t generation() const { return gen.load(std::memory_order_acquire); }

private:
  bool lookupHost(uint64_t addr, uint64_t size, bool write, Region &out);
  void readHostMaps();
  void forgetHost(uint64_t base, uint64_t size);
  bool allowed(std::map<uint64_t, Allocation>::const_iterator it, uint64_t addr, uint64_t size,
               bool write, Region &out) const;
  bool fills(uint64_t base, uint64_t size) const;

  mutable std::shared_mutex mutex;
  std::map<uint64_t, Allocation> allocations; ///< key: start of the mapping
  std::map<uint64_t, Allocation> registered;  ///< key: base
  std::vector<Region> hostMaps;
  std::atomic<uint64_t> gen{1};
  std::atomic<uint64_t> inUse{0};
};

/// Per-thread cache in front of AddressSpace::lookup.
class AccessCache {
public:
  /// True if [addr, addr+size) may be accessed.
  inline bool check(uint64_t addr, uint64_t size, bool write) {
    for (const Region &r : entries)
      if (addr >= r.lo && addr + size <= r.hi && addr + size >= addr && (r.writable || !write))
        return true;
    return miss(addr, size, write);
  }
  /// Drops every entry if the table changed; called at the start of a launch.
  void refresh();
  /// Host memory (outside device allocations) may be written in these ranges only, which are
  /// `disjoint` and outlive the cache, and read there or, if `readsAll`, wherever it is mapped.
  void limitHost(const std::vector<Region> *ranges, bool readsAll) {
    hostWritable = ranges;
    readsHost = readsAll;
  }
  /// Memory that stands for LDS and scratch in a second execution of the kernel, by its owner.
  void setOwn(const void *owner, std::vector<Region> regions) { own[owner] = std::move(regions); }
  /// Reads that end behind an allocation, within its last page, are errors.
  void exactReads(bool on) { exact = on; }

private:
  bool miss(uint64_t addr, uint64_t size, bool write);
  bool find(AddressSpace &space, uint64_t addr, uint64_t size, bool write, Region &r) const;
  static constexpr unsigned kEntries = 4;
  Region entries[kEntries];
  unsigned next = 0;
  uint64_t gen = 0;
  const std::vector<Region> *hostWritable = nullptr;
  bool readsHost = true, exact = false;
  std::map<const void *, std::vector<Region>> own;
};

} // namespace flysim

#endif
