//===- KernelCall.cpp - a launch with its arguments -----------------------===//

#include "check/Checks.h"
#include "check/FindingsFile.h"
#include "exec/Interrupt.h"
#include "hip/Hostcall.h"
#include "hip/Printf.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"
#include "support/CrashGuard.h"
#include "support/Settings.h"

#include <algorithm>
#include <cstring>

namespace flysim {

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
    std::copy_n(buffer, std::min(bufferSize, seg.size()), seg.begin());
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

} // namespace

Dispatch::Host hostReach(const std::vector<Region> *stated) {
  const char *reach = choiceSetting("FLYDSL_SIM_HOST_MEMORY", {"registered", "mapped"});
  const bool mapped = reach && !strcmp(reach, "mapped");
  if (!stated)
    return mapped ? Dispatch::Host::Mapped : Dispatch::Host::None;
  return stated->empty() ? Dispatch::Host::Mapped : Dispatch::Host::Arrays;
}

/// FLYDSL_SIM_STALL_SECONDS, by default 3. Ten times as long where a later call of the program may
/// write what a kernel waits for, and never where another process may.
static double stallSeconds() {
  if (memoryIsShared())
    return 0;
  double seconds = secondsSetting("FLYDSL_SIM_STALL_SECONDS", 3);
  return queuesEnabled() ? 10 * seconds : seconds;
}

/// FLYDSL_SIM_MAX_INSTRUCTIONS.
static uint64_t mostInstructions() { return wholeSetting("FLYDSL_SIM_MAX_INSTRUCTIONS", 4000000000ull, 1); }

/// FLYDSL_SIM_SCHED=random:SEED; 0 for the deterministic schedule.
static uint64_t scheduleSeed() {
  const char *text = textSetting("FLYDSL_SIM_SCHED");
  if (!text || !strcmp(text, "fixed"))
    return 0;
  uint64_t seed = 1;
  if (strncmp(text, "random", 6) || (text[6] && (text[6] != ':' || !parseWhole(text + 7, seed))))
    raise(FaultKind::InvalidConfiguration,
          format("FLYDSL_SIM_SCHED=%s: expected 'fixed' or 'random:SEED'", text));
  return (seed + 1) * 0x9e3779b97f4a7c15ull | 1;
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
  d.device = device;
  d.ownThreads = queuesEnabled();
  d.stops = stopRequests();
  // The environment is read once for a launch, by the thread that makes it. Five look-ups, in an environment of 35
  // variables, take 0.17 us of the 10 us of a launch of one work-group. To keep what they found would take a sign that
  // the environment is the same, and its pointers are none: a program may alter in place what it gave to putenv().
  d.stallSeconds = stallSeconds();
  d.mostInstructions = mostInstructions();
  d.scheduleSeed = scheduleSeed();
  d.checks = requestedChecks();
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
  call->module = Runtime::instance().modules.share(f.module);
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
    call->host = hostReach(nullptr);
    out.kernel = call;
    out.run = [call] { call->run(); };
    return hipSuccess;
  });
}

} // namespace flysim
