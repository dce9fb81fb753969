//===- Memory.cpp - pointers, allocations, loads and stores ---------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Patterns.h"

#include "../IR/EmitUtils.h"
#include "fly/IR/Booleans.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include <numeric>

using namespace mlir;
using namespace mlir::fly_rocdl;

//===------------------------------------------------------------------------===//
// Allocation
//===------------------------------------------------------------------------===//

/// Alignment of dynamic shared memory, which `fly.get_dyn_shared` promises.
static constexpr int64_t kDynSharedAlign = 1024;

static constexpr StringLiteral kStaticPrefix = "__shared_alloc_";
static constexpr StringLiteral kDynamicPrefix = "__dynamic_shared_";

/// A global array of `bytes` bytes in shared memory, named with the first free number.
static LLVM::GlobalOp createSharedGlobal(OpBuilder &builder, Location loc, gpu::GPUModuleOp module,
                                         StringRef prefix, int64_t bytes, int64_t align) {
  std::string name;
  for (unsigned number = 0;; ++number) {
    name = (prefix + Twine(number)).str();
    if (!SymbolTable::lookupSymbolIn(module, name))
      break;
  }
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(module.getBody());
  Type type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes);
  return LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/false,
                                LLVM::Linkage::External, name, Attribute(), align,
                                /*addrSpace=*/3, /*dsoLocal=*/true);
}

/// An entry of the attributes of an allocation; nullopt if it is missing or no integer of 64 bits.
static std::optional<int64_t> getEntry(fly::MakePtrOp op, StringRef name) {
  DictionaryAttr dict = op.getDictAttrsAttr();
  auto entry = dict ? dict.getAs<IntegerAttr>(name) : IntegerAttr();
  return entry ? entry.getValue().trySExtValue() : std::nullopt;
}

static FailureOr<Value> makeRegisterPtr(OpBuilder &builder, fly::MakePtrOp op, Type type) {
  std::optional<int64_t> size = getEntry(op, "allocSize");
  if (size.value_or(0) <= 0)
    return op.emitOpError("of registers needs dictAttrs = {allocSize = N} with N > 0");
  Location loc = op.getLoc();
  Value count = createI64(builder, loc, *size);
  Type elem = fly::getStorageType(op.getResult().getType().getElemTy());
  return LLVM::AllocaOp::create(builder, loc, type, elem, count).getResult();
}

static FailureOr<Value> makeSharedPtr(OpBuilder &builder, fly::MakePtrOp op) {
  std::optional<int64_t> bytes = getEntry(op, "allocBytes"), align = getEntry(op, "allocAlign");
  if (bytes.value_or(-1) < 0 || !align)
    return op.emitOpError("of shared memory needs dictAttrs = {allocBytes = N, allocAlign = N} with N >= 0");
  if (*align <= 0 || !llvm::isPowerOf2_64(*align))
    return op.emitOpError("of shared memory: allocAlign must be a power of two, got ") << *align;
  auto module = op->getParentOfType<gpu::GPUModuleOp>();
  if (!module)
    return op.emitOpError("shared make_ptr must be inside a gpu.module");
  Location loc = op.getLoc();
  // The pointer's type may promise more than the attribute: accesses rely on it.
  int64_t promised = op.getResult().getType().getAlignment().getAlignment();
  LLVM::GlobalOp global =
      createSharedGlobal(builder, loc, module, kStaticPrefix, *bytes,
                         std::max(*align, promised & -promised));
  return LLVM::AddressOfOp::create(builder, loc, global).getResult();
}

/// Operands: base, i16 stride, i64 number of records (bytes), i32 flags.
static FailureOr<Value> makeBufferPtr(OpBuilder &builder, fly::MakePtrOp op, ValueRange args) {
  if (args.size() != 4 || !isa<LLVM::LLVMPointerType>(args[0].getType()) ||
      !args[1].getType().isInteger(16) || !args[2].getType().isInteger(64) ||
      !args[3].getType().isInteger(32))
    return op.emitOpError("of a buffer takes a pointer, an i16 stride, an i64 size in bytes and "
                          "i32 flags");
  unsigned space = cast<LLVM::LLVMPointerType>(args[0].getType()).getAddressSpace();
  if (space > 1)
    return op.emitOpError("of a buffer needs a base in global memory, got ") << op.getArgs()[0].getType();
  Location loc = op.getLoc();
  MLIRContext *ctx = op.getContext();
  Value resource = ROCDL::MakeBufferRsrcOp::create(
      builder, loc, TypeRange(LLVM::LLVMPointerType::get(ctx, 8)), args);
  Value fat = LLVM::UndefOp::create(builder, loc, getFatPointerType(ctx));
  fat = LLVM::InsertValueOp::create(builder, loc, fat, resource, ArrayRef<int64_t>{0});
  return LLVM::InsertValueOp::create(builder, loc, fat, createI32(builder, loc, 0),
                                     ArrayRef<int64_t>{1})
      .getResult();
}

namespace {

struct MakePtrPattern : OpConversionPattern<fly::MakePtrOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::MakePtrOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    fly::PointerType type = op.getResult().getType();
    FailureOr<Value> result = failure();
    if (isBufferSpace(type.getAddressSpace()))
      result = makeBufferPtr(rewriter, op, adaptor.getArgs());
    else if (type.isInSpace(fly::AddressSpace::Register))
      result = makeRegisterPtr(rewriter, op, getTypeConverter()->convertType(type));
    else if (type.isInSpace(fly::AddressSpace::Shared))
      result = makeSharedPtr(rewriter, op);
    else
      return op.emitOpError() << "cannot make a pointer in the address space of " << type;
    if (failed(result))
      return failure();
    rewriter.replaceOp(op, *result);
    return success();
  }
};

struct GetDynSharedPattern : OpConversionPattern<fly::GetDynSharedOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::GetDynSharedOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto module = op->getParentOfType<gpu::GPUModuleOp>();
    if (!module)
      return op.emitOpError("get_dyn_shared must be inside a gpu.module");
    LLVM::GlobalOp global;
    for (auto candidate : module.getOps<LLVM::GlobalOp>())
      if (candidate.getSymName().starts_with(kDynamicPrefix))
        global = candidate;
    Location loc = op.getLoc();
    if (!global)
      global = createSharedGlobal(rewriter, loc, module, kDynamicPrefix, 0, kDynSharedAlign);
    Value base = LLVM::AddressOfOp::create(rewriter, loc, global);
    rewriter.replaceOpWithNewOp<LLVM::GEPOp>(op, base.getType(), rewriter.getI8Type(), base,
                                             ArrayRef<LLVM::GEPArg>{0});
    return success();
  }
};

//===------------------------------------------------------------------------===//
// Conversions between pointers
//===------------------------------------------------------------------------===//

template <typename FlyOp, typename LLVMOp>
struct AddressPattern : OpConversionPattern<FlyOp> {
  using OpConversionPattern<FlyOp>::OpConversionPattern;
  LogicalResult matchAndRewrite(FlyOp op, typename FlyOp::Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type type = this->getTypeConverter()->convertType(op.getType());
    Value operand = adaptor.getOperands().front();
    if (isa<LLVM::LLVMStructType>(type) || isa<LLVM::LLVMStructType>(operand.getType()))
      return op.emitOpError("a buffer pointer has no address");
    rewriter.replaceOpWithNewOp<LLVMOp>(op, type, operand);
    return success();
  }
};

struct ToLLVMPtrPattern : OpConversionPattern<fly::ToLLVMPtrOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::ToLLVMPtrOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto pointer = dyn_cast<LLVM::LLVMPointerType>(adaptor.getPtr().getType());
    if (!pointer)
      return op.emitOpError("pointer address space does not lower to a bare ROCDL LLVM pointer");
    if (!isa<LLVM::LLVMPointerType>(op.getType()))
      return op.emitOpError("expected an LLVM pointer result");
    if (op.getLlvmAddressSpace() != pointer.getAddressSpace())
      return op.emitOpError() << "requested LLVM address space " << op.getLlvmAddressSpace()
                              << " but ROCDL conversion requires " << pointer.getAddressSpace();
    rewriter.replaceOp(op, adaptor.getPtr());
    return success();
  }
};

struct ExtractPointerPattern : OpConversionPattern<fly::ExtractAlignedPointerAsIndexOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::ExtractAlignedPointerAsIndexOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Value pointer = adaptor.getSource();
    auto from = dyn_cast<LLVM::LLVMPointerType>(pointer.getType());
    if (!from)
      return op.emitOpError("pointer address space does not lower to a bare ROCDL LLVM pointer");
    if (isa<IndexType>(op.getType())) {
      Value address =
          LLVM::PtrToIntOp::create(rewriter, op.getLoc(), rewriter.getI64Type(), pointer);
      rewriter.replaceOpWithNewOp<arith::IndexCastOp>(op, op.getType(), address);
      return success();
    }
    auto to = dyn_cast<LLVM::LLVMPointerType>(op.getType());
    if (!to)
      return op.emitOpError("expected an LLVM pointer or index result");
    if (from != to && from.getAddressSpace() != 0 && to.getAddressSpace() != 0)
      return op.emitOpError() << "an address in space " << from.getAddressSpace()
                              << " is none in space " << to.getAddressSpace();
    if (from != to)
      pointer = LLVM::AddrSpaceCastOp::create(rewriter, op.getLoc(), op.getType(), pointer);
    rewriter.replaceOp(op, pointer);
    return success();
  }
};

struct ApplySwizzlePattern : OpConversionPattern<fly::ApplySwizzleOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::ApplySwizzleOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, adaptor.getPtr()); // the type carries it to the access
    return success();
  }
};

/// The elements from the pointer that `ptr` was derived from, where all steps are static.
static std::optional<int64_t> getStaticOffset(Value ptr) {
  int64_t offset = 0;
  while (auto add = ptr.getDefiningOp<fly::AddOffsetOp>()) {
    auto step = cast<fly::IntTupleType>(add.getOffset().getType()).getAttr();
    if (!step.isLeafInt() || !step.isStatic())
      return std::nullopt;
    offset += step.extractIntFromLeaf().getValue();
    ptr = add.getPtr();
  }
  return offset;
}

struct RecastIterPattern : OpConversionPattern<fly::RecastIterOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::RecastIterOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    fly::PointerType from = op.getSrc().getType(), to = op.getResult().getType();
    if (isBufferSpace(from.getAddressSpace()) != isBufferSpace(to.getAddressSpace()))
      return op.emitOpError("cannot change the address space");
    unsigned oldBits = fly::getStorageBitWidth(from.getElemTy());
    unsigned newBits = fly::getStorageBitWidth(to.getElemTy());
    if (!isBufferSpace(from.getAddressSpace()) || oldBits == newBits) {
      rewriter.replaceOp(op, adaptor.getSrc());
      return success();
    }
    // The offset of a buffer pointer counts elements: old * oldBits / newBits.
    if (std::optional<int64_t> elements = getStaticOffset(op.getSrc());
        elements && *elements * oldBits % newBits != 0)
      return op.emitOpError() << "element " << *elements << " of " << from.getElemTy()
                              << " is inside an element of " << to.getElemTy();
    Location loc = op.getLoc();
    Value fat = adaptor.getSrc();
    Value offset = LLVM::ExtractValueOp::create(rewriter, loc, fat, ArrayRef<int64_t>{1});
    unsigned gcd = std::gcd(oldBits, newBits);
    if (oldBits != gcd)
      offset = arith::MulIOp::create(rewriter, loc, offset,
                                     createI32(rewriter, loc, oldBits / gcd));
    if (newBits != gcd)
      offset = arith::DivUIOp::create(rewriter, loc, offset,
                                      createI32(rewriter, loc, newBits / gcd));
    rewriter.replaceOpWithNewOp<LLVM::InsertValueOp>(op, fat, offset, ArrayRef<int64_t>{1});
    return success();
  }
};

struct MakeViewPattern : OpConversionPattern<fly::MakeViewOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::MakeViewOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    if (isa<fly::MemRefType>(op.getResult().getType())) {
      rewriter.replaceOp(op, adaptor.getIter());
      return success();
    }
    return failure(); // views of coordinates stay; see the pass
  }
};

//===------------------------------------------------------------------------===//
// Offsets
//===------------------------------------------------------------------------===//

struct AddOffsetPattern : OpConversionPattern<fly::AddOffsetOp> {
  using OpConversionPattern::OpConversionPattern;

  /// The offset as i32 or i64; null if it is not an integer leaf in normal form.
  static Value getOffset(OpBuilder &builder, fly::AddOffsetOp op) {
    auto tuple = cast<fly::IntTupleType>(op.getOffset().getType()).getAttr();
    if (!tuple.isLeafInt())
      return {};
    fly::IntAttr leaf = tuple.extractIntFromLeaf();
    if (leaf.isStatic())
      return createI32(builder, op.getLoc(), leaf.getValue());
    auto make = op.getOffset().getDefiningOp<fly::MakeIntTupleOp>();
    return make && make.getDyncElems().size() == 1 ? make.getDyncElems()[0] : Value();
  }

  LogicalResult matchAndRewrite(fly::AddOffsetOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto type = dyn_cast<fly::PointerType>(op.getResult().getType());
    if (!type)
      return op.emitOpError("of coordinates is not lowered; run fly-layout-lowering before");
    Value offset = getOffset(rewriter, op);
    if (!offset)
      return op.emitOpError("offset must be a leaf int tuple");
    Location loc = op.getLoc();
    Value pointer = adaptor.getPtr();
    if (isBufferSpace(type.getAddressSpace())) {
      rewriter.replaceOp(op, advanceBuffer(rewriter, loc, pointer, offset));
      return success();
    }
    Type elem = fly::getStorageType(type.getElemTy());
    unsigned bits = fly::getStorageBitWidth(type.getElemTy());
    if (bits < 8) { // several elements share a byte
      Type intTy = offset.getType();
      auto constant = [&](int64_t value) -> Value {
        return arith::ConstantOp::create(rewriter, loc, IntegerAttr::get(intTy, value));
      };
      Value total = arith::MulIOp::create(rewriter, loc, offset, constant(bits));
      offset = arith::DivSIOp::create(rewriter, loc, total, constant(8));
      elem = rewriter.getI8Type();
    }
    rewriter.replaceOpWithNewOp<LLVM::GEPOp>(op, pointer.getType(), elem, pointer, offset);
    return success();
  }

  static Value advanceBuffer(OpBuilder &builder, Location loc, Value fat, Value offset) {
    Type i32 = builder.getI32Type();
    if (offset.getType().getIntOrFloatBitWidth() > 32)
      offset = arith::TruncIOp::create(builder, loc, i32, offset);
    Value old = LLVM::ExtractValueOp::create(builder, loc, fat, ArrayRef<int64_t>{1});
    Value sum = arith::AddIOp::create(builder, loc, old, offset);
    return LLVM::InsertValueOp::create(builder, loc, fat, sum, ArrayRef<int64_t>{1});
  }
};

//===------------------------------------------------------------------------===//
// Accesses
//===------------------------------------------------------------------------===//

/// Buffers have no access to a bit: a boolean is a byte there, also alone.
Type getBufferBooleanType(Type accessTy) {
  return accessTy.isInteger(1) ? IntegerType::get(accessTy.getContext(), 8) : accessTy;
}

/// A type that buffer instructions move as it is; else an integer or words of the same width.
FailureOr<Type> getBufferAccessType(Operation *op, Type type) {
  int64_t bits = getTotalBits(type);
  if (!llvm::is_contained({8, 16, 32, 64, 96, 128}, bits)) {
    op->emitOpError() << "a buffer access moves 8, 16, 32, 64, 96 or 128 bits, got " << type;
    return failure();
  }
  unsigned elemBits = getElementTypeOrSelf(type).getIntOrFloatBitWidth();
  if (!isa<VectorType>(type) || elemBits == 16 || elemBits == 32)
    return type;
  MLIRContext *ctx = op->getContext();
  if (bits == 96)
    return Type(VectorType::get(3, IntegerType::get(ctx, 32)));
  return Type(IntegerType::get(ctx, bits));
}

/// A vector must have one dimension, and must not be split by the swizzle.
LogicalResult checkAccess(Operation *op, Type type, fly::SwizzleAttr swizzle) {
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return success();
  if (vector.getRank() != 1 || vector.isScalable())
    return op->emitOpError("an access is of a scalar or of a vector of one dimension and known length, got ")
           << type;
  if (!swizzle || swizzle.isTrivial())
    return success();
  int64_t bytes = getTotalBits(type) / 8;
  if (bytes > 0 && (int64_t(1) << swizzle.getBase()) % bytes == 0)
    return success();
  return op->emitOpError() << "vector " << op->getName().stripDialect()
                           << " byte size must divide swizzle base granularity: " << bytes
                           << " bytes, granularity " << (int64_t(1) << swizzle.getBase());
}

struct PtrLoadPattern : OpConversionPattern<fly::PtrLoadOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::PtrLoadOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    auto pointer = dyn_cast<fly::PointerType>(op.getPtr().getType());
    if (!pointer)
      return op.emitOpError("of coordinates is not lowered; run fly-layout-lowering before");
    Type type = getTypeConverter()->convertType(op.getType());
    Location loc = op.getLoc();
    fly::SwizzleAttr swizzle = pointer.getSwizzle();
    Type valueTy = fly::getAccessType(type, pointer.getElemTy());
    if (failed(checkAccess(op, valueTy, swizzle)))
      return failure();
    if (!isBufferSpace(pointer.getAddressSpace())) {
      Value address = fly::applySwizzleToPointer(rewriter, loc, adaptor.getPtr(), swizzle);
      Value loaded = LLVM::LoadOp::create(rewriter, loc, valueTy, address,
                                          getAccessAlignment(pointer.getAlignment(), swizzle));
      rewriter.replaceOp(op, fly::fromAccessType(rewriter, loc, loaded, type));
      return success();
    }
    valueTy = getBufferBooleanType(valueTy);
    FailureOr<Type> accessTy = getBufferAccessType(op, valueTy);
    if (failed(accessTy))
      return failure();
    BufferAddress address =
        unpackBuffer(rewriter, loc, adaptor.getPtr(), pointer.getElemTy(), swizzle);
    Value zero = createI32(rewriter, loc, 0);
    Value loaded =
        ROCDL::RawPtrBufferLoadOp::create(rewriter, loc, TypeRange(*accessTy),
                                          {address.resource, address.voffset, zero, zero});
    loaded = bitcastTo(rewriter, loc, loaded, valueTy);
    rewriter.replaceOp(op, fly::fromAccessType(rewriter, loc, loaded, type));
    return success();
  }
};

struct PtrStorePattern : OpConversionPattern<fly::PtrStoreOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::PtrStoreOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    fly::PointerType pointer = op.getPtr().getType();
    Value value = adaptor.getValue();
    Location loc = op.getLoc();
    fly::SwizzleAttr swizzle = pointer.getSwizzle();
    Type valueTy = fly::getAccessType(value.getType(), pointer.getElemTy());
    if (failed(checkAccess(op, valueTy, swizzle)))
      return failure();
    if (!isBufferSpace(pointer.getAddressSpace())) {
      value = fly::toAccessType(rewriter, loc, value, valueTy);
      Value address = fly::applySwizzleToPointer(rewriter, loc, adaptor.getPtr(), swizzle);
      rewriter.replaceOpWithNewOp<LLVM::StoreOp>(
          op, value, address, getAccessAlignment(pointer.getAlignment(), swizzle));
      return success();
    }
    value = fly::toAccessType(rewriter, loc, value, getBufferBooleanType(valueTy));
    FailureOr<Type> accessTy = getBufferAccessType(op, value.getType());
    if (failed(accessTy))
      return failure();
    BufferAddress address =
        unpackBuffer(rewriter, loc, adaptor.getPtr(), pointer.getElemTy(), swizzle);
    Value zero = createI32(rewriter, loc, 0);
    Value data = bitcastTo(rewriter, loc, value, *accessTy);
    ROCDL::RawPtrBufferStoreOp::create(rewriter, loc, TypeRange(),
                                       {data, address.resource, address.voffset, zero, zero});
    rewriter.eraseOp(op);
    return success();
  }
};

struct GetBufferRsrcPattern : OpConversionPattern<GetBufferRsrcOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(GetBufferRsrcOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOpWithNewOp<LLVM::ExtractValueOp>(op, adaptor.getPtr(), ArrayRef<int64_t>{0});
    return success();
  }
};

} // namespace

void fly_rocdl::populateMemoryPatterns(const TypeConverter &converter,
                                       RewritePatternSet &patterns) {
  patterns.add<MakePtrPattern, GetDynSharedPattern,
               AddressPattern<fly::IntToPtrOp, LLVM::IntToPtrOp>,
               AddressPattern<fly::PtrToIntOp, LLVM::PtrToIntOp>, ToLLVMPtrPattern,
               ExtractPointerPattern, ApplySwizzlePattern, RecastIterPattern, MakeViewPattern,
               AddOffsetPattern, PtrLoadPattern, PtrStorePattern, GetBufferRsrcPattern>(
      converter, patterns.getContext());
}
