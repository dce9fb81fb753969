//===- RegisterTarget.cpp - LLVM's AMDGPU target --------------------------===//
#include "RegisterSwitches.h"

#include "fly_codegen/Codegen.h"

#include "llvm/Support/TargetSelect.h"
#include <mutex>

void mlir::fly::initializeAMDGPUTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeAMDGPUDisassembler();
    manageRegisterBanks();
  });
}
