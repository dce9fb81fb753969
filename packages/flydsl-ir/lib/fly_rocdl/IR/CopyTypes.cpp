//===- CopyTypes.cpp - copy operations: rules and layouts -----------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Layouts.h"
#include "fly/IR/FlyOps.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

using EmitError = function_ref<InFlightDiagnostic()>;

static LogicalResult verifyBits(EmitError emitError, int32_t bits, ArrayRef<int32_t> allowed) {
  if (llvm::is_contained(allowed, bits))
    return success();
  InFlightDiagnostic diagnostic = emitError() << "unsupported bitSize = " << bits << ", expected ";
  llvm::interleave(
      allowed, [&](int32_t value) { diagnostic << value; }, [&] { diagnostic << ", "; });
  return diagnostic;
}

LogicalResult CopyOpCDNA3BufferCopyType::verify(EmitError emitError, int32_t bitSize, int32_t) {
  return verifyBits(emitError, bitSize, {8, 16, 32, 64, 96, 128});
}

LogicalResult CopyOpCDNA3BufferCopyLDSType::verify(EmitError emitError, int32_t bitSize) {
  return verifyBits(emitError, bitSize, {32, 128});
}

LogicalResult CopyOpCDNA4BufferLoadAsyncLDSType::verify(EmitError emitError, int32_t bitSize) {
  return verifyBits(emitError, bitSize, {32, 96, 128});
}

LogicalResult CopyOpCDNA4GlobalLoadAsyncLDSType::verify(EmitError emitError, int32_t bitSize) {
  return verifyBits(emitError, bitSize, {32, 96, 128});
}

/// Width of a scalar or of a whole vector; 0 if it is neither.
static int32_t totalBits(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getNumElements() * fly::getElementBitWidth(vector.getElementType());
  return fly::getElementBitWidth(type);
}

LogicalResult CopyOpCDNA3BufferAtomicType::verify(EmitError emitError, fly::AtomicOpAttr op,
                                                  Type valType) {
  using fly::AtomicOp;
  AtomicOp value = op.getValue();
  auto fail = [&](StringRef expected) {
    return emitError() << "unsupported buffer atomic " << fly::stringifyAtomicOp(value) << " of "
                       << valType << ", expected " << expected;
  };
  if (auto vector = dyn_cast<VectorType>(valType)) {
    Type elem = vector.getElementType();
    bool isPair = vector.getRank() == 1 && !vector.isScalable() && vector.getNumElements() == 2;
    if (isPair && (elem.isF16() || elem.isBF16()) && value == AtomicOp::Add)
      return success();
    return fail("add of vector<2xf16> or vector<2xbf16>");
  }
  if (valType.isF32() || valType.isF64()) {
    if (value == AtomicOp::Add || value == AtomicOp::Max || value == AtomicOp::Min)
      return success();
    return fail("add, max or min for a float type");
  }
  if (auto integer = dyn_cast<IntegerType>(valType))
    if (integer.getWidth() == 32 || integer.getWidth() == 64)
      return success();
  return fail("f32, f64, i32, i64, vector<2xf16> or vector<2xbf16>");
}

static LogicalResult verifyTranspose(EmitError emitError, int32_t granularity, int32_t bitSize,
                                     ArrayRef<std::pair<int32_t, int32_t>> valid,
                                     StringRef expected) {
  if (llvm::is_contained(valid, std::make_pair(granularity, bitSize)))
    return success();
  return emitError() << "unsupported LDS transpose read of " << bitSize << " bits with granularity "
                     << granularity << "b, expected " << expected;
}

LogicalResult CopyOpCDNA4LdsReadTransposeType::verify(EmitError emitError, int32_t granularity,
                                                      int32_t bitSize) {
  return verifyTranspose(emitError, granularity, bitSize, {{4, 64}, {8, 64}, {6, 96}, {16, 64}},
                         "4b/64, 8b/64, 6b/96 or 16b/64");
}

LogicalResult CopyOpGFX1250LdsReadTransposeType::verify(EmitError emitError, int32_t granularity,
                                                        int32_t bitSize) {
  return verifyTranspose(emitError, granularity, bitSize, {{8, 64}, {16, 128}},
                         "8b/64 or 16b/128");
}

LogicalResult CopyOpGFX1250TDMType::verify(EmitError emitError, int32_t rank, int32_t numWarps,
                                           int32_t padInterval, int32_t padAmount,
                                           int32_t cacheModifier, bool, bool) {
  if (rank < 1 || rank > 5)
    return emitError() << "rank must be in 1..5, got " << rank;
  if (numWarps < 1 || !llvm::isPowerOf2_32(numWarps))
    return emitError() << "numWarps must be a positive power of two, got " << numWarps;
  if (padInterval < 0 || padAmount < 0 || cacheModifier < 0)
    return emitError() << "padInterval, padAmount and cacheModifier must not be negative, got "
                       << padInterval << ", " << padAmount << " and " << cacheModifier;
  if ((padInterval == 0) != (padAmount == 0))
    return emitError() << "padInterval and padAmount must both be zero or both non-zero, got "
                       << padInterval << " and " << padAmount;
  if (padInterval && !llvm::isPowerOf2_32(padInterval))
    return emitError() << "padInterval must be a power of two (in elements), got " << padInterval;
  return success();
}

//===------------------------------------------------------------------------===//
// Layouts
//===------------------------------------------------------------------------===//

// One thread moves `BITS` consecutive bits.
#define FLY_ROCDL_ONE_THREAD_COPY(TYPE, BITS)                                                      \
  Attribute TYPE::getThrLayout() const { return makeThrLayout(getContext(), 1); }                  \
  Attribute TYPE::getThrBitLayoutSrc() const {                                                     \
    return makeLayout(getContext(), {1, BITS}, {1, 1});                                            \
  }                                                                                                \
  Attribute TYPE::getThrBitLayoutDst() const { return getThrBitLayoutSrc(); }                      \
  Attribute TYPE::getThrBitLayoutRef() const { return getThrBitLayoutSrc(); }

FLY_ROCDL_ONE_THREAD_COPY(CopyOpCDNA3BufferCopyType, getBitSize())
FLY_ROCDL_ONE_THREAD_COPY(CopyOpCDNA3BufferCopyLDSType, getBitSize())
FLY_ROCDL_ONE_THREAD_COPY(CopyOpCDNA3BufferAtomicType, totalBits(getValType()))
FLY_ROCDL_ONE_THREAD_COPY(CopyOpCDNA4BufferLoadAsyncLDSType, getBitSize())
FLY_ROCDL_ONE_THREAD_COPY(CopyOpCDNA4GlobalLoadAsyncLDSType, getBitSize())
FLY_ROCDL_ONE_THREAD_COPY(CopyOpGFX1250TDMType, 1)
#undef FLY_ROCDL_ONE_THREAD_COPY

Attribute CopyOpCDNA4LdsReadTransposeType::getThrLayout() const {
  return makeThrLayout(getContext(), 16);
}

Attribute CopyOpCDNA4LdsReadTransposeType::getThrBitLayoutSrc() const {
  int32_t bits = getBitSize();
  return makeLayout(getContext(), {16, bits}, {bits, 1});
}

// Lane t receives elements t, t+16, t+32, ... of the elements that the 16 lanes address.
Attribute CopyOpCDNA4LdsReadTransposeType::getThrBitLayoutDst() const {
  int32_t granularity = getTransGranularity();
  return makeLayout(getContext(), {16, {granularity, getBitSize() / granularity}},
                    {granularity, {1, 16 * granularity}});
}

Attribute CopyOpCDNA4LdsReadTransposeType::getThrBitLayoutRef() const {
  return getThrBitLayoutDst();
}

// Lanes that read elements for each other.
static int32_t lanesOf(CopyOpGFX1250LdsReadTransposeType op) {
  return op.getTransGranularity() == 16 ? 8 : 16;
}

Attribute CopyOpGFX1250LdsReadTransposeType::getThrLayout() const {
  return makeThrLayout(getContext(), lanesOf(*this));
}

Attribute CopyOpGFX1250LdsReadTransposeType::getThrBitLayoutSrc() const {
  int32_t bits = getBitSize();
  return makeLayout(getContext(), {lanesOf(*this), bits}, {bits, 1});
}

// Lane t receives element t of each of 8 lanes. Of 8-bit elements, lanes of the lower half receive
// those of lanes 0-3 and 8-11, and the others those of 4-7 and 12-15.
Attribute CopyOpGFX1250LdsReadTransposeType::getThrBitLayoutDst() const {
  int32_t bits = getBitSize();
  if (getTransGranularity() == 16)
    return makeLayout(getContext(), {8, {16, 8}}, {16, {1, bits}});
  return makeLayout(getContext(), {{8, 2}, {8, {4, 2}}}, {{8, 4 * bits}, {1, {bits, 8 * bits}}});
}

Attribute CopyOpGFX1250LdsReadTransposeType::getThrBitLayoutRef() const {
  return getThrBitLayoutDst();
}

//===------------------------------------------------------------------------===//
// Static values
//===------------------------------------------------------------------------===//

// A stateful operation carries run-time data.
#define FLY_ROCDL_STATEFUL_COPY(TYPE)                                                              \
  bool TYPE::isStatic() const { return false; }                                                    \
  Value TYPE::rebuildStaticValue(OpBuilder &, Location, Value) const { return {}; }

FLY_ROCDL_STATEFUL_COPY(CopyOpCDNA3BufferCopyType)
FLY_ROCDL_STATEFUL_COPY(CopyOpCDNA3BufferCopyLDSType)
FLY_ROCDL_STATEFUL_COPY(CopyOpCDNA3BufferAtomicType)
FLY_ROCDL_STATEFUL_COPY(CopyOpCDNA4BufferLoadAsyncLDSType)
FLY_ROCDL_STATEFUL_COPY(CopyOpGFX1250TDMType)
#undef FLY_ROCDL_STATEFUL_COPY

// A stateless operation is known from its type.
#define FLY_ROCDL_STATELESS_COPY(TYPE)                                                             \
  bool TYPE::isStatic() const { return true; }                                                     \
  Value TYPE::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {          \
    if (current && current.getDefiningOp<fly::MakeCopyAtomOp>())                                   \
      return {};                                                                                   \
    return fly::MakeCopyAtomOp::create(builder, loc, fly::CopyAtomType::get(*this, getBitSize())); \
  }

FLY_ROCDL_STATELESS_COPY(CopyOpCDNA4LdsReadTransposeType)
FLY_ROCDL_STATELESS_COPY(CopyOpGFX1250LdsReadTransposeType)
FLY_ROCDL_STATELESS_COPY(CopyOpCDNA4GlobalLoadAsyncLDSType)
#undef FLY_ROCDL_STATELESS_COPY
