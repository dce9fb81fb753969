//===- HoldLanes.h - what takes all lanes stays in its block ----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_HOLDLANES_H
#define FLY_LIB_CODEGEN_HOLDLANES_H

namespace llvm {
class Module;
}

namespace mlir::fly {

/// Keeps instructions that read other lanes out of the divergent blocks that use what is made of their results.
void holdAllLanes(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_HOLDLANES_H
