//===- MfmaTypes.cpp - wave64 matrix instructions -------------------------===//
//
// Layouts map (lane, value) to a coordinate of the column-major operand tile. Source: AMD CDNA3
// and CDNA4 instruction set manuals, chapter on matrix instructions.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Layouts.h"
#include "Mma.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

using EmitError = function_ref<InFlightDiagnostic()>;

//===------------------------------------------------------------------------===//
// cdna3.mfma
//===------------------------------------------------------------------------===//

namespace {

enum class Elem { F32, F16, BF16, F8, I8 };

/// One instruction; M = N.
struct MfmaRow {
  int32_t m, k;
  Elem elem;
  const char *suffix; ///< after "mfma.<acc>.MxNxK"; fp8 names are appended for F8
};

constexpr MfmaRow kMfmaRows[] = {
    {16, 4, Elem::F32, "f32"},      {32, 2, Elem::F32, "f32"},
    {16, 16, Elem::F16, "f16"},     {32, 8, Elem::F16, "f16"},
    {16, 32, Elem::F16, ".f16"},    {32, 16, Elem::F16, ".f16"},
    {16, 8, Elem::BF16, "bf16"},    {32, 4, Elem::BF16, "bf16"},
    {16, 16, Elem::BF16, "bf16.1k"}, {32, 8, Elem::BF16, "bf16.1k"},
    {16, 32, Elem::BF16, ".bf16"},  {32, 16, Elem::BF16, ".bf16"},
    {16, 32, Elem::F8, "."},        {32, 16, Elem::F8, "."},
    {16, 16, Elem::I8, "i8"},       {32, 8, Elem::I8, "i8"},
    {16, 32, Elem::I8, ".i8"},      {32, 16, Elem::I8, ".i8"},
};

} // namespace

static std::optional<Elem> classify(Type a, Type b) {
  if (isAnyF8(a) && isAnyF8(b))
    return Elem::F8;
  if (a != b)
    return std::nullopt;
  if (a.isF32())
    return Elem::F32;
  if (a.isF16())
    return Elem::F16;
  if (a.isBF16())
    return Elem::BF16;
  if (a.isInteger(8))
    return Elem::I8;
  return std::nullopt;
}

static const MfmaRow *findMfma(int32_t m, int32_t n, int32_t k, Type a, Type b, Type acc) {
  std::optional<Elem> elem = classify(a, b);
  if (!elem || m != n || !(*elem == Elem::I8 ? acc.isSignlessInteger(32) : acc.isF32()))
    return nullptr;
  for (const MfmaRow &row : kMfmaRows)
    if (row.m == m && row.k == k && row.elem == *elem)
      return &row;
  return nullptr;
}

LogicalResult MmaOpCDNA3_MFMAType::verify(EmitError emitError, int32_t m, int32_t n, int32_t k,
                                          Type a, Type b, Type acc) {
  if (findMfma(m, n, k, a, b, acc))
    return success();
  return emitError() << "unsupported MFMA configuration: " << m << "x" << n << "x" << k
                     << " with A=" << a << ", B=" << b << ", Acc=" << acc << "; there is "
                     << listCombinations(a, [](int32_t m, int32_t n, int32_t k, Type a, Type b,
                                               Type acc) { return findMfma(m, n, k, a, b, acc); });
}

/// Bits of one operand are K * width * M / 64 lanes.
static Type getMfmaOperand(MmaOpCDNA3_MFMAType op, Elem elem) {
  MLIRContext *ctx = op.getContext();
  int64_t count = int64_t(op.getM()) * op.getK() / 64;
  switch (elem) {
  case Elem::F32:
    return Float32Type::get(ctx);
  case Elem::F16:
    return VectorType::get(count, Float16Type::get(ctx));
  case Elem::BF16:
    // The forms older than CDNA4 take integers.
    return VectorType::get(count, count == 8 ? Type(BFloat16Type::get(ctx))
                                             : Type(IntegerType::get(ctx, 16)));
  case Elem::F8:
  case Elem::I8: // of CDNA2: half as many
    return IntegerType::get(ctx, count * 8);
  }
  llvm_unreachable("unknown element");
}

static std::optional<MmaInstruction> getInstruction(MmaOpCDNA3_MFMAType op) {
  const MfmaRow *row = findMfma(op.getM(), op.getN(), op.getK(), op.getElemTyA(), op.getElemTyB(),
                                op.getElemTyAcc());
  if (!row)
    return std::nullopt;
  MmaInstruction result;
  llvm::raw_string_ostream os(result.name);
  os << "mfma." << (row->elem == Elem::I8 ? "i32." : "f32.") << row->m << 'x' << row->m << 'x'
     << row->k << row->suffix;
  if (row->elem == Elem::F8)
    os << getF8Name(op.getElemTyA()) << '.' << getF8Name(op.getElemTyB());
  result.a = result.b = getMfmaOperand(op, row->elem);
  result.acc = VectorType::get(row->m * row->m / 64, op.getElemTyAcc());
  return result;
}

static fly::LayoutAttr getMfmaLayoutC(MLIRContext *ctx, int32_t n) {
  int32_t groups = 64 / n;
  return makeLayout(ctx, {{n, groups}, {4, n / 4 / groups}}, {{n, 4}, {1, 4 * groups}});
}

static fly::LayoutAttr getMfmaLayoutAB(MLIRContext *ctx, int32_t m, int32_t k) {
  int32_t groups = 64 / m, values = k / groups;
  return makeLayout(ctx, {{m, groups}, values}, {{1, m * values}, m});
}

Attribute MmaOpCDNA3_MFMAType::getThrValLayoutA() const {
  return getMfmaLayoutAB(getContext(), getM(), getK());
}
Attribute MmaOpCDNA3_MFMAType::getThrValLayoutB() const {
  return getMfmaLayoutAB(getContext(), getN(), getK());
}
Attribute MmaOpCDNA3_MFMAType::getThrValLayoutC() const {
  return getMfmaLayoutC(getContext(), getN());
}

//===------------------------------------------------------------------------===//
// cdna4.mfma_scale
//===------------------------------------------------------------------------===//

LogicalResult MmaOpCDNA4_MFMAScaleType::verify(EmitError emitError, int32_t m, int32_t n,
                                               int32_t k, Type a, Type b, Type acc,
                                               int32_t opselA, int32_t opselB) {
  bool small = m == 16 && n == 16 && k == 128, large = m == 32 && n == 32 && k == 64;
  if (!small && !large)
    return emitError() << "unsupported MNK for MFMA_Scale: " << m << "x" << n << "x" << k
                       << " (expected 16x16x128 or 32x32x64)";
  if (!acc.isF32())
    return emitError() << "MFMA_Scale accumulates in f32, got " << acc;
  for (Type type : {a, b})
    if (!getF8F6F4Format(type))
      return emitError() << "MFMA_Scale takes f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN or f4E2M1FN, "
                         << "got " << type;
  for (int32_t opsel : {opselA, opselB})
    if (opsel < 0 || opsel > 3)
      return emitError() << "opselA and opselB must be in 0..3, got " << opsel;
  return success();
}

static std::optional<MmaInstruction> getInstruction(MmaOpCDNA4_MFMAScaleType op) {
  MLIRContext *ctx = op.getContext();
  MmaInstruction result;
  llvm::raw_string_ostream(result.name)
      << "mfma.scale.f32." << op.getM() << 'x' << op.getN() << 'x' << op.getK() << ".f8f6f4";
  result.a = getWordsType(ctx, countWords(op.getElemTyA(), 32));
  result.b = getWordsType(ctx, countWords(op.getElemTyB(), 32));
  result.acc = VectorType::get(op.getM() * op.getM() / 64, op.getElemTyAcc());
  return result;
}

// Of `elem` next to an operand of `other`. The instruction takes 8-bit values in two runs of k, narrower
// ones in one. Two 8-bit operands keep the published single run, which only reorders their sum.
static fly::LayoutAttr getMfmaScaleLayoutAB(MLIRContext *ctx, int32_t m, int32_t k, Type elem,
                                            Type other) {
  if (!isAnyF8(elem) || isAnyF8(other))
    return getMfmaLayoutAB(ctx, m, k);
  int32_t groups = 64 / m, run = k / groups / 2;
  return makeLayout(ctx, {{m, groups}, {run, 2}}, {{1, m * run}, {m, m * run * groups}});
}

Attribute MmaOpCDNA4_MFMAScaleType::getThrValLayoutA() const {
  return getMfmaScaleLayoutAB(getContext(), getM(), getK(), getElemTyA(), getElemTyB());
}
Attribute MmaOpCDNA4_MFMAScaleType::getThrValLayoutB() const {
  return getMfmaScaleLayoutAB(getContext(), getN(), getK(), getElemTyB(), getElemTyA());
}
Attribute MmaOpCDNA4_MFMAScaleType::getThrValLayoutC() const {
  return getMfmaLayoutC(getContext(), getN());
}

//===------------------------------------------------------------------------===//
// Shared
//===------------------------------------------------------------------------===//

Attribute MmaOpCDNA3_MFMAType::getThrLayout() const { return makeThrLayout(getContext(), 64); }
Attribute MmaOpCDNA4_MFMAScaleType::getThrLayout() const {
  return makeThrLayout(getContext(), 64);
}

std::optional<MmaInstruction> fly_rocdl::getMfmaInstruction(Type op) {
  if (auto mfma = dyn_cast<MmaOpCDNA3_MFMAType>(op))
    return getInstruction(mfma);
  return getInstruction(cast<MmaOpCDNA4_MFMAScaleType>(op));
}
