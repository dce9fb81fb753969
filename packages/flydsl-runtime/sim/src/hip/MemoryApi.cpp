//===- MemoryApi.cpp - allocation and pointers ----------------------------===//

#include "check/SharedRecords.h"
#include "hip/Queues.h"
#include "hip/MemoryWork.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>
#include <map>
#include <mutex>

using namespace flysim;

namespace {

AddressSpace &space() { return AddressSpace::instance(); }

std::mutex flagsMutex;
std::map<uint64_t, unsigned> hostFlags; ///< of pinned and registered memory, by address

void rememberFlags(const void *p, unsigned flags) {
  std::lock_guard<std::mutex> lock(flagsMutex);
  hostFlags[reinterpret_cast<uint64_t>(p)] = flags;
}
unsigned flagsOf(uint64_t base) {
  std::lock_guard<std::mutex> lock(flagsMutex);
  auto it = hostFlags.find(base);
  return it == hostFlags.end() ? 0 : it->second;
}

} // namespace

hipError_t flysim::freeMemory(void *p) {
  if (!p)
    return hipSuccess;
  bool bad = false;
  if (freeGraphMemory(p, bad))
    return bad ? fail(hipErrorInvalidValue, format("free: %p is not allocated", p)) : hipSuccess;
  poolForget(p);
  return releaseMemory(p);
}

FLYSIM_API hipError_t hipMalloc(void **p, size_t size) try {
  if (hipError_t e = allowedInCapture("hipMalloc"))
    return e;
  return allocateMemory(p, size, MemKind::Device);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtMallocWithFlags(void **p, size_t size, unsigned flags) try {
  hipError_t e = hipMalloc(p, size);
  // Uncached memory is what devices signal each other in. Other processes see its records
  // when they open it.
  try {
    if (e == hipSuccess && flags && Runtime::instance().deviceCount() > 1)
      SharedRecords::instance().add(reinterpret_cast<uint64_t>(*p), size, -1, 0);
  } catch (...) {
    freeMemory(*p);
    throw;
  }
  return e;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMallocPitch(void **p, size_t *pitch, size_t width, size_t height) try {
  if (!p || !pitch)
    return fail(hipErrorInvalidValue, "hipMallocPitch: null pointer");
  *p = nullptr;
  if (width > SIZE_MAX - 255 || (width && height > SIZE_MAX / ((width + 255) / 256 * 256)))
    return fail(hipErrorOutOfMemory, format("cannot allocate %zu rows of %zu bytes", height, width));
  *pitch = (width + 255) / 256 * 256;
  return hipMalloc(p, *pitch * height);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemAllocPitch(void **p, size_t *pitch, size_t width, size_t height,
                                       unsigned elementSize) try {
  if (elementSize != 4 && elementSize != 8 && elementSize != 16)
    return fail(hipErrorInvalidValue, "hipMemAllocPitch: elements have 4, 8 or 16 bytes");
  return hipMallocPitch(p, pitch, width, height);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMalloc3D(hipPitchedPtr *out, hipExtent extent) try {
  if (!out)
    return fail(hipErrorInvalidValue, "hipMalloc3D: null pointer");
  *out = {nullptr, 0, extent.width, extent.height};
  if (extent.depth && extent.height > SIZE_MAX / extent.depth)
    return fail(hipErrorOutOfMemory, "hipMalloc3D: the extent exceeds all memory");
  return hipMallocPitch(&out->ptr, &out->pitch, extent.width, extent.height * extent.depth);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMallocManaged(void **p, size_t size, unsigned flags) try {
  if (flags != 1 && flags != 2) // attached to all streams, or to the host
    return fail(hipErrorInvalidValue, "hipMallocManaged: invalid flags");
  return allocateMemory(p, size, MemKind::Managed);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostMalloc(void **p, size_t size, unsigned flags) try {
  if (hipError_t e = allowedInCapture("hipHostMalloc"))
    return e;
  if (constexpr unsigned kCoherent = 0x40000000, kNot = 0x80000000; (flags & kCoherent) && (flags & kNot))
    return fail(hipErrorInvalidValue, "hipHostMalloc: memory is either coherent or not");
  if (hipError_t e = allocateMemory(p, size, MemKind::HostPinned))
    return e;
  try {
    rememberFlags(*p, flags);
  } catch (...) {
    freeMemory(*p);
    throw;
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostAlloc(void **p, size_t size, unsigned flags) {
  return hipHostMalloc(p, size, flags);
}
FLYSIM_API hipError_t hipMallocHost(void **p, size_t size) { return hipHostMalloc(p, size, 0); }
FLYSIM_API hipError_t hipMemAllocHost(void **p, size_t size) { return hipHostMalloc(p, size, 0); }
FLYSIM_API hipError_t hipFree(void *p) try {
  if (hipError_t e = allowedInCapture("hipFree"))
    return e;
  return freeMemory(p);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipFreeAsync(void *p, void *stream) try {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipFreeAsync: invalid stream");
  if (!p)
    return fail(hipErrorInvalidValue, "hipFreeAsync: null pointer");
  return freeMemory(p);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostFree(void *p) { return hipFree(p); }
FLYSIM_API hipError_t hipFreeHost(void *p) { return hipFree(p); }
FLYSIM_API hipError_t hipHostRegister(void *p, size_t size, unsigned flags) try {
  if (!p || !size)
    return fail(hipErrorInvalidValue, "hipHostRegister: empty range");
  // Portable, mapped, of an I/O device, read-only or coarse-grained; uncached.
  if (constexpr unsigned kKnown = 0x8000000F; flags & ~kKnown)
    return fail(hipErrorInvalidValue, "hipHostRegister: flags that HIP does not have");
  Allocation a;
  if (space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorHostMemoryAlreadyRegistered, "hipHostRegister: the memory is registered already");
  return guarded([&] {
    checkRange(p, size, false, "hipHostRegister");
    rememberFlags(p, flags);
    space().registerHost(reinterpret_cast<uint64_t>(p), size);
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostUnregister(void *p) try {
  return space().unregisterHost(reinterpret_cast<uint64_t>(p))
             ? hipSuccess
             : fail(hipErrorHostMemoryNotRegistered, "hipHostUnregister: not registered");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned flags) try {
  Allocation a;
  if (flags)
    return fail(hipErrorInvalidValue, "hipHostGetDevicePointer: flags must be 0");
  if (!device || !space().find(reinterpret_cast<uint64_t>(host), a) || a.kind == MemKind::Device)
    return fail(hipErrorInvalidValue, "hipHostGetDevicePointer: no pinned or registered host memory");
  *device = host;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHostGetFlags(unsigned *flags, void *p) try {
  Allocation a;
  if (!flags || !space().find(reinterpret_cast<uint64_t>(p), a) ||
      (a.kind != MemKind::HostPinned && a.kind != MemKind::HostRegistered))
    return fail(hipErrorInvalidValue, "hipHostGetFlags: no pinned or registered host memory");
  *flags = flagsOf(a.base);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *p) try {
  if (!out || !p)
    return fail(hipErrorInvalidValue, "hipPointerGetAttributes: null pointer");
  Allocation a;
  memset(out, 0, sizeof *out);
  if (!space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorInvalidValue,
                "hipPointerGetAttributes: the pointer belongs to no device allocation");
  bool host = a.kind == MemKind::HostPinned || a.kind == MemKind::HostRegistered;
  out->type = host ? hipMemoryTypeHost
              : a.kind == MemKind::Managed ? hipMemoryTypeManaged
                                           : hipMemoryTypeDevice;
  out->device = a.device;
  out->devicePointer = const_cast<void *>(p);
  out->hostPointer = host || a.kind == MemKind::Managed ? const_cast<void *>(p) : nullptr;
  out->isManaged = a.kind == MemKind::Managed;
  out->allocationFlags = host ? flagsOf(a.base) : 0;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipPointerGetAttribute(void *data, int attribute, void *p) try {
  hipPointerAttribute_t a;
  if (!data)
    return fail(hipErrorInvalidValue, "hipPointerGetAttribute: null pointer");
  if (hipError_t e = hipPointerGetAttributes(&a, p))
    return e;
  Allocation m;
  space().find(reinterpret_cast<uint64_t>(p), m);
  auto put = [&](auto value) {
    memcpy(data, &value, sizeof value);
    return hipSuccess;
  };
  switch (attribute) {
  case 1: // context
    return put(reinterpret_cast<void *>(static_cast<intptr_t>(a.device + 1)));
  case 2:
    return put(a.type);
  case 3:
    return put(a.devicePointer);
  case 4:
    return a.hostPointer ? put(a.hostPointer)
                         : fail(hipErrorInvalidValue, "the memory has no host pointer");
  case 6: // synchronous operations: all are
    return put(uint32_t(1));
  case 7: // buffer id
    return put(m.base);
  case 8:
    return put(a.isManaged);
  case 9: // device ordinal
    return put(a.device);
  case 10: // legacy IPC
    return put(int(a.type == hipMemoryTypeDevice));
  case 11: // start and size of the allocation
    return put(reinterpret_cast<void *>(m.base));
  case 12:
    return put(size_t(m.size));
  case 13: // mapped
    return put(1);
  case 14: // shareable handle types: none
    return put(uint64_t(0));
  case 15: // GPUDirect
    return put(0);
  case 16: // access flags: read and write
    return put(3);
  default:
    return fail(hipErrorNotSupported, format("pointer attribute %d", attribute));
  }
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvPointerGetAttributes(unsigned count, int *attributes, void **data, void *p) try {
  if (!attributes || !data)
    return fail(hipErrorInvalidValue, "hipDrvPointerGetAttributes: null pointer");
  for (unsigned n = 0; n < count; ++n)
    if (hipError_t e = hipPointerGetAttribute(data[n], attributes[n], p))
      return e;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipPointerSetAttribute(const void *value, int attribute, void *p) try {
  Allocation a;
  if (!value || attribute != 6 || !space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorInvalidValue, "hipPointerSetAttribute: only synchronous operations can be set");
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemPtrGetInfo(void *p, size_t *size) try {
  Allocation a;
  if (!size || !space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorInvalidValue, "hipMemPtrGetInfo: no allocation");
  *size = a.size;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemGetAddressRange(void **base, size_t *size, void *p) try {
  Allocation a;
  if (!space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorNotFound, "hipMemGetAddressRange: no allocation");
  if (base)
    *base = reinterpret_cast<void *>(a.base);
  if (size)
    *size = a.size;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamAttachMemAsync(void *stream, void *p, size_t, unsigned) try {
  return p && validStream(stream) ? hipSuccess
                                  : fail(hipErrorInvalidValue, "hipStreamAttachMemAsync: invalid argument");
} FLYSIM_GUARDED
