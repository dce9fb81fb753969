//===- Pools.cpp - stream-ordered allocation and memory pools -------------===//
//
// A pool counts what was allocated from it; memory goes back to the host when it is freed.
//
//===----------------------------------------------------------------------===//

#include "hip/DeviceReset.h"
#include "hip/MemoryWork.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <algorithm>
#include <cstring>

using namespace flysim;

namespace {

struct Pool {
  int device = 0;
  uint64_t threshold = 0, used = 0, usedHigh = 0;
  int reuse[3] = {1, 1, 1};
  std::map<int, int> access; ///< device -> hipMemAccessFlags
};

/// hipMemPoolProps: what of it matters.
struct PoolProps {
  int allocType, handleTypes;
  struct {
    int type, id;
  } location;
  char rest[72];
};
struct AccessDesc {
  struct {
    int type, id;
  } location;
  int flags;
};

std::mutex mutex;
HandleSet<Pool> pools;
std::map<uint64_t, std::pair<Pool *, uint64_t>> owners; ///< allocation -> pool and size
Pool *defaults[8], *current[8];

Pool *defaultPool(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!defaults[device]) {
    auto p = std::make_unique<Pool>();
    p->device = device;
    defaults[device] = pools.add(std::move(p));
  }
  return defaults[device];
}

Pool *poolOf(int device) {
  Pool *p = defaultPool(device);
  std::lock_guard<std::mutex> lock(mutex);
  return current[device] ? current[device] : p;
}

bool validDevice(int d) { return d >= 0 && d < Runtime::instance().deviceCount(); }

hipError_t badPool(const char *function) {
  return fail(hipErrorInvalidValue, std::string(function) + ": invalid pool, device or null pointer");
}

hipError_t allocateFrom(Pool *pool, void **p, size_t size, void *stream) {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipMallocAsync: invalid stream");
  if (hipError_t e = allocateMemory(p, size, MemKind::Device))
    return e;
  if (!*p)
    return hipSuccess;
  std::lock_guard<std::mutex> lock(mutex);
  owners[reinterpret_cast<uint64_t>(*p)] = {pool, size};
  pool->used += size;
  pool->usedHigh = std::max(pool->usedHigh, pool->used);
  return hipSuccess;
}

} // namespace

void flysim::poolForget(void *p) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = owners.find(reinterpret_cast<uint64_t>(p));
  if (it == owners.end())
    return;
  if (pools.contains(it->second.first))
    it->second.first->used -= it->second.second;
  owners.erase(it);
}

void flysim::forgetPools(int device) {
  std::vector<Pool *> list;
  pools.forEach([&](Pool &p) {
    if (p.device == device)
      list.push_back(&p);
  });
  std::lock_guard<std::mutex> lock(mutex);
  defaults[device] = current[device] = nullptr;
  for (Pool *p : list)
    pools.destroy(p);
}

FLYSIM_API hipError_t hipMallocAsync(void **p, size_t size, void *stream) try {
  return allocateFrom(poolOf(currentDevice()), p, size, stream);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMallocFromPoolAsync(void **p, size_t size, void *pool, void *stream) try {
  return pools.contains(pool) ? allocateFrom(static_cast<Pool *>(pool), p, size, stream)
                              : badPool("hipMallocFromPoolAsync");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetDefaultMemPool(void **pool, int device) try {
  if (!pool || !validDevice(device))
    return badPool("hipDeviceGetDefaultMemPool");
  *pool = defaultPool(device);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetMemPool(void **pool, int device) try {
  if (!pool || !validDevice(device))
    return badPool("hipDeviceGetMemPool");
  *pool = poolOf(device);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceSetMemPool(int device, void *pool) try {
  if (!validDevice(device) || !pools.contains(pool) || static_cast<Pool *>(pool)->device != device)
    return badPool("hipDeviceSetMemPool");
  std::lock_guard<std::mutex> lock(mutex);
  current[device] = static_cast<Pool *>(pool);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolCreate(void **pool, const PoolProps *props) try {
  if (!pool || !props || props->location.type != 1 || !validDevice(props->location.id))
    return badPool("hipMemPoolCreate");
  if (props->handleTypes)
    return fail(hipErrorNotSupported, "hipMemPoolCreate: shareable handles are not part of the simulator");
  auto p = std::make_unique<Pool>();
  p->device = props->location.id;
  *pool = pools.add(std::move(p));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolDestroy(void *pool) try {
  if (!pools.contains(pool) || std::count(defaults, defaults + 8, pool))
    return badPool("hipMemPoolDestroy");
  {
    std::lock_guard<std::mutex> lock(mutex);
    for (Pool *&c : current)
      c = c == pool ? nullptr : c;
  }
  pools.destroy(pool);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolTrimTo(void *pool, size_t) try {
  return pools.contains(pool) ? hipSuccess : badPool("hipMemPoolTrimTo");
} FLYSIM_GUARDED
// Attributes: 1..3 reuse policies (int), 4 release threshold, 5 and 6 reserved memory and its
// peak, 7 and 8 used memory and its peak (64 bits each).
FLYSIM_API hipError_t hipMemPoolSetAttribute(void *pool, int attribute, void *value) try {
  if (!pools.contains(pool) || !value)
    return badPool("hipMemPoolSetAttribute");
  auto *p = static_cast<Pool *>(pool);
  std::lock_guard<std::mutex> lock(mutex);
  uint64_t wide = 0;
  if (attribute >= 1 && attribute <= 3)
    memcpy(&p->reuse[attribute - 1], value, 4);
  else if (attribute == 4)
    memcpy(&p->threshold, value, 8);
  else if ((attribute == 6 || attribute == 8) && (memcpy(&wide, value, 8), wide == 0))
    p->usedHigh = p->used;
  else
    return fail(hipErrorInvalidValue, format("memory pool attribute %d cannot be set to this", attribute));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolGetAttribute(void *pool, int attribute, void *value) try {
  if (!pools.contains(pool) || !value)
    return badPool("hipMemPoolGetAttribute");
  auto *p = static_cast<Pool *>(pool);
  std::lock_guard<std::mutex> lock(mutex);
  if (attribute >= 1 && attribute <= 3)
    memcpy(value, &p->reuse[attribute - 1], 4);
  else if (attribute == 4)
    memcpy(value, &p->threshold, 8);
  else if (attribute == 5 || attribute == 7)
    memcpy(value, &p->used, 8);
  else if (attribute == 6 || attribute == 8)
    memcpy(value, &p->usedHigh, 8);
  else
    return fail(hipErrorInvalidValue, format("memory pool attribute %d", attribute));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolSetAccess(void *pool, const AccessDesc *list, size_t count) try {
  if (!pools.contains(pool) || (count && !list))
    return badPool("hipMemPoolSetAccess");
  std::lock_guard<std::mutex> lock(mutex);
  for (size_t n = 0; n < count; ++n) {
    if (list[n].location.type != 1 || !validDevice(list[n].location.id))
      return badPool("hipMemPoolSetAccess");
    static_cast<Pool *>(pool)->access[list[n].location.id] = list[n].flags;
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPoolGetAccess(int *flags, void *pool, const void *where) try {
  AccessDesc d = {};
  if (!pools.contains(pool) || !flags || !where)
    return badPool("hipMemPoolGetAccess");
  memcpy(&d.location, where, sizeof d.location);
  auto *p = static_cast<Pool *>(pool);
  std::lock_guard<std::mutex> lock(mutex);
  auto it = p->access.find(d.location.id);
  *flags = d.location.id == p->device ? 3 : it == p->access.end() ? 0 : it->second;
  return hipSuccess;
} FLYSIM_GUARDED
