//===- LayoutTypes.cpp - C interface of tuple, layout and tile types ------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/LayoutTypes.h"

#include "CAPIUtils.h"

using namespace mlir;
using namespace mlir::fly;
using capi::errorsIn;
using capi::unwrapStructure;
using capi::wrapAsType;

//===----------------------------------------------------------------------===//
// Queries that several types share
//===----------------------------------------------------------------------===//

/// What carries the nesting of a type: the type, or the layout of a memref.
static NestedAttrInterface getNested(MlirType type) {
  if (Attribute layout = getLayoutAttr(unwrap(type)))
    return dyn_cast<NestedAttrInterface>(layout);
  return dyn_cast_or_null<NestedAttrInterface>(unwrapStructure(type));
}

int32_t flyTypeGetRank(MlirType type) {
  NestedAttrInterface nested = getNested(type);
  return nested ? nested.rank() : -1;
}

int32_t flyTypeGetDepth(MlirType type) {
  NestedAttrInterface nested = getNested(type);
  return nested ? nested.depth() : -1;
}

bool flyTypeIsLeaf(MlirType type) {
  NestedAttrInterface nested = getNested(type);
  return nested && nested.isLeaf();
}

bool flyTypeIsStatic(MlirType type) {
  auto mayStatic = dyn_cast<MayStaticTypeInterface>(unwrap(type));
  return mayStatic && mayStatic.isStatic();
}

MlirType flyTypeGetProfile(MlirType type) {
  if (isa<IntTupleType>(unwrap(type)))
    return type;
  LayoutAttr linear = getLinearLayout(unwrap(type));
  return wrapAsType(linear ? linear.getShape() : IntTupleAttr());
}

static IntTupleAttr getTuple(MlirType type) { return cast<IntTupleType>(unwrap(type)).getAttr(); }

/// Whether `rhs` has at least the nesting of `lhs`; the same nesting if `strict`.
static bool matchesProfile(IntTupleAttr lhs, IntTupleAttr rhs, bool strict) {
  if (lhs.isLeaf())
    return !strict || rhs.isLeaf();
  if (rhs.isLeaf() || lhs.rank() != rhs.rank())
    return false;
  for (int32_t i = 0, rank = lhs.rank(); i < rank; ++i)
    if (!matchesProfile(lhs.at(i), rhs.at(i), strict))
      return false;
  return true;
}

bool flyIntTupleTypeIsCongruent(MlirType lhs, MlirType rhs) {
  return matchesProfile(getTuple(lhs), getTuple(rhs), /*strict=*/true);
}

bool flyIntTupleTypeIsWeaklyCongruent(MlirType lhs, MlirType rhs) {
  return matchesProfile(getTuple(lhs), getTuple(rhs), /*strict=*/false);
}

//===----------------------------------------------------------------------===//
// !fly.int_tuple and !fly.basis
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(IntTuple, IntTupleType)

MlirType flyIntTupleTypeGet(MlirAttribute attr) {
  return wrap(IntTupleType::get(cast<IntTupleAttr>(unwrap(attr))));
}

MlirAttribute flyIntTupleTypeGetAttr(MlirType type) { return wrap(getTuple(type)); }

bool flyIntTupleTypeIsLeafInt(MlirType type) { return getTuple(type).isLeafInt(); }

bool flyIntTupleTypeIsLeafBasis(MlirType type) { return getTuple(type).isLeafBasis(); }

bool flyIntTupleTypeHasNone(MlirType type) {
  bool found = false;
  getTuple(type).walkLeaves([&](IntTupleAttr leaf) { found |= leaf.isLeafNone(); });
  return found;
}

bool flyIntTupleTypeGetStaticLeafInt(MlirType type, int32_t *value) {
  auto leaf = dyn_cast<IntAttr>(getTuple(type).getValue());
  if (!leaf || !leaf.isStatic())
    return false;
  *value = leaf.getValue();
  return true;
}

MlirType flyIntTupleTypeGetLeafAsBasis(MlirType type) {
  return wrapAsType(dyn_cast<BasisAttr>(getTuple(type).getValue()));
}

MlirType flyIntTupleTypeAt(MlirType type, int32_t index) {
  return wrapAsType(getTuple(type).at(index));
}

FLY_DEFINE_CAPI_TYPE(Basis, BasisType)

static BasisAttr getBasis(MlirType type) { return cast<BasisType>(unwrap(type)).getAttr(); }

bool flyBasisTypeGetStaticValue(MlirType type, int32_t *value) {
  IntAttr coefficient = getBasis(type).getValue();
  if (!coefficient.isStatic())
    return false;
  *value = coefficient.getValue();
  return true;
}

intptr_t flyBasisTypeGetNumModes(MlirType type) { return getBasis(type).getModes().size(); }

int32_t flyBasisTypeGetMode(MlirType type, intptr_t index) {
  return getBasis(type).getModes()[index];
}

//===----------------------------------------------------------------------===//
// !fly.layout and !fly.composed_layout
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(Layout, LayoutType)

MlirType flyLayoutTypeGet(MlirType shape, MlirType stride) {
  MLIRContext *ctx = unwrap(shape).getContext();
  LayoutAttr layout = LayoutAttr::get(getTuple(shape), getTuple(stride));
  if (!layout.isCongruent()) {
    errorsIn(ctx)() << "the shape " << layout.getShape() << " and the stride " << layout.getStride()
                    << " of a layout differ in their profiles: every extent needs one stride";
    return {nullptr};
  }
  return wrap(LayoutType::get(layout));
}

static LayoutAttr getLayout(MlirType type) { return cast<LayoutType>(unwrap(type)).getAttr(); }

MlirAttribute flyLayoutTypeGetAttr(MlirType type) { return wrap(getLayout(type)); }

MlirType flyLayoutTypeGetShape(MlirType type) { return wrapAsType(getLayout(type).getShape()); }

MlirType flyLayoutTypeGetStride(MlirType type) { return wrapAsType(getLayout(type).getStride()); }

FLY_DEFINE_CAPI_TYPE(ComposedLayout, ComposedLayoutType)

MlirType flyComposedLayoutTypeGet(MlirType inner, MlirType offset, MlirType outer) {
  MLIRContext *ctx = unwrap(offset).getContext();
  Attribute innerAttr = unwrapStructure(inner), outerAttr = unwrapStructure(outer);
  if (!innerAttr || !outerAttr) {
    errorsIn(ctx)() << "a composed layout consists of layouts and swizzles, got "
                    << unwrap(inner) << " and " << unwrap(outer);
    return {nullptr};
  }
  return wrapAsType(ComposedLayoutAttr::getChecked(errorsIn(ctx), ctx, innerAttr,
                                                   getTuple(offset), outerAttr));
}

static ComposedLayoutAttr getComposed(MlirType type) {
  return cast<ComposedLayoutType>(unwrap(type)).getAttr();
}

MlirType flyComposedLayoutTypeGetInner(MlirType type) {
  return wrapAsType(getComposed(type).getInner());
}

MlirType flyComposedLayoutTypeGetOffset(MlirType type) {
  return wrapAsType(getComposed(type).getOffset());
}

MlirType flyComposedLayoutTypeGetOuter(MlirType type) {
  return wrapAsType(getComposed(type).getOuter());
}

//===----------------------------------------------------------------------===//
// !fly.swizzle and !fly.coord_swizzle
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(Swizzle, SwizzleType)

MlirType flySwizzleTypeGet(MlirContext context, int32_t mask, int32_t base, int32_t shift) {
  MLIRContext *ctx = unwrap(context);
  return wrapAsType(SwizzleAttr::getChecked(errorsIn(ctx), ctx, mask, base, shift));
}

static SwizzleAttr getSwizzle(MlirType type) { return cast<SwizzleType>(unwrap(type)).getAttr(); }

int32_t flySwizzleTypeGetMask(MlirType type) { return getSwizzle(type).getMask(); }
int32_t flySwizzleTypeGetBase(MlirType type) { return getSwizzle(type).getBase(); }
int32_t flySwizzleTypeGetShift(MlirType type) { return getSwizzle(type).getShift(); }

FLY_DEFINE_CAPI_TYPE(CoordSwizzle, CoordSwizzleType)

MlirType flyCoordSwizzleTypeGet(MlirContext context, int32_t mask, int32_t baseRow,
                                intptr_t numModeRow, const int32_t *modeRow, int32_t baseCol,
                                intptr_t numModeCol, const int32_t *modeCol) {
  MLIRContext *ctx = unwrap(context);
  return wrapAsType(CoordSwizzleAttr::getChecked(
      errorsIn(ctx), ctx, mask, baseRow, ArrayRef(modeRow, numModeRow), baseCol,
      ArrayRef(modeCol, numModeCol)));
}

static CoordSwizzleAttr getCoordSwizzle(MlirType type) {
  return cast<CoordSwizzleType>(unwrap(type)).getAttr();
}

int32_t flyCoordSwizzleTypeGetMask(MlirType type) { return getCoordSwizzle(type).getMask(); }
int32_t flyCoordSwizzleTypeGetBaseRow(MlirType type) {
  return getCoordSwizzle(type).getBaseRow();
}
int32_t flyCoordSwizzleTypeGetBaseCol(MlirType type) {
  return getCoordSwizzle(type).getBaseCol();
}
intptr_t flyCoordSwizzleTypeGetNumModeRow(MlirType type) {
  return getCoordSwizzle(type).getModeRow().size();
}
int32_t flyCoordSwizzleTypeGetModeRow(MlirType type, intptr_t index) {
  return getCoordSwizzle(type).getModeRow()[index];
}
intptr_t flyCoordSwizzleTypeGetNumModeCol(MlirType type) {
  return getCoordSwizzle(type).getModeCol().size();
}
int32_t flyCoordSwizzleTypeGetModeCol(MlirType type, intptr_t index) {
  return getCoordSwizzle(type).getModeCol()[index];
}

//===----------------------------------------------------------------------===//
// !fly.tile
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(Tile, TileType)

MlirType flyTileTypeGet(MlirAttribute attr) {
  return wrap(TileType::get(cast<TileAttr>(unwrap(attr))));
}

static TileAttr getTile(MlirType type) { return cast<TileType>(unwrap(type)).getAttr(); }

MlirAttribute flyTileTypeGetAttr(MlirType type) { return wrap(getTile(type)); }

int32_t flyTileTypeGetRank(MlirType type) { return getTile(type).rank(); }

bool flyTileTypeIsLeaf(MlirType type) { return getTile(type).isLeaf(); }

MlirType flyTileTypeAt(MlirType type, int32_t index) {
  Attribute element = getTile(type).at(index);
  if (auto leaf = dyn_cast_or_null<IntAttr>(element))
    element = IntTupleAttr::get(leaf);
  return wrapAsType(element);
}
