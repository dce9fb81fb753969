//===- CopyEmit.cpp - buffer copies and atomics ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"
#include "State.h"
#include "fly/IR/Booleans.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

/// The memref type of an operand in buffer memory; null for any other operand.
static fly::MemRefType asBuffer(Type type) {
  auto memref = dyn_cast_or_null<fly::MemRefType>(type);
  if (memref && isTargetAddressSpace<BufferDescAddressAttr>(memref.getAddressSpace()))
    return memref;
  return {};
}

/// The memref type of an operand in registers; null for any other operand.
static fly::MemRefType asRegister(Type type) {
  auto memref = dyn_cast_or_null<fly::MemRefType>(type);
  if (memref && isGenericAddressSpace<fly::AddressSpace::Register>(memref.getAddressSpace()))
    return memref;
  return {};
}

static LogicalResult verifySameElement(Location loc, Type srcTy, Type dstTy) {
  auto src = cast<fly::MemRefType>(srcTy), dst = cast<fly::MemRefType>(dstTy);
  if (src.getElemTy() == dst.getElemTy())
    return success();
  return emitError(loc) << "src/dst element types mismatch: " << src.getElemTy() << " and "
                        << dst.getElemTy();
}

/// The value type of a register operand, which must be as wide as the instruction.
static FailureOr<Type> getRegisterType(Location loc, fly::MemRefType type, int64_t bits) {
  Type value = getRegisterValueType(type);
  if (value && getTotalBits(value) == bits)
    return value;
  return emitError(loc) << "the atom moves " << bits << " bits, but the register operand is "
                        << type;
}

/// The type in which the buffer instructions move this many bits.
static Type getTransferType(OpBuilder &builder, int64_t bits) {
  if (bits == 96) // i96 is not selectable
    return VectorType::get(3, builder.getI32Type());
  return builder.getIntegerType(bits);
}

namespace {

/// What a buffer instruction of one atom call needs besides its data.
struct BufferCall {
  BufferAddress address;
  Value soffset, aux;
};

} // namespace

/// `atom` is the state struct, whose "soffset" counts elements.
static BufferCall makeBufferCall(OpBuilder &builder, Location loc, Type opTy, Value atom,
                                 fly::MemRefType buffer, Value fatPointer, int32_t aux) {
  BufferCall call;
  call.address =
      unpackBuffer(builder, loc, fatPointer, buffer.getElemTy(), buffer.getSwizzle());
  Value elements = getStateFields(opTy).get(builder, loc, atom, "soffset");
  call.soffset =
      elementsToBytes(builder, loc, elements, fly::getStorageBitWidth(buffer.getElemTy()));
  call.aux = createI32(builder, loc, aux);
  return call;
}

//===------------------------------------------------------------------------===//
// buffer_copy
//===------------------------------------------------------------------------===//

/// Booleans take a byte each in a buffer, whatever width the atom gives them: the type of the bytes for
/// `valueTy`, or `valueTy` itself for any other element.
static Type getBufferValueType(Type valueTy, fly::MemRefType buffer) {
  if (!buffer.getElemTy().isInteger(1) || !getElementTypeOrSelf(valueTy).isInteger(1))
    return valueTy;
  Type byte = IntegerType::get(valueTy.getContext(), 8);
  auto vector = dyn_cast<VectorType>(valueTy);
  return vector ? Type(vector.clone(byte)) : byte;
}

/// Bits of the instruction for a value of this type in registers.
static int64_t getTransferBits(int64_t atomBits, Type valueTy, Type bufferTy) {
  return valueTy == bufferTy ? atomBits : getTotalBits(bufferTy);
}

static LogicalResult verifyTransferBits(Location loc, int64_t bits) {
  if (llvm::is_contained({8, 16, 32, 64, 96, 128}, bits))
    return success();
  return emitError(loc) << "a buffer copy moves 8, 16, 32, 64, 96 or 128 bits, but these booleans "
                        << "take " << bits << " (a byte each)";
}

static FailureOr<Value> emitBufferLoad(OpBuilder &builder, Location loc,
                                       CopyOpCDNA3BufferCopyType op, Type resultTy, Value atom,
                                       fly::MemRefType srcTy, Value src) {
  BufferCall call =
      makeBufferCall(builder, loc, op, atom, srcTy, src, op.getCacheModifier());
  Type bufferTy = getBufferValueType(resultTy, srcTy);
  int64_t bits = getTransferBits(op.getBitSize(), resultTy, bufferTy);
  if (failed(verifyTransferBits(loc, bits)))
    return failure();
  Type transferTy = getTransferType(builder, bits);
  Value loaded = ROCDL::RawPtrBufferLoadOp::create(
      builder, loc, TypeRange(transferTy),
      {call.address.resource, call.address.voffset, call.soffset, call.aux});
  if (Value value = bitcastTo(builder, loc, loaded, bufferTy))
    return fly::fromAccessType(builder, loc, value, resultTy);
  return emitError(loc) << "the atom loads " << op.getBitSize() << " bits, but the result is "
                        << resultTy;
}

static LogicalResult emitBufferStore(OpBuilder &builder, Location loc,
                                     CopyOpCDNA3BufferCopyType op, Value atom, Value value,
                                     fly::MemRefType dstTy, Value dst) {
  Type bufferTy = getBufferValueType(value.getType(), dstTy);
  int64_t bits = getTransferBits(op.getBitSize(), value.getType(), bufferTy);
  if (failed(verifyTransferBits(loc, bits)))
    return failure();
  Value data = fly::toAccessType(builder, loc, value, bufferTy);
  data = bitcastTo(builder, loc, data, getTransferType(builder, bits));
  if (!data)
    return emitError(loc) << "the atom stores " << op.getBitSize() << " bits, but the value is "
                          << value.getType();
  BufferCall call =
      makeBufferCall(builder, loc, op, atom, dstTy, dst, op.getCacheModifier());
  ROCDL::RawPtrBufferStoreOp::create(
      builder, loc, TypeRange(),
      {data, call.address.resource, call.address.voffset, call.soffset, call.aux});
  return success();
}

LogicalResult CopyOpCDNA3BufferCopyType::emitAtomCall(OpBuilder &builder, Location loc,
                                                      Type copyAtomTy, Type srcTy, Type dstTy,
                                                      Type predTy, Value atomVal, Value src,
                                                      Value dst, Value pred) const {
  fly::MemRefType srcBuffer = asBuffer(srcTy), dstBuffer = asBuffer(dstTy);
  fly::MemRefType registers = srcBuffer ? asRegister(dstTy) : asRegister(srcTy);
  if (!srcBuffer == !dstBuffer || !registers)
    return emitError(loc) << "a buffer copy goes between #fly_rocdl.buffer_desc and registers, got "
                          << srcTy << " to " << dstTy;
  if (failed(verifySameElement(loc, srcTy, dstTy)))
    return failure();
  bool isBoolean = registers.getElemTy().isInteger(1);
  int64_t valueBits = isBoolean ? getBitSize() / cast<fly::CopyAtomType>(copyAtomTy).getValBits()
                                : getBitSize();
  FailureOr<Type> valueTy = getRegisterType(loc, registers, valueBits);
  if (failed(valueTy))
    return failure();
  Type accessTy = fly::getAccessType(*valueTy, registers.getElemTy());
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) -> LogicalResult {
    if (srcBuffer) {
      FailureOr<Value> value = emitBufferLoad(b, loc, *this, *valueTy, atomVal, srcBuffer, src);
      if (failed(value))
        return failure();
      LLVM::StoreOp::create(b, loc, fly::toAccessType(b, loc, *value, accessTy), dst);
      return success();
    }
    Value loaded = LLVM::LoadOp::create(b, loc, accessTy, src);
    Value value = fly::fromAccessType(b, loc, loaded, *valueTy);
    return emitBufferStore(b, loc, *this, atomVal, value, dstBuffer, dst);
  });
}

FailureOr<Value> CopyOpCDNA3BufferCopyType::emitAtomCallSSA(
    OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,
    Type predTy, Value atomVal, Value src, Value dst, Value pred) const {
  if (resultTy) {
    fly::MemRefType buffer = asBuffer(srcTy);
    if (!buffer)
      return emitError(loc) << "a buffer copy into registers reads #fly_rocdl.buffer_desc, got "
                            << srcTy;
    return emitPredicatedValue(builder, loc, pred, dst, [&](OpBuilder &b) {
      return emitBufferLoad(b, loc, *this, resultTy, atomVal, buffer, src);
    });
  }
  fly::MemRefType buffer = asBuffer(dstTy);
  if (!buffer)
    return emitError(loc) << "a buffer copy from registers writes #fly_rocdl.buffer_desc, got "
                          << dstTy;
  if (failed(emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
        return emitBufferStore(b, loc, *this, atomVal, src, buffer, dst);
      })))
    return failure();
  return Value();
}

//===------------------------------------------------------------------------===//
// buffer_atomic
//===------------------------------------------------------------------------===//

/// Suffix of llvm.amdgcn.raw.ptr.buffer.atomic.*; signless integers compare as signed ones.
static StringRef getAtomicSuffix(fly::AtomicOp op, bool isFloat, bool isUnsigned) {
  switch (op) {
  case fly::AtomicOp::Add:
    return isFloat ? "fadd" : "add";
  case fly::AtomicOp::Max:
    return isFloat ? "fmax" : isUnsigned ? "umax" : "smax";
  case fly::AtomicOp::Min:
    return isFloat ? "fmin" : isUnsigned ? "umin" : "smin";
  case fly::AtomicOp::And:
    return "and";
  case fly::AtomicOp::Or:
    return "or";
  case fly::AtomicOp::Inc:
    return "inc";
  case fly::AtomicOp::Dec:
    return "dec";
  }
  llvm_unreachable("unknown atomic operation");
}

static LogicalResult emitBufferAtomic(OpBuilder &builder, Location loc,
                                      CopyOpCDNA3BufferAtomicType op, Value atom, Value value,
                                      fly::MemRefType dstTy, Value dst) {
  Type valTy = op.getValType();
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(valTy));
  Value data = bitcastTo(builder, loc, value, isFloat ? valTy : fly::getStorageType(valTy));
  if (!data)
    return emitError(loc) << "the atomic takes a value of type " << valTy << ", got "
                          << value.getType();
  BufferCall call = makeBufferCall(builder, loc, op, atom, dstTy, dst, /*aux=*/0);
  Value operands[] = {data, call.address.resource, call.address.voffset, call.soffset, call.aux};
  StringRef suffix = getAtomicSuffix(op.getAtomicOp().getValue(), isFloat,
                                     valTy.isUnsignedInteger());
  // The ROCDL dialect has operations for some of them only.
  if (suffix == "fadd") {
    ROCDL::RawPtrBufferAtomicFaddOp::create(builder, loc, TypeRange(), operands);
    return success();
  }
  if (suffix == "fmax") {
    ROCDL::RawPtrBufferAtomicFmaxOp::create(builder, loc, TypeRange(), operands);
    return success();
  }
  if (suffix == "smax") {
    ROCDL::RawPtrBufferAtomicSmaxOp::create(builder, loc, TypeRange(), operands);
    return success();
  }
  if (suffix == "umin") {
    ROCDL::RawPtrBufferAtomicUminOp::create(builder, loc, TypeRange(), operands);
    return success();
  }
  std::string name = ("llvm.amdgcn.raw.ptr.buffer.atomic." + suffix).str();
  callIntrinsic(builder, loc, name, data.getType(), operands);
  return success();
}

LogicalResult CopyOpCDNA3BufferAtomicType::emitAtomCall(OpBuilder &builder, Location loc,
                                                        Type copyAtomTy, Type srcTy, Type dstTy,
                                                        Type predTy, Value atomVal, Value src,
                                                        Value dst, Value pred) const {
  fly::MemRefType registers = asRegister(srcTy), buffer = asBuffer(dstTy);
  if (!registers || !buffer)
    return emitError(loc) << "a buffer atomic goes from registers to #fly_rocdl.buffer_desc, got "
                          << srcTy << " to " << dstTy;
  if (failed(verifySameElement(loc, srcTy, dstTy)))
    return failure();
  FailureOr<Type> valueTy = getRegisterType(loc, registers, getTotalBits(getValType()));
  if (failed(valueTy))
    return failure();
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
    Value value = LLVM::LoadOp::create(b, loc, *valueTy, src);
    return emitBufferAtomic(b, loc, *this, atomVal, value, buffer, dst);
  });
}

FailureOr<Value> CopyOpCDNA3BufferAtomicType::emitAtomCallSSA(
    OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,
    Type predTy, Value atomVal, Value src, Value dst, Value pred) const {
  fly::MemRefType buffer = asBuffer(dstTy);
  if (!buffer)
    return emitError(loc) << "a buffer atomic writes #fly_rocdl.buffer_desc, got " << dstTy;
  if (failed(emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
        return emitBufferAtomic(b, loc, *this, atomVal, src, buffer, dst);
      })))
    return failure();
  return resultTy ? src : Value();
}
