//===- Dialects.cpp - C registration of dialects and passes ---------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/Dialects.h"

#include "fly_codegen/InitAll.h"

#include "mlir/CAPI/IR.h"

#ifdef FLY_HAVE_FLY
#include "fly/IR/FlyDialect.h"
#include "fly/Transforms/Passes.h"
#include "mlir/CAPI/Registration.h"
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(Fly, fly, mlir::fly::FlyDialect)
void mlirRegisterFlyPasses(void) { mlir::fly::registerFlyPasses(); }
#endif

#ifdef FLY_HAVE_FLY_ROCDL
#include "fly_rocdl/IR/FlyROCDLDialect.h"
#include "fly_rocdl/Passes.h"
MLIR_DEFINE_CAPI_DIALECT_REGISTRATION(FlyROCDL, fly_rocdl, mlir::fly_rocdl::FlyROCDLDialect)
void mlirRegisterFlyToROCDLConversionPass(void) {
  mlir::fly_rocdl::registerConvertFlyToROCDLPass();
}
void mlirRegisterFlyROCDLClusterAttrPass(void) {
  mlir::fly_rocdl::registerFlyROCDLClusterAttrPass();
}
#endif

void flyRegisterAllDialects(MlirDialectRegistry registry) {
  mlir::fly::registerAllDialects(*unwrap(registry));
}

void flyRegisterAllPasses(void) { mlir::fly::registerAllPasses(); }
