//===- MergeTraps.h - one trap, at the end of the function --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_MERGETRAPS_H
#define FLY_LIB_CODEGEN_MERGETRAPS_H

namespace llvm {
class Module;
}

namespace mlir::fly {

/// Gives each function one trap, in a block of its own behind all others.
void mergeTraps(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_MERGETRAPS_H
