//===- TensorTypes.cpp - tiled tensor copies: rules, layouts, state -------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"
#include "Layouts.h"
#include "Tdm.h"
#include "TensorCopy.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

using EmitError = function_ref<InFlightDiagnostic()>;

//===------------------------------------------------------------------------===//
// Rules
//===------------------------------------------------------------------------===//

static LogicalResult verifyTile(EmitError emitError, ArrayRef<int32_t> shape, Type elemTy,
                                fly::IntTupleAttr tensor2tdm, int32_t cacheModifier,
                                int32_t iterCount) {
  int32_t rank = shape.size();
  if (rank < 1 || rank > kTdmMaxRank)
    return emitError() << "shape must have 1 to 5 axes, got " << rank;
  for (int32_t extent : shape)
    if (extent < 1 || extent > 0xFFFF)
      return emitError() << "extents of shape must be in 1..65535, got " << extent;
  unsigned bits = fly::getElementBitWidth(elemTy);
  if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
    return emitError() << "elem must have 8, 16, 32 or 64 bits, got " << elemTy;
  if (cacheModifier < 0)
    return emitError() << "cacheModifier must not be negative, got " << cacheModifier;
  if (iterCount < 1 || iterCount > 256)
    return emitError() << "iterCount must be in 1..256, got " << iterCount;
  if (iterCount > 1 && rank > 2)
    return emitError() << "iterCount needs a shape of at most 2 axes, got " << rank;
  bool valid = true;
  tensor2tdm.walkLeaves([&](fly::IntTupleAttr leaf) {
    auto basis = dyn_cast<fly::BasisAttr>(leaf.getValue());
    valid &= basis && basis.isStatic() && basis.getModes().size() == 1 &&
             basis.getModes().front() < rank;
  });
  if (!valid)
    return emitError() << "tensor2tdm must consist of static basis leaves of the axes E0..E"
                       << rank - 1;
  return success();
}

LogicalResult CopyOpCDNA5TensorLoadType::verify(EmitError emitError, ArrayRef<int32_t> shape,
                                                Type elemTy, fly::IntTupleAttr tensor2tdm, bool,
                                                int32_t cacheModifier, int32_t iterCount,
                                                int32_t padInterval, int32_t padAmount) {
  if (failed(verifyTile(emitError, shape, elemTy, tensor2tdm, cacheModifier, iterCount)))
    return failure();
  if (padInterval < 0 || padAmount < 0)
    return emitError() << "padInterval and padAmount must not be negative, got " << padInterval
                       << " and " << padAmount;
  if ((padInterval == 0) != (padAmount == 0))
    return emitError() << "padInterval and padAmount must both be zero or both non-zero, got "
                       << padInterval << " and " << padAmount;
  if (padInterval && !llvm::isPowerOf2_32(padInterval))
    return emitError() << "padInterval must be a power of two (in elements), got " << padInterval;
  return success();
}

LogicalResult CopyOpCDNA5TensorStoreType::verify(EmitError emitError, ArrayRef<int32_t> shape,
                                                 Type elemTy, fly::IntTupleAttr tensor2tdm, bool,
                                                 int32_t cacheModifier, int32_t iterCount) {
  return verifyTile(emitError, shape, elemTy, tensor2tdm, cacheModifier, iterCount);
}

TensorCopy TensorCopy::get(Type op) {
  TensorCopy copy;
  auto fill = [&](auto type) {
    copy.shape.assign(type.getShape().begin(), type.getShape().end());
    copy.elemTy = type.getElemTy();
    copy.atomicBarrier = type.getAtomicBarrier();
    copy.cacheModifier = type.getCacheModifier();
    copy.iterCount = type.getIterCount();
  };
  if (auto load = dyn_cast<CopyOpCDNA5TensorLoadType>(op)) {
    fill(load);
    copy.isLoad = true;
    copy.padInterval = load.getPadInterval();
    copy.padAmount = load.getPadAmount();
  } else {
    fill(cast<CopyOpCDNA5TensorStoreType>(op));
  }
  return copy;
}

//===------------------------------------------------------------------------===//
// Layouts
//===------------------------------------------------------------------------===//

// One call moves the whole share of a wave.
static Attribute getBitLayout(MLIRContext *ctx, Type op) {
  TensorCopy copy = TensorCopy::get(op);
  int64_t bits = int64_t(copy.iterCount) * fly::getElementBitWidth(copy.elemTy);
  for (int32_t extent : copy.shape)
    bits *= extent;
  return makeLayout(ctx, {1, static_cast<int32_t>(std::min<int64_t>(bits, INT32_MAX))}, {1, 1});
}

//===------------------------------------------------------------------------===//
// State
//===------------------------------------------------------------------------===//

// Fields: [workgroup_mask, early_timeout,] barrier, base, 4 strides, 5 extents, 5 checks, iteration
// stride. Axes are those of the descriptor, innermost first; the innermost has no stride.
TensorStateLayout::TensorStateLayout(bool isLoad)
    : workgroupMask(isLoad ? 0 : -1), earlyTimeout(isLoad ? 1 : -1), barrier(isLoad ? 2 : 0),
      base(barrier + 1), stride(base + 1), extent(stride + kTdmMaxRank - 1),
      check(extent + kTdmMaxRank), iterationStride(check + kTdmMaxRank) {}

Type TensorStateLayout::getType(MLIRContext *ctx) const {
  Type i1 = IntegerType::get(ctx, 1), i32 = IntegerType::get(ctx, 32);
  Type i64 = IntegerType::get(ctx, 64);
  SmallVector<Type> types;
  if (workgroupMask >= 0)
    types.append(2, i32);
  types.push_back(LLVM::LLVMPointerType::get(ctx, 3));
  types.push_back(LLVM::LLVMPointerType::get(ctx, 1));
  types.append(kTdmMaxRank - 1, i64);
  types.append(kTdmMaxRank, i32);
  types.append(kTdmMaxRank, i1);
  types.push_back(i64);
  return LLVM::LLVMStructType::getLiteral(ctx, types);
}

static Value insertField(OpBuilder &b, Location loc, Value state, Value value, int64_t index) {
  return LLVM::InsertValueOp::create(b, loc, state, value, ArrayRef<int64_t>{index});
}

Value TensorStateLayout::getDefault(OpBuilder &b, Location loc) const {
  auto type = cast<LLVM::LLVMStructType>(getType(b.getContext()));
  Value state = LLVM::UndefOp::create(b, loc, type);
  for (auto [index, field] : llvm::enumerate(type.getBody())) {
    Value zero = isa<LLVM::LLVMPointerType>(field)
                     ? LLVM::ZeroOp::create(b, loc, field).getResult()
                     : LLVM::ConstantOp::create(b, loc, field, b.getIntegerAttr(field, 0))
                           .getResult();
    state = insertField(b, loc, state, zero, index);
  }
  return state;
}

/// The flags of an int tuple of 0/1 leaves, as i1 values.
static FailureOr<SmallVector<Value>> getFlags(OpBuilder &b, Location loc, Value tuple) {
  auto type = cast<fly::IntTupleType>(tuple.getType());
  auto maker = tuple.getDefiningOp<fly::MakeIntTupleOp>();
  if (!type.isStatic() && !maker)
    return emitError(loc) << "the flags of 'boundary_check_axes' are not in normal form";
  SmallVector<Value> flags;
  size_t next = 0;
  type.getAttr().walkLeaves([&](fly::IntTupleAttr leaf) {
    fly::IntAttr number = leaf.extractIntFromLeaf();
    if (number.isStatic()) {
      flags.push_back(arith::ConstantIntOp::create(b, loc, number.getValue() != 0, 1));
      return;
    }
    Value value = maker.getDyncElems()[next++];
    Value zero = arith::ConstantOp::create(b, loc, b.getIntegerAttr(value.getType(), 0));
    flags.push_back(arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, zero));
  });
  return flags;
}

static Value setState(OpBuilder &b, Location loc, Type op, Value state, Attribute field,
                      Value value) {
  TensorCopy copy = TensorCopy::get(op);
  TensorStateLayout layout(copy.isLoad);
  auto name = dyn_cast_or_null<StringAttr>(field);
  int32_t rank = copy.shape.size();
  if (name == "boundary_check_axes" && isa<fly::IntTupleType>(value.getType())) {
    FailureOr<SmallVector<Value>> flags = getFlags(b, loc, value);
    if (failed(flags))
      return {};
    if (static_cast<int32_t>(flags->size()) != rank) {
      emitError(loc) << "'boundary_check_axes' needs one leaf for each of the " << rank
                     << " axes, got " << value.getType();
      return {};
    }
    for (int32_t axis = 0; axis < rank; ++axis) // leaves are outermost first
      state = insertField(b, loc, state, (*flags)[axis], layout.check + rank - 1 - axis);
    return state;
  }
  int32_t index = name == "atomic_barrier_addr" ? layout.barrier
                  : name == "workgroup_mask"    ? layout.workgroupMask
                  : name == "early_timeout"     ? layout.earlyTimeout
                                                : -1;
  if (index < 0) {
    emitError(loc) << "this atom has no state field " << field << "; it has "
                   << (copy.isLoad ? "'workgroup_mask', 'early_timeout', " : "")
                   << "'atomic_barrier_addr', 'boundary_check_axes'";
    return {};
  }
  Type wanted = cast<LLVM::LLVMStructType>(state.getType()).getBody()[index];
  if (value.getType() != wanted) {
    emitError(loc) << "state field " << field << " takes a value of type " << wanted << ", got "
                   << value.getType();
    return {};
  }
  return insertField(b, loc, state, value, index);
}

FailureOr<Value> fly_rocdl::buildTensorState(OpBuilder &b, Location loc, Type op,
                                             ValueRange operands) {
  TensorCopy copy = TensorCopy::get(op);
  TensorStateLayout layout(copy.isLoad);
  int32_t rank = copy.shape.size();
  size_t count = 2 * rank + (copy.iterCount > 1);
  auto fields = cast<LLVM::LLVMStructType>(layout.getType(b.getContext())).getBody();
  // base; strides but the innermost; extents; iteration stride. Axes are outermost first.
  SmallVector<int32_t> places{layout.base};
  for (int32_t axis = rank - 1; axis > 0; --axis)
    places.push_back(layout.stride + axis - 1);
  for (int32_t axis = rank - 1; axis >= 0; --axis)
    places.push_back(layout.extent + axis);
  if (copy.iterCount > 1)
    places.push_back(layout.iterationStride);
  if (operands.size() != count)
    return emitError(loc) << "an atom of " << op << " is made from " << count
                          << " operands: the address, " << rank - 1 << " strides, " << rank
                          << " extents" << (copy.iterCount > 1 ? ", the iteration stride" : "")
                          << "; got " << operands.size();
  Value state = layout.getDefault(b, loc);
  for (auto [place, operand] : llvm::zip(places, operands)) {
    if (operand.getType() != fields[place])
      return emitError(loc) << "operand of an atom of " << op << " must have type "
                            << fields[place] << ", got " << operand.getType();
    state = insertField(b, loc, state, operand, place);
  }
  return state;
}

//===------------------------------------------------------------------------===//
// Interface methods
//===------------------------------------------------------------------------===//

#define FLY_ROCDL_TENSOR_COPY(TYPE)                                                                \
  bool TYPE::isStatic() const { return false; }                                                    \
  Value TYPE::rebuildStaticValue(OpBuilder &, Location, Value) const { return {}; }                \
  Attribute TYPE::getThrLayout() const { return makeThrLayout(getContext(), 1); }                  \
  Attribute TYPE::getThrBitLayoutSrc() const { return getBitLayout(getContext(), *this); }         \
  Attribute TYPE::getThrBitLayoutDst() const { return getThrBitLayoutSrc(); }                      \
  Attribute TYPE::getThrBitLayoutRef() const { return getThrBitLayoutSrc(); }                      \
  Type TYPE::getConvertedType(MLIRContext *ctx) const {                                            \
    return TensorStateLayout(TensorCopy::get(*this).isLoad).getType(ctx);                          \
  }                                                                                                \
  Value TYPE::getDefaultState(OpBuilder &builder, Location loc) const {                            \
    return TensorStateLayout(TensorCopy::get(*this).isLoad).getDefault(builder, loc);              \
  }                                                                                                \
  Value TYPE::setAtomState(OpBuilder &builder, Location loc, Value state, Attribute field,         \
                           Value value) const {                                                    \
    return setState(builder, loc, *this, state, field, value);                                     \
  }

FLY_ROCDL_TENSOR_COPY(CopyOpCDNA5TensorLoadType)
FLY_ROCDL_TENSOR_COPY(CopyOpCDNA5TensorStoreType)
#undef FLY_ROCDL_TENSOR_COPY
