//===- fly-c/AtomTypes.h - Copy and MMA atoms, tiled operations -*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_ATOMTYPES_H
#define FLY_C_ATOMTYPES_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Operand of an MMA, in the order of the layouts' accessors.
typedef enum FlyMmaOperand {
  FlyMmaOperandA = 0,
  FlyMmaOperandB = 1,
  FlyMmaOperandC = 2,
} FlyMmaOperand;

/// Side of a copy; the reference layout is the one that tilings are written for.
typedef enum FlyCopySide {
  FlyCopySideSrc = 0,
  FlyCopySideDst = 1,
  FlyCopySideRef = 2,
} FlyCopySide;

//===----------------------------------------------------------------------===//
// !fly.copy_atom and !fly.mma_atom
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(CopyAtom);
/// `valBits` is the width, in bits, of one value of the atom's layouts.
MLIR_CAPI_EXPORTED MlirType flyCopyAtomTypeGet(MlirType copyOp, int32_t valBits);
MLIR_CAPI_EXPORTED MlirType flyCopyAtomTypeGetCopyOp(MlirType type);
MLIR_CAPI_EXPORTED int32_t flyCopyAtomTypeGetValBits(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyCopyAtomTypeGetThrLayout(MlirType type);
/// Thread-value layout of one side, counted in values.
MLIR_CAPI_EXPORTED MlirType flyCopyAtomTypeGetTVLayout(MlirType type, FlyCopySide side);

FLY_DECLARE_CAPI_TYPE(MmaAtom);
MLIR_CAPI_EXPORTED MlirType flyMmaAtomTypeGet(MlirType mmaOp);
MLIR_CAPI_EXPORTED MlirType flyMmaAtomTypeGetMmaOp(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyMmaAtomTypeGetThrLayout(MlirType type);
/// The instruction shape (M, N, K) as an int_tuple type.
MLIR_CAPI_EXPORTED MlirType flyMmaAtomTypeGetShapeMNK(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyMmaAtomTypeGetTVLayout(MlirType type, FlyMmaOperand operand);

//===----------------------------------------------------------------------===//
// !fly.tiled_copy and !fly.tiled_mma
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(TiledCopy);
MLIR_CAPI_EXPORTED MlirType flyTiledCopyTypeGetCopyAtom(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledCopyTypeGetLayoutThrVal(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledCopyTypeGetTileMN(MlirType type);
/// Layout (thread, value) -> tile index of the source or the destination side.
MLIR_CAPI_EXPORTED MlirType flyTiledCopyTypeGetTiledTVLayout(MlirType type, FlyCopySide side);

FLY_DECLARE_CAPI_TYPE(TiledMma);
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetMmaAtom(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetAtomLayout(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetPermutation(MlirType type);
/// The tile size (M, N, K) as an int_tuple type.
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetTileSizeMNK(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetThrLayoutVMNK(MlirType type);
MLIR_CAPI_EXPORTED MlirType flyTiledMmaTypeGetTiledTVLayout(MlirType type, FlyMmaOperand operand);

//===----------------------------------------------------------------------===//
// Universal operations
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(CopyOpUniversalCopy);
MLIR_CAPI_EXPORTED MlirType flyCopyOpUniversalCopyTypeGet(MlirContext context, int32_t bitSize);
MLIR_CAPI_EXPORTED int32_t flyCopyOpUniversalCopyTypeGetBitSize(MlirType type);

FLY_DECLARE_CAPI_TYPE(CopyOpUniversalAtomic);
/// `atomicOp` is 0 add, 1 max, 2 min, 3 and, 4 or, 5 inc, 6 dec; `syncScope` is an
/// LLVM synchronisation scope, empty for the system scope.
MLIR_CAPI_EXPORTED MlirType flyCopyOpUniversalAtomicTypeGet(int32_t atomicOp, MlirType valueType,
                                                            MlirStringRef syncScope);

FLY_DECLARE_CAPI_TYPE(MmaOpUniversalFMA);
MLIR_CAPI_EXPORTED MlirType flyMmaOpUniversalFMATypeGet(MlirType elementType);
MLIR_CAPI_EXPORTED MlirType flyMmaOpUniversalFMATypeGetElementType(MlirType type);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_ATOMTYPES_H
