//===- MemoryWork.h - parts of the memory entry points ---------*- C++ -*-===//
#ifndef FLYSIM_HIP_MEMORYWORK_H
#define FLYSIM_HIP_MEMORYWORK_H

#include "hip/HipTypes.h"

#include <cstddef>

namespace flysim {

/// Raises IllegalAddress unless the host may access every byte.
void checkRange(const void *p, size_t size, bool write, const char *what);

hipError_t allocateDevice(void **out, size_t size);
hipError_t releaseDevice(void *p);
/// An allocation is about to be freed: its pool, if any, counts it no more.
void poolForget(void *p);

} // namespace flysim

#endif
