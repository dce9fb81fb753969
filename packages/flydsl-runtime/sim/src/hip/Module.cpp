//===- Module.cpp - modules, functions and launches -----------------------===//

#include "hip/Runtime.h"

#include "check/FindingsFile.h"
#include "exec/Interrupt.h"
#include "exec/Machine.h"
#include "hip/Hostcall.h"
#include "hip/Printf.h"
#include "hip/Queues.h"
#include "memory/Memory.h"
#include "support/CrashGuard.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

extern "C" hipError_t hipEventRecord(void *event, void *stream);
extern "C" hipError_t hipGetFuncBySymbol(void **function, const void *host);

namespace flysim {

const Program *Module::programFor(const KernelInfo &kernel) {
  std::lock_guard<std::mutex> lock(mutex);
  for (const CodeRange &range : object->code) {
    if (kernel.entryAddr < range.addr || kernel.entryAddr >= range.addr + range.size)
      continue;
    auto &slot = programs[{range.addr, kernel.wave32}];
    if (!slot)
      slot = decodeProgram(*object, range, *findArch(object->arch), kernel.wave32);
    return slot.get();
  }
  raise(FaultKind::InvalidImage, "kernel " + kernel.name + " has its entry outside the code");
}

Function *checkedFunction(const void *handle) {
  Runtime &r = Runtime::instance();
  std::lock_guard<std::mutex> lock(r.functionMutex);
  auto *f = static_cast<const Function *>(handle);
  return r.functions.count(f) ? const_cast<Function *>(f) : nullptr;
}

namespace {

void putHidden(std::vector<uint8_t> &seg, const KernelArg &a, const uint32_t grid[3],
               const uint32_t block[3], uint32_t dynamicLds) {
  auto put = [&](uint64_t v) { memcpy(&seg[a.offset], &v, std::min<uint32_t>(a.size, 8)); };
  const std::string &k = a.kind;
  for (unsigned i = 0; i < 3; ++i) {
    char axis = static_cast<char>('x' + i);
    if (k == std::string("hidden_block_count_") + axis)
      put(grid[i]);
    else if (k == std::string("hidden_group_size_") + axis)
      put(block[i]);
    else if (k == std::string("hidden_remainder_") + axis ||
             k == std::string("hidden_global_offset_") + axis)
      put(0);
  }
  if (k == "hidden_grid_dims")
    put(grid[2] * block[2] > 1 ? 3 : grid[1] * block[1] > 1 ? 2 : 1);
  else if (k == "hidden_dynamic_lds_size")
    put(dynamicLds);
  else if (k == "hidden_private_base")
    put(0x80020000u);
  else if (k == "hidden_shared_base")
    put(0x80010000u);
}

/// The kernarg segment: explicit arguments from either argument form, hidden ones
/// computed.
std::vector<uint8_t> packArguments(const KernelInfo &k, const uint32_t grid[3],
                                   const uint32_t block[3], uint32_t dynamicLds, void **params,
                                   void **extra) {
  std::vector<uint8_t> seg(k.kernargBytes);
  const uint8_t *buffer = nullptr;
  size_t bufferSize = 0;
  if (extra) {
    // Pairs of tag and value: 1 buffer, 2 pointer to its size, 3 ends the list.
    for (unsigned i = 0; extra[i] != reinterpret_cast<void *>(3); i += 2) {
      if (extra[i] == reinterpret_cast<void *>(1))
        buffer = static_cast<const uint8_t *>(extra[i + 1]);
      else if (extra[i] == reinterpret_cast<void *>(2))
        bufferSize = *static_cast<size_t *>(extra[i + 1]);
      else
        raise(FaultKind::InvalidConfiguration, "malformed 'extra' launch arguments");
    }
    // Hand-written kernels declare the padding of their 16-byte argument slots as arguments
    // by value, and their hosts leave out the last one: HIP copies what is given.
    constexpr size_t kSlot = 16;
    size_t needed = 0;
    for (const KernelArg &a : k.args) {
      if (a.kind.compare(0, 7, "hidden_") == 0)
        continue;
      size_t end = a.offset + a.size;
      bool padding = a.kind == "by_value" && a.offset >= bufferSize && end < bufferSize + kSlot;
      if (!padding)
        needed = std::max(needed, end);
    }
    if (!buffer || bufferSize < needed)
      raise(FaultKind::InvalidConfiguration,
            format("kernel %s: %zu bytes of arguments given, %zu needed", k.name.c_str(),
                   bufferSize, needed));
    memcpy(seg.data(), buffer, std::min(bufferSize, seg.size()));
  }
  unsigned next = 0;
  for (const KernelArg &a : k.args) {
    if (a.kind.compare(0, 7, "hidden_") == 0) {
      putHidden(seg, a, grid, block, dynamicLds);
    } else if (!extra) {
      if (!params || !params[next])
        raise(FaultKind::InvalidConfiguration,
              format("kernel %s: argument %u is missing", k.name.c_str(), next));
      memcpy(&seg[a.offset], params[next++], a.size);
    }
  }
  return seg;
}

hipError_t loadImage(void **out, const void *image, size_t size) {
  if (!out || !image)
    return fail(hipErrorInvalidValue, "hipModuleLoadData: null pointer");
  *out = nullptr;
  return guarded([&]() -> hipError_t {
    Runtime &r = Runtime::instance();
    std::unique_ptr<CodeObject> object;
    std::string why;
    auto load = [&] {
      std::string arch = r.arch().name;
      std::vector<uint8_t> found = selectImage(image, size, arch, why);
      if (found.empty())
        return false;
      object = CodeObject::load(found.data(), found.size());
      why = "the code object is for " + object->arch + ", the simulated device is " + arch;
      return object->arch == arch;
    };
    if (!load()) {
      r.adoptArchOf(image, size); // unless the program chose the device by name
      if (!load())
        return fail(hipErrorNoBinaryForGpu, why);
    }
    auto module = std::make_unique<Module>();
    module->object = std::move(object);
    for (const auto &k : module->object->kernels)
      module->functions[k.first] = Function{module.get(), &k.second};
    {
      std::lock_guard<std::mutex> lock(r.functionMutex);
      for (const auto &f : module->functions)
        r.functions.insert(&f.second);
    }
    *out = r.modules.add(std::move(module));
    return hipSuccess;
  });
}

} // namespace

namespace {
/// The host arrays of the calling thread's next launch (flysimLaunchRanges).
struct Stated {
  bool any = false;
  std::vector<Region> ranges;
};
thread_local Stated nextRanges;
/// Their names (flysimLaunchArguments).
thread_local std::vector<LaunchArgument> nextArguments;

/// What a launch may reach of host memory that HIP does not know. FLYDSL_SIM_HOST_MEMORY=mapped
/// opens all of it to programs that state nothing.
Dispatch::Host hostReach(const Stated &stated) {
  const char *text = getenv("FLYDSL_SIM_HOST_MEMORY");
  bool mapped = text && !strcmp(text, "mapped");
  if (text && *text && !mapped && strcmp(text, "registered"))
    raise(FaultKind::InvalidConfiguration,
          format("FLYDSL_SIM_HOST_MEMORY=%s: expected 'registered' or 'mapped'", text));
  if (!stated.any)
    return mapped ? Dispatch::Host::Mapped : Dispatch::Host::None;
  return stated.ranges.empty() ? Dispatch::Host::Mapped : Dispatch::Host::Arrays;
}
} // namespace

/// FLYDSL_SIM_STALL_SECONDS, by default 3. Ten times as long where a later call of the program may
/// write what a kernel waits for, and never where another process may.
static double stallSeconds() {
  if (memoryIsShared())
    return 0;
  const char *text = getenv("FLYDSL_SIM_STALL_SECONDS");
  double seconds = text && *text ? strtod(text, nullptr) : 3;
  return queuesEnabled() ? 10 * seconds : seconds;
}

void KernelCall::run() const {
  Dispatch d;
  d.object = function->module->object.get();
  d.kernel = function->kernel;
  d.program = function->module->programFor(*function->kernel);
  std::copy(grid, grid + 3, d.grid);
  std::copy(block, block + 3, d.block);
  std::copy(cluster, cluster + 3, d.cluster);
  d.dynamicLds = dynamicLds;
  d.hostRanges = hostRanges;
  d.arguments = arguments;
  d.host = host;
  d.ownThreads = queuesEnabled();
  d.stops = stopRequests();
  d.stallSeconds = stallSeconds();
  try {
    validate(d);
  } catch (const Fault &fault) {
    recordFault(d.kernel->name, d.object->arch, fault);
    throw;
  }
  // A call may run on several streams at once: what the launch adds goes to a copy.
  std::vector<uint8_t> segment = args;
  d.kernarg = &segment;
  std::unique_ptr<PrintfBuffer> output;
  for (const KernelArg &a : d.kernel->args)
    if (a.kind == "hidden_printf_buffer" && !d.object->printfFormats.empty())
      output = std::make_unique<PrintfBuffer>(*d.object, a.offset, segment.data());
  uint64_t groups = uint64_t(grid[0]) * grid[1] * grid[2];
  uint64_t items = uint64_t(block[0]) * block[1] * block[2], lanes = d.kernel->waveSize();
  uint64_t waves = std::min(groups, mostGroups()) * ((items + lanes - 1) / lanes);
  std::unique_ptr<HiddenMemory> hidden =
      HiddenMemory::make(*d.kernel, segment.data(), groups, waves, cooperative, device);
  d.service = hidden.get();
  recordKernel(d);
  try {
    runDispatch(d);
  } catch (const Fault &fault) {
    if (output)
      output->flush(); // what led to the fault
    tellFault(fault);
    recordFault(d.kernel->name, d.object->arch, fault);
    throw;
  }
  if (output)
    output->flush();
}

std::shared_ptr<KernelCall> makeCall(const Function &f, const uint32_t grid[3],
                                     const uint32_t block[3], uint32_t dynamicLds, void **params,
                                     void **extra, const uint32_t *cluster) {
  const KernelInfo &k = *f.kernel;
  for (unsigned i = 0; i < 3; ++i)
    if (grid[i] == 0 || block[i] == 0)
      raise(FaultKind::InvalidConfiguration,
            format("kernel %s: empty grid or block (%u,%u,%u) x (%u,%u,%u)", k.name.c_str(), grid[0],
                   grid[1], grid[2], block[0], block[1], block[2]));
  auto call = std::make_shared<KernelCall>();
  call->function = &f;
  std::copy(grid, grid + 3, call->grid);
  std::copy(block, block + 3, call->block);
  for (unsigned i = 0; i < 3; ++i)
    call->cluster[i] = std::max(1u, cluster ? cluster[i] : k.clusterDims[i]);
  call->dynamicLds = dynamicLds;
  call->device = currentDevice();
  f.module->programFor(k); // an image without code fails here, not when it runs
  // The code object says how much of each argument is read, and may lie.
  uint64_t address = 0;
  installCrashHandler();
  if (!protectedCall([&] { call->args = packArguments(k, grid, block, dynamicLds, params, extra); },
                     address))
    raise(FaultKind::InvalidConfiguration,
          format("kernel %s: the arguments that its code object describes reach to 0x%llx, which the "
                 "program has not mapped",
                 k.name.c_str(), (unsigned long long)address));
  for (const KernelArg &a : k.args)
    if (a.kind.compare(0, 7, "hidden_") != 0)
      call->parameters.push_back(call->args.data() + a.offset);
  return call;
}

hipError_t resolveKernel(const void *handle, const Function **out) {
  *out = checkedFunction(handle);
  if (*out)
    return hipSuccess;
  void *registered = nullptr;
  if (hipError_t e = hipGetFuncBySymbol(&registered, handle))
    return e;
  *out = static_cast<const Function *>(registered);
  return hipSuccess;
}

hipError_t kernelWork(const hipKernelNodeParams &p, NodeWork &out) {
  const Function *f = nullptr;
  if (hipError_t e = resolveKernel(p.func, &f))
    return e == hipErrorInvalidHandle ? fail(hipErrorInvalidDeviceFunction, lastErrorMessage()) : e;
  const uint32_t grid[3] = {p.gridDim.x, p.gridDim.y, p.gridDim.z};
  const uint32_t block[3] = {p.blockDim.x, p.blockDim.y, p.blockDim.z};
  return guarded([&] {
    out = NodeWork();
    out.type = NodeType::Kernel;
    std::shared_ptr<KernelCall> call =
        makeCall(*f, grid, block, p.sharedMemBytes, p.kernelParams, p.extra, nullptr);
    call->host = hostReach({});
    out.kernel = call;
    out.run = [call] { call->run(); };
    return hipSuccess;
  });
}

hipError_t launchKernel(const void *function, const uint32_t grid[3], const uint32_t block[3],
                        uint32_t dynamicLds, void *stream, void **params, void **extra,
                        const uint32_t *cluster, bool cooperative) {
  Stated stated = std::move(nextRanges);
  nextRanges = {};
  std::vector<LaunchArgument> named = std::move(nextArguments);
  nextArguments.clear();
  Function *f = checkedFunction(function);
  if (!f)
    return fail(hipErrorInvalidHandle, "launch: the function is not from a loaded module");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "launch: invalid stream");
  return guarded([&] {
    std::shared_ptr<KernelCall> call;
    try {
      call = makeCall(*f, grid, block, dynamicLds, params, extra, cluster);
    } catch (const Fault &fault) {
      recordFault(f->kernel->name, f->module->object->arch, fault);
      throw;
    }
    call->host = hostReach(stated);
    call->hostRanges = std::move(stated.ranges);
    call->arguments = std::move(named);
    call->cooperative = cooperative;
    NodeWork work;
    work.type = NodeType::Kernel;
    work.kernel = call;
    work.run = [call] { call->run(); };
    return enqueue(stream, std::move(work));
  });
}

} // namespace flysim

using namespace flysim;

FLYSIM_API hipError_t hipModuleLoadData(void **module, const void *image) {
  return loadImage(module, image, 0);
}
FLYSIM_API hipError_t hipModuleLoadDataEx(void **module, const void *image, unsigned, int *,
                                          void **) {
  return loadImage(module, image, 0);
}
/// As hipModuleLoadData with the size of the image, so that a truncated file is
/// detected instead of read past its end.
FLYSIM_API hipError_t flysimModuleLoadSized(void **module, const void *image, size_t size) {
  return loadImage(module, image, size);
}
FLYSIM_API hipError_t hipModuleLoad(void **module, const char *path) {
  if (!path)
    return fail(hipErrorInvalidValue, "hipModuleLoad: null path");
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail(hipErrorFileNotFound, std::string("cannot open ") + path);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  return loadImage(module, bytes.data(), bytes.size());
}
FLYSIM_API hipError_t hipModuleUnload(void *module) {
  Runtime &r = Runtime::instance();
  if (!r.modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleUnload: invalid module");
  finishAll(); // kernels of the module may still run
  {
    std::lock_guard<std::mutex> lock(r.functionMutex);
    for (const auto &f : static_cast<Module *>(module)->functions)
      r.functions.erase(&f.second);
  }
  r.modules.destroy(module);
  return hipSuccess;
}
FLYSIM_API hipError_t hipModuleGetFunction(void **function, void *module, const char *name) {
  if (!function || !name)
    return fail(hipErrorInvalidValue, "hipModuleGetFunction: null pointer");
  if (!Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetFunction: invalid module");
  auto *m = static_cast<Module *>(module);
  auto it = m->functions.find(name);
  if (it == m->functions.end()) {
    std::string names;
    for (const auto &f : m->functions)
      names += (names.empty() ? "" : ", ") + f.first;
    return fail(hipErrorNotFound,
                std::string("no kernel '") + name + "' in the module (it has " + names + ")");
  }
  *function = &it->second;
  return hipSuccess;
}
FLYSIM_API hipError_t hipModuleGetFunctionCount(unsigned *count, void *module) {
  if (!count || !Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetFunctionCount: invalid module");
  *count = static_cast<unsigned>(static_cast<Module *>(module)->functions.size());
  return hipSuccess;
}
FLYSIM_API hipError_t hipModuleGetGlobal(void **address, size_t *bytes, void *module,
                                         const char *name) {
  if (!name || !Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetGlobal: invalid module");
  auto &globals = static_cast<Module *>(module)->object->globals;
  auto it = globals.find(name);
  if (it == globals.end())
    return fail(hipErrorNotFound, std::string("no global '") + name + "' in the module");
  if (address)
    *address = reinterpret_cast<void *>(it->second.addr);
  if (bytes)
    *bytes = it->second.size;
  return hipSuccess;
}
FLYSIM_API hipError_t hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                            void *stream, void **params, void **extra) {
  const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launchKernel(f, grid, block, lds, stream, params, extra);
}
FLYSIM_API hipError_t hipExtModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                               unsigned bx, unsigned by, unsigned bz, size_t lds,
                                               void *stream, void **params, void **extra,
                                               void *start, void *stop, unsigned) {
  // Sizes are in work-items here.
  if (!bx || !by || !bz || gx % bx || gy % by || gz % bz)
    return fail(hipErrorInvalidConfiguration,
                "hipExtModuleLaunchKernel: the global size is no multiple of the work-group size");
  Runtime &r = Runtime::instance();
  auto record = [&](void *event) {
    if (event && r.events.contains(event))
      hipEventRecord(event, stream);
  };
  const uint32_t grid[3] = {gx / bx, gy / by, gz / bz}, block[3] = {bx, by, bz};
  record(start);
  hipError_t e = launchKernel(f, grid, block, static_cast<uint32_t>(lds), stream, params, extra);
  record(stop);
  return e;
}
FLYSIM_API hipError_t hipHccModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                               unsigned bx, unsigned by, unsigned bz, size_t lds,
                                               void *stream, void **params, void **extra,
                                               void *start, void *stop) {
  return hipExtModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, stream, params, extra, start,
                                  stop, 0);
}
FLYSIM_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *c, void *f, void **params,
                                           void **extra) {
  if (!c)
    return fail(hipErrorInvalidValue, "hipDrvLaunchKernelEx: null configuration");
  const Function *function = nullptr;
  if (hipError_t e = resolveKernel(f, &function))
    return e;
  if ((c->numAttrs && !c->attrs) || c->numAttrs > 64)
    return fail(hipErrorInvalidValue, "hipDrvLaunchKernelEx: invalid attributes");
  uint32_t cluster[3] = {0, 0, 0};
  bool cooperative = false;
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const hipLaunchAttribute &a = c->attrs[i];
    if (a.id == hipLaunchAttributeCooperative)
      cooperative = a.value.cooperative != 0;
    if (a.id != hipLaunchAttributeClusterDimension)
      continue;
    cluster[0] = std::max(1u, a.value.clusterDim.x);
    cluster[1] = std::max(1u, a.value.clusterDim.y);
    cluster[2] = std::max(1u, a.value.clusterDim.z);
  }
  const uint32_t grid[3] = {c->gridDimX, c->gridDimY, c->gridDimZ};
  const uint32_t block[3] = {c->blockDimX, c->blockDimY, c->blockDimZ};
  return launchKernel(f, grid, block, c->sharedMemBytes, c->hStream, params, extra,
                      cluster[0] ? cluster : nullptr, cooperative);
}
/// The host arrays (not device allocations) of the calling thread's next launch: the kernel may
/// write no other host memory. SIZE_MAX bytes stand for whatever is mapped around the address;
/// without arrays the kernel may use whatever the process has mapped. Without a call it may use
/// no host memory that HIP has neither allocated nor registered.
FLYSIM_API void flysimLaunchRanges(const void *const *bases, const size_t *bytes, unsigned count) {
  nextRanges.any = true;
  nextRanges.ranges.clear();
  for (unsigned i = 0; i < count; ++i) {
    auto at = reinterpret_cast<uint64_t>(bases[i]);
    Region r{at, at + bytes[i], true};
    if (bytes[i] == SIZE_MAX && !AddressSpace::instance().hostMapping(at, r))
      r = Region{at, at, true}; // an allocation, or no address: it is not reached by this
    if (r.hi >= r.lo)
      nextRanges.ranges.push_back(r);
  }
}
/// Names, types and shapes of arrays of the calling thread's next launch: messages about it then name
/// them. What the kernel may reach is not changed by them.
FLYSIM_API void flysimLaunchArguments(const FlysimArgument *list, unsigned count) {
  nextArguments.clear();
  for (unsigned i = 0; i < count; ++i) {
    LaunchArgument a(list[i]);
    if (a.low != a.high)
      nextArguments.push_back(std::move(a));
  }
}
FLYSIM_API hipError_t hipModuleLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy,
                                                       unsigned gz, unsigned bx, unsigned by,
                                                       unsigned bz, unsigned lds, void *stream,
                                                       void **params) {
  const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launchKernel(f, grid, block, lds, stream, params, nullptr, nullptr, true);
}
