//===- Copies.cpp - copies and fills --------------------------------------===//

#include "hip/Runtime.h"

#include <cstring>

using namespace flysim;

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
    return fail(hipErrorInvalidPitchValue, "memcpy2D: the width exceeds a pitch");
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

/// Fails unless both are devices.
hipError_t peersExist(int dst, int src) {
  const int devices = Runtime::instance().deviceCount();
  for (int device : {dst, src})
    if (device < 0 || device >= devices)
      return fail(hipErrorInvalidDevice, format("copy between devices: there is no device %d", device));
  return hipSuccess;
}

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

FLYSIM_API hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind) try {
  return copy(dst, src, size, kind, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t size, int kind, void *stream) try {
  return copy(dst, src, size, kind, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream) try {
  return copy(dst, src, size, kind, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyHtoD(void *dst, void *src, size_t size) try {
  return copy(dst, src, size, 1, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyDtoH(void *dst, void *src, size_t size) try {
  return copy(dst, src, size, 2, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyDtoD(void *dst, void *src, size_t size) try {
  return copy(dst, src, size, 3, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyHtoDAsync(void *dst, void *src, size_t size, void *stream) try {
  return copy(dst, src, size, 1, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyDtoHAsync(void *dst, void *src, size_t size, void *stream) try {
  return copy(dst, src, size, 2, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyDtoDAsync(void *dst, void *src, size_t size, void *stream) try {
  return copy(dst, src, size, 3, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t size) try {
  if (hipError_t e = peersExist(dstDevice, srcDevice))
    return e;
  return copy(dst, src, size, 3, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice, size_t size,
                                         void *stream) try {
  if (hipError_t e = peersExist(dstDevice, srcDevice))
    return e;
  return copy(dst, src, size, 3, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind) try {
  return copy2d(dst, dpitch, src, spitch, width, height, kind, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                       size_t width, size_t height, int kind, void *stream) try {
  return copy2d(dst, dpitch, src, spitch, width, height, kind, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyParam2D(const hip_Memcpy2D *c) try {
  return driverCopy2d(c, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyParam2DAsync(const hip_Memcpy2D *c, void *stream) try {
  return driverCopy2d(c, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvMemcpy2DUnaligned(const hip_Memcpy2D *c) try {
  return driverCopy2d(c, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpy3D(const hipMemcpy3DParms *p) try {
  return p ? copyBoxOn(*p, nullptr, true) : fail(hipErrorInvalidValue, "hipMemcpy3D: null pointer");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *p, void *stream) try {
  return p ? copyBoxOn(*p, stream, false) : fail(hipErrorInvalidValue, "hipMemcpy3D: null pointer");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *c) try {
  return driverCopyOn(c, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *c, void *stream) try {
  return driverCopyOn(c, stream, false);
} FLYSIM_GUARDED
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
  if (!c)
    return fail(hipErrorInvalidValue, "hipMemcpy3DPeer: null pointer");
  if (hipError_t e = peersExist(c->dstDevice, c->srcDevice))
    return e;
  hipMemcpy3DParms p = {c->srcArray, c->srcPos, c->srcPtr, c->dstArray, c->dstPos, c->dstPtr, c->extent, 3};
  return copyBoxOn(p, stream, blocking);
}

} // namespace

FLYSIM_API hipError_t hipMemcpy3DPeer(const hipMemcpy3DPeerParms *c) try {
  return copyPeer(c, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpy3DPeerAsync(const hipMemcpy3DPeerParms *c, void *stream) try {
  return copyPeer(c, stream, false);
} FLYSIM_GUARDED
/// The attributes say how the engines should work, which changes no result.
FLYSIM_API hipError_t hipMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
                                          const void *attributes, size_t *attributeOf,
                                          size_t numAttributes, size_t *failed, void *stream) try {
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
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemset(void *dst, int value, size_t size) try {
  return set(dst, static_cast<uint8_t>(value), 1, size, 1, size, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetAsync(void *dst, int value, size_t size, void *stream) try {
  return set(dst, static_cast<uint8_t>(value), 1, size, 1, size, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD8(void *dst, unsigned char value, size_t count) try {
  return set(dst, value, 1, count, 1, count, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD8Async(void *dst, unsigned char value, size_t count, void *stream) try {
  return set(dst, value, 1, count, 1, count, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD16(void *dst, unsigned short value, size_t count) try {
  return set(dst, value, 2, count, 1, count * 2, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD16Async(void *dst, unsigned short value, size_t count, void *stream) try {
  return set(dst, value, 2, count, 1, count * 2, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD32(void *dst, int value, size_t count) try {
  return set(dst, static_cast<unsigned>(value), 4, count, 1, count * 4, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD32Async(void *dst, int value, size_t count, void *stream) try {
  return set(dst, static_cast<unsigned>(value), 4, count, 1, count * 4, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D8(void *dst, size_t pitch, unsigned char value, size_t width, size_t height) try {
  return set(dst, value, 1, width, height, pitch, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D8Async(void *dst, size_t pitch, unsigned char value, size_t width, size_t height,
                                        void *stream) try {
  return set(dst, value, 1, width, height, pitch, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D16(void *dst, size_t pitch, unsigned short value, size_t width, size_t height) try {
  return set(dst, value, 2, width, height, pitch, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D16Async(void *dst, size_t pitch, unsigned short value, size_t width, size_t height,
                                        void *stream) try {
  return set(dst, value, 2, width, height, pitch, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D32(void *dst, size_t pitch, unsigned value, size_t width, size_t height) try {
  return set(dst, value, 4, width, height, pitch, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemsetD2D32Async(void *dst, size_t pitch, unsigned value, size_t width, size_t height,
                                        void *stream) try {
  return set(dst, value, 4, width, height, pitch, stream, false);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height) try {
  return set(dst, static_cast<uint8_t>(value), 1, width, height, pitch, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height,
                                       void *stream) try {
  return set(dst, static_cast<uint8_t>(value), 1, width, height, pitch, stream, false);
} FLYSIM_GUARDED

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

FLYSIM_API hipError_t hipMemset3D(hipPitchedPtr p, int value, hipExtent extent) try {
  return set3d(p, value, extent, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemset3DAsync(hipPitchedPtr p, int value, hipExtent extent, void *stream) try {
  return set3d(p, value, extent, stream, false);
} FLYSIM_GUARDED
