//===- VirtualMemory.cpp - reserved ranges and memory mapped into them ----===//
//
// Memory of a handle is a memory file, so that it can be mapped more than once and handed
// to other processes as a file descriptor.
//
//===----------------------------------------------------------------------===//

#include "hip/DeviceReset.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace flysim;

namespace {

constexpr uint64_t kGranule = 4096, kRecommended = 2 << 20;

/// hipMemAllocationProp and what it is made of.
struct Location {
  int type, id; ///< type 1: a device
};
struct AllocationProp {
  int type, handleType; ///< pinned is 1; a file descriptor is 1
  Location location;
  void *metadata;
  struct {
    unsigned char compression, rdma;
    unsigned short usage;
  } flags;
};
static_assert(sizeof(AllocationProp) == 32, "HIP binary interface");
struct AccessDesc {
  Location location;
  int flags; ///< 0 none, 1 read, 3 read and write
};

/// hipMemGenericAllocationHandle_t.
struct Physical {
  uint64_t size = 0;
  AllocationProp prop = {};
  int file = -1;
  unsigned held = 1, mapped = 0; ///< references of the program, and mappings
  ~Physical() {
    if (file >= 0)
      close(file);
    AddressSpace::instance().account(-static_cast<int64_t>(size));
  }
};

struct Reservation {
  uint64_t size = 0, mapBase = 0, mapSize = 0;
};
struct Mapping {
  uint64_t size = 0;
  Physical *memory = nullptr;
  std::map<int, int> access; ///< by device
};

std::mutex mutex;
std::set<Physical *> memories;
std::map<uint64_t, Reservation> reservations;
std::map<uint64_t, Mapping> mappings;

hipError_t bad(const char *function, const char *why) {
  return fail(hipErrorInvalidValue, std::string(function) + ": " + why);
}

bool validDevice(const Location &l) {
  return l.type == 1 && l.id >= 0 && l.id < Runtime::instance().deviceCount();
}

Physical *find(uint64_t handle) {
  auto *p = reinterpret_cast<Physical *>(handle);
  return memories.count(p) && p->held ? p : nullptr;
}

void dropUnused(Physical *p) {
  if (p->held || p->mapped)
    return;
  memories.erase(p);
  delete p;
}

/// The mappings of a range are whole: the first one, or end().
std::map<uint64_t, Mapping>::iterator range(uint64_t base, uint64_t size) {
  uint64_t at = base;
  auto first = mappings.find(base);
  for (auto it = first; it != mappings.end() && at < base + size && it->first == at; ++it)
    at += it->second.size;
  return size && base + size > base && at == base + size ? first : mappings.end();
}

} // namespace

void flysim::forgetMappings(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto it = mappings.begin(); it != mappings.end();) {
    Physical *memory = it->second.memory;
    if (memory->prop.location.id != device || !AddressSpace::instance().removePieces(it->first, it->second.size)) {
      ++it;
      continue;
    }
    --memory->mapped;
    dropUnused(memory);
    it = mappings.erase(it);
  }
  const std::set<Physical *> all = memories;
  for (Physical *memory : all)
    if (memory->prop.location.id == device) {
      memory->held = 0;
      dropUnused(memory);
    }
}

FLYSIM_API hipError_t hipMemGetAllocationGranularity(size_t *granularity, const AllocationProp *prop,
                                                     int option) try {
  if (!granularity || !prop || prop->type != 1 || !validDevice(prop->location) || (option & ~1))
    return bad("hipMemGetAllocationGranularity", "null pointer, invalid property or option");
  *granularity = option ? kRecommended : kGranule;
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemAddressReserve(void **out, size_t size, size_t alignment, void *,
                                           unsigned long long flags) try {
  if (!out || !size || size % kGranule || flags || (alignment & (alignment - 1)))
    return bad("hipMemAddressReserve", "null pointer, invalid size, alignment or flags");
  *out = nullptr;
  uint64_t align = std::max<uint64_t>(alignment, kGranule);
  uint64_t total = size + align + 2 * kGranule;
  if (total < size || total > (uint64_t(1) << 46))
    return fail(hipErrorOutOfMemory, format("hipMemAddressReserve: %zu bytes", size));
  void *map = mmap(nullptr, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED)
    return fail(hipErrorOutOfMemory, format("hipMemAddressReserve: %zu bytes", size));
  auto start = reinterpret_cast<uint64_t>(map);
  uint64_t base = (start + kGranule + align - 1) / align * align;
  std::lock_guard<std::mutex> lock(mutex);
  reservations[base] = {size, start, total};
  *out = reinterpret_cast<void *>(base);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemAddressFree(void *p, size_t size) try {
  std::lock_guard<std::mutex> lock(mutex);
  auto base = reinterpret_cast<uint64_t>(p);
  auto it = reservations.find(base);
  if (it == reservations.end() || it->second.size != size)
    return bad("hipMemAddressFree", "not a reserved range");
  auto mapped = mappings.lower_bound(base);
  if (mapped != mappings.end() && mapped->first < base + size)
    return bad("hipMemAddressFree", "memory is mapped in the range");
  munmap(reinterpret_cast<void *>(it->second.mapBase), it->second.mapSize);
  reservations.erase(it);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemCreate(uint64_t *handle, size_t size, const AllocationProp *prop,
                                   unsigned long long flags) try {
  if (!handle || !prop || !size || size % kGranule || flags || prop->type != 1 ||
      !validDevice(prop->location))
    return bad("hipMemCreate", "null pointer, invalid size, property or flags");
  if (prop->handleType & ~1)
    return fail(hipErrorNotSupported, "hipMemCreate: handles other than file descriptors are not part of the simulator");
  AddressSpace &space = AddressSpace::instance();
  return guarded([&]() -> hipError_t {
    uint64_t all = Runtime::instance().arch().memoryBytes;
    auto p = std::make_unique<Physical>();
    if (size > all || space.bytesInUse() > all - size)
      return fail(hipErrorOutOfMemory, format("hipMemCreate: cannot allocate %zu bytes", size));
    p->file = memfd_create("flysim-memory", MFD_CLOEXEC);
    if (p->file < 0 || ftruncate(p->file, static_cast<off_t>(size)))
      return fail(hipErrorOutOfMemory, format("hipMemCreate: no memory file of %zu bytes", size));
    p->size = size;
    p->prop = *prop;
    space.account(static_cast<int64_t>(size));
    std::lock_guard<std::mutex> lock(mutex);
    *handle = reinterpret_cast<uint64_t>(p.get());
    memories.insert(p.release());
    return hipSuccess;
  });
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemRelease(uint64_t handle) try {
  std::lock_guard<std::mutex> lock(mutex);
  Physical *p = find(handle);
  if (!p)
    return bad("hipMemRelease", "not a handle");
  --p->held;
  dropUnused(p);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemRetainAllocationHandle(uint64_t *handle, void *p) try {
  std::lock_guard<std::mutex> lock(mutex);
  auto addr = reinterpret_cast<uint64_t>(p);
  auto it = mappings.upper_bound(addr);
  if (!handle || it == mappings.begin() || addr >= (--it)->first + it->second.size)
    return bad("hipMemRetainAllocationHandle", "null pointer, or no mapped memory");
  ++it->second.memory->held;
  *handle = reinterpret_cast<uint64_t>(it->second.memory);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemGetAllocationPropertiesFromHandle(AllocationProp *prop, uint64_t handle) try {
  std::lock_guard<std::mutex> lock(mutex);
  Physical *p = find(handle);
  if (!prop || !p)
    return bad("hipMemGetAllocationPropertiesFromHandle", "null pointer, or not a handle");
  *prop = p->prop;
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemMap(void *at, size_t size, size_t offset, uint64_t handle,
                                unsigned long long flags) try {
  std::lock_guard<std::mutex> lock(mutex);
  Physical *p = find(handle);
  auto base = reinterpret_cast<uint64_t>(at);
  if (!p || !size || flags || (base | size | offset) % kGranule || offset > p->size ||
      size > p->size - offset)
    return bad("hipMemMap", "not a handle, or invalid size, offset or flags");
  auto it = reservations.upper_bound(base);
  if (it == reservations.begin() || base + size < base || base + size > (--it)->first + it->second.size)
    return bad("hipMemMap", "the range is not reserved");
  if (!AddressSpace::instance().addPiece(base, size, p->file, offset, p->prop.location.id))
    return bad("hipMemMap", "memory is mapped in the range already");
  ++p->mapped;
  mappings[base] = {size, p, {}};
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemUnmap(void *at, size_t size) try {
  finishAll(); // as on a GPU, this waits for what may still use the memory
  std::lock_guard<std::mutex> lock(mutex);
  auto base = reinterpret_cast<uint64_t>(at);
  auto it = range(base, size);
  if (it == mappings.end() || !AddressSpace::instance().removePieces(base, size))
    return bad("hipMemUnmap", "not a range of whole mappings");
  while (it != mappings.end() && it->first < base + size) {
    --it->second.memory->mapped;
    dropUnused(it->second.memory);
    it = mappings.erase(it);
  }
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemSetAccess(void *at, size_t size, const AccessDesc *list, size_t count) try {
  if (!list || !count)
    return bad("hipMemSetAccess", "null pointer");
  for (size_t n = 0; n < count; ++n)
    if (!validDevice(list[n].location) || (list[n].flags != 0 && list[n].flags != 1 && list[n].flags != 3))
      return bad("hipMemSetAccess", "invalid device or flags");
  std::lock_guard<std::mutex> lock(mutex);
  auto base = reinterpret_cast<uint64_t>(at);
  auto it = range(base, size);
  if (it == mappings.end())
    return bad("hipMemSetAccess", "not a range of whole mappings");
  for (; it != mappings.end() && it->first < base + size; ++it) {
    Mapping &m = it->second;
    for (size_t n = 0; n < count; ++n)
      m.access[list[n].location.id] = list[n].flags;
    // One address space serves all devices: what any of them may do.
    int any = 0;
    for (const auto &a : m.access)
      any |= a.second;
    if (!AddressSpace::instance().setAccess(it->first, m.size, any & 1, any & 2))
      return fail(hipErrorOutOfMemory, "hipMemSetAccess: the host refuses");
  }
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemGetAccess(unsigned long long *flags, const Location *location, void *p) try {
  std::lock_guard<std::mutex> lock(mutex);
  auto addr = reinterpret_cast<uint64_t>(p);
  auto it = mappings.upper_bound(addr);
  if (!flags || !location || !validDevice(*location) || it == mappings.begin() ||
      addr >= (--it)->first + it->second.size)
    return bad("hipMemGetAccess", "null pointer, invalid device, or no mapped memory");
  auto found = it->second.access.find(location->id);
  *flags = found == it->second.access.end() ? 0 : static_cast<unsigned long long>(found->second);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemExportToShareableHandle(void *out, uint64_t handle, int type,
                                                    unsigned long long flags) try {
  std::lock_guard<std::mutex> lock(mutex);
  Physical *p = find(handle);
  if (!out || !p || flags || type != 1 || !(p->prop.handleType & 1))
    return bad("hipMemExportToShareableHandle", "not a handle that was created for file descriptors");
  int file = fcntl(p->file, F_DUPFD_CLOEXEC, 0);
  if (file < 0)
    return fail(hipErrorOutOfMemory, "hipMemExportToShareableHandle: no file descriptor is left");
  memcpy(out, &file, sizeof file);
  return hipSuccess;
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemImportFromShareableHandle(uint64_t *handle, void *shared, int type) try {
  if (!handle || type != 1)
    return bad("hipMemImportFromShareableHandle", "null pointer, or not a file descriptor");
  // ROCm 7 passes the descriptor itself, ROCm 6 its address.
  auto value = reinterpret_cast<uint64_t>(shared);
  int file = static_cast<int>(value);
  Region r;
  if (value >> 24) {
    if (!AddressSpace::instance().lookup(value, sizeof file, false, r))
      return bad("hipMemImportFromShareableHandle", "not a file descriptor");
    memcpy(&file, shared, sizeof file);
  }
  struct stat status;
  char name[64] = {};
  std::string path = format("/proc/self/fd/%d", file);
  if (fstat(file, &status) || readlink(path.c_str(), name, sizeof name - 1) < 0 ||
      !strstr(name, "flysim-memory"))
    return bad("hipMemImportFromShareableHandle", "not a file descriptor of simulated memory");
  return guarded([&]() -> hipError_t {
    auto p = std::make_unique<Physical>();
    p->file = fcntl(file, F_DUPFD_CLOEXEC, 0);
    if (p->file < 0)
      return fail(hipErrorOutOfMemory, "hipMemImportFromShareableHandle: no file descriptor is left");
    p->size = static_cast<uint64_t>(status.st_size);
    p->prop.type = p->prop.handleType = p->prop.location.type = 1;
    p->prop.location.id = currentDevice();
    AddressSpace::instance().account(static_cast<int64_t>(p->size));
    std::lock_guard<std::mutex> lock(mutex);
    *handle = reinterpret_cast<uint64_t>(p.get());
    memories.insert(p.release());
    return hipSuccess;
  });
} FLYSIM_GUARDED
