//===- MemoryApi.cpp - allocation and copies ------------------------------===//

#include "hip/Queues.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>

using namespace flysim;

namespace {

AddressSpace &space() { return AddressSpace::instance(); }

hipError_t allocate(void **out, size_t size, MemKind kind) {
  if (!out)
    return fail(hipErrorInvalidValue, "allocation: null pointer");
  *out = nullptr;
  if (size == 0)
    return hipSuccess;
  return guarded([&]() -> hipError_t {
    uint64_t all = Runtime::instance().arch().memoryBytes;
    uint64_t base = size > all ? 0 : space().allocate(size, kind, currentDevice());
    if (!base)
      return fail(hipErrorOutOfMemory, format("cannot allocate %zu bytes", size));
    *out = reinterpret_cast<void *>(base);
    return hipSuccess;
  });
}

hipError_t release(void *p) {
  if (!p)
    return hipSuccess;
  finishAll(); // as on a GPU, freeing waits for what may still use the memory
  return space().release(reinterpret_cast<uint64_t>(p))
             ? hipSuccess
             : fail(hipErrorInvalidValue,
                    format("free: %p is not the start of an allocation", p));
}

void checkRange(const void *p, size_t size, bool write, const char *what) {
  Region r;
  auto addr = reinterpret_cast<uint64_t>(p);
  // Large host ranges may span several mappings.
  for (uint64_t at = addr; at < addr + size;) {
    if (!space().lookup(at, 1, write, r))
      raise(FaultKind::IllegalAddress,
            format("%s: %p + %llu is not accessible, %s", what, p,
                   (unsigned long long)(at - addr), space().describe(at).c_str()));
    at = r.hi;
  }
}

void copyBytes(void *dst, const void *src, size_t size) {
  checkRange(dst, size, true, "memcpy destination");
  checkRange(src, size, false, "memcpy source");
  memmove(dst, src, size);
}

hipError_t copy(void *dst, const void *src, size_t size, void *stream) {
  if (size == 0)
    return hipSuccess;
  if (!dst || !src)
    return fail(hipErrorInvalidValue, "memcpy: null pointer");
  return enqueue(stream, "memcpy", [=] { copyBytes(dst, src, size); });
}

template <class T> hipError_t setMemory(void *dst, T value, size_t count, void *stream) {
  if (count == 0)
    return hipSuccess;
  if (!dst)
    return fail(hipErrorInvalidValue, "memset: null pointer");
  return enqueue(stream, "memset", [=] {
    checkRange(dst, count * sizeof(T), true, "memset");
    auto *p = static_cast<T *>(dst);
    for (size_t i = 0; i < count; ++i)
      p[i] = value;
  });
}

hipError_t copy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                  size_t height, void *stream) {
  if (width > dpitch || width > spitch)
    return fail(hipErrorInvalidValue, "memcpy2D: the width exceeds a pitch");
  return enqueue(stream, "memcpy2d", [=] {
    for (size_t y = 0; y < height; ++y)
      copyBytes(static_cast<char *>(dst) + y * dpitch,
                static_cast<const char *>(src) + y * spitch, width);
  });
}

} // namespace

FLYSIM_API hipError_t hipMalloc(void **p, size_t size) {
  return allocate(p, size, MemKind::Device);
}
FLYSIM_API hipError_t hipExtMallocWithFlags(void **p, size_t size, unsigned) {
  return hipMalloc(p, size);
}
FLYSIM_API hipError_t hipMallocAsync(void **p, size_t size, void *stream) {
  return validStream(stream) ? hipMalloc(p, size)
                             : fail(hipErrorInvalidHandle, "hipMallocAsync: invalid stream");
}
FLYSIM_API hipError_t hipMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  *pitch = (width + 255) / 256 * 256;
  return hipMalloc(p, *pitch * height);
}
FLYSIM_API hipError_t hipMallocManaged(void **p, size_t size, unsigned) {
  return allocate(p, size, MemKind::Managed);
}
FLYSIM_API hipError_t hipHostMalloc(void **p, size_t size, unsigned) {
  return allocate(p, size, MemKind::HostPinned);
}
FLYSIM_API hipError_t hipHostAlloc(void **p, size_t size, unsigned flags) {
  return hipHostMalloc(p, size, flags);
}
FLYSIM_API hipError_t hipMallocHost(void **p, size_t size) { return hipHostMalloc(p, size, 0); }
FLYSIM_API hipError_t hipFree(void *p) { return release(p); }
FLYSIM_API hipError_t hipFreeAsync(void *p, void *) { return release(p); }
FLYSIM_API hipError_t hipHostFree(void *p) { return release(p); }
FLYSIM_API hipError_t hipFreeHost(void *p) { return release(p); }
FLYSIM_API hipError_t hipHostRegister(void *p, size_t size, unsigned) {
  if (!p || !size)
    return fail(hipErrorInvalidValue, "hipHostRegister: empty range");
  return guarded([&] {
    checkRange(p, size, false, "hipHostRegister");
    space().registerHost(reinterpret_cast<uint64_t>(p), size);
    return hipSuccess;
  });
}
FLYSIM_API hipError_t hipHostUnregister(void *p) {
  return space().unregisterHost(reinterpret_cast<uint64_t>(p))
             ? hipSuccess
             : fail(hipErrorHostMemoryNotRegistered, "hipHostUnregister: not registered");
}
FLYSIM_API hipError_t hipHostGetDevicePointer(void **device, void *host, unsigned) {
  *device = host;
  return hipSuccess;
}
FLYSIM_API hipError_t hipHostGetFlags(unsigned *flags, void *) {
  *flags = 0;
  return hipSuccess;
}
FLYSIM_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *p) {
  if (!out || !p)
    return fail(hipErrorInvalidValue, "hipPointerGetAttributes: null pointer");
  Allocation a;
  memset(out, 0, sizeof *out);
  if (!space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorInvalidValue,
                "hipPointerGetAttributes: the pointer belongs to no device allocation");
  bool host = a.kind == MemKind::HostPinned || a.kind == MemKind::HostRegistered;
  out->type = host ? 1 : a.kind == MemKind::Managed ? 3 : 2;
  out->device = a.device;
  out->devicePointer = const_cast<void *>(p);
  out->hostPointer = host || a.kind == MemKind::Managed ? const_cast<void *>(p) : nullptr;
  out->isManaged = a.kind == MemKind::Managed;
  return hipSuccess;
}
FLYSIM_API hipError_t hipPointerGetAttribute(void *data, int attribute, void *p) {
  hipPointerAttribute_t a;
  if (hipError_t e = hipPointerGetAttributes(&a, p))
    return e;
  switch (attribute) {
  case 2: // memory type
    memcpy(data, &a.type, 4);
    return hipSuccess;
  case 3: // device pointer
  case 4: // host pointer
    memcpy(data, attribute == 3 ? &a.devicePointer : &a.hostPointer, sizeof(void *));
    return hipSuccess;
  case 9: // device ordinal
    memcpy(data, &a.device, 4);
    return hipSuccess;
  default:
    return fail(hipErrorNotSupported, format("pointer attribute %d", attribute));
  }
}
FLYSIM_API hipError_t hipMemGetAddressRange(void **base, size_t *size, void *p) {
  Allocation a;
  if (!space().find(reinterpret_cast<uint64_t>(p), a))
    return fail(hipErrorNotFound, "hipMemGetAddressRange: no allocation");
  if (base)
    *base = reinterpret_cast<void *>(a.base);
  if (size)
    *size = a.size;
  return hipSuccess;
}
FLYSIM_API hipError_t hipMemcpy(void *dst, const void *src, size_t size, int) {
  return copy(dst, src, size, nullptr);
}
FLYSIM_API hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, int,
                                          void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int, void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpyHtoD(void *dst, void *src, size_t size) {
  return copy(dst, src, size, nullptr);
}
FLYSIM_API hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size) {
  return copy(dst, src, size, nullptr);
}
FLYSIM_API hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size) {
  return copy(dst, src, size, nullptr);
}
FLYSIM_API hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpyPeer(void *dst, int, const void *src, int, size_t size) {
  return copy(dst, src, size, nullptr);
}
FLYSIM_API hipError_t hipMemcpyPeerAsync(void *dst, int, const void *src, int, size_t size,
                                         void *stream) {
  return copy(dst, src, size, stream);
}
FLYSIM_API hipError_t hipMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int) {
  return copy2d(dst, dpitch, src, spitch, width, height, nullptr);
}
FLYSIM_API hipError_t hipMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                       size_t width, size_t height, int, void *stream) {
  return copy2d(dst, dpitch, src, spitch, width, height, stream);
}
FLYSIM_API hipError_t hipMemset(void *dst, int value, size_t size) {
  return setMemory(dst, static_cast<uint8_t>(value), size, nullptr);
}
FLYSIM_API hipError_t hipMemsetAsync(void *dst, int value, size_t size, void *stream) {
  return setMemory(dst, static_cast<uint8_t>(value), size, stream);
}
FLYSIM_API hipError_t hipMemsetD8(void *dst, unsigned char value, size_t count) {
  return setMemory(dst, static_cast<uint8_t>(value), count, nullptr);
}
FLYSIM_API hipError_t hipMemsetD8Async(void *dst, unsigned char value, size_t count, void *stream) {
  return setMemory(dst, static_cast<uint8_t>(value), count, stream);
}
FLYSIM_API hipError_t hipMemsetD16(void *dst, unsigned short value, size_t count) {
  return setMemory(dst, static_cast<uint16_t>(value), count, nullptr);
}
FLYSIM_API hipError_t hipMemsetD16Async(void *dst, unsigned short value, size_t count,
                                        void *stream) {
  return setMemory(dst, static_cast<uint16_t>(value), count, stream);
}
FLYSIM_API hipError_t hipMemsetD32(void *dst, int value, size_t count) {
  return setMemory(dst, static_cast<uint32_t>(value), count, nullptr);
}
FLYSIM_API hipError_t hipMemsetD32Async(void *dst, int value, size_t count, void *stream) {
  return setMemory(dst, static_cast<uint32_t>(value), count, stream);
}
FLYSIM_API hipError_t hipMemPrefetchAsync(const void *, size_t, int, void *) { return hipSuccess; }
FLYSIM_API hipError_t hipMemAdvise(const void *, size_t, int, int) { return hipSuccess; }
