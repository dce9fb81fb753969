//===- MixedHalves.h - fused products of f16 and bf16 -----------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_MIXEDHALVES_H
#define FLY_LIB_CODEGEN_MIXEDHALVES_H

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir::fly {

/// Keeps fused products with bf16 operands out of the functions in which an f16 is widened.
void separateHalves(llvm::Module &module, const llvm::TargetMachine &machine);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_MIXEDHALVES_H
