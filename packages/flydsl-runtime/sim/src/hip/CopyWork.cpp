//===- CopyWork.cpp - what copies and fills do ----------------------------===//

#include "hip/MemoryWork.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <cstring>

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

char *placeOf(const hipPitchedPtr &q, const hipPos &pos, size_t y, size_t z) {
  return static_cast<char *>(q.ptr) + ((z + pos.z) * q.ysize + y + pos.y) * q.pitch + pos.x;
}

/// Fails for memory from `first` to `last` + `bytes` that begins in an allocation and goes on behind its end. Other
/// memory is looked at when the work runs; so are ranges of several pieces.
hipError_t staysInside(const char *what, const char *first, const char *last, size_t bytes) {
  Allocation a;
  AddressSpace &space = AddressSpace::instance();
  const auto from = reinterpret_cast<uint64_t>(first), to = reinterpret_cast<uint64_t>(last);
  if (!space.find(from, a) || a.piece)
    return hipSuccess;
  const uint64_t end = a.base + a.size;
  if (to >= from && to <= end && bytes <= end - to)
    return hipSuccess;
  return fail(hipErrorInvalidValue,
              format("%s: %p + %llu is not accessible, %s", what, static_cast<const void *>(first),
                     static_cast<unsigned long long>(end - from), space.describe(end).c_str()));
}

hipError_t staysInside(const char *what, const hipPitchedPtr &q, const hipPos &pos, const hipExtent &e) {
  return staysInside(what, placeOf(q, pos, 0, 0), placeOf(q, pos, e.height - 1, e.depth - 1), e.width);
}

/// Bytes that addresses of user space can tell apart.
constexpr size_t kMostBytes = size_t(1) << 47;

void copyBytes(void *dst, const void *src, size_t size) {
  checkRange(dst, size, true, "memcpy destination");
  checkRange(src, size, false, "memcpy source");
  onHostMemory("memcpy", [&] { memmove(dst, src, size); });
}

void copyBox(const hipMemcpy3DParms &p) {
  // The last row first: sizes that lead out of memory fail before anything is copied, whatever
  // the number of rows.
  size_t lastY = p.extent.height - 1, lastZ = p.extent.depth - 1;
  checkRange(placeOf(p.dstPtr, p.dstPos, lastY, lastZ), p.extent.width, true, "memcpy destination");
  checkRange(placeOf(p.srcPtr, p.srcPos, lastY, lastZ), p.extent.width, false, "memcpy source");
  for (size_t z = 0; z < p.extent.depth; ++z)
    for (size_t y = 0; y < p.extent.height; ++y)
      copyBytes(placeOf(p.dstPtr, p.dstPos, y, z), placeOf(p.srcPtr, p.srcPos, y, z), p.extent.width);
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
    return fail(hipErrorInvalidPitchValue, "memcpy: the width exceeds a pitch");
  for (const hipPitchedPtr *q : {&p.srcPtr, &p.dstPtr})
    if (!empty && rows && (p.extent.height > kMostBytes / q->pitch ||
                           (p.extent.depth > 1 && q->ysize > kMostBytes / q->pitch / p.extent.depth)))
      return fail(hipErrorInvalidValue, "memcpy: the rows exceed all memory");
  if (!empty && p.extent.depth > 1 &&
      (p.extent.height > p.srcPtr.ysize || p.extent.height > p.dstPtr.ysize))
    return fail(hipErrorInvalidValue, "memcpy: the height exceeds that of a slice");
  if (!empty)
    if (hipError_t e = staysInside("memcpy destination", p.dstPtr, p.dstPos, p.extent))
      return e;
  if (!empty)
    if (hipError_t e = staysInside("memcpy source", p.srcPtr, p.srcPos, p.extent))
      return e;
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
  const auto *at = static_cast<const char *>(p.dst);
  if (!empty)
    if (hipError_t e = staysInside("memset", at, at + (p.height - 1) * p.pitch, p.width * p.elementSize))
      return e;
  out = NodeWork();
  out.type = NodeType::Memset;
  out.set = p;
  if (!empty)
    out.run = [p] { fillBox(p); };
  return hipSuccess;
}

namespace {

/// The pointer of one side of a driver-style copy; null with an error for arrays.
template <class Pointer>
hipError_t side(int type, Pointer host, void *device, const void *array, void *&out) {
  if (array || type == hipMemoryTypeArray)
    return fail(hipErrorNotSupported, "copies of arrays are not part of the simulator");
  out = type == hipMemoryTypeHost ? const_cast<void *>(static_cast<const void *>(host)) : device;
  return out ? hipSuccess : fail(hipErrorInvalidValue, "memcpy: null pointer");
}

} // namespace

hipError_t driverCopyWork(const HIP_MEMCPY3D *c, NodeWork &work) {
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

} // namespace flysim
