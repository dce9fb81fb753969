//===- HoldMatrix.h - scaled matrix instructions stay in their block -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_HOLDMATRIX_H
#define FLY_LIB_CODEGEN_HOLDMATRIX_H

namespace llvm {
class Module;
}

namespace mlir::fly {

/// Keeps scaled MFMA instructions out of the divergent blocks that use their results.
void holdScaledMatrix(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_HOLDMATRIX_H
