//===- MemoryWork.h - parts of the memory entry points ---------*- C++ -*-===//
#ifndef FLYSIM_HIP_MEMORYWORK_H
#define FLYSIM_HIP_MEMORYWORK_H

#include "hip/HipTypes.h"
#include "memory/Memory.h"

#include <cstddef>

namespace flysim {

/// Raises IllegalAddress unless the host may access every byte.
void checkRange(const void *p, size_t size, bool write, const char *what);

/// Memory of the current device; a size of 0 gives null.
hipError_t allocateMemory(void **out, size_t size, MemKind kind);
/// Frees an allocation when everything that was enqueued has run.
hipError_t releaseMemory(void *p);
/// An allocation is about to be freed: its pool, if any, counts it no more.
void poolForget(void *p);

} // namespace flysim

#endif
