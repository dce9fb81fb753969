//===- FlyOptMain.cpp - The tools fly-opt and fly-lsp-server --------------===//
//
// Compiled into the shared library, because the tools themselves link to exported C functions only.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/CodegenCAPI.h"

#include "fly_codegen/Codegen.h"
#include "fly_codegen/InitAll.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/WithColor.h"
#include <cstdlib>

/// The parser and some passes recurse over the nesting of their input.
static constexpr unsigned kStackBytes = 1u << 30;

int flyOptMain(int argc, char **argv) {
  mlir::fly::registerAllPasses();
  mlir::DialectRegistry registry;
  mlir::fly::registerAllDialects(registry);
  int code = 1;
  llvm::Error crash = mlir::fly::runGuarded("fly-opt", [&] {
    code = mlir::asMainReturnCode(
        mlir::MlirOptMain(argc, argv, "FlyDSL pass driver\n", registry));
  }, kStackBytes);
  if (!crash)
    return code;
  llvm::WithColor::error() << llvm::toString(std::move(crash)) << '\n';
  llvm::errs().flush();
  std::_Exit(1); // what the failure has left behind is not to be destroyed
}

int flyLspMain(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::fly::registerAllDialects(registry);
  return mlir::asMainReturnCode(mlir::MlirLspServerMain(argc, argv, registry));
}
