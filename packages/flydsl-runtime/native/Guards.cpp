//===- Guards.cpp - Watching what a compiled function depends on -------------===//

#include "Guards.h"

#include "Errors.h"

#include <cstring>

namespace flydsl::runtime {

namespace {

/// A number that changes with every change of a dictionary, or 0 where Python has none (PEP 699
/// withdrew it from 3.12 on). Then every entry is looked up.
uint64_t dictVersion(PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#else
  (void)dict;
  return 0;
#endif
}

/// The value under a key without running Python code for the keys that occur (str, bytes, int).
PyObject *lookUp(PyObject *dict, PyObject *key) {
  PyObject *value = PyDict_GetItemWithError(dict, key);
  if (!value)
    PyErr_Clear();
  return value;
}

std::string textOf(PyObject *object) {
  PyObject *text = PyObject_Str(object);
  const char *utf8 = text ? PyUnicode_AsUTF8(text) : nullptr;
  std::string result = utf8 ? utf8 : "?";
  PyErr_Clear();
  Py_XDECREF(text);
  return result;
}

} // namespace

int Guards::traverse(visitproc visit, void *arg) const {
  for (const DictGuard &guard : dicts) {
    Py_VISIT(guard.dict);
    for (const Item &item : guard.items)
      Py_VISIT(item.value);
  }
  for (const CellGuard &guard : cells) {
    Py_VISIT(guard.cell);
    Py_VISIT(guard.value);
  }
  for (const SequenceGuard &guard : lists) {
    Py_VISIT(guard.list);
    Py_VISIT(guard.items);
  }
  for (const AttributeGuard &guard : attributes) {
    Py_VISIT(guard.object);
    Py_VISIT(guard.value);
  }
  for (const SetGuard &guard : sets) {
    Py_VISIT(guard.set);
    Py_VISIT(guard.copy);
  }
  return 0;
}

void Guards::clear() {
  cleared = true;
  if (checking) // a check runs Python, which has come here: it goes on with what it holds
    return;
  // Destructors of the objects may look at these guards again: empty the members first.
  auto oldDicts = std::move(dicts);
  auto oldCells = std::move(cells);
  auto oldLists = std::move(lists);
  auto oldAttributes = std::move(attributes);
  auto oldSets = std::move(sets);
  dicts.clear(), cells.clear(), lists.clear(), attributes.clear(), sets.clear();
  for (DictGuard &guard : oldDicts) {
    for (Item &item : guard.items) {
      Py_DECREF(item.key);
      Py_XDECREF(item.value);
    }
    Py_DECREF(guard.dict);
  }
  for (CellGuard &guard : oldCells) {
    Py_DECREF(guard.cell);
    Py_XDECREF(guard.value);
  }
  for (SequenceGuard &guard : oldLists) {
    Py_DECREF(guard.list);
    Py_DECREF(guard.items);
  }
  for (AttributeGuard &guard : oldAttributes) {
    Py_DECREF(guard.object);
    Py_DECREF(guard.name);
    Py_XDECREF(guard.value);
  }
  for (SetGuard &guard : oldSets) {
    Py_DECREF(guard.set);
    Py_DECREF(guard.copy);
  }
}

Guards::DictGuard &Guards::dictGuard(PyObject *dict) {
  for (DictGuard &guard : dicts)
    if (guard.dict == dict)
      return guard;
  Py_INCREF(dict);
  DictGuard guard;
  guard.dict = dict;
  guard.version = 0; // checked in full the first time
  dicts.push_back(std::move(guard));
  return dicts.back();
}

bool Guards::add(PyObject *entry) {
  if (!PyTuple_CheckExact(entry) || PyTuple_GET_SIZE(entry) < 2 ||
      !PyUnicode_Check(PyTuple_GET_ITEM(entry, 0))) {
    PyErr_SetString(PyExc_TypeError, "a guard is a tuple (kind, object, ...)");
    return false;
  }
  const char *kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(entry, 0));
  const Py_ssize_t size = PyTuple_GET_SIZE(entry);
  PyObject *object = PyTuple_GET_ITEM(entry, 1);
  PyObject *first = size > 2 ? PyTuple_GET_ITEM(entry, 2) : nullptr;
  PyObject *second = size > 3 ? PyTuple_GET_ITEM(entry, 3) : nullptr;
  auto is = [&](const char *name, Py_ssize_t least) {
    return kind && std::strcmp(kind, name) == 0 && size >= least;
  };
  if (is("item", 3) && PyDict_Check(object)) {
    DictGuard &guard = dictGuard(object);
    guard.items.push_back({Py_NewRef(first), Py_XNewRef(second)});
  } else if ((is("dict", 3) && PyDict_Check(object) && PyDict_CheckExact(first)) ||
             (is("type", 3) && PyType_Check(object) && PyDict_CheckExact(first) &&
              reinterpret_cast<PyTypeObject *>(object)->tp_dict)) {
    // A class shows its dictionary to Python behind a proxy only.
    DictGuard &guard = dictGuard(
        PyDict_Check(object) ? object : reinterpret_cast<PyTypeObject *>(object)->tp_dict);
    guard.size = PyDict_GET_SIZE(first);
    PyObject *key, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(first, &position, &key, &value))
      guard.items.push_back({Py_NewRef(key), Py_NewRef(value)});
  } else if (is("cell", 2) && PyCell_Check(object)) {
    cells.push_back({Py_NewRef(object), Py_XNewRef(first)});
  } else if (is("list", 3) && PyList_Check(object) && PyTuple_CheckExact(first)) {
    lists.push_back({Py_NewRef(object), Py_NewRef(first)});
  } else if (is("attr", 3) && PyUnicode_Check(first)) {
    attributes.push_back({Py_NewRef(object), Py_NewRef(first), Py_XNewRef(second)});
  } else if (is("set", 3) && PyAnySet_Check(object) && PyAnySet_Check(first)) {
    sets.push_back({Py_NewRef(object), Py_NewRef(first)});
  } else {
    PyErr_Format(PyExc_TypeError, "malformed guard %R", entry);
    return false;
  }
  return true;
}

bool Guards::DictGuard::holds() {
  const uint64_t now = dictVersion(dict);
  if (now != 0 && now == version)
    return true;
  if (size >= 0 && PyDict_GET_SIZE(dict) != size)
    return false;
  for (const Item &item : items)
    if (lookUp(dict, item.key) != item.value)
      return false;
  version = now;
  return true;
}

std::string Guards::DictGuard::what() const {
  for (const Item &item : items)
    if (lookUp(dict, item.key) != item.value)
      return textOf(item.key);
  return "the number of entries of a dictionary";
}

bool Guards::CellGuard::holds() const { return PyCell_GET(cell) == value; }

bool Guards::SequenceGuard::holds() const {
  bool same = PyList_GET_SIZE(list) == PyTuple_GET_SIZE(items);
  for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(items); ++i)
    same = PyList_GET_ITEM(list, i) == PyTuple_GET_ITEM(items, i);
  return same;
}

bool Guards::AttributeGuard::holds() const {
  PyObject *now = PyObject_GetAttr(object, name);
  PyErr_Clear();
  Py_XDECREF(now);
  return now == value;
}

std::string Guards::AttributeGuard::what() const { return textOf(name); }

bool Guards::SetGuard::holds() const {
  const int same = PySet_GET_SIZE(set) == PySet_GET_SIZE(copy)
                       ? PyObject_RichCompareBool(set, copy, Py_EQ)
                       : 0;
  PyErr_Clear();
  return same == 1;
}

bool Guards::check(std::string *where) {
  auto hold = [where](auto &guards) {
    for (auto &guard : guards) {
      if (guard.holds())
        continue;
      if (where)
        *where = guard.what();
      return false;
    }
    return true;
  };
  return !cleared && hold(dicts) && hold(cells) && hold(lists) && hold(attributes) && hold(sets);
}

bool Guards::checkHeld(std::string *where) {
  ++checking;
  const bool same = check(where) && !cleared;
  if (--checking == 0 && cleared)
    clear();
  return same;
}

bool Guards::unchanged() { return checkHeld(nullptr); }

std::string Guards::firstChange() {
  std::string where;
  checkHeld(&where);
  return where;
}

//===----------------------------------------------------------------------===//
// The Python type
//===----------------------------------------------------------------------===//

namespace {

struct GuardsObject {
  PyObject_HEAD
  Guards *guards;
};

PyTypeObject *guardsType = nullptr;

PyObject *newGuards(PyTypeObject *type, PyObject *args, PyObject *) {
  PyObject *entries;
  if (!PyArg_ParseTuple(args, "O:Guards", &entries))
    return nullptr;
  PyObject *sequence = PySequence_Fast(entries, "Guards takes a sequence of entries");
  if (!sequence)
    return nullptr;
  auto *guards = new Guards;
  bool ok = true;
  for (Py_ssize_t i = 0; ok && i < PySequence_Fast_GET_SIZE(sequence); ++i)
    ok = guards->add(PySequence_Fast_GET_ITEM(sequence, i));
  Py_DECREF(sequence);
  auto *self = ok ? reinterpret_cast<GuardsObject *>(type->tp_alloc(type, 0)) : nullptr;
  if (!self) {
    delete guards;
    return nullptr;
  }
  self->guards = guards;
  return reinterpret_cast<PyObject *>(self);
}

int traverseGuards(PyObject *self, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  Guards *guards = reinterpret_cast<GuardsObject *>(self)->guards;
  return guards ? guards->traverse(visit, arg) : 0;
}

int clearGuards(PyObject *self) {
  if (Guards *guards = reinterpret_cast<GuardsObject *>(self)->guards)
    guards->clear();
  return 0;
}

void deallocGuards(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  delete reinterpret_cast<GuardsObject *>(self)->guards;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject *unchangedMethod(PyObject *self, PyObject *) {
  return PyBool_FromLong(reinterpret_cast<GuardsObject *>(self)->guards->unchanged());
}

PyObject *firstChangeMethod(PyObject *self, PyObject *) {
  return PyUnicode_FromString(
      reinterpret_cast<GuardsObject *>(self)->guards->firstChange().c_str());
}

PyMethodDef guardsMethods[] = {
    {"unchanged", unchangedMethod, METH_NOARGS,
     "unchanged() -> bool\n\nWhether every watched value is still the same object."},
    {"first_change", firstChangeMethod, METH_NOARGS,
     "first_change() -> str\n\nWhat changed first, for messages; empty when nothing did."},
    {nullptr, nullptr, 0, nullptr}};

constexpr const char *kGuardsDoc =
    "Guards(entries)\n--\n\n"
    "Remembers values by identity. Each entry is a tuple: ('item', dict, key[, value]) for one\n"
    "entry of a dictionary (without value: absent), ('dict', dict, copy) for all of it,\n"
    "('type', class, copy), ('cell', cell[, value]), ('list', list, tuple), ('set', set, copy) and\n"
    "('attr', object, name[, value]). Raises TypeError for anything else.";

PyType_Slot guardsSlots[] = {{Py_tp_new, reinterpret_cast<void *>(newGuards)},
                             {Py_tp_dealloc, reinterpret_cast<void *>(deallocGuards)},
                             {Py_tp_traverse, reinterpret_cast<void *>(traverseGuards)},
                             {Py_tp_clear, reinterpret_cast<void *>(clearGuards)},
                             {Py_tp_methods, guardsMethods},
                             {Py_tp_doc, const_cast<char *>(kGuardsDoc)},
                             {0, nullptr}};

PyType_Spec guardsSpec = {"flydsl.runtime._native.Guards", sizeof(GuardsObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, guardsSlots};

} // namespace

Guards *guardsOf(PyObject *object) {
  return Py_IS_TYPE(object, guardsType) ? reinterpret_cast<GuardsObject *>(object)->guards
                                        : nullptr;
}

bool addGuardsType(PyObject *module) {
  guardsType = reinterpret_cast<PyTypeObject *>(PyType_FromSpec(&guardsSpec));
  return guardsType &&
         PyModule_AddObjectRef(module, "Guards", reinterpret_cast<PyObject *>(guardsType)) == 0;
}

} // namespace flydsl::runtime
