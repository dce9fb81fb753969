//===- MergeTraps.cpp - one trap, at the end of the function --------------===//
//
// Where s_trap does nothing in a privileged wave (gfx11), LLVM 22 expands a trap to a sequence that ends in
// an endless loop, for which it adds a block behind all others. The pass that expands pseudo-instructions
// goes on at that block: those between the trap and the end of the function stay as they are, and have no
// encoding. Nothing is left out behind a trap that comes last.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "MergeTraps.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

static bool isTrap(const Instruction &instruction) {
  auto *call = dyn_cast<IntrinsicInst>(&instruction);
  return call && call->getIntrinsicID() == Intrinsic::trap;
}

/// The traps that can be reached, each the end of its block.
static SmallVector<Instruction *> trapsOf(Function &function) {
  bool changed = false;
  for (BasicBlock &block : function)
    if (auto trap = find_if(block, isTrap); trap != block.end() && !isa<UnreachableInst>(trap->getNextNode()))
      changed |= changeToUnreachable(trap->getNextNode()) > 0; // what follows in the block is not reached
  if (changed)
    removeUnreachableBlocks(function);
  SmallVector<Instruction *> traps;
  for (BasicBlock &block : function)
    if (auto trap = find_if(block, isTrap); trap != block.end())
      traps.push_back(&*trap);
  return traps;
}

/// Where there were several, the one that is left has the location of none of them.
static void mergeTraps(Function &function) {
  SmallVector<Instruction *> traps = trapsOf(function);
  if (traps.empty())
    return;
  if (traps.size() == 1) { // a block of its own would be put back behind its only predecessor
    if (BasicBlock *block = traps.front()->getParent(); !block->isEntryBlock())
      block->moveAfter(&function.back());
    return;
  }
  IRBuilder<> builder(BasicBlock::Create(function.getContext(), "trap", &function));
  CallInst *last = builder.CreateIntrinsic(Intrinsic::trap, {});
  builder.CreateUnreachable();
  last->setDebugLoc(traps.front()->getDebugLoc());
  for (Instruction *trap : traps) {
    last->applyMergedLocation(last->getDebugLoc(), trap->getDebugLoc());
    BasicBlock *block = trap->getParent();
    block->getTerminator()->eraseFromParent();
    trap->eraseFromParent();
    BranchInst::Create(last->getParent(), block);
  }
}

void mlir::fly::mergeTraps(llvm::Module &module) {
  for (Function &function : module)
    if (!function.isDeclaration())
      ::mergeTraps(function);
}
