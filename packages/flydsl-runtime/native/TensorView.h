//===- TensorView.h - Tensors of Python libraries ---------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_TENSORVIEW_H
#define FLYDSL_RUNTIME_TENSORVIEW_H

#include "DLPack.h"
#include "DType.h"
#include "Plan.h"

#include <Python.h>

namespace flydsl::runtime {

/// A view of an array's memory. Shape and strides point into the source object, or into `dims`
/// where the source has no such storage.
struct TensorView {
  TensorView() {} // `dims` stays uninitialised on the fast path

  void *data;
  dlpack::Device device;
  DType dtype;
  int rank;
  const int64_t *shape;
  const int64_t *strides;  ///< null means compact row-major
  int64_t strideUnit = 1;  ///< bytes per stride unit for strides in bytes, else 1
  bool readOnly = false;   ///< its library says that it must not be written
  PyObject *torch = nullptr; ///< the torch tensor itself (borrowed), see TorchTensors.h
  PyObject *owner = nullptr; ///< new reference that must outlive the view, or null
  int64_t dims[2 * kMaxRank];
};

enum class ViewResult {
  Ok,
  Wrapper,    ///< see unwrapArgument
  NotATensor, ///< the object offers no tensor interface; no Python error set
  Error,      ///< Python error set
};

/// Views \p object: a NumPy array, a torch tensor, a DLPack producer (C exchange API,
/// `__dlpack__` or a capsule). Known types take no Python call or few; a type is classified once.
/// An error for tensors whose memory does not hold their values (negative and conjugate views,
/// masked arrays) and for producers whose description cannot be true.
ViewResult viewTensor(PyObject *object, TensorView &view);

/// What to keep of an object that is launched with many times: the capsule that it exports if only a
/// call of its `__dlpack__` says where it is, else the object itself. A new reference, or null with
/// a Python error set.
PyObject *exportOnce(PyObject *object);

/// How a value takes part in the key of a call, see Dispatcher.
enum class ValueKind {
  Tensor,  ///< viewTensor gives Ok or an error
  Wrapper, ///< offers `__flydsl_runtime_arg__`
  Other,   ///< nothing known but its type
  Custom,  ///< its type, or a base of it, was given to reserveType
};
ValueKind valueKind(PyObject *object);

/// Excludes values of \p type and its subclasses from being keyed by what they are: the front end
/// has a conversion of its own for them.
void reserveType(PyTypeObject *type);

/// The value an argument stands for: follows `__flydsl_runtime_arg__`, by which wrappers offer
/// the wrapped object. Returns a new reference, or null with a Python error set; gives the object
/// itself if it is no wrapper.
PyObject *unwrapArgument(PyObject *object);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_TENSORVIEW_H
