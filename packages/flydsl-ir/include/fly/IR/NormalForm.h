//===- NormalForm.h - producers that the lowering can read --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_NORMALFORM_H
#define FLY_IR_NORMALFORM_H

#include "mlir/IR/Value.h"

namespace mlir::fly {

/// True if `value` is built from constructors only: an int tuple by make_int_tuple, a layout by
/// make_layout of such tuples, a composed layout by make_composed_layout of such parts. Swizzles
/// and tiles are always in normal form. A block argument never is.
bool isNormalForm(Value value);

/// True for a memref or coord tensor made by make_view with a layout in normal form.
bool isWeakNormalForm(Value value);

} // namespace mlir::fly

#endif // FLY_IR_NORMALFORM_H
