//===- Copies.cpp - copies and fills --------------------------------------===//

#include "hip/MemoryWork.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"
#include "support/CrashGuard.h"

#include <cstring>

using namespace flysim;

namespace flysim {

void checkRange(const void *p, size_t size, bool write, const char *what) {
  Region r;
  AddressSpace &space = AddressSpace::instance();
  auto addr = reinterpret_cast<uint64_t>(p);
  if (addr + size < addr)
    raise(FaultKind::IllegalAddress,
          format("%s: %p + %llu is behind the end of memory", what, p, (unsigned long long)size));
  // Large host ranges may span several mappings.
  for (uint64_t at = addr; at < addr + size;) {
    if (!space.lookup(at, 1, write, r))
      raise(FaultKind::IllegalAddress,
            format("%s: %p + %llu is not accessible, %s", what, p, (unsigned long long)(at - addr),
                   space.describe(at).c_str()));
    at = r.hi;
  }
}

namespace {

/// Bytes that addresses of user space can tell apart.
constexpr size_t kMostBytes = size_t(1) << 47;

/// Runs `work` on memory that was accessible when it was checked.
template <class F> void onHostMemory(const char *what, F &&work) {
  installCrashHandler();
  uint64_t address = 0;
  if (!protectedCall(work, address))
    raise(FaultKind::IllegalAddress, format("%s: 0x%llx is not mapped (any more)", what,
                                            static_cast<unsigned long long>(address)));
}

void copyBytes(void *dst, const void *src, size_t size) {
  checkRange(dst, size, true, "memcpy destination");
  checkRange(src, size, false, "memcpy source");
  onHostMemory("memcpy", [&] { memmove(dst, src, size); });
}

void copyBox(const hipMemcpy3DParms &p) {
  auto place = [](const hipPitchedPtr &q, const hipPos &pos, size_t y, size_t z) {
    return static_cast<char *>(q.ptr) + ((z + pos.z) * q.ysize + y + pos.y) * q.pitch + pos.x;
  };
  // The last row first: sizes that lead out of memory fail before anything is copied, whatever
  // the number of rows.
  size_t lastY = p.extent.height - 1, lastZ = p.extent.depth - 1;
  checkRange(place(p.dstPtr, p.dstPos, lastY, lastZ), p.extent.width, true, "memcpy destination");
  checkRange(place(p.srcPtr, p.srcPos, lastY, lastZ), p.extent.width, false, "memcpy source");
  for (size_t z = 0; z < p.extent.depth; ++z)
    for (size_t y = 0; y < p.extent.height; ++y)
      copyBytes(place(p.dstPtr, p.dstPos, y, z), place(p.srcPtr, p.srcPos, y, z), p.extent.width);
}

/// hipMemcpyKind: host and device in both roles, default, and device without copy engine.
bool validKind(int kind) { return (kind >= 0 && kind <= 4) || kind == 1024; }

void fillRows(const hipMemsetParams &p) {
  checkRange(static_cast<char *>(p.dst) + (p.height - 1) * p.pitch, p.width * p.elementSize, true,
             "memset"); // before the first of perhaps very many rows
  for (size_t y = 0; y < p.height; ++y) {
    char *at = static_cast<char *>(p.dst) + y * p.pitch;
    checkRange(at, p.width * p.elementSize, true, "memset");
    if (p.elementSize == 1) {
      memset(at, static_cast<int>(p.value), p.width);
      continue;
    }
    auto fill = [&](auto value) {
      for (size_t x = 0; x < p.width; ++x)
        memcpy(at + x * sizeof value, &value, sizeof value);
    };
    if (p.elementSize == 2)
      fill(static_cast<uint16_t>(p.value));
    else
      fill(p.value);
  }
}

void fillBox(const hipMemsetParams &p) {
  onHostMemory("memset", [&] { fillRows(p); });
}

} // namespace

hipError_t copyWork(const hipMemcpy3DParms &p, NodeWork &out) {
  if (p.srcArray || p.dstArray)
    return fail(hipErrorNotSupported, "copies of arrays are not part of the simulator");
  bool empty = !p.extent.width || !p.extent.height || !p.extent.depth;
  if (!empty && (!p.srcPtr.ptr || !p.dstPtr.ptr))
    return fail(hipErrorInvalidValue, "memcpy: null pointer");
  if (!validKind(p.kind))
    return fail(hipErrorInvalidMemcpyDirection, format("memcpy: direction %d", p.kind));
  bool rows = p.extent.height > 1 || p.extent.depth > 1;
  for (const hipPos *pos : {&p.srcPos, &p.dstPos})
    if (p.extent.width + pos->x < pos->x)
      return fail(hipErrorInvalidValue, "memcpy: the width exceeds all memory");
  if (!empty && rows &&
      (p.extent.width + p.srcPos.x > p.srcPtr.pitch || p.extent.width + p.dstPos.x > p.dstPtr.pitch))
    return fail(hipErrorInvalidValue, "memcpy: the width exceeds a pitch");
  for (const hipPitchedPtr *q : {&p.srcPtr, &p.dstPtr})
    if (!empty && rows && (p.extent.height > kMostBytes / q->pitch ||
                           (p.extent.depth > 1 && q->ysize > kMostBytes / q->pitch / p.extent.depth)))
      return fail(hipErrorInvalidValue, "memcpy: the rows exceed all memory");
  if (!empty && p.extent.depth > 1 &&
      (p.extent.height > p.srcPtr.ysize || p.extent.height > p.dstPtr.ysize))
    return fail(hipErrorInvalidValue, "memcpy: the height exceeds that of a slice");
  out = NodeWork();
  out.type = NodeType::Memcpy;
  out.copy = p;
  if (!empty)
    out.run = [p] { copyBox(p); };
  return hipSuccess;
}

hipError_t setWork(const hipMemsetParams &p, NodeWork &out) {
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4)
    return fail(hipErrorInvalidValue, "memset: elements have 1, 2 or 4 bytes");
  if (p.width > SIZE_MAX / p.elementSize)
    return fail(hipErrorInvalidValue, "memset: the width exceeds all memory");
  bool empty = !p.width || !p.height;
  if (!empty && !p.dst)
    return fail(hipErrorInvalidValue, "memset: null pointer");
  if (p.height > 1 && p.width * p.elementSize > p.pitch)
    return fail(hipErrorInvalidValue, "memset: the width exceeds the pitch");
  if (!empty && p.height > 1 && p.height - 1 > kMostBytes / p.pitch)
    return fail(hipErrorInvalidValue, "memset: the rows exceed all memory");
  out = NodeWork();
  out.type = NodeType::Memset;
  out.set = p;
  if (!empty)
    out.run = [p] { fillBox(p); };
  return hipSuccess;
}

} // namespace flysim

namespace {

/// `blocking`: the form that returns when the copy is done.
hipError_t copyBoxOn(const hipMemcpy3DParms &p, void *stream, bool blocking) {
  if (blocking)
    if (hipError_t e = allowedInCapture("memcpy"))
      return e;
  NodeWork work;
  if (hipError_t e = copyWork(p, work))
    return e;
  return work.run ? enqueue(stream, std::move(work)) : hipSuccess;
}

hipError_t copy(void *dst, const void *src, size_t size, int kind, void *stream, bool blocking) {
  hipMemcpy3DParms p = {};
  p.srcPtr = {const_cast<void *>(src), size, size, 1};
  p.dstPtr = {dst, size, size, 1};
  p.extent = {size, 1, 1};
  p.kind = kind;
  return copyBoxOn(p, stream, blocking);
}

hipError_t copy2d(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                  size_t height, int kind, void *stream, bool blocking) {
  if (height && (width > dpitch || width > spitch))
    return fail(hipErrorInvalidValue, "memcpy2D: the width exceeds a pitch");
  hipMemcpy3DParms p = {};
  p.srcPtr = {const_cast<void *>(src), spitch, width, height};
  p.dstPtr = {dst, dpitch, width, height};
  p.extent = {width, height, 1};
  p.kind = kind;
  return copyBoxOn(p, stream, blocking);
}

hipError_t set(void *dst, unsigned value, unsigned elementSize, size_t width, size_t height,
               size_t pitch, void *stream, bool blocking) {
  if (blocking)
    if (hipError_t e = allowedInCapture("memset"))
      return e;
  hipMemsetParams p = {dst, elementSize, height, pitch, value, width};
  NodeWork work;
  if (hipError_t e = setWork(p, work))
    return e;
  return work.run ? enqueue(stream, std::move(work)) : hipSuccess;
}

/// The pointer of one side of a driver-style copy; null with an error for arrays.
template <class Pointer>
hipError_t side(int type, Pointer host, void *device, const void *array, void *&out) {
  if (array || type == hipMemoryTypeArray)
    return fail(hipErrorNotSupported, "copies of arrays are not part of the simulator");
  out = type == hipMemoryTypeHost ? const_cast<void *>(static_cast<const void *>(host)) : device;
  return out ? hipSuccess : fail(hipErrorInvalidValue, "memcpy: null pointer");
}

} // namespace

hipError_t flysim::driverCopyWork(const HIP_MEMCPY3D *c, NodeWork &work) {
  if (!c)
    return fail(hipErrorInvalidValue, "memcpy: null pointer");
  hipMemcpy3DParms p = {};
  if (hipError_t e = side(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcArray, p.srcPtr.ptr))
    return e;
  if (hipError_t e = side(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstArray, p.dstPtr.ptr))
    return e;
  auto pitch = [&](size_t given, size_t at) { return given ? given : c->WidthInBytes + at; };
  auto height = [&](size_t given, size_t at) { return given ? given : c->Height + at; };
  p.srcPos = {c->srcXInBytes, c->srcY, c->srcZ};
  p.dstPos = {c->dstXInBytes, c->dstY, c->dstZ};
  p.srcPtr.pitch = pitch(c->srcPitch, c->srcXInBytes);
  p.dstPtr.pitch = pitch(c->dstPitch, c->dstXInBytes);
  p.srcPtr.xsize = p.srcPtr.pitch;
  p.dstPtr.xsize = p.dstPtr.pitch;
  p.srcPtr.ysize = height(c->srcHeight, c->srcY);
  p.dstPtr.ysize = height(c->dstHeight, c->dstY);
  p.extent = {c->WidthInBytes, c->Height, c->Depth};
  p.kind = 4;
  return copyWork(p, work);
}

namespace {

hipError_t driverCopyOn(const HIP_MEMCPY3D *c, void *stream, bool blocking) {
  if (blocking)
    if (hipError_t e = allowedInCapture("memcpy"))
      return e;
  NodeWork work;
  if (hipError_t e = driverCopyWork(c, work))
    return e;
  return work.run ? enqueue(stream, std::move(work)) : hipSuccess;
}

hipError_t driverCopy2d(const hip_Memcpy2D *c, void *stream, bool blocking) {
  if (!c)
    return fail(hipErrorInvalidValue, "memcpy2D: null pointer");
  HIP_MEMCPY3D d = {};
  d.srcXInBytes = c->srcXInBytes;
  d.srcY = c->srcY;
  d.srcMemoryType = c->srcMemoryType;
  d.srcHost = c->srcHost;
  d.srcDevice = c->srcDevice;
  d.srcArray = c->srcArray;
  d.srcPitch = c->srcPitch;
  d.dstXInBytes = c->dstXInBytes;
  d.dstY = c->dstY;
  d.dstMemoryType = c->dstMemoryType;
  d.dstHost = c->dstHost;
  d.dstDevice = c->dstDevice;
  d.dstArray = c->dstArray;
  d.dstPitch = c->dstPitch;
  d.WidthInBytes = c->WidthInBytes;
  d.Height = c->Height;
  d.Depth = 1;
  return driverCopyOn(&d, stream, blocking);
}

} // namespace

FLYSIM_API hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind) {
  return copy(dst, src, size, kind, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, int kind, void *stream) {
  return copy(dst, src, size, kind, stream, false);
}
FLYSIM_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream) {
  return copy(dst, src, size, kind, stream, false);
}
FLYSIM_API hipError_t hipMemcpyHtoD(void *dst, void *src, size_t size) {
  return copy(dst, src, size, 1, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size) {
  return copy(dst, src, size, 2, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size) {
  return copy(dst, src, size, 3, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, 1, stream, false);
}
FLYSIM_API hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, 2, stream, false);
}
FLYSIM_API hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, void *stream) {
  return copy(dst, src, size, 3, stream, false);
}
FLYSIM_API hipError_t hipMemcpyPeer(void *dst, int, const void *src, int, size_t size) {
  return copy(dst, src, size, 3, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpyPeerAsync(void *dst, int, const void *src, int, size_t size, void *stream) {
  return copy(dst, src, size, 3, stream, false);
}
FLYSIM_API hipError_t hipMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind) {
  return copy2d(dst, dpitch, src, spitch, width, height, kind, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                       size_t width, size_t height, int kind, void *stream) {
  return copy2d(dst, dpitch, src, spitch, width, height, kind, stream, false);
}
FLYSIM_API hipError_t hipMemcpyParam2D(const hip_Memcpy2D *c) { return driverCopy2d(c, nullptr, true); }
FLYSIM_API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *c, void *stream) {
  return driverCopy2d(c, stream, false);
}
FLYSIM_API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *c) {
  return driverCopy2d(c, nullptr, true);
}
FLYSIM_API hipError_t hipMemcpy3D(const hipMemcpy3DParms *p) {
  return p ? copyBoxOn(*p, nullptr, true) : fail(hipErrorInvalidValue, "hipMemcpy3D: null pointer");
}
FLYSIM_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *p, void *stream) {
  return p ? copyBoxOn(*p, stream, false) : fail(hipErrorInvalidValue, "hipMemcpy3D: null pointer");
}
FLYSIM_API hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *c) { return driverCopyOn(c, nullptr, true); }
FLYSIM_API hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *c, void *stream) {
  return driverCopyOn(c, stream, false);
}
/// hipMemcpy3DPeerParms.
struct hipMemcpy3DPeerParms {
  void *srcArray;
  hipPos srcPos;
  hipPitchedPtr srcPtr;
  int srcDevice;
  void *dstArray;
  hipPos dstPos;
  hipPitchedPtr dstPtr;
  int dstDevice;
  hipExtent extent;
};
static_assert(sizeof(hipMemcpy3DPeerParms) == 168, "HIP binary interface");

namespace {

hipError_t copyPeer(const hipMemcpy3DPeerParms *c, void *stream, bool blocking) {
  int devices = Runtime::instance().deviceCount();
  if (!c)
    return fail(hipErrorInvalidValue, "hipMemcpy3DPeer: null pointer");
  if (c->srcDevice < 0 || c->srcDevice >= devices || c->dstDevice < 0 || c->dstDevice >= devices)
    return fail(hipErrorInvalidDevice, "hipMemcpy3DPeer: invalid device");
  hipMemcpy3DParms p = {c->srcArray, c->srcPos, c->srcPtr, c->dstArray, c->dstPos, c->dstPtr, c->extent, 3};
  return copyBoxOn(p, stream, blocking);
}

} // namespace

FLYSIM_API hipError_t hipMemcpy3DPeer(const hipMemcpy3DPeerParms *c) { return copyPeer(c, nullptr, true); }
FLYSIM_API hipError_t hipMemcpy3DPeerAsync(const hipMemcpy3DPeerParms *c, void *stream) {
  return copyPeer(c, stream, false);
}
/// The attributes say how the engines should work, which changes no result.
FLYSIM_API hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
                                          const void *attributes, size_t *attributeOf,
                                          size_t numAttributes, size_t *failed, void *stream) {
  if (!dsts || !srcs || !sizes || !count || numAttributes > count ||
      (numAttributes && (!attributes || !attributeOf)))
    return fail(hipErrorInvalidValue, "hipMemcpyBatchAsync: null pointer or invalid count");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipMemcpyBatchAsync: invalid stream");
  for (size_t n = 0; n < count; ++n)
    if (hipError_t e = copy(dsts[n], srcs[n], sizes[n], 4, stream, false)) {
      if (failed)
        *failed = n;
      return e;
    }
  return hipSuccess;
}
FLYSIM_API hipError_t hipMemset(void *dst, int value, size_t size) {
  return set(dst, static_cast<uint8_t>(value), 1, size, 1, size, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetAsync(void *dst, int value, size_t size, void *stream) {
  return set(dst, static_cast<uint8_t>(value), 1, size, 1, size, stream, false);
}
FLYSIM_API hipError_t hipMemsetD8(void *dst, unsigned char value, size_t count) {
  return set(dst, value, 1, count, 1, count, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD8Async(void *dst, unsigned char value, size_t count, void *stream) {
  return set(dst, value, 1, count, 1, count, stream, false);
}
FLYSIM_API hipError_t hipMemsetD16(void *dst, unsigned short value, size_t count) {
  return set(dst, value, 2, count, 1, count * 2, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD16Async(void *dst, unsigned short value, size_t count, void *stream) {
  return set(dst, value, 2, count, 1, count * 2, stream, false);
}
FLYSIM_API hipError_t hipMemsetD32(void *dst, int value, size_t count) {
  return set(dst, static_cast<unsigned>(value), 4, count, 1, count * 4, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD32Async(void *dst, int value, size_t count, void *stream) {
  return set(dst, static_cast<unsigned>(value), 4, count, 1, count * 4, stream, false);
}
FLYSIM_API hipError_t hipMemsetD2D8(void *dst, size_t pitch, unsigned char value, size_t width, size_t height) {
  return set(dst, value, 1, width, height, pitch, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD2D8Async(void *dst, size_t pitch, unsigned char value, size_t width, size_t height,
                                        void *stream) {
  return set(dst, value, 1, width, height, pitch, stream, false);
}
FLYSIM_API hipError_t hipMemsetD2D16(void *dst, size_t pitch, unsigned short value, size_t width, size_t height) {
  return set(dst, value, 2, width, height, pitch, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD2D16Async(void *dst, size_t pitch, unsigned short value, size_t width, size_t height,
                                        void *stream) {
  return set(dst, value, 2, width, height, pitch, stream, false);
}
FLYSIM_API hipError_t hipMemsetD2D32(void *dst, size_t pitch, unsigned value, size_t width, size_t height) {
  return set(dst, value, 4, width, height, pitch, nullptr, true);
}
FLYSIM_API hipError_t hipMemsetD2D32Async(void *dst, size_t pitch, unsigned value, size_t width, size_t height,
                                        void *stream) {
  return set(dst, value, 4, width, height, pitch, stream, false);
}
FLYSIM_API hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height) {
  return set(dst, static_cast<uint8_t>(value), 1, width, height, pitch, nullptr, true);
}
FLYSIM_API hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height,
                                       void *stream) {
  return set(dst, static_cast<uint8_t>(value), 1, width, height, pitch, stream, false);
}

namespace {
hipError_t set3d(const hipPitchedPtr &p, int value, const hipExtent &e, void *stream, bool blocking) {
  if (!e.width || !e.height || !e.depth)
    return set(p.ptr, 0, 1, 0, 0, p.pitch, stream, blocking);
  if ((e.depth > 1 && (e.height > p.ysize || e.width > p.pitch)) || e.height > SIZE_MAX / e.depth)
    return fail(hipErrorInvalidValue, "hipMemset3D: the extent exceeds the pitched memory");
  if (e.depth > 1 && e.height != p.ysize) {
    for (size_t z = 0; z < e.depth; ++z)
      if (hipError_t error = set(static_cast<char *>(p.ptr) + z * p.ysize * p.pitch,
                                 static_cast<uint8_t>(value), 1, e.width, e.height, p.pitch, stream, blocking))
        return error;
    return hipSuccess;
  }
  return set(p.ptr, static_cast<uint8_t>(value), 1, e.width, e.height * e.depth, p.pitch, stream, blocking);
}
} // namespace

FLYSIM_API hipError_t hipMemset3D(hipPitchedPtr p, int value, hipExtent extent) {
  return set3d(p, value, extent, nullptr, true);
}
FLYSIM_API hipError_t hipMemset3DAsync(hipPitchedPtr p, int value, hipExtent extent, void *stream) {
  return set3d(p, value, extent, stream, false);
}

//===--- driver-style graph nodes -----------------------------------------------===//

extern "C" hipError_t hipGraphAddMemcpyNode(void **node, void *graph, void *const *deps, size_t count,
                                            const hipMemcpy3DParms *p);
extern "C" hipError_t hipGraphAddMemsetNode(void **node, void *graph, void *const *deps, size_t count,
                                            const hipMemsetParams *p);

FLYSIM_API hipError_t hipDrvGraphAddMemcpyNode(void **node, void *graph, void *const *deps, size_t count,
                                               const HIP_MEMCPY3D *c, void *) {
  NodeWork work;
  if (hipError_t e = driverCopyWork(c, work))
    return e;
  return hipGraphAddMemcpyNode(node, graph, deps, count, &work.copy);
}
FLYSIM_API hipError_t hipDrvGraphAddMemsetNode(void **node, void *graph, void *const *deps, size_t count,
                                               const hipMemsetParams *p, void *) {
  return hipGraphAddMemsetNode(node, graph, deps, count, p);
}
