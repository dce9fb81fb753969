//===- AbsentTargets.cpp - GPU targets that this library is built without -===//
//
// Registering the passes of the dialects gpu and llvm names those that serve other vendors' targets,
// and with them the linker would take in the dialects NVVM, SPIR-V and XeVM whole. The passes
// defined here keep these dialects out: they exist, and refuse to run.
//
//===----------------------------------------------------------------------===//
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace {
class AbsentTarget : public PassWrapper<AbsentTarget, OperationPass<>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(AbsentTarget)

  AbsentTarget(StringRef argument, StringRef target) : argument(argument), target(target) {}

  StringRef getArgument() const override { return argument; }
  StringRef getName() const override { return argument; }
  StringRef getDescription() const override { return "absent: this library knows AMD GPUs only"; }

  void runOnOperation() override {
    getOperation()->emitError() << "pass '" << argument
        << "': this library is built without the target " << target;
    signalPassFailure();
  }

private:
  StringRef argument;
  StringRef target;
};
} // namespace

std::unique_ptr<Pass> mlir::createGpuNVVMAttachTarget() {
  return std::make_unique<AbsentTarget>("nvvm-attach-target", "NVVM");
}

std::unique_ptr<Pass> mlir::createGpuSPIRVAttachTarget() {
  return std::make_unique<AbsentTarget>("spirv-attach-target", "SPIR-V");
}

std::unique_ptr<Pass> mlir::createGpuXeVMAttachTarget() {
  return std::make_unique<AbsentTarget>("xevm-attach-target", "XeVM");
}

std::unique_ptr<Pass> mlir::LLVM::createNVVMOptimizeForTargetPass() {
  return std::make_unique<AbsentTarget>("llvm-optimize-for-nvvm-target", "NVVM");
}
