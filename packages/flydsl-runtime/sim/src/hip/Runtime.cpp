//===- Runtime.cpp - state behind the HIP entry points --------------------===//

#include "hip/Runtime.h"

#include <cstdlib>

namespace flysim {

Runtime &Runtime::instance() {
  static Runtime *runtime = new Runtime; // outlives atexit handlers of the host program
  return *runtime;
}

const ArchInfo &Runtime::arch() {
  std::lock_guard<std::mutex> lock(mutex);
  if (chosen)
    return *chosen;
  const char *env = getenv("FLYDSL_SIM_ARCH");
  std::string name = !requested.empty() ? requested : (env && *env ? env : "gfx942");
  const ArchInfo *found = findArch(name);
  if (!found)
    raise(FaultKind::InvalidConfiguration,
          "unknown architecture '" + name + "'; the simulator has " + knownArchs());
  chosen = found;
  return *chosen;
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
  requested = found->name;
  return true;
}

int Runtime::deviceCount() {
  static int count = [] {
    const char *text = getenv("FLYDSL_SIM_DEVICES");
    int n = text ? atoi(text) : 1;
    return n < 1 ? 1 : n > 8 ? 8 : n;
  }();
  return count;
}

namespace {
thread_local int device = 0;
thread_local hipError_t lastError = hipSuccess;
} // namespace

int currentDevice() { return device; }
void setCurrentDevice(int d) { device = d; }

hipError_t fail(hipError_t code, std::string text) {
  lastError = code;
  setLastErrorMessage(std::move(text));
  return code;
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
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorNotInitialized, "hipErrorNotInitialized", "initialization error"},
    {hipErrorDeinitialized, "hipErrorDeinitialized", "driver shutting down"},
    {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration",
     "invalid configuration argument"},
    {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {hipErrorNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {hipErrorInvalidContext, "hipErrorInvalidContext", "invalid device context"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu",
     "no kernel image is available for execution on the device"},
    {hipErrorInvalidSource, "hipErrorInvalidSource", "device kernel image is invalid"},
    {hipErrorFileNotFound, "hipErrorFileNotFound", "file not found"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {hipErrorIllegalState, "hipErrorIllegalState",
     "the operation cannot be performed in the present state"},
    {hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    {hipErrorIllegalAddress, "hipErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {hipErrorLaunchOutOfResources, "hipErrorLaunchOutOfResources",
     "too many resources requested for launch"},
    {hipErrorLaunchTimeOut, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {hipErrorLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
    {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {hipErrorStreamCaptureUnmatched, "hipErrorStreamCaptureUnmatched",
     "capture was not ended in the same stream as it began"},
    {hipErrorStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
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
FLYSIM_API hipError_t hipDrvGetErrorName(hipError_t code, const char **out) {
  if (!out)
    return hipErrorInvalidValue;
  *out = errorName(code);
  return hipSuccess;
}
FLYSIM_API hipError_t hipDrvGetErrorString(hipError_t code, const char **out) {
  if (!out)
    return hipErrorInvalidValue;
  *out = errorString(code);
  return hipSuccess;
}

/// The text behind the calling thread's last failed call.
FLYSIM_API const char *flysimLastErrorMessage() { return lastErrorMessage(); }
/// Chooses the simulated architecture; 0 on success, 1 for an unknown name.
FLYSIM_API int flysimSetArch(const char *name) { return Runtime::instance().setArch(name) ? 0 : 1; }
FLYSIM_API const char *flysimVersion() { return FLYSIM_VERSION; }
