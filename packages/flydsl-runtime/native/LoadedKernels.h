//===- LoadedKernels.h - A code object on the devices -----------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_LOADEDKERNELS_H
#define FLYDSL_RUNTIME_LOADEDKERNELS_H

#include "HipApi.h"
#include "Plan.h"

#include <array>
#include <atomic>
#include <functional>
#include <mutex>

namespace flydsl::runtime {

/// The code object of one plan as loaded on one device.
struct DeviceKernels {
  const HipApi *api = nullptr;
  HipModule module = nullptr; ///< null: nothing to launch
  std::vector<HipFunction> functions; ///< by Plan::kernels index
  DeviceLimits limits;
};

/// Loads a code object on each device when it is first needed there: a HIP module belongs to the
/// device that is current when it is loaded. Captured graphs and launches in flight may use modules
/// longer than this object lives: the simulator knows when they no longer do, other libraries keep
/// the modules until the process ends.
class LoadedKernels {
public:
  LoadedKernels(std::string codeObject, std::string arch)
      : codeObject(std::move(codeObject)), arch(std::move(arch)) {}
  ~LoadedKernels();

  /// The kernels on \p device, which must be the calling thread's current device. Thread safe;
  /// call without the GIL.
  const DeviceKernels &get(const HipApi &api, const Plan &plan, int device) {
    if (device >= 0 && device < kMaxDevices)
      if (DeviceKernels *loaded = devices[device].load(std::memory_order_acquire))
        return *loaded;
    return load(api, plan, device);
  }

  const std::string &architecture() const { return arch; }

  /// Called with each module after it is loaded and before anything of it is launched; without the
  /// GIL. Set before the first use.
  std::function<void(HipModule)> onLoaded;

  /// True if a device holds the code object and cannot let it go. HIP may go on reading the image
  /// it was given, so this object must then stay alive as well.
  bool pinned() const;

private:
  const DeviceKernels &load(const HipApi &api, const Plan &plan, int device);
  void loadModule(const HipApi &api, const Plan &plan, int device, DeviceKernels &loaded) const;

  static constexpr int kMaxDevices = 64;
  std::string codeObject;
  std::string arch;
  std::mutex mutex;
  std::array<std::atomic<DeviceKernels *>, kMaxDevices> devices{};
};

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_LOADEDKERNELS_H
