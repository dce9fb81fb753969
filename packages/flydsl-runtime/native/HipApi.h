//===- HipApi.h - The HIP C API, resolved at run time -----------*- C++ -*-===//
//
// The package links against no HIP library. The entry points are looked up in
// a shared library chosen at run time: the system's libamdhip64 or the
// simulator, which exports the same symbols. The declarations below restate
// the part of HIP's stable C ABI that is used here.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_HIPAPI_H
#define FLYDSL_RUNTIME_HIPAPI_H

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace flydsl::runtime {

using HipError = int;
using HipModule = void *;
using HipFunction = void *;
using HipStream = void *;
using HipGraph = void *;
using HipGraphExec = void *;
using HipEvent = void *;

/// hipError_t values that this package tells apart.
enum HipErrorCode : int {
  kHipSuccess = 0,
  kHipErrorNoDevice = 100,
  kHipErrorNotFound = 500,
  kHipErrorNotReady = 600,
  kHipErrorNotSupported = 801,
};

/// hipDeviceAttribute_t values that this package asks for.
enum HipDeviceAttribute : int {
  kAttrClockRateKHz = 5,
  kAttrMaxBlockDimX = 26,
  kAttrMaxBlockDimY = 27,
  kAttrMaxBlockDimZ = 28,
  kAttrMaxGridDimX = 29,
  kAttrMaxGridDimY = 30,
  kAttrMaxGridDimZ = 31,
  kAttrMaxThreadsPerBlock = 56,
  kAttrMultiprocessorCount = 63,
  kAttrMaxSharedMemoryPerBlock = 74,
  kAttrWarpSize = 87,
};

/// Markers of hipModuleLaunchKernel's `extra` array.
inline void *const kLaunchParamBufferPointer = reinterpret_cast<void *>(1);
inline void *const kLaunchParamBufferSize = reinterpret_cast<void *>(2);
inline void *const kLaunchParamEnd = reinterpret_cast<void *>(3);

/// hipLaunchAttribute: a tag, padding to 8 bytes and a 64-byte value.
struct HipLaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    struct {
      uint32_t x, y, z;
    } clusterDim;
  } value;
};
inline constexpr int kLaunchAttributeClusterDimension = 4;

/// HIP_LAUNCH_CONFIG of hipDrvLaunchKernelEx.
struct HipLaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ;
  unsigned blockDimX, blockDimY, blockDimZ;
  unsigned sharedMemBytes;
  HipStream stream;
  HipLaunchAttribute *attrs;
  unsigned numAttrs;
};

/// hipIpcMemHandle_t.
struct HipIpcMemHandle {
  char reserved[64];
};
inline constexpr unsigned kMallocUncached = 3;
inline constexpr unsigned kIpcLazyEnablePeerAccess = 1;

// X(field, exported symbol, parameter list). All return hipError_t.
#define FLYDSL_HIP_REQUIRED(X)                                                                     \
  X(init, hipInit, (unsigned))                                                                     \
  X(getDeviceCount, hipGetDeviceCount, (int *))                                                    \
  X(getDevice, hipGetDevice, (int *))                                                              \
  X(setDevice, hipSetDevice, (int))                                                                \
  X(deviceGetAttribute, hipDeviceGetAttribute, (int *, int, int))                                  \
  X(deviceSynchronize, hipDeviceSynchronize, ())                                                   \
  X(moduleLoadData, hipModuleLoadData, (HipModule *, const void *))                                \
  X(moduleUnload, hipModuleUnload, (HipModule))                                                    \
  X(moduleGetFunction, hipModuleGetFunction, (HipFunction *, HipModule, const char *))             \
  X(moduleLaunchKernel, hipModuleLaunchKernel,                                                     \
    (HipFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, HipStream, \
     void **, void **))                                                                            \
  X(malloc, hipMalloc, (void **, size_t))                                                          \
  X(free, hipFree, (void *))                                                                       \
  X(memcpy, hipMemcpy, (void *, const void *, size_t, int))                                        \
  X(memcpyAsync, hipMemcpyAsync, (void *, const void *, size_t, int, HipStream))                   \
  X(memset, hipMemset, (void *, int, size_t))                                                      \
  X(memsetAsync, hipMemsetAsync, (void *, int, size_t, HipStream))                                 \
  X(streamCreateWithFlags, hipStreamCreateWithFlags, (HipStream *, unsigned))                      \
  X(streamDestroy, hipStreamDestroy, (HipStream))                                                  \
  X(streamSynchronize, hipStreamSynchronize, (HipStream))                                          \
  X(eventCreateWithFlags, hipEventCreateWithFlags, (HipEvent *, unsigned))                         \
  X(eventDestroy, hipEventDestroy, (HipEvent))                                                     \
  X(eventRecord, hipEventRecord, (HipEvent, HipStream))                                            \
  X(eventSynchronize, hipEventSynchronize, (HipEvent))                                             \
  X(eventElapsedTime, hipEventElapsedTime, (float *, HipEvent, HipEvent))

// Absent from some HIP releases; each user says what it cannot do without.
#define FLYDSL_HIP_OPTIONAL(X)                                                                     \
  X(getLastError, hipGetLastError, ())                                                             \
  X(runtimeGetVersion, hipRuntimeGetVersion, (int *))                                              \
  X(deviceGetName, hipDeviceGetName, (char *, int, int))                                           \
  X(deviceTotalMem, hipDeviceTotalMem, (size_t *, int))                                            \
  X(getDevicePropertiesR0600, hipGetDevicePropertiesR0600, (void *, int))                          \
  X(getDeviceProperties, hipGetDeviceProperties, (void *, int))                                    \
  X(streamQuery, hipStreamQuery, (HipStream))                                                      \
  X(streamWaitEvent, hipStreamWaitEvent, (HipStream, HipEvent, unsigned))                          \
  X(eventQuery, hipEventQuery, (HipEvent))                                                         \
  X(funcGetAttribute, hipFuncGetAttribute, (int *, int, HipFunction))                              \
  X(occupancyMaxActiveBlocks, hipModuleOccupancyMaxActiveBlocksPerMultiprocessor,                  \
    (int *, HipFunction, int, size_t))                                                             \
  X(extMallocWithFlags, hipExtMallocWithFlags, (void **, size_t, unsigned))                        \
  X(ipcGetMemHandle, hipIpcGetMemHandle, (HipIpcMemHandle *, void *))                              \
  X(ipcOpenMemHandle, hipIpcOpenMemHandle, (void **, HipIpcMemHandle, unsigned))                   \
  X(ipcCloseMemHandle, hipIpcCloseMemHandle, (void *))                                             \
  X(streamBeginCapture, hipStreamBeginCapture, (HipStream, int))                                   \
  X(streamEndCapture, hipStreamEndCapture, (HipStream, HipGraph *))                                \
  X(launchHostFunc, hipLaunchHostFunc, (HipStream, void (*)(void *), void *))                      \
  X(graphInstantiate, hipGraphInstantiate, (HipGraphExec *, HipGraph, void *, char *, size_t))     \
  X(graphLaunch, hipGraphLaunch, (HipGraphExec, HipStream))                                        \
  X(graphDestroy, hipGraphDestroy, (HipGraph))                                                     \
  X(graphExecDestroy, hipGraphExecDestroy, (HipGraphExec))                                         \
  X(drvLaunchKernelEx, hipDrvLaunchKernelEx,                                                       \
    (const HipLaunchConfig *, HipFunction, void **, void **))

/// An array as the simulator's flysimLaunchArguments takes it; shape and strides in elements.
struct SimArgument {
  const char *name, *type;
  const void *base;
  uint32_t itemBytes, rank;
  const int64_t *shape, *strides;
};

/// Entry points of one loaded HIP library.
struct HipApi {
#define FLYDSL_DECLARE(field, symbol, params) HipError(*field) params = nullptr;
  FLYDSL_HIP_REQUIRED(FLYDSL_DECLARE)
  FLYDSL_HIP_OPTIONAL(FLYDSL_DECLARE)
#undef FLYDSL_DECLARE
  const char *(*getErrorName)(HipError) = nullptr;
  const char *(*getErrorString)(HipError) = nullptr;

  // Extension symbols of the simulator library.
  const char *(*simLastErrorMessage)() = nullptr;
  int (*simSetArch)(const char *) = nullptr;
  const char *(*simVersion)() = nullptr;
  /// Tells which host memory the calling thread's next launch may write: base and bytes of each.
  void (*simLaunchRanges)(const void *const *, const size_t *, unsigned) = nullptr;

  /// The same with names, types and shapes, for messages.
  void (*simLaunchArguments)(const SimArgument *, unsigned) = nullptr;
  /// Sets the function that tells running launches to end.
  void (*simSetInterrupt)(int (*)()) = nullptr;
  /// Unloads a module when the last launch of it, in a graph or in flight, is gone; never waits.
  int (*simModuleRelease)(HipModule) = nullptr;

  /// File that the dynamic linker took the symbols from.
  std::string path;

  /// True for a library whose device memory is host memory.
  bool isSimulator() const { return simVersion != nullptr; }

  /// Opens \p path and fills the table.
  /// \throws LibraryError if it cannot be opened or lacks a required symbol.
  static HipApi *load(const std::string &path);
};

/// A library that cannot serve as a HIP provider.
struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A HIP call that did not return hipSuccess.
struct HipFailure : std::runtime_error {
  HipFailure(const std::string &what, int code, std::string name, bool fromSimulator)
      : std::runtime_error(what), code(code), name(std::move(name)), fromSimulator(fromSimulator) {}
  int code;
  std::string name;
  bool fromSimulator;
};

/// The library in use, or null before the first use of a device.
HipApi *currentApi();
/// Makes \p api the library in use; kept until the process ends.
void setCurrentApi(HipApi *api);

/// Builds the failure of \p call, with \p context (what the user asked for) in front, and clears
/// HIP's sticky per-thread error. \p detail goes behind the context, or to a line of its own below
/// a message of several lines, which begins with what matters most.
HipFailure makeHipFailure(const HipApi &api, int code, const char *call,
                          const std::string &context = {}, const std::string &detail = {});

inline void checkHip(const HipApi &api, int code, const char *call) {
  if (code != kHipSuccess)
    throw makeHipFailure(api, code, call);
}

/// Base architecture name of \p device ("gfx942"), empty if the library does not tell.
std::string deviceArch(const HipApi &api, int device);

/// Launch limits of a device; a limit the library does not report is "no limit".
struct DeviceLimits {
  int64_t maxGrid[3];
  int64_t maxBlock[3];
  int64_t maxThreadsPerBlock;
  int64_t maxSharedMemory;
  static DeviceLimits query(const HipApi &api, int device);
};

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_HIPAPI_H
