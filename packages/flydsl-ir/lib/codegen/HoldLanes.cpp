//===- HoldLanes.cpp - what takes all lanes stays in its block ------------===//
//
// Intrinsics that read other lanes are convergent, but some of the instructions that LLVM 22 selects for them
// are not marked so: machine sinking moves one whose result only a divergent block uses into that block, and
// so it does with one whose result is used by others that it moves. There operands are made for the lanes of
// the branch only, and the instruction, which takes all lanes, reads what was never written. A use that
// cannot move holds it.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "HoldLanes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsAMDGPU.h"
#include "llvm/IR/Module.h"

using namespace llvm;

/// Whether LLVM 22 selects an instruction that is not marked as one that takes all lanes.
static bool isUnmarked(const Instruction &instruction) {
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  if (!call)
    return false;
  switch (call->getIntrinsicID()) {
  case Intrinsic::amdgcn_mfma_scale_f32_16x16x128_f8f6f4:
  case Intrinsic::amdgcn_mfma_scale_f32_32x32x64_f8f6f4:
  case Intrinsic::amdgcn_mov_dpp8:
  case Intrinsic::amdgcn_permlane16_var:
  case Intrinsic::amdgcn_permlanex16_var:
  case Intrinsic::amdgcn_permlane64:
  case Intrinsic::amdgcn_permlane_bcast:
  case Intrinsic::amdgcn_permlane_down:
  case Intrinsic::amdgcn_permlane_idx_gen:
  case Intrinsic::amdgcn_permlane_up:
  case Intrinsic::amdgcn_permlane_xor:
    return true;
  default:
    return false;
  }
}

/// Whether machine sinking leaves it where it is; those that are unmarked are held.
static bool isFixed(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  return isa<PHINode>(instruction) || instruction.isTerminator() || instruction.mayHaveSideEffects() ||
         (call && call->isConvergent());
}

namespace {
/// What an instruction's block makes of its result.
class UsesInBlock {
public:
  explicit UsesInBlock(Instruction &instruction) : last(&instruction) { visit(instruction); }

  /// Whether one of them cannot move, and so holds the instruction.
  bool hold() const { return stays; }

  /// The last one of the type of the result, or the instruction itself: of a sum, that of all its terms.
  Instruction *last;

private:
  void visit(Instruction &instruction) {
    for (llvm::User *user : instruction.users()) {
      auto *next = cast<Instruction>(user);
      if (next->getParent() != last->getParent() || !seen.insert(next).second)
        continue;
      stays |= isFixed(*next);
      if (stays)
        return;
      if (next->getType() == last->getType() && last->comesBefore(next))
        last = next;
      visit(*next);
    }
  }

  SmallPtrSet<Instruction *, 16> seen;
  bool stays = false;
};
} // namespace

void mlir::fly::holdAllLanes(llvm::Module &module) {
  for (Function &function : module) {
    SmallVector<Instruction *> found;
    for (Instruction &instruction : instructions(function))
      if (isUnmarked(instruction) && !instruction.use_empty())
        found.push_back(&instruction);
    for (Instruction *instruction : reverse(found)) { // users first
      UsesInBlock uses(*instruction);
      if (uses.hold())
        continue;
      IRBuilder<> builder(uses.last->getNextNode());
      llvm::Type *type = uses.last->getType();
      auto *held = InlineAsm::get(llvm::FunctionType::get(type, {type}, false), "", "=v,0",
                                  /*hasSideEffects=*/true);
      CallInst *call = builder.CreateCall(held, {uses.last});
      uses.last->replaceUsesWithIf(call, [call](const llvm::Use &use) { return use.getUser() != call; });
    }
  }
}
