//===- Launch.cpp - Launching the kernels of a plan --------------------------===//

#include "Launch.h"

#include <cstring>

namespace flydsl::runtime {

namespace {

constexpr size_t kInlineKernargBytes = 1024;

// HIP counts the work-items of a dimension in 32 bits.
constexpr int64_t kMaxWorkItems = UINT32_MAX;

std::string axis(int i) { return std::string(1, "xyz"[i]); }

std::string triple(const int64_t (&values)[3]) {
  return "(" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
         std::to_string(values[2]) + ")";
}

/// "launch of kernel 'k' with grid (..), block (..), 0 bytes of dynamic LDS".
std::string describe(const ResolvedLaunch &launch) {
  std::string text = "launch of kernel '" + *launch.kernel + "' with grid " +
                     triple(launch.grid) + ", block " + triple(launch.block);
  if (launch.hasCluster)
    text += ", cluster " + triple(launch.cluster);
  return text + ", " + std::to_string(launch.smem) + " bytes of dynamic LDS";
}

[[noreturn]] void fail(const Plan &plan, const ResolvedLaunch &launch, const std::string &what) {
  throw PlanFailure(PlanFailure::Kind::Launch, plan.name + "(): " + describe(launch) + ": " + what);
}

} // namespace

ResolvedLaunch resolveLaunch(const Plan &plan, const LaunchSpec &spec, const int64_t *regs) {
  ResolvedLaunch launch;
  launch.kernel = &plan.kernels[spec.kernel];
  launch.hasCluster = spec.hasCluster;
  launch.smem = spec.smem < 0 ? 0 : regs[spec.smem];
  launch.stream = spec.stream < 0 ? 0 : static_cast<uint64_t>(regs[spec.stream]);
  for (int i = 0; i < 3; ++i) {
    launch.grid[i] = regs[spec.grid[i]];
    launch.block[i] = regs[spec.block[i]];
    launch.cluster[i] = spec.hasCluster ? regs[spec.cluster[i]] : 1;
  }
  for (int i = 0; i < 3; ++i) {
    if (launch.grid[i] <= 0 || launch.block[i] <= 0)
      fail(plan, launch, "grid and block sizes must be positive (" + axis(i) + ")");
    __int128 items = static_cast<__int128>(launch.grid[i]) * launch.block[i];
    if (items > kMaxWorkItems)
      fail(plan, launch, "grid times block exceeds 2^32 - 1 work-items (" + axis(i) + ")");
    if (launch.cluster[i] <= 0 || (launch.cluster[i] != 1 && launch.grid[i] % launch.cluster[i]))
      fail(plan, launch, "the grid must be a multiple of the cluster (" + axis(i) + ")");
  }
  if (launch.smem < 0 || launch.smem > INT32_MAX)
    fail(plan, launch, "the dynamic LDS size is out of range");
  return launch;
}

void packKernelArgs(const LaunchSpec &spec, const int64_t *regs, char *buffer) {
  std::memset(buffer, 0, spec.kernargBytes);
  for (const KernelArg &arg : spec.args) {
    // Little-endian: the low bytes come first. Sizes that the compiler knows are single moves.
    char *target = buffer + arg.offset;
    switch (arg.size) {
    case 4: std::memcpy(target, &regs[arg.reg], 4); break;
    case 8: std::memcpy(target, &regs[arg.reg], 8); break;
    default: std::memcpy(target, &regs[arg.reg], arg.size); break;
    }
  }
}

/// Whether an argument passes an address: a pointer that is not null, a 64-bit integer that is too
/// large for a count, or a tensor of pointers. Then the memory of any live array may be meant.
static bool passesAddress(const ArgSpec &spec, const ArgValue &value) {
  if (spec.kind == ArgKind::Pointer)
    return value.bits != 0;
  if (spec.kind == ArgKind::Tensor)
    return spec.addresses;
  const bool wide = spec.scalar == ScalarType::I64 || spec.scalar == ScalarType::U64;
  return spec.kind == ArgKind::Scalar && wide && value.bits >> 32 != 0 && int64_t(value.bits) > 0;
}

TensorRanges::TensorRanges(const Plan &plan, const ArgValue *values) {
  bool anywhere = false; // then nothing is stated, and the kernel may use all mapped memory
  for (size_t i = 0; i < plan.args.size(); ++i)
    anywhere |= passesAddress(plan.args[i], values[i]);
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const ArgSpec &spec = plan.args[i];
    if (spec.kind != ArgKind::Tensor)
      continue;
    int64_t low = 0, high = 1;
    for (int d = 0; d < spec.rank; ++d) {
      if (values[i].shape[d] == 0)
        low = high = 0;
      const int64_t last = (values[i].shape[d] - 1) * values[i].strides[d];
      (last < 0 ? low : high) += high == 0 ? 0 : last;
    }
    if (high == 0)
      continue;
    const int64_t size = spec.dtype.bytes();
    if (named < kInlineRanges)
      arguments[named++] = {spec.name.c_str(), spec.dtypeName,
                            reinterpret_cast<const void *>(values[i].bits),
                            static_cast<uint32_t>(size), static_cast<uint32_t>(spec.rank),
                            values[i].shape, values[i].strides};
    if (!anywhere)
      add(reinterpret_cast<const char *>(values[i].bits) + low * size,
          static_cast<size_t>((high - low) * size));
  }
  if (!anywhere && count == 0)
    add(nullptr, 0); // arrays without elements, or none at all: no host memory
}

void DeviceSink::checkLimits(const ResolvedLaunch &launch) const {
  const DeviceLimits &limits = kernels.limits;
  const int64_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  for (int i = 0; i < 3; ++i) {
    if (launch.block[i] > limits.maxBlock[i])
      fail(plan, launch, "the device's limit for block." + axis(i) + " is " +
                             std::to_string(limits.maxBlock[i]));
    if (launch.grid[i] > limits.maxGrid[i])
      fail(plan, launch, "the device's limit for grid." + axis(i) + " is " +
                             std::to_string(limits.maxGrid[i]));
  }
  if (threads > limits.maxThreadsPerBlock)
    fail(plan, launch, "a block of " + std::to_string(threads) +
                           " work-items exceeds the device's limit of " +
                           std::to_string(limits.maxThreadsPerBlock));
  if (launch.smem > limits.maxSharedMemory)
    fail(plan, launch, "the device's limit of LDS per work-group is " +
                           std::to_string(limits.maxSharedMemory) + " bytes");
}

/// Launches with clusters of workgroups. Without the entry point a plain launch would silently run the
/// kernel without its cluster.
static void launchClusters(const HipApi &api, const Plan &plan, const ResolvedLaunch &launch,
                           HipFunction function, void **extra) {
  if (!api.drvLaunchKernelEx)
    throw LibraryError(plan.name + "(): " + describe(launch) + ": the HIP library '" + api.path +
                       "' has no cluster launch (hipDrvLaunchKernelEx)");
  auto dim = [](int64_t value) { return static_cast<unsigned>(value); };
  HipLaunchAttribute attribute = {};
  attribute.id = kLaunchAttributeClusterDimension;
  attribute.value.clusterDim = {dim(launch.cluster[0]), dim(launch.cluster[1]), dim(launch.cluster[2])};
  HipLaunchConfig config = {dim(launch.grid[0]),  dim(launch.grid[1]),
                            dim(launch.grid[2]),  dim(launch.block[0]),
                            dim(launch.block[1]), dim(launch.block[2]),
                            dim(launch.smem),     reinterpret_cast<HipStream>(launch.stream),
                            &attribute,           1};
  const int status = api.drvLaunchKernelEx(&config, function, nullptr, extra);
  if (status != kHipSuccess)
    throw makeHipFailure(api, status, "hipDrvLaunchKernelEx", plan.name + "()", describe(launch));
}

static void launchGrid(const HipApi &api, const Plan &plan, const ResolvedLaunch &launch,
                       HipFunction function, void **extra) {
  auto dim = [](int64_t value) { return static_cast<unsigned>(value); };
  const int status = api.moduleLaunchKernel(
      function, dim(launch.grid[0]), dim(launch.grid[1]), dim(launch.grid[2]), dim(launch.block[0]),
      dim(launch.block[1]), dim(launch.block[2]), dim(launch.smem),
      reinterpret_cast<HipStream>(launch.stream), nullptr, extra);
  if (status != kHipSuccess)
    throw makeHipFailure(api, status, "hipModuleLaunchKernel", plan.name + "()", describe(launch));
}

void DeviceSink::launch(const LaunchSpec &spec, const int64_t *regs) {
  const ResolvedLaunch launch = resolveLaunch(plan, spec, regs);
  checkLimits(launch);

  alignas(64) char inlineBuffer[kInlineKernargBytes];
  std::vector<char> heapBuffer;
  char *buffer = inlineBuffer;
  if (spec.kernargBytes > kInlineKernargBytes) {
    heapBuffer.resize(spec.kernargBytes);
    buffer = heapBuffer.data();
  }
  packKernelArgs(spec, regs, buffer);
  size_t size = spec.kernargBytes;
  void *extra[] = {kLaunchParamBufferPointer, buffer, kLaunchParamBufferSize, &size,
                   kLaunchParamEnd};

  if (ranges)
    ranges->announce(api);
  const bool clustered = launch.cluster[0] * launch.cluster[1] * launch.cluster[2] != 1;
  const auto start = clustered ? launchClusters : launchGrid;
  start(api, plan, launch, kernels.functions[spec.kernel], extra);
}

} // namespace flydsl::runtime
