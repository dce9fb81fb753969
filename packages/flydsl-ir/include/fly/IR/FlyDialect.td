//===- FlyDialect.td - the fly dialect --------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_IR_FLYDIALECT_TD
#define FLY_IR_FLYDIALECT_TD

include "mlir/IR/OpBase.td"

def Fly_Dialect : Dialect {
  let name = "fly";
  let cppNamespace = "::mlir::fly";
  let summary = "Layouts as types and layout algebra as operations";
  let description = [{
    The `fly` dialect describes GPU kernels through layouts: functions from nested
    coordinates to indices, written `(shape):(stride)`. All static content of a layout lives
    in its type; SSA operands only carry the dynamic leaves. Every algebra operation infers its
    result type, and `fly-layout-lowering` evaluates the same algebra on SSA values.

    ```mlir
    %l = fly.static : !fly.layout<(8,(2,4)):(1,(32,8))>
    %t = fly.static : !fly.tile<[4|2]>
    %z = fly.zipped_divide(%l, %t)
        : (!fly.layout<(8,(2,4)):(1,(32,8))>, !fly.tile<[4|2]>)
       -> !fly.layout<((4,2),(2,4)):((1,32),(4,8))>
    ```
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let usePropertiesForAttributes = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
    void registerTypes();
  }];
}

#endif // FLY_IR_FLYDIALECT_TD
