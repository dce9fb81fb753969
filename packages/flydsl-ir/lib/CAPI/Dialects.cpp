//===- Dialects.cpp - C registration of dialects and passes ---------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/Dialects.h"

#include "fly/IR/FlyDialect.h"
#include "fly/Transforms/Passes.h"
#include "fly_codegen/InitAll.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"
#include "fly_rocdl/Passes.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Registration.h"

MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Fly, fly, mlir::fly::FlyDialect)
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(FlyROCDL, fly_rocdl, mlir::fly_rocdl::FlyROCDLDialect)

void flyRegisterAllDialects(MlirDialectRegistry registry) {
  mlir::fly::registerAllDialects(*unwrap(registry));
}

void flyRegisterAllPasses(void) { mlir::fly::registerAllPasses(); }

void mlirRegisterFlyPasses(void) { mlir::fly::registerFlyPasses(); }

void mlirRegisterFlyExplicitModuleOffloadingLLVMTranslation(MlirContext context) {
  mlir::DialectRegistry registry;
  mlir::fly::registerExplicitModuleTranslation(registry);
  unwrap(context)->appendDialectRegistry(registry);
}

void mlirRegisterFlyToROCDLConversionPass(void) {
  mlir::fly_rocdl::registerConvertFlyToROCDLPass();
}

void mlirRegisterFlyROCDLClusterAttrPass(void) {
  mlir::fly_rocdl::registerFlyROCDLClusterAttrPass();
}

void flydsl_register_rocdl_dialects(MlirDialectRegistry registry) {
  mlir::fly_rocdl::registerFlyROCDLDialect(*unwrap(registry));
}

void flydsl_register_rocdl_passes(void) { mlir::fly_rocdl::registerFlyROCDLPasses(); }
