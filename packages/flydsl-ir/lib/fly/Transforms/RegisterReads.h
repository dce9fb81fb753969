//===- RegisterReads.h - reads of register memory before it is written ------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_TRANSFORMS_REGISTERREADS_H
#define FLY_LIB_TRANSFORMS_REGISTERREADS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::fly {

/// One load or store of register memory: which allocation, at which element.
struct RegisterAccess {
  Operation *root;
  int64_t offset;
};

/// Reports loads of elements that nothing stored to: an error if no path to the load stores to any of them, a
/// warning (one for each allocation) if some path or some element is without a store. The accesses are those
/// of allocations with static offsets, whose regions are scf.if, scf.for or scf.while.
LogicalResult checkRegisterReads(Block &body,
                                 const llvm::MapVector<Operation *, VectorType> &roots,
                                 const DenseMap<Operation *, RegisterAccess> &accesses);

/// The same for an allocation whose accesses are not known: an error if it is only ever loaded from.
LogicalResult checkNeverStored(Operation *root);

} // namespace mlir::fly

#endif // FLY_LIB_TRANSFORMS_REGISTERREADS_H
