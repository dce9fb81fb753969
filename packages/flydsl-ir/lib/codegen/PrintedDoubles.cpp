//===- PrintedDoubles.cpp - constants that a kernel prints ----------------===//
//
// LLVM 22 passes a double constant to printf as a float (AMDGPUPrintfRuntimeBinding): 1e300 was printed as inf.
// Behind a fence it is a value like others.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "PrintedDoubles.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

using namespace llvm;

static bool isNoFloat(const llvm::Value *value) {
  auto *constant = dyn_cast<ConstantFP>(value);
  if (!constant || !constant->getType()->isDoubleTy())
    return false;
  APFloat single = constant->getValueAPF();
  bool losesInfo = false;
  single.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  return losesInfo;
}

void mlir::fly::keepPrintedDoubles(llvm::Module &module) {
  Function *print = module.getFunction("printf");
  if (!print)
    return;
  for (User *user : print->users()) {
    auto *call = dyn_cast<CallInst>(user);
    if (!call || call->getCalledFunction() != print)
      continue;
    IRBuilder<> builder(call);
    for (Use &argument : call->args())
      if (isNoFloat(argument))
        argument.set(builder.CreateIntrinsic(Intrinsic::arithmetic_fence, {argument->getType()},
                                             {argument.get()}));
  }
}
