//===- LoadWords.cpp - buffer loads of 64 bits ----------------------------===//
//
// A buffer copy loads 64 bits as an i64 and casts them to its vector. 64 bits being a legal integer, the
// optimizer then lets loops carry the integer in place of the vector, and the casts gather at the head of
// the loop: it becomes too long to be rotated, so everything carried is copied there. Two words, which is
// what the instruction loads, are carried as they are.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "LoadWords.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Module.h"

using namespace llvm;

static bool isReadAsVector(const IntrinsicInst &load) {
  return load.getIntrinsicID() == Intrinsic::amdgcn_raw_ptr_buffer_load &&
         load.getType()->isIntegerTy(64) && !load.use_empty() &&
         all_of(load.users(), [](const User *user) {
           return isa<BitCastInst>(user) && user->getType()->isVectorTy();
         });
}

void mlir::fly::loadWords(llvm::Module &module) {
  for (Function &function : module)
    for (Instruction &instruction : make_early_inc_range(instructions(function))) {
      auto *load = dyn_cast<IntrinsicInst>(&instruction);
      if (!load || !isReadAsVector(*load))
        continue;
      IRBuilder<> builder(load);
      auto *words = llvm::FixedVectorType::get(builder.getInt32Ty(), 2);
      SmallVector<llvm::Value *> operands(load->args());
      llvm::Value *loaded = builder.CreateIntrinsic(load->getIntrinsicID(), {words}, operands);
      load->replaceAllUsesWith(builder.CreateBitCast(loaded, load->getType())); // one cast with the other
      load->eraseFromParent();
    }
}
