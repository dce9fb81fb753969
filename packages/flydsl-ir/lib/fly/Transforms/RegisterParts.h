//===- RegisterParts.h - register memory in parts ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_TRANSFORMS_REGISTERPARTS_H
#define FLY_LIB_TRANSFORMS_REGISTERPARTS_H

#include "RegisterReads.h"

#include "llvm/ADT/DenseSet.h"

namespace mlir::fly {

/// Makes several allocations of one that is much wider than any operand of an instruction, where
/// its accesses allow it: LLVM takes apart such a vector, in time that grows with the square of its
/// size. Each access is within one part. Elements that a block reads where it did not write them
/// last stay together: what crosses regions has its registers by the whole.
///
/// `roots` and `accesses` become those of the parts. Accesses keep their pointers, and the
/// allocations that were cut are returned. `local` gets the wide allocations, or parts of them, of
/// which no block reads what another one wrote.
SmallVector<Operation *> cutWideRegisters(Block &body,
                                          llvm::MapVector<Operation *, VectorType> &roots,
                                          DenseMap<Operation *, RegisterAccess> &accesses,
                                          DenseSet<Operation *> &local);

} // namespace mlir::fly

#endif // FLY_LIB_TRANSFORMS_REGISTERPARTS_H
