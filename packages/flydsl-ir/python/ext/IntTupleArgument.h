//===- IntTupleArgument.h - Python objects as int tuples --------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
//
// The one conversion behind every parameter that takes an int tuple:
//
//   tuple                  nested tuple, not empty
//   int, bool              static leaf; must fit in 32 bits
//   None                   `*`; inside of a tuple only, unless the caller allows it
//   _Basis                 basis leaf; so is any object with its attributes `value` and `modes`
//   i32 or i64 ir.Value    dynamic leaf of that width, divisibility 1
//
// Anything else is a ValueError.
//
//===----------------------------------------------------------------------===//

#ifndef FLY_PYTHON_EXT_INTTUPLEARGUMENT_H
#define FLY_PYTHON_EXT_INTTUPLEARGUMENT_H

#include "PyUtils.h"
#include <vector>

namespace flydsl {

/// `_Basis(value, modes)`: marks a leaf `value E modes[0] E modes[1] ...`.
struct PyBasis {
  PyBasis(nb::object value, nb::handle modes);

  nb::object value; ///< int or an i32/i64 ir.Value
  std::vector<int32_t> modes;
};

class IntTupleArgument {
public:
  explicit IntTupleArgument(PyMlirContextRef context) : context(std::move(context)) {}

  /// The int-tuple attribute of `object`.
  MlirAttribute convert(nb::handle object);

  /// The int_tuple type of `object`, which may also be None, an int_tuple type, or a value of one.
  MlirType convertOrType(nb::handle object);

  /// The dynamic leaves met so far, in depth-first order.
  nb::list dynamicLeaves;

private:
  MlirAttribute convertBasis(const PyBasis &basis);
  MlirAttribute convertNested(nb::handle object);
  MlirAttribute convertScalar(nb::handle object);

  PyMlirContextRef context;
};

/// While alive, counts as a level of recursion; very deep nesting is a RecursionError.
struct RecursionGuard {
  RecursionGuard() {
    if (Py_EnterRecursiveCall(" while converting nested modes"))
      throw nb::python_error();
  }
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
};

/// The value of a Python int as a static leaf.
int32_t toInt32(nb::handle integer);

} // namespace flydsl

#endif // FLY_PYTHON_EXT_INTTUPLEARGUMENT_H
