//===- Runtime.cpp - state behind the HIP entry points --------------------===//

#include "hip/Runtime.h"

#include "support/Settings.h"

#include <algorithm>
#include <numeric>

namespace flysim {

Runtime &Runtime::instance() {
  static Runtime *runtime = new Runtime; // outlives atexit handlers of the host program
  return *runtime;
}

namespace {
struct NoDevice : std::exception {
  const char *what() const noexcept override {
    return "ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES leaves no simulated device";
  }
};
} // namespace

const ArchInfo &Runtime::arch() {
  if (!deviceCount())
    throw NoDevice();
  std::lock_guard<std::mutex> lock(mutex);
  if (chosen)
    return *chosen;
  const char *env = textSetting("FLYDSL_SIM_ARCH");
  std::string name = !requested.empty() ? requested : env ? env : "";
  byName = !name.empty();
  for (size_t i = 0; i < images.size() && name.empty(); ++i)
    name = archOfImage(images[i], 0);
  if (name.empty())
    name = "gfx942";
  const ArchInfo *found = findArch(name);
  if (!found)
    raise(FaultKind::InvalidConfiguration,
          "unknown architecture '" + name + "'; the simulator has " + knownArchs());
  chosen = found;
  return *chosen;
}

bool validStream(void *stream) {
  return isDefaultStream(stream) || Runtime::instance().streams.contains(stream);
}

Stream *capturing(void *stream) {
  if (isDefaultStream(stream) || !Runtime::instance().streams.contains(stream))
    return nullptr;
  auto *s = static_cast<Stream *>(stream);
  return s->capture ? s : nullptr;
}

void Runtime::noteImage(const void *image) {
  std::lock_guard<std::mutex> lock(mutex);
  images.push_back(image);
}

void Runtime::forgetImage(const void *image) {
  std::lock_guard<std::mutex> lock(mutex);
  images.erase(std::remove(images.begin(), images.end(), image), images.end());
}

void Runtime::adoptArchOf(const void *image, size_t size) {
  arch();
  std::string name = archOfImage(image, size);
  std::lock_guard<std::mutex> lock(mutex);
  if (!byName && !name.empty())
    chosen = findArch(name);
}

bool Runtime::setArch(const char *name) {
  std::lock_guard<std::mutex> lock(mutex);
  const ArchInfo *found = name ? findArch(name) : nullptr;
  if (!found) {
    setLastErrorMessage("unknown architecture '" + std::string(name ? name : "") +
                        "'; the simulator has " + knownArchs());
    return false;
  }
  chosen = found;
  byName = true;
  requested = found->name;
  return true;
}

namespace {
constexpr int kMostDevices = 8; // each has a number of one digit

/// Devices that a program sees, by their numbers among all.
struct Devices {
  int count = 0, ordinal[kMostDevices];
};

/// What a list like HIP_VISIBLE_DEVICES leaves of `all`: those whose numbers it names, each once, in its order, up to
/// the first name that is none's. All, without a list.
Devices visible(const Devices &all, const char *list) {
  if (!list)
    return all;
  Devices out;
  for (const char *at = list;; at += 2) {
    const int n = *at - '0';
    if (n < 0 || n >= all.count || (at[1] && at[1] != ','))
      return out;
    int *const end = out.ordinal + out.count;
    if (std::find(out.ordinal, end, all.ordinal[n]) == end)
      out.ordinal[out.count++] = all.ordinal[n];
    if (!at[1])
      return out;
  }
}

/// Lists are for the devices of the machine, unless the program has asked for simulated ones by number.
const Devices &devices() {
  static const Devices found = [] {
    Devices all;
    all.count = static_cast<int>(wholeSetting("FLYDSL_SIM_DEVICES", 1, 1, kMostDevices));
    std::iota(all.ordinal, all.ordinal + all.count, 0);
    if (!textSetting("FLYDSL_SIM_DEVICES"))
      return all;
    const char *hip = textSetting("HIP_VISIBLE_DEVICES");
    return visible(visible(all, textSetting("ROCR_VISIBLE_DEVICES")), hip ? hip : textSetting("CUDA_VISIBLE_DEVICES"));
  }();
  return found;
}
} // namespace

int Runtime::deviceCount() { return devices().count; }
int Runtime::ordinal(int device) { return devices().ordinal[device]; }

namespace {
thread_local int device = 0;
thread_local hipError_t lastError = hipSuccess;
} // namespace

int currentDevice() { return device; }
void setCurrentDevice(int d) { device = d; }

hipError_t fail(hipError_t code, std::string_view text) noexcept {
  lastError = code;
  try {
    setLastErrorMessage(std::string(text));
  } catch (const std::bad_alloc &) {
    setLastErrorMessage("no host memory"); // short enough for a string's own storage
  }
  return code;
}

hipError_t failRaised() noexcept {
  try {
    throw;
  } catch (const Fault &f) {
    return fail(errorCode(f.kind), f.text);
  } catch (const NoDevice &e) {
    return fail(hipErrorNoDevice, e.what());
  } catch (const std::bad_alloc &) {
    return fail(hipErrorOutOfMemory, "the host is out of memory");
  } catch (const std::exception &e) {
    return fail(hipErrorUnknown, e.what());
  }
}

hipError_t errorCode(FaultKind kind) {
  switch (kind) {
  case FaultKind::InvalidImage:
    return hipErrorInvalidImage;
  case FaultKind::UnsupportedInstruction:
    return hipErrorNotSupported;
  case FaultKind::IllegalAddress:
  case FaultKind::MisalignedAddress:
    return hipErrorIllegalAddress;
  case FaultKind::InstructionLimit:
    return hipErrorLaunchTimeOut;
  case FaultKind::InvalidConfiguration:
    return hipErrorInvalidConfiguration;
  case FaultKind::OutOfMemory:
    return hipErrorOutOfMemory;
  case FaultKind::IllegalInstruction:
  case FaultKind::Interrupted:
  case FaultKind::BarrierDivergence:
  case FaultKind::Trap:
    break;
  }
  return hipErrorLaunchFailure;
}

namespace {
struct ErrorText {
  hipError_t code;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {5, "hipErrorProfilerDisabled", "profiler disabled while using external profiling tool"},
    {6, "hipErrorProfilerNotInitialized", "profiler is not initialized"},
    {7, "hipErrorProfilerAlreadyStarted", "profiler already started"},
    {8, "hipErrorProfilerAlreadyStopped", "profiler already stopped"},
    {9, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {12, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {13, "hipErrorInvalidSymbol", "invalid device symbol"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {35, "hipErrorInsufficientDriver", "driver version is insufficient for runtime version"},
    {52, "hipErrorMissingConfiguration", "__global__ function call is not configured"},
    {53, "hipErrorPriorLaunchFailure", "unspecified launch failure in prior launch"},
    {98, "hipErrorInvalidDeviceFunction", "invalid device function"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {200, "hipErrorInvalidImage", "device kernel image is invalid"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {202, "hipErrorContextAlreadyCurrent", "context is already current context"},
    {205, "hipErrorMapFailed", "mapping of buffer object failed"},
    {206, "hipErrorUnmapFailed", "unmapping of buffer object failed"},
    {207, "hipErrorArrayIsMapped", "array is mapped"},
    {208, "hipErrorAlreadyMapped", "resource already mapped"},
    {209, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {210, "hipErrorAlreadyAcquired", "resource already acquired"},
    {211, "hipErrorNotMapped", "resource not mapped"},
    {212, "hipErrorNotMappedAsArray", "resource not mapped as array"},
    {213, "hipErrorNotMappedAsPointer", "resource not mapped as pointer"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {215, "hipErrorUnsupportedLimit", "limit is not supported on this architecture"},
    {216, "hipErrorContextAlreadyInUse",
     "exclusive-thread device already in use by a different thread"},
    {217, "hipErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {218, "hipErrorInvalidKernelFile", "invalid kernel file"},
    {219, "hipErrorInvalidGraphicsContext", "invalid OpenGL or DirectX context"},
    {300, "hipErrorInvalidSource", "device kernel image is invalid"},
    {301, "hipErrorFileNotFound", "file not found"},
    {302, "hipErrorSharedObjectSymbolNotFound", "shared object symbol not found"},
    {303, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {304, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {401, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {701, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {702, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {704, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {705, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {708, "hipErrorSetOnActiveProcess", "cannot set while device is active in this process"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {710, "hipErrorAssert", "device-side assert triggered"},
    {712, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {713, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {720, "hipErrorCooperativeLaunchTooLarge", "too many blocks in cooperative launch"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {900, "hipErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"},
    {901, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {902, "hipErrorStreamCaptureMerge",
     "operation would result in a merge of separate capture sequences"},
    {903, "hipErrorStreamCaptureUnmatched", "capture was not ended in the same stream as it began"},
    {904, "hipErrorStreamCaptureUnjoined", "capturing stream has unjoined work"},
    {905, "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {906, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {908, "hipErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {910, "hipErrorGraphExecUpdateFailure",
     "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update"},
    {911, "hipErrorInvalidChannelDescriptor", "invalid channel descriptor"},
    {912, "hipErrorInvalidTexture", "invalid texture"},
    {1052, "hipErrorRuntimeMemory", "runtime memory call returned error"},
    {1053, "hipErrorRuntimeOther", "runtime call other than memory returned error"},
};
const ErrorText *errorEntry(hipError_t code) {
  for (const ErrorText &e : kErrors)
    if (e.code == code)
      return &e;
  return nullptr;
}
} // namespace

const char *errorName(hipError_t code) {
  const ErrorText *e = errorEntry(code);
  return e ? e->name : "hipErrorUnknown";
}
const char *errorString(hipError_t code) {
  const ErrorText *e = errorEntry(code);
  return e ? e->text : "unknown error";
}

} // namespace flysim

using namespace flysim;

FLYSIM_API hipError_t hipGetLastError() {
  hipError_t e = lastError;
  lastError = hipSuccess;
  return e;
}
FLYSIM_API hipError_t hipPeekAtLastError() { return lastError; }
FLYSIM_API hipError_t hipExtGetLastError() { return hipGetLastError(); }
FLYSIM_API const char *hipGetErrorName(hipError_t code) { return errorName(code); }
FLYSIM_API const char *hipGetErrorString(hipError_t code) { return errorString(code); }
FLYSIM_API hipError_t hipDrvGetErrorName(hipError_t code, const char **out) try {
  if (!out)
    return hipErrorInvalidValue;
  *out = errorName(code);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDrvGetErrorString(hipError_t code, const char **out) try {
  if (!out)
    return hipErrorInvalidValue;
  *out = errorString(code);
  return hipSuccess;
} FLYSIM_GUARDED

/// The text behind the calling thread's last failed call. A program that has called this once
/// tells faults of kernels itself; for others they go to stderr.
FLYSIM_API const char *flysimLastErrorMessage() {
  programReadsMessages();
  return lastErrorMessage();
}
/// Chooses the simulated architecture; 0 on success, 1 for an unknown name, else an error of the host.
FLYSIM_API int flysimSetArch(const char *name) try {
  return Runtime::instance().setArch(name) ? 0 : 1;
} FLYSIM_GUARDED
FLYSIM_API const char *flysimVersion() { return FLYSIM_VERSION; }
