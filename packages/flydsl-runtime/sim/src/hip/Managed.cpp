//===- Managed.cpp - advice about managed memory --------------------------===//
//
// Host and devices share one memory here, so that advice changes nothing; it is checked and
// kept, for programs that ask for it.
//
//===----------------------------------------------------------------------===//

#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

using namespace flysim;

namespace {

constexpr int kCpu = -1, kNowhere = -2;

struct Advice {
  int readMostly = 0, preferred = kNowhere, prefetched = kNowhere, coarse = 0;
  std::set<int> accessedBy;
};

std::mutex mutex;
std::map<uint64_t, std::pair<uint64_t, Advice>> advices; ///< allocation -> size and advice

/// hipMemLocation: type 1 is a device, 2 to 4 the host.
struct Location {
  int type, id;
};

bool validDevice(int d) { return d == kCpu || (d >= 0 && d < Runtime::instance().deviceCount()); }

/// The managed allocation that holds all of a range. Devices read pageable memory too: what
/// the host allocated itself counts as an allocation of its own.
bool managed(const void *p, size_t size, Allocation &a) {
  auto at = reinterpret_cast<uint64_t>(p);
  Region r;
  if (!AddressSpace::instance().find(at, a)) {
    a = Allocation{at, size, 0, 0, MemKind::Managed, 0};
    return at + size > at && AddressSpace::instance().lookup(at, size, false, r);
  }
  return AddressSpace::instance().find(at, a) && a.kind == MemKind::Managed &&
         size <= a.base + a.size - at;
}

/// The advice of an allocation; that of an earlier one at the address is forgotten.
Advice &adviceOf(const Allocation &a) {
  auto &entry = advices[a.base];
  if (entry.first != a.size)
    entry = {a.size, Advice()};
  return entry.second;
}

hipError_t bad(const char *function, const char *why) {
  return fail(hipErrorInvalidValue, std::string(function) + ": " + why);
}

} // namespace

FLYSIM_API hipError_t hipMemPrefetchAsync(const void *p, size_t size, int device, void *stream) try {
  Allocation a;
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipMemPrefetchAsync: invalid stream");
  if (!validDevice(device))
    return fail(hipErrorInvalidDevice, "hipMemPrefetchAsync: invalid device");
  if (!size || !managed(p, size, a))
    return bad("hipMemPrefetchAsync", "not a range of managed memory");
  std::lock_guard<std::mutex> lock(mutex);
  adviceOf(a).prefetched = device;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPrefetchAsync_v2(const void *p, size_t size, Location location, unsigned flags,
                                             void *stream) try {
  if (location.type < 1 || location.type > 4 || flags)
    return bad("hipMemPrefetchAsync_v2", "invalid location or flags");
  return hipMemPrefetchAsync(p, size, location.type == 1 ? location.id : kCpu, stream);
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemAdvise(const void *p, size_t size, int advice, int device) try {
  Allocation a;
  bool global = advice == 1 || advice == 2 || advice == 4; // the device does not matter
  if (!size || !managed(p, size, a))
    return bad("hipMemAdvise", "not a range of managed memory");
  if (!global && !validDevice(device))
    return fail(hipErrorInvalidDevice, "hipMemAdvise: invalid device");
  std::lock_guard<std::mutex> lock(mutex);
  Advice &kept = adviceOf(a);
  switch (advice) {
  case 1:
  case 2:
    kept.readMostly = advice == 1;
    return hipSuccess;
  case 3:
    kept.preferred = device;
    return hipSuccess;
  case 4:
    kept.preferred = kNowhere;
    return hipSuccess;
  case 5:
    kept.accessedBy.insert(device);
    return hipSuccess;
  case 6:
    kept.accessedBy.erase(device);
    return hipSuccess;
  case 100:
  case 101:
    kept.coarse = advice == 100;
    return hipSuccess;
  }
  return bad("hipMemAdvise", "unknown advice");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemAdvise_v2(const void *p, size_t size, int advice, Location location) try {
  if (location.type < 1 || location.type > 4)
    return bad("hipMemAdvise_v2", "invalid location");
  return hipMemAdvise(p, size, advice, location.type == 1 ? location.id : kCpu);
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipMemRangeGetAttribute(void *data, size_t size, int attribute, const void *p,
                                              size_t count) try {
  Allocation a;
  if (!data || size < 4 || size % 4 || !count || !managed(p, count, a))
    return bad("hipMemRangeGetAttribute", "null pointer, invalid size, or not a range of managed memory");
  std::lock_guard<std::mutex> lock(mutex);
  const Advice &kept = adviceOf(a);
  if (attribute == 3) {
    // As many devices as there is room for, then marks for none.
    auto it = kept.accessedBy.begin();
    for (size_t n = 0; n < std::min<size_t>(size / 4, 64); ++n) {
      int device = it == kept.accessedBy.end() ? kNowhere : *it++;
      memcpy(static_cast<char *>(data) + 4 * n, &device, 4);
    }
    return hipSuccess;
  }
  if (size != 4)
    return bad("hipMemRangeGetAttribute", "the attribute has 4 bytes");
  int value;
  switch (attribute) {
  case 1:
    value = kept.readMostly;
    break;
  case 2:
    value = kept.preferred;
    break;
  case 4:
    value = kept.prefetched;
    break;
  case 100:
    value = kept.coarse;
    break;
  default:
    return bad("hipMemRangeGetAttribute", "unknown attribute");
  }
  memcpy(data, &value, 4);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemRangeGetAttributes(void **data, size_t *sizes, int *attributes, size_t count,
                                               const void *p, size_t bytes) try {
  if (!data || !sizes || !attributes || !count)
    return bad("hipMemRangeGetAttributes", "null pointer or no attribute");
  for (size_t n = 0; n < count; ++n)
    if (hipError_t e = hipMemRangeGetAttribute(data[n], sizes[n], attributes[n], p, bytes))
      return e;
  return hipSuccess;
} FLYSIM_GUARDED
