//===- Guards.h - Watching what a compiled function depends on --*- C++ -*-===//
//
// A traced function depends on globals, closure cells, attributes and the
// contents of containers. Guards remember what was there and tell in well
// under a microsecond whether all of it still is. They compare identities:
// an equal but new object counts as a change (the front end then compares by
// value). Sets alone are compared by value, which calls what their members
// define, as reading an attribute calls what its type defines.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_GUARDS_H
#define FLYDSL_RUNTIME_GUARDS_H

#include <Python.h>
#include <cstdint>
#include <string>
#include <vector>

namespace flydsl::runtime {

class Guards {
public:
  Guards() = default;
  ~Guards() { clear(); }
  Guards(const Guards &) = delete;
  Guards &operator=(const Guards &) = delete;

  /// Adds (kind, object, ...), see the documentation of the Python type. False with a Python error
  /// set if the entry is malformed.
  bool add(PyObject *entry);

  /// True if nothing has changed. Needs the GIL; clears Python errors of its own.
  bool unchanged();

  /// For the cycle collector: the objects held; and forgetting them, after which all has changed.
  int traverse(visitproc visit, void *arg) const;
  void clear();

  /// The first entry that changed as text, or "" if none did.
  std::string firstChange();

private:
  // Every kind of guard tells whether what it watches `holds`, and if not, `what` has changed.
  struct Item {
    PyObject *key, *value; ///< value null: absent
  };
  struct DictGuard {
    PyObject *dict;
    uint64_t version = 0;
    Py_ssize_t size = -1; ///< of the whole dictionary if all of it is watched, else -1
    std::vector<Item> items;
    bool holds();
    std::string what() const;
  };
  struct CellGuard {
    PyObject *cell, *value;
    bool holds() const;
    std::string what() const { return "a captured variable"; }
  };
  struct SequenceGuard {
    PyObject *list, *items; ///< a list and the tuple of its items
    bool holds() const;
    std::string what() const { return "the items of a list"; }
  };
  struct AttributeGuard {
    PyObject *object, *name, *value;
    bool holds() const;
    std::string what() const;
  };
  struct SetGuard {
    PyObject *set, *copy;
    bool holds() const;
    std::string what() const { return "the members of a set"; }
  };

  DictGuard &dictGuard(PyObject *dict);
  bool check(std::string *where);
  bool checkHeld(std::string *where);

  bool cleared = false;
  unsigned checking = 0; ///< checks that run, by which the members may not change
  std::vector<DictGuard> dicts;
  std::vector<CellGuard> cells;
  std::vector<SequenceGuard> lists;
  std::vector<AttributeGuard> attributes;
  std::vector<SetGuard> sets;
};

/// The Guards in a Python object of type flydsl.runtime._native.Guards, or null.
Guards *guardsOf(PyObject *object);

/// Adds the type Guards to \p module; false with a Python error set.
bool addGuardsType(PyObject *module);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_GUARDS_H
