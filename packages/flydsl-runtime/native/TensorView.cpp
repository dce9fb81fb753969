//===- TensorView.cpp - Tensors of Python libraries --------------------------===//

#include "TensorView.h"

#include "TorchTensors.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>
#include <vector>

namespace flydsl::runtime {

namespace {

// The leading members of NumPy's PyArrayObject and PyArray_Descr, which are the same in NumPy 1.x
// and 2.x (NumPy C-API, "Python Types and C-Structures"). numpyLayoutIsKnown() verifies this
// against the running NumPy before it is relied on.
struct NumpyDescr {
  PyObject_HEAD
  PyTypeObject *scalarType;
  char kind;
  char type;
  char byteOrder;
  char formerFlags;
  int typeNumber;
};

struct NumpyArray {
  PyObject_HEAD
  char *data;
  int rank;
  Py_ssize_t *shape;
  Py_ssize_t *strides;
  PyObject *base;
  NumpyDescr *descr;
  int flags;
};

constexpr int kNumpyWriteable = 0x0400; // NPY_ARRAY_WRITEABLE

static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "64-bit platforms only");

/// How a type of tensor is read.
enum class Source {
  None, Wrapper, Numpy, MaskedNumpy, TorchAttributes, ExchangeApi, DlpackMethod, Capsule
};

struct TypeInfo {
  PyTypeObject *type = nullptr; ///< kept alive, so that its address is not reused
  Source source = Source::None;
  bool custom = false;
  bool torch = false; ///< a torch.Tensor
  const dlpack::ExchangeApi *api = nullptr;
};

PyObject *interned(const char *text) { return PyUnicode_InternFromString(text); }

struct Names {
  PyObject *dlpack = interned("__dlpack__");
  PyObject *exchangeApi = interned(dlpack::kExchangeApiAttribute);
  PyObject *runtimeArg = interned("__flydsl_runtime_arg__");
  PyObject *dataPtr = interned("data_ptr");
  PyObject *stride = interned("stride");
  PyObject *shape = interned("shape");
  PyObject *dtype = interned("dtype");
  PyObject *getDevice = interned("get_device");
  PyObject *stream = interned("stream");
  PyObject *maxVersion = interned("max_version");
};

const Names &names() {
  static const Names instance;
  return instance;
}

bool typeHas(PyTypeObject *type, PyObject *name) {
  int result = PyObject_HasAttr(reinterpret_cast<PyObject *>(type), name);
  return result == 1;
}

/// numpy.ndarray if NumPy is imported in this process, else null (borrowed).
PyTypeObject *numpyArrayType() {
  static PyTypeObject *type = nullptr;
  if (type)
    return type;
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  if (!module)
    return nullptr;
  PyObject *attribute = PyObject_GetAttrString(module, "ndarray");
  if (!attribute) {
    PyErr_Clear();
    return nullptr;
  }
  type = reinterpret_cast<PyTypeObject *>(attribute);
  return type;
}

/// Reads an integer attribute path such as "dtype.num"; -1 on any failure.
long long readInteger(PyObject *object, const char *attribute) {
  PyObject *value = PyObject_GetAttrString(object, attribute);
  long long result = value ? PyLong_AsLongLong(value) : -1;
  Py_XDECREF(value);
  PyErr_Clear();
  return result;
}

/// Compares the structures above with what NumPy itself says of one array, so that an unexpected
/// NumPy is read through DLPack instead of by wrong offsets.
bool numpyLayoutIsKnown(PyTypeObject *arrayType) {
  static int verdict = -1;
  if (verdict >= 0)
    return verdict == 1;
  bool known = false;
  PyObject *probe = PyObject_CallFunction(reinterpret_cast<PyObject *>(arrayType), "((ii)s)", 2, 3,
                                          "int16");
  PyObject *interface = probe ? PyObject_GetAttrString(probe, "__array_interface__") : nullptr;
  PyObject *dtype = probe ? PyObject_GetAttrString(probe, "dtype") : nullptr;
  PyObject *data = interface ? PyDict_GetItemString(interface, "data") : nullptr;
  if (data && dtype && PyTuple_Check(data)) {
    auto *array = reinterpret_cast<NumpyArray *>(probe);
    void *address = PyLong_AsVoidPtr(PyTuple_GET_ITEM(data, 0));
    bool same = array->data == address && array->rank == 2 &&
                reinterpret_cast<PyObject *>(array->descr) == dtype;
    same = same && array->shape[0] == 2 && array->shape[1] == 3 && array->strides[0] == 6 &&
           array->strides[1] == 2;
    known = same && array->descr->typeNumber == readInteger(dtype, "num") &&
            array->descr->byteOrder == '=' && array->descr->kind == 'i' &&
            (array->flags & kNumpyWriteable) != 0;
    // The flag must be the one that NumPy changes.
    PyObject *done = known ? PyObject_CallMethod(probe, "setflags", "i", 0) : nullptr;
    known = done && (array->flags & kNumpyWriteable) == 0;
    Py_XDECREF(done);
  }
  PyErr_Clear();
  Py_XDECREF(dtype);
  Py_XDECREF(interface);
  Py_XDECREF(probe);
  verdict = known; // set last: the calls above may let another thread in
  return known;
}

/// Whether arrays of this type have values that are not valid. No such array exists before its
/// module is imported.
bool isMaskedArray(PyTypeObject *type) {
  PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.ma");
  PyObject *masked = module ? PyObject_GetAttrString(module, "MaskedArray") : nullptr;
  PyErr_Clear();
  const bool found = masked && PyType_Check(masked) &&
                     PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(masked));
  Py_XDECREF(masked);
  return found;
}

Source classify(PyTypeObject *type, const dlpack::ExchangeApi *&api) {
  PyTypeObject *array = numpyArrayType();
  if (array && type != array && isMaskedArray(type))
    return Source::MaskedNumpy;
  if (array && PyType_IsSubtype(type, array) && numpyLayoutIsKnown(array))
    return Source::Numpy;
  if (type == &PyCapsule_Type)
    return Source::Capsule;
  if (typeHas(type, names().runtimeArg))
    return Source::Wrapper;
  if (typeHas(type, names().exchangeApi)) {
    PyObject *capsule = PyObject_GetAttr(reinterpret_cast<PyObject *>(type), names().exchangeApi);
    void *pointer = capsule && PyCapsule_CheckExact(capsule)
                        ? PyCapsule_GetPointer(capsule, dlpack::kExchangeApiCapsuleName)
                        : nullptr;
    Py_XDECREF(capsule);
    PyErr_Clear();
    api = static_cast<const dlpack::ExchangeApi *>(pointer);
    if (api && api->header.version.major == 1 && api->tensorFromPyObject)
      return Source::ExchangeApi;
  }
  const Names &n = names();
  if (typeHas(type, n.dataPtr) && typeHas(type, n.stride) && typeHas(type, n.getDevice))
    return Source::TorchAttributes;
  return typeHas(type, n.dlpack) ? Source::DlpackMethod : Source::None;
}

std::vector<TypeInfo> &typeCache() {
  static auto *cache = new std::vector<TypeInfo>; // few types in practice: a linear scan is fastest
  return *cache;
}

std::vector<PyTypeObject *> &reservedTypes() {
  static auto *types = new std::vector<PyTypeObject *>;
  return *types;
}

TypeInfo lookUp(PyTypeObject *type) {
  std::vector<TypeInfo> &cache = typeCache();
  for (const TypeInfo &entry : cache)
    if (entry.type == type)
      return entry;
  TypeInfo entry;
  entry.type = type;
  entry.source = classify(type, entry.api);
  entry.torch = isTorchTensorType(type);
  for (PyTypeObject *reserved : reservedTypes())
    entry.custom |= PyType_IsSubtype(type, reserved) != 0;
  // Programs that pass ever new classes must not grow the cache.
  if (cache.size() < 256) {
    Py_INCREF(type);
    cache.push_back(entry);
  }
  return entry;
}

DType numpyDType(const NumpyDescr *descr) {
  if (descr->byteOrder == '>')
    return {};
  switch (descr->typeNumber) { // NPY_TYPES
  case 0: return {TypeCode::Bool, 8};
  case 1: return {TypeCode::Int, 8};
  case 2: return {TypeCode::UInt, 8};
  case 3: return {TypeCode::Int, 16};
  case 4: return {TypeCode::UInt, 16};
  case 5: return {TypeCode::Int, 32};
  case 6: return {TypeCode::UInt, 32};
  case 7:
  case 9: return {TypeCode::Int, 64};
  case 8:
  case 10: return {TypeCode::UInt, 64};
  case 11: return {TypeCode::Float, 32};
  case 12: return {TypeCode::Float, 64};
  case 14: return {TypeCode::Complex, 64};
  case 15: return {TypeCode::Complex, 128};
  case 23: return {TypeCode::Float, 16};
  default: break;
  }
  if (descr->typeNumber < 256 || !descr->scalarType)
    return {};
  // Types registered at run time: ml_dtypes' bfloat16 and 8-bit floats.
  const char *name = descr->scalarType->tp_name;
  const char *dot = std::strrchr(name, '.');
  DType type = DType::parseFrameworkName(dot ? dot + 1 : name);
  return type.bits >= 8 ? type : DType{};
}

ViewResult unsupportedDType(PyObject *dtype) {
  PyObject *text = PyObject_Str(dtype);
  PyErr_Format(PyExc_TypeError, "arrays of dtype %V cannot be passed to a kernel", text, "?");
  Py_XDECREF(text);
  return ViewResult::Error;
}

ViewResult viewNumpy(PyObject *object, TensorView &view) {
  auto *array = reinterpret_cast<NumpyArray *>(object);
  view.dtype = numpyDType(array->descr);
  if (!view.dtype.valid())
    return unsupportedDType(reinterpret_cast<PyObject *>(array->descr));
  view.data = array->data;
  view.device = {dlpack::kCPU, 0};
  view.rank = array->rank;
  view.shape = reinterpret_cast<const int64_t *>(array->shape);
  view.strides = reinterpret_cast<const int64_t *>(array->strides);
  view.strideUnit = view.dtype.bytes();
  view.readOnly = (array->flags & kNumpyWriteable) == 0;
  return ViewResult::Ok;
}

/// Whether extents and strides can be those of memory: every offset has to fit in 64 bits. Their
/// arithmetic need not look for overflows then. Sets a ValueError if not.
bool checkExtents(const TensorView &view) {
  int64_t compact = view.dtype.bytes(), span = 0;
  for (int i = view.rank - 1; i >= 0; --i) {
    const int64_t extent = view.shape[i];
    if (extent < 0) {
      PyErr_Format(PyExc_ValueError, "the extent of dimension %d is negative (%lld)", i,
                   static_cast<long long>(extent));
      return false;
    }
    int64_t reach = 0;
    const bool large =
        view.strides
            ? view.strides[i] == INT64_MIN ||
                  __builtin_mul_overflow(std::abs(view.strides[i]) * (extent > 1), extent, &reach) ||
                  __builtin_mul_overflow(reach, view.dtype.bytes(), &reach) ||
                  __builtin_add_overflow(span, reach, &span)
            : extent != 0 && __builtin_mul_overflow(compact, extent, &compact);
    if (large) {
      PyErr_Format(PyExc_ValueError, "extent %lld of dimension %d makes the tensor larger than the "
                                     "address space", static_cast<long long>(extent), i);
      return false;
    }
  }
  return true;
}

ViewResult viewDlpack(const dlpack::Tensor &tensor, TensorView &view) {
  view.dtype = {static_cast<TypeCode>(tensor.dtype.code), tensor.dtype.bits};
  if (tensor.dtype.lanes != 1) {
    PyErr_SetString(PyExc_TypeError, "arrays of vector elements (DLPack lanes) are not supported");
    return ViewResult::Error;
  }
  view.data = static_cast<char *>(tensor.data) + tensor.byteOffset;
  view.device = tensor.device;
  view.rank = tensor.ndim;
  view.shape = tensor.shape;
  view.strides = tensor.strides;
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank) {
    PyErr_Format(PyExc_ValueError, "expected a DLPack tensor of rank 0 to %d, got rank %d",
                 static_cast<int>(kMaxRank), static_cast<int>(tensor.ndim));
    return ViewResult::Error;
  }
  if (tensor.ndim > 0 && !tensor.shape) {
    PyErr_Format(PyExc_ValueError, "the DLPack tensor has rank %d but no shape (null pointer)",
                 static_cast<int>(tensor.ndim));
    return ViewResult::Error;
  }
  return checkExtents(view) ? ViewResult::Ok : ViewResult::Error;
}

ViewResult viewCapsule(PyObject *capsule, TensorView &view) {
  const char *name = PyCapsule_GetName(capsule);
  if (name && std::strcmp(name, dlpack::kCapsuleName) == 0)
    return viewDlpack(
        static_cast<dlpack::ManagedTensor *>(PyCapsule_GetPointer(capsule, name))->tensor, view);
  if (name && std::strcmp(name, dlpack::kVersionedCapsuleName) == 0) {
    auto *managed =
        static_cast<dlpack::ManagedTensorVersioned *>(PyCapsule_GetPointer(capsule, name));
    if (managed->version.major == 1) {
      view.readOnly = (managed->flags & dlpack::kReadOnlyFlag) != 0;
      return viewDlpack(managed->tensor, view);
    }
    PyErr_Format(PyExc_TypeError, "DLPack version %u is not supported", managed->version.major);
    return ViewResult::Error;
  }
  PyErr_Format(PyExc_TypeError, "capsule '%s' is not an unused DLPack capsule", name ? name : "");
  return ViewResult::Error;
}

/// Calls `__dlpack__` with the widest set of keywords that the producer takes; a new reference to
/// the capsule, or null with a Python error set. Stream -1 asks it not to synchronise: kernels are
/// ordered by the stream they are launched on.
PyObject *exportDlpack(PyObject *object) {
  static PyObject *noSync = PyLong_FromLong(-1);
  static PyObject *version = Py_BuildValue("(ii)", 1, 1);
  static PyObject *streamAndVersion = PyTuple_Pack(2, names().stream, names().maxVersion);
  static PyObject *streamOnly = PyTuple_Pack(1, names().stream);
  PyObject *capsule = nullptr;
  for (PyObject *keyword : {streamAndVersion, streamOnly}) {
    PyObject *arguments[] = {object, noSync, version};
    capsule = PyObject_VectorcallMethod(names().dlpack, arguments,
                                        1 | PY_VECTORCALL_ARGUMENTS_OFFSET, keyword);
    if (capsule)
      break;
    PyErr_Clear();
  }
  if (!capsule)
    capsule = PyObject_CallMethodNoArgs(object, names().dlpack);
  if (capsule && !PyCapsule_CheckExact(capsule)) {
    Py_CLEAR(capsule);
    PyErr_SetString(PyExc_TypeError, "__dlpack__() did not return a capsule");
  }
  return capsule;
}

ViewResult viewDlpackMethod(PyObject *object, TensorView &view) {
  view.owner = exportDlpack(object);
  return view.owner ? viewCapsule(view.owner, view) : ViewResult::Error;
}

ViewResult viewExchange(PyObject *object, const dlpack::ExchangeApi *api, TensorView &view) {
  dlpack::Tensor tensor;
  if (api->tensorFromPyObject(object, &tensor) != 0)
    return ViewResult::Error;
  return viewDlpack(tensor, view);
}

/// dtype objects of torch are singletons; their text is parsed once.
DType torchDType(PyObject *dtype) {
  static std::unordered_map<PyObject *, DType> cache;
  auto entry = cache.find(dtype);
  if (entry != cache.end())
    return entry->second;
  PyObject *text = PyObject_Str(dtype);
  const char *name = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string_view spelled = name ? name : "";
  DType type = DType::parseFrameworkName(spelled.substr(spelled.rfind('.') + 1));
  PyErr_Clear();
  Py_XDECREF(text);
  if (type.valid()) {
    Py_INCREF(dtype);
    cache.emplace(dtype, type);
  }
  return type;
}

/// Copies a tuple of integers; its length, or -1 with a Python error set.
int copyExtents(PyObject *tuple, int64_t *out) {
  if (!tuple)
    return -1;
  int size = -1;
  if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) > kMaxRank) {
    PyErr_SetString(PyExc_TypeError, "shape and stride() must be tuples of at most 32 integers");
  } else {
    size = static_cast<int>(PyTuple_GET_SIZE(tuple));
    for (int i = 0; i < size; ++i)
      out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    if (PyErr_Occurred())
      size = -1;
  }
  Py_DECREF(tuple);
  return size;
}

ViewResult viewTorch(PyObject *object, TensorView &view) {
  const Names &n = names();
  PyObject *dtype = PyObject_GetAttr(object, n.dtype);
  if (!dtype)
    return ViewResult::Error;
  view.dtype = torchDType(dtype);
  ViewResult result = view.dtype.valid() ? ViewResult::Ok : unsupportedDType(dtype);
  Py_DECREF(dtype);
  if (result != ViewResult::Ok)
    return result;

  PyObject *pointer = PyObject_CallMethodNoArgs(object, n.dataPtr);
  view.data = pointer ? PyLong_AsVoidPtr(pointer) : nullptr;
  Py_XDECREF(pointer);
  if (!pointer || PyErr_Occurred())
    return ViewResult::Error;

  PyObject *device = PyObject_CallMethodNoArgs(object, n.getDevice);
  long id = device ? PyLong_AsLong(device) : -1;
  Py_XDECREF(device);
  if (!device || PyErr_Occurred())
    return ViewResult::Error;
  view.device = id < 0 ? dlpack::Device{dlpack::kCPU, 0}
                       : dlpack::Device{dlpack::kROCM, static_cast<int32_t>(id)};

  int rank = copyExtents(PyObject_GetAttr(object, n.shape), view.dims);
  if (rank < 0)
    return ViewResult::Error;
  if (copyExtents(PyObject_CallMethodNoArgs(object, n.stride), view.dims + kMaxRank) != rank) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_TypeError, "shape and stride() differ in length");
    return ViewResult::Error;
  }
  view.rank = rank;
  view.shape = view.dims;
  view.strides = view.dims + kMaxRank;
  return checkExtents(view) ? ViewResult::Ok : ViewResult::Error;
}

} // namespace

ViewResult viewTensor(PyObject *object, TensorView &view) {
  PyTypeObject *type = Py_TYPE(object);
  TypeInfo info = lookUp(type);
  if (info.torch) {
    if (!torchMemoryIsValue(object))
      return ViewResult::Error;
    view.torch = object;
  }
  switch (info.source) {
  case Source::Numpy: return viewNumpy(object, view);
  case Source::MaskedNumpy:
    PyErr_SetString(PyExc_TypeError, "a masked array has values that are not valid: pass "
                                     ".filled(value), or .data and .mask");
    return ViewResult::Error;
  case Source::ExchangeApi: return viewExchange(object, info.api, view);
  case Source::TorchAttributes: return viewTorch(object, view);
  case Source::DlpackMethod: return viewDlpackMethod(object, view);
  case Source::Capsule: return viewCapsule(object, view);
  case Source::Wrapper: return ViewResult::Wrapper;
  case Source::None: return ViewResult::NotATensor;
  }
  return ViewResult::NotATensor;
}

PyObject *exportOnce(PyObject *object) {
  if (lookUp(Py_TYPE(object)).source == Source::DlpackMethod)
    return exportDlpack(object);
  Py_INCREF(object);
  return object;
}

ValueKind valueKind(PyObject *object) {
  TypeInfo info = lookUp(Py_TYPE(object));
  if (info.custom)
    return ValueKind::Custom;
  switch (info.source) {
  case Source::None: return ValueKind::Other;
  case Source::Wrapper: return ValueKind::Wrapper;
  default: return ValueKind::Tensor;
  }
}

void reserveType(PyTypeObject *type) {
  Py_INCREF(type);
  reservedTypes().push_back(type);
  for (TypeInfo &entry : typeCache())
    entry.custom |= PyType_IsSubtype(entry.type, type) != 0;
}

PyObject *unwrapArgument(PyObject *object) {
  Py_INCREF(object);
  // A wrapper of a wrapper is followed, a wrapper of itself is not followed for ever.
  for (int depth = 0; depth < 4; ++depth) {
    if (!typeHas(Py_TYPE(object), names().runtimeArg))
      return object;
    PyObject *inner = PyObject_GetAttr(object, names().runtimeArg);
    Py_DECREF(object);
    if (!inner)
      return nullptr;
    object = inner;
  }
  return object;
}

} // namespace flydsl::runtime
