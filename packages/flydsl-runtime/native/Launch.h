//===- Launch.h - Launching the kernels of a plan ---------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_LAUNCH_H
#define FLYDSL_RUNTIME_LAUNCH_H

#include "Evaluator.h"
#include "LoadedKernels.h"

#include <functional>

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

/// The memory of the tensor arguments of a call, for a simulator that checks writes to it.
class TensorRanges {
public:
  TensorRanges(const Plan &plan, const ArgValue *values);
  void announce(const HipApi &api) const {
    if (api.simLaunchArguments)
      api.simLaunchArguments(arguments, count);
    else
      api.simLaunchRanges(bases, bytes, count);
  }

private:
  // Host tensors of a call; beyond that many nothing is announced and nothing is checked.
  static constexpr unsigned kMaxRanges = 32;
  const void *bases[kMaxRanges];
  size_t bytes[kMaxRanges];
  SimArgument arguments[kMaxRanges];
  unsigned count = 0;
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
