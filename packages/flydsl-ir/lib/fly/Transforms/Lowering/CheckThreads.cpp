//===- CheckThreads.cpp - copies by more threads than they are of -----------===//
//
// A tiled copy says which elements of its tile each of its threads owns. A workgroup with more threads has
// none for the others: their part would lie behind the tile, in its neighbour.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// The first copy of a view of `value` that is not under a predicate or in a branch; null if there is none.
static Operation *firstPlainCopy(Value value) {
  Operation *first = nullptr;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto copy = dyn_cast<CopyOp>(user)) {
      if (!copy.getPred() && !isConditional(user))
        first = user;
    } else if (auto call = dyn_cast<CopyAtomCall>(user)) {
      if (!call.getPred() && !isConditional(user))
        first = user;
    } else if (isa<SliceOp, GroupOp, SelectOp, GetOp, TakeOp, CoalesceOp, LogicalDivideOp, ZippedDivideOp,
                   TiledDivideOp, FlatDivideOp>(user) &&
               use.getOperandNumber() == 0) {
      if (Operation *found = firstPlainCopy(user->getResult(0)))
        first = found;
    }
  }
  return first;
}

// Threads of a tiled copy, if any of the `block` threads of a workgroup would own what lies behind its tile; else 0.
static int32_t threadsOf(TiledCopyType tiled, Algebra::CopySide side, int32_t block) {
  Algebra alg(tiled.getContext());
  Layout tv = alg.tiledCopyTV(tiled, side);
  if (alg.failed() || !tv.isStatic() || tv.rank() != 2)
    return 0;
  Layout threads = alg.at(tv, 0);
  Int count = alg.size(threads), elements = alg.size(tv);
  if (alg.failed() || !count.isStatic || block <= count.value)
    return 0;
  Int cosize = alg.cosize(tv);
  for (int32_t thread = count.value; thread < block; ++thread) {
    Tuple place = alg.crd2idx(Tuple(thread), threads);
    if (alg.failed() || !place.isInt() || !place.num.isStatic)
      return 0;
    if (place.num.value >= std::max(cosize.value, elements.value))
      return count.value;
  }
  return 0;
}

LogicalResult lowering::checkThreads(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    auto src = dyn_cast<TiledCopyPartitionSrcOp>(op);
    auto dst = dyn_cast<TiledCopyPartitionDstOp>(op);
    auto function = src || dst ? op->getParentOfType<gpu::GPUFuncOp>() : gpu::GPUFuncOp();
    if (!function || !function.getKnownBlockSize() || !isThreadIndex(src ? src.getCoord() : dst.getCoord()))
      return WalkResult::advance();
    Value tensor = src ? src.getSrc() : dst.getDst(), tiled = src ? src.getTiledCopy() : dst.getTiledCopy();
    if (!isa<fly::MemRefType>(tensor.getType()))
      return WalkResult::advance();
    int32_t block = function.getKnownBlockSize()->front();
    int32_t threads = threadsOf(cast<TiledCopyType>(tiled.getType()),
                                src ? Algebra::CopySide::Src : Algebra::CopySide::Dst, block);
    Operation *copy = threads ? firstPlainCopy(op->getResult(0)) : nullptr;
    if (!copy)
      return WalkResult::advance();
    copy->emitOpError() << "is of " << threads << " threads, but " << block
                        << " execute it: the others would own elements behind its tile. Launch " << threads
                        << " threads, put the copy into `if thread < " << threads
                        << ":`, or let all threads take part in it";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}
