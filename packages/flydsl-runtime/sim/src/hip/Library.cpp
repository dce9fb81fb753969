//===- Library.cpp - libraries of kernels, launches on several devices ----===//
//
// A library is a module that belongs to no device in particular, which here none does.
//
//===----------------------------------------------------------------------===//

#include "hip/Runtime.h"

using namespace flysim;

FLYSIM_API hipError_t hipModuleLoadFatBinary(void **module, const void *image) {
  return hipModuleLoadData(module, image);
}

// Options of the compiler and of the library have no meaning for finished code.
FLYSIM_API hipError_t hipLibraryLoadData(void **library, const void *code, void *, void **, unsigned,
                                         void *, void **, unsigned) {
  return hipModuleLoadData(library, code);
}
FLYSIM_API hipError_t hipLibraryLoadFromFile(void **library, const char *path, void *, void **, unsigned,
                                             void *, void **, unsigned) {
  return hipModuleLoad(library, path);
}
FLYSIM_API hipError_t hipLibraryUnload(void *library) try {
  return Runtime::instance().modules.contains(library)
             ? hipModuleUnload(library)
             : fail(hipErrorInvalidHandle, "hipLibraryUnload: invalid library");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLibraryGetKernel(void **kernel, void *library, const char *name) {
  return hipModuleGetFunction(kernel, library, name);
}
FLYSIM_API hipError_t hipLibraryGetKernelCount(unsigned *count, void *library) try {
  if (!count)
    return fail(hipErrorInvalidValue, "hipLibraryGetKernelCount: null pointer");
  return hipModuleGetFunctionCount(count, library);
} FLYSIM_GUARDED

FLYSIM_API hipError_t hipLibraryEnumerateKernels(void **kernels, unsigned room, void *library) try {
  if (!kernels || !Runtime::instance().modules.contains(library))
    return fail(hipErrorInvalidValue, "hipLibraryEnumerateKernels: null pointer or invalid library");
  unsigned n = 0;
  for (auto &f : static_cast<Module *>(library)->functions)
    if (n < room)
      kernels[n++] = &f.second;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLibraryGetGlobal(void **address, size_t *bytes, void *library, const char *name) {
  return hipModuleGetGlobal(address, bytes, library, name);
}
FLYSIM_API hipError_t hipKernelGetName(const char **name, void *kernel) try {
  const Function *f = nullptr;
  if (!name)
    return fail(hipErrorInvalidValue, "hipKernelGetName: null pointer");
  if (hipError_t e = resolveKernel(kernel, &f))
    return e;
  *name = f->kernel->name.c_str();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipKernelGetFunction(void **function, void *kernel) try {
  const Function *f = nullptr;
  if (!function)
    return fail(hipErrorInvalidValue, "hipKernelGetFunction: null pointer");
  if (hipError_t e = resolveKernel(kernel, &f))
    return e;
  *function = kernel;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipKernelGetLibrary(void **library, void *kernel) try {
  const Function *f = nullptr;
  if (!library)
    return fail(hipErrorInvalidValue, "hipKernelGetLibrary: null pointer");
  if (hipError_t e = resolveKernel(kernel, &f))
    return e;
  *library = f->module;
  return hipSuccess;
} FLYSIM_GUARDED

namespace {

/// hipLaunchParams and hipFunctionLaunchParams.
struct HostLaunch {
  void *function;
  dim3 grid, block;
  void **params;
  size_t lds;
  void *stream;
};
struct FunctionLaunch {
  void *function;
  unsigned grid[3], block[3], lds;
  void *stream;
  void **params;
};
static_assert(sizeof(HostLaunch) == 56 && sizeof(FunctionLaunch) == 56, "HIP binary interface");

/// Every launch is for another device, which its stream says.
template <class Launch> hipError_t checkDevices(const Launch *list, int count) {
  Runtime &r = Runtime::instance();
  if (!list || count < 1 || count > r.deviceCount())
    return fail(hipErrorInvalidValue, "cooperative launch: null pointer or invalid number of devices");
  std::set<int> devices;
  for (int n = 0; n < count; ++n)
    if (!r.streams.contains(list[n].stream) ||
        !devices.insert(static_cast<Stream *>(list[n].stream)->device).second)
      return fail(hipErrorInvalidDevice, "cooperative launch: every launch needs a stream of another device");
  return hipSuccess;
}

template <class Launch, class Start> hipError_t eachDevice(const Launch *list, int count, Start start) {
  if (hipError_t e = checkDevices(list, count))
    return e;
  int before = currentDevice();
  hipError_t e = hipSuccess;
  for (int n = 0; n < count && !e; ++n) {
    setCurrentDevice(static_cast<Stream *>(list[n].stream)->device);
    e = start(list[n]);
  }
  setCurrentDevice(before);
  return e;
}

} // namespace

FLYSIM_API hipError_t hipLaunchCooperativeKernelMultiDevice(HostLaunch *list, int count, unsigned) try {
  return eachDevice(list, count, [](const HostLaunch &l) {
    return hipLaunchCooperativeKernel(l.function, l.grid, l.block, l.params, static_cast<unsigned>(l.lds),
                                      l.stream);
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleLaunchCooperativeKernelMultiDevice(FunctionLaunch *list, unsigned count,
                                                                  unsigned) try {
  return eachDevice(list, static_cast<int>(std::min(count, 1000u)), [](const FunctionLaunch &l) {
    return hipModuleLaunchCooperativeKernel(l.function, l.grid[0], l.grid[1], l.grid[2], l.block[0],
                                            l.block[1], l.block[2], l.lds, l.stream, l.params);
  });
} FLYSIM_GUARDED
