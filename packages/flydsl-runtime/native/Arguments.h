//===- Arguments.h - Binding Python arguments to a plan ---------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_ARGUMENTS_H
#define FLYDSL_RUNTIME_ARGUMENTS_H

#include "Plan.h"
#include "TensorView.h"

#include <Python.h>
#include <memory>
#include <vector>

namespace flydsl::runtime {

struct LauncherState;

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
  explicit BoundArguments(const LauncherState &launcher);
  ~BoundArguments();
  BoundArguments(const BoundArguments &) = delete;
  BoundArguments &operator=(const BoundArguments &) = delete;

  /// Reads the launcher's parameters \p args and checks them against the plan; \p views holds views
  /// of them that exist already (or nulls), or is null.
  /// \throws nanobind::python_error: TypeError for a wrong kind or dtype, ValueError for a wrong
  /// rank, extent, stride, alignment or device, OverflowError for a scalar out of range. The
  /// message names function, argument, expected and found.
  void bind(PyObject *const *args, const TensorView *const *views, const DevicePolicy &policy);

  const ArgValue *values() const { return slots; }

private:
  void bindObject(size_t index, PyObject *object, const DevicePolicy &policy);
  void bindTensor(size_t index, PyObject *object, const DevicePolicy &policy);
  void bindView(size_t index, const TensorView &view, const DevicePolicy &policy);
  void bindStores(size_t index, const TensorView &view);
  [[noreturn]] void fail(PyObject *type, size_t index, const std::string &what) const;
  [[noreturn]] void failType(size_t index, const TensorView &view) const;
  [[noreturn]] void failExtent(size_t index, int i, const int64_t *shape) const;
  [[noreturn]] void failStride(size_t index, int i, const int64_t *strides) const;
  void checkSpan(size_t index, const int64_t *shape, const int64_t *strides) const;
  void checkMemory(size_t index, const TensorView &view, bool empty,
                   const DevicePolicy &policy) const;
  void checkDistinct(size_t index, const int64_t *shape, const int64_t *strides) const;
  void checkWords(size_t index, const int64_t *shape, const int64_t *strides) const;
  std::string prefix(size_t index) const;
  [[noreturn]] void raiseWithPrefix(size_t index) const;
  void keep(PyObject *object) { kept.push_back(object); }

  static constexpr size_t kInlineSlots = 16;
  static constexpr size_t kInlineDims = 64;

  const LauncherState &launcher;
  const Plan &plan;
  ArgValue *slots;
  int64_t *dims;
  ArgValue inlineSlots[kInlineSlots];
  int64_t inlineDims[kInlineDims];
  PyObject *inlineWritten[kInlineSlots];
  std::unique_ptr<ArgValue[]> heapSlots;
  std::unique_ptr<int64_t[]> heapDims;
  std::unique_ptr<PyObject *[]> heapWritten;
  std::vector<PyObject *> kept;
  PyObject **written; ///< torch tensors that a kernel stores to (borrowed)
  size_t writtenCount = 0;
};

/// Raises TypeError that \p found arguments were passed.
[[noreturn]] void raiseCountError(const Plan &plan, size_t found);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_ARGUMENTS_H
