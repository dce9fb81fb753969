//===- FlyDialect.cpp - the fly dialect -------------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/FlyDialect.h"
#include "fly/IR/FlyOps.h"
#include "fly/IR/Inlining.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fly;

#include "fly/IR/FlyDialect.cpp.inc"

void FlyDialect::initialize() {
  addInterfaces<InlinerInterface>();
  registerAttributes();
  registerTypes();
  registerFlyDialectOperations(this);
}

void mlir::fly::registerFlyDialect(DialectRegistry &registry) {
  // fly.to_llvm_ptr infers a type of the LLVM dialect.
  registry.insert<FlyDialect, LLVM::LLVMDialect>();
}
