//===- SignBits.h - sign bits of pairs of words -----------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_SIGNBITS_H
#define FLY_LIB_CODEGEN_SIGNBITS_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fly {

/// Changes the signs of vectors of two i32 element by element.
void splitSignBits(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_SIGNBITS_H
