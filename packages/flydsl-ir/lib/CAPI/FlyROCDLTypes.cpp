//===- FlyROCDLTypes.cpp - C interface of AMD copy and MMA operations -----===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/FlyROCDLTypes.h"

#include "CAPIUtils.h"
#include "fly-c/Attributes.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"
#include "fly_rocdl/IR/TdmPartition.h"

using namespace mlir;
using namespace mlir::fly_rocdl;
using fly::capi::errorsIn;

/// Builds the type, or emits why its verifier refuses the parameters.
template <typename T, typename... Params>
static MlirType getVerified(MLIRContext *ctx, Params &&...params) {
  return wrap(T::getChecked(errorsIn(ctx), ctx, std::forward<Params>(params)...));
}

//===----------------------------------------------------------------------===//
// Address space
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_ATTR(BufferDescAddress, BufferDescAddressAttr)

MlirAttribute flyBufferDescAddressAttrGet(MlirContext context) {
  return wrap(BufferDescAddressAttr::get(unwrap(context)));
}

//===----------------------------------------------------------------------===//
// Copy operations
//===----------------------------------------------------------------------===//

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA3BufferCopy, CopyOpCDNA3BufferCopyType)

MlirType flyCopyOpCDNA3BufferCopyTypeGet(MlirContext context, int32_t bitSize,
                                         int32_t cacheModifier) {
  return getVerified<CopyOpCDNA3BufferCopyType>(unwrap(context), bitSize, cacheModifier);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA3BufferCopyLDS, CopyOpCDNA3BufferCopyLDSType)

MlirType flyCopyOpCDNA3BufferCopyLDSTypeGet(MlirContext context, int32_t bitSize) {
  return getVerified<CopyOpCDNA3BufferCopyLDSType>(unwrap(context), bitSize);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA3BufferAtomic, CopyOpCDNA3BufferAtomicType)

MlirType flyCopyOpCDNA3BufferAtomicTypeGet(int32_t atomicOp, MlirType valueType) {
  Type valType = unwrap(valueType);
  MLIRContext *ctx = valType.getContext();
  fly::AtomicOpAttr op = fly::capi::makeAtomicOp(ctx, atomicOp);
  if (!op)
    return {nullptr};
  return getVerified<CopyOpCDNA3BufferAtomicType>(ctx, op, valType);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA4LdsReadTranspose, CopyOpCDNA4LdsReadTransposeType)

MlirType flyCopyOpCDNA4LdsReadTransposeTypeGet(MlirContext context, int32_t transGranularity,
                                               int32_t bitSize) {
  return getVerified<CopyOpCDNA4LdsReadTransposeType>(unwrap(context), transGranularity, bitSize);
}

FLY_DEFINE_CAPI_TYPE(CopyOpGFX1250LdsReadTranspose, CopyOpGFX1250LdsReadTransposeType)

MlirType flyCopyOpGFX1250LdsReadTransposeTypeGet(MlirContext context, int32_t transGranularity,
                                                 int32_t bitSize) {
  return getVerified<CopyOpGFX1250LdsReadTransposeType>(unwrap(context), transGranularity, bitSize);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA4BufferLoadAsyncLDS, CopyOpCDNA4BufferLoadAsyncLDSType)

MlirType flyCopyOpCDNA4BufferLoadAsyncLDSTypeGet(MlirContext context, int32_t bitSize) {
  return getVerified<CopyOpCDNA4BufferLoadAsyncLDSType>(unwrap(context), bitSize);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA4GlobalLoadAsyncLDS, CopyOpCDNA4GlobalLoadAsyncLDSType)

MlirType flyCopyOpCDNA4GlobalLoadAsyncLDSTypeGet(MlirContext context, int32_t bitSize) {
  return getVerified<CopyOpCDNA4GlobalLoadAsyncLDSType>(unwrap(context), bitSize);
}

FLY_DEFINE_CAPI_TYPE(CopyOpGFX1250TDM, CopyOpGFX1250TDMType)

MlirType flyCopyOpGFX1250TDMTypeGet(MlirContext context, int32_t rank, int32_t numWarps,
                                    int32_t padInterval, int32_t padAmount, int32_t cacheModifier,
                                    bool atomicBarrier, bool earlyTimeout) {
  return getVerified<CopyOpGFX1250TDMType>(unwrap(context), rank, numWarps, padInterval, padAmount,
                                           cacheModifier, atomicBarrier, earlyTimeout);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA5TensorLoad, CopyOpCDNA5TensorLoadType)

MlirType flyCopyOpCDNA5TensorLoadTypeGet(intptr_t rank, const int32_t *shape, MlirType elemTy,
                                         MlirAttribute tensor2tdm, bool atomicBarrier,
                                         int32_t cacheModifier, int32_t iterCount,
                                         int32_t padInterval, int32_t padAmount) {
  Type elem = unwrap(elemTy);
  return getVerified<CopyOpCDNA5TensorLoadType>(
      elem.getContext(), ArrayRef<int32_t>(shape, rank), elem,
      cast<fly::IntTupleAttr>(unwrap(tensor2tdm)), atomicBarrier, cacheModifier, iterCount,
      padInterval, padAmount);
}

FLY_DEFINE_CAPI_TYPE(CopyOpCDNA5TensorStore, CopyOpCDNA5TensorStoreType)

MlirType flyCopyOpCDNA5TensorStoreTypeGet(intptr_t rank, const int32_t *shape, MlirType elemTy,
                                          MlirAttribute tensor2tdm, bool atomicBarrier,
                                          int32_t cacheModifier, int32_t iterCount) {
  Type elem = unwrap(elemTy);
  return getVerified<CopyOpCDNA5TensorStoreType>(
      elem.getContext(), ArrayRef<int32_t>(shape, rank), elem,
      cast<fly::IntTupleAttr>(unwrap(tensor2tdm)), atomicBarrier, cacheModifier, iterCount);
}

MlirType flyTdmPartitionLayout(MlirType copyAtom, MlirType smemTensor, int32_t numWarps) {
  auto atom = dyn_cast<fly::CopyAtomType>(unwrap(copyAtom));
  auto smem = dyn_cast<fly::MemRefType>(unwrap(smemTensor));
  if (!atom || !smem) {
    emitError(UnknownLoc::get(unwrap(copyAtom).getContext()))
        << "expected a copy atom and a memref, got " << unwrap(copyAtom) << " and "
        << unwrap(smemTensor);
    return wrap(Type());
  }
  return wrap(Type(getTdmPartitionLayout(atom, smem, numWarps)));
}

//===----------------------------------------------------------------------===//
// MMA operations
//===----------------------------------------------------------------------===//

/// Builds an MMA operation type from its signature and the parameters that follow it.
template <typename T, typename... Params>
static MlirType getMma(FlyMmaSignature sig, Params... params) {
  Type elemTyA = unwrap(sig.elemTyA);
  return getVerified<T>(elemTyA.getContext(), sig.m, sig.n, sig.k, elemTyA, unwrap(sig.elemTyB),
                        unwrap(sig.elemTyAcc), params...);
}

FLY_DEFINE_CAPI_TYPE(MmaOpCDNA3_MFMA, MmaOpCDNA3_MFMAType)

MlirType flyMmaOpCDNA3_MFMATypeGet(FlyMmaSignature signature) {
  return getMma<MmaOpCDNA3_MFMAType>(signature);
}

FLY_DEFINE_CAPI_TYPE(MmaOpCDNA4_MFMAScale, MmaOpCDNA4_MFMAScaleType)

MlirType flyMmaOpCDNA4_MFMAScaleTypeGet(FlyMmaSignature signature, int32_t opselA,
                                        int32_t opselB) {
  return getMma<MmaOpCDNA4_MFMAScaleType>(signature, opselA, opselB);
}

FLY_DEFINE_CAPI_TYPE(MmaOpGFX11_WMMA, MmaOpGFX11_WMMAType)

MlirType flyMmaOpGFX11_WMMATypeGet(FlyMmaSignature signature, FlyWmmaFlags flags) {
  return getMma<MmaOpGFX11_WMMAType>(signature, flags.signA, flags.signB, flags.clamp);
}

FLY_DEFINE_CAPI_TYPE(MmaOpGFX120X_WMMA, MmaOpGFX120X_WMMAType)

MlirType flyMmaOpGFX120X_WMMATypeGet(FlyMmaSignature signature, FlyWmmaFlags flags) {
  return getMma<MmaOpGFX120X_WMMAType>(signature, flags.signA, flags.signB, flags.clamp);
}

FLY_DEFINE_CAPI_TYPE(MmaOpGFX1250_WMMA, MmaOpGFX1250_WMMAType)

MlirType flyMmaOpGFX1250_WMMATypeGet(FlyMmaSignature signature, FlyWmmaFlags flags, int32_t modC,
                                     bool reuseA, bool reuseB) {
  return getMma<MmaOpGFX1250_WMMAType>(signature, flags.signA, flags.signB, flags.clamp, modC,
                                       reuseA, reuseB);
}

FLY_DEFINE_CAPI_TYPE(MmaOpGFX1250_WMMAScale, MmaOpGFX1250_WMMAScaleType)

MlirType flyMmaOpGFX1250_WMMAScaleTypeGet(FlyMmaSignature signature, int32_t opselA,
                                          int32_t opselB, int32_t modC, bool reuseA, bool reuseB,
                                          int32_t blockSize) {
  return getMma<MmaOpGFX1250_WMMAScaleType>(signature, opselA, opselB, modC, reuseA, reuseB,
                                            blockSize);
}
