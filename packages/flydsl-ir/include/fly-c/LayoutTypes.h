//===- fly-c/LayoutTypes.h - Int tuples, layouts, swizzles, tiles -*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_LAYOUTTYPES_H
#define FLY_C_LAYOUTTYPES_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Queries that several types share
//===----------------------------------------------------------------------===//

/// Rank or depth of an int_tuple, layout, composed_layout, coord_tensor or
/// memref type; -1 for any other type.
MLIR_CAPI_EXPORTED int32_t flyTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyTypeGetDepth(MlirType type);

/// Whether the type is a leaf; false for types without a rank.
MLIR_CAPI_EXPORTED bool flyTypeIsLeaf(MlirType type);

/// Whether all content is known from the type; false for types that always
/// carry run-time data (ptr, memref) and for types of other dialects.
MLIR_CAPI_EXPORTED bool flyTypeIsStatic(MlirType type);

/// The int-tuple type whose profile stands for `type`: the type itself for an
/// int_tuple, the shape of the linear layout for layout-like types, else null.
MLIR_CAPI_EXPORTED MlirType flyTypeGetProfile(MlirType type);

/// Profile relations of two int_tuple types.
MLIR_CAPI_EXPORTED bool flyIntTupleTypeIsCongruent(MlirType lhs, MlirType rhs);
MLIR_CAPI_EXPORTED bool flyIntTupleTypeIsWeaklyCongruent(MlirType lhs, MlirType rhs);

//===----------------------------------------------------------------------===//
// !fly.int_tuple and !fly.basis
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(IntTuple);
/// `attr` comes from flyIntTupleAttrGetLeaf or flyIntTupleAttrGetTuple.
MLIR_CAPI_EXPORTED MlirType flyIntTupleTypeGet(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirAttribute flyIntTupleTypeGetAttr(MlirType type);
MLIR_CAPI_EXPORTED bool flyIntTupleTypeIsLeafInt(MlirType type);
MLIR_CAPI_EXPORTED bool flyIntTupleTypeIsLeafBasis(MlirType type);
/// Whether any leaf is the hole `*`.
MLIR_CAPI_EXPORTED bool flyIntTupleTypeHasNone(MlirType type);
/// Stores the value of a static integer leaf; false for anything else.
MLIR_CAPI_EXPORTED bool flyIntTupleTypeGetStaticLeafInt(MlirType type, int32_t *value);
/// The basis type of a basis leaf; null for anything else.
MLIR_CAPI_EXPORTED MlirType flyIntTupleTypeGetLeafAsBasis(MlirType type);
/// Mode `index`; a leaf has the one mode 0, itself. Null if out of range.
MLIR_CAPI_EXPORTED MlirType flyIntTupleTypeAt(MlirType type, int32_t index);

FLY_DECLARE_CAPI_TYPE(Basis);
/// Stores the coefficient if it is static; false otherwise.
MLIR_CAPI_EXPORTED bool flyBasisTypeGetStaticValue(MlirType type, int32_t *value);
MLIR_CAPI_EXPORTED intptr_t flyBasisTypeGetNumModes(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyBasisTypeGetMode(MlirType type, intptr_t index);

//===----------------------------------------------------------------------===//
// !fly.layout and !fly.composed_layout
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(Layout);
/// `shape` and `stride` are int_tuple types.
MLIR_CAPI_EXPORTED MlirType flyLayoutTypeGet(MlirType shape, MlirType stride);
MLIR_CAPI_EXPORTED MlirAttribute flyLayoutTypeGetAttr(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyLayoutTypeGetShape(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyLayoutTypeGetStride(MlirType type);

FLY_DECLARE_CAPI_TYPE(ComposedLayout);
/// `inner` is a layout, composed_layout, swizzle or coord_swizzle type, `offset`
/// an int_tuple type, `outer` a layout or composed_layout type.
MLIR_CAPI_EXPORTED MlirType flyComposedLayoutTypeGet(MlirType inner, MlirType offset,
                                                     MlirType outer);
MLIR_CAPI_EXPORTED MlirType flyComposedLayoutTypeGetInner(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyComposedLayoutTypeGetOffset(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyComposedLayoutTypeGetOuter(MlirType type);

//===----------------------------------------------------------------------===//
// !fly.swizzle and !fly.coord_swizzle
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(Swizzle);
MLIR_CAPI_EXPORTED MlirType flySwizzleTypeGet(MlirContext context, int32_t mask, int32_t base,
                                              int32_t shift);
MLIR_CAPI_EXPORTED int32_t flySwizzleTypeGetMask(MlirType type);
MLIR_CAPI_EXPORTED int32_t flySwizzleTypeGetBase(MlirType type);
MLIR_CAPI_EXPORTED int32_t flySwizzleTypeGetShift(MlirType type);

FLY_DECLARE_CAPI_TYPE(CoordSwizzle);
MLIR_CAPI_EXPORTED MlirType flyCoordSwizzleTypeGet(MlirContext context, int32_t mask,
                                                   int32_t baseRow, intptr_t numModeRow,
                                                   const int32_t *modeRow, int32_t baseCol,
                                                   intptr_t numModeCol, const int32_t *modeCol);
MLIR_CAPI_EXPORTED int32_t flyCoordSwizzleTypeGetMask(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyCoordSwizzleTypeGetBaseRow(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyCoordSwizzleTypeGetBaseCol(MlirType type);
MLIR_CAPI_EXPORTED intptr_t flyCoordSwizzleTypeGetNumModeRow(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyCoordSwizzleTypeGetModeRow(MlirType type, intptr_t index);
MLIR_CAPI_EXPORTED intptr_t flyCoordSwizzleTypeGetNumModeCol(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyCoordSwizzleTypeGetModeCol(MlirType type, intptr_t index);

//===----------------------------------------------------------------------===//
// !fly.tile
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(Tile);
/// `attr` comes from flyTileAttrGetModes or flyTileAttrGetLeaf.
MLIR_CAPI_EXPORTED MlirType flyTileTypeGet(MlirAttribute attr);
MLIR_CAPI_EXPORTED MlirAttribute flyTileTypeGetAttr(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyTileTypeGetRank(MlirType type);
MLIR_CAPI_EXPORTED bool flyTileTypeIsLeaf(MlirType type);
/// Entry `index` as a layout, tile or int_tuple type; null if out of range.
MLIR_CAPI_EXPORTED MlirType flyTileTypeAt(MlirType type, int32_t index);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_LAYOUTTYPES_H
