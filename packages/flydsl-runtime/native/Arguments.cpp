//===- Arguments.cpp - Binding Python arguments to a plan --------------------===//

#include "Arguments.h"

#include "LauncherObject.h"
#include "Scalars.h"
#include "TensorView.h"
#include "TorchTensors.h"

#include <climits>
#include <cstdlib>
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

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

/// Whether a tensor on \p device may be used.
bool deviceFits(dlpack::Device device, const DevicePolicy &policy) {
  if (device.type == dlpack::kCUDAHost || device.type == dlpack::kROCMHost) // pinned
    return true;
  return policy.hostMemory ? device.type == dlpack::kCPU
                           : device.type == dlpack::kROCM && device.id == policy.device;
}

/// What is wrong with a device that does not fit.
std::string deviceProblem(dlpack::Device device, const DevicePolicy &policy) {
  if (policy.hostMemory)
    return "expected a tensor in host memory, because the simulator runs the kernel; got one on " +
           deviceText(device);
  std::string expected = "ROCm device " + std::to_string(policy.device);
  if (device.type == dlpack::kROCM)
    return "expected a tensor on the current " + expected + ", got one on " + deviceText(device);
  return "expected a tensor on " + expected + ", got one in " + deviceText(device) +
         "; copy it to the GPU first, or set FLYDSL_RUNTIME_KIND=sim to use the simulator";
}

} // namespace

std::string BoundArguments::prefix(size_t index) const {
  const size_t position = launcher.positions.empty() ? index : launcher.positions[index];
  return plan.name + "(): argument '" + plan.args[index].name + "' (position " +
         std::to_string(position + 1) + "): ";
}

void BoundArguments::fail(PyObject *type, size_t index, const std::string &what) const {
  PyErr_SetString(type, (prefix(index) + what).c_str());
  throw nb::python_error();
}

/// Whether a dimension of an array that is stored to has all its elements in one place.
void BoundArguments::checkDistinct(size_t index, const int64_t *shape,
                                   const int64_t *strides) const {
  for (int i = 0; i < plan.args[index].rank; ++i)
    if (strides[i] == 0 && shape[i] > 1)
      fail(PyExc_ValueError, index,
           "the " + std::to_string(shape[i]) + " elements of dimension " + std::to_string(i) +
               " are one in memory (stride 0, as of expand or broadcast_to), and the kernel stores "
               "to them; pass an array of its own (array.copy(), tensor.contiguous())");
}

/// Whether accesses of whole words, along the dimension of stride 1, lose no element at the end.
void BoundArguments::checkWords(size_t index, const int64_t *shape, const int64_t *strides) const {
  const ArgSpec &spec = plan.args[index];
  const int64_t perWord = 4 / static_cast<int64_t>(spec.dtype.bytes());
  bool inner = false; // a dimension of several consecutive elements
  for (int i = 0; i < spec.rank; ++i)
    inner |= strides[i] == 1 && shape[i] > 1;
  for (int i = 0; i < spec.rank && perWord > 1; ++i) {
    const int64_t steps = strides[i] == 1 ? shape[i] : strides[i];
    if ((shape[i] == 1 && (strides[i] != 1 || inner)) || steps % perWord == 0)
      continue;
    nb::object type = nb::module_::import_("flydsl.runtime._errors").attr("PartialWordError");
    fail(type.ptr(), index,
         "expected whole 32-bit words, but the " +
             std::string(strides[i] == 1 ? "extent" : "stride") + " of dimension " + std::to_string(i) +
             " is " + std::to_string(steps) + " elements: the kernel copies several elements at a time "
             "through a buffer tensor, which would leave the last ones out. Copy with bounds=True, or "
             "compile with the hint {\"partial_words\": True}");
  }
}

/// Puts the argument in front of the message of the Python error that is set, keeping its type
/// and chaining the original where its type cannot be rebuilt from a message.
void BoundArguments::raiseWithPrefix(size_t index) const {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  bool plain = type == PyExc_TypeError || type == PyExc_ValueError || type == PyExc_OverflowError;
  PyObject *text = value ? PyObject_Str(value) : nullptr;
  const char *utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  // Some libraries put a C++ back trace behind the first line; the cause keeps it.
  std::string message = utf8 ? utf8 : "unreadable error";
  message = prefix(index) + message.substr(0, message.find('\n'));
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

void raiseCountError(const Plan &plan, size_t found) {
  std::string names;
  for (const ArgSpec &spec : plan.args)
    names += (names.empty() ? "" : ", ") + spec.name;
  std::string text = plan.name + "(): expected " + std::to_string(plan.args.size()) +
                     " arguments (" + names + "), got " + std::to_string(found);
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

BoundArguments::BoundArguments(const LauncherState &launcher)
    : launcher(launcher), plan(launcher.plan), slots(inlineSlots), dims(inlineDims),
      written(inlineWritten) {
  if (plan.args.size() > kInlineSlots) {
    heapSlots = std::make_unique<ArgValue[]>(plan.args.size());
    slots = heapSlots.get();
    heapWritten = std::make_unique<PyObject *[]>(plan.args.size());
    written = heapWritten.get();
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
    raiseWithPrefix(index);
  if (result != ViewResult::Ok)
    fail(PyExc_TypeError, index,
         "expected a " + plan.args[index].dtype.str() +
             " tensor (NumPy array, torch tensor or DLPack producer), got '" +
             Py_TYPE(object)->tp_name + "'");
  bindView(index, view, policy);
}

// What an argument is compared with at every call stays short and is compiled into bindView; why it does
// not fit is said by functions of their own.

namespace {

/// Writes extents and strides of \p view, in elements. The dimension whose stride is no multiple of the
/// element size, or -1.
inline int readLayout(const TensorView &view, int64_t *shape, int64_t *strides) {
  // Element sizes are powers of two, and a division takes longer than all the rest.
  const int64_t partOfUnit = view.strideUnit - 1;
  const int unitShift = __builtin_ctzll(static_cast<uint64_t>(view.strideUnit));
  int64_t compact = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    const int64_t extent = view.shape[i];
    shape[i] = extent;
    if (!view.strides) {
      strides[i] = compact;
      compact *= extent;
    } else if ((view.strides[i] & partOfUnit) == 0) {
      strides[i] = view.strides[i] >> unitShift;
    } else {
      return i;
    }
  }
  return -1;
}

inline bool isEmpty(const int64_t *shape, int rank) {
  bool empty = false;
  for (int i = 0; i < rank; ++i)
    empty |= shape[i] == 0;
  return empty;
}

inline bool extentFits(const ArgSpec &spec, int i, int64_t extent) {
  if (spec.shape[i] != kDynamic)
    return extent == spec.shape[i];
  return extent <= INT32_MAX && (spec.shapeDiv[i] <= 1 || extent % spec.shapeDiv[i] == 0);
}

/// \p used is false of an empty array and in a dimension of extent 1, whose only coordinate is 0: no
/// access depends on such a stride.
inline bool strideFits(const ArgSpec &spec, int i, int64_t stride, bool used) {
  if (spec.strides[i] != kDynamic)
    return stride == spec.strides[i] || !used;
  if (spec.indexWidth[i] == 32 && stride != static_cast<int32_t>(stride))
    return false;
  return spec.strideDiv[i] <= 1 || !used || stride % spec.strideDiv[i] == 0;
}

} // namespace

void BoundArguments::failType(size_t index, const TensorView &view) const {
  const ArgSpec &spec = plan.args[index];
  if (spec.dtype == view.dtype)
    fail(PyExc_ValueError, index,
         "expected a tensor of rank " + std::to_string(spec.rank) + ", got rank " +
             std::to_string(view.rank) + " with shape " + extentsText(view.shape, view.rank));
  const bool otherSign = spec.dtype.code == TypeCode::Int && view.dtype.code == TypeCode::UInt &&
                         spec.dtype.bits == view.dtype.bits;
  fail(PyExc_TypeError, index,
       "expected a tensor of dtype " + spec.dtype.str() + ", got dtype " + view.dtype.str() +
           (otherSign ? ": the kernel was compiled for signed numbers; compile it for an array of this "
                        "dtype, or pass a signed view of the memory"
                      : ""));
}

void BoundArguments::failExtent(size_t index, int i, const int64_t *shape) const {
  const ArgSpec &spec = plan.args[index];
  if (spec.shape[i] != kDynamic)
    fail(PyExc_ValueError, index,
         "expected shape " + extentsText(spec.shape.data(), spec.rank) + ", got " +
             extentsText(shape, spec.rank));
  if (shape[i] > INT32_MAX)
    fail(PyExc_ValueError, index,
         "extent " + std::to_string(shape[i]) + " of dimension " + std::to_string(i) +
             " does not fit in 32 bits");
  fail(PyExc_ValueError, index,
       "expected extent of dimension " + std::to_string(i) + " to be divisible by " +
           std::to_string(spec.shapeDiv[i]) + ", got " + std::to_string(shape[i]));
}

void BoundArguments::failStride(size_t index, int i, const int64_t *strides) const {
  const ArgSpec &spec = plan.args[index];
  if (spec.strides[i] != kDynamic)
    fail(PyExc_ValueError, index,
         "expected strides " + extentsText(spec.strides.data(), spec.rank) + " (elements), got " +
             extentsText(strides, spec.rank));
  if (spec.indexWidth[i] == 32 && strides[i] != static_cast<int32_t>(strides[i]))
    fail(PyExc_ValueError, index,
         "stride " + std::to_string(strides[i]) + " of dimension " + std::to_string(i) +
             " does not fit in 32 bits");
  fail(PyExc_ValueError, index,
       "expected stride of dimension " + std::to_string(i) + " to be divisible by " +
           std::to_string(spec.strideDiv[i]) + ", got " + std::to_string(strides[i]));
}

/// Whether the kernel may store to the array; a torch tensor is noted as written.
void BoundArguments::bindStores(size_t index, const TensorView &view) {
  if (view.readOnly)
    fail(PyExc_ValueError, index,
         "the array is read-only and the kernel stores to it; pass a writeable one "
         "(for example array.copy())");
  if (!view.torch)
    return;
  if (!torchAllowsStore(view.torch))
    raiseWithPrefix(index);
  written[writtenCount++] = view.torch;
}

/// Whether the offsets of a buffer resource reach all of the array.
void BoundArguments::checkSpan(size_t index, const int64_t *shape, const int64_t *strides) const {
  const ArgSpec &spec = plan.args[index];
  __int128 span = 1;
  for (int i = 0; i < spec.rank; ++i)
    span += static_cast<__int128>(shape[i] - 1) * std::abs(strides[i]);
  span *= spec.dtype.bytes();
  if (span > spec.maxBytes)
    fail(PyExc_ValueError, index,
         "expected a tensor of at most " + std::to_string(spec.maxBytes) +
             " bytes, got one that spans " + std::to_string(static_cast<uint64_t>(span)) +
             ": the kernel addresses it through a buffer resource, whose offsets have 32 bits; "
             "slice it in the kernel before make_buffer_tensor, or use plain copies");
}

void BoundArguments::checkMemory(size_t index, const TensorView &view, bool empty,
                                 const DevicePolicy &policy) const {
  const auto align = static_cast<uintptr_t>(plan.args[index].align);
  if (const uintptr_t rest = reinterpret_cast<uintptr_t>(view.data) & (align - 1))
    fail(PyExc_ValueError, index,
         "expected data aligned to " + std::to_string(align) +
             " bytes, got an address with remainder " + std::to_string(rest));
  if (!policy.check)
    return;
  if (!deviceFits(view.device, policy))
    fail(PyExc_ValueError, index, deviceProblem(view.device, policy));
  if (!view.data && !empty)
    fail(PyExc_ValueError, index, "the tensor has no memory (null data pointer)");
}

void BoundArguments::bindView(size_t index, const TensorView &view, const DevicePolicy &policy) {
  const ArgSpec &spec = plan.args[index];
  if (!(spec.dtype == view.dtype) || view.rank != spec.rank)
    failType(index, view);
  int64_t *shape = dims + spec.dimOffset, *strides = shape + spec.rank;
  if (const int i = readLayout(view, shape, strides); i >= 0)
    fail(PyExc_ValueError, index,
         "stride of dimension " + std::to_string(i) + " is " + std::to_string(view.strides[i]) +
             " bytes, not a multiple of the element size");
  const bool empty = isEmpty(shape, spec.rank);
  for (int i = 0; i < spec.rank; ++i) {
    if (!extentFits(spec, i, shape[i]))
      failExtent(index, i, shape);
    if (!strideFits(spec, i, strides[i], !empty && shape[i] != 1))
      failStride(index, i, strides);
  }
  if (spec.stored && !empty)
    checkDistinct(index, shape, strides);
  if (spec.stored)
    bindStores(index, view);
  if (spec.maxBytes && !empty)
    checkSpan(index, shape, strides);
  if (spec.words && !empty)
    checkWords(index, shape, strides);
  checkMemory(index, view, empty, policy);
  slots[index] = {reinterpret_cast<uintptr_t>(view.data), shape, strides};
}

void BoundArguments::bindObject(size_t index, PyObject *object, const DevicePolicy &policy) {
  const ArgSpec &spec = plan.args[index];
  if (spec.kind == ArgKind::Tensor)
    return bindTensor(index, object, policy);
  if (spec.kind == ArgKind::Absent) {
    if (object != Py_None)
      fail(PyExc_TypeError, index,
           std::string("expected None, got '") + Py_TYPE(object)->tp_name +
               "': it was compiled without this argument; compile it once more with a value");
    return;
  }
  uint64_t &bits = slots[index].bits;
  auto read = [&](PyObject *value) {
    switch (spec.kind) {
    case ArgKind::Scalar: return readScalar(value, spec.scalar, bits);
    case ArgKind::Pointer: return readPointer(value, bits);
    default: return readStream(value, bits);
    }
  };
  if (!read(object)) {
    // Wrappers are rare here, so they are looked at only when the object itself is no value.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *inner = unwrapArgument(object);
    bool unwrapped = inner && inner != object;
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
      raiseWithPrefix(index);
  }
  if (spec.kind == ArgKind::Pointer && bits % static_cast<uint64_t>(spec.align) != 0)
    fail(PyExc_ValueError, index,
         "expected a pointer aligned to " + std::to_string(spec.align) + " bytes");
}

void BoundArguments::bind(PyObject *const *args, const TensorView *const *views,
                          const DevicePolicy &policy) {
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const size_t position = launcher.positions.empty() ? i : launcher.positions[i];
    PyObject *object = args[position];
    if (!launcher.converters.empty() && launcher.converters[i]) {
      object = PyObject_CallOneArg(launcher.converters[i], object);
      if (!object)
        raiseWithPrefix(i);
      keep(object);
    } else if (views && views[position] && plan.args[i].kind == ArgKind::Tensor) {
      bindView(i, *views[position], policy);
      continue;
    }
    bindObject(i, object, policy);
  }
  if (writtenCount && policy.check && !torchCountStores(written, writtenCount))
    throw nb::python_error();
}

} // namespace flydsl::runtime
