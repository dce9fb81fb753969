//===- Scalars.h - Scalar, pointer and stream arguments ---------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_SCALARS_H
#define FLYDSL_RUNTIME_SCALARS_H

#include "Plan.h"

#include <Python.h>

namespace flydsl::runtime {

// Each function stores the value's bits and returns true, or returns false with a Python error
// set (TypeError or OverflowError) whose text says what was expected and found, without naming
// the argument.

/// Converts a number: integers sign- or zero-extended to 64 bits, i1 as 0 or 1, floats as the raw
/// bits of their type. Integers take anything with `__index__`, never a float; a value that does
/// not fit its type is an OverflowError. f16 rounds to nearest even, bf16 keeps the upper 16 bits
/// of the float32.
bool readScalar(PyObject *object, ScalarType type, uint64_t &bits);

/// Converts None (null), an int, or an object with an int in `.value` (ctypes.c_void_p).
bool readPointer(PyObject *object, uint64_t &bits);

/// Converts None (the default stream), an int, or an object with the handle in `.cuda_stream`,
/// `.stream`, `.ptr` or `.value`.
bool readStream(PyObject *object, uint64_t &bits);

/// Name of a scalar type as the plan spells it.
const char *scalarName(ScalarType type);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_SCALARS_H
