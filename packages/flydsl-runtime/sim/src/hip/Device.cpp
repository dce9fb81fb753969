//===- Device.cpp - devices, properties and contexts ----------------------===//

#include "hip/Queues.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"
#include "observe/TimingTable.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace flysim;

namespace {

constexpr int kHipVersion = 60443482; // 6.4

bool validDevice(int d) { return d >= 0 && d < Runtime::instance().deviceCount(); }

hipError_t badDevice(int d) {
  return fail(hipErrorInvalidDevice, format("device %d does not exist; the simulator has %d", d,
                                            Runtime::instance().deviceCount()));
}

void fill(hipDeviceProp_tR0600 &p, const ArchInfo &a, int ordinal) {
  memset(&p, 0, sizeof p);
  snprintf(p.name, sizeof p.name, "%s", a.product);
  snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s", a.gcnArchName);
  snprintf(p.uuid, sizeof p.uuid, "flysim%d", ordinal & 0xff);
  p.totalGlobalMem = a.memoryBytes;
  p.sharedMemPerBlock = a.ldsPerWorkgroup;
  p.sharedMemPerBlockOptin = a.ldsPerWorkgroup;
  p.sharedMemPerMultiprocessor = a.ldsPerCu;
  p.maxSharedMemoryPerMultiProcessor = a.ldsPerCu;
  p.regsPerBlock = 65536;
  p.regsPerMultiprocessor = 65536 * 2;
  p.warpSize = static_cast<int>(a.waveSize);
  p.memPitch = 0x7fffffff;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = p.maxThreadsDim[2] = 1024;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = static_cast<int>(a.clockKhz);
  p.clockInstructionRate = 100000;
  p.totalConstMem = 0x7fffffff;
  p.major = static_cast<int>(a.major);
  p.minor = static_cast<int>(a.minor);
  p.textureAlignment = 256;
  p.texturePitchAlignment = 256;
  p.multiProcessorCount = static_cast<int>(a.computeUnits);
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.pciDeviceID = ordinal;
  p.asyncEngineCount = 1;
  p.unifiedAddressing = 1;
  p.memoryClockRate = static_cast<int>(a.memClockKhz);
  p.memoryBusWidth = static_cast<int>(a.memBusBits);
  p.l2CacheSize = static_cast<int>(a.l2Bytes);
  p.maxThreadsPerMultiProcessor = static_cast<int>(a.maxThreadsPerCu);
  p.maxBlocksPerMultiProcessor = 32;
  p.managedMemory = 1;
  p.concurrentManagedAccess = 1;
  p.pageableMemoryAccess = 1;
  p.hostNativeAtomicSupported = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.hostRegisterSupported = 1;
  p.directManagedMemAccessFromHost = 1;
  p.isLargeBar = 1;
  p.clusterLaunch = a.has.clusters;
  p.cooperativeLaunch = 1;
  p.memoryPoolsSupported = 1;
  p.streamPrioritiesSupported = 1;
  p.ipcEventSupported = 1;
  p.pageableMemoryAccessUsesHostPageTables = 1;
  p.singleToDoublePrecisionPerfRatio = static_cast<int>(a.has.f32PerF64);
}

int attribute(const hipDeviceProp_tR0600 &p, const ArchInfo &arch, int id, bool &known) {
  known = true;
  switch (id) {
  case 2: return p.asyncEngineCount;
  case 3: return p.canMapHostMemory;
  case 4: return p.canUseHostPointerForRegisteredMem;
  case 5: return p.clockRate;
  case 8: return p.concurrentKernels;
  case 9: return p.concurrentManagedAccess;
  case 10: return p.cooperativeLaunch;
  case 13: return p.directManagedMemAccessFromHost;
  case 15: return p.hostNativeAtomicSupported;
  case 19: return p.l2CacheSize;
  case 23: return p.major;
  case 24: return p.managedMemory;
  case 25: return p.maxBlocksPerMultiProcessor;
  case 26: return p.maxThreadsDim[0];
  case 27: return p.maxThreadsDim[1];
  case 28: return p.maxThreadsDim[2];
  case 29: return p.maxGridSize[0];
  case 30: return p.maxGridSize[1];
  case 31: return p.maxGridSize[2];
  case 55: return p.maxThreadsDim[0];
  case 56: return p.maxThreadsPerBlock;
  case 57: return p.maxThreadsPerMultiProcessor;
  case 58: return 0x7fffffff;
  case 59: return p.memoryBusWidth;
  case 60: return p.memoryClockRate;
  case 61: return p.minor;
  case 63: return p.multiProcessorCount;
  case 65: return p.pageableMemoryAccess;
  case 67: return p.pciBusID;
  case 68: return p.pciDeviceID;
  case 69: return p.pciDomainID;
  case 71: return p.regsPerBlock;
  case 72: return p.regsPerMultiprocessor;
  case 66: return p.pageableMemoryAccessUsesHostPageTables;
  case 74: return static_cast<int>(p.sharedMemPerBlock);
  case 75: return static_cast<int>(p.sharedMemPerBlockOptin);
  case 76: return static_cast<int>(p.sharedMemPerMultiprocessor);
  case 77: return p.singleToDoublePrecisionPerfRatio;
  case 78: return p.streamPrioritiesSupported;
  case 81: return static_cast<int>(p.textureAlignment);
  case 82: return static_cast<int>(p.texturePitchAlignment);
  case 83: return 0x7fffffff;
  case 84: return static_cast<int>(std::min<size_t>(p.totalGlobalMem, 0x7fffffff));
  case 85: return p.unifiedAddressing;
  case 87: return p.warpSize;
  case 88: return p.memoryPoolsSupported;
  case 89: return 1; // virtual memory management
  case 90: return p.hostRegisterSupported;
  case 10000: return p.clockInstructionRate;
  case 10002: return static_cast<int>(p.maxSharedMemoryPerMultiProcessor);
  case 10011: return p.isLargeBar;
  case 10013: return 1; // hipStreamWaitValue
  case 10015: return p.multiProcessorCount;
  case 10016: return 1; // fine-grained memory
  case 10017: return p.clockInstructionRate; // of the wall clock, in kHz
  case 10018: return static_cast<int>(timingTable(arch).dies);
  case 10019: return static_cast<int>(arch.vgprRows); // VGPRs of a thread
  default:
    // Every other attribute is a feature that the simulator does not have.
    known = (id >= 0 && id <= 120) || (id >= 10000 && id < 10030);
    return 0;
  }
}

} // namespace

FLYSIM_API hipError_t hipInit(unsigned flags) try {
  if (flags)
    return fail(hipErrorInvalidValue, "hipInit: flags must be 0");
  return guarded([] {
    Runtime::instance().arch();
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDriverGetVersion(int *version) {
  if (!version)
    return fail(hipErrorInvalidValue, "hipDriverGetVersion: null pointer");
  *version = kHipVersion;
  return hipSuccess;
}
FLYSIM_API hipError_t hipRuntimeGetVersion(int *version) { return hipDriverGetVersion(version); }
FLYSIM_API hipError_t hipGetDeviceCount(int *count) try {
  if (!count)
    return fail(hipErrorInvalidValue, "hipGetDeviceCount: null pointer");
  return guarded([&] {
    *count = Runtime::instance().deviceCount();
    Runtime::instance().arch();
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetDevice(int *device) try {
  if (!device)
    return fail(hipErrorInvalidValue, "hipGetDevice: null pointer");
  *device = currentDevice();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipSetDevice(int device) try {
  if (!validDevice(device))
    return badDevice(device);
  setCurrentDevice(device);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device) try {
  if (!p)
    return fail(hipErrorInvalidValue, "hipGetDeviceProperties: null pointer");
  if (!validDevice(device))
    return badDevice(device);
  return guarded([&] {
    fill(*p, Runtime::instance().arch(), Runtime::instance().ordinal(device));
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000 *p, int device) try {
  hipDeviceProp_tR0600 n;
  if (!p)
    return fail(hipErrorInvalidValue, "hipGetDeviceProperties: null pointer");
  if (hipError_t e = hipGetDevicePropertiesR0600(&n, device))
    return e;
  memset(p, 0, sizeof *p);
  memcpy(p->name, n.name, sizeof p->name);
  memcpy(p->gcnArchName, n.gcnArchName, sizeof p->gcnArchName);
  p->totalGlobalMem = n.totalGlobalMem;
  p->sharedMemPerBlock = n.sharedMemPerBlock;
  p->regsPerBlock = n.regsPerBlock;
  p->warpSize = n.warpSize;
  p->maxThreadsPerBlock = n.maxThreadsPerBlock;
  memcpy(p->maxThreadsDim, n.maxThreadsDim, sizeof p->maxThreadsDim);
  memcpy(p->maxGridSize, n.maxGridSize, sizeof p->maxGridSize);
  p->clockRate = n.clockRate;
  p->memoryClockRate = n.memoryClockRate;
  p->memoryBusWidth = n.memoryBusWidth;
  p->totalConstMem = n.totalConstMem;
  p->major = n.major;
  p->minor = n.minor;
  p->multiProcessorCount = n.multiProcessorCount;
  p->l2CacheSize = n.l2CacheSize;
  p->maxThreadsPerMultiProcessor = n.maxThreadsPerMultiProcessor;
  p->clockInstructionRate = n.clockInstructionRate;
  p->concurrentKernels = n.concurrentKernels;
  p->maxSharedMemoryPerMultiProcessor = n.maxSharedMemoryPerMultiProcessor;
  p->canMapHostMemory = n.canMapHostMemory;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000 *p, int device) {
  return hipGetDevicePropertiesR0000(p, device);
}
FLYSIM_API hipError_t hipDeviceGetAttribute(int *value, int id, int device) try {
  hipDeviceProp_tR0600 p;
  if (!value)
    return fail(hipErrorInvalidValue, "hipDeviceGetAttribute: null pointer");
  if (hipError_t e = hipGetDevicePropertiesR0600(&p, device))
    return e;
  return guarded([&] {
    bool known;
    *value = attribute(p, Runtime::instance().arch(), id, known);
    return known ? hipSuccess : fail(hipErrorInvalidValue, format("device attribute %d does not exist", id));
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGet(int *handle, int device) try {
  if (!handle)
    return fail(hipErrorInvalidValue, "hipDeviceGet: null pointer");
  if (!validDevice(device))
    return badDevice(device);
  *handle = device;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetName(char *name, int size, int device) try {
  hipDeviceProp_tR0600 p;
  if (hipError_t e = hipGetDevicePropertiesR0600(&p, device))
    return e;
  if (!name || size <= 0)
    return fail(hipErrorInvalidValue, "hipDeviceGetName: no buffer");
  snprintf(name, static_cast<size_t>(size), "%s", p.name);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceTotalMem(size_t *bytes, int device) try {
  hipDeviceProp_tR0600 p;
  if (!bytes)
    return fail(hipErrorInvalidValue, "hipDeviceTotalMem: null pointer");
  if (hipError_t e = hipGetDevicePropertiesR0600(&p, device))
    return e;
  *bytes = p.totalGlobalMem;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceComputeCapability(int *major, int *minor, int device) try {
  hipDeviceProp_tR0600 p;
  if (!major || !minor)
    return fail(hipErrorInvalidValue, "hipDeviceComputeCapability: null pointer");
  if (hipError_t e = hipGetDevicePropertiesR0600(&p, device))
    return e;
  *major = p.major;
  *minor = p.minor;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceGetPCIBusId(char *id, int size, int device) try {
  if (!validDevice(device))
    return badDevice(device);
  if (!id || size <= 0)
    return fail(hipErrorInvalidValue, "hipDeviceGetPCIBusId: no buffer");
  if (snprintf(id, static_cast<size_t>(size), "0000:00:%02x.0",
               Runtime::instance().ordinal(device)) >= size)
    return fail(hipErrorInvalidValue, "hipDeviceGetPCIBusId: the name and its end take 13 bytes");
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDeviceSynchronize() try {
  if (hipError_t e = allowedInCapture("hipDeviceSynchronize"))
    return e;
  return finishDevice();
} FLYSIM_GUARDED
namespace {
thread_local unsigned deviceFlags = 0;
}
FLYSIM_API hipError_t hipSetDeviceFlags(unsigned flags) {
  unsigned schedule = flags & 7; // to spin, to yield or to sleep while waiting
  if (flags & ~0x1fu || (schedule & (schedule - 1)))
    return fail(hipErrorInvalidValue, "hipSetDeviceFlags: unknown flags, or several schedules");
  deviceFlags = flags;
  return hipSuccess;
}
FLYSIM_API hipError_t hipGetDeviceFlags(unsigned *flags) {
  if (!flags)
    return fail(hipErrorInvalidValue, "hipGetDeviceFlags: null pointer");
  *flags = deviceFlags;
  return hipSuccess;
}
FLYSIM_API hipError_t hipDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least)
    *least = 1;
  if (greatest)
    *greatest = -1;
  return hipSuccess;
}
FLYSIM_API hipError_t hipDeviceCanAccessPeer(int *can, int device, int peer) try {
  for (int d : {device, peer})
    if (!validDevice(d))
      return badDevice(d);
  if (!can)
    return fail(hipErrorInvalidValue, "hipDeviceCanAccessPeer: null pointer");
  *can = device != peer;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemGetInfo(size_t *free, size_t *total) {
  return guarded([&] {
    size_t all = Runtime::instance().arch().memoryBytes;
    if (total)
      *total = all;
    if (free)
      *free = all - std::min<size_t>(all, AddressSpace::instance().bytesInUse());
    return hipSuccess;
  });
}

//===--- contexts: one per device (DeviceReset.cpp empties it) ---------------===//

FLYSIM_API hipError_t hipDevicePrimaryCtxRetain(void **context, int device) try {
  if (!validDevice(device))
    return badDevice(device);
  if (!context)
    return fail(hipErrorInvalidValue, "context: null pointer");
  *context = reinterpret_cast<void *>(static_cast<intptr_t>(device + 1));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDevicePrimaryCtxRelease(int device) try {
  return validDevice(device) ? hipSuccess : badDevice(device);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDevicePrimaryCtxSetFlags(int device, unsigned) try {
  return validDevice(device) ? hipSuccess : badDevice(device);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) try {
  if (!validDevice(device))
    return badDevice(device);
  if (flags)
    *flags = 0;
  if (active)
    *active = 1;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipCtxCreate(void **context, unsigned, int device) try {
  if (hipError_t e = hipDevicePrimaryCtxRetain(context, device))
    return e;
  setCurrentDevice(device);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipCtxDestroy(void *) { return hipSuccess; }
FLYSIM_API hipError_t hipCtxGetCurrent(void **context) {
  return hipDevicePrimaryCtxRetain(context, currentDevice());
}
FLYSIM_API hipError_t hipCtxSetCurrent(void *context) try {
  int device = static_cast<int>(reinterpret_cast<intptr_t>(context)) - 1;
  return context ? hipSetDevice(device) : hipSuccess;
} FLYSIM_GUARDED
namespace {
thread_local std::vector<int> pushedDevices; ///< what hipCtxPopCurrent goes back to
} // namespace
FLYSIM_API hipError_t hipCtxPushCurrent(void *context) try {
  int before = currentDevice();
  if (!context)
    return fail(hipErrorInvalidContext, "hipCtxPushCurrent: null context");
  if (hipError_t e = hipCtxSetCurrent(context))
    return e;
  pushedDevices.push_back(before);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipCtxPopCurrent(void **context) try {
  if (context)
    if (hipError_t e = hipCtxGetCurrent(context))
      return e;
  if (!pushedDevices.empty()) {
    setCurrentDevice(pushedDevices.back());
    pushedDevices.pop_back();
  }
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipCtxGetDevice(int *device) { return hipGetDevice(device); }
FLYSIM_API hipError_t hipCtxSynchronize() try { return finishDevice(); } FLYSIM_GUARDED
