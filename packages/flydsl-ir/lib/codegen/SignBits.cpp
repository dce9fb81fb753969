//===- SignBits.cpp - sign bits of pairs of words -------------------------===//
//
// LLVM 22 takes an `and`, `or` or `xor` of an operand with its sign bit, or with all others, as a
// modifier of the instruction that uses it. Of vectors of two i32, as in `c ? x & 0x7fffffff : 0`, it
// extracts an element for this that itself is never selected, and the code generator ends the
// process. Words alone are taken rightly.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "SignBits.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

static bool isSignMask(const llvm::Value *value) {
  auto *constant = dyn_cast<Constant>(value);
  auto *lane = constant ? dyn_cast_or_null<ConstantInt>(constant->getSplatValue(true)) : nullptr;
  return lane && (lane->getValue().isSignMask() || lane->getValue().isMaxSignedValue());
}

static bool isPairOfSigns(const Instruction &instruction) {
  auto *type = dyn_cast<FixedVectorType>(instruction.getType());
  return type && type->getNumElements() == 2 && type->getElementType()->isIntegerTy(32) &&
         instruction.isBitwiseLogicOp() && llvm::any_of(instruction.operand_values(), isSignMask);
}

void mlir::fly::splitSignBits(llvm::Module &module) {
  for (Function &function : module) {
    for (Instruction &instruction : llvm::make_early_inc_range(instructions(function))) {
      if (!isPairOfSigns(instruction))
        continue;
      IRBuilder<> builder(&instruction);
      auto code = static_cast<Instruction::BinaryOps>(instruction.getOpcode());
      llvm::Value *pair = PoisonValue::get(instruction.getType());
      for (uint64_t lane = 0; lane < 2; ++lane) {
        llvm::Value *a = builder.CreateExtractElement(instruction.getOperand(0), lane);
        llvm::Value *b = builder.CreateExtractElement(instruction.getOperand(1), lane);
        pair = builder.CreateInsertElement(pair, builder.CreateBinOp(code, a, b), lane);
      }
      instruction.replaceAllUsesWith(pair);
      instruction.eraseFromParent();
    }
  }
}
