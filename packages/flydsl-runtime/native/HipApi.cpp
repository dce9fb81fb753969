//===- HipApi.cpp - The HIP C API, resolved at run time ----------------------===//

#include "HipApi.h"

#include <atomic>
#include <cctype>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <memory>

namespace flydsl::runtime {

namespace {

// The symbol version under which HIP has exported its API since ROCm 4.2. Asking for it by name
// avoids a same-named symbol of a library further down the search scope.
constexpr const char *kHipSymbolVersion = "hip_4.2";

std::atomic<HipApi *> gCurrentApi{nullptr};

void *findSymbol(void *handle, const char *name) {
  if (void *symbol = dlvsym(handle, name, kHipSymbolVersion))
    return symbol;
  return dlsym(handle, name);
}

std::string lastDlError() {
  const char *text = dlerror();
  return text ? text : "unknown dynamic linker error";
}

} // namespace

HipApi *HipApi::load(const std::string &path) {
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw LibraryError("cannot open the HIP library '" + path + "': " + lastDlError());

  auto api = std::make_unique<HipApi>();
  std::string missing;
  auto require = [&](auto &field, const char *name) {
    field = reinterpret_cast<std::decay_t<decltype(field)>>(findSymbol(handle, name));
    if (!field)
      missing += (missing.empty() ? "" : ", ") + std::string(name);
  };
  auto optional = [&](auto &field, const char *name) {
    field = reinterpret_cast<std::decay_t<decltype(field)>>(findSymbol(handle, name));
  };
#define FLYDSL_REQUIRE(field, symbol, params) require(api->field, #symbol);
#define FLYDSL_OPTIONAL(field, symbol, params) optional(api->field, #symbol);
  FLYDSL_HIP_REQUIRED(FLYDSL_REQUIRE)
  FLYDSL_HIP_OPTIONAL(FLYDSL_OPTIONAL)
#undef FLYDSL_REQUIRE
#undef FLYDSL_OPTIONAL
  require(api->getErrorName, "hipGetErrorName");
  require(api->getErrorString, "hipGetErrorString");
  optional(api->simLastErrorMessage, "flysimLastErrorMessage");
  if (api->simLastErrorMessage)
    (void)api->simLastErrorMessage(); // says that faults are raised here and need not go to stderr
  optional(api->simSetArch, "flysimSetArch");
  optional(api->simVersion, "flysimVersion");
  optional(api->simLaunchRanges, "flysimLaunchRanges");
  optional(api->simLaunchArguments, "flysimLaunchArguments");
  optional(api->simSetInterrupt, "flysimSetInterrupt");
  optional(api->simModuleRelease, "flysimModuleRelease");
  if (!missing.empty()) {
    dlclose(handle);
    throw LibraryError("'" + path + "' is not a usable HIP library; missing symbols: " + missing);
  }

  Dl_info info;
  bool known = dladdr(reinterpret_cast<void *>(api->moduleLaunchKernel), &info) != 0;
  api->path = known && info.dli_fname ? info.dli_fname : path;
  return api.release();
}

HipApi *currentApi() { return gCurrentApi.load(std::memory_order_acquire); }

void setCurrentApi(HipApi *api) { gCurrentApi.store(api, std::memory_order_release); }

HipFailure makeHipFailure(const HipApi &api, int code, const char *call,
                          const std::string &context, const std::string &detail) {
  const char *name = api.getErrorName(code);
  std::string errorName = name ? name : "hipErrorUnknown";
  const char *simText = api.simLastErrorMessage ? api.simLastErrorMessage() : nullptr;
  const bool below = !detail.empty() && simText && std::strchr(simText, '\n');
  std::string message = context.empty() ? "" : context + ": ";
  if (!detail.empty() && !below)
    message += detail + ": ";
  if (simText && *simText) {
    message += simText;
  } else {
    const char *text = api.getErrorString(code);
    message += std::string(call) + " failed with " + errorName + " (" + std::to_string(code) + ")";
    if (text && *text && errorName != text)
      message += std::string(": ") + text;
  }
  if (below)
    message += "\n  " + detail;
  if (api.getLastError)
    (void)api.getLastError();
  return HipFailure(message, code, errorName, api.isSimulator());
}

std::string deviceArch(const HipApi &api, int device) {
  // hipDeviceProp_t grows from release to release and moves its members. The architecture is the
  // only member that starts with "gfx", so it is found by its text behind the 256-byte name.
  constexpr size_t kNameBytes = 256;
  std::vector<char> properties(16384, '\0');
  auto getProperties = api.getDevicePropertiesR0600 ? api.getDevicePropertiesR0600
                                                    : api.getDeviceProperties;
  if (!getProperties || getProperties(properties.data(), device) != kHipSuccess)
    return {};
  const char *end = properties.data() + properties.size() - 4;
  for (const char *p = properties.data() + kNameBytes; p < end; ++p) {
    if (std::memcmp(p, "gfx", 3) != 0)
      continue;
    const char *stop = p + 3;
    while (stop < end && (std::isalnum(static_cast<unsigned char>(*stop)) || *stop == '-'))
      ++stop;
    if (stop > p + 3)
      return std::string(p, stop);
  }
  return {};
}

DeviceLimits DeviceLimits::query(const HipApi &api, int device) {
  auto limit = [&](int attribute) -> int64_t {
    int value = 0;
    if (api.deviceGetAttribute(&value, attribute, device) != kHipSuccess || value <= 0)
      return std::numeric_limits<int64_t>::max();
    return value;
  };
  return {{limit(kAttrMaxGridDimX), limit(kAttrMaxGridDimY), limit(kAttrMaxGridDimZ)},
          {limit(kAttrMaxBlockDimX), limit(kAttrMaxBlockDimY), limit(kAttrMaxBlockDimZ)},
          limit(kAttrMaxThreadsPerBlock),
          limit(kAttrMaxSharedMemoryPerBlock)};
}

} // namespace flydsl::runtime
