//===- FlyDialect.h - the fly dialect: enums, attributes, types ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYDIALECT_H
#define FLY_IR_FLYDIALECT_H

#include "mlir/Dialect/GPU/IR/CompilationInterfaces.h"
#include "mlir/IR/Attributes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/Types.h"

#include "fly/IR/FlyDialect.h.inc"
#include "fly/IR/FlyEnums.h.inc"

#include "fly/IR/FlyAttrInterfaces.h.inc"
#include "fly/IR/FlyTypeInterfaces.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fly/IR/FlyAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fly/IR/FlyTypes.h.inc"

namespace mlir::fly {

/// Tags a copy-op type for which one atom call handles the whole multi-dimensional operand.
template <typename ConcreteType>
class WholeTileCopy : public TypeTrait::TraitBase<ConcreteType, WholeTileCopy> {};

/// Tags a copy-op type that writes the lanes of a wave one behind the other, whatever address each of
/// them computes: direct loads into LDS.
template <typename ConcreteType>
class LaneOrderedCopy : public TypeTrait::TraitBase<ConcreteType, LaneOrderedCopy> {};

/// Tags a copy-op type of a unit that moves tiles of tensors: its atoms need no width of a value.
template <typename ConcreteType>
class TensorMove : public TypeTrait::TraitBase<ConcreteType, TensorMove> {};

/// Adds the dialect to `registry`.
void registerFlyDialect(DialectRegistry &registry);

/// Bit width of an integer or float type; 0 for any other type.
unsigned getElementBitWidth(Type type);

/// The type by which values of an element type travel in registers: LLVM has no floats of less than 16
/// bits, which become integers, and no signs.
Type getStorageType(Type elemTy);

/// The plain layout at the end of a LayoutAttr or ComposedLayoutAttr.
LayoutAttr getLinearLayout(Attribute layout);

/// The linear layout of a layout, composed layout, memref or coord tensor type; else null.
LayoutAttr getLinearLayout(Type type);

/// The layout attribute (plain or composed) of a layout-like type; else null.
Attribute getLayoutAttr(Type type);

/// The type of a value holding `attr`, which is any structural attribute: IntTupleAttr,
/// LayoutAttr, ComposedLayoutAttr, SwizzleAttr, CoordSwizzleAttr, TileAttr or BasisAttr.
Type getTypeFor(Attribute attr);

} // namespace mlir::fly

#endif // FLY_IR_FLYDIALECT_H
