//===- HoldMatrix.cpp - scaled matrix instructions stay in their block ----===//
//
// The scaled MFMA intrinsics are convergent, but the instructions that LLVM 22 selects for them are not
// marked so (all other matrix instructions are): machine sinking moves one whose result only a divergent
// block uses into that block. There its operands are made for the lanes of the branch only, and the
// instruction, which takes all lanes, reads what was never written. A use that cannot move holds it.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "HoldMatrix.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Module.h"

using namespace llvm;

static bool isScaledMatrix(const Instruction &instruction) {
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  return call && (call->getIntrinsicID() == Intrinsic::amdgcn_mfma_scale_f32_16x16x128_f8f6f4 ||
                  call->getIntrinsicID() == Intrinsic::amdgcn_mfma_scale_f32_32x32x64_f8f6f4);
}

/// Whether every use is in another block: what is used in its own block does not leave it.
static bool canLeave(const Instruction &instruction) {
  return !instruction.use_empty() && llvm::none_of(instruction.users(), [&](const User *user) {
    return cast<Instruction>(user)->getParent() == instruction.getParent();
  });
}

void mlir::fly::holdScaledMatrix(llvm::Module &module) {
  for (Function &function : module) {
    SmallVector<Instruction *> leaving;
    for (Instruction &instruction : instructions(function))
      if (isScaledMatrix(instruction) && canLeave(instruction))
        leaving.push_back(&instruction);
    for (Instruction *found : leaving) {
      IRBuilder<> builder(found->getNextNode());
      llvm::Type *type = found->getType();
      auto *held = InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "", "=v,0",
                                  /*hasSideEffects=*/true);
      CallInst *call = builder.CreateCall(held, {found});
      found->replaceUsesWithIf(call, [call](const llvm::Use &use) { return use.getUser() != call; });
    }
  }
}
