//===- LoadedKernels.cpp - A code object on the devices ----------------------===//

#include "LoadedKernels.h"

#include "CodeObject.h"

#include <cstdlib>
#include <memory>

namespace flydsl::runtime {

namespace {

/// "gfx942:sramecc+:xnack-" -> "gfx942".
std::string baseArch(const std::string &arch) { return arch.substr(0, arch.find(':')); }

/// A generic target such as gfx9-4-generic runs on several processors; HIP decides.
bool isGeneric(const std::string &arch) { return arch.find("generic") != std::string::npos; }

/// True when the simulated device is what the code wants: nobody has said which one it is.
bool simulatorFollows() {
  const char *chosen = std::getenv("FLYDSL_SIM_ARCH");
  return !chosen || !*chosen;
}

/// Lets the simulator be the device of a code object while that is loaded. Kernels then run as on the
/// architecture that they were loaded for, whatever the simulated device is called.
class SimulatedArch {
public:
  SimulatedArch(const HipApi &api, const std::string &arch, std::string before)
      : lock(mutex), api(api), before(std::move(before)) {
    checkHip(api, api.simSetArch(arch.c_str()), "flysimSetArch");
  }
  ~SimulatedArch() { (void)api.simSetArch(before.c_str()); }

private:
  static inline std::mutex mutex;
  std::lock_guard<std::mutex> lock;
  const HipApi &api;
  std::string before;
};

/// The architecture to simulate while the code object is loaded, or "" for that of the device.
std::string checkArch(const HipApi &api, const Plan &plan, const std::string &arch, int device) {
  const std::string wanted = baseArch(arch), found = deviceArch(api, device);
  if (wanted.empty() || found.empty() || wanted == found || isGeneric(wanted))
    return "";
  if (api.isSimulator() && api.simSetArch && simulatorFollows())
    return wanted;
  std::string hint = api.isSimulator() ? "; set FLYDSL_SIM_ARCH=" + wanted + " to simulate " + wanted
                                       : "";
  throw LibraryError(plan.name + "(): compiled for " + wanted + ", but device " +
                     std::to_string(device) + " is " + found + hint);
}

} // namespace

const DeviceKernels &LoadedKernels::load(const HipApi &api, const Plan &plan, int device) {
  if (device < 0 || device >= kMaxDevices)
    throw LibraryError("device number " + std::to_string(device) + " is not supported");
  std::lock_guard<std::mutex> lock(mutex);
  if (DeviceKernels *loaded = devices[device].load(std::memory_order_acquire))
    return *loaded;
  auto loaded = std::make_unique<DeviceKernels>();
  if (!codeObject.empty() || !plan.kernels.empty()) // else the function launches nothing
    loadModule(api, plan, device, *loaded);
  devices[device].store(loaded.get(), std::memory_order_release);
  return *loaded.release();
}

void LoadedKernels::loadModule(const HipApi &api, const Plan &plan, int device,
                               DeviceKernels &loaded) const {
  const std::string other = checkArch(api, plan, arch, device);
  std::unique_ptr<SimulatedArch> simulated;
  if (!other.empty())
    simulated = std::make_unique<SimulatedArch>(api, other, deviceArch(api, device));
  const std::string problem = codeObjectProblem(codeObject);
  if (!problem.empty())
    throw LibraryError(plan.name + "(): the code object cannot be loaded: " + problem);

  const std::string context = plan.name + "(): loading the code object on device " +
                              std::to_string(device);
  HipModule module = nullptr;
  int status = api.moduleLoadData(&module, codeObject.data());
  if (status != kHipSuccess)
    throw makeHipFailure(api, status, "hipModuleLoadData", context);
  try {
    for (const std::string &kernel : plan.kernels) {
      HipFunction function = nullptr;
      status = api.moduleGetFunction(&function, module, kernel.c_str());
      if (status != kHipSuccess)
        throw makeHipFailure(api, status, "hipModuleGetFunction",
                             context + ": kernel '" + kernel + "'");
      loaded.functions.push_back(function);
    }
    loaded.limits = DeviceLimits::query(api, device);
    if (onLoaded)
      onLoaded(module);
  } catch (...) {
    (void)api.moduleUnload(module);
    throw;
  }
  loaded.api = &api;
  loaded.module = module;
}

LoadedKernels::~LoadedKernels() {
  for (std::atomic<DeviceKernels *> &device : devices) {
    std::unique_ptr<DeviceKernels> loaded(device.load(std::memory_order_acquire));
    if (loaded && loaded->module)
      (void)loaded->api->simModuleRelease(loaded->module);
  }
}

bool LoadedKernels::pinned() const {
  for (const std::atomic<DeviceKernels *> &device : devices) {
    const DeviceKernels *loaded = device.load(std::memory_order_acquire);
    // Whoever was told of the module may keep its handle.
    if (loaded && loaded->module && (onLoaded || !loaded->api->simModuleRelease))
      return true;
  }
  return false;
}

} // namespace flydsl::runtime
