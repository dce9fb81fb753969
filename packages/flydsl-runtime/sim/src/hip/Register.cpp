//===- Register.cpp - kernels of programs compiled as HIP -----------------===//
//
// Host code of HIP programs registers its embedded code objects; kernels and variables go by the
// addresses of what stands for them in the host code.
//
//===----------------------------------------------------------------------===//

#include "hip/DeviceReset.h"
#include "hip/Runtime.h"

#include "check/FindingsFile.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <set>

using namespace flysim;

namespace {

/// A fat binary of the program; loaded at the first use of one of its symbols.
struct FatBinary {
  const void *image = nullptr;
  void *module = nullptr;
  std::vector<std::pair<std::string, void *>> managed; ///< variables and their memory
};
struct HostSymbol {
  FatBinary *binary;
  std::string name;
  void *function = nullptr;
};
struct FatWrapper {
  uint32_t magic, version;
  const void *binary;
  void *unused;
};
std::mutex mutex;
std::map<const void *, HostSymbol> kernels;
std::map<const void *, HostSymbol> variables;
std::set<const void *> managedVariables; ///< their memory

/// Loads the module; its managed variables learn where their memory is.
hipError_t load(FatBinary &b) {
  if (b.module)
    return hipSuccess;
  if (hipError_t e = hipModuleLoadData(&b.module, b.image))
    return e;
  static_cast<Module *>(b.module)->device = Module::kOfNoDevice;
  for (const auto &[name, memory] : b.managed) {
    void *pointer = nullptr;
    size_t bytes = 0;
    if (hipModuleGetGlobal(&pointer, &bytes, b.module, name.c_str()) == hipSuccess && bytes >= sizeof memory)
      memcpy(pointer, &memory, sizeof memory);
  }
  return hipSuccess;
}

hipError_t functionOf(const void *host, void **out) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = kernels.find(host);
  if (it == kernels.end())
    return fail(hipErrorInvalidHandle, "launch: the host function is no registered kernel");
  HostSymbol &s = it->second;
  if (!s.function) {
    hipError_t e = load(*s.binary);
    if (!e)
      e = hipModuleGetFunction(&s.function, s.binary->module, s.name.c_str());
    if (e) {
      // Many programs do not look at the error of a launch.
      Fault fault{FaultKind::InvalidImage, lastErrorMessage()};
      recordFault(s.name, Runtime::instance().arch().name, fault);
      return e;
    }
  }
  *out = s.function;
  return hipSuccess;
}

} // namespace

bool flysim::isManagedVariable(const void *p) {
  std::lock_guard<std::mutex> lock(mutex);
  return managedVariables.count(p) != 0;
}

// Without host memory nothing is registered: that is an error of the launch, which does not find its kernel.
FLYSIM_API void **__hipRegisterFatBinary(const void *data) try {
  FatWrapper w;
  memcpy(&w, data, sizeof w);
  auto b = std::make_unique<FatBinary>();
  b->image = w.binary;
  Runtime::instance().noteImage(w.binary);
  return reinterpret_cast<void **>(b.release());
} catch (const std::bad_alloc &) {
  return nullptr;
}
FLYSIM_API void __hipUnregisterFatBinary(void **handle) {
  auto *b = reinterpret_cast<FatBinary *>(handle);
  if (!b)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto *table : {&kernels, &variables})
    for (auto it = table->begin(); it != table->end();)
      it = it->second.binary == b ? table->erase(it) : std::next(it);
  if (b->module)
    hipModuleUnload(b->module);
  Runtime::instance().forgetImage(b->image);
  delete b;
}
FLYSIM_API void __hipRegisterFunction(void **handle, const void *host, char *, const char *name,
                                      unsigned, void *, void *, void *, void *, int *) try {
  if (!handle)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  kernels.insert_or_assign(host, HostSymbol{reinterpret_cast<FatBinary *>(handle), name});
} catch (const std::bad_alloc &) { // see __hipRegisterFatBinary
}
FLYSIM_API void __hipRegisterVar(void **handle, void *host, char *, char *name, int, size_t, int,
                                 int) try {
  if (!handle)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  variables.insert_or_assign(host, HostSymbol{reinterpret_cast<FatBinary *>(handle), name});
} catch (const std::bad_alloc &) { // see __hipRegisterFatBinary
}
/// `pointer` is the host's view of the variable, which becomes the address of its memory.
FLYSIM_API void __hipRegisterManagedVar(void **handle, void **pointer, void *initial, const char *name,
                                        size_t size, unsigned) try {
  if (!handle || !pointer || !name || hipMallocManaged(pointer, size, 1))
    return;
  if (initial && *pointer)
    memcpy(*pointer, initial, size);
  std::lock_guard<std::mutex> lock(mutex);
  reinterpret_cast<FatBinary *>(handle)->managed.emplace_back(name, *pointer);
  managedVariables.insert(*pointer);
} catch (const std::bad_alloc &) { // see __hipRegisterFatBinary
}
FLYSIM_API hipError_t hipGetFuncBySymbol(void **function, const void *host) try {
  return functionOf(host, function);
} FLYSIM_GUARDED

struct hipFuncAttributes {
  int binaryVersion, cacheModeCA;
  size_t constSizeBytes, localSizeBytes;
  int maxDynamicSharedSizeBytes, maxThreadsPerBlock, numRegs, preferredShmemCarveout, ptxVersion;
  size_t sharedSizeBytes;
};
FLYSIM_API hipError_t hipFuncGetAttributes(hipFuncAttributes *out, const void *host) try {
  void *function = nullptr;
  if (!out)
    return fail(hipErrorInvalidValue, "hipFuncGetAttributes: null pointer");
  if (hipError_t e = functionOf(host, &function))
    return e;
  const KernelInfo &k = *static_cast<Function *>(function)->kernel;
  memset(out, 0, sizeof *out);
  const ArchInfo &a = Runtime::instance().arch();
  out->binaryVersion = static_cast<int>(a.major * 10 + a.minor);
  out->localSizeBytes = k.scratchBytes;
  out->maxDynamicSharedSizeBytes = static_cast<int>(a.ldsPerWorkgroup - k.ldsBytes);
  out->maxThreadsPerBlock = static_cast<int>(k.maxWorkgroup);
  out->numRegs = static_cast<int>(k.vgprs);
  out->ptxVersion = out->binaryVersion;
  out->sharedSizeBytes = k.ldsBytes;
  return hipSuccess;
} FLYSIM_GUARDED

//===--- variables of the program -------------------------------------------===//

namespace {

hipError_t variableOf(const void *host, void **address, size_t *bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = variables.find(host);
  if (it == variables.end())
    return fail(hipErrorInvalidSymbol, "the host variable is no registered device variable");
  if (hipError_t e = load(*it->second.binary))
    return e;
  return hipModuleGetGlobal(address, bytes, it->second.binary->module, it->second.name.c_str());
}

/// The device address of `size` bytes at `offset` of a variable.
hipError_t partOf(const void *host, size_t size, size_t offset, char **out) {
  void *address = nullptr;
  size_t bytes = 0;
  if (hipError_t e = variableOf(host, &address, &bytes))
    return e;
  if (offset > bytes || size > bytes - offset)
    return fail(hipErrorInvalidValue, format("%zu bytes at offset %zu of a variable of %zu bytes", size,
                                             offset, bytes));
  *out = static_cast<char *>(address) + offset;
  return hipSuccess;
}

} // namespace

FLYSIM_API hipError_t hipGetSymbolAddress(void **address, const void *host) try {
  size_t bytes = 0;
  return address ? variableOf(host, address, &bytes)
                 : fail(hipErrorInvalidValue, "hipGetSymbolAddress: null pointer");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipGetSymbolSize(size_t *bytes, const void *host) try {
  void *address = nullptr;
  return bytes ? variableOf(host, &address, bytes)
               : fail(hipErrorInvalidValue, "hipGetSymbolSize: null pointer");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyToSymbol(const void *host, const void *src, size_t size, size_t offset,
                                        int kind) try {
  char *at = nullptr;
  hipError_t e = partOf(host, size, offset, &at);
  return e ? e : hipMemcpy(at, src, size, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyToSymbolAsync(const void *host, const void *src, size_t size,
                                             size_t offset, int kind, void *stream) try {
  char *at = nullptr;
  hipError_t e = partOf(host, size, offset, &at);
  return e ? e : hipMemcpyAsync(at, src, size, kind, stream);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyFromSymbol(void *dst, const void *host, size_t size, size_t offset,
                                          int kind) try {
  char *at = nullptr;
  hipError_t e = partOf(host, size, offset, &at);
  return e ? e : hipMemcpy(dst, at, size, kind);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *host, size_t size, size_t offset,
                                               int kind, void *stream) try {
  char *at = nullptr;
  hipError_t e = partOf(host, size, offset, &at);
  return e ? e : hipMemcpyAsync(dst, at, size, kind, stream);
} FLYSIM_GUARDED
