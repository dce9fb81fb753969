//===- PrintedDoubles.h - constants that a kernel prints --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_PRINTEDDOUBLES_H
#define FLY_LIB_CODEGEN_PRINTEDDOUBLES_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fly {

/// Keeps the bits of constants of 64 bits that `printf` gets.
void keepPrintedDoubles(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_PRINTEDDOUBLES_H
