//===- TdmPartition.cpp - shares of warps in a tiled tensor copy ----------===//
//
// Warps take consecutive parts of the tile in the order in which it lies in shared memory.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/IR/TdmPartition.h"

#include "TensorCopy.h"
#include "fly/Algebra/Algebra.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {
/// A leaf of the tile's layout: LDS stride, extent, stride in the tile's column-major order.
struct TileLeaf {
  int32_t lds, extent, index;
};
} // namespace

static bool collectLeaves(const fly::Tuple &shape, const fly::Tuple &stride, int64_t &running,
                          SmallVectorImpl<TileLeaf> &leaves) {
  if (!shape.isLeaf) {
    if (stride.isLeaf || stride.rank() != shape.rank())
      return false;
    for (int32_t i = 0; i < shape.rank(); ++i)
      if (!collectLeaves(shape.kids[i], stride.kids[i], running, leaves))
        return false;
    return true;
  }
  if (!stride.isInt() || !shape.num.isStatic || !stride.num.isStatic || shape.num.value < 1 ||
      running > INT32_MAX)
    return false;
  if (shape.num.value > 1)
    leaves.push_back({stride.num.value, shape.num.value, static_cast<int32_t>(running)});
  running *= shape.num.value;
  return true;
}

fly::LayoutType fly_rocdl::getTdmPartitionLayout(fly::CopyAtomType atom, fly::MemRefType smem,
                                                 int32_t numWarps) {
  MLIRContext *ctx = atom.getContext();
  auto fail = [&](const Twine &why) {
    emitError(UnknownLoc::get(ctx)) << why;
    return fly::LayoutType();
  };
  if (!TensorCopy::isTensorCopy(atom.getCopyOp()))
    return fail("expected an atom of cdna5.tensor_load or cdna5.tensor_store");
  auto layout = dyn_cast<fly::LayoutAttr>(smem.getLayout());
  if (!layout)
    return fail("the tensor in shared memory must have a plain layout");
  if (numWarps < 1)
    return fail("the number of warps must be positive");
  TensorCopy copy = TensorCopy::get(atom.getCopyOp());
  int64_t elements = 1;
  for (int32_t extent : copy.shape)
    elements *= extent;
  int64_t total = elements * copy.iterCount * numWarps;
  if (total > INT32_MAX)
    return fail("the tile is too large");

  fly::Algebra algebra(ctx);
  fly::Layout tile = algebra.fromAttr(layout);
  if (!algebra.size(tile).is(total) && tile.rank() > 1)
    tile = algebra.at(tile, 0);
  SmallVector<TileLeaf> leaves;
  int64_t running = 1;
  if (!collectLeaves(tile.shape, tile.stride, running, leaves) || running != total)
    return fail("neither the tensor in shared memory nor its mode 0 is a static tile of " +
                Twine(total) + " elements, which " + Twine(numWarps) + " warps copy");
  llvm::stable_sort(leaves, [](const TileLeaf &a, const TileLeaf &b) { return a.lds < b.lds; });
  std::vector<fly::Tuple> shapes, strides;
  for (const TileLeaf &leaf : leaves) {
    shapes.push_back(fly::Tuple(leaf.extent));
    strides.push_back(fly::Tuple(leaf.index));
  }
  if (leaves.empty()) {
    shapes.push_back(fly::Tuple(1));
    strides.push_back(fly::Tuple(0));
  }
  fly::Layout ordered{fly::Tuple(std::move(shapes)), fly::Tuple(std::move(strides))};
  auto number = [](int64_t value) { return fly::Tuple(static_cast<int32_t>(value)); };
  using fly::Tuple;
  fly::Layout shares{
      Tuple::of({Tuple::of({number(elements), number(copy.iterCount)}), number(numWarps)}),
      Tuple::of({Tuple::of({number(1), number(elements)}), number(elements * copy.iterCount)})};
  fly::Layout result = algebra.composition(ordered, shares);
  if (algebra.failed())
    return fail(algebra.message());
  return fly::LayoutType::get(algebra.toAttr(result));
}
