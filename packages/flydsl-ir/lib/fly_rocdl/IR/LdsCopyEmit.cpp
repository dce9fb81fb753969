//===- LdsCopyEmit.cpp - copies into LDS and transposing LDS reads --------===//
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

template <fly::AddressSpace Space>
static fly::MemRefType asMemRefIn(Type type) {
  auto memref = dyn_cast_or_null<fly::MemRefType>(type);
  return memref && isGenericAddressSpace<Space>(memref.getAddressSpace()) ? memref
                                                                          : fly::MemRefType();
}

/// Lane L of a wave writes at the wave's LDS base plus L times the size: an address that is swizzled
/// a lane at a time cannot be reached.
static LogicalResult verifyLdsDestination(Location loc, fly::MemRefType lds) {
  if (!lds.getSwizzle() || lds.getSwizzle().isTrivial())
    return success();
  return emitError(loc) << "a copy into LDS cannot apply the swizzle of its destination " << lds
                        << "; permute the source instead";
}

//===------------------------------------------------------------------------===//
// Copies into LDS
//===------------------------------------------------------------------------===//

static LogicalResult checkNoResult(Location loc, Type resultTy) {
  return resultTy ? emitError(loc, "a copy into LDS has no result in registers") : success();
}

static LogicalResult emitBufferToLds(OpBuilder &builder, Location loc, Type opTy, int32_t bits,
                                     Type srcTy, Type dstTy, Value atom, Value src, Value dst,
                                     Value pred) {
  auto buffer = dyn_cast<fly::MemRefType>(srcTy);
  fly::MemRefType lds = asMemRefIn<fly::AddressSpace::Shared>(dstTy);
  if (!lds || !buffer ||
      !isTargetAddressSpace<BufferDescAddressAttr>(buffer.getAddressSpace()))
    return emitError(loc) << "this copy goes from #fly_rocdl.buffer_desc to shared memory, got "
                          << srcTy << " to " << dstTy;
  if (buffer.getElemTy() != lds.getElemTy())
    return emitError(loc) << "src/dst element types mismatch: " << buffer.getElemTy() << " and "
                          << lds.getElemTy();
  if (failed(verifyLdsDestination(loc, lds)))
    return failure();
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
    BufferAddress address =
        unpackBuffer(b, loc, src, buffer.getElemTy(), buffer.getSwizzle());
    StateFields fields = getStateFields(opTy);
    Value soffset = elementsToBytes(b, loc, fields.get(b, loc, atom, "soffset"),
                                    fly::getStorageBitWidth(buffer.getElemTy()));
    Value offset = fields.get(b, loc, atom, "imm_offset");
    ROCDL::RawPtrBufferLoadLdsOp::create(b, loc, TypeRange(),
                                         {address.resource, dst, createI32(b, loc, bits / 8),
                                          address.voffset, soffset, offset,
                                          createI32(b, loc, 0)});
    return success();
  });
}

// LLVM 22 has no asynchronous form with explicit completion marks: the asynchronous operations are
// emitted as the synchronous ones, for which the back end inserts the waits.
#define FLY_ROCDL_BUFFER_TO_LDS(TYPE)                                                              \
  LogicalResult TYPE::emitAtomCall(OpBuilder &builder, Location loc, Type copyAtomTy, Type srcTy,  \
                                   Type dstTy, Type predTy, Value atomVal, Value src, Value dst,   \
                                   Value pred) const {                                             \
    return emitBufferToLds(builder, loc, *this, getBitSize(), srcTy, dstTy, atomVal, src, dst,     \
                           pred);                                                                  \
  }                                                                                                \
  FailureOr<Value> TYPE::emitAtomCallSSA(                                                          \
      OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,    \
      Type predTy, Value atomVal, Value src, Value dst, Value pred) const {                        \
    if (failed(checkNoResult(loc, resultTy)) ||                                                    \
        failed(emitBufferToLds(builder, loc, *this, getBitSize(), srcTy, dstTy, atomVal, src, dst, \
                               pred)))                                                             \
      return failure();                                                                            \
    return Value();                                                                                \
  }

FLY_ROCDL_BUFFER_TO_LDS(CopyOpCDNA3BufferCopyLDSType)
FLY_ROCDL_BUFFER_TO_LDS(CopyOpCDNA4BufferLoadAsyncLDSType)
#undef FLY_ROCDL_BUFFER_TO_LDS

static LogicalResult emitGlobalToLds(OpBuilder &builder, Location loc, int32_t bits, Type srcTy,
                                     Type dstTy, Value src, Value dst, Value pred) {
  fly::MemRefType global = asMemRefIn<fly::AddressSpace::Global>(srcTy);
  fly::MemRefType lds = asMemRefIn<fly::AddressSpace::Shared>(dstTy);
  if (!global || !lds)
    return emitError(loc) << "this copy goes from global to shared memory, got " << srcTy << " to "
                          << dstTy;
  if (global.getElemTy() != lds.getElemTy())
    return emitError(loc) << "src/dst element types mismatch: " << global.getElemTy() << " and "
                          << lds.getElemTy();
  if (failed(verifyLdsDestination(loc, lds)))
    return failure();
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
    Value pointer = fly::applySwizzleToPointer(b, loc, src, global.getSwizzle());
    ROCDL::GlobalLoadLDSOp::create(b, loc, pointer, dst, bits / 8, 0, 0, ArrayAttr(), ArrayAttr(),
                                   ArrayAttr());
    return success();
  });
}

LogicalResult CopyOpCDNA4GlobalLoadAsyncLDSType::emitAtomCall(
    OpBuilder &builder, Location loc, Type copyAtomTy, Type srcTy, Type dstTy, Type predTy,
    Value atomVal, Value src, Value dst, Value pred) const {
  return emitGlobalToLds(builder, loc, getBitSize(), srcTy, dstTy, src, dst, pred);
}

FailureOr<Value> CopyOpCDNA4GlobalLoadAsyncLDSType::emitAtomCallSSA(
    OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,
    Type predTy, Value atomVal, Value src, Value dst, Value pred) const {
  if (failed(checkNoResult(loc, resultTy)) ||
      failed(emitGlobalToLds(builder, loc, getBitSize(), srcTy, dstTy, src, dst, pred)))
    return failure();
  return Value();
}

//===------------------------------------------------------------------------===//
// Transposing LDS reads
//===------------------------------------------------------------------------===//

/// The instruction of an operation at a lane's pointer.
static Value readTransposed(OpBuilder &b, Location loc, CopyOpCDNA4LdsReadTransposeType op,
                            Value pointer) {
  Type i32 = b.getI32Type(), i16 = b.getI16Type();
  switch (op.getTransGranularity()) {
  case 4:
    return ROCDL::ds_read_tr4_b64::create(b, loc, TypeRange(VectorType::get(2, i32)), pointer);
  case 6:
    return ROCDL::ds_read_tr6_b96::create(b, loc, TypeRange(VectorType::get(3, i32)), pointer);
  case 8:
    return ROCDL::ds_read_tr8_b64::create(b, loc, TypeRange(VectorType::get(2, i32)), pointer);
  default:
    return ROCDL::ds_read_tr16_b64::create(b, loc, TypeRange(VectorType::get(4, i16)), pointer);
  }
}

static Value readTransposed(OpBuilder &b, Location loc, CopyOpGFX1250LdsReadTransposeType op,
                            Value pointer) {
  Type i32 = b.getI32Type(), i16 = b.getI16Type();
  if (op.getTransGranularity() == 8)
    return ROCDL::DsLoadTr8_B64::create(b, loc, TypeRange(VectorType::get(2, i32)), pointer);
  return ROCDL::DsLoadTr16_B128::create(b, loc, TypeRange(VectorType::get(8, i16)), pointer);
}

template <typename Op>
static FailureOr<Value> emitTransposeRead(OpBuilder &builder, Location loc, Op op, Type resultTy,
                                          Type srcTy, Value src) {
  fly::MemRefType lds = asMemRefIn<fly::AddressSpace::Shared>(srcTy);
  if (!lds)
    return emitError(loc) << "a transposing read takes shared memory, got " << srcTy;
  Value pointer = fly::applySwizzleToPointer(builder, loc, src, lds.getSwizzle());
  if (Value value = bitcastTo(builder, loc, readTransposed(builder, loc, op, pointer), resultTy))
    return value;
  return emitError(loc) << "the atom reads " << op.getBitSize() << " bits, but the result is "
                        << resultTy;
}

template <typename Op>
static LogicalResult emitTransposeCall(OpBuilder &builder, Location loc, Op op, Type srcTy,
                                       Type dstTy, Value src, Value dst, Value pred) {
  fly::MemRefType registers = asMemRefIn<fly::AddressSpace::Register>(dstTy);
  Type valueTy = registers ? getRegisterValueType(registers) : Type();
  if (!valueTy)
    return emitError(loc) << "a transposing read goes to registers with a static layout, got "
                          << dstTy;
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) -> LogicalResult {
    FailureOr<Value> value = emitTransposeRead(b, loc, op, valueTy, srcTy, src);
    if (failed(value))
      return failure();
    LLVM::StoreOp::create(b, loc, *value, dst);
    return success();
  });
}

#define FLY_ROCDL_TRANSPOSING_READ(TYPE)                                                           \
  LogicalResult TYPE::emitAtomCall(OpBuilder &builder, Location loc, Type copyAtomTy, Type srcTy,  \
                                   Type dstTy, Type predTy, Value atomVal, Value src, Value dst,   \
                                   Value pred) const {                                             \
    return emitTransposeCall(builder, loc, *this, srcTy, dstTy, src, dst, pred);                   \
  }                                                                                                \
  FailureOr<Value> TYPE::emitAtomCallSSA(                                                          \
      OpBuilder &builder, Location loc, Type resultTy, Type copyAtomTy, Type srcTy, Type dstTy,    \
      Type predTy, Value atomVal, Value src, Value dst, Value pred) const {                        \
    if (!resultTy)                                                                                 \
      return emitError(loc) << "a transposing read needs a result in registers";                   \
    return emitPredicatedValue(builder, loc, pred, dst, [&](OpBuilder &b) {                        \
      return emitTransposeRead(b, loc, *this, resultTy, srcTy, src);                               \
    });                                                                                            \
  }

FLY_ROCDL_TRANSPOSING_READ(CopyOpCDNA4LdsReadTransposeType)
FLY_ROCDL_TRANSPOSING_READ(CopyOpGFX1250LdsReadTransposeType)
#undef FLY_ROCDL_TRANSPOSING_READ
