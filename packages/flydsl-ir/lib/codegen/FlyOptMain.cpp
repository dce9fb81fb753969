//===- FlyOptMain.cpp - The fly-opt tool ----------------------------------===//
//
// Compiled into the shared library, because the tool itself links to exported C functions only.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/CodegenCAPI.h"

#include "fly_codegen/InitAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int flyOptMain(int argc, char **argv) {
  mlir::fly::registerAllPasses();
  mlir::DialectRegistry registry;
  mlir::fly::registerAllDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "FlyDSL pass driver\n", registry));
}
