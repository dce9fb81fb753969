//===- LaneByLane.cpp - vector operations that LLVM selects wrongly -------===//
//
// Two operations of vectors end the code generator of LLVM 22 or give garbage; lane by lane they are
// taken rightly, and cost the same: the instructions are of single lanes.
//
// * An `and`, `or` or `xor` of an operand with its sign bit, or with all others, becomes a modifier of
//   the instruction that uses it. Of vectors of two i32, as in `c ? x & 0x7fffffff : 0`, an element is
//   extracted for this that itself is never selected.
// * Conversions between half and float of five to seven lanes, whose vector of halves is no legal type
//   while the one of floats is.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "LaneByLane.h"

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

static bool isPairOfSigns(const Instruction &instruction, const llvm::FixedVectorType &type) {
  return type.getNumElements() == 2 && type.getElementType()->isIntegerTy(32) &&
         instruction.isBitwiseLogicOp() && llvm::any_of(instruction.operand_values(), isSignMask);
}

static bool isOddConversion(const Instruction &instruction, const llvm::FixedVectorType &type) {
  if (!isa<FPExtInst, FPTruncInst>(instruction) || type.getNumElements() < 5 || type.getNumElements() > 7)
    return false;
  llvm::Type *from = instruction.getOperand(0)->getType()->getScalarType(), *to = type.getElementType();
  return (from->isHalfTy() && to->isFloatTy()) || (from->isFloatTy() && to->isHalfTy());
}

static void splitIntoLanes(Instruction &instruction, unsigned lanes) {
  IRBuilder<> builder(&instruction);
  llvm::Value *result = PoisonValue::get(instruction.getType());
  for (unsigned lane = 0; lane < lanes; ++lane) {
    Instruction *one = instruction.clone();
    one->mutateType(instruction.getType()->getScalarType());
    for (Use &operand : one->operands())
      operand.set(builder.CreateExtractElement(operand.get(), lane));
    result = builder.CreateInsertElement(result, builder.Insert(one), lane);
  }
  instruction.replaceAllUsesWith(result);
  instruction.eraseFromParent();
}

void mlir::fly::splitIntoLanes(llvm::Module &module) {
  for (Function &function : module) {
    for (Instruction &instruction : llvm::make_early_inc_range(instructions(function))) {
      auto *type = dyn_cast<llvm::FixedVectorType>(instruction.getType());
      if (type && (isPairOfSigns(instruction, *type) || isOddConversion(instruction, *type)))
        ::splitIntoLanes(instruction, type->getNumElements());
    }
  }
}
