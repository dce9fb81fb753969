//===- VectorAccess.cpp - memref.load_vec and memref.store_vec --------------===//
//
// The elements are accessed in chunks along the contiguous leaf of the layout. In chunk
// order that leaf is the fastest; vector elements are in colexicographic order.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::fly;
using namespace mlir::fly::lowering;

namespace {

/// How a static shape is cut into contiguous chunks.
struct Chunks {
  SmallVector<int64_t> extents; // of the flat shape
  int64_t size = 1;
  int contiguous = -1; // flat position of the leaf with stride 1, or -1
  int64_t width() const { return contiguous < 0 ? 1 : extents[contiguous]; }
  int64_t count() const { return size / width(); }

  /// Flat coordinate of chunk `index`: 0 in the contiguous leaf.
  SmallVector<int64_t> coordinate(int64_t index) const {
    SmallVector<int64_t> result;
    for (auto [i, extent] : llvm::enumerate(extents)) {
      if (static_cast<int>(i) == contiguous) {
        result.push_back(0);
        continue;
      }
      result.push_back(index % extent);
      index /= extent;
    }
    return result;
  }
};

} // namespace

static std::optional<Chunks> chunksOf(LayoutAttr layout) {
  Chunks chunks;
  int numContiguous = 0, position = 0;
  bool isStatic = true;
  layout.getShape().walkLeaves([&](IntTupleAttr leaf) {
    IntAttr extent = leaf.extractIntFromLeaf();
    isStatic &= leaf.isLeafInt() && extent.isStatic() && extent.getValue() > 0;
    chunks.extents.push_back(extent.getValue());
    chunks.size *= extent.getValue();
  });
  layout.getStride().walkLeaves([&](IntTupleAttr leaf) {
    // The stride of a leaf with one element moves nothing.
    bool moves = static_cast<size_t>(position) < chunks.extents.size() &&
                 chunks.extents[position] != 1;
    if (moves && leaf.isLeafStaticValue(1)) {
      ++numContiguous;
      chunks.contiguous = position;
    }
    ++position;
  });
  if (!isStatic || position != static_cast<int>(chunks.extents.size()))
    return std::nullopt;
  if (numContiguous > 1) // leaves that walk over the same elements: one by one
    chunks.contiguous = -1;
  return chunks;
}

// The pointer to the first element of chunk `index`.
static Value chunkPointer(PatternRewriter &rewriter, Location loc, Value tensor,
                          const Chunks &chunks, int64_t index) {
  Value ptr = make<GetIterOp>(rewriter, loc, tensor);
  if (chunks.count() == 1)
    return ptr;
  Value layout = make<GetLayoutOp>(rewriter, loc, tensor);
  if (!isReadable(layout)) {
    auto view = tensor.getDefiningOp<MakeViewOp>();
    if (!view || !isReadable(view.getLayout()))
      return {};
    layout = view.getLayout();
  }
  Algebra alg(rewriter, loc);
  Layout nested = alg.layoutFromValue(layout);
  Layout flat{alg.flatten(nested.shape), alg.flatten(nested.stride)};
  SmallVector<int64_t> coordinate = chunks.coordinate(index);
  Tuple coord(static_cast<int32_t>(coordinate.front()));
  if (!flat.shape.isLeaf) {
    std::vector<Tuple> kids;
    for (int64_t c : coordinate)
      kids.push_back(Tuple(static_cast<int32_t>(c)));
    coord = Tuple(std::move(kids));
  }
  Value offset = alg.toValue(alg.crd2idx(coord, flat));
  return offset ? make<AddOffsetOp>(rewriter, loc, {ptr, offset}) : Value();
}

// Between chunk order and colexicographic order. In row-major terms, colexicographic order has the
// dimensions reversed; chunk order has the contiguous one last.
static Value reorder(PatternRewriter &rewriter, Location loc, Value vec, const Chunks &chunks,
                     bool toColex) {
  if (chunks.contiguous <= 0)
    return vec;
  int64_t before = 1, after = 1, width = chunks.width();
  for (auto [i, extent] : llvm::enumerate(chunks.extents)) {
    if (static_cast<int>(i) < chunks.contiguous)
      before *= extent;
    else if (static_cast<int>(i) > chunks.contiguous)
      after *= extent;
  }
  auto flatType = cast<VectorType>(vec.getType());
  Type elem = flatType.getElementType();
  // chunk order: [after][before][width]; colexicographic: [after][width][before].
  SmallVector<int64_t> shape, permutation;
  if (after != 1)
    shape.push_back(after);
  shape.push_back(toColex ? before : width);
  shape.push_back(toColex ? width : before);
  if (after != 1)
    permutation = {0, 2, 1};
  else
    permutation = {1, 0};
  Value cube = vector::ShapeCastOp::create(rewriter, loc, VectorType::get(shape, elem), vec);
  cube = vector::TransposeOp::create(rewriter, loc, cube, permutation);
  return vector::ShapeCastOp::create(rewriter, loc, flatType, cube);
}

namespace {

/// A run of lanes of a vector.
struct Run {
  int64_t begin, size;
};

} // namespace

// The run of lanes of `vec` that is all that the operation returns, if it is so.
static std::optional<Run> runOf(Operation *user, Value vec) {
  if (auto extract = dyn_cast<vector::ExtractOp>(user))
    return extract.hasDynamicPosition() || extract.getNumIndices() != 1
               ? std::nullopt
               : std::optional<Run>({extract.getStaticPosition()[0], 1});
  auto shuffle = dyn_cast<vector::ShuffleOp>(user);
  if (!shuffle || shuffle.getV1() != vec)
    return std::nullopt;
  ArrayRef<int64_t> mask = shuffle.getMask();
  int64_t begin = mask.front(), size = mask.size();
  if (begin < 0 || begin + size > cast<VectorType>(vec.getType()).getNumElements() ||
      !llvm::equal(mask, llvm::seq(begin, begin + size)))
    return std::nullopt;
  return Run{begin, size};
}

// Users that take a run of lanes of one chunk take it from that chunk. Who reads a few lanes of a whole
// accumulator at a time would put it together as often.
static LogicalResult takeRuns(MemRefLoadVecOp op, int64_t width,
                              function_ref<Value(int64_t)> partOf, PatternRewriter &rewriter) {
  // A shuffle of the vector with itself uses it twice; uses are listed last to first.
  llvm::SmallSetVector<Operation *, 8> users(llvm::from_range, op->getUsers());
  for (Operation *user : llvm::reverse(users)) {
    std::optional<Run> run = runOf(user, op.getResult());
    if (!run || run->begin / width != (run->begin + run->size - 1) / width)
      continue;
    Value part = partOf(run->begin / width);
    if (!part)
      return failure();
    int64_t begin = run->begin % width;
    if (isa<vector::ExtractOp>(user))
      part = vector::ExtractOp::create(rewriter, user->getLoc(), part, ArrayRef<int64_t>{begin});
    else if (run->size != width)
      part = vector::ExtractStridedSliceOp::create(
          rewriter, user->getLoc(), part, ArrayRef<int64_t>{begin}, ArrayRef<int64_t>{run->size},
          ArrayRef<int64_t>{1});
    rewriter.replaceOp(user, part);
  }
  return success();
}

static LogicalResult lowerLoadVec(MemRefLoadVecOp op, PatternRewriter &rewriter) {
  auto type = dyn_cast<fly::MemRefType>(op.getMemref().getType());
  auto layout = type ? dyn_cast<LayoutAttr>(type.getLayout()) : LayoutAttr();
  std::optional<Chunks> chunks = layout ? chunksOf(layout) : std::nullopt;
  if (!chunks)
    return failure();
  Location loc = op.getLoc();
  auto resultType = cast<VectorType>(op.getType());
  if (chunks->count() == 1 && chunks->contiguous >= 0 && chunks->extents.size() == 1) {
    Value ptr = make<GetIterOp>(rewriter, loc, op.getMemref());
    rewriter.replaceOpWithNewOp<PtrLoadOp>(op, resultType, ptr);
    return success();
  }
  // All chunks may not be needed; each is loaded where the vector was.
  Type elem = resultType.getElementType();
  Type partType = chunks->contiguous < 0 ? elem : VectorType::get({chunks->width()}, elem);
  SmallVector<Value> parts(chunks->count());
  auto partOf = [&](int64_t i) {
    if (!parts[i])
      if (Value ptr = chunkPointer(rewriter, loc, op.getMemref(), *chunks, i))
        parts[i] = PtrLoadOp::create(rewriter, loc, partType, ptr);
    return parts[i];
  };
  if (chunks->contiguous == 0 && failed(takeRuns(op, chunks->width(), partOf, rewriter)))
    return failure();
  if (op->use_empty()) {
    rewriter.eraseOp(op);
    return success();
  }
  Value result = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(resultType));
  for (int64_t i = 0; i < chunks->count(); ++i) {
    Value part = partOf(i);
    if (!part)
      return failure();
    if (chunks->contiguous < 0)
      result = vector::InsertOp::create(rewriter, loc, part, result, ArrayRef<int64_t>{i});
    else
      result = vector::InsertStridedSliceOp::create(rewriter, loc, part, result,
                                                    ArrayRef<int64_t>{i * chunks->width()},
                                                    ArrayRef<int64_t>{1});
  }
  rewriter.replaceOp(op, reorder(rewriter, loc, result, *chunks, /*toColex=*/true));
  return success();
}

static LogicalResult lowerStoreVec(MemRefStoreVecOp op, PatternRewriter &rewriter) {
  auto type = cast<fly::MemRefType>(op.getMemref().getType());
  auto layout = dyn_cast<LayoutAttr>(type.getLayout());
  std::optional<Chunks> chunks = layout ? chunksOf(layout) : std::nullopt;
  auto vecType = dyn_cast<VectorType>(op.getVector().getType());
  if (!chunks || !vecType || vecType.getRank() != 1 || vecType.getNumElements() != chunks->size)
    return failure();
  Location loc = op.getLoc();
  if (chunks->contiguous >= 0 && chunks->extents.size() == 1) {
    Value ptr = make<GetIterOp>(rewriter, loc, op.getMemref());
    rewriter.replaceOpWithNewOp<PtrStoreOp>(op, op.getVector(), ptr);
    return success();
  }
  Value vec = reorder(rewriter, loc, op.getVector(), *chunks, /*toColex=*/false);
  for (int64_t i = 0; i < chunks->count(); ++i) {
    Value ptr = chunkPointer(rewriter, loc, op.getMemref(), *chunks, i), part;
    if (!ptr)
      return failure();
    if (chunks->contiguous < 0)
      part = vector::ExtractOp::create(rewriter, loc, vec, ArrayRef<int64_t>{i});
    else
      part = vector::ExtractStridedSliceOp::create(
          rewriter, loc, vec, ArrayRef<int64_t>{i * chunks->width()},
          ArrayRef<int64_t>{chunks->width()}, ArrayRef<int64_t>{1});
    PtrStoreOp::create(rewriter, loc, part, ptr);
  }
  rewriter.eraseOp(op);
  return success();
}

// Coordinates are computed one by one.
static LogicalResult loadCoordinates(MemRefLoadVecOp op, PatternRewriter &rewriter) {
  auto view = op.getMemref().getDefiningOp<MakeViewOp>();
  if (!isa<CoordTensorType>(op.getMemref().getType()) || !view ||
      !isReadable(view.getLayout()) || !isReadable(view.getIter()))
    return failure();
  Location loc = op.getLoc();
  auto type = cast<VectorType>(op.getType());
  int32_t width = type.getElementTypeBitWidth();
  Algebra alg(rewriter, loc);
  Layout layout = alg.layoutFromValue(view.getLayout());
  Tuple base = alg.fromValue(view.getIter());
  Value result = arith::ConstantOp::create(rewriter, loc, rewriter.getZeroAttr(type));
  for (int64_t i = 0; i < type.getNumElements(); ++i) {
    Tuple index = alg.coordAdd(base, alg.crd2idx(Tuple(static_cast<int32_t>(i)), layout));
    if (alg.failed() || !index.isInt())
      return failure();
    Value element = alg.materialize(index.num, width);
    if (element.getType().getIntOrFloatBitWidth() > static_cast<unsigned>(width))
      element = arith::TruncIOp::create(rewriter, loc, type.getElementType(), element);
    result = vector::InsertOp::create(rewriter, loc, element, result, ArrayRef<int64_t>{i});
  }
  rewriter.replaceOp(op, result);
  return success();
}

// True (and noted) if the tensor has too many elements to access them one chunk at a time.
static bool isTooLarge(Operation *op, Value tensor, Reasons &reasons) {
  Algebra alg(op->getContext());
  Int size = alg.size(alg.fromAttr(getLinearLayout(tensor.getType())));
  if (alg.failed() || !size.isStatic || size.value <= kMaxUnrolled)
    return false;
  reasons[op] = ("tensor has " + Twine(size.value) + " elements, at most " + Twine(kMaxUnrolled) +
                 " are supported")
                    .str();
  return true;
}

template <typename OpT>
static void addBounded(RewritePatternSet &patterns, Reasons &reasons,
                       LogicalResult (*lower)(OpT, PatternRewriter &)) {
  addPattern<OpT>(patterns, [lower, &reasons](OpT op, PatternRewriter &rewriter) -> LogicalResult {
    return isTooLarge(op, op.getMemref(), reasons) ? failure() : lower(op, rewriter);
  });
}

void lowering::populateVectorAccess(RewritePatternSet &patterns, Reasons &reasons) {
  addBounded<MemRefLoadVecOp>(patterns, reasons, lowerLoadVec);
  addBounded<MemRefLoadVecOp>(patterns, reasons, loadCoordinates);
  addBounded<MemRefStoreVecOp>(patterns, reasons, lowerStoreVec);
}
