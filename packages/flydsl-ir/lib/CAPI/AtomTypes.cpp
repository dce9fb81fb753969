//===- AtomTypes.cpp - C interface of atoms and tiled operations ----------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/AtomTypes.h"

#include "CAPIUtils.h"
#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;
using capi::errorsIn;
using capi::wrapAsType;

//===----------------------------------------------------------------------===//
// !fly.copy_atom and !fly.mma_atom
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(CopyAtom, CopyAtomType)

static CopyAtomType getCopyAtom(MlirType type) { return cast<CopyAtomType>(unwrap(type)); }
static MmaAtomType getMmaAtom(MlirType type) { return cast<MmaAtomType>(unwrap(type)); }

/// The structural attribute as a type; a null attribute becomes a diagnostic about `op`.
static MlirType wrapProperty(Attribute attr, Type op, StringRef kind) {
  if (!attr)
    errorsIn(op.getContext())() << op << " is not " << kind << " operation with known layouts";
  return wrapAsType(attr);
}

MlirType flyCopyAtomTypeGet(MlirType copyOp, int32_t valBits) {
  Type op = unwrap(copyOp);
  MLIRContext *ctx = op.getContext();
  if (!isa<CopyOpTypeInterface>(op)) {
    errorsIn(ctx)() << "a copy atom wraps a copy operation, got " << op;
    return {nullptr};
  }
  return wrap(CopyAtomType::getChecked(errorsIn(ctx), ctx, op, valBits));
}

MlirType flyCopyAtomTypeGetCopyOp(MlirType type) { return wrap(getCopyAtom(type).getCopyOp()); }

int32_t flyCopyAtomTypeGetValBits(MlirType type) { return getCopyAtom(type).getValBits(); }

MlirType flyCopyAtomTypeGetThrLayout(MlirType type) {
  CopyAtomType atom = getCopyAtom(type);
  return wrapProperty(atom.getThrLayout(), atom.getCopyOp(), "a copy");
}

MlirType flyCopyAtomTypeGetTVLayout(MlirType type, FlyCopySide side) {
  CopyAtomType atom = getCopyAtom(type);
  auto errors = errorsIn(atom.getContext());
  switch (side) {
  case FlyCopySideSrc:
    return wrapAsType(atom.getThrValLayoutSrc(errors));
  case FlyCopySideDst:
    return wrapAsType(atom.getThrValLayoutDst(errors));
  case FlyCopySideRef:
    return wrapAsType(atom.getThrValLayoutRef(errors));
  }
  return {nullptr};
}

FLY_DEFINE_CAPI_TYPE(MmaAtom, MmaAtomType)

MlirType flyMmaAtomTypeGet(MlirType mmaOp) {
  Type op = unwrap(mmaOp);
  if (!isa<MmaOpTypeInterface>(op)) {
    errorsIn(op.getContext())() << "an MMA atom wraps an MMA operation, got " << op;
    return {nullptr};
  }
  return wrap(MmaAtomType::get(op));
}

MlirType flyMmaAtomTypeGetMmaOp(MlirType type) { return wrap(getMmaAtom(type).getMmaOp()); }

MlirType flyMmaAtomTypeGetThrLayout(MlirType type) {
  MmaAtomType atom = getMmaAtom(type);
  return wrapProperty(atom.getThrLayout(), atom.getMmaOp(), "an MMA");
}

MlirType flyMmaAtomTypeGetShapeMNK(MlirType type) {
  MmaAtomType atom = getMmaAtom(type);
  return wrapProperty(atom.getShapeMNK(), atom.getMmaOp(), "an MMA");
}

MlirType flyMmaAtomTypeGetTVLayout(MlirType type, FlyMmaOperand operand) {
  MmaAtomType atom = getMmaAtom(type);
  return wrapProperty(atom.getThrValLayout(static_cast<MmaOperand>(operand)), atom.getMmaOp(),
                      "an MMA");
}

//===----------------------------------------------------------------------===//
// !fly.tiled_copy and !fly.tiled_mma
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(TiledCopy, TiledCopyType)

static TiledCopyType getTiledCopy(MlirType type) { return cast<TiledCopyType>(unwrap(type)); }
static TiledMmaType getTiledMma(MlirType type) { return cast<TiledMmaType>(unwrap(type)); }

/// Calls `compute(algebra)`; the algebra's error becomes a diagnostic that names `type`.
template <typename Compute> static MlirType computeProperty(Type type, Compute compute) {
  Algebra algebra(type.getContext());
  Attribute result = algebra.toAttr(compute(algebra));
  if (!algebra.failed())
    return wrapAsType(result);
  errorsIn(type.getContext())() << algebra.message() << " (in " << type << ")";
  return {nullptr};
}

MlirType flyTiledCopyTypeGetCopyAtom(MlirType type) {
  return wrap(getTiledCopy(type).getCopyAtom());
}
MlirType flyTiledCopyTypeGetLayoutThrVal(MlirType type) {
  return wrap(getTiledCopy(type).getLayoutThrVal());
}
MlirType flyTiledCopyTypeGetTileMN(MlirType type) { return wrap(getTiledCopy(type).getTileMN()); }

MlirType flyTiledCopyTypeGetTiledTVLayout(MlirType type, FlyCopySide side) {
  TiledCopyType tiled = getTiledCopy(type);
  if (side == FlyCopySideRef) {
    errorsIn(tiled.getContext())() << "a tiled copy has a source and a destination layout only";
    return {nullptr};
  }
  auto which = side == FlyCopySideSrc ? Algebra::CopySide::Src : Algebra::CopySide::Dst;
  return computeProperty(
      tiled, [&](Algebra &algebra) { return algebra.tiledCopyTV(tiled, which); });
}

FLY_DEFINE_CAPI_TYPE(TiledMma, TiledMmaType)

MlirType flyTiledMmaTypeGetMmaAtom(MlirType type) { return wrap(getTiledMma(type).getMmaAtom()); }
MlirType flyTiledMmaTypeGetAtomLayout(MlirType type) {
  return wrap(getTiledMma(type).getAtomLayout());
}
MlirType flyTiledMmaTypeGetPermutation(MlirType type) {
  return wrap(getTiledMma(type).getPermutation());
}

MlirType flyTiledMmaTypeGetTileSizeMNK(MlirType type) {
  TiledMmaType tiled = getTiledMma(type);
  return computeProperty(tiled, [&](Algebra &algebra) {
    std::vector<Tuple> sizes;
    for (int32_t mode = 0; mode < 3; ++mode) {
      Attribute entry = algebra.tileSizeMNK(tiled, mode);
      if (auto extent = dyn_cast_or_null<IntAttr>(entry))
        sizes.push_back(Tuple(algebra.fromAttr(extent)));
      else if (auto layout = dyn_cast_or_null<LayoutAttr>(entry))
        sizes.push_back(Tuple(algebra.size(algebra.fromAttr(layout))));
      else
        return algebra.fail("a permutation entry is '*', an integer or a layout");
    }
    return Tuple::of(std::move(sizes));
  });
}

MlirType flyTiledMmaTypeGetThrLayoutVMNK(MlirType type) {
  TiledMmaType tiled = getTiledMma(type);
  return computeProperty(tiled, [&](Algebra &algebra) { return algebra.thrLayoutVMNK(tiled); });
}

MlirType flyTiledMmaTypeGetTiledTVLayout(MlirType type, FlyMmaOperand operand) {
  TiledMmaType tiled = getTiledMma(type);
  return computeProperty(tiled, [&](Algebra &algebra) {
    return algebra.tiledMmaTV(tiled, static_cast<MmaOperand>(operand));
  });
}

//===----------------------------------------------------------------------===//
// Universal operations
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(CopyOpUniversalCopy, CopyOpUniversalCopyType)

MlirType flyCopyOpUniversalCopyTypeGet(MlirContext context, int32_t bitSize) {
  MLIRContext *ctx = unwrap(context);
  return wrap(CopyOpUniversalCopyType::getChecked(errorsIn(ctx), ctx, bitSize));
}

int32_t flyCopyOpUniversalCopyTypeGetBitSize(MlirType type) {
  return cast<CopyOpUniversalCopyType>(unwrap(type)).getBitSize();
}

FLY_DEFINE_CAPI_TYPE(CopyOpUniversalAtomic, CopyOpUniversalAtomicType)

MlirType flyCopyOpUniversalAtomicTypeGet(int32_t atomicOp, MlirType valueType,
                                         MlirStringRef syncScope) {
  Type valType = unwrap(valueType);
  MLIRContext *ctx = valType.getContext();
  AtomicOpAttr op = capi::makeAtomicOp(ctx, atomicOp);
  if (!op)
    return {nullptr};
  return wrap(CopyOpUniversalAtomicType::getChecked(errorsIn(ctx), ctx, op, valType,
                                                    unwrap(syncScope)));
}

FLY_DEFINE_CAPI_TYPE(MmaOpUniversalFMA, MmaOpUniversalFMAType)

MlirType flyMmaOpUniversalFMATypeGet(MlirType elementType) {
  Type elemTy = unwrap(elementType);
  MLIRContext *ctx = elemTy.getContext();
  return wrap(MmaOpUniversalFMAType::getChecked(errorsIn(ctx), ctx, elemTy));
}

MlirType flyMmaOpUniversalFMATypeGetElementType(MlirType type) {
  return wrap(cast<MmaOpUniversalFMAType>(unwrap(type)).getElemTy());
}
