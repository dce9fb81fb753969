//===- FlyOptMain.cpp - The tools fly-opt and fly-lsp-server --------------===//
//
// Compiled into the shared library, because the tools themselves link to exported C functions only.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/CodegenCAPI.h"

#include "fly_codegen/InitAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int flyOptMain(int argc, char **argv) {
  mlir::fly::registerAllPasses();
  mlir::DialectRegistry registry;
  mlir::fly::registerAllDialects(registry);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "FlyDSL pass driver\n", registry));
}

int flyLspMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::fly::registerAllDialects(registry);
  return mlir::asMainReturnCode(mlir::MlirLspServerMain(argc, argv, registry));
}
