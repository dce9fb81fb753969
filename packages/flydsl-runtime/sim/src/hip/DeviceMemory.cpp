//===- DeviceMemory.cpp - allocations of the device -----------------------===//

#include "check/Checks.h"
#include "check/SharedRecords.h"
#include "check/Unwritten.h"
#include "hip/MemoryWork.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"

namespace flysim {

hipError_t allocateMemory(void **out, size_t size, MemKind kind) {
  if (!out)
    return fail(hipErrorInvalidValue, "allocation: null pointer");
  *out = nullptr;
  if (size == 0)
    return hipSuccess;
  return guarded([&]() -> hipError_t {
    uint64_t all = Runtime::instance().arch().memoryBytes;
    uint64_t base = size > all ? 0 : AddressSpace::instance().allocate(size, kind, currentDevice());
    if (!base)
      return fail(hipErrorOutOfMemory, format("cannot allocate %zu bytes", size));
    if (requestedChecks() & kCheckUninit)
      fillUnwritten(base, size);
    *out = reinterpret_cast<void *>(base);
    return hipSuccess;
  });
}

hipError_t releaseMemory(void *p) {
  finishAll(); // as on a GPU, freeing waits for what may still use the memory
  SharedRecords::instance().remove(reinterpret_cast<uint64_t>(p));
  return AddressSpace::instance().release(reinterpret_cast<uint64_t>(p))
             ? hipSuccess
             : fail(hipErrorInvalidValue,
                    format("free: %p is not the start of an allocation", p));
}

} // namespace flysim
