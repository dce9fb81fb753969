//===- CheckTiles.cpp - copies that overrun their tile ----------------------===//
//
// A tiled copy or MMA takes a tensor in tiles. Where a tile does not divide a mode, its last repeat reaches
// into the neighbour; where the hardware places the lanes of a wave itself, the layout of the destination
// must be that place. Both are known where a thread's part is made and matter where it is copied, so the
// parts are followed to the copies before they are lowered.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// Lanes of a wave on the architectures that load into LDS directly.
static constexpr int32_t kWaveSize = 64;

namespace {

/// A thread's part of a tensor.
struct Part {
  Operation *op;
  fly::MemRefType tensor;
  SmallVector<Overrun> overruns;
  /// A direct load into LDS may reach it.
  bool isSharedDestination() const {
    return isa<TiledCopyPartitionDstOp>(op) && tensor.isInSpace(AddressSpace::Shared);
  }
  /// Where its accesses lie matters whether or not they overrun a tile.
  bool hasPlaces() const { return isSharedDestination() || !tensor.hasPlainLayout(); }
};

} // namespace

static bool isConstant(const Tuple &stride) {
  bool zero = true;
  stride.walk([&](const Tuple &leaf) { zero &= leaf.is(0); });
  return zero;
}

// Extent of a tile's entry; 0 if it is not known or takes the whole mode.
static int32_t entryExtent(Algebra &alg, Attribute entry) {
  Int size = Int::constant(0);
  if (auto layout = dyn_cast_or_null<LayoutAttr>(entry))
    size = alg.size(alg.fromAttr(layout));
  else if (auto number = dyn_cast_or_null<IntAttr>(entry); number && !number.isNone())
    size = alg.fromAttr(number);
  return size.isStatic ? size.value : 0;
}

void lowering::findOverruns(Algebra &alg, const Layout &layout, ArrayRef<Attribute> tile,
                            SmallVectorImpl<Overrun> &overruns) {
  for (auto [i, entry] : llvm::enumerate(tile)) {
    if (static_cast<int32_t>(i) >= layout.rank())
      return;
    Layout mode = tile.size() == 1 && layout.shape.isLeaf ? layout : alg.at(layout, i);
    Int extent = alg.size(mode);
    int32_t step = entryExtent(alg, entry);
    if (alg.failed() || step <= 0 || !extent.isStatic || isConstant(mode.stride))
      continue;
    if (extent.value % step != 0)
      overruns.push_back({static_cast<int32_t>(i), extent.value, step});
  }
}

bool lowering::isThreadIndex(Value coord) {
  for (Operation *op = coord.getDefiningOp(); op; op = op->getOperand(0).getDefiningOp()) {
    if (auto id = dyn_cast<gpu::ThreadIdOp>(op))
      return id.getDimension() == gpu::Dimension::x;
    if (!isa<MakeIntTupleOp, arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp,
             arith::ExtUIOp, arith::TruncIOp>(op) ||
        op->getNumOperands() != 1)
      return false;
  }
  return false;
}

// Where lane after lane of a wave is written, compared with where the layout wants it: why a direct load
// with `atom` would miss the layout, empty if it does not or if that is not known.
static std::string findMisplaced(const Part &part, CopyAtomType atom) {
  auto op = cast<TiledCopyPartitionDstOp>(part.op);
  auto tiled = cast<TiledCopyType>(op.getTiledCopy().getType());
  Algebra alg(op.getContext());
  Attribute layout = part.tensor.getLayout();
  LayoutAttr values = atom.getThrValLayoutDst();
  if (!isThreadIndex(op.getCoord()) || !values || values.rank() != 2)
    return {};
  Layout view = alg.copyView(tiled, Algebra::CopySide::Dst, alg.fromAttr(getLinearLayout(layout)));
  if (alg.failed() || !alg.at(view, 0).isStatic())
    return {};
  Layout threads = alg.at(view, 0);
  Int count = alg.size(threads), perCall = alg.size(alg.at(alg.fromAttr(values), 1));
  CoordMap map = alg.mapFromAttr(replaceLinear(layout, alg.toAttr(threads)));
  if (alg.failed() || !count.isStatic || !perCall.isStatic)
    return {};
  auto placeOf = [&](int32_t thread) -> std::optional<int64_t> {
    Tuple place = alg.crd2idx(Tuple(thread), map);
    if (alg.failed() || !place.isInt() || !place.num.isStatic)
      return std::nullopt;
    return place.num.value;
  };
  for (int32_t thread = 0; thread < count.value; ++thread) {
    int32_t lane = thread % kWaveSize;
    auto first = placeOf(thread - lane), place = placeOf(thread);
    if (!first || !place)
      return {};
    int64_t written = *first + int64_t(lane) * perCall.value;
    if (*place != written)
      return ("thread " + Twine(thread) + " owns the element at " + Twine(*place) +
              ", and the hardware writes at " + Twine(written)).str();
  }
  return {};
}

// A stride of a swizzled tensor at which accesses straddle the chunks that the swizzle permutes; 0 if
// there is none. (Strides within an access are those of its elements.)
static int32_t findStraddle(const Part &part, CopyAtomType atom) {
  auto composed = dyn_cast<ComposedLayoutAttr>(part.tensor.getLayout());
  auto swizzle = composed ? dyn_cast<SwizzleAttr>(composed.getInner()) : SwizzleAttr();
  LayoutAttr values = atom.getThrValLayoutRef();
  if (!swizzle || swizzle.isTrivial() || !values || values.rank() != 2 ||
      getElementBitWidth(part.tensor.getElemTy()) != static_cast<unsigned>(atom.getValBits()))
    return 0;
  Algebra alg(part.op->getContext());
  Int perCall = alg.size(alg.at(alg.fromAttr(values), 1));
  if (alg.failed() || !perCall.isStatic || perCall.value < 2)
    return 0;
  LayoutAttr linear = getLinearLayout(composed);
  Layout layout = alg.fromAttr(linear);
  SmallVector<int64_t> extents, strides;
  layout.shape.walk([&](const Tuple &leaf) {
    extents.push_back(leaf.isInt() && leaf.num.isStatic ? leaf.num.value : 0);
  });
  layout.stride.walk([&](const Tuple &leaf) {
    strides.push_back(leaf.isInt() && leaf.num.isStatic ? leaf.num.value : 0);
  });
  if (extents.size() != strides.size())
    return 0;
  for (auto [extent, stride] : llvm::zip(extents, strides))
    if (extent > 1 && stride > perCall.value && stride % perCall.value != 0)
      return stride;
  return 0;
}

static std::optional<Part> inspect(Operation *op) {
  Algebra alg(op->getContext());
  auto makePart = [&](Value tensor, ArrayRef<Attribute> tile) -> std::optional<Part> {
    auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
    if (!memref)
      return std::nullopt;
    Part part{op, memref, {}};
    findOverruns(alg, alg.fromAttr(memref.getLinearLayout()), tile, part.overruns);
    return part;
  };
  auto entries = [](TileAttr tile) {
    SmallVector<Attribute> all;
    for (int32_t i = 0; i < tile.rank(); ++i)
      all.push_back(tile.at(i));
    return all;
  };
  std::optional<Part> part;
  if (auto src = dyn_cast<TiledCopyPartitionSrcOp>(op)) {
    auto tiled = cast<TiledCopyType>(src.getTiledCopy().getType());
    part = makePart(src.getSrc(), entries(tiled.getTileMN().getAttr()));
  } else if (auto dst = dyn_cast<TiledCopyPartitionDstOp>(op)) {
    auto tiled = cast<TiledCopyType>(dst.getTiledCopy().getType());
    part = makePart(dst.getDst(), entries(tiled.getTileMN().getAttr()));
  } else if (auto mma = dyn_cast<TiledMmaPartitionOp>(op)) {
    auto tiled = cast<TiledMmaType>(mma.getTiledMma().getType());
    MmaOperand operand = mma.getOperandId();
    int32_t i = operand == MmaOperand::B ? 1 : 0;
    int32_t j = operand == MmaOperand::A || operand == MmaOperand::B ? 2 : 1;
    part = makePart(mma.getInput(), {alg.tileSizeMNK(tiled, i), alg.tileSizeMNK(tiled, j)});
  }
  if (alg.failed())
    return std::nullopt;
  return part;
}

// True if a branch between the part and the copy may leave the copy out.
static bool isGuarded(Operation *copy, Operation *part) {
  for (Operation *parent = copy->getParentOp(); parent && !parent->isAncestor(part);
       parent = parent->getParentOp())
    if (isa<scf::IfOp, scf::WhileOp>(parent))
      return true;
  return false;
}

// The overruns that are left in a slice of the part: a static repeat before the last one has none.
static SmallVector<Overrun> remaining(ArrayRef<Overrun> overruns, SliceOp slice) {
  Algebra alg(slice.getContext());
  Tuple coord = alg.fromAttr(cast<IntTupleType>(slice.getCoord().getType()).getAttr());
  SmallVector<Overrun> left;
  for (const Overrun &overrun : overruns) {
    int32_t at = overrun.mode + 1; // behind the values
    bool inside = !coord.isLeaf && at < coord.rank() && coord.kids[at].isInt() &&
                  !coord.kids[at].isNone() && coord.kids[at].num.isStatic &&
                  coord.kids[at].num.value < overrun.repeats() - 1;
    if (!inside)
      left.push_back(overrun);
  }
  return left;
}

static CopyAtomType atomOf(Type type) {
  if (auto tiled = dyn_cast<TiledCopyType>(type))
    type = tiled.getCopyAtom();
  return dyn_cast<CopyAtomType>(type);
}

static LogicalResult checkCopy(Operation *copy, Value atom, Value pred, const Part &part,
                               ArrayRef<Overrun> overruns) {
  CopyAtomType type = atomOf(atom.getType());
  std::string misplaced;
  if (part.isSharedDestination() && type && type.getCopyOp().hasTrait<LaneOrderedCopy>())
    misplaced = findMisplaced(part, type);
  if (!misplaced.empty())
    return copy->emitOpError() << "loads into LDS directly, where the lanes of a wave are written one "
                                  "behind the other, but the destination "
                               << part.tensor << " does not have that layout: " << misplaced
                               << ". Give the destination a layout in the order of the threads and "
                                  "permute (swizzle) the source instead, or copy through registers";
  if (int32_t stride = type ? findStraddle(part, type) : 0)
    return copy->emitOpError() << "moves consecutive elements, but the stride " << stride << " of "
                               << part.tensor << " starts accesses that straddle the chunks which its "
                               << "swizzle permutes: a stride that is a multiple of the access, or an atom "
                                  "of one element";
  if (overruns.empty() || pred || isGuarded(copy, part.op))
    return success();
  const Overrun &first = overruns.front();
  return copy->emitOpError() << "overruns its tile: mode " << first.mode << " of " << part.tensor
                             << " has extent " << first.extent << ", which the "
                             << (isa<TiledMmaPartitionOp>(part.op) ? "MMA" : "copy")
                             << " takes in tiles of " << first.tile
                             << ". Choose a tile that divides it, or copy with bounds= or pred=";
}

static LogicalResult follow(const Part &part, Value value, ArrayRef<Overrun> overruns) {
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    if (auto copy = dyn_cast<CopyOp>(user)) {
      if (use.get() != copy.getPred() &&
          failed(checkCopy(copy, copy.getCopyAtom(), copy.getPred(), part, overruns)))
        return failure();
      continue;
    }
    if (auto call = dyn_cast<CopyAtomCall>(user)) {
      if (use.get() != call.getPred() &&
          failed(checkCopy(call, call.getCopyAtom(), call.getPred(), part, overruns)))
        return failure();
      continue;
    }
    bool isView = isa<SliceOp, GroupOp, SelectOp, GetOp, TakeOp, CoalesceOp, LogicalDivideOp,
                      ZippedDivideOp, TiledDivideOp, FlatDivideOp, DecompositionOp>(user);
    if (!isView || user->getNumResults() != 1 || use.getOperandNumber() != 0)
      continue;
    SmallVector<Overrun> left(overruns);
    if (auto slice = dyn_cast<SliceOp>(user); slice && value == part.op->getResult(0))
      left = remaining(overruns, slice);
    if (left.empty() && !part.hasPlaces())
      continue;
    if (failed(follow(part, user->getResult(0), left)))
      return failure();
  }
  return success();
}

LogicalResult lowering::checkTiles(Operation *root) {
  WalkResult result = root->walk([](Operation *op) -> WalkResult {
    if (!isa<TiledCopyPartitionSrcOp, TiledCopyPartitionDstOp, TiledMmaPartitionOp>(op))
      return WalkResult::advance();
    std::optional<Part> part = inspect(op);
    if (!part || (part->overruns.empty() && !part->hasPlaces()))
      return WalkResult::advance();
    return follow(*part, op->getResult(0), part->overruns);
  });
  return failure(result.wasInterrupted());
}
