//===- CopyGemm.cpp - fly.copy and fly.gemm as atom calls -------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

// Notes why `op` cannot be lowered.
static LogicalResult reject(Reasons &reasons, Operation *op, const Twine &why) {
  reasons[op] = why.str();
  return failure();
}

static std::string typeText(Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << value.getType();
  return text;
}

static LayoutAttr linearOf(Value tensor) { return getLinearLayout(tensor.getType()); }

static Value sliceAt(PatternRewriter &rewriter, Location loc, Value tensor,
                     ArrayRef<int32_t> coordinate) {
  std::vector<Tuple> kids{Tuple(Int::none())};
  for (int32_t c : coordinate)
    kids.push_back(Tuple(c));
  Value coord = staticTuple(rewriter, loc, Tuple(std::move(kids)));
  return make<SliceOp>(rewriter, loc, {tensor, coord});
}

//===------------------------------------------------------------------------===//
// Copy
//===------------------------------------------------------------------------===//

static Value copyAtomOf(PatternRewriter &rewriter, Location loc, Value atom) {
  if (!isa<TiledCopyType>(atom.getType()))
    return atom;
  return make<GetCopyAtomOp>(rewriter, loc, atom);
}

// A predicate that lacks the value mode applies to the whole of it.
static Value withValueMode(PatternRewriter &rewriter, Location loc, Value pred) {
  Value layout = make<GetLayoutOp>(rewriter, loc, pred);
  Value iter = make<GetIterOp>(rewriter, loc, pred);
  Algebra alg(rewriter.getContext());
  Value one = LayoutType::get(alg.toAttr(Layout{Tuple(1), Tuple(0)}))
                  .rebuildStaticValue(rewriter, loc, Value());
  Value extended = make<PrependOp>(rewriter, loc, {layout, one});
  return extended ? make<MakeViewOp>(rewriter, loc, {iter, extended}) : Value();
}

// Bits that one thread moves in a call; 0 if the atom does not say.
static int64_t bitsPerCall(CopyAtomType atom) {
  LayoutAttr values = atom.getThrValLayoutRef();
  if (!values || values.rank() != 2)
    return 0;
  Algebra alg(atom.getContext());
  Int count = alg.size(alg.fromAttr(values.getShape().at(1)));
  return alg.failed() || !count.isStatic ? 0 : int64_t(count.value) * atom.getValBits();
}

// Bits that an element takes in the count of the atom: booleans are counted by its values.
static int64_t elementBits(CopyAtomType atom, fly::MemRefType tensor) {
  Type element = tensor.getElemTy();
  return element.isInteger(1) ? atom.getValBits() : getElementBitWidth(element);
}

// A copy moves the whole of its operands. Of a larger view the atom would leave a part where it was. A
// view of one element in memory is an address, which has no size.
static LogicalResult checkWhole(CopyAtomType atom, Value tensor, std::string &why) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  int64_t bits = bitsPerCall(atom);
  if (!memref || bits == 0)
    return success();
  Algebra alg(atom.getContext());
  Int size = alg.size(alg.fromAttr(memref.getLinearLayout().getShape()));
  int64_t element = elementBits(atom, memref);
  if (alg.failed() || !size.isStatic || element == 0 || int64_t(size.value) * element <= bits)
    return success();
  why = ("one call moves " + Twine(bits) + " bits, but " + typeText(tensor) + " holds " +
         Twine(int64_t(size.value) * element) + ": take the values of the atom apart from the rest "
         "(logical_divide by " + Twine(std::max<int64_t>(bits / element, 1)) +
         "), or give the atom the type of the elements").str();
  return failure();
}

// True if the step between the elements of a view is known only when the kernel runs.
static bool hasUnknownStep(CopyAtomType atom, Value tensor) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  if (!memref || memref.getLinearLayout().isStatic() || elementBits(atom, memref) >= bitsPerCall(atom))
    return false;
  Algebra alg(atom.getContext());
  Layout flat = alg.coalesce(alg.fromAttr(memref.getLinearLayout()));
  Tuple stride = alg.at(flat.stride, 0);
  return !alg.failed() && stride.isInt() && !stride.num.isStatic;
}

// True if a swizzle takes the elements of one call apart: it permutes chunks smaller than the access.
static bool isSplit(CopyAtomType atom, Value tensor) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  if (!memref || !isa<ComposedLayoutAttr>(memref.getLayout()))
    return false;
  int64_t bits = bitsPerCall(atom), element = elementBits(atom, memref);
  if (element == 0 || bits <= element)
    return false;
  for (auto map = dyn_cast<ComposedLayoutAttr>(memref.getLayout()); map;
       map = dyn_cast<ComposedLayoutAttr>(map.getOuter()))
    if (auto swizzle = dyn_cast<SwizzleAttr>(map.getInner()))
      if (!swizzle.isTrivial() && (int64_t(1) << swizzle.getBase()) < bits / element)
        return true;
  return false;
}

// True if an access of a swizzled view may begin inside of a chunk that the swizzle permutes and end in
// the next one. (The steps between accesses are part of the offset once each is a copy of its own.)
static bool mayStraddle(CopyAtomType atom, Value tensor) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  if (!memref || !isa<ComposedLayoutAttr>(memref.getLayout()))
    return false;
  int64_t bits = bitsPerCall(atom), element = elementBits(atom, memref);
  if (element == 0 || bits <= element)
    return false;
  Algebra alg(atom.getContext());
  Layout flat = alg.coalesce(alg.fromAttr(memref.getLinearLayout()));
  if (alg.failed() || !alg.at(flat.stride, 0).is(1))
    return false; // not consecutive, which the atom refuses
  int64_t count = bits / element;
  for (auto map = dyn_cast<ComposedLayoutAttr>(memref.getLayout()); map;
       map = dyn_cast<ComposedLayoutAttr>(map.getOuter())) {
    auto swizzle = dyn_cast<SwizzleAttr>(map.getInner());
    Tuple offset = alg.fromAttr(map.getOffset());
    if (!swizzle || swizzle.isTrivial() || !offset.isInt())
      continue;
    int64_t chunk = int64_t(1) << swizzle.getBase();
    if (offset.num.isStatic ? offset.num.value % chunk + count > chunk
                            : std::gcd(int64_t(offset.num.div), chunk) < count)
      return true;
  }
  return false;
}

// The same atom, with its state, for values of `bits` bits; null if there is none.
static Value narrowAtom(PatternRewriter &rewriter, Location loc, Value atom, int32_t bits) {
  auto type = cast<CopyAtomType>(atom.getType());
  auto op = dyn_cast<CopyOpTypeInterface>(type.getCopyOp());
  Type narrow = op && bits % 8 == 0 ? op.getNarrowed(bits) : Type();
  if (!narrow)
    return {};
  Operation *def = atom.getDefiningOp();
  if (auto set = dyn_cast_or_null<AtomSetValueOp>(def)) {
    Value inner = narrowAtom(rewriter, loc, set.getAtom(), bits);
    if (!inner)
      return {};
    IRMapping mapping;
    mapping.map(set.getAtom(), inner);
    Operation *copy = rewriter.clone(*set, mapping);
    copy->getResult(0).setType(inner.getType());
    return copy->getResult(0);
  }
  if (auto get = dyn_cast_or_null<GetCopyAtomOp>(def))
    if (auto tiled = get.getTiledCopy().getDefiningOp<MakeTiledCopyOp>())
      return narrowAtom(rewriter, loc, tiled.getCopyAtom(), bits);
  if (isa_and_nonnull<MakeCopyAtomOp>(def) || type.isStatic())
    return MakeCopyAtomOp::create(rewriter, loc, CopyAtomType::get(narrow, bits));
  return {};
}

// Element by element, for elements that are not known to be consecutive or in one chunk of a swizzle.
static LogicalResult copyElements(Operation *op, Value atom, Value src, Value dst, Value pred,
                                  bool zeroFill, PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op->getLoc();
  auto atomType = cast<CopyAtomType>(atom.getType());
  auto srcType = cast<fly::MemRefType>(src.getType()), dstType = cast<fly::MemRefType>(dst.getType());
  int64_t bits = elementBits(atomType, srcType), count = bits ? bitsPerCall(atomType) / bits : 0;
  Algebra alg(rewriter.getContext());
  auto holds = [&](fly::MemRefType type) {
    Int size = alg.size(alg.fromAttr(type.getLinearLayout()));
    return !size.isStatic || size.value == count;
  };
  bool matches = bits == elementBits(atomType, dstType) && holds(srcType) && holds(dstType);
  Value narrow = matches ? narrowAtom(rewriter, loc, atom, bits) : Value();
  if (!narrow)
    return reject(reasons, op,
                  "moves " + Twine(bitsPerCall(atomType)) + " consecutive bits, but a step between "
                  "the elements of " + typeText(src) + " to " + typeText(dst) + " is known only at "
                  "launch, or a swizzle may take them apart. Make the axis of the copy the leading one "
                  "(stride 1) or its stride static, offsets into a swizzled view multiples of the access, "
                  "or use an atom of one element");
  Value from = withValueMode(rewriter, loc, src), to = withValueMode(rewriter, loc, dst);
  if (!from || !to)
    return failure();
  for (int32_t i = 0; i < count; ++i) {
    Value srcPart = sliceAt(rewriter, loc, from, i), dstPart = sliceAt(rewriter, loc, to, i);
    if (!srcPart || !dstPart)
      return failure();
    CopyOp::create(rewriter, loc, narrow, srcPart, dstPart, pred, zeroFill);
  }
  rewriter.eraseOp(op);
  return success();
}

// One call of the atom, of operands that are a value mode each.
static LogicalResult callOnce(CopyOp op, Value atom, PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op.getLoc();
  auto atomType = cast<CopyAtomType>(atom.getType());
  std::string why;
  Algebra alg(rewriter.getContext());
  if (op.getPred() && !alg.product(alg.fromAttr(linearOf(op.getPred()).getShape())).is(1))
    return reject(reasons, op, "is one call of the atom, which takes one predicate, but got " +
                                   typeText(op.getPred()));
  if (failed(checkWhole(atomType, op.getSrc(), why)) || failed(checkWhole(atomType, op.getDst(), why)))
    return reject(reasons, op, why);
  for (Value tensor : {op.getSrc(), op.getDst()})
    if (isSplit(atomType, tensor))
      return reject(reasons, op,
                    "moves " + Twine(bitsPerCall(atomType)) + " consecutive bits, but the swizzle of " +
                        typeText(tensor) + " permutes smaller chunks: give it a larger base, or use "
                        "an atom of one chunk");
  for (Value tensor : {op.getSrc(), op.getDst()})
    if (hasUnknownStep(atomType, tensor) || mayStraddle(atomType, tensor))
      return copyElements(op, atom, op.getSrc(), op.getDst(), op.getPred(), op.getZeroFill(), rewriter,
                          reasons);
  Value src = make<DecompositionOp>(rewriter, loc, op.getSrc());
  Value dst = make<DecompositionOp>(rewriter, loc, op.getDst());
  if (!src || !dst)
    return failure();
  rewriter.replaceOpWithNewOp<CopyAtomCall>(op, atom, src, dst, op.getPred(), op.getZeroFill());
  return success();
}

// Operands of one mode: a value mode, or a tuple of one, whose mode is copied.
static LogicalResult copyRankOne(CopyOp op, Value atom, PatternRewriter &rewriter,
                                 Reasons &reasons) {
  if (linearOf(op.getSrc()).isLeaf() && linearOf(op.getDst()).isLeaf())
    return callOnce(op, atom, rewriter, reasons);
  NamedAttribute mode = rewriter.getNamedAttr("mode", rewriter.getDenseI32ArrayAttr({0}));
  auto unwrap = [&](Value tensor) -> Value {
    if (!tensor || linearOf(tensor).isLeaf())
      return tensor;
    return make<GetOp>(rewriter, op.getLoc(), tensor, mode);
  };
  Value src = unwrap(op.getSrc()), dst = unwrap(op.getDst()), pred = unwrap(op.getPred());
  if (!src || !dst)
    return failure();
  rewriter.replaceOpWithNewOp<CopyOp>(op, atom, src, dst, pred, op.getZeroFill());
  return success();
}

// True if one call of an atom that takes coordinates covers the operands: their value mode may be
// nested, and is then not taken apart.
static bool isWholeCoordinateCopy(CopyAtomType atom, Value src, Value dst) {
  if (!isa<CoordTensorType>(src.getType()) && !isa<CoordTensorType>(dst.getType()))
    return false;
  if (atom.getValBits() == 0) // a tensor move, whose values have no width
    return true;
  LayoutAttr values = atom.getThrValLayoutRef();
  if (!values || values.rank() != 2)
    return false;
  Algebra alg(atom.getContext());
  Int perCall = alg.size(alg.fromAttr(values.getShape().at(1)));
  auto matches = [&](Value tensor) {
    Int size = alg.size(alg.fromAttr(linearOf(tensor)));
    return size.isStatic && perCall.isStatic && size.value == perCall.value;
  };
  return matches(src) && matches(dst) && !alg.failed();
}

// A tile whose value mode has one element is a tile, unlike a view of one element, which is an address:
// true if one call of the atom would move its neighbours too.
static bool movesNeighbours(CopyAtomType atom, Value tensor) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  LayoutAttr values = atom.getThrValLayoutRef();
  if (!memref || !values || values.rank() != 2)
    return false;
  Algebra alg(atom.getContext());
  Int held = alg.size(alg.at(alg.fromAttr(linearOf(tensor)).shape, 0));
  Int perCall = alg.size(alg.fromAttr(values.getShape().at(1)));
  if (alg.failed() || !held.is(1) || !perCall.isStatic || perCall.value <= 1)
    return false;
  return int64_t(perCall.value) * atom.getValBits() > getElementBitWidth(memref.getElemTy());
}

// How many elements of a view lie one behind the other from its first one on; 0 if that is not known.
static int64_t consecutiveElements(Value tensor) {
  auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
  if (!memref)
    return 0;
  Algebra alg(memref.getContext());
  Layout flat = alg.coalesce(alg.fromAttr(memref.getLinearLayout()));
  Tuple shape = alg.at(flat.shape, 0), stride = alg.at(flat.stride, 0);
  if (alg.failed() || !stride.isInt() || !stride.num.isStatic || !shape.isInt() || !shape.num.isStatic)
    return 0;
  return stride.num.value == 1 ? int64_t(shape.num.value) : 1;
}

// Why the value modes of one call have different ranks: what the atom moves at once is not in one piece.
static LogicalResult rejectRanks(CopyOp op, CopyAtomType atom, Value src, Value dst, Reasons &reasons) {
  int64_t bits = bitsPerCall(atom);
  for (Value tensor : {src, dst}) {
    auto memref = dyn_cast<fly::MemRefType>(tensor.getType());
    int64_t element = memref ? elementBits(atom, memref) : 0, held = consecutiveElements(tensor);
    if (element > 0 && held == 0 && element < bits && !linearOf(tensor).isLeaf())
      return reject(reasons, op, "a call of the atom moves " + Twine(bits) + " consecutive bits, but whether "
                                     "the elements of " + typeText(tensor) + " are consecutive is known only "
                                     "at launch: take an atom of one element, or make the strides static");
    if (element > 0 && held > 0 && held * element < bits)
      return reject(reasons, op, "a call of the atom moves " + Twine(bits) + " consecutive bits, but only " +
                                     Twine(held) + " elements (" + Twine(held * element) + " bits) of " +
                                     typeText(tensor) + " are consecutive: take a narrower atom");
  }
  return reject(reasons, op, "source has rank " + Twine(linearOf(src).rank()) +
                                 " but destination has rank " + Twine(linearOf(dst).rank()));
}

namespace {
/// What a predicate has entries for: the parts of a copy, after a mode for its value mode; its modes 1...;
/// all of it.
enum class Spread { Parts, Rest, Whole };
} // namespace

// How the predicate of a copy of `rank` modes into `count` parts is read; none if it does not fit. A value
// mode (values of a call, calls) becomes a copy of its own, whose predicate has entries for the calls only.
// If these are nested, it has the rank of the copy by chance: so sizes decide, and the rank where they do not.
static std::optional<Spread> spreadOf(LayoutAttr pred, int32_t rank, int64_t count) {
  Algebra alg(pred.getContext());
  Tuple shape = alg.fromAttr(pred.getShape());
  Int all = alg.product(shape);
  if (pred.rank() == rank && alg.product(alg.take(shape, 1, -1)).is(count))
    return Spread::Parts;
  if (all.is(count))
    return Spread::Rest;
  if (all.is(1))
    return Spread::Whole;
  if (pred.rank() == rank)
    return Spread::Parts;
  if (pred.rank() + 1 == rank)
    return Spread::Rest;
  return std::nullopt;
}

// Modes 1... are loops: a copy for each of their coordinates.
static LogicalResult copyParts(CopyOp op, Value atom, PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op.getLoc();
  Value src = op.getSrc(), dst = op.getDst(), pred = op.getPred();
  for (Value tensor : {src, dst})
    if (movesNeighbours(cast<CopyAtomType>(atom.getType()), tensor))
      return reject(reasons, op, "mode 0 of " + typeText(tensor) +
                                     " has one element, but a call of the atom moves several");
  Algebra alg(rewriter.getContext());
  auto restSize = [&](Value tensor) {
    return alg.product(alg.take(alg.fromAttr(linearOf(tensor).getShape()), 1, -1));
  };
  Int count = restSize(src), dstCount = restSize(dst);
  if (alg.failed() || !count.isStatic || !dstCount.isStatic || count.value != dstCount.value)
    return reject(reasons, op,
                  "modes 1... of source and destination need the same static size, got " +
                      typeText(src) + " and " + typeText(dst));
  if (count.value < 0 || count.value > kMaxUnrolled)
    return reject(reasons, op, "would become " + Twine(count.value) + " atom calls, at most " +
                                   Twine(kMaxUnrolled) + " are supported");
  std::optional<Spread> spread =
      pred ? spreadOf(linearOf(pred), linearOf(src).rank(), count.value) : Spread::Whole;
  if (!spread)
    return reject(reasons, op, "has " + Twine(count.value) + " parts, which the predicate " +
                                   typeText(pred) + " does not fit");
  if (spread == Spread::Rest)
    pred = withValueMode(rewriter, loc, pred);
  auto grouped = [&](Value tensor) -> Value {
    if (!tensor || linearOf(tensor).rank() <= 2)
      return tensor;
    SmallVector<NamedAttribute> range{
        rewriter.getNamedAttr("begin", rewriter.getI32IntegerAttr(1)),
        rewriter.getNamedAttr("end", rewriter.getI32IntegerAttr(-1))};
    return make<GroupOp>(rewriter, loc, tensor, range);
  };
  src = grouped(src);
  dst = grouped(dst);
  pred = spread == Spread::Whole ? pred : grouped(pred);
  if (!src || !dst || (op.getPred() && !pred))
    return failure();
  for (int32_t i = 0; i < count.value; ++i) {
    Value srcPart = sliceAt(rewriter, loc, src, i), dstPart = sliceAt(rewriter, loc, dst, i);
    Value predPart = spread == Spread::Whole ? pred : sliceAt(rewriter, loc, pred, i);
    if (!srcPart || !dstPart || (pred && !predPart))
      return failure();
    CopyOp::create(rewriter, loc, atom, srcPart, dstPart, predPart, op.getZeroFill());
  }
  rewriter.eraseOp(op);
  return success();
}

static LogicalResult lowerCopy(CopyOp op, PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op.getLoc();
  Value atom = copyAtomOf(rewriter, loc, op.getCopyAtom());
  Value src = op.getSrc(), dst = op.getDst(), pred = op.getPred();
  auto atomType = dyn_cast<CopyAtomType>(atom.getType());
  if (!atomType)
    return failure();
  if (atomType.getCopyOp().hasTrait<WholeTileCopy>()) {
    rewriter.replaceOpWithNewOp<CopyAtomCall>(op, atom, src, dst, pred, op.getZeroFill());
    return success();
  }
  if (isWholeCoordinateCopy(atomType, src, dst)) {
    Value from = make<DecompositionOp>(rewriter, loc, src);
    Value to = make<DecompositionOp>(rewriter, loc, dst);
    if (!from || !to)
      return failure();
    rewriter.replaceOpWithNewOp<CopyAtomCall>(op, atom, from, to, pred, op.getZeroFill());
    return success();
  }
  int32_t rank = linearOf(src).rank();
  if (linearOf(dst).rank() != rank)
    return rejectRanks(op, atomType, src, dst, reasons);
  if (rank != 1)
    return copyParts(op, atom, rewriter, reasons);
  if (pred && linearOf(pred).rank() != 1)
    return reject(reasons, op, "predicate has rank " + Twine(linearOf(pred).rank()) + ", expected 1");
  return copyRankOne(op, atom, rewriter, reasons);
}

//===------------------------------------------------------------------------===//
// Gemm
//===------------------------------------------------------------------------===//

namespace {
using Step = std::array<int32_t, 3>; // m, n, k
} // namespace

// Loop dimensions (0 = M, 1 = N, 2 = K), innermost first, and whether the loops go back and forth.
static std::pair<std::array<int, 3>, bool> loopOrder(GemmTraversalOrder order) {
  static const std::array<int, 3> orders[6] = {{2, 0, 1}, {2, 1, 0}, {0, 2, 1},
                                               {0, 1, 2}, {1, 2, 0}, {1, 0, 2}};
  auto index = static_cast<uint32_t>(order);
  return {orders[index % 6], index >= 6};
}

static SmallVector<Step> traverse(const Step &extents, GemmTraversalOrder order) {
  auto [dims, serpentine] = loopOrder(order);
  SmallVector<Step> steps;
  int32_t inner = extents[dims[0]], middle = extents[dims[1]], outer = extents[dims[2]];
  for (int32_t o = 0; o < outer; ++o)
    for (int32_t j = 0; j < middle; ++j)
      for (int32_t i = 0; i < inner; ++i) {
        bool middleBack = serpentine && o % 2 == 1;
        bool innerBack = serpentine && (o * middle + j) % 2 == 1;
        Step step;
        step[dims[2]] = o;
        step[dims[1]] = middleBack ? middle - 1 - j : j;
        step[dims[0]] = innerBack ? inner - 1 - i : i;
        steps.push_back(step);
      }
  return steps;
}

static LogicalResult gemmSteps(GemmOp op, const Step &extents, SmallVectorImpl<Step> &steps,
                               Reasons &reasons) {
  int64_t count = 1;
  for (int32_t extent : extents) {
    count *= std::clamp<int64_t>(extent, 0, kMaxUnrolled + 1);
    if (extent < 0 || count > kMaxUnrolled)
      return reject(reasons, op, "more than " + Twine(kMaxUnrolled) + " atom calls are not supported");
  }
  Value layoutValue = op.getTraversalLayout();
  if (!layoutValue) {
    steps = traverse(extents, op.getTraversalOrder().value_or(GemmTraversalOrder::NMK));
    return success();
  }
  Algebra alg(op.getContext());
  Layout layout = alg.fromAttr(cast<LayoutType>(layoutValue.getType()).getAttr());
  Int cosize = alg.cosize(layout), size = alg.size(layout);
  if (alg.failed() || !layout.isStatic() || cosize.value != count || size.value != count)
    return reject(reasons, op, "traversalLayout must be a static permutation of the " +
                                   Twine(count) + " steps, got " + typeText(layoutValue));
  for (int32_t i = 0; i < count; ++i) {
    int32_t linear = alg.crd2idx(Tuple(i), layout).num.value;
    steps.push_back({linear % extents[0], linear / extents[0] % extents[1],
                     linear / (extents[0] * extents[1])});
  }
  return success();
}

// Every operand must have the extents of the loops that index it.
static LogicalResult checkExtents(GemmOp op, const Step &extents, Reasons &reasons) {
  auto check = [&](Value tensor, int32_t mode, int32_t extent) {
    Algebra alg(op.getContext());
    Int size = alg.size(alg.at(alg.fromAttr(linearOf(tensor)).shape, mode));
    if (!alg.failed() && size.is(extent))
      return true;
    (void)reject(reasons, op, "mode " + Twine(mode) + " of " + typeText(tensor) +
                                  " must have extent " + Twine(extent));
    return false;
  };
  bool ok = check(op.getC(), 1, extents[0]) && check(op.getC(), 2, extents[1]);
  for (auto [group, extent] : {std::pair(op.getA(), extents[0]), std::pair(op.getB(), extents[1])})
    for (Value tensor : group) {
      ok = ok && check(tensor, 1, extent);
      if (linearOf(tensor).rank() == 3)
        ok = ok && check(tensor, 2, extents[2]);
    }
  return success(ok);
}

// The loops of a gemm: M, N and K of the modes behind the value mode.
static std::optional<Step> getExtents(GemmOp op, bool hasK, Reasons &reasons) {
  Algebra alg(op.getContext());
  auto extent = [&](Value tensor, int32_t mode) {
    Int size = alg.size(alg.at(alg.fromAttr(linearOf(tensor).getShape()), mode));
    if (!size.isStatic)
      alg.fail("the extents of a gemm must be static");
    return size.value;
  };
  Step extents{extent(op.getD(), 1), extent(op.getD(), 2), hasK ? extent(op.getA().front(), 2) : 1};
  if (!alg.failed())
    return extents;
  (void)reject(reasons, op, alg.message());
  return std::nullopt;
}

// A call of the atom for each step. The first one of an (m, n) adds to c, the others to d.
static LogicalResult callSteps(GemmOp op, Value atom, ArrayRef<Step> steps, bool hasK,
                               PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op.getLoc();
  llvm::DenseSet<std::pair<int32_t, int32_t>> visited;
  for (auto [m, n, k] : steps) {
    auto slices = [&, k = k](ValueRange tensors, int32_t i) {
      SmallVector<Value> parts;
      for (Value tensor : tensors)
        parts.push_back(hasK ? sliceAt(rewriter, loc, tensor, {i, k})
                             : sliceAt(rewriter, loc, tensor, {i}));
      return parts;
    };
    bool first = visited.insert({m, n}).second;
    Value dPart = sliceAt(rewriter, loc, op.getD(), {m, n});
    Value cPart = first ? sliceAt(rewriter, loc, op.getC(), {m, n}) : dPart;
    SmallVector<Value> aParts = slices(op.getA(), m), bParts = slices(op.getB(), n);
    if (!dPart || !cPart || llvm::is_contained(aParts, Value()) || llvm::is_contained(bParts, Value()))
      return reject(reasons, op, "cannot slice its operands: shape and stride of a layout differ in "
                                 "their modes");
    MmaAtomCall::create(rewriter, loc, atom, dPart, aParts, bParts, cPart);
  }
  return success();
}

static LogicalResult lowerGemm(GemmOp op, PatternRewriter &rewriter, Reasons &reasons) {
  Location loc = op.getLoc();
  Value atom = op.getMmaAtom(), d = op.getD(), c = op.getC();
  if (isa<TiledMmaType>(atom.getType()))
    atom = make<GetMmaAtomOp>(rewriter, loc, atom);
  auto haveRank = [&](ValueRange tensors, int32_t rank) {
    return llvm::all_of(tensors, [&](Value tensor) { return linearOf(tensor).rank() == rank; });
  };
  if (haveRank({d, c}, 1) && haveRank(op.getA(), 1) && haveRank(op.getB(), 1)) {
    MmaAtomCall::create(rewriter, loc, atom, d, op.getA(), op.getB(), c);
    rewriter.eraseOp(op);
    return success();
  }
  bool hasK = linearOf(op.getA().front()).rank() == 3;
  int32_t abRank = hasK ? 3 : 2;
  if (!haveRank({d, c}, 3) || !haveRank(op.getA(), abRank) || !haveRank(op.getB(), abRank))
    return reject(reasons, op, "operands need the modes (V,M,N) for d and c, (V,M[,K]) for a and "
                               "(V,N[,K]) for b");
  std::optional<Step> extents = getExtents(op, hasK, reasons);
  SmallVector<Step> steps;
  if (!extents || failed(gemmSteps(op, *extents, steps, reasons)) ||
      failed(checkExtents(op, *extents, reasons)) ||
      failed(callSteps(op, atom, steps, hasK, rewriter, reasons)))
    return failure();
  rewriter.eraseOp(op);
  return success();
}

void lowering::populateCopyGemm(RewritePatternSet &patterns, Reasons &reasons) {
  addPattern<CopyOp>(patterns, [&](CopyOp op, PatternRewriter &rewriter) {
    return lowerCopy(op, rewriter, reasons);
  });
  addPattern<CopyAtomCall>(patterns, [&](CopyAtomCall op, PatternRewriter &rewriter) -> LogicalResult {
    auto atom = op.getCopyAtom().getType();
    if (!isa<fly::MemRefType>(op.getSrc().getType()) || !isa<fly::MemRefType>(op.getDst().getType()) ||
        (!hasUnknownStep(atom, op.getSrc()) && !hasUnknownStep(atom, op.getDst())))
      return failure();
    return copyElements(op, op.getCopyAtom(), op.getSrc(), op.getDst(), op.getPred(),
                        op.getZeroFill(), rewriter, reasons);
  });
  addPattern<GemmOp>(patterns, [&](GemmOp op, PatternRewriter &rewriter) {
    return lowerGemm(op, rewriter, reasons);
  });
}
