//===- MixedHalves.cpp - fused products of f16 and bf16 -------------------===//
//
// The selection of v_fma_mix_f32_bf16 and v_fma_mixlo_bf16 by LLVM 22 (gfx1250) drops the conversion of an
// operand that was an f16 and reads its bits as an f32. Where a function widens an f16, it is compiled
// without these instructions; the f16 ones are selected rightly.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "MixedHalves.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

static bool widensHalf(const Instruction &instruction) {
  auto *cast = dyn_cast<FPExtInst>(&instruction);
  return cast && cast->getSrcTy()->getScalarType()->isHalfTy();
}

void mlir::fly::separateHalves(llvm::Module &module, const llvm::TargetMachine &machine) {
  constexpr StringLiteral instructionsOfBf16 = "fma-mix-bf16-insts";
  if (!machine.getMCSubtargetInfo()->checkFeatures(("+" + instructionsOfBf16).str()))
    return;
  for (Function &function : module) {
    if (llvm::none_of(instructions(function), widensHalf))
      continue;
    // The attribute takes the place of the machine's features.
    llvm::Attribute given = function.getFnAttribute("target-features");
    StringRef features = given.isValid() ? given.getValueAsString() : machine.getTargetFeatureString();
    function.addFnAttr("target-features",
                       (features + (features.empty() ? "" : ",") + "-" + instructionsOfBf16).str());
  }
}
