//===- ExpandOps.cpp - the pass fly-rocdl-expand-ops ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "../IR/TiledTdm.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"
#include "fly_rocdl/Passes.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_FLYROCDLEXPANDOPSPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;
using namespace mlir::fly_rocdl;

static constexpr StringLiteral kBoundaryCheck = "boundary_check";
static constexpr StringLiteral kBoundaryCheckAxes = "boundary_check_axes";

namespace {

/// Reads extents and strides of a tensor as integers of a fixed width.
class TensorReader {
public:
  TensorReader(OpBuilder &b, Location loc, Value tensor) : b(b), loc(loc) {
    Value layout = fly::GetLayoutOp::create(b, loc, tensor);
    shape = fly::GetShapeOp::create(b, loc, layout);
    stride = fly::GetStrideOp::create(b, loc, layout);
  }
  /// Extent or stride of `mode`, times `factor`.
  Value getExtent(int32_t mode, int32_t factor) { return read(shape, mode, factor, 32); }
  Value getStride(int32_t mode, int32_t factor) { return read(stride, mode, factor, 64); }

private:
  Value read(Value tuple, int32_t mode, int32_t factor, unsigned width) {
    fly::IntTupleAttr all = cast<fly::IntTupleType>(tuple.getType()).getAttr(), attr = all.at(mode);
    Type type = b.getIntegerType(width);
    fly::IntAttr number = attr.extractIntFromLeaf();
    if (number.isStatic())
      return arith::ConstantOp::create(
          b, loc, IntegerAttr::get(type, int64_t(number.getValue()) * factor));
    Value leaf = all.isLeaf() ? tuple
                              : fly::GetOp::create(b, loc, tuple, b.getDenseI32ArrayAttr({mode}));
    Value value = fly::GetScalarOp::create(b, loc, leaf);
    unsigned old = value.getType().getIntOrFloatBitWidth();
    if (old < width)
      value = arith::ExtSIOp::create(b, loc, type, value);
    else if (old > width)
      value = arith::TruncIOp::create(b, loc, type, value);
    if (factor == 1)
      return value;
    Value constant = arith::ConstantOp::create(b, loc, IntegerAttr::get(type, factor));
    return arith::MulIOp::create(b, loc, value, constant);
  }

  OpBuilder &b;
  Location loc;
  Value shape, stride;
};

} // namespace

/// A static int tuple value.
static Value makeTuple(OpBuilder &b, Location loc, ArrayRef<int32_t> values) {
  SmallVector<fly::IntTupleAttr> leaves;
  for (int32_t value : values)
    leaves.push_back(fly::IntTupleAttr::getStatic(b.getContext(), value));
  auto type = fly::IntTupleType::get(fly::IntTupleAttr::getTuple(b.getContext(), leaves));
  return fly::MakeIntTupleOp::create(b, loc, type, ValueRange());
}

static Value setField(OpBuilder &b, Location loc, Value atom, StringRef field, Value value) {
  return fly::AtomSetValueOp::create(b, loc, atom.getType(), atom, b.getStringAttr(field), value);
}

template <typename OpT>
static LogicalResult expandTiledTdm(OpT op, bool isLoad) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value tensor = op.getTensor();
  auto tensorTy = cast<fly::MemRefType>(tensor.getType());
  TiledTdm tdm = deriveTiledTdm(tensorTy, op.getSmemLayout().getType().getAttr(),
                                op.getTile().getType().getAttr(),
                                getTiledTdmOptions(op.getNumWarpsAttr(), op.getCacheModifierAttr(),
                                                   op.getAtomicBarrierAttr(), isLoad));
  if (!tdm.error.empty())
    return op.emitOpError(tdm.error);
  TensorReader reader(b, loc, tensor);
  SmallVector<Value> operands{fly::GetIterOp::create(b, loc, tensor)};
  for (const TiledTdmAxis &axis : llvm::reverse(ArrayRef(tdm.axes).drop_front()))
    operands.push_back(reader.getStride(axis.runs.front().mode, axis.runs.front().modeStride));
  for (const TiledTdmAxis &axis : llvm::reverse(tdm.axes)) {
    // Inner runs are covered by the tile, so only the outermost one may end early.
    const TiledTdmRun &outer = axis.runs.back();
    int32_t inner = 1;
    for (const TiledTdmRun &run : ArrayRef(axis.runs).drop_back())
      inner *= run.extent;
    operands.push_back(outer.modeStride == 1
                           ? reader.getExtent(outer.mode, inner)
                           : arith::ConstantIntOp::create(b, loc, axis.extent, 32).getResult());
  }
  if (tdm.iterCount > 1) // more than one for each warp
    operands.push_back(reader.getStride(tdm.iteration->mode, tdm.iteration->modeStride));
  auto atomTy = cast<fly::CopyAtomType>(op.getAtom().getType());
  Value atom = fly::MakeCopyAtomOp::create(b, loc, atomTy, operands, atomTy.getValBits());
  SmallVector<int32_t> checks(tdm.axes.size(), op.getInitBoundaryCheck());
  atom = setField(b, loc, atom, kBoundaryCheckAxes, makeTuple(b, loc, checks));
  auto coordTy = cast<fly::CoordTensorType>(op.getCoord().getType());
  Value base = makeTuple(b, loc, SmallVector<int32_t>(tdm.axes.size(), 0));
  Value layout;
  auto layoutAttr = cast<fly::LayoutAttr>(coordTy.getLayout());
  if (layoutAttr.isStatic()) {
    layout = fly::LayoutType::get(layoutAttr).rebuildStaticValue(b, loc, Value());
  } else {
    Value shape = fly::GetShapeOp::create(b, loc, tensor);
    auto strideTy = fly::IntTupleType::get(layoutAttr.getStride());
    Value stride = fly::MakeIntTupleOp::create(b, loc, strideTy, ValueRange());
    layout = fly::MakeLayoutOp::create(b, loc, shape, stride);
  }
  Value coord = fly::MakeViewOp::create(b, loc, base, layout);
  op.getAtom().replaceAllUsesWith(atom);
  op.getCoord().replaceAllUsesWith(coord);
  op.erase();
  return success();
}

/// The tensor2tdm of an atom of a tiled tensor copy; null for any other.
static fly::IntTupleAttr getTensor2Tdm(Type atom, int32_t &rank) {
  auto copy = dyn_cast<fly::CopyAtomType>(atom);
  if (auto load = copy ? dyn_cast<CopyOpCDNA5TensorLoadType>(copy.getCopyOp())
                       : CopyOpCDNA5TensorLoadType()) {
    rank = load.getShape().size();
    return load.getTensor2tdm();
  }
  if (auto store = copy ? dyn_cast<CopyOpCDNA5TensorStoreType>(copy.getCopyOp())
                        : CopyOpCDNA5TensorStoreType()) {
    rank = store.getShape().size();
    return store.getTensor2tdm();
  }
  return {};
}

/// An axis is checked if any mode of the tensor that lies on it is.
static LogicalResult translateBoundaryCheck(fly::AtomSetValueOp op) {
  int32_t rank = 0;
  fly::IntTupleAttr tensor2tdm = getTensor2Tdm(op.getAtom().getType(), rank);
  if (!tensor2tdm || op.getField() != kBoundaryCheck)
    return success();
  auto type = dyn_cast<fly::IntTupleType>(op.getValue().getType());
  SmallVector<int32_t> axes;
  tensor2tdm.walkLeaves([&](fly::IntTupleAttr leaf) {
    axes.push_back(cast<fly::BasisAttr>(leaf.getValue()).getModes().front());
  });
  SmallVector<fly::IntTupleAttr> flags;
  if (type)
    type.getAttr().walkLeaves([&](fly::IntTupleAttr leaf) { flags.push_back(leaf); });
  if (flags.size() != axes.size())
    return op.emitOpError() << "'boundary_check' needs one leaf for each of the " << axes.size()
                            << " modes of the tensor, got " << op.getValue().getType();
  OpBuilder b(op);
  Location loc = op.getLoc();
  auto leaves = fly::GetLeavesOp::create(
      b, loc, SmallVector<Type>(llvm::map_range(flags, [&](fly::IntTupleAttr leaf) -> Type {
        return b.getIntegerType(std::max(32, leaf.extractIntFromLeaf().getWidth()));
      })),
      op.getValue(), b.getBoolAttr(false));
  SmallVector<Value> checks(rank);
  for (auto [axis, leaf] : llvm::zip(axes, leaves.getResults())) {
    Value flag = leaf;
    if (flag.getType().getIntOrFloatBitWidth() > 32)
      flag = arith::TruncIOp::create(b, loc, b.getI32Type(), flag);
    checks[axis] = checks[axis] ? arith::OrIOp::create(b, loc, checks[axis], flag).getResult()
                                : flag;
  }
  SmallVector<fly::IntTupleAttr> dynamic(
      rank, fly::IntTupleAttr::get(fly::IntAttr::getDynamic(b.getContext())));
  for (Value &check : checks)
    if (!check)
      check = arith::ConstantIntOp::create(b, loc, 0, 32);
  auto tupleTy = fly::IntTupleType::get(fly::IntTupleAttr::getTuple(b.getContext(), dynamic));
  Value tuple = fly::MakeIntTupleOp::create(b, loc, tupleTy, checks);
  op.replaceAllUsesWith(setField(b, loc, op.getAtom(), kBoundaryCheckAxes, tuple));
  op.erase();
  return success();
}

namespace {

struct FlyROCDLExpandOps : fly_rocdl::impl::FlyROCDLExpandOpsPassBase<FlyROCDLExpandOps> {
  void runOnOperation() override {
    WalkResult result = getOperation()->walk([](Operation *op) -> WalkResult {
      if (auto load = dyn_cast<MakeTiledTdmLoadAtomOp>(op))
        return expandTiledTdm(load, /*isLoad=*/true);
      if (auto store = dyn_cast<MakeTiledTdmStoreAtomOp>(op))
        return expandTiledTdm(store, /*isLoad=*/false);
      if (auto set = dyn_cast<fly::AtomSetValueOp>(op))
        return translateBoundaryCheck(set);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
