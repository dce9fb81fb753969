//===- DeviceExtras.cpp - limits, peers, names of entry points ------------===//

#include "hip/DeviceReset.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>

using namespace flysim;

namespace {

bool validDevice(int d) { return d >= 0 && d < Runtime::instance().deviceCount(); }
hipError_t badDevice(const char *function) {
  return fail(hipErrorInvalidDevice, std::string(function) + ": the device does not exist");
}

std::mutex mutex;
/// hipLimit_t: stack, printf buffer, heap.
size_t limits[3] = {1024, 1 << 20, 8 << 20};
bool peers[8][8];

} // namespace

FLYSIM_API hipError_t hipDeviceGetLimit(size_t *value, int limit) try {
  if (!value || limit < 0 || limit > 2)
    return fail(limit > 2 ? hipErrorUnsupportedLimit : hipErrorInvalidValue, "hipDeviceGetLimit: unknown limit");
  std::lock_guard<std::mutex> lock(mutex);
  *value = limits[limit];
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceSetLimit(int limit, size_t value) try {
  if (limit < 0 || limit > 2)
    return fail(hipErrorUnsupportedLimit, "hipDeviceSetLimit: unknown limit");
  std::lock_guard<std::mutex> lock(mutex);
  limits[limit] = value;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetCacheConfig(int *config) {
  if (!config)
    return fail(hipErrorInvalidValue, "hipDeviceGetCacheConfig: null pointer");
  *config = 0; // no preference
  return hipSuccess;
}
FLYSIM_API hipError_t hipDeviceSetCacheConfig(int) { return hipSuccess; }
FLYSIM_API hipError_t hipDeviceGetSharedMemConfig(int *config) {
  if (!config)
    return fail(hipErrorInvalidValue, "hipDeviceGetSharedMemConfig: null pointer");
  *config = 1; // banks of four bytes
  return hipSuccess;
}
FLYSIM_API hipError_t hipDeviceSetSharedMemConfig(int) { return hipSuccess; }
FLYSIM_API hipError_t hipDeviceGetUuid(void *uuid, int device) try {
  hipDeviceProp_tR0600 p;
  if (!uuid)
    return fail(hipErrorInvalidValue, "hipDeviceGetUuid: null pointer");
  if (hipError_t e = hipGetDevicePropertiesR0600(&p, device))
    return e;
  memcpy(uuid, p.uuid, sizeof p.uuid);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetByPCIBusId(int *device, const char *id) try {
  unsigned domain = 0, bus = 0, slot = 0;
  if (!device || !id)
    return fail(hipErrorInvalidValue, "hipDeviceGetByPCIBusId: null pointer");
  Runtime &r = Runtime::instance();
  if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) == 3 && !domain && !bus)
    for (int d = 0; d < r.deviceCount(); ++d)
      if (r.ordinal(d) == static_cast<int>(slot)) {
        *device = d;
        return hipSuccess;
      }
  return badDevice("hipDeviceGetByPCIBusId");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipChooseDeviceR0600(int *device, const hipDeviceProp_tR0600 *wanted) {
  if (!device || !wanted)
    return fail(hipErrorInvalidValue, "hipChooseDevice: null pointer");
  *device = 0; // they are all alike
  return hipSuccess;
}
FLYSIM_API hipError_t hipChooseDevice(int *device, const void *wanted) {
  return hipChooseDeviceR0600(device, static_cast<const hipDeviceProp_tR0600 *>(wanted));
}
FLYSIM_API hipError_t hipSetValidDevices(int *list, int count) try {
  for (int n = 0; n < count; ++n)
    if (!list || !validDevice(list[n]))
      return badDevice("hipSetValidDevices");
  return hipSuccess;
} FLYSIM_GUARDED
// 0 performance rank, 1 access, 2 native atomics, 3 arrays
FLYSIM_API hipError_t hipDeviceGetP2PAttribute(int *value, int attribute, int from, int to) try {
  if (!value || attribute < 0 || attribute > 3)
    return fail(hipErrorInvalidValue, "hipDeviceGetP2PAttribute: unknown attribute");
  if (!validDevice(from) || !validDevice(to) || from == to)
    return badDevice("hipDeviceGetP2PAttribute");
  *value = attribute == 1 || attribute == 2;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t *type, uint32_t *hops) try {
  if (!type || !hops)
    return fail(hipErrorInvalidValue, "hipExtGetLinkTypeAndHopCount: null pointer");
  if (!validDevice(from) || !validDevice(to) || from == to)
    return badDevice("hipExtGetLinkTypeAndHopCount");
  *type = 4; // XGMI
  *hops = 1;
  return hipSuccess;
} FLYSIM_GUARDED
void flysim::forgetPeers(int device) {
  std::lock_guard<std::mutex> lock(mutex);
  for (bool &peer : peers[device])
    peer = false;
}

FLYSIM_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) try {
  int own = currentDevice();
  if (flags)
    return fail(hipErrorInvalidValue, "hipDeviceEnablePeerAccess: flags must be 0");
  if (!validDevice(peer) || peer == own)
    return badDevice("hipDeviceEnablePeerAccess");
  std::lock_guard<std::mutex> lock(mutex);
  if (peers[own][peer])
    return fail(hipErrorPeerAccessAlreadyEnabled, "peer access is enabled already");
  peers[own][peer] = true;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceDisablePeerAccess(int peer) try {
  int own = currentDevice();
  if (!validDevice(peer) || peer == own)
    return badDevice("hipDeviceDisablePeerAccess");
  std::lock_guard<std::mutex> lock(mutex);
  if (!peers[own][peer])
    return fail(hipErrorPeerAccessNotEnabled, "peer access is not enabled");
  peers[own][peer] = false;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipCtxEnablePeerAccess(void *context, unsigned flags) {
  return hipDeviceEnablePeerAccess(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1, flags);
}
FLYSIM_API hipError_t hipCtxDisablePeerAccess(void *context) {
  return hipDeviceDisablePeerAccess(static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1);
}
FLYSIM_API hipError_t hipCtxGetApiVersion(void *, unsigned *version) {
  if (!version)
    return fail(hipErrorInvalidValue, "hipCtxGetApiVersion: null pointer");
  *version = 4;
  return hipSuccess;
}
FLYSIM_API hipError_t hipCtxGetFlags(unsigned *flags) {
  if (!flags)
    return fail(hipErrorInvalidValue, "hipCtxGetFlags: null pointer");
  *flags = 0;
  return hipSuccess;
}
FLYSIM_API hipError_t hipCtxGetCacheConfig(int *config) { return hipDeviceGetCacheConfig(config); }
FLYSIM_API hipError_t hipCtxSetCacheConfig(int) { return hipSuccess; }
FLYSIM_API hipError_t hipCtxGetSharedMemConfig(int *config) { return hipDeviceGetSharedMemConfig(config); }
FLYSIM_API hipError_t hipCtxSetSharedMemConfig(int) { return hipSuccess; }
// Memory of graphs: 0 used, 1 its peak, 2 reserved, 3 its peak
FLYSIM_API hipError_t hipDeviceGetGraphMemAttribute(int device, int attribute, void *value) try {
  if (!validDevice(device) || !value || attribute < 0 || attribute > 3)
    return fail(hipErrorInvalidValue, "hipDeviceGetGraphMemAttribute: unknown device or attribute");
  uint64_t none = 0; // graphs own no memory here
  memcpy(value, &none, 8);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceSetGraphMemAttribute(int device, int attribute, void *value) try {
  if (!validDevice(device) || !value || (attribute != 1 && attribute != 3))
    return fail(hipErrorInvalidValue, "hipDeviceSetGraphMemAttribute: only peaks can be reset");
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGraphMemTrim(int device) try {
  return validDevice(device) ? hipSuccess : badDevice("hipDeviceGraphMemTrim");
} FLYSIM_GUARDED
// Deprecated in HIP, where they do nothing either.
FLYSIM_API hipError_t hipProfilerStart() { return hipSuccess; }
FLYSIM_API hipError_t hipProfilerStop() { return hipSuccess; }

/// The entry points by name, as dlsym would find them in this library.
FLYSIM_API hipError_t hipGetProcAddress(const char *name, void **out, int, uint64_t, int *status) try {
  if (!name || !out)
    return fail(hipErrorInvalidValue, "hipGetProcAddress: null pointer");
  static void *self = [] {
    Dl_info info;
    void *found = dladdr(reinterpret_cast<void *>(&hipProfilerStart), &info)
                      ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD)
                      : nullptr;
    if (!found) // the library is loaded: there was no memory, and the next call asks again
      throw std::bad_alloc();
    return found;
  }();
  std::string wanted = name;
  if (wanted == "hipGetDeviceProperties" || wanted == "hipChooseDevice")
    wanted += "R0600"; // what the headers make of these names
  *out = wanted.compare(0, 3, "hip") == 0 ? dlsym(self, wanted.c_str()) : nullptr;
  if (status)
    *status = *out ? 0 : 1;
  return *out ? hipSuccess : fail(hipErrorNotFound, "hipGetProcAddress: no entry point " + wanted);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetDriverEntryPoint(const char *name, void **out, unsigned long long, int *status) {
  return hipGetProcAddress(name, out, 0, 0, status);
}
FLYSIM_API const char *hipKernelNameRef(const void *function) try {
  const Function *f = nullptr;
  return resolveKernel(function, &f) ? nullptr : f->kernel->name.c_str();
} catch (...) {
  failRaised();
  return nullptr;
}
FLYSIM_API const char *hipKernelNameRefByPtr(const void *host, void *) { return hipKernelNameRef(host); }
FLYSIM_API const char *hipApiName(uint32_t) { return "unknown"; }
FLYSIM_API int hipGetStreamDeviceId(void *stream) try {
  if (!validStream(stream))
    return -1;
  return reinterpret_cast<uintptr_t>(stream) <= 2 ? currentDevice() : static_cast<Stream *>(stream)->device;
} catch (...) {
  failRaised();
  return -1;
}
