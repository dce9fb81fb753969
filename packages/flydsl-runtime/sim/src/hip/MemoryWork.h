//===- MemoryWork.h - parts of the memory entry points ---------*- C++ -*-===//
#ifndef FLYSIM_HIP_MEMORYWORK_H
#define FLYSIM_HIP_MEMORYWORK_H

#include "hip/HipTypes.h"
#include "memory/Memory.h"
#include "support/CrashGuard.h"
#include "support/Error.h"

#include <cstddef>

namespace flysim {

/// Raises IllegalAddress unless the host may access every byte.
void checkRange(const void *p, size_t size, bool write, const char *what);

/// Runs `work` on memory that was accessible when it was checked.
template <class F> void onHostMemory(const char *what, F &&work) {
  installCrashHandler();
  uint64_t address = 0;
  if (!protectedCall(work, address))
    raise(FaultKind::IllegalAddress, format("%s: 0x%llx is not mapped (any more)", what,
                                            static_cast<unsigned long long>(address)));
}

/// Memory of the current device; a size of 0 gives null.
hipError_t allocateMemory(void **out, size_t size, MemKind kind);
/// Frees memory of any kind that a program allocates; of a graph it counts as free.
hipError_t freeMemory(void *p);
/// Frees an allocation when everything that was enqueued has run.
hipError_t releaseMemory(void *p);
/// An allocation is about to be freed: its pool, if any, counts it no more.
void poolForget(void *p);

} // namespace flysim

#endif
