//===- Arguments.h - Binding Python arguments to a plan ---------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_ARGUMENTS_H
#define FLYDSL_RUNTIME_ARGUMENTS_H

#include "Plan.h"

#include <Python.h>
#include <memory>
#include <vector>

namespace flydsl::runtime {

/// Where tensors must live for the launch.
struct DevicePolicy {
  bool check = false;      ///< false: take any tensor (evaluation without a device)
  bool hostMemory = false; ///< the device computes on host memory (simulator)
  int device = 0;          ///< current device
};

/// The values of one call. Shapes and strides are stored here, objects that own borrowed memory
/// are kept until destruction, which needs the GIL.
class BoundArguments {
public:
  explicit BoundArguments(const Plan &plan);
  ~BoundArguments();
  BoundArguments(const BoundArguments &) = delete;
  BoundArguments &operator=(const BoundArguments &) = delete;

  /// Reads \p args (as many as the plan has) and checks them against the plan.
  /// \throws nanobind::python_error: TypeError for a wrong kind or dtype, ValueError for a wrong
  /// rank, extent, stride, alignment or device, OverflowError for a scalar out of range. The
  /// message names function, argument, expected and found.
  void bind(PyObject *const *args, const DevicePolicy &policy);

  const ArgValue *values() const { return slots; }

private:
  void bindTensor(size_t index, PyObject *object, const DevicePolicy &policy);
  void keep(PyObject *object) { kept.push_back(object); }

  static constexpr size_t kInlineSlots = 16;
  static constexpr size_t kInlineDims = 64;

  const Plan &plan;
  ArgValue *slots;
  int64_t *dims;
  ArgValue inlineSlots[kInlineSlots];
  int64_t inlineDims[kInlineDims];
  std::unique_ptr<ArgValue[]> heapSlots;
  std::unique_ptr<int64_t[]> heapDims;
  std::vector<PyObject *> kept;
};

/// Raises \p type with "name(): argument 'x' (position 2): " in front of \p what.
[[noreturn]] void raiseArgumentError(PyObject *type, const Plan &plan, size_t index,
                                     const std::string &what);

/// Raises TypeError that \p found arguments were passed.
[[noreturn]] void raiseCountError(const Plan &plan, size_t found);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_ARGUMENTS_H
