//===- CheckEdges.cpp - copies of a tile that its tensor does not fill ------===//
//
// A division rounds the number of tiles up. Where a tile does not divide an extent, the last one reaches beyond
// the tensor (into the next row, or out of its memory), so that tile must not be copied whole. Which mode of a view
// is the tile and which counts the tiles is followed through slices and partitions by *marks*: a tuple with the
// profile of the view, sliced as the view is.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// Marks: the modes of tile and tiles of mode i; 0 for any other mode.
static int32_t tileMark(int32_t mode) { return 1 + 2 * mode; }
static int32_t restMark(int32_t mode) { return 2 + 2 * mode; }

namespace {

/// An edge inside the last tile of a mode.
struct Edge {
  Overrun overrun;
  bool isChosen = false; // whether a slice has fixed the tile
  bool isCertain = true; // to the last one; else to one that is known at run time only
};

/// A view of a divided tensor.
struct View {
  Value value;
  Tuple marks;
  SmallVector<Edge> edges;
};

} // namespace

static bool isDivision(Operation *op) {
  return isa<LogicalDivideOp, ZippedDivideOp, TiledDivideOp, FlatDivideOp>(op);
}

// A tile of consecutive elements, or none.
static bool isConsecutive(Attribute entry) {
  if (auto layout = dyn_cast_or_null<LayoutAttr>(entry)) {
    Algebra alg(entry.getContext());
    Layout mode = alg.coalesce(alg.fromAttr(layout));
    return !alg.failed() && mode.stride.is(1);
  }
  return isa_and_nonnull<IntAttr>(entry);
}

// Buffers are bounded: what lies behind their last element loads as zero and is not stored.
static bool isBounded(Algebra &alg, fly::MemRefType tensor, const Layout &layout, const Overrun &overrun) {
  if (isa<AddressSpaceAttr>(tensor.getAddressSpace()))
    return false;
  Layout mode = layout.shape.isLeaf ? layout : alg.at(layout, overrun.mode);
  Int cosize = alg.cosize(layout);
  Int first = alg.crd2idx(Tuple(overrun.extent - 1), mode).num;
  if (alg.failed() || !cosize.isStatic || !first.isStatic || !mode.stride.isInt() || !mode.stride.num.isStatic)
    return true; // not known, and no reason to refuse
  return int64_t(first.value) + mode.stride.num.value >= cosize.value;
}

// The view that a division makes, if an edge lies inside a tile.
static std::optional<View> inspect(Operation *op) {
  auto tensor = dyn_cast<fly::MemRefType>(op->getOperand(0).getType());
  if (!tensor)
    return std::nullopt;
  Type divisor = op->getOperand(1).getType();
  auto tile = isa<TileType>(divisor) ? cast<TileType>(divisor).getAttr() : TileAttr();
  Algebra alg(op->getContext());
  Layout layout = alg.fromAttr(tensor.getLinearLayout());
  SmallVector<Attribute> entries;
  if (tile && !tile.isLeaf())
    for (int32_t i = 0; i < tile.rank(); ++i)
      entries.push_back(tile.at(i));
  else if (layout.rank() == 1)
    entries.push_back(tile ? tile.at(0) : cast<Attribute>(getLayoutAttr(divisor)));
  SmallVector<Overrun> overruns;
  findOverruns(alg, layout, entries, overruns);
  View view{op->getResult(0), {}, {}};
  for (const Overrun &overrun : overruns)
    if (isConsecutive(entries[overrun.mode]) && !isBounded(alg, tensor, layout, overrun))
      view.edges.push_back({overrun});
  if (alg.failed() || view.edges.empty())
    return std::nullopt;
  std::vector<Tuple> modes;
  for (auto [i, entry] : llvm::enumerate(entries))
    modes.push_back(Tuple::of({Tuple(tileMark(i)), Tuple(restMark(i))}));
  for (int32_t i = entries.size(); i < layout.rank(); ++i)
    modes.push_back(Tuple(0));
  bool isWhole = !tile || tile.isLeaf();
  Tuple marks = isWhole ? modes.front() : Tuple(std::move(modes));
  if (!isa<LogicalDivideOp>(op))
    marks = alg.zip2By(marks, tile);
  if (isa<TiledDivideOp>(op))
    marks = alg.expand(marks, {1});
  else if (isa<FlatDivideOp>(op))
    marks = alg.expand(marks, {0, 1});
  if (alg.failed())
    return std::nullopt;
  view.marks = marks;
  return view;
}

// The largest value of an index: of a constant, or of the counter of a loop with constant bounds.
static std::optional<int64_t> largest(Value index) {
  while (Operation *op = index.getDefiningOp()) {
    if (!isa<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
      return getConstantIntValue(index);
    index = op->getOperand(0);
  }
  auto argument = cast<BlockArgument>(index);
  auto loop = dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp());
  if (!loop || argument != loop.getInductionVar())
    return std::nullopt;
  auto low = getConstantIntValue(loop.getLowerBound()), high = getConstantIntValue(loop.getUpperBound());
  auto step = getConstantIntValue(loop.getStep());
  if (!low || !high || !step || *step <= 0 || *low >= *high)
    return std::nullopt;
  return *low + (*high - 1 - *low) / *step * *step;
}

// The value of a dynamic leaf of a coordinate; `number` counts the dynamic leaves.
static Value leafValue(Value coord, int32_t number) {
  auto make = coord.getDefiningOp<MakeIntTupleOp>();
  return make && number < int32_t(make->getNumOperands()) ? make->getOperand(number) : Value();
}

// Applies the entries of a coordinate to the marks that they face; false if an edge is left in none of them.
static bool applyCoordinate(const Tuple &marks, const Tuple &coord, Value value, int32_t &dynamic,
                            SmallVectorImpl<Edge> &edges) {
  if (coord.isNone())
    return true;
  if (!coord.isLeaf) {
    if (marks.isLeaf || marks.rank() != coord.rank())
      return false;
    for (auto [mark, entry] : llvm::zip(marks.kids, coord.kids))
      if (!applyCoordinate(mark, entry, value, dynamic, edges))
        return false;
    return true;
  }
  Value index = coord.num.isStatic ? Value() : leafValue(value, dynamic++);
  if (!marks.isLeaf)
    return false; // a linear index into several modes
  auto *edge = llvm::find_if(edges, [&](const Edge &e) {
    return marks.is(tileMark(e.overrun.mode)) || marks.is(restMark(e.overrun.mode));
  });
  if (edge == edges.end())
    return true;
  int32_t last = edge->overrun.repeats() - 1;
  std::optional<int64_t> most = coord.num.isStatic ? int64_t(coord.num.value) : index ? largest(index) : std::nullopt;
  if (marks.is(tileMark(edge->overrun.mode)) || (most && *most < last)) {
    edges.erase(edge); // a part of the tile, or no last one
    return !edges.empty();
  }
  edge->isChosen = true;
  edge->isCertain = most.has_value();
  return true;
}

static std::optional<View> sliced(const View &view, SliceOp slice) {
  Algebra alg(slice.getContext());
  View next = view;
  next.value = slice.getResult();
  Tuple coord = alg.fromAttr(cast<IntTupleType>(slice.getCoord().getType()).getAttr());
  int32_t dynamic = 0;
  if (!applyCoordinate(view.marks, coord, slice.getCoord(), dynamic, next.edges))
    return std::nullopt;
  next.marks = alg.slice(view.marks, coord);
  if (alg.failed())
    return std::nullopt;
  return next;
}

// A thread's part of a view: its first modes (those of the tile) become values and repeats.
static std::optional<View> partitioned(const View &view, Operation *op) {
  int32_t rank = 2;
  Value tensor = op->getOperand(0);
  if (auto src = dyn_cast<TiledCopyPartitionSrcOp>(op)) {
    rank = cast<TiledCopyType>(src.getTiledCopy().getType()).getTileMN().getAttr().rank();
    tensor = src.getSrc();
  } else if (auto dst = dyn_cast<TiledCopyPartitionDstOp>(op)) {
    rank = cast<TiledCopyType>(dst.getTiledCopy().getType()).getTileMN().getAttr().rank();
    tensor = dst.getDst();
  } else {
    tensor = cast<TiledMmaPartitionOp>(op).getInput();
  }
  if (tensor != view.value || view.marks.isLeaf || view.marks.rank() < rank)
    return std::nullopt;
  std::vector<Tuple> modes{Tuple(0)};
  bool countsTiles = false;
  for (auto [i, kid] : llvm::enumerate(view.marks.kids)) {
    bool isTile = int32_t(i) < rank;
    kid.walk([&](const Tuple &leaf) { countsTiles |= isTile && leaf.num.value != 0 && leaf.num.value % 2 == 0; });
    modes.push_back(kid.isLeaf || !isTile ? kid : Tuple(0));
  }
  if (countsTiles)
    return std::nullopt;
  return View{op->getResult(0), Tuple(std::move(modes)), view.edges};
}

bool lowering::isConditional(Operation *op) {
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp())
    if (isa<scf::IfOp, scf::WhileOp>(parent))
      return true;
  return false;
}

static LogicalResult checkCopy(Operation *copy, fly::MemRefType tensor, const View &view) {
  const Edge &edge = *llvm::min_element(
      view.edges, [](const Edge &a, const Edge &b) { return a.isCertain && !b.isCertain; });
  const Overrun &overrun = edge.overrun;
  auto describe = [&](InFlightDiagnostic diagnostic) {
    diagnostic << "overruns its tensor: mode " << overrun.mode << " of " << tensor << " has extent "
               << overrun.extent << " and is divided in tiles of " << overrun.tile
               << (edge.isCertain ? ", the last of which is copied whole"
                                  : ", and which one is copied is known only at run time: the last one must not be "
                                    "copied whole")
               << ". Copy with bounds=True or pred=, put the copy into a branch, or choose a tile that divides";
  };
  if (edge.isCertain) {
    describe(copy->emitOpError());
    return failure();
  }
  describe(copy->emitWarning());
  return success();
}

static LogicalResult follow(const View &view, fly::MemRefType tensor) {
  for (OpOperand &use : view.value.getUses()) {
    Operation *user = use.getOwner();
    std::optional<View> next;
    if (isa<CopyOp, CopyAtomCall>(user)) {
      Value pred = isa<CopyOp>(user) ? cast<CopyOp>(user).getPred() : cast<CopyAtomCall>(user).getPred();
      if (!pred && !isConditional(user) && failed(checkCopy(user, tensor, view)))
        return failure();
    } else if (auto slice = dyn_cast<SliceOp>(user)) {
      next = sliced(view, slice);
    } else if (isa<TiledCopyPartitionSrcOp, TiledCopyPartitionDstOp, TiledMmaPartitionOp>(user)) {
      next = partitioned(view, user);
    }
    if (next && failed(follow(*next, tensor)))
      return failure();
  }
  return success();
}

LogicalResult lowering::checkEdges(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    if (!isDivision(op))
      return WalkResult::advance();
    std::optional<View> view = inspect(op);
    return view ? WalkResult(follow(*view, cast<fly::MemRefType>(op->getOperand(0).getType())))
                : WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}
