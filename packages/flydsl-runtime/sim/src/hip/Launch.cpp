//===- Launch.cpp - launches by function handles --------------------------===//

#include "check/FindingsFile.h"
#include "hip/Runtime.h"
#include "memory/Memory.h"

#include <algorithm>

namespace flysim {

namespace {

/// The host arrays of the calling thread's next launch (flysimLaunchRanges).
struct Stated {
  bool any = false, lost = false; ///< lost: there was no memory to keep them
  std::vector<Region> ranges;
};
thread_local Stated nextRanges;
/// Their names (flysimLaunchArguments).
thread_local std::vector<LaunchArgument> nextArguments;

} // namespace

hipError_t launchKernel(const void *function, const uint32_t grid[3], const uint32_t block[3],
                        uint32_t dynamicLds, void *stream, void **params, void **extra,
                        const uint32_t *cluster, bool cooperative) {
  Stated stated = std::move(nextRanges);
  nextRanges = {};
  std::vector<LaunchArgument> named = std::move(nextArguments);
  nextArguments.clear();
  if (stated.lost)
    return fail(hipErrorOutOfMemory, "launch: no host memory for the ranges of its arrays");
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
    // Its work-groups wait for each other: all must run at once.
    const uint64_t groups = uint64_t(grid[0]) * grid[1] * grid[2];
    if (const uint64_t most = cooperative ? residentGroups(*f, block[0] * block[1] * block[2], dynamicLds) : groups;
        groups > most)
      return fail(hipErrorCooperativeLaunchTooLarge,
                  format("kernel %s: a cooperative launch of %llu work-groups of %u lanes; %s runs at most %llu of "
                         "them at once",
                         f->kernel->name.c_str(), (unsigned long long)groups, block[0] * block[1] * block[2],
                         f->module->object->arch.c_str(), (unsigned long long)most));
    call->host = hostReach(stated.any ? &stated.ranges : nullptr);
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

FLYSIM_API hipError_t hipModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned lds,
                                            void *stream, void **params, void **extra) try {
  const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launchKernel(f, grid, block, lds, stream, params, extra);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                               unsigned bx, unsigned by, unsigned bz, size_t lds,
                                               void *stream, void **params, void **extra,
                                               void *start, void *stop, unsigned) try {
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
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipHccModuleLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz,
                                               unsigned bx, unsigned by, unsigned bz, size_t lds,
                                               void *stream, void **params, void **extra,
                                               void *start, void *stop) {
  return hipExtModuleLaunchKernel(f, gx, gy, gz, bx, by, bz, lds, stream, params, extra, start,
                                  stop, 0);
}
FLYSIM_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *c, void *f, void **params,
                                           void **extra) try {
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
} FLYSIM_GUARDED
/// The host arrays (not device allocations) of the calling thread's next launch: the kernel may
/// write no other host memory. SIZE_MAX bytes stand for whatever is mapped around the address;
/// without arrays the kernel may use whatever the process has mapped. Without a call it may use
/// no host memory that HIP has neither allocated nor registered.
FLYSIM_API void flysimLaunchRanges(const void *const *bases, const size_t *bytes, unsigned count) try {
  nextRanges = {};
  nextRanges.any = true;
  for (unsigned i = 0; i < count; ++i) {
    auto at = reinterpret_cast<uint64_t>(bases[i]);
    Region r{at, at + bytes[i], true};
    if (bytes[i] == SIZE_MAX && !AddressSpace::instance().hostMapping(at, r))
      r = Region{at, at, true}; // an allocation, or no address: it is not reached by this
    if (r.hi >= r.lo)
      nextRanges.ranges.push_back(r);
  }
} catch (const std::bad_alloc &) {
  nextRanges.lost = true; // an error of the launch
}
/// Names, types and shapes of arrays of the calling thread's next launch: messages about it then name
/// them. What the kernel may reach is not changed by them.
FLYSIM_API void flysimLaunchArguments(const FlysimArgument *list, unsigned count) try {
  nextArguments.clear();
  for (unsigned i = 0; i < count; ++i) {
    LaunchArgument a(list[i]);
    if (a.low != a.high)
      nextArguments.push_back(std::move(a));
  }
} catch (const std::bad_alloc &) {
  nextArguments.clear(); // messages go without names
}
FLYSIM_API hipError_t hipModuleLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy,
                                                       unsigned gz, unsigned bx, unsigned by,
                                                       unsigned bz, unsigned lds, void *stream,
                                                       void **params) try {
  const uint32_t grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launchKernel(f, grid, block, lds, stream, params, nullptr, nullptr, true);
} FLYSIM_GUARDED
