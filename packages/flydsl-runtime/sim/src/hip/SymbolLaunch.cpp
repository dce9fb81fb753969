//===- SymbolLaunch.cpp - launches by host functions ----------------------===//

#include "hip/Runtime.h"

#include <algorithm>
#include <cstring>

using namespace flysim;

namespace {

struct Configuration {
  dim3 grid, block;
  size_t lds;
  void *stream;
};

thread_local std::vector<Configuration> configurations;
thread_local std::vector<uint8_t> pushedArguments; ///< of hipSetupArgument

} // namespace

FLYSIM_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t lds, void *stream) try {
  configurations.push_back({grid, block, lds, stream});
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t __hipPopCallConfiguration(dim3 *grid, dim3 *block, size_t *lds,
                                                void **stream) try {
  if (configurations.empty())
    return fail(hipErrorIllegalState, "no launch configuration was pushed");
  Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *lds = c.lds;
  *stream = c.stream;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **params,
                                      size_t lds, void *stream) try {
  void *function = nullptr;
  if (hipError_t e = hipGetFuncBySymbol(&function, host))
    return e;
  const uint32_t g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  return launchKernel(function, g, b, static_cast<uint32_t>(lds), stream, params, nullptr);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtLaunchKernel(const void *host, dim3 grid, dim3 block, void **params,
                                         size_t lds, void *stream, void *start, void *stop, int) try {
  HandleSet<Event> &events = Runtime::instance().events;
  if ((start && !events.contains(start)) || (stop && !events.contains(stop)))
    return fail(hipErrorInvalidHandle, "hipExtLaunchKernel: invalid event");
  hipError_t e = start ? hipEventRecord(start, stream) : hipSuccess;
  if (!e)
    e = hipLaunchKernel(host, grid, block, params, lds, stream);
  return e || !stop ? e : hipEventRecord(stop, stream);
} FLYSIM_GUARDED
// The oldest form of a launch: configuration, arguments one by one, launch.
FLYSIM_API hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t lds, void *stream) try {
  configurations.push_back({grid, block, lds, stream});
  pushedArguments.clear();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipSetupArgument(const void *argument, size_t size, size_t offset) try {
  if (!argument || size > 65536 || offset > 65536)
    return fail(hipErrorInvalidValue, "hipSetupArgument: null pointer, or too large");
  pushedArguments.resize(std::max(pushedArguments.size(), offset + size));
  memcpy(pushedArguments.data() + offset, argument, size);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLaunchByPtr(const void *host) try {
  void *function = nullptr;
  if (hipError_t e = hipGetFuncBySymbol(&function, host))
    return e;
  if (configurations.empty())
    return fail(hipErrorIllegalState, "no launch configuration was pushed");
  Configuration c = configurations.back();
  configurations.pop_back();
  size_t size = pushedArguments.size();
  // HIP_LAUNCH_PARAM_BUFFER_POINTER, _SIZE, _END
  void *extra[] = {reinterpret_cast<void *>(1), pushedArguments.data(), reinterpret_cast<void *>(2), &size,
                   reinterpret_cast<void *>(3)};
  const uint32_t g[3] = {c.grid.x, c.grid.y, c.grid.z}, b[3] = {c.block.x, c.block.y, c.block.z};
  return launchKernel(function, g, b, static_cast<uint32_t>(c.lds), c.stream, nullptr, extra);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block,
                                                 void **params, unsigned lds, void *stream) try {
  void *function = nullptr;
  if (hipError_t e = hipGetFuncBySymbol(&function, host))
    return e;
  const uint32_t g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
  return launchKernel(function, g, b, lds, stream, params, nullptr, nullptr, true);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLaunchKernelExC(const HIP_LAUNCH_CONFIG *c, const void *host,
                                         void **params) try {
  void *function = nullptr;
  if (!c)
    return fail(hipErrorInvalidValue, "hipLaunchKernelExC: null configuration");
  if (hipError_t e = hipGetFuncBySymbol(&function, host))
    return e;
  // The run-time API has the same fields in another order: grid, block, LDS in 8 bytes.
  struct Config {
    dim3 grid, block;
    size_t lds;
    void *stream;
    hipLaunchAttribute *attrs;
    unsigned count;
  };
  auto *r = reinterpret_cast<const Config *>(c);
  HIP_LAUNCH_CONFIG d = {r->grid.x,  r->grid.y,  r->grid.z,
                         r->block.x, r->block.y, r->block.z,
                         static_cast<unsigned>(r->lds), r->stream, r->attrs, r->count};
  return hipDrvLaunchKernelEx(&d, function, params, nullptr);
} FLYSIM_GUARDED
