//===- TiledTdm.cpp - how a tile becomes a tensor copy --------------------===//
//
// The engine walks LDS addresses in order. So the modes of the tile, sorted by their LDS stride, are
// the descriptor axes, innermost first; neighbours that are also neighbours in global memory are one
// axis. Gaps between LDS modes are padding or, at the outermost mode, iteration.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "TiledTdm.h"

#include "Tdm.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

/// Derivation of one copy; `result.error` is set where it stops.
class Deriver {
public:
  Deriver(fly::MemRefType tensor, fly::LayoutAttr smem, fly::TileAttr tile,
          const TiledTdmOptions &options)
      : tensor(tensor), smem(smem), tile(tile), options(options) {}

  TiledTdm run() {
    if (!readTensor() || !readTile() || !readRuns() || !buildAxes() || !addUntiledModes() ||
        !splitWarps())
      assert(!result.error.empty());
    return std::move(result);
  }

private:
  bool fail(const Twine &why) {
    result.error = why.str();
    return false;
  }
  bool readTensor();
  bool readTile();
  bool readRuns();
  bool buildAxes();
  bool addUntiledModes();
  bool splitWarps();
  bool addGap(const TiledTdmRun &run, int64_t compact, bool isLast);
  bool extendsAxis(const TiledTdmRun &run) const;
  int64_t padded(int64_t compact) const {
    if (result.padInterval == 0)
      return compact;
    return compact + compact / result.padInterval * result.padAmount;
  }

  fly::MemRefType tensor;
  fly::LayoutAttr smem;
  fly::TileAttr tile;
  TiledTdmOptions options;
  SmallVector<std::optional<int32_t>> shape, strides; ///< of the tensor; nullopt if dynamic
  SmallVector<int32_t> tileExtents;                   ///< by mode of the tensor
  SmallVector<TiledTdmRun> runs;
  TiledTdm result;
};

} // namespace

static std::optional<int32_t> staticLeaf(fly::IntTupleAttr leaf) {
  fly::IntAttr number = leaf.extractIntFromLeaf();
  return number.isStatic() ? std::optional(number.getValue()) : std::nullopt;
}

bool Deriver::readTensor() {
  auto layout = dyn_cast<fly::LayoutAttr>(tensor.getLayout());
  if (!layout || !isGenericAddressSpace<fly::AddressSpace::Global>(tensor.getAddressSpace()))
    return fail("the tensor must be in global memory with a plain layout");
  if (!tensor.getSwizzle().isTrivial())
    return fail("the tensor must not be swizzled");
  int32_t rank = layout.rank();
  if (rank > kTdmMaxRank)
    return fail("the tensor has " + Twine(rank) + " modes, at most 5 are supported");
  if (layout.getStride().rank() != rank)
    return fail("shape and stride of the tensor are not congruent");
  for (int32_t i = 0; i < rank; ++i) {
    fly::IntTupleAttr extent = layout.getShape().at(i), stride = layout.getStride().at(i);
    if (!extent.isLeafInt() || !stride.isLeafInt())
      return fail("mode " + Twine(i) + " of the tensor must be a leaf");
    shape.push_back(staticLeaf(extent));
    strides.push_back(staticLeaf(stride));
  }
  unsigned bits = fly::getElementBitWidth(tensor.getElemTy());
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return fail("elements must have 8, 16, 32 or 64 bits");
  return true;
}

bool Deriver::readTile() {
  int32_t rank = shape.size();
  if (tile.rank() > rank)
    return fail("the tile has rank " + Twine(tile.rank()) + " but the tensor has rank " +
                Twine(rank));
  if (smem.rank() != tile.rank() || smem.getStride().rank() != tile.rank())
    return fail("the layout in shared memory has rank " + Twine(smem.rank()) +
                " but the tile has rank " + Twine(tile.rank()));
  for (int32_t i = 0; i < rank; ++i) {
    Attribute entry = i < tile.rank() ? tile.at(i) : Attribute();
    auto number = dyn_cast_or_null<fly::IntAttr>(entry);
    if (auto layout = dyn_cast_or_null<fly::LayoutAttr>(entry)) {
      if (!layout.isLeaf() || !layout.getStride().isLeafStaticValue(1))
        return fail("entry " + Twine(i) + " of the tile must be an integer or a layout n:1");
      number = layout.getShape().extractIntFromLeaf();
    }
    if (!entry)
      tileExtents.push_back(1);
    else if (number && number.isNone() && shape[i])
      tileExtents.push_back(*shape[i]);
    else if (number && number.isStatic() && number.getValue() > 0)
      tileExtents.push_back(number.getValue());
    else
      return fail("entry " + Twine(i) + " of the tile must be a positive static integer");
  }
  return true;
}

/// Appends the runs of one mode of the LDS layout.
static bool collectRuns(fly::IntTupleAttr shape, fly::IntTupleAttr stride, int32_t mode,
                        int64_t &modeStride, SmallVectorImpl<TiledTdmRun> &runs) {
  if (shape.isLeaf()) {
    if (!shape.isLeafInt() || !stride.isLeafInt() || !shape.isStatic() || !stride.isStatic())
      return false;
    int32_t extent = shape.extractIntFromLeaf().getValue();
    if (extent < 1 || modeStride > INT32_MAX)
      return false;
    if (extent > 1)
      runs.push_back({extent, mode, static_cast<int32_t>(modeStride),
                      stride.extractIntFromLeaf().getValue()});
    modeStride *= extent;
    return true;
  }
  if (stride.isLeaf() || stride.rank() != shape.rank())
    return false;
  for (int32_t i = 0; i < shape.rank(); ++i)
    if (!collectRuns(shape.at(i), stride.at(i), mode, modeStride, runs))
      return false;
  return true;
}

bool Deriver::readRuns() {
  for (int32_t i = 0; i < tile.rank(); ++i) {
    int64_t extent = 1;
    if (!collectRuns(smem.getShape().at(i), smem.getStride().at(i), i, extent, runs))
      return fail("the layout in shared memory must be static, with positive extents");
    if (extent != tileExtents[i])
      return fail("mode " + Twine(i) + " of the layout in shared memory has size " +
                  Twine(extent) + " but the tile has extent " + Twine(tileExtents[i]));
  }
  llvm::stable_sort(runs, [](const TiledTdmRun &a, const TiledTdmRun &b) {
    return a.ldsStride < b.ldsStride;
  });
  if (runs.empty())
    return fail("the tile has one element only");
  const TiledTdmRun &first = runs.front();
  if (first.ldsStride != 1)
    return fail("the layout in shared memory needs a mode of stride 1");
  if (first.modeStride != 1 || strides[first.mode] != 1)
    return fail("mode " + Twine(first.mode) +
                " is contiguous in shared memory, so it must be contiguous in global memory");
  return true;
}

// True if `run` continues the outermost axis in global memory.
bool Deriver::extendsAxis(const TiledTdmRun &run) const {
  if (result.axes.empty())
    return false;
  const TiledTdmAxis &axis = result.axes.back();
  const TiledTdmRun &last = axis.runs.back();
  if (last.mode == run.mode)
    return run.modeStride == int64_t(last.modeStride) * last.extent;
  // The tile must cover the modes so far, or their bounds could not be checked any more.
  if (run.modeStride != 1 || shape[last.mode] != tileExtents[last.mode] ||
      int64_t(last.modeStride) * last.extent != tileExtents[last.mode])
    return false;
  const TiledTdmRun &first = axis.runs.front();
  return strides[run.mode] && strides[first.mode] &&
         *strides[run.mode] == int64_t(*strides[first.mode]) * first.modeStride * axis.extent;
}

// `run` does not follow the runs before it in LDS: that is padding, or iteration.
bool Deriver::addGap(const TiledTdmRun &run, int64_t compact, bool isLast) {
  int32_t bits = fly::getElementBitWidth(tensor.getElemTy());
  int64_t gap = run.ldsStride - padded(compact);
  if (gap < 0)
    return fail("modes of the layout in shared memory overlap");
  bool canPad = options.isLoad && result.padInterval == 0 && compact <= INT32_MAX &&
                encodeTdmPadding(compact, gap, bits);
  if (canPad) {
    result.padInterval = compact;
    result.padAmount = gap;
    return true;
  }
  if (isLast && result.axes.size() <= 2 && run.extent <= 256) {
    result.iteration = run;
    result.iterCount = run.extent;
    return true;
  }
  return fail("the gap of " + Twine(gap) + " elements after " + Twine(compact) +
              " elements in shared memory can be expressed neither as padding nor as iteration" +
              (options.isLoad ? "" : " (a store cannot be padded)"));
}

bool Deriver::buildAxes() {
  int64_t compact = 1;
  for (auto [i, run] : llvm::enumerate(runs)) {
    bool isLast = i + 1 == runs.size();
    if (run.ldsStride != padded(compact) && !addGap(run, compact, isLast))
      return false;
    if (result.iteration)
      break;
    if (extendsAxis(run)) {
      TiledTdmAxis &axis = result.axes.back();
      axis.extent *= run.extent;
      if (axis.runs.back().mode == run.mode)
        axis.runs.back().extent *= run.extent;
      else
        axis.runs.push_back(run);
    } else {
      result.axes.push_back({run.extent, {run}});
    }
    compact *= run.extent;
  }
  for (const TiledTdmAxis &axis : result.axes)
    if (axis.extent > 0xFFFF)
      return fail("an axis of " + Twine(axis.extent) + " elements exceeds 65535");
  int64_t bytes = int64_t(result.axes.front().extent) *
                  fly::getElementBitWidth(tensor.getElemTy()) / 8;
  if (bytes < 16)
    return fail("the innermost axis spans " + Twine(bytes) + " bytes, at least 16 are needed");
  return true;
}

bool Deriver::addUntiledModes() {
  result.modes.assign(shape.size(), {-1, 0});
  for (auto [a, axis] : llvm::enumerate(result.axes)) {
    int32_t step = 1;
    for (const TiledTdmRun &run : axis.runs) {
      if (result.modes[run.mode].first < 0 && run.modeStride == 1)
        result.modes[run.mode] = {static_cast<int32_t>(a), step};
      step *= run.extent;
    }
  }
  // Modes of extent 1 in the tile still have a coordinate. The last mode is the innermost.
  for (int32_t i = shape.size(); i-- > 0;) {
    if (result.modes[i].first >= 0)
      continue;
    result.modes[i] = {static_cast<int32_t>(result.axes.size()), 1};
    result.axes.push_back({1, {{1, i, 1, 0}}});
  }
  if (result.axes.size() > kTdmMaxRank)
    return fail("the copy needs " + Twine(result.axes.size()) + " axes, at most 5 exist");
  if (result.iterCount > 1 && result.axes.size() > 2)
    return fail("a copy with iterations has at most 2 axes, this one needs " +
                Twine(result.axes.size()));
  return true;
}

bool Deriver::splitWarps() {
  for (const TiledTdmAxis &axis : result.axes)
    result.share.push_back(axis.extent);
  int32_t left = options.numWarps;
  if (left < 1 || !llvm::isPowerOf2_32(left))
    return fail("numWarps must be a positive power of two, got " + Twine(left));
  for (; left > 1 && result.iterCount % 2 == 0; left /= 2)
    result.iterCount /= 2;
  for (size_t a = result.axes.size(); a-- > 0;)
    for (; left > 1 && result.share[a] % 2 == 0; left /= 2)
      result.share[a] /= 2;
  if (left > 1)
    return fail("the tile cannot be split among " + Twine(options.numWarps) + " warps");
  int64_t elements = 1;
  for (int32_t extent : result.share)
    elements *= extent;
  if (result.padInterval != 0 && elements % result.padInterval != 0 &&
      elements > result.padInterval)
    return fail("the share of a warp, " + Twine(elements) +
                " elements, is not a multiple of the padding interval " +
                Twine(result.padInterval));
  return true;
}

TiledTdm fly_rocdl::deriveTiledTdm(fly::MemRefType tensor, fly::LayoutAttr smem,
                                   fly::TileAttr tile, const TiledTdmOptions &options) {
  if (options.cacheModifier < 0) {
    TiledTdm refused;
    refused.error =
        ("cacheModifier must not be negative, got " + Twine(options.cacheModifier)).str();
    return refused;
  }
  return Deriver(tensor, smem, tile, options).run();
}

fly::IntTupleAttr TiledTdm::getTensor2Tdm(fly::LayoutAttr tensor) const {
  MLIRContext *ctx = tensor.getContext();
  SmallVector<fly::IntTupleAttr> leaves;
  for (auto [axis, step] : modes)
    leaves.push_back(fly::IntTupleAttr::get(fly::BasisAttr::get(
        ctx, fly::IntAttr::getStatic(ctx, step), {static_cast<int32_t>(axes.size()) - 1 - axis})));
  return tensor.getShape().isLeaf() ? leaves.front() : fly::IntTupleAttr::getTuple(ctx, leaves);
}

Type TiledTdm::getOperation(Type elemTy, fly::LayoutAttr tensor,
                            const TiledTdmOptions &options) const {
  MLIRContext *ctx = elemTy.getContext();
  SmallVector<int32_t> shape(share.rbegin(), share.rend());
  fly::IntTupleAttr tensor2tdm = getTensor2Tdm(tensor);
  if (options.isLoad)
    return CopyOpCDNA5TensorLoadType::get(ctx, shape, elemTy, tensor2tdm, options.atomicBarrier,
                                          options.cacheModifier, iterCount, padInterval,
                                          padAmount);
  return CopyOpCDNA5TensorStoreType::get(ctx, shape, elemTy, tensor2tdm, options.atomicBarrier,
                                         options.cacheModifier, iterCount);
}
