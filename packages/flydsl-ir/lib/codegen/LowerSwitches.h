//===- LowerSwitches.h - switches as chains of branches -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_LOWERSWITCHES_H
#define FLY_LIB_CODEGEN_LOWERSWITCHES_H

namespace llvm {
class Module;
}

namespace mlir::fly {

/// Replaces every switch by comparisons and branches, one after the other.
void lowerSwitches(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_LOWERSWITCHES_H
