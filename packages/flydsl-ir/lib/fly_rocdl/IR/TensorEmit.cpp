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

/// Elements of LDS between iterations: the largest stride of the LDS layout.
static FailureOr<int32_t> getLdsStep(Location loc, fly::MemRefType lds, int32_t iterCount) {
  int32_t step = 0, extent = 0;
  SmallVector<int32_t> extents, strides;
  auto collect = [](fly::IntTupleAttr tuple, SmallVectorImpl<int32_t> &out) {
    tuple.walkLeaves([&](fly::IntTupleAttr leaf) {
      fly::IntAttr number = leaf.extractIntFromLeaf();
      out.push_back(number.isStatic() ? number.getValue() : -1);
    });
  };
  if (fly::LayoutAttr linear = lds.getLinearLayout()) {
    collect(linear.getShape(), extents);
    collect(linear.getStride(), strides);
  }
  for (auto [size, stride] : llvm::zip(extents, strides))
    if (stride > step && size != 1) {
      step = stride;
      extent = size;
    }
  if (extent != iterCount)
    return emitError(loc) << "a tensor copy of " << iterCount
                          << " iterations needs them as the mode of the largest stride, got "
                          << lds;
  return step;
}

static LogicalResult emitTensorCopy(OpBuilder &b, Location loc, const TensorCopy &copy, Value atom,
                                    Value coordTensor, fly::MemRefType ldsTy, Value lds) {
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
  if (copy.iterCount > 1) {
    FailureOr<int32_t> step = getLdsStep(loc, ldsTy, copy.iterCount);
    if (failed(step))
      return failure();
    d.iterations = copy.iterCount;
    d.ldsStep = *step;
    d.globalStep = field(layout.iterationStride);
  }
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
  return emitTdm(b, loc, d);
}

static LogicalResult emitCall(OpBuilder &builder, Location loc, Type op, Type srcTy, Type dstTy,
                              Value atom, Value src, Value dst, Value pred) {
  TensorCopy copy = TensorCopy::get(op);
  Type coordTy = copy.isLoad ? srcTy : dstTy;
  auto ldsTy = dyn_cast_or_null<fly::MemRefType>(copy.isLoad ? dstTy : srcTy);
  if (!isa_and_nonnull<fly::CoordTensorType>(coordTy) || !ldsTy ||
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
    return emitTensorCopy(b, loc, copy, atom, copy.isLoad ? src : dst, ldsTy,
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
