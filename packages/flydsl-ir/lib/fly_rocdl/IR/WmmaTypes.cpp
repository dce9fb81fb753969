//===- WmmaTypes.cpp - wave32 matrix instructions -------------------------===//
//
// Layouts map (lane, value) to a coordinate of the column-major operand tile. Source: AMD RDNA3,
// RDNA4 and gfx1250 instruction set manuals, chapter on wave matrix instructions.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Layouts.h"
#include "Mma.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

using EmitError = function_ref<InFlightDiagnostic()>;

namespace {

/// Shape and element types of an operation.
struct Signature {
  int32_t m, n, k;
  Type a, b, acc;

  template <typename OpT>
  static Signature of(OpT op) {
    return {op.getM(),       op.getN(),       op.getK(),
            op.getElemTyA(), op.getElemTyB(), op.getElemTyAcc()};
  }
  bool isShape(int32_t wantM, int32_t wantN, int32_t wantK) const {
    return m == wantM && n == wantN && k == wantK;
  }
  bool areBoth(function_ref<bool(Type)> pred) const { return pred(a) && pred(b); }
  bool isInteger() const { return isa<IntegerType>(a); }
};

bool isF16(Type type) { return type.isF16(); }
bool isBF16(Type type) { return type.isBF16(); }
bool isF32(Type type) { return type.isF32(); }
bool isI8(Type type) { return type.isInteger(8); }
bool isI4(Type type) { return type.isInteger(4); }
bool isOcpF8(Type type) { return isa<Float8E4M3FNType, Float8E5M2Type>(type); }

Diagnostic &operator<<(Diagnostic &os, const Signature &s) {
  return os << s.m << "x" << s.n << "x" << s.k << " with A=" << s.a << ", B=" << s.b
            << ", Acc=" << s.acc;
}

} // namespace

/// Name of an instruction: `wmma.<acc>.MxNxK<sep><elements>`.
static std::string makeName(const Signature &s, StringRef acc, StringRef elements) {
  std::string name;
  llvm::raw_string_ostream(name)
      << "wmma." << acc << '.' << s.m << 'x' << s.n << 'x' << s.k << '.' << elements;
  return name;
}

static std::string getF8Pair(const Signature &s) {
  return (getF8Name(s.a) + "_" + getF8Name(s.b)).str();
}

static MmaInstruction makeWords(const Signature &s, StringRef acc, StringRef elements,
                                int64_t words, int64_t accCount) {
  MLIRContext *ctx = s.a.getContext();
  Type operand = getWordsType(ctx, words);
  return {makeName(s, acc, elements), operand, operand, VectorType::get(accCount, s.acc)};
}

static MmaInstruction makeVectors(const Signature &s, StringRef acc, StringRef elements,
                                  int64_t count, Type elem) {
  Type operand = VectorType::get(count, elem);
  return {makeName(s, acc, elements), operand, operand, VectorType::get(8, s.acc)};
}

/// What `lookUp` has an instruction for, for messages.
static std::string listKnown(const Signature &s,
                             std::optional<MmaInstruction> (*lookUp)(const Signature &)) {
  return "; there is " +
         listCombinations(s.a, [&](int32_t m, int32_t n, int32_t k, Type a, Type b, Type acc) {
           return lookUp({m, n, k, a, b, acc}).has_value();
         });
}

//===------------------------------------------------------------------------===//
// gfx11
//===------------------------------------------------------------------------===//

static std::optional<MmaInstruction> getGfx11(const Signature &s) {
  if (!s.isShape(16, 16, 16))
    return std::nullopt;
  if (s.acc.isF32() && s.areBoth(isF16))
    return makeVectors(s, "f32", "f16", 16, s.a);
  if (s.acc.isF32() && s.areBoth(isBF16))
    return makeVectors(s, "f32", "bf16", 16, IntegerType::get(s.a.getContext(), 16));
  if (s.acc.isSignlessInteger(32) && s.areBoth(isI8))
    return makeWords(s, "i32", "iu8", 4, 8);
  if (s.acc.isSignlessInteger(32) && s.areBoth(isI4))
    return makeWords(s, "i32", "iu4", 2, 8);
  return std::nullopt;
}

static LogicalResult verifyFlags(EmitError emitError, StringRef target, const Signature &s,
                                 bool anyFlag) {
  if (!anyFlag || s.isInteger())
    return success();
  return emitError() << target << " WMMA fp16/bf16 path does not accept signA/signB/clamp";
}

LogicalResult MmaOpGFX11_WMMAType::verify(EmitError emitError, int32_t m, int32_t n, int32_t k,
                                          Type a, Type b, Type acc, bool signA, bool signB,
                                          bool clamp) {
  Signature s{m, n, k, a, b, acc};
  if (!s.isShape(16, 16, 16))
    return emitError() << "GFX11 WMMA requires M=N=K=16, got " << m << "x" << n << "x" << k;
  if (!getGfx11(s))
    return emitError() << "unsupported GFX11 WMMA configuration: " << s
                       << listKnown(s, getGfx11);
  return verifyFlags(emitError, "GFX11", s, signA || signB || clamp);
}

// Lanes l and l + 16 hold the same data.
Attribute MmaOpGFX11_WMMAType::getThrValLayoutA() const {
  return makeLayout(getContext(), {{16, 2}, 16}, {{1, 0}, 16});
}
Attribute MmaOpGFX11_WMMAType::getThrValLayoutB() const { return getThrValLayoutA(); }
Attribute MmaOpGFX11_WMMAType::getThrValLayoutC() const {
  return makeLayout(getContext(), {{16, 2}, 8}, {{16, 1}, 2});
}

//===------------------------------------------------------------------------===//
// gfx120x
//===------------------------------------------------------------------------===//

static std::optional<MmaInstruction> getGfx120x(const Signature &s) {
  if (s.isShape(16, 16, 32) && s.acc.isSignlessInteger(32) && s.areBoth(isI4))
    return makeWords(s, "i32", "iu4", 2, 8);
  if (!s.isShape(16, 16, 16))
    return std::nullopt;
  if (s.acc.isF32() && s.areBoth(isF16))
    return makeVectors(s, "f32", "f16", 8, s.a);
  if (s.acc.isF32() && s.areBoth(isBF16))
    return makeVectors(s, "f32", "bf16", 8, IntegerType::get(s.a.getContext(), 16));
  if (s.acc.isF32() && s.areBoth(isOcpF8))
    return makeWords(s, "f32", getF8Pair(s), 2, 8);
  if (s.acc.isSignlessInteger(32) && s.areBoth(isI8))
    return makeWords(s, "i32", "iu8", 2, 8);
  if (s.acc.isSignlessInteger(32) && s.areBoth(isI4))
    return makeWords(s, "i32", "iu4", 1, 8);
  return std::nullopt;
}

LogicalResult MmaOpGFX120X_WMMAType::verify(EmitError emitError, int32_t m, int32_t n, int32_t k,
                                            Type a, Type b, Type acc, bool signA, bool signB,
                                            bool clamp) {
  Signature s{m, n, k, a, b, acc};
  bool isI4K32 = s.isShape(16, 16, 32) && s.areBoth(isI4);
  if (!s.isShape(16, 16, 16) && !isI4K32)
    return emitError() << "GFX120X WMMA requires M=N=K=16, got " << m << "x" << n << "x" << k;
  if (!getGfx120x(s))
    return emitError() << "unsupported GFX120X WMMA configuration: " << s
                       << listKnown(s, getGfx120x);
  return verifyFlags(emitError, "GFX120X", s, signA || signB || clamp);
}

Attribute MmaOpGFX120X_WMMAType::getThrValLayoutA() const {
  int32_t values = getK() / 2;
  return makeLayout(getContext(), {{16, 2}, values}, {{1, 16 * values}, 16});
}
Attribute MmaOpGFX120X_WMMAType::getThrValLayoutB() const { return getThrValLayoutA(); }
Attribute MmaOpGFX120X_WMMAType::getThrValLayoutC() const {
  return makeLayout(getContext(), {{16, 2}, 8}, {{16, 8}, 1});
}

//===------------------------------------------------------------------------===//
// gfx1250
//===------------------------------------------------------------------------===//

static std::optional<MmaInstruction> getGfx1250(const Signature &s) {
  if (s.m != 16 || s.n != 16)
    return std::nullopt;
  bool f32Acc = s.acc.isF32(), f16Acc = s.acc.isF16();
  StringRef acc = f32Acc ? "f32" : f16Acc ? "f16" : s.acc.isBF16() ? "bf16" : "i32";
  if (s.k == 4 && f32Acc && s.areBoth(isF32))
    return makeVectors(s, acc, "f32", 2, s.a);
  if (s.k == 32 && (f32Acc || f16Acc) && s.areBoth(isF16))
    return makeVectors(s, acc, "f16", 16, s.a);
  if (s.k == 32 && (f32Acc || s.acc.isBF16()) && s.areBoth(isBF16))
    return makeVectors(s, acc, "bf16", 16, s.a);
  if ((s.k == 64 || s.k == 128) && (f32Acc || f16Acc) && s.areBoth(isOcpF8))
    return makeWords(s, acc, getF8Pair(s), s.k / 8, 8);
  if (s.k == 64 && s.acc.isSignlessInteger(32) && s.areBoth(isI8))
    return makeWords(s, acc, "iu8", 8, 8);
  if (s.k == 32 && s.acc.isSignlessInteger(32) && s.areBoth(isI4))
    return makeWords(s, acc, "iu4", 2, 8);
  return std::nullopt;
}

LogicalResult MmaOpGFX1250_WMMAType::verify(EmitError emitError, int32_t m, int32_t n, int32_t k,
                                            Type a, Type b, Type acc, bool signA, bool signB,
                                            bool clamp, int32_t modC, bool reuseA, bool reuseB) {
  Signature s{m, n, k, a, b, acc};
  if (!getGfx1250(s))
    return emitError() << "unsupported GFX1250 WMMA configuration: " << s
                       << listKnown(s, getGfx1250);
  if ((signA || signB || clamp) && !s.isInteger())
    return emitError() << "signA/signB/clamp are only valid for integer (iu4/iu8) WMMA";
  if (modC < 0 || modC > 3)
    return emitError() << "modC must be in 0..3, got " << modC;
  if (modC && s.isInteger())
    return emitError() << "modC is only valid for float WMMA";
  return success();
}

/// A or B with 16 rows: runs of k alternate between the halves of the wave.
static fly::LayoutAttr getGfx1250LayoutAB(MLIRContext *ctx, int32_t k, int32_t run = 8) {
  if (k == 4)
    return makeLayout(ctx, {{16, 2}, 2}, {{1, 32}, 16});
  return makeLayout(ctx, {{16, 2}, {run, k / 2 / run}}, {{1, 16 * run}, {16, 32 * run}});
}

// The 16-bit accumulators have the order of the 32-bit ones: rows 2j and 2j+1 share a register.
static fly::LayoutAttr getGfx1250LayoutC(MLIRContext *ctx) {
  return makeLayout(ctx, {{16, 2}, 8}, {{16, 8}, 1});
}

Attribute MmaOpGFX1250_WMMAType::getThrValLayoutA() const {
  return getGfx1250LayoutAB(getContext(), getK());
}
Attribute MmaOpGFX1250_WMMAType::getThrValLayoutB() const { return getThrValLayoutA(); }
Attribute MmaOpGFX1250_WMMAType::getThrValLayoutC() const {
  return getGfx1250LayoutC(getContext());
}

//===------------------------------------------------------------------------===//
// gfx1250 with block scales
//===------------------------------------------------------------------------===//

LogicalResult MmaOpGFX1250_WMMAScaleType::verify(EmitError emitError, int32_t m, int32_t n,
                                                 int32_t k, Type a, Type b, Type acc,
                                                 int32_t opselA, int32_t opselB, int32_t modC,
                                                 bool, bool, int32_t blockSize) {
  Signature s{m, n, k, a, b, acc};
  bool tall = s.isShape(32, 16, 128);
  if (!tall && !s.isShape(16, 16, 128))
    return emitError() << "unsupported MNK for GFX1250 WMMA_Scale: " << m << "x" << n << "x" << k
                       << " (expected 16x16x128 or 32x16x128)";
  if (tall && !s.areBoth([](Type type) { return isa<Float4E2M1FNType>(type); }))
    return emitError() << "GFX1250 WMMA_Scale 32x16x128 requires f4E2M1FN A and B";
  for (Type type : {a, b})
    if (!getF8F6F4Format(type))
      return emitError() << "GFX1250 WMMA_Scale takes f8E4M3FN, f8E5M2, f6E2M3FN, f6E3M2FN or "
                         << "f4E2M1FN, got " << type;
  if (!acc.isF32())
    return emitError() << "GFX1250 WMMA_Scale accumulates in f32, got " << acc;
  for (int32_t opsel : {opselA, opselB})
    if (opsel < 0 || opsel > 1)
      return emitError() << "opselA and opselB must be in 0..1, got " << opsel;
  if (modC < 0 || modC > 65535)
    return emitError() << "modC must be in 0..65535, got " << modC;
  if (blockSize != 16 && blockSize != 32)
    return emitError() << "blockSize must be 16 or 32, got " << blockSize;
  return success();
}

static MmaInstruction getGfx1250Scale(MmaOpGFX1250_WMMAScaleType op) {
  MLIRContext *ctx = op.getContext();
  bool tall = op.getM() == 32;
  std::string name = op.getBlockSize() == 16 ? "wmma.scale16.f32." : "wmma.scale.f32.";
  name += tall ? "32x16x128.f4" : "16x16x128.f8f6f4";
  // 32 lanes share rows * K elements.
  auto words = [&](Type type, int32_t rows) {
    return getWordsType(ctx, countWords(type, rows * op.getK() / 32));
  };
  return {name, words(op.getElemTyA(), op.getM()), words(op.getElemTyB(), op.getN()),
          VectorType::get(op.getM() / 2, op.getElemTyAcc())};
}

// Of `elem` next to an operand of `other`. The instruction takes 8-bit values in runs of 16 k, narrower
// ones in runs of 32. Operands of one order keep the published runs of 8, which only reorder their sum.
static fly::LayoutAttr getGfx1250ScaleLayoutAB(MLIRContext *ctx, int32_t k, Type elem, Type other) {
  if (isAnyF8(elem) == isAnyF8(other))
    return getGfx1250LayoutAB(ctx, k);
  return getGfx1250LayoutAB(ctx, k, isAnyF8(elem) ? 16 : 32);
}

Attribute MmaOpGFX1250_WMMAScaleType::getThrValLayoutA() const {
  if (getM() == 32)
    return makeLayout(getContext(), {32, 128}, {1, 32});
  return getGfx1250ScaleLayoutAB(getContext(), getK(), getElemTyA(), getElemTyB());
}
Attribute MmaOpGFX1250_WMMAScaleType::getThrValLayoutB() const {
  return getGfx1250ScaleLayoutAB(getContext(), getK(), getElemTyB(), getElemTyA());
}
Attribute MmaOpGFX1250_WMMAScaleType::getThrValLayoutC() const {
  if (getM() == 32)
    return makeLayout(getContext(), {{16, 2}, 16}, {{32, 16}, 1});
  return getGfx1250LayoutC(getContext());
}

//===------------------------------------------------------------------------===//
// Shared
//===------------------------------------------------------------------------===//

#define FLY_ROCDL_WAVE32(TYPE)                                                                     \
  Attribute TYPE::getThrLayout() const { return makeThrLayout(getContext(), 32); }
FLY_ROCDL_WAVE32(MmaOpGFX11_WMMAType)
FLY_ROCDL_WAVE32(MmaOpGFX120X_WMMAType)
FLY_ROCDL_WAVE32(MmaOpGFX1250_WMMAType)
FLY_ROCDL_WAVE32(MmaOpGFX1250_WMMAScaleType)
#undef FLY_ROCDL_WAVE32

std::optional<MmaInstruction> fly_rocdl::getWmmaInstruction(Type op) {
  if (auto wmma = dyn_cast<MmaOpGFX11_WMMAType>(op))
    return getGfx11(Signature::of(wmma));
  if (auto wmma = dyn_cast<MmaOpGFX120X_WMMAType>(op))
    return getGfx120x(Signature::of(wmma));
  if (auto wmma = dyn_cast<MmaOpGFX1250_WMMAType>(op))
    return getGfx1250(Signature::of(wmma));
  return getGfx1250Scale(cast<MmaOpGFX1250_WMMAScaleType>(op));
}
