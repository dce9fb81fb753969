//===- LaneByLane.h - vector operations that LLVM selects wrongly -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_LANEBYLANE_H
#define FLY_LIB_CODEGEN_LANEBYLANE_H

namespace llvm {
class Module;
} // namespace llvm

namespace mlir::fly {

/// Does by lanes what code generation cannot do by vectors.
void splitIntoLanes(llvm::Module &module);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_LANEBYLANE_H
