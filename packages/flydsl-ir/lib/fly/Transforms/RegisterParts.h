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

/// Makes several allocations of a wide one of which blocks read only a part where they did not write it
/// last: what crosses regions has its registers by the whole, and the rest crosses none. Each access is
/// within one part.
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
