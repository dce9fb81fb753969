//===- FlyROCDLDialect.td - the fly_rocdl dialect ---------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_IR_FLYROCDLDIALECT_TD
#define FLY_ROCDL_IR_FLYROCDLDIALECT_TD

include "mlir/IR/DialectBase.td"

def FlyROCDL_Dialect : Dialect {
  let name = "fly_rocdl";
  let cppNamespace = "::mlir::fly_rocdl";
  let summary = "copy and matrix instructions of AMD GPUs";
  let description = [{
    The types of this dialect describe instructions. They appear inside `!fly.copy_atom` and
    `!fly.mma_atom`, say which thread holds which value, and emit ROCDL operations.
  }];
  let dependentDialects = ["::mlir::ROCDL::ROCDLDialect", "::mlir::fly::FlyDialect"];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

#endif // FLY_ROCDL_IR_FLYROCDLDIALECT_TD
