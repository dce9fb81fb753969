//===- StaticValues.cpp - normal-form producers of static values ------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/FlyOps.h"
#include "fly/IR/NormalForm.h"

using namespace mlir;
using namespace mlir::fly;

bool mlir::fly::isNormalForm(Value value) {
  if (isa<SwizzleType, CoordSwizzleType, TileType>(value.getType()))
    return true;
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<MakeIntTupleOp>(op))
    return true;
  if (auto layout = dyn_cast<MakeLayoutOp>(op))
    return isNormalForm(layout.getShape()) && isNormalForm(layout.getStride());
  if (auto composed = dyn_cast<MakeComposedLayoutOp>(op))
    return isNormalForm(composed.getInner()) && isNormalForm(composed.getOffset()) &&
           isNormalForm(composed.getOuter());
  return false;
}

bool mlir::fly::isWeakNormalForm(Value value) {
  auto view = value.getDefiningOp<MakeViewOp>();
  return view && isNormalForm(view.getLayout());
}

// Rebuilds a component from nothing.
static Value rebuild(OpBuilder &builder, Location loc, Type type) {
  return cast<MayStaticTypeInterface>(type).rebuildStaticValue(builder, loc, Value());
}

static Value rebuild(OpBuilder &builder, Location loc, Attribute attr) {
  return rebuild(builder, loc, getTypeFor(attr));
}

template <typename OpT>
static bool isMadeBy(Value value) {
  return value && value.getDefiningOp<OpT>();
}

Value BasisType::rebuildStaticValue(OpBuilder &, Location, Value) const { return {}; }

Value IntTupleType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  if (isMadeBy<MakeIntTupleOp>(current))
    return {};
  return MakeIntTupleOp::create(builder, loc, *this, ValueRange());
}

Value LayoutType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  if (current && isNormalForm(current))
    return {};
  Value shape = rebuild(builder, loc, getAttr().getShape());
  Value stride = rebuild(builder, loc, getAttr().getStride());
  return MakeLayoutOp::create(builder, loc, *this, shape, stride);
}

Value ComposedLayoutType::rebuildStaticValue(OpBuilder &builder, Location loc,
                                             Value current) const {
  if (current && isNormalForm(current))
    return {};
  Value inner = rebuild(builder, loc, getAttr().getInner());
  Value offset = rebuild(builder, loc, getAttr().getOffset());
  Value outer = rebuild(builder, loc, getAttr().getOuter());
  return MakeComposedLayoutOp::create(builder, loc, *this, inner, offset, outer);
}

Value CoordTensorType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  if (current && isWeakNormalForm(current))
    return {};
  Value base = rebuild(builder, loc, getBase());
  Value layout = rebuild(builder, loc, getLayout());
  return MakeViewOp::create(builder, loc, *this, base, layout);
}

#define FLY_REBUILD_STATIC(TYPE)                                                                   \
  Value TYPE::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {          \
    return current ? Value() : StaticOp::create(builder, loc, *this).getResult();                  \
  }
FLY_REBUILD_STATIC(SwizzleType)
FLY_REBUILD_STATIC(CoordSwizzleType)
FLY_REBUILD_STATIC(TileType)
#undef FLY_REBUILD_STATIC

static Value rebuildCopyAtom(OpBuilder &builder, Location loc, CopyAtomType type, Value current) {
  if (isMadeBy<MakeCopyAtomOp>(current))
    return {};
  return MakeCopyAtomOp::create(builder, loc, type);
}

static Value rebuildMmaAtom(OpBuilder &builder, Location loc, MmaAtomType type, Value current) {
  if (isMadeBy<MakeMmaAtomOp>(current))
    return {};
  return MakeMmaAtomOp::create(builder, loc, type);
}

Value CopyAtomType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  return rebuildCopyAtom(builder, loc, *this, current);
}

Value MmaAtomType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  return rebuildMmaAtom(builder, loc, *this, current);
}

Value TiledCopyType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  if (isMadeBy<MakeTiledCopyOp>(current))
    return {};
  Value atom = rebuild(builder, loc, getCopyAtom());
  Value layout = rebuild(builder, loc, getLayoutThrVal());
  Value tile = rebuild(builder, loc, getTileMN());
  return MakeTiledCopyOp::create(builder, loc, *this, atom, layout, tile);
}

Value TiledMmaType::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {
  if (isMadeBy<MakeTiledMmaOp>(current))
    return {};
  Value atom = rebuild(builder, loc, getMmaAtom());
  Value layout = rebuild(builder, loc, getAtomLayout());
  Value permutation = rebuild(builder, loc, getPermutation());
  return MakeTiledMmaOp::create(builder, loc, *this, atom, layout, permutation);
}

Value CopyOpUniversalCopyType::rebuildStaticValue(OpBuilder &builder, Location loc,
                                                  Value current) const {
  return rebuildCopyAtom(builder, loc, CopyAtomType::get(*this, getBitSize()), current);
}

Value CopyOpUniversalAtomicType::rebuildStaticValue(OpBuilder &builder, Location loc,
                                                    Value current) const {
  int32_t bits = getElementBitWidth(getValType());
  return rebuildCopyAtom(builder, loc, CopyAtomType::get(*this, bits), current);
}

Value MmaOpUniversalFMAType::rebuildStaticValue(OpBuilder &builder, Location loc,
                                                Value current) const {
  return rebuildMmaAtom(builder, loc, MmaAtomType::get(*this), current);
}
