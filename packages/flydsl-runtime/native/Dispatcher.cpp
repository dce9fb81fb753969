//===- Dispatcher.cpp - From a call's arguments to a launcher ----------------===//
//
// A dispatcher belongs to one jit function. It binds the arguments of a call
// to the parameters, builds the key of the specialisation from what they are
// (element type, rank and leading dimension of tensors; type and value of
// compile-time arguments; the type of everything else), finds the launcher
// and launches. What it cannot decide it leaves to the front end by returning
// NotImplemented: the front end then resolves the call and adds the launcher.
//
//===----------------------------------------------------------------------===//

#include "Errors.h"
#include "Guards.h"
#include "Launcher.h"
#include "LauncherObject.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <nanobind/nanobind.h>
#include <structmember.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

enum class ParameterKind : uint8_t { Runtime, CompileTime, Stream };

struct Parameter {
  PyObject *name; ///< interned
  ParameterKind kind;
  PyObject *defaultValue; ///< or null
};

constexpr size_t kMaxParameters = 48;
constexpr size_t kMaxWords = 160;
constexpr size_t kMaxTexts = 16;
constexpr size_t kInlineViews = 12;

/// The key of a call. Words decide; texts are compared as well, because only their hashes are words.
struct Key {
  uint64_t words[kMaxWords];
  size_t size = 0;
  PyObject *texts[kMaxTexts]; ///< borrowed
  size_t textCount = 0;

  bool push(uint64_t word) {
    if (size == kMaxWords)
      return false;
    words[size++] = word;
    return true;
  }
  bool push(const void *pointer) { return push(reinterpret_cast<uintptr_t>(pointer)); }
  uint64_t hash() const {
    uint64_t value = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; ++i)
      value = (value ^ words[i]) * 0x9e3779b97f4a7c15u ^ (value >> 29);
    return value;
  }
};

struct Entry {
  uint64_t hash;
  std::vector<uint64_t> words;
  std::vector<PyObject *> owned; ///< texts first, then objects whose address is a word
  size_t textCount;
  PyObject *launcher;
};

struct DispatcherState {
  std::vector<Parameter> parameters;
  size_t positional = 0; ///< parameters that can be given by position
  std::vector<PyObject *> guards;
  uint64_t epoch = 0; ///< how often the guards have been replaced
  PyObject *override = nullptr; ///< context variable that must be unset or None
  std::vector<Entry> entries;
  bool armed = false;
};

struct DispatcherObject {
  PyObject_HEAD
  vectorcallfunc vectorcall;
  DispatcherState *state;
};

DispatcherState &stateOf(PyObject *self) {
  return *reinterpret_cast<DispatcherObject *>(self)->state;
}

PyObject *notImplemented() { return Py_NewRef(Py_NotImplemented); }

/// Views taken while building a key, for the launch that follows.
class Views {
public:
  explicit Views(size_t count) : count(count) {
    if (count > kInlineViews) {
      heap = std::make_unique<TensorView[]>(count);
      storage = heap.get();
    }
    std::fill_n(taken, count, nullptr);
  }
  ~Views() {
    for (size_t i = 0; i < count; ++i)
      if (taken[i])
        Py_XDECREF(taken[i]->owner);
  }
  TensorView &operator[](size_t index) { return storage[index]; }
  const TensorView *taken[kMaxParameters];

private:
  size_t count;
  std::unique_ptr<TensorView[]> heap;
  TensorView inlineViews[kInlineViews];
  TensorView *storage = inlineViews;
};

/// The axis that stays static in a fully dynamic layout: the lowest with stride 1, else the lowest
/// of extent 1, whose stride no access depends on; -1 if there is none.
int leadingAxis(const TensorView &view) {
  if (view.strides) {
    for (int i = 0; i < view.rank; ++i)
      if (view.strides[i] == view.strideUnit)
        return i;
    for (int i = 0; i < view.rank; ++i)
      if (view.shape[i] == 1)
        return i;
    return -1;
  }
  int leading = view.rank - 1;
  for (int64_t compact = 1, i = view.rank - 1; i >= 0 && compact == 1; --i) {
    leading = static_cast<int>(i);
    compact *= view.shape[i];
  }
  return leading;
}

/// Adds type and value of a compile-time argument; false if it cannot be told by value here.
bool keyOfConstant(PyObject *value, Key &key) {
  if (!key.push(Py_TYPE(value)))
    return false;
  if (value == Py_None || PyBool_Check(value) || PyType_Check(value))
    return key.push(value);
  if (PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0 && key.push(static_cast<uint64_t>(number));
  }
  if (PyFloat_CheckExact(value)) {
    uint64_t bits;
    const double number = PyFloat_AS_DOUBLE(value);
    std::memcpy(&bits, &number, sizeof bits);
    return key.push(bits);
  }
  if (PyUnicode_CheckExact(value)) {
    if (key.textCount == kMaxTexts)
      return false;
    key.texts[key.textCount++] = value;
    return key.push(static_cast<uint64_t>(PyObject_Hash(value)));
  }
  if (PyTuple_CheckExact(value)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(value);
    if (!key.push(static_cast<uint64_t>(size)))
      return false;
    for (Py_ssize_t i = 0; i < size; ++i)
      if (!keyOfConstant(PyTuple_GET_ITEM(value, i), key))
        return false;
    return true;
  }
  return false;
}

PyObject *wrapperKeyName() {
  static PyObject *name = PyUnicode_InternFromString("__flydsl_runtime_key__");
  return name;
}

/// Adds a run-time argument. Wrappers offer an object whose address identifies their layout.
bool keyOfValue(PyObject *object, Key &key, TensorView &view, bool &viewed) {
  if (PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) ||
      object == Py_None)
    return key.push(Py_TYPE(object));
  switch (valueKind(object)) {
  case ValueKind::Tensor: {
    if (viewTensor(object, view) != ViewResult::Ok) {
      PyErr_Clear();
      return false;
    }
    viewed = true;
    const int leading = leadingAxis(view);
    if (leading < 0 || view.rank == 0)
      return false;
    return key.push(uint64_t{1} | static_cast<uint64_t>(view.dtype.code) << 8 |
                    static_cast<uint64_t>(view.dtype.bits) << 16 |
                    static_cast<uint64_t>(view.rank) << 24 |
                    static_cast<uint64_t>(leading) << 32);
  }
  case ValueKind::Wrapper: {
    PyObject *identity = PyObject_GetAttr(object, wrapperKeyName());
    if (!identity) {
      PyErr_Clear();
      return false;
    }
    const bool known = identity != Py_None && key.push(Py_TYPE(object)) && key.push(identity);
    Py_DECREF(identity); // interned by the front end, which keeps it
    return known;
  }
  case ValueKind::Other: return key.push(Py_TYPE(object));
  case ValueKind::Custom: return false;
  }
  return false;
}

bool buildKey(const DispatcherState &state, PyObject *const *values, Key &key, Views &views) {
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    bool viewed = false, known = false;
    switch (state.parameters[i].kind) {
    case ParameterKind::CompileTime: known = keyOfConstant(values[i], key); break;
    case ParameterKind::Stream: known = key.push(Py_TYPE(values[i])); break;
    case ParameterKind::Runtime: known = keyOfValue(values[i], key, views[i], viewed); break;
    }
    if (viewed)
      views.taken[i] = &views[i];
    if (!known)
      return false;
  }
  return true;
}

/// Arranges a call's arguments by parameter; false if the call does not fit the signature, which
/// the front end then explains.
bool bindCall(const DispatcherState &state, PyObject *const *args, size_t count,
              PyObject *keywords, PyObject **values) {
  const size_t parameters = state.parameters.size();
  if (count > state.positional)
    return false;
  std::copy_n(args, count, values);
  std::fill(values + count, values + parameters, nullptr);
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < named; ++k) {
    PyObject *name = PyTuple_GET_ITEM(keywords, k);
    size_t i = count;
    while (i < parameters && state.parameters[i].name != name)
      ++i;
    for (size_t j = count; i == parameters && j < parameters; ++j)
      if (PyUnicode_Compare(state.parameters[j].name, name) == 0)
        i = j;
    if (i == parameters || values[i])
      return false;
    values[i] = args[count + k];
  }
  for (size_t i = count; i < parameters; ++i) {
    if (!values[i])
      values[i] = state.parameters[i].defaultValue;
    if (!values[i])
      return false;
  }
  return true;
}

const Entry *findEntry(const DispatcherState &state, const Key &key) {
  const uint64_t hash = key.hash();
  for (const Entry &entry : state.entries) {
    if (entry.hash != hash || entry.words.size() != key.size ||
        std::memcmp(entry.words.data(), key.words, key.size * sizeof(uint64_t)) != 0)
      continue;
    bool same = entry.textCount == key.textCount;
    for (size_t i = 0; same && i < key.textCount; ++i)
      same = entry.owned[i] == key.texts[i] || PyUnicode_Compare(entry.owned[i], key.texts[i]) == 0;
    if (same)
      return &entry;
  }
  return nullptr;
}

/// True if nothing that the entries depend on has changed, and no setting is overridden.
bool current(const DispatcherState &state) {
  if (!state.armed)
    return false;
  if (state.override) {
    PyObject *value = nullptr;
    if (PyContextVar_Get(state.override, Py_None, &value) < 0) {
      PyErr_Clear();
      return false;
    }
    const bool unset = value == Py_None;
    Py_XDECREF(value);
    if (!unset)
      return false;
  }
  // A guard may run Python (properties, comparisons), which may arm or clear this dispatcher.
  const uint64_t epoch = state.epoch;
  for (size_t i = 0; i < state.guards.size(); ++i) {
    nb::object guards = nb::borrow(state.guards[i]);
    if (!guardsOf(guards.ptr())->unchanged() || state.epoch != epoch)
      return false;
  }
  return true;
}

PyObject *dispatch(PyObject *self, PyObject *const *args, size_t flags, PyObject *keywords) {
  return guarded([&]() -> PyObject * {
    DispatcherState &state = stateOf(self);
    if (state.entries.empty() || !current(state))
      return notImplemented();
    PyObject *values[kMaxParameters];
    if (!bindCall(state, args, PyVectorcall_NARGS(flags), keywords, values))
      return notImplemented();
    Views views(state.parameters.size());
    Key key;
    if (!buildKey(state, values, key, views))
      return notImplemented();
    const Entry *entry = findEntry(state, key);
    if (!entry)
      return notImplemented();
    // The table may change while the launch runs without the GIL.
    nb::object launcher = nb::borrow(entry->launcher);
    runLauncher(*launcherStateOf(launcher.ptr()), values, views.taken);
    Py_RETURN_NONE;
  });
}

void dropEntries(DispatcherState &state) {
  std::vector<Entry> entries = std::move(state.entries);
  state.entries.clear();
  for (Entry &entry : entries) {
    for (PyObject *object : entry.owned)
      Py_DECREF(object);
    Py_DECREF(entry.launcher);
  }
}

void dropGuards(DispatcherState &state) {
  state.armed = false;
  ++state.epoch;
  std::vector<PyObject *> guards = std::move(state.guards);
  state.guards.clear();
  for (PyObject *object : guards)
    Py_DECREF(object);
}

PyObject *armMethod(PyObject *self, PyObject *argument) noexcept {
  return guarded([&]() -> PyObject * {
    std::vector<nb::object> given; // an iterator may hold nothing of what it has given
    for (nb::handle object : nb::borrow<nb::object>(argument)) {
      if (!guardsOf(object.ptr()))
        throw nb::type_error("arm() takes a sequence of Guards");
      given.push_back(nb::borrow(object));
    }
    DispatcherState &state = stateOf(self);
    std::vector<PyObject *> guards;
    for (nb::object &object : given)
      guards.push_back(object.release().ptr());
    dropEntries(state);
    dropGuards(state);
    state.guards = std::move(guards);
    state.armed = true;
    Py_RETURN_NONE;
  });
}

PyObject *clearMethod(PyObject *self, PyObject *) noexcept {
  return guarded([&]() -> PyObject * {
    dropEntries(stateOf(self));
    dropGuards(stateOf(self));
    Py_RETURN_NONE;
  });
}

PyObject *currentMethod(PyObject *self, PyObject *) noexcept {
  return PyBool_FromLong(current(stateOf(self)));
}

/// Objects whose addresses are words of the key, to be kept alive with it.
void ownAddresses(const DispatcherState &state, PyObject *const *values, Entry &entry) {
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    auto *type = reinterpret_cast<PyObject *>(Py_TYPE(values[i]));
    entry.owned.push_back(Py_NewRef(type));
    if (state.parameters[i].kind == ParameterKind::CompileTime)
      entry.owned.push_back(Py_NewRef(values[i]));
    if (PyObject *identity = PyObject_GetAttr(values[i], wrapperKeyName()))
      entry.owned.push_back(identity);
    PyErr_Clear();
  }
}

PyObject *addMethod(PyObject *self, PyObject *args) noexcept {
  return guarded([&]() -> PyObject * {
    PyObject *arguments, *launcher;
    if (!PyArg_ParseTuple(args, "O!O:add", &PyTuple_Type, &arguments, &launcher))
      return nullptr;
    DispatcherState &state = stateOf(self);
    LauncherState *target = launcherStateOf(launcher);
    const size_t count = state.parameters.size();
    if (!target || target->parameterCount != count)
      throw nb::type_error("add() takes a Launcher with the parameters of the dispatcher");
    if (static_cast<size_t>(PyTuple_GET_SIZE(arguments)) != count)
      throw nb::value_error("add() takes one argument for each parameter");
    PyObject *values[kMaxParameters];
    for (size_t i = 0; i < count; ++i)
      values[i] = PyTuple_GET_ITEM(arguments, i);
    Views views(count);
    Key key;
    if (!state.armed || !buildKey(state, values, key, views))
      Py_RETURN_FALSE;
    if (findEntry(state, key))
      Py_RETURN_TRUE;
    Entry entry{key.hash(), {key.words, key.words + key.size}, {}, key.textCount, launcher};
    for (size_t i = 0; i < key.textCount; ++i)
      entry.owned.push_back(Py_NewRef(key.texts[i]));
    ownAddresses(state, values, entry);
    Py_INCREF(launcher);
    state.entries.push_back(std::move(entry));
    Py_RETURN_TRUE;
  });
}

PyObject *newDispatcher(PyTypeObject *type, PyObject *args, PyObject *) noexcept {
  return guarded([&]() -> PyObject * {
    PyObject *parameters, *override = Py_None;
    Py_ssize_t positional;
    if (!PyArg_ParseTuple(args, "On|O:Dispatcher", &parameters, &positional, &override))
      return nullptr;
    auto state = std::make_unique<DispatcherState>();
    for (nb::handle item : nb::borrow<nb::object>(parameters)) {
      PyObject *name, *defaultValue = nullptr;
      const char *kind;
      if (!PyArg_ParseTuple(item.ptr(), "Us|O", &name, &kind, &defaultValue))
        return nullptr;
      Parameter parameter{Py_NewRef(name), ParameterKind::Runtime, Py_XNewRef(defaultValue)};
      PyUnicode_InternInPlace(&parameter.name);
      if (std::strcmp(kind, "constexpr") == 0)
        parameter.kind = ParameterKind::CompileTime;
      else if (std::strcmp(kind, "stream") == 0)
        parameter.kind = ParameterKind::Stream;
      else if (std::strcmp(kind, "value") != 0)
        throw nb::value_error("a parameter is 'value', 'constexpr' or 'stream'");
      state->parameters.push_back(parameter);
    }
    if (state->parameters.size() > kMaxParameters)
      throw nb::value_error("more parameters than a dispatcher takes (Dispatcher.MAX_PARAMETERS)");
    state->positional = static_cast<size_t>(positional);
    if (override != Py_None) {
      if (!PyContextVar_CheckExact(override))
        throw nb::type_error("the override is a ContextVar");
      state->override = Py_NewRef(override);
    }
    auto *self = reinterpret_cast<DispatcherObject *>(type->tp_alloc(type, 0));
    if (!self)
      return nullptr;
    self->vectorcall = dispatch;
    self->state = state.release();
    return reinterpret_cast<PyObject *>(self);
  });
}

int traverseDispatcher(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  DispatcherState *state = reinterpret_cast<DispatcherObject *>(self)->state;
  if (!state)
    return 0;
  for (const Parameter &parameter : state->parameters)
    Py_VISIT(parameter.defaultValue);
  for (PyObject *guards : state->guards)
    Py_VISIT(guards);
  for (const Entry &entry : state->entries) {
    for (PyObject *object : entry.owned)
      Py_VISIT(object);
    Py_VISIT(entry.launcher);
  }
  return 0;
}

int clearDispatcher(PyObject *self) {
  if (DispatcherState *state = reinterpret_cast<DispatcherObject *>(self)->state) {
    dropEntries(*state);
    dropGuards(*state);
    for (Parameter &parameter : state->parameters)
      Py_CLEAR(parameter.defaultValue);
  }
  return 0;
}

void deallocDispatcher(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  clearDispatcher(self);
  if (DispatcherState *state = reinterpret_cast<DispatcherObject *>(self)->state) {
    for (Parameter &parameter : state->parameters)
      Py_DECREF(parameter.name);
    Py_XDECREF(state->override);
    delete state;
  }
  type->tp_free(self);
  Py_DECREF(type);
}

PyMethodDef dispatcherMethods[] = {
    {"arm", armMethod, METH_O,
     "arm(guards) -> None\n\nForget all launchers; from now on they hold while these Guards do."},
    {"add", addMethod, METH_VARARGS,
     "add(arguments, launcher) -> bool\n\nUse this launcher for calls like this one (one object for\n"
     "each parameter). False if such a call cannot be recognised."},
    {"clear", clearMethod, METH_NOARGS, "clear() -> None\n\nForget launchers and guards."},
    {"current", currentMethod, METH_NOARGS,
     "current() -> bool\n\nWhether the guards hold and no setting is overridden."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef dispatcherMembers[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(DispatcherObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

constexpr const char *kDispatcherDoc =
    "Dispatcher(parameters, positional, override=None)\n--\n\n"
    "Finds the launcher of a call and launches, without Python code.\n\n"
    "parameters is a sequence of (name, kind[, default]) with kind 'value', 'constexpr' or\n"
    "'stream'; the first `positional` of them may be given by position. override is a ContextVar\n"
    "that must be None. A call returns None after a launch and NotImplemented if the front end\n"
    "must decide; it raises what Launcher raises.";

PyType_Slot dispatcherSlots[] = {
    {Py_tp_new, reinterpret_cast<void *>(newDispatcher)},
    {Py_tp_dealloc, reinterpret_cast<void *>(deallocDispatcher)},
    {Py_tp_traverse, reinterpret_cast<void *>(traverseDispatcher)},
    {Py_tp_clear, reinterpret_cast<void *>(clearDispatcher)},
    {Py_tp_call, reinterpret_cast<void *>(PyVectorcall_Call)},
    {Py_tp_methods, dispatcherMethods},
    {Py_tp_members, dispatcherMembers},
    {Py_tp_doc, const_cast<char *>(kDispatcherDoc)},
    {0, nullptr}};

PyType_Spec dispatcherSpec = {"flydsl.runtime._native.Dispatcher", sizeof(DispatcherObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                  Py_TPFLAGS_HAVE_VECTORCALL,
                              dispatcherSlots};

} // namespace

void registerDispatcher(nb::module_ &m) {
  if (!addGuardsType(m.ptr()))
    throw nb::python_error();
  m.attr("Dispatcher") = nb::steal(PyType_FromSpec(&dispatcherSpec));
  m.attr("MAX_DISPATCH_PARAMETERS") = kMaxParameters;
  m.def(
      "reserve_type",
      [](nb::handle type) {
        if (!PyType_Check(type.ptr()))
          throw nb::type_error("reserve_type() takes a type");
        reserveType(reinterpret_cast<PyTypeObject *>(type.ptr()));
      },
      "Leave calls with values of this type, or of a subclass, to the front end.");
}

} // namespace flydsl::runtime
