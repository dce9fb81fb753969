//===- CheckThreads.cpp - copies by more or fewer threads than they are of --===//
//
// A tiled copy says which elements of its tile each of its threads owns. A workgroup with more threads has
// none for the others: their part would lie behind the tile, in its neighbour. One with fewer threads leaves
// elements out.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/ADT/DenseSet.h"

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

namespace {

/// A thread's part of a tensor, whose thread is the index in the workgroup.
struct ThreadPart {
  Operation *op;
  Value tiled, tensor, coord;
  std::optional<Algebra::CopySide> side; // none for a tiled MMA
  std::optional<MmaOperand> operand;
};

} // namespace

static std::optional<ThreadPart> inspect(Operation *op) {
  using Side = Algebra::CopySide;
  if (auto src = dyn_cast<TiledCopyPartitionSrcOp>(op))
    return ThreadPart{op, src.getTiledCopy(), src.getSrc(), src.getCoord(), Side::Src, {}};
  if (auto dst = dyn_cast<TiledCopyPartitionDstOp>(op))
    return ThreadPart{op, dst.getTiledCopy(), dst.getDst(), dst.getCoord(), Side::Dst, {}};
  if (auto mma = dyn_cast<TiledMmaPartitionOp>(op))
    return ThreadPart{op, mma.getTiledMma(), mma.getInput(), mma.getCoord(), {}, mma.getOperandId()};
  return std::nullopt;
}

// True if a coordinate of `place` is not below its extent, as far as both are known.
static bool isOutside(const Tuple &place, const Tuple &extents) {
  if (place.isLeaf != extents.isLeaf || place.rank() != extents.rank())
    return false;
  if (place.isLeaf)
    return place.isInt() && place.num.isStatic && extents.num.isStatic && place.num.value >= extents.num.value;
  return llvm::any_of(llvm::zip(place.kids, extents.kids),
                      [](auto pair) { return isOutside(std::get<0>(pair), std::get<1>(pair)); });
}

// Whether any of the threads from `count` to `block` would own what lies behind the tile of a copy.
static bool leaveTile(TiledCopyType tiled, Algebra::CopySide side, int32_t count, int32_t block) {
  Algebra alg(tiled.getContext());
  Layout coordinates = alg.tiledCopyCoordinates(tiled, side);
  if (alg.failed())
    return false;
  Tuple extents = alg.tileExtents(tiled);
  for (int32_t thread = count; thread < block; ++thread) {
    Tuple place = alg.crd2idx(Tuple(thread), alg.at(coordinates, 0));
    if (alg.failed())
      return false;
    if (isOutside(place, extents))
      return true;
  }
  return false;
}

// Whether elements are owned by none of the first `block` threads.
static bool leaveOut(Algebra &alg, const Layout &threads, int32_t count, int32_t block) {
  llvm::DenseSet<int32_t> owned;
  for (int32_t thread = 0; thread < count; ++thread) {
    Tuple place = alg.crd2idx(Tuple(thread), threads);
    if (alg.failed() || !place.isInt() || !place.num.isStatic)
      return false;
    if (thread < block)
      owned.insert(place.num.value);
    else if (!owned.contains(place.num.value))
      return true;
  }
  return false;
}

// Whether another part of the same tiled copy or MMA is taken, of another thread than this one.
static bool isTakenOtherwise(gpu::GPUFuncOp function, const ThreadPart &part) {
  WalkResult result = function.walk([&](Operation *op) {
    std::optional<ThreadPart> other = inspect(op);
    bool otherwise = other && other->tiled.getType() == part.tiled.getType() && !isThreadIndex(other->coord);
    return otherwise ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

static LogicalResult checkPart(gpu::GPUFuncOp function, const ThreadPart &part, int32_t block) {
  Algebra alg(part.op->getContext());
  Layout tv = part.side ? alg.tiledCopyTV(cast<TiledCopyType>(part.tiled.getType()), *part.side)
                        : alg.tiledMmaTV(cast<TiledMmaType>(part.tiled.getType()), *part.operand);
  if (alg.failed() || !tv.isStatic() || tv.rank() != 2)
    return success();
  Layout threads = alg.at(tv, 0);
  int32_t count = alg.size(threads).value;
  bool outside = block > count && part.side &&
                 leaveTile(cast<TiledCopyType>(part.tiled.getType()), *part.side, count, block);
  bool missing = block < count && leaveOut(alg, threads, count, block) && !isTakenOtherwise(function, part);
  Operation *copy = outside || missing ? firstPlainCopy(part.op->getResult(0)) : nullptr;
  if (!copy)
    return success();
  if (outside)
    return copy->emitOpError() << "is of " << count << " threads, but " << block
                               << " execute it: the others would own elements behind its tile. Launch " << count
                               << " threads, put the copy into `if thread < " << count
                               << ":`, or let all threads take part in it";
  return copy->emitOpError() << "is of " << count << " threads, but only " << block
                             << " execute it: the elements of the others would be left out. Launch " << count
                             << " threads, or make the tiled " << (part.side ? "copy" : "MMA") << " of " << block;
}

LogicalResult lowering::checkThreads(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    std::optional<ThreadPart> part = inspect(op);
    auto function = part ? op->getParentOfType<gpu::GPUFuncOp>() : gpu::GPUFuncOp();
    if (!function || !function.getKnownBlockSize() || !isThreadIndex(part->coord) ||
        !isa<fly::MemRefType>(part->tensor.getType()))
      return WalkResult::advance();
    return checkPart(function, *part, function.getKnownBlockSize()->front());
  });
  return failure(result.wasInterrupted());
}
