//===- UniversalAtoms.cpp - code for the universal operations ---------------===//
//
// Operands arrive as LLVM pointers (memory) or scalars and vectors (registers).
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/Address.h"
#include "fly/IR/Booleans.h"
#include "fly/IR/FlyDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly;

Type mlir::fly::getAccessType(Type valueTy, Type elemTy) {
  auto vector = dyn_cast<VectorType>(valueTy);
  if (!vector || !elemTy.isInteger(1) || !vector.getElementType().isInteger(1))
    return valueTy;
  return vector.clone(IntegerType::get(valueTy.getContext(), 8));
}

Value mlir::fly::fromAccessType(OpBuilder &b, Location loc, Value loaded, Type valueTy) {
  return loaded.getType() == valueTy ? loaded : arith::TruncIOp::create(b, loc, valueTy, loaded);
}

Value mlir::fly::toAccessType(OpBuilder &b, Location loc, Value value, Type accessTy) {
  return value.getType() == accessTy ? value : arith::ExtUIOp::create(b, loc, accessTy, value);
}

/// The element type of a memref type.
static Type getElementType(Type type) { return cast<fly::MemRefType>(type).getElemTy(); }

static Value loadValue(OpBuilder &b, Location loc, Type valueTy, Value address, Type type,
                       unsigned alignment) {
  Type accessTy = getAccessType(valueTy, getElementType(type));
  Value loaded = LLVM::LoadOp::create(b, loc, accessTy, address, alignment);
  return fromAccessType(b, loc, loaded, valueTy);
}

// The address after the swizzle of the memref type `type`.
static Value swizzledAddress(OpBuilder &b, Location loc, Value ptr, Type type) {
  return applySwizzleToPointer(b, loc, ptr, cast<fly::MemRefType>(type).getSwizzle());
}

/// Width of a scalar or of a vector of one dimension and known length; 0 for any other type.
static int64_t valueBits(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  if (vector && (vector.getRank() != 1 || vector.isScalable()))
    return 0;
  return getElementBitWidth(getElementTypeOrSelf(type)) * (vector ? vector.getNumElements() : 1);
}

// Alignment attribute of an access to a `valueTy`: the largest power of two that the type promises,
// also after its swizzle; none (0) where LLVM's default for the value is no stronger than that.
static unsigned accessAlignment(Type type, Type valueTy) {
  auto memref = cast<fly::MemRefType>(type);
  int64_t align = memref.getAlignment().getAlignment();
  if (!memref.getSwizzle().isTrivial())
    align = std::gcd(align, int64_t(1) << memref.getSwizzle().getBase());
  align = align & -align;
  return align >= static_cast<int64_t>(llvm::PowerOf2Ceil((valueBits(valueTy) + 7) / 8)) ? 0 : align;
}

// Emits `body` under the predicate; with a result, `other` is yielded when it is false.
static FailureOr<Value> guarded(OpBuilder &b, Location loc, Value pred, Value other,
                                function_ref<FailureOr<Value>(OpBuilder &)> body) {
  if (!pred)
    return body(b);
  SmallVector<Type> results;
  if (other)
    results.push_back(other.getType());
  auto ifOp = scf::IfOp::create(b, loc, results, pred, /*withElseRegion=*/other != nullptr);
  OpBuilder then = ifOp.getThenBodyBuilder(b.getListener());
  FailureOr<Value> result = body(then);
  if (failed(result))
    return failure();
  if (!other)
    return Value();
  if (*result == Value() || (*result).getType() != other.getType())
    return failure();
  scf::YieldOp::create(then, loc, *result);
  OpBuilder otherwise = ifOp.getElseBodyBuilder(b.getListener());
  scf::YieldOp::create(otherwise, loc, other);
  return ifOp.getResult(0);
}

//===------------------------------------------------------------------------===//
// universal_copy
//===------------------------------------------------------------------------===//

/// Bytes that one call moves: booleans take a byte each, whatever width the atom gives them.
static FailureOr<int32_t> countBytes(Location loc, CopyOpUniversalCopyType op, Type atomTy,
                                     Type memoryTy) {
  auto atom = dyn_cast_or_null<CopyAtomType>(atomTy);
  if (atom && getElementType(memoryTy).isInteger(1))
    return op.getBitSize() / atom.getValBits();
  if (op.getBitSize() % 8 != 0)
    return emitError(loc, "a universal copy through memory needs whole bytes, got ")
           << op.getBitSize() << " bits";
  return op.getBitSize() / 8;
}

/// Refuses memory of an address space that only a target knows (buffer resources).
static LogicalResult checkSpace(Location loc, Type type, CopyOpUniversalCopyType op) {
  auto memref = dyn_cast_or_null<fly::MemRefType>(type);
  if (!memref || isa<AddressSpaceAttr>(memref.getAddressSpace()))
    return success();
  return emitError(loc) << "a universal copy takes global memory, LDS and registers, got " << type
                        << ": a buffer tensor takes a buffer copy (fx.rocdl.BufferCopy" << op.getBitSize()
                        << "b)";
}

LogicalResult CopyOpUniversalCopyType::emitAtomCall(OpBuilder &builder, Location loc, Type atomTy,
                                                    Type srcTy, Type dstTy, Type, Value,
                                                    Value src, Value dst, Value pred) const {
  if (failed(checkSpace(loc, srcTy, *this)) || failed(checkSpace(loc, dstTy, *this)))
    return failure();
  FailureOr<int32_t> bytes = countBytes(loc, *this, atomTy, srcTy);
  if (failed(bytes))
    return failure();
  return guarded(builder, loc, pred, Value(), [&](OpBuilder &b) -> FailureOr<Value> {
    Value size = arith::ConstantIntOp::create(b, loc, *bytes, 32);
    LLVM::MemcpyOp::create(b, loc, swizzledAddress(b, loc, dst, dstTy),
                           swizzledAddress(b, loc, src, srcTy), size, /*isVolatile=*/false);
    return Value();
  });
}

FailureOr<Value> CopyOpUniversalCopyType::emitAtomCallSSA(OpBuilder &builder, Location loc,
                                                          Type resultTy, Type atomTy, Type srcTy,
                                                          Type dstTy, Type, Value, Value src,
                                                          Value dst, Value pred) const {
  if (failed(checkSpace(loc, srcTy, *this)) || failed(checkSpace(loc, dstTy, *this)))
    return failure();
  bool fromMemory = isa<fly::MemRefType>(srcTy);
  FailureOr<int32_t> bytes = 0;
  if (fromMemory || !resultTy)
    bytes = countBytes(loc, *this, atomTy, fromMemory ? srcTy : dstTy);
  if (failed(bytes))
    return failure();
  if (resultTy && !fromMemory && resultTy != src.getType())
    return emitError(loc) << "a copy of a value has its type, got " << src.getType() << " to " << resultTy;
  Value other = resultTy && pred ? dst : Value();
  return guarded(builder, loc, pred, other, [&](OpBuilder &b) -> FailureOr<Value> {
    Value value = src;
    if (fromMemory) {
      Type type = resultTy ? resultTy : Type(b.getIntegerType(*bytes * 8));
      value = loadValue(b, loc, type, swizzledAddress(b, loc, src, srcTy), srcTy,
                        accessAlignment(srcTy, getAccessType(type, getElementType(srcTy))));
    }
    if (resultTy)
      return value;
    value = toAccessType(b, loc, value, getAccessType(value.getType(), getElementType(dstTy)));
    LLVM::StoreOp::create(b, loc, value, swizzledAddress(b, loc, dst, dstTy),
                          accessAlignment(dstTy, value.getType()));
    return Value();
  });
}

//===------------------------------------------------------------------------===//
// universal_atomic
//===------------------------------------------------------------------------===//

/// LLVM's operation; none if it has none for values of the type.
static std::optional<LLVM::AtomicBinOp> atomicBinOp(AtomicOp op, Type type) {
  bool isFloat = type.isF16() || type.isBF16() || type.isF32() || type.isF64();
  auto integer = dyn_cast<IntegerType>(type);
  if (!isFloat && !(integer && llvm::is_contained({8u, 16u, 32u, 64u}, integer.getWidth())))
    return std::nullopt;
  bool isUnsigned = type.isUnsignedInteger();
  switch (op) {
  case AtomicOp::Add:
    return isFloat ? LLVM::AtomicBinOp::fadd : LLVM::AtomicBinOp::add;
  case AtomicOp::Max:
    return isFloat      ? LLVM::AtomicBinOp::fmax
           : isUnsigned ? LLVM::AtomicBinOp::umax
                        : LLVM::AtomicBinOp::max;
  case AtomicOp::Min:
    return isFloat      ? LLVM::AtomicBinOp::fmin
           : isUnsigned ? LLVM::AtomicBinOp::umin
                        : LLVM::AtomicBinOp::min;
  case AtomicOp::And:
    return isFloat ? std::nullopt : std::optional(LLVM::AtomicBinOp::_and);
  case AtomicOp::Or:
    return isFloat ? std::nullopt : std::optional(LLVM::AtomicBinOp::_or);
  case AtomicOp::Inc:
    return isFloat ? std::nullopt : std::optional(LLVM::AtomicBinOp::uinc_wrap);
  case AtomicOp::Dec:
    return isFloat ? std::nullopt : std::optional(LLVM::AtomicBinOp::udec_wrap);
  }
  return std::nullopt;
}

static FailureOr<Value> emitAtomic(CopyOpUniversalAtomicType type, OpBuilder &builder, Location loc,
                                   Type srcTy, Type dstTy, Value src, Value dst, Value pred) {
  std::optional<LLVM::AtomicBinOp> op =
      atomicBinOp(type.getAtomicOp().getValue(), type.getValType());
  if (!op)
    return emitError(loc, "universal atomic ")
           << stringifyAtomicOp(type.getAtomicOp().getValue()) << " does not work on "
           << type.getValType()
           << ", expected an integer of 8, 16, 32 or 64 bits; add, max and min also take f16, bf16, f32 or f64";
  auto isMemory = [](Type type) {
    auto memref = dyn_cast_or_null<fly::MemRefType>(type);
    return memref && isa<AddressSpaceAttr>(memref.getAddressSpace());
  };
  if (!isMemory(dstTy))
    return emitError(loc, "the destination of a universal atomic must be in memory, got ") << dstTy;
  Type valueTy = getStorageType(type.getValType());
  if (!isMemory(srcTy) && src.getType() != valueTy)
    return emitError(loc, "a universal atomic of ")
           << type.getValType() << " takes a value of type " << valueTy << ", got " << src.getType();
  return guarded(builder, loc, pred, Value(), [&](OpBuilder &b) -> FailureOr<Value> {
    Value value = src;
    if (isMemory(srcTy))
      value = LLVM::LoadOp::create(b, loc, valueTy, swizzledAddress(b, loc, src, srcTy),
                                   accessAlignment(srcTy, valueTy));
    LLVM::AtomicRMWOp::create(b, loc, *op, swizzledAddress(b, loc, dst, dstTy), value,
                              LLVM::AtomicOrdering::monotonic, type.getSyncscope());
    return Value();
  });
}

LogicalResult CopyOpUniversalAtomicType::emitAtomCall(OpBuilder &builder, Location loc, Type,
                                                      Type srcTy, Type dstTy, Type, Value,
                                                      Value src, Value dst, Value pred) const {
  return emitAtomic(*this, builder, loc, srcTy, dstTy, src, dst, pred);
}

FailureOr<Value> CopyOpUniversalAtomicType::emitAtomCallSSA(OpBuilder &builder, Location loc,
                                                            Type resultTy, Type, Type srcTy,
                                                            Type dstTy, Type, Value,
                                                            Value src, Value dst,
                                                            Value pred) const {
  if (resultTy)
    return emitError(loc, "a universal atomic has no result");
  return emitAtomic(*this, builder, loc, srcTy, dstTy, src, dst, pred);
}

//===------------------------------------------------------------------------===//
// universal_fma
//===------------------------------------------------------------------------===//

FailureOr<Value> MmaOpUniversalFMAType::emitAtomCallSSA(OpBuilder &b, Location loc, Type resultTy,
                                                        Type, Type dTy, TypeRange, TypeRange, Type,
                                                        Value, Value d, ValueRange as,
                                                        ValueRange bs, Value c) const {
  if (as.size() != 1 || bs.size() != 1)
    return emitError(loc, "a universal FMA takes one A and one B operand");
  Type type = getElemTy();
  if (!isa<Float16Type, BFloat16Type, Float32Type, Float64Type>(type))
    return emitError(loc, "a universal FMA needs f16, bf16, f32 or f64, got ") << type;
  for (Value operand : {as.front(), bs.front(), c})
    if (operand.getType() != type)
      return emitError(loc, "a universal FMA of ") << type << " got an operand of type " << operand.getType();
  if (resultTy && resultTy != type)
    return emitError(loc, "a universal FMA of ") << type << " has no result of type " << resultTy;
  if (!resultTy && !(isa<fly::MemRefType>(dTy) && isa<LLVM::LLVMPointerType>(d.getType())))
    return emitError(loc, "the destination of a universal FMA must be a memref, got ") << dTy;
  Value product = LLVM::FMulOp::create(b, loc, as.front(), bs.front());
  Value sum = LLVM::FAddOp::create(b, loc, product, c);
  if (resultTy)
    return sum;
  LLVM::StoreOp::create(b, loc, sum, swizzledAddress(b, loc, d, dTy),
                        accessAlignment(dTy, sum.getType()));
  return Value();
}

LogicalResult MmaOpUniversalFMAType::emitAtomCall(OpBuilder &b, Location loc, Type mmaAtomTy,
                                                  Type dTy, TypeRange aTys, TypeRange bTys,
                                                  Type cTy, Value atom, Value d, ValueRange as,
                                                  ValueRange bs, Value c) const {
  auto load = [&](Value ptr, Type type) -> Value {
    return LLVM::LoadOp::create(b, loc, getElemTy(), swizzledAddress(b, loc, ptr, type),
                                accessAlignment(type, getElemTy()));
  };
  if (as.size() != 1 || bs.size() != 1)
    return emitError(loc, "a universal FMA takes one A and one B operand");
  for (Value pointer : {as.front(), bs.front(), c, d})
    if (!isa<LLVM::LLVMPointerType>(pointer.getType()))
      return emitError(loc, "a universal FMA does not take operands in buffers");
  Value av = load(as.front(), aTys.front()), bv = load(bs.front(), bTys.front());
  Value cv = load(c, cTy);
  return emitAtomCallSSA(b, loc, Type(), mmaAtomTy, dTy, aTys, bTys, cTy, atom, d, av, bv, cv);
}
