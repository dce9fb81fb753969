//===- LoadWords.h - buffer loads of 64 bits --------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_LOADWORDS_H
#define FLY_LIB_CODEGEN_LOADWORDS_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fly {

/// Gives buffer loads of 64 bits that are read as vectors the type of two words.
void loadWords(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_LOADWORDS_H
