//===- LoadedKernels.cpp - A code object on the devices ----------------------===//

#include "LoadedKernels.h"

#include "CodeObject.h"

#include <memory>

namespace flydsl::runtime {

namespace {

/// "gfx942:sramecc+:xnack-" -> "gfx942".
std::string baseArch(const std::string &arch) { return arch.substr(0, arch.find(':')); }

/// A generic target such as gfx9-4-generic runs on several processors; HIP decides.
bool isGeneric(const std::string &arch) { return arch.find("generic") != std::string::npos; }

void checkArch(const HipApi &api, const Plan &plan, const std::string &arch, int device) {
  const std::string wanted = baseArch(arch), found = deviceArch(api, device);
  if (wanted.empty() || found.empty() || wanted == found || isGeneric(wanted))
    return;
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
  if (codeObject.empty() && plan.kernels.empty()) { // a function that launches nothing
    static DeviceKernels none;
    devices[device].store(&none, std::memory_order_release);
    return none;
  }
  checkArch(api, plan, arch, device);
  const std::string problem = codeObjectProblem(codeObject);
  if (!problem.empty())
    throw LibraryError(plan.name + "(): the code object cannot be loaded: " + problem);

  const std::string context = plan.name + "(): loading the code object on device " +
                              std::to_string(device);
  HipModule module = nullptr;
  int status = api.moduleLoadData(&module, codeObject.data());
  if (status != kHipSuccess)
    throw makeHipFailure(api, status, "hipModuleLoadData", context);

  auto loaded = std::make_unique<DeviceKernels>();
  for (const std::string &kernel : plan.kernels) {
    HipFunction function = nullptr;
    status = api.moduleGetFunction(&function, module, kernel.c_str());
    if (status != kHipSuccess) {
      HipFailure failure = makeHipFailure(api, status, "hipModuleGetFunction",
                                          context + ": kernel '" + kernel + "'");
      (void)api.moduleUnload(module);
      throw failure;
    }
    loaded->functions.push_back(function);
  }
  loaded->limits = DeviceLimits::query(api, device);
  if (onLoaded) {
    try {
      onLoaded(module);
    } catch (...) {
      (void)api.moduleUnload(module);
      throw;
    }
  }
  devices[device].store(loaded.get(), std::memory_order_release);
  return *loaded.release();
}

} // namespace flydsl::runtime
