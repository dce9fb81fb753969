//===- fly-c/FlyROCDLTypes.h - AMD copy and MMA operations ------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_FLYROCDLTYPES_H
#define FLY_C_FLYROCDLTYPES_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// The result of `flyROCDL...TypeGet` is null, with a diagnostic, if the
/// operation's verifier refuses the parameters.

//===----------------------------------------------------------------------===//
// Copy operations
//===----------------------------------------------------------------------===//

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA3BufferCopy);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA3BufferCopyTypeGet(MlirContext context, int32_t bitSize,
                                                            int32_t cacheModifier);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA3BufferCopyLDS);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA3BufferCopyLDSTypeGet(MlirContext context,
                                                               int32_t bitSize);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA3BufferAtomic);
/// `atomicOp` as in flyCopyOpUniversalAtomicTypeGet.
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA3BufferAtomicTypeGet(int32_t atomicOp,
                                                              MlirType valueType);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA4LdsReadTranspose);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA4LdsReadTransposeTypeGet(MlirContext context,
                                                                  int32_t transGranularity,
                                                                  int32_t bitSize);

FLY_DECLARE_CAPI_TYPE(CopyOpGFX1250LdsReadTranspose);
MLIR_CAPI_EXPORTED MlirType flyCopyOpGFX1250LdsReadTransposeTypeGet(MlirContext context,
                                                                    int32_t transGranularity,
                                                                    int32_t bitSize);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA4BufferLoadAsyncLDS);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA4BufferLoadAsyncLDSTypeGet(MlirContext context,
                                                                    int32_t bitSize);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA4GlobalLoadAsyncLDS);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA4GlobalLoadAsyncLDSTypeGet(MlirContext context,
                                                                    int32_t bitSize);

FLY_DECLARE_CAPI_TYPE(CopyOpGFX1250TDM);
/// `padInterval` and `padAmount` count elements.
MLIR_CAPI_EXPORTED MlirType flyCopyOpGFX1250TDMTypeGet(MlirContext context, int32_t rank,
                                                       int32_t numWarps, int32_t padInterval,
                                                       int32_t padAmount, int32_t cacheModifier,
                                                       bool atomicBarrier, bool earlyTimeout);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA5TensorLoad);
/// `shape` holds the axes of the descriptor, outermost first; `tensor2tdm` is an int-tuple attribute.
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA5TensorLoadTypeGet(
    intptr_t rank, const int32_t *shape, MlirType elemTy, MlirAttribute tensor2tdm,
    bool atomicBarrier, int32_t cacheModifier, int32_t iterCount, int32_t padInterval,
    int32_t padAmount);

FLY_DECLARE_CAPI_TYPE(CopyOpCDNA5TensorStore);
MLIR_CAPI_EXPORTED MlirType flyCopyOpCDNA5TensorStoreTypeGet(
    intptr_t rank, const int32_t *shape, MlirType elemTy, MlirAttribute tensor2tdm,
    bool atomicBarrier, int32_t cacheModifier, int32_t iterCount);

/// The layout ((ATOM, ITER), WARP) -> index in the tile of a tensor copy that warps share; null, with
/// a diagnostic, if there is none.
MLIR_CAPI_EXPORTED MlirType flyTdmPartitionLayout(MlirType copyAtom, MlirType smemTensor,
                                                  int32_t numWarps);

//===----------------------------------------------------------------------===//
// MMA operations
//===----------------------------------------------------------------------===//

/// Instruction shape and element types that all MMA operations have.
typedef struct FlyMmaSignature {
  int32_t m, n, k;
  MlirType elemTyA, elemTyB, elemTyAcc;
} FlyMmaSignature;

/// Modifiers of the WMMA operations.
typedef struct FlyWmmaFlags {
  bool signA, signB, clamp;
} FlyWmmaFlags;

FLY_DECLARE_CAPI_TYPE(MmaOpCDNA3_MFMA);
MLIR_CAPI_EXPORTED MlirType flyMmaOpCDNA3_MFMATypeGet(FlyMmaSignature signature);

FLY_DECLARE_CAPI_TYPE(MmaOpCDNA4_MFMAScale);
MLIR_CAPI_EXPORTED MlirType flyMmaOpCDNA4_MFMAScaleTypeGet(FlyMmaSignature signature,
                                                           int32_t opselA, int32_t opselB);

FLY_DECLARE_CAPI_TYPE(MmaOpGFX11_WMMA);
MLIR_CAPI_EXPORTED MlirType flyMmaOpGFX11_WMMATypeGet(FlyMmaSignature signature,
                                                      FlyWmmaFlags flags);

FLY_DECLARE_CAPI_TYPE(MmaOpGFX120X_WMMA);
MLIR_CAPI_EXPORTED MlirType flyMmaOpGFX120X_WMMATypeGet(FlyMmaSignature signature,
                                                        FlyWmmaFlags flags);

FLY_DECLARE_CAPI_TYPE(MmaOpGFX1250_WMMA);
MLIR_CAPI_EXPORTED MlirType flyMmaOpGFX1250_WMMATypeGet(FlyMmaSignature signature,
                                                        FlyWmmaFlags flags, int32_t modC,
                                                        bool reuseA, bool reuseB);

FLY_DECLARE_CAPI_TYPE(MmaOpGFX1250_WMMAScale);
MLIR_CAPI_EXPORTED MlirType flyMmaOpGFX1250_WMMAScaleTypeGet(FlyMmaSignature signature,
                                                             int32_t opselA, int32_t opselB,
                                                             int32_t modC, bool reuseA,
                                                             bool reuseB, int32_t blockSize);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_FLYROCDLTYPES_H
