//===- Arguments.cpp - Binding Python arguments to a plan --------------------===//

#include "Arguments.h"

#include "Scalars.h"
#include "TensorView.h"

#include <climits>
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

std::string argumentPrefix(const Plan &plan, size_t index) {
  return plan.name + "(): argument '" + plan.args[index].name + "' (position " +
         std::to_string(index + 1) + "): ";
}

/// Puts the argument in front of the message of the Python error that is set, keeping its type
/// and chaining the original where its type cannot be rebuilt from a message.
[[noreturn]] void raiseWithPrefix(const Plan &plan, size_t index) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  bool plain = type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError;
  PyObject *text = value ? PyObject_Str(value) : nullptr;
  const char *utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  // Some libraries put a C++ back trace behind the first line; the cause keeps it.
  std::string message = utf8 ? utf8 : "unreadable error";
  message = argumentPrefix(plan, index) + message.substr(0, message.find('\n'));
  PyErr_Clear();
  PyErr_SetString(plain ? type : PyExc_TypeError, message.c_str());
  Py_XDECREF(text);
  if (!plain && value) {
    PyObject *newType, *newValue, *newTraceback;
    PyErr_Fetch(&newType, &newValue, &newTraceback);
    PyErr_NormalizeException(&newType, &newValue, &newTraceback);
    Py_INCREF(value);
    PyException_SetCause(newValue, value); // steals
    PyErr_Restore(newType, newValue, newTraceback);
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  throw nb::python_error();
}

std::string extentsText(const int64_t *values, int rank) {
  std::string text = "(";
  for (int i = 0; i < rank; ++i)
    text += (i ? ", " : "") + (values[i] == kDynamic ? "?" : std::to_string(values[i]));
  return text + (rank == 1 ? ",)" : ")");
}

std::string deviceText(dlpack::Device device) {
  switch (device.type) {
  case dlpack::kCPU: return "host memory";
  case dlpack::kCUDA: return "CUDA device " + std::to_string(device.id);
  case dlpack::kROCM: return "ROCm device " + std::to_string(device.id);
  default: return "DLPack device type " + std::to_string(device.type);
  }
}

/// Empty if a tensor on \p device may be used, else what is wrong.
std::string deviceProblem(dlpack::Device device, const DevicePolicy &policy) {
  const bool pinned = device.type == dlpack::kCUDAHost || device.type == dlpack::kROCMHost;
  if (policy.hostMemory) {
    if (device.type == dlpack::kCPU || pinned)
      return {};
    return "expected a tensor in host memory, because the simulator runs the kernel; got one on " +
           deviceText(device);
  }
  if (pinned || (device.type == dlpack::kROCM && device.id == policy.device))
    return {};
  std::string expected = "ROCm device " + std::to_string(policy.device);
  if (device.type == dlpack::kROCM)
    return "expected a tensor on the current " + expected + ", got one on " + deviceText(device);
  return "expected a tensor on " + expected + ", got one in " + deviceText(device) +
         "; copy it to the GPU first, or set FLYDSL_RUNTIME_KIND=sim to use the simulator";
}

} // namespace

void raiseArgumentError(PyObject *type, const Plan &plan, size_t index, const std::string &what) {
  PyErr_SetString(type, (argumentPrefix(plan, index) + what).c_str());
  throw nb::python_error();
}

void raiseCountError(const Plan &plan, size_t found) {
  std::string names;
  for (const ArgSpec &spec : plan.args)
    names += (names.empty() ? "" : ", ") + spec.name;
  std::string text = plan.name + "(): expected " + std::to_string(plan.args.size()) +
                     " arguments (" + names + "), got " + std::to_string(found);
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

BoundArguments::BoundArguments(const Plan &plan) : plan(plan), slots(inlineSlots), dims(inlineDims) {
  if (plan.args.size() > kInlineSlots) {
    heapSlots = std::make_unique<ArgValue[]>(plan.args.size());
    slots = heapSlots.get();
  }
  if (plan.dimSlots > kInlineDims) {
    heapDims = std::make_unique<int64_t[]>(plan.dimSlots);
    dims = heapDims.get();
  }
}

BoundArguments::~BoundArguments() {
  for (PyObject *object : kept)
    Py_DECREF(object);
}

void BoundArguments::bindTensor(size_t index, PyObject *object, const DevicePolicy &policy) {
  const ArgSpec &spec = plan.args[index];
  TensorView view;
  ViewResult result = viewTensor(object, view);
  if (result == ViewResult::Wrapper) {
    PyObject *inner = unwrapArgument(object);
    if (inner) {
      keep(inner);
      object = inner;
      result = viewTensor(inner, view);
    } else {
      result = ViewResult::Error;
    }
  }
  if (view.owner)
    keep(view.owner);
  if (result == ViewResult::Error)
    raiseWithPrefix(plan, index);
  auto fail = [&](PyObject *type, const std::string &what) {
    raiseArgumentError(type, plan, index, what);
  };
  if (result != ViewResult::Ok)
    fail(PyExc_TypeError, "expected a " + spec.dtype.str() +
                              " tensor (NumPy array, torch tensor or DLPack producer), got '" +
                              Py_TYPE(object)->tp_name + "'");
  if (!accepts(spec.dtype, view.dtype))
    fail(PyExc_TypeError,
         "expected a tensor of dtype " + spec.dtype.str() + ", got dtype " + view.dtype.str());
  if (view.rank != spec.rank)
    fail(PyExc_ValueError, "expected a tensor of rank " + std::to_string(spec.rank) +
                               ", got rank " + std::to_string(view.rank) + " with shape " +
                               extentsText(view.shape, view.rank));

  const int rank = spec.rank;
  int64_t *shape = dims + spec.dimOffset, *strides = shape + rank;
  int64_t compact = 1;
  bool empty = false;
  for (int i = rank - 1; i >= 0; --i) {
    shape[i] = view.shape[i];
    empty |= shape[i] == 0;
    if (!view.strides) {
      strides[i] = compact;
      compact *= shape[i];
    } else if (view.strideUnit == 1) {
      strides[i] = view.strides[i];
    } else if (view.strides[i] % view.strideUnit == 0) {
      strides[i] = view.strides[i] / view.strideUnit;
    } else {
      fail(PyExc_ValueError, "stride of dimension " + std::to_string(i) + " is " +
                                 std::to_string(view.strides[i]) +
                                 " bytes, not a multiple of the element size");
    }
  }

  for (int i = 0; i < rank; ++i) {
    if (spec.shape[i] == kDynamic) {
      if (shape[i] > INT32_MAX)
        fail(PyExc_ValueError, "extent " + std::to_string(shape[i]) + " of dimension " +
                                   std::to_string(i) + " does not fit in 32 bits");
      if (spec.shapeDiv[i] > 1 && shape[i] % spec.shapeDiv[i] != 0)
        fail(PyExc_ValueError, "expected extent of dimension " + std::to_string(i) +
                                   " to be divisible by " + std::to_string(spec.shapeDiv[i]) +
                                   ", got " + std::to_string(shape[i]));
    } else if (shape[i] != spec.shape[i]) {
      fail(PyExc_ValueError, "expected shape " + extentsText(spec.shape.data(), rank) + ", got " +
                                 extentsText(shape, rank));
    }
    if (shape[i] == 1 && spec.strides[i] != kDynamic)
      continue; // the only coordinate is 0: no memory access depends on this stride
    if (spec.strides[i] == kDynamic) {
      if (spec.indexWidth[i] == 32 && (strides[i] > INT32_MAX || strides[i] < INT32_MIN))
        fail(PyExc_ValueError, "stride " + std::to_string(strides[i]) + " of dimension " +
                                   std::to_string(i) + " does not fit in 32 bits");
      if (spec.strideDiv[i] > 1 && shape[i] != 1 && strides[i] % spec.strideDiv[i] != 0)
        fail(PyExc_ValueError, "expected stride of dimension " + std::to_string(i) +
                                   " to be divisible by " + std::to_string(spec.strideDiv[i]) +
                                   ", got " + std::to_string(strides[i]));
    } else if (strides[i] != spec.strides[i] && !empty) {
      fail(PyExc_ValueError, "expected strides " + extentsText(spec.strides.data(), rank) +
                                 " (elements), got " + extentsText(strides, rank));
    }
  }

  auto address = reinterpret_cast<uintptr_t>(view.data);
  if (address % static_cast<uintptr_t>(spec.align) != 0)
    fail(PyExc_ValueError, "expected data aligned to " + std::to_string(spec.align) +
                               " bytes, got an address with remainder " +
                               std::to_string(address % static_cast<uintptr_t>(spec.align)));
  if (policy.check) {
    std::string problem = deviceProblem(view.device, policy);
    if (!problem.empty())
      fail(PyExc_ValueError, problem);
    if (!view.data && !empty)
      fail(PyExc_ValueError, "the tensor has no memory (null data pointer)");
  }
  slots[index] = {address, shape, strides};
}

void BoundArguments::bind(PyObject *const *args, const DevicePolicy &policy) {
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const ArgSpec &spec = plan.args[i];
    if (spec.kind == ArgKind::Tensor) {
      bindTensor(i, args[i], policy);
      continue;
    }
    auto read = [&](PyObject *object) {
      switch (spec.kind) {
      case ArgKind::Scalar: return readScalar(object, spec.scalar, slots[i].bits);
      case ArgKind::Pointer: return readPointer(object, slots[i].bits);
      default: return readStream(object, slots[i].bits);
      }
    };
    if (!read(args[i])) {
      // Wrappers are rare here, so they are looked at only when the object itself is no value.
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      PyObject *inner = unwrapArgument(args[i]);
      bool unwrapped = inner && inner != args[i];
      if (inner)
        keep(inner);
      if (inner && !unwrapped) {
        PyErr_Restore(type, value, traceback);
      } else {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        unwrapped = unwrapped && read(inner);
      }
      if (!unwrapped)
        raiseWithPrefix(plan, i);
    }
    if (spec.kind == ArgKind::Pointer && slots[i].bits % static_cast<uint64_t>(spec.align) != 0)
      raiseArgumentError(PyExc_ValueError, plan, i,
                         "expected a pointer aligned to " + std::to_string(spec.align) + " bytes");
  }
}

} // namespace flydsl::runtime
