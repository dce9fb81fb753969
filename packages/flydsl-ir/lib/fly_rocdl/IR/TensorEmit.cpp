//===- TensorEmit.cpp - tiled tensor copies by the tensor data mover ------===//
//
// The global side is a coordinate: address = base + element size * sum of coordinate * stride.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"
#include "Tdm.h"
#include "TensorCopy.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

bool TensorCopy::isTensorCopy(Type op) {
  return isa_and_nonnull<CopyOpCDNA5TensorLoadType, CopyOpCDNA5TensorStoreType>(op);
}

/// The coordinates of the tile, one for each axis (outermost first), as i32 or i64.
static FailureOr<SmallVector<Value>> getCoordinates(OpBuilder &b, Location loc, Value tensor,
                                                    size_t rank) {
  auto view = tensor.getDefiningOp<fly::MakeViewOp>();
  auto type = view ? dyn_cast<fly::IntTupleType>(view.getIter().getType()) : fly::IntTupleType();
  auto maker = view ? view.getIter().getDefiningOp<fly::MakeIntTupleOp>() : fly::MakeIntTupleOp();
  if (!type || (!maker && !type.isStatic()))
    return emitError(loc) << "the coordinates of a tensor copy are not in normal form; run "
                          << "fly-layout-lowering before";
  SmallVector<Value> coords;
  size_t next = 0;
  bool isInteger = true;
  type.getAttr().walkLeaves([&](fly::IntTupleAttr leaf) {
    isInteger &= leaf.isLeafInt();
    fly::IntAttr number = leaf.extractIntFromLeaf();
    coords.push_back(number.isStatic() ? createI32(b, loc, number.getValue())
                                       : Value(maker.getDyncElems()[next++]));
  });
  if (coords.size() != rank || !isInteger)
    return emitError(loc) << "a tensor copy of " << rank << " axes needs as many coordinates, got "
                          << type;
  return coords;
}

static Value toWidth(OpBuilder &b, Location loc, Value value, unsigned width) {
  unsigned old = value.getType().getIntOrFloatBitWidth();
  if (old < width)
    return arith::ExtSIOp::create(b, loc, b.getIntegerType(width), value);
  return old > width ? arith::TruncIOp::create(b, loc, b.getIntegerType(width), value) : value;
}

/// How an iteration goes on from the one before it.
struct IterationStep {
  int32_t lds = 0;        ///< elements of LDS
  int32_t axis = 0;       ///< of the descriptor, outermost first
  int32_t coordinate = 0; ///< along that axis
};

static SmallVector<int32_t> getLeaves(fly::IntTupleAttr tuple) {
  SmallVector<int32_t> leaves;
  tuple.walkLeaves(
      [&](fly::IntTupleAttr leaf) { leaves.push_back(leaf.extractIntFromLeaf().getValue()); });
  return leaves;
}

/// The iterations are the mode of the largest stride in LDS. Their elements are those of the same place
/// in the coordinates, which are of `rank` axes.
static FailureOr<IterationStep> getIterationStep(Location loc, fly::MemRefType lds,
                                                 fly::CoordTensorType coords, int32_t rank,
                                                 int32_t iterCount) {
  IterationStep step;
  int32_t extent = 0;
  int64_t index = 0, before = 1; // of the second iteration; of the modes so far
  if (fly::LayoutAttr linear = lds.getLinearLayout(); linear && linear.isStatic())
    for (auto [size, stride] : llvm::zip(getLeaves(linear.getShape()), getLeaves(linear.getStride()))) {
      if (stride > step.lds && size != 1) {
        step.lds = stride;
        extent = size;
        index = before;
      }
      before *= size;
    }
  if (extent != iterCount)
    return emitError(loc) << "a tensor copy of " << iterCount
                          << " iterations needs them as the mode of the largest stride, got "
                          << lds;
  auto layout = dyn_cast<fly::LayoutAttr>(coords.getLayout());
  int32_t moved = 0;
  if (layout && layout.isStatic()) {
    SmallVector<int32_t> sizes = getLeaves(layout.getShape());
    size_t next = 0;
    layout.getStride().walkLeaves([&](fly::IntTupleAttr leaf) {
      int32_t size = next < sizes.size() ? std::max(sizes[next++], 1) : 1;
      auto basis = dyn_cast<fly::BasisAttr>(leaf.getValue());
      if (int64_t along = index % size;
          along != 0 && basis && basis.depth() == 1 && basis.getModes().front() < rank) {
        step.axis = basis.getModes().front();
        step.coordinate = along * basis.getValue().getValue();
        ++moved;
      }
      index /= size;
    });
  }
  if (moved != 1)
    return emitError(loc) << "a tensor copy of " << iterCount
                          << " iterations needs coordinates in which they go along one axis, got " << coords;
  return step;
}

/// Issues the copy of a descriptor with iterations. The engine takes the bounds of the first for all of
/// them, so a tile in which the tensor ends is copied an iteration at a time.
static LogicalResult emitIterations(OpBuilder &b, Location loc, const TdmDescriptor &d, Value isChecked,
                                    IterationStep step, int32_t axis) {
  int32_t bytes = d.elemBits / 8;
  const TdmAxis &along = d.axes[axis];
  Value needed = createI32(b, loc, (d.iterations - 1) * step.coordinate + along.tile);
  Value isInside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, along.extent, needed);
  isInside = arith::SelectOp::create(b, loc, isChecked, isInside, arith::ConstantIntOp::create(b, loc, 1, 1));
  auto emitOne = [&](Value number, bool barrier) {
    TdmDescriptor one = d;
    one.iterations = 1;
    one.barrier = barrier;
    Value move = arith::MulIOp::create(b, loc, number, createI32(b, loc, step.coordinate));
    Value left = arith::SubIOp::create(b, loc, along.extent, move);
    one.axes[axis].extent = arith::MaxSIOp::create(b, loc, left, createI32(b, loc, 0));
    move = arith::MulIOp::create(b, loc, number, createI32(b, loc, step.lds * bytes));
    one.ldsAddress = arith::AddIOp::create(b, loc, d.ldsAddress, move);
    move = arith::MulIOp::create(b, loc, toWidth(b, loc, number, 64), d.globalStep);
    move = arith::MulIOp::create(b, loc, move, createI64(b, loc, bytes));
    one.globalAddress = arith::AddIOp::create(b, loc, d.globalAddress, move);
    return emitTdm(b, loc, one);
  };
  // The engine acts for a wave, whatever lanes a branch leaves: all lanes take the same one.
  Value bit = arith::ExtUIOp::create(b, loc, b.getI32Type(), isInside);
  bit = ROCDL::ReadfirstlaneOp::create(b, loc, b.getI32Type(), bit);
  isInside = arith::TruncIOp::create(b, loc, b.getI1Type(), bit);
  OpBuilder::InsertionGuard guard(b);
  auto branch = scf::IfOp::create(b, loc, isInside, /*withElseRegion=*/true);
  b.setInsertionPointToStart(branch.thenBlock());
  if (failed(emitTdm(b, loc, d)))
    return failure();
  b.setInsertionPointToStart(branch.elseBlock());
  Value last = createI32(b, loc, d.iterations - 1);
  auto loop = scf::ForOp::create(b, loc, createI32(b, loc, 0), last, createI32(b, loc, 1));
  if (failed(emitOne(last, d.barrier))) // the barrier counts one arrival
    return failure();
  b.setInsertionPointToStart(loop.getBody());
  return emitOne(loop.getInductionVar(), false);
}

static LogicalResult emitTensorCopy(OpBuilder &b, Location loc, const TensorCopy &copy, Value atom,
                                    fly::CoordTensorType coordTy, Value coordTensor,
                                    fly::MemRefType ldsTy, Value lds) {
  TensorStateLayout layout(copy.isLoad);
  auto field = [&](int64_t index) -> Value {
    return LLVM::ExtractValueOp::create(b, loc, atom, ArrayRef<int64_t>{index});
  };
  int32_t rank = copy.shape.size();
  FailureOr<SmallVector<Value>> coords = getCoordinates(b, loc, coordTensor, rank);
  if (failed(coords))
    return failure();
  TdmDescriptor d;
  d.isLoad = copy.isLoad;
  d.elemBits = fly::getElementBitWidth(copy.elemTy);
  d.cachePolicy = copy.cacheModifier;
  d.padInterval = copy.padInterval;
  d.padAmount = copy.padAmount;
  d.barrier = copy.atomicBarrier;
  if (copy.isLoad) {
    d.workgroupMask = field(layout.workgroupMask);
    d.earlyTimeout = field(layout.earlyTimeout);
  }
  if (copy.atomicBarrier)
    d.barrierAddress =
        LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), field(layout.barrier));
  Value offset;
  for (int32_t axis = 0; axis < rank; ++axis) { // innermost first
    Value coord = (*coords)[rank - 1 - axis];
    Value stride = axis > 0 ? field(layout.stride + axis - 1) : Value();
    Value step = toWidth(b, loc, coord, 64);
    if (stride)
      step = arith::MulIOp::create(b, loc, step, stride);
    offset = offset ? arith::AddIOp::create(b, loc, offset, step).getResult() : step;
    Value extent = field(layout.extent + axis);
    Value left = arith::SubIOp::create(b, loc, extent, toWidth(b, loc, coord, 32));
    left = arith::MaxSIOp::create(b, loc, left, createI32(b, loc, 0));
    left = arith::SelectOp::create(b, loc, field(layout.check + axis), left, extent);
    d.axes.push_back({left, copy.shape[rank - 1 - axis], stride});
  }
  Value bytes = arith::MulIOp::create(b, loc, offset, createI64(b, loc, d.elemBits / 8));
  Value base = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), field(layout.base));
  d.globalAddress = arith::AddIOp::create(b, loc, base, bytes);
  d.ldsAddress = LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), lds);
  if (copy.iterCount == 1)
    return emitTdm(b, loc, d);
  FailureOr<IterationStep> step = getIterationStep(loc, ldsTy, coordTy, rank, copy.iterCount);
  if (failed(step))
    return failure();
  d.iterations = copy.iterCount;
  d.ldsStep = step->lds;
  d.globalStep = field(layout.iterationStride);
  int32_t axis = rank - 1 - step->axis;
  return emitIterations(b, loc, d, field(layout.check + axis), *step, axis);
}

static LogicalResult emitCall(OpBuilder &builder, Location loc, Type op, Type srcTy, Type dstTy,
                              Value atom, Value src, Value dst, Value pred) {
  TensorCopy copy = TensorCopy::get(op);
  auto coordTy = dyn_cast_or_null<fly::CoordTensorType>(copy.isLoad ? srcTy : dstTy);
  auto ldsTy = dyn_cast_or_null<fly::MemRefType>(copy.isLoad ? dstTy : srcTy);
  if (!coordTy || !ldsTy ||
      !isGenericAddressSpace<fly::AddressSpace::Shared>(ldsTy.getAddressSpace()))
    return emitError(loc) << (copy.isLoad ? "a tensor load goes from coordinates to shared memory"
                                          : "a tensor store goes from shared memory to coordinates")
                          << ", got " << srcTy << " to " << dstTy;
  if (!ldsTy.getSwizzle().isTrivial())
    return emitError(loc) << "a tensor copy cannot apply the swizzle of " << ldsTy;
  if (fly::getElementBitWidth(ldsTy.getElemTy()) != fly::getElementBitWidth(copy.elemTy))
    return emitError(loc) << "a tensor copy of " << copy.elemTy << " cannot use the element type of "
                          << ldsTy;
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
    return emitTensorCopy(b, loc, copy, atom, coordTy, copy.isLoad ? src : dst, ldsTy,
                          copy.isLoad ? dst : src);
  });
}

#define FLY_ROCDL_EMIT_TENSOR(TYPE)                                                                \
  LogicalResult TYPE::emitAtomCall(OpBuilder &builder, Location loc, Type copyAtomTy, Type srcTy,  \
                                   Type dstTy, Type predTy, Value atomVal, Value src, Value dst,   \
                                   Value pred) const {                                             \
    return emitCall(builder, loc, *this, srcTy, dstTy, atomVal, src, dst, pred);                   \
  }                                                                                                \
  FailureOr<Value> TYPE::emitAtomCallSSA(                                                          \
      OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,    \
      Type predTy, Value atomVal, Value src, Value dst, Value pred) const {                        \
    if (resultTy)                                                                                  \
      return emitError(loc) << "a tensor copy has no result in registers";                         \
    if (failed(emitCall(builder, loc, *this, srcTy, dstTy, atomVal, src, dst, pred)))              \
      return failure();                                                                            \
    return Value();                                                                                \
  }

FLY_ROCDL_EMIT_TENSOR(CopyOpCDNA5TensorLoadType)
FLY_ROCDL_EMIT_TENSOR(CopyOpCDNA5TensorStoreType)
#undef FLY_ROCDL_EMIT_TENSOR
