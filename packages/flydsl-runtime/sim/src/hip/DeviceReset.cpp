//===- DeviceReset.cpp - what a program holds on a device goes at once -----===//
//
// Code that the program carries stays loaded, with its managed variables: no context owns it. So do graphs, with the
// modules and the memory that they hold, and registered host memory, which is the program's own.
//
//===----------------------------------------------------------------------===//

#include "hip/DeviceReset.h"

#include "hip/MemoryWork.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"

namespace flysim {

namespace {

/// Ends all of `set` that belong to `device`.
template <class T, class End> void endAll(HandleSet<T> &set, int device, End end) {
  std::vector<T *> list;
  set.forEach([&](T &object) {
    if (object.device == device)
      list.push_back(&object);
  });
  for (T *object : list)
    end(object);
}

hipError_t resetDevice(int device) {
  const int before = currentDevice();
  setCurrentDevice(device);
  finishDevice(); // its errors go with what they are about
  setCurrentDevice(before);
  Runtime &r = Runtime::instance();
  endAll(r.streams, device, hipStreamDestroy);
  endAll(r.events, device, hipEventDestroy);
  endAll(r.modules, device, hipModuleUnload);
  for (uint64_t base : AddressSpace::instance().heldBy(device))
    if (auto *p = reinterpret_cast<void *>(base); !isManagedVariable(p) && !isGraphMemory(p))
      freeMemory(p);
  forgetMappings(device);
  forgetPools(device);
  forgetPeers(device);
  return hipSuccess;
}

} // namespace

} // namespace flysim

using namespace flysim;

FLYSIM_API hipError_t hipDeviceReset() {
  return guarded([] { return resetDevice(currentDevice()); });
}
FLYSIM_API hipError_t hipDevicePrimaryCtxReset(int device) {
  return guarded([&] {
    if (device < 0 || device >= Runtime::instance().deviceCount())
      return fail(hipErrorInvalidDevice, format("hipDevicePrimaryCtxReset: there is no device %d", device));
    return resetDevice(device);
  });
}
