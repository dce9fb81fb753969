//===- LowerSwitches.cpp - switches as chains of branches -----------------===//
//
// The back end turns a switch into a tree of branches, several of whose leaves lead to the default block.
// Where lanes diverge, StructurizeCFG of LLVM 22 then hoists values that cost nothing (extensions,
// truncations) out of that block and loses them for all ways into it but one. In a chain of comparisons
// only the last leads to the default block.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "LowerSwitches.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace {

/// Replaces one switch.
class Chain {
public:
  explicit Chain(SwitchInst &instruction) : instruction(instruction), head(instruction.getParent()) {}

  void emit() {
    detachPhis();
    BasicBlock *otherwise = instruction.getDefaultDest();
    SmallVector<std::pair<ConstantInt *, BasicBlock *>> cases;
    for (auto &branch : instruction.cases())
      if (branch.getCaseSuccessor() != otherwise)
        cases.push_back({branch.getCaseValue(), branch.getCaseSuccessor()});
    // Without a default the last case needs no comparison.
    if (isa<UnreachableInst>(&*otherwise->getFirstNonPHIOrDbg()) && !cases.empty())
      otherwise = cases.pop_back_val().second;

    Value *condition = instruction.getCondition();
    DebugLoc location = instruction.getDebugLoc();
    instruction.eraseFromParent();
    BasicBlock *current = head;
    for (auto [value, destination] : cases) {
      BasicBlock *next = BasicBlock::Create(head->getContext(), head->getName() + ".next",
                                            head->getParent(), head->getNextNode());
      IRBuilder<> builder(current);
      builder.SetCurrentDebugLocation(location);
      builder.CreateCondBr(builder.CreateICmpEQ(condition, value), destination, next);
      attachPhis(current, destination);
      current = next;
    }
    IRBuilder<> builder(current);
    builder.SetCurrentDebugLocation(location);
    builder.CreateBr(otherwise);
    attachPhis(current, otherwise);
  }

private:
  // A PHI node has one entry for each edge.
  void detachPhis() {
    for (BasicBlock *successor : successors(head))
      for (PHINode &phi : successor->phis())
        if (int index = phi.getBasicBlockIndex(head); index >= 0) {
          incoming[&phi] = phi.getIncomingValue(index);
          phi.removeIncomingValue(index, /*DeletePHIIfEmpty=*/false);
        }
  }
  void attachPhis(BasicBlock *from, BasicBlock *to) {
    for (PHINode &phi : to->phis())
      phi.addIncoming(incoming.lookup(&phi), from);
  }

  SwitchInst &instruction;
  BasicBlock *head;
  MapVector<PHINode *, Value *> incoming;
};

} // namespace

void mlir::fly::lowerSwitches(llvm::Module &module) {
  for (Function &function : module) {
    SmallVector<SwitchInst *> switches;
    for (Instruction &instruction : instructions(function))
      if (auto *found = dyn_cast<SwitchInst>(&instruction))
        switches.push_back(found);
    for (SwitchInst *found : switches)
      Chain(*found).emit();
  }
}
