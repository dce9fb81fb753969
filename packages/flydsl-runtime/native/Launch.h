//===- Launch.h - Launching the kernels of a plan ---------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_LAUNCH_H
#define FLYDSL_RUNTIME_LAUNCH_H

#include "Evaluator.h"
#include "LoadedKernels.h"

#include <functional>
#include <utility>
#include <vector>

namespace flydsl::runtime {

/// One launch with all operands resolved.
struct ResolvedLaunch {
  const std::string *kernel;
  int64_t grid[3];
  int64_t block[3];
  int64_t cluster[3]; ///< all 1 without clusters
  bool hasCluster;
  int64_t smem;
  uint64_t stream;
};

/// Reads the operands of \p spec and checks what holds on every device: positive sizes that fit
/// HIP's 32-bit launch parameters, grid a multiple of the cluster.
/// \throws PlanFailure naming kernel and configuration.
ResolvedLaunch resolveLaunch(const Plan &plan, const LaunchSpec &spec, const int64_t *regs);

/// Writes the kernel arguments of \p spec into \p buffer (spec.kernargBytes bytes).
void packKernelArgs(const LaunchSpec &spec, const int64_t *regs, char *buffer);

/// The memory of the arguments of a call, for a simulator that lets a kernel reach no other host
/// memory: that of tensors to the byte, of raw pointers whatever is mapped around them. A call
/// without either says so, and the simulator goes by what the process has mapped: its addresses
/// may hide in integers.
class TensorRanges {
public:
  TensorRanges(const Plan &plan, const ArgValue *values);
  void announce(const HipApi &api) const {
    if (api.simLaunchArguments)
      api.simLaunchArguments(arguments, named);
    if (more.empty())
      return api.simLaunchRanges(bases, bytes, count);
    std::vector<const void *> allBases(bases, bases + count);
    std::vector<size_t> allBytes(bytes, bytes + count);
    for (const auto &[base, size] : more) {
      allBases.push_back(base);
      allBytes.push_back(size);
    }
    api.simLaunchRanges(allBases.data(), allBytes.data(), static_cast<unsigned>(allBases.size()));
  }

private:
  void add(const void *base, size_t size) {
    if (count == kInlineRanges) {
      more.emplace_back(base, size);
      return;
    }
    bases[count] = base;
    bytes[count++] = size;
  }

  static constexpr unsigned kInlineRanges = 32;
  const void *bases[kInlineRanges];
  size_t bytes[kInlineRanges];
  SimArgument arguments[kInlineRanges]; ///< the first ones, for messages
  unsigned named = 0;
  unsigned count = 0;
  std::vector<std::pair<const void *, size_t>> more; ///< beyond the inline ones
};

/// Launches through HIP.
class DeviceSink final : public LaunchSink {
public:
  /// \p interrupt is called from poll(), \p ranges (or null) are announced before each launch.
  DeviceSink(const HipApi &api, const Plan &plan, const DeviceKernels &kernels, void (*interrupt)(),
             const TensorRanges *ranges = nullptr)
      : api(api), plan(plan), kernels(kernels), interrupt(interrupt), ranges(ranges) {}

  void launch(const LaunchSpec &spec, const int64_t *regs) override;
  void poll() override { interrupt(); }

private:
  void checkLimits(const ResolvedLaunch &launch) const;

  const HipApi &api;
  const Plan &plan;
  const DeviceKernels &kernels;
  void (*interrupt)();
  const TensorRanges *ranges;
};

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_LAUNCH_H
