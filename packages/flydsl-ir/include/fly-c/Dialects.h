//===- fly-c/Dialects.h - Registration of dialects and passes ---*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_DIALECTS_H
#define FLY_C_DIALECTS_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(Fly, fly);
MLIR_DECLARE_CAPI_DIALECT_REGISTRATION(FlyROCDL, fly_rocdl);

/// Registers fly, fly_rocdl, the upstream dialects that the pipeline uses, their
/// conversion interfaces, and the LLVM IR translations of all of them.
MLIR_CAPI_EXPORTED void flyRegisterAllDialects(MlirDialectRegistry registry);

/// Registers every pass of the pipeline by name. May be called repeatedly.
MLIR_CAPI_EXPORTED void flyRegisterAllPasses(void);

/// Registers the passes of the Fly dialect only.
MLIR_CAPI_EXPORTED void mlirRegisterFlyPasses(void);

/// Attaches the translation of `#fly.explicit_module` (flyRegisterAllDialects does so too).
MLIR_CAPI_EXPORTED void
mlirRegisterFlyExplicitModuleOffloadingLLVMTranslation(MlirContext context);

/// Registers `convert-fly-to-rocdl`.
MLIR_CAPI_EXPORTED void mlirRegisterFlyToROCDLConversionPass(void);

/// Registers `fly-rocdl-cluster-attr`.
MLIR_CAPI_EXPORTED void mlirRegisterFlyROCDLClusterAttrPass(void);

/// The dialect and the passes for AMD GPUs alone.
MLIR_CAPI_EXPORTED void flydsl_register_rocdl_dialects(MlirDialectRegistry registry);
MLIR_CAPI_EXPORTED void flydsl_register_rocdl_passes(void);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_DIALECTS_H
