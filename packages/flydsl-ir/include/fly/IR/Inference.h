//===- Inference.h - building blocks of result type inference -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_INFERENCE_H
#define FLY_IR_INFERENCE_H

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyDialect.h"

namespace mlir::fly {

/// `layout` with the plain layout at the end of its chain replaced by `linear`.
Attribute replaceLinear(Attribute layout, LayoutAttr linear);

/// A type of the same kind with another layout attribute. A layout type becomes a composed layout
/// type if `layout` is composed.
Type withLayout(Type type, Attribute layout);

/// Pointer type after moving by `offset` elements (an integer leaf): the alignment shrinks to what
/// the offset keeps.
PointerType offsetPointer(PointerType ptr, const Int &offset);

/// Tensor type with its linear layout replaced, moved by `offset`. In a composed layout, the
/// offset goes to the outermost composition and the alignment stays.
Type offsetTensor(Algebra &algebra, Type tensor, const Tuple &offset, const Layout &linear);

/// Records an error if a static entry of `coord` lies outside of a static extent of a memref. Entries of
/// coordinate tensors, layouts and tuples may lie anywhere.
void checkInside(Algebra &algebra, Type tensor, const Tuple &coord);

/// Type of `fly.slice`.
Type inferSlice(Algebra &algebra, Type src, IntTupleAttr coord);

/// Attribute of `fly.slice` on a plain or composed layout.
Attribute sliceLayout(Algebra &algebra, Attribute layout, const Tuple &coord);

/// `(coord, *, *, ...)` with a `*` for every mode of `view` after the first.
Tuple firstModeCoord(const Tuple &coord, int32_t rank);

/// Checks operands against the kinds of an op's arguments (names of constraints in FlyOpBase.td;
/// kinds of attributes are skipped).
LogicalResult checkOperands(std::optional<Location> loc, ArrayRef<const char *> kinds,
                            ValueRange operands);

} // namespace mlir::fly

#endif // FLY_IR_INFERENCE_H
