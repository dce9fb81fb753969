//===- TorchTensors.cpp - What torch keeps beside a tensor's memory ----------===//

#include "TorchTensors.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <nanobind/nanobind.h>
#include <optional>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

/// Where a torch tensor keeps its dispatch keys, two of which say that it is lazy, and what autograd
/// knows of it. A call of is_neg() takes longer than reading the whole tensor, so they are read in
/// place. The offsets are not part of torch's interface: they are found by comparing a few tensors
/// with what torch says of them, and are not used where that is not unambiguous.
struct TensorLayout {
  size_t implementation; ///< in the Python object: the pointer to the C++ tensor
  size_t keys;           ///< in the C++ tensor: its set of dispatch keys
  size_t autograd;       ///< in the C++ tensor: a pointer, null where nothing requires grad
  uint64_t lazy;         ///< the keys of negative and conjugate views
  uint64_t tracked;      ///< keys that tensors of inference mode lack: autograd ignores those
};

// The C++ tensor of any torch 2 has at least so many 8-byte words.
constexpr size_t kImplementationWords = 24;

template <typename T> T readAt(const void *base, size_t offset) {
  T value;
  std::memcpy(&value, static_cast<const char *>(base) + offset, sizeof value);
  return value;
}

/// Switches torch's inference mode on or off while it lives.
class InferenceMode {
public:
  InferenceMode(nb::handle torch, bool on) : context(torch.attr("inference_mode")(on)) {
    context.attr("__enter__")();
  }
  ~InferenceMode() {
    try {
      context.attr("__exit__")(nb::none(), nb::none(), nb::none());
    } catch (nb::python_error &) { // a destructor cannot report
    }
  }

private:
  nb::object context;
};

/// A tensor with what torch says of it.
struct Probe {
  nb::object tensor;
  uint64_t address, keys;

  Probe(nb::handle torch, nb::object object)
      : tensor(std::move(object)), address(nb::cast<uint64_t>(tensor.attr("_cdata"))),
        keys(nb::cast<uint64_t>(
            torch.attr("_C").attr("_dispatch_keys")(tensor).attr("raw_repr")())) {}
};

/// The word of a C++ tensor that becomes non-null when it starts to require grad.
std::optional<size_t> findAutograd(const Probe &probe) {
  uint64_t before[kImplementationWords], after[kImplementationWords];
  const auto *words = reinterpret_cast<const void *>(probe.address);
  std::memcpy(before, words, sizeof before);
  probe.tensor.attr("requires_grad_")(true);
  std::memcpy(after, words, sizeof after);
  std::optional<size_t> found;
  for (size_t i = 0; i < kImplementationWords; ++i) {
    if (before[i] == after[i])
      continue;
    if (found || before[i] != 0)
      return {};
    found = i * sizeof(uint64_t);
  }
  return found;
}

/// The one offset in [\p begin, \p end) of \p base at which every probe has its \p word, or none.
template <size_t N, typename Base, typename Word>
std::optional<size_t> findWord(const Probe (&probes)[N], size_t begin, size_t end, Base base, Word word) {
  std::optional<size_t> found;
  for (size_t offset = begin; offset + sizeof(uint64_t) <= end; offset += sizeof(uint64_t)) {
    const bool everywhere = std::all_of(std::begin(probes), std::end(probes), [&](const Probe &probe) {
      return readAt<uint64_t>(base(probe), offset) == word(probe);
    });
    if (!everywhere)
      continue;
    if (found)
      return {};
    found = offset;
  }
  return found;
}

std::optional<TensorLayout> findLayout() {
  nb::module_ torch = nb::module_::import_("torch");
  auto zeros = [&](const char *dtype) {
    return torch.attr("zeros")(1, nb::arg("device") = "cpu",
                               nb::arg("dtype") = torch.attr(dtype));
  };
  auto inference = [&] {
    InferenceMode on(torch, true);
    return zeros("float32");
  };
  InferenceMode off(torch, false);
  const Probe probes[] = {{torch, zeros("float32")},
                          {torch, torch.attr("_neg_view")(zeros("float32"))},
                          {torch, zeros("complex64")},
                          {torch, torch.attr("conj")(zeros("complex64"))},
                          {torch, inference()}};
  const uint64_t negative = probes[0].keys ^ probes[1].keys;
  const uint64_t conjugate = probes[2].keys ^ probes[3].keys;
  const uint64_t tracked = probes[0].keys & ~probes[4].keys;
  auto isKey = [](uint64_t key, const Probe &lazy) {
    return key && (key & (key - 1)) == 0 && (lazy.keys & key);
  };
  if (!isKey(negative, probes[1]) || !isKey(conjugate, probes[3]) || !tracked)
    return {};

  size_t objectSize = SIZE_MAX;
  for (const Probe &probe : probes)
    objectSize = std::min(objectSize, static_cast<size_t>(Py_TYPE(probe.tensor.ptr())->tp_basicsize));
  auto implementation = findWord(
      probes, sizeof(PyObject), objectSize,
      [](const Probe &probe) { return static_cast<const void *>(probe.tensor.ptr()); },
      [](const Probe &probe) { return probe.address; });
  auto keys = findWord(
      probes, 0, kImplementationWords * sizeof(uint64_t),
      [](const Probe &probe) { return reinterpret_cast<const void *>(probe.address); },
      [](const Probe &probe) { return probe.keys; });
  const auto autograd = findAutograd(probes[0]);
  if (!implementation || !keys || !autograd)
    return {};
  return TensorLayout{*implementation, *keys, *autograd, negative | conjugate, tracked};
}

/// Nothing for a torch that has not these functions.
std::optional<TensorLayout> findLayoutIfKnown() {
  // Returned from here rather than assigned in the try block: GCC 12 lets the call write to the
  // variable directly, which then holds garbage after an exception.
  try {
    return findLayout();
  } catch (nb::python_error &) {
    return std::nullopt;
  } catch (nb::cast_error &) {
    return std::nullopt;
  }
}

/// Offsets that were found, or null; looked for once.
const TensorLayout *tensorLayout() {
  static bool searched = false;
  static std::optional<TensorLayout> layout;
  if (!searched) {
    const std::optional<TensorLayout> found = findLayoutIfKnown();
    if (!searched) // the calls above may let another thread in
      layout = found;
    searched = true;
  }
  return layout ? &*layout : nullptr;
}

/// The C++ tensor; null where it is not known.
const void *implementationOf(PyObject *tensor, const TensorLayout *layout) {
  return layout ? readAt<const void *>(tensor, layout->implementation) : nullptr;
}

/// The truth of tensor.name or tensor.name(); -1 with a Python error set.
int flag(PyObject *tensor, PyObject *name, bool call) {
  PyObject *value =
      call ? PyObject_CallMethodNoArgs(tensor, name) : PyObject_GetAttr(tensor, name);
  const int truth = value ? PyObject_IsTrue(value) : -1;
  Py_XDECREF(value);
  return truth;
}

bool refuseLazy(const char *test, const char *remedy) {
  PyErr_Format(PyExc_TypeError,
               "the tensor is a lazy view (%s() is true), whose memory holds other values: pass "
               "tensor.%s()",
               test, remedy);
  return false;
}

/// torch's function that counts writes, or null where it does not work as expected.
PyObject *versionFunction() {
  static bool searched = false;
  static PyObject *function = nullptr;
  if (searched)
    return function;
  PyObject *found = nullptr;
  try {
    nb::module_ torch = nb::module_::import_("torch");
    InferenceMode off(torch, false);
    nb::object probe = torch.attr("zeros")(1, nb::arg("device") = "cpu");
    auto counts = [&](const nb::object &candidate) {
      const int64_t before = nb::cast<int64_t>(probe.attr("_version"));
      candidate(nb::make_tuple(probe));
      return nb::cast<int64_t>(probe.attr("_version")) == before + 1;
    };
    if (nb::object candidate = torch.attr("_C").attr("_increment_version"); counts(candidate))
      found = candidate.release().ptr();
  } catch (nb::python_error &) { // an older torch
  } catch (nb::cast_error &) {
  }
  searched = true;
  return function = found;
}

} // namespace

bool isTorchTensorType(PyTypeObject *type) {
  static PyObject *tensorType = nullptr;
  if (!tensorType) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    PyObject *found = module ? PyObject_GetAttrString(module, "Tensor") : nullptr;
    PyErr_Clear();
    if (!found || !PyType_Check(found)) {
      Py_XDECREF(found);
      return false;
    }
    tensorType = found;
  }
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject *>(tensorType)) != 0;
}

bool torchMemoryIsValue(PyObject *tensor) {
  const TensorLayout *layout = tensorLayout();
  const void *inner = implementationOf(tensor, layout);
  if (inner && (readAt<uint64_t>(inner, layout->keys) & layout->lazy) == 0)
    return true;
  static PyObject *isNegative = PyUnicode_InternFromString("is_neg");
  static PyObject *isConjugate = PyUnicode_InternFromString("is_conj");
  const int negative = flag(tensor, isNegative, true);
  const int conjugate = negative == 0 ? flag(tensor, isConjugate, true) : 0;
  if (negative < 0 || conjugate < 0)
    return false;
  if (negative)
    return refuseLazy("is_neg", "resolve_neg");
  return !conjugate || refuseLazy("is_conj", "resolve_conj");
}

bool torchAllowsStore(PyObject *tensor) {
  const TensorLayout *layout = tensorLayout();
  const void *inner = implementationOf(tensor, layout);
  if (inner && !readAt<const void *>(inner, layout->autograd))
    return true;
  static PyObject *requiresGrad = PyUnicode_InternFromString("requires_grad");
  static PyObject *isLeaf = PyUnicode_InternFromString("is_leaf");
  const int tracked = flag(tensor, requiresGrad, false);
  if (tracked <= 0)
    return tracked == 0;
  const int leaf = flag(tensor, isLeaf, false);
  if (leaf <= 0)
    return leaf == 0;
  PyObject *torch = PyImport_ImportModule("torch");
  PyObject *enabled = torch ? PyObject_CallMethod(torch, "is_grad_enabled", nullptr) : nullptr;
  const int recording = enabled ? PyObject_IsTrue(enabled) : -1;
  Py_XDECREF(enabled);
  Py_XDECREF(torch);
  if (recording > 0)
    PyErr_SetString(PyExc_ValueError,
                    "the tensor is a leaf that requires grad and the kernel stores to it, which "
                    "autograd cannot record; call within torch.no_grad(), or pass tensor.detach()");
  return recording == 0;
}

bool torchCountStores(PyObject **tensors, size_t count) {
  if (const TensorLayout *layout = tensorLayout())
    count = std::remove_if(tensors, tensors + count,
                           [&](PyObject *tensor) {
                             const void *inner = implementationOf(tensor, layout);
                             return inner &&
                                    !(readAt<uint64_t>(inner, layout->keys) & layout->tracked);
                           }) -
            tensors;
  PyObject *function = count ? versionFunction() : nullptr;
  if (!function)
    return true;
  PyObject *tuple = PyTuple_New(static_cast<Py_ssize_t>(count));
  if (!tuple)
    return false;
  for (size_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), Py_NewRef(tensors[i]));
  PyObject *done = PyObject_CallOneArg(function, tuple);
  Py_DECREF(tuple);
  Py_XDECREF(done);
  if (done)
    return true;
  if (!PyErr_ExceptionMatches(PyExc_RuntimeError))
    return false;
  // Tensors of inference mode have no version; the others of the call still need theirs.
  PyErr_Clear();
  for (size_t i = 0; count > 1 && i < count; ++i)
    if (!torchCountStores(tensors + i, 1))
      return false;
  return true;
}

} // namespace flydsl::runtime
