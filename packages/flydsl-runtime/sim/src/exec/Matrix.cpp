//===- Matrix.cpp - dense matrix instructions -----------------------------===//
//
// MFMA and WMMA whose operands have one format each. EXEC is ignored, as on the
// hardware (gfx12 requires all lanes active).
//
//===----------------------------------------------------------------------===//

#include "exec/Matrix.h"

#include "exec/MatrixExec.h"
#include "exec/MatrixFragments.h"
#include "exec/MatrixInline.h"
#include "exec/MatrixSums.h"
#include "exec/Register.h"

namespace flysim {
namespace {

/// Most elements a lane holds: 16 registers of bytes.
constexpr unsigned kMaxSlots = 64;

struct Sources {
  const uint32_t *a, *b;
};

/// The rows of A and B after lane swizzles.
inline Sources fetchSources(Wave &w, const Inst &in, const MatrixPlan &p, uint32_t *tmpA,
                            uint32_t *tmpB) {
  const MatrixDesc &d = *p.desc;
  Sources s{row(w, in.src[0]), row(w, in.src[1])};
  if (d.gfx9() && in.ext) {
    s.a = broadcastBlocks(*in.ext, s.a, p.aRegs(), tmpA);
    if (d.a != Elem::F64)
      s.b = swizzleLanes(*in.ext, s.b, p.bRegs(), tmpB);
  }
  return s;
}

/// Runs `multiply` on every block of a dense instruction.
template <class T, class Multiply>
void forBlocks(const MatrixPlan &p, const T *a, const T *b, const uint16_t *aAt,
               const uint16_t *bAt, unsigned steps, const Accumulator &acc, Multiply multiply) {
  const MatrixDesc &d = *p.desc;
  TileArgs<T> t{a, b, aAt, bAt, steps, reinterpret_cast<const T *>(acc.c()),
                reinterpret_cast<T *>(acc.d()), p.c.data(), d.m};
  for (unsigned block = 0; block < d.blocks; ++block) {
    multiply(t, d.n);
    t.a += d.m;
    t.b += d.n;
    t.at += d.m;
  }
}

/// The planes of operand `n` (0: A, 1: B), from `rows`; in `own` where unpacking costs no more than looking
/// whether it is known.
const float *floatPlanes(Wave &w, const Inst &in, const MatrixPlan &p, unsigned n, const uint32_t *rows,
                         float *own) {
  const Elem e = n ? p.desc->b : p.desc->a;
  const unsigned slots = n ? p.bSlots : p.aSlots;
  const bool fnuz = fnuzFloats(w);
  if (elemBits(e) >= 16) {
    unpackFloat(e, fnuz, own, rows, slots, p.lanes);
    return own;
  }
  const unsigned regs = n ? p.bRegs() : p.aRegs();
  return Fragments::ofThread(n).planes<float>(
      {e, fnuz, uint8_t(p.lanes), uint8_t(regs)}, in.src[n].reg, rows,
      [&](float *planes) { unpackFloat(e, fnuz, planes, rows, slots, p.lanes); });
}

void denseFloat(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) uint32_t swizzled[2][8 * kRow];
  alignas(64) float own[2][kMaxSlots * kRow];
  alignas(64) uint32_t c[32 * kRow];
  Sources s = fetchSources(w, in, p, swizzled[0], swizzled[1]);
  const float *a = floatPlanes(w, in, p, 0, s.a, own[0]), *b = floatPlanes(w, in, p, 1, s.b, own[1]);
  if (!d.gfx9() && elemBits(d.a) >= 16 && ((in.negLo | in.negHi) & 3)) {
    negateHalves(in, 0, own[0], p.aSlots);
    negateHalves(in, 1, own[1], p.bSlots);
  }
  Accumulator acc(w, in, p, in.src[2], c);
  forBlocks(p, a, b, p.a.data(), p.b.data(), d.k, acc, tileFloat);
  acc.finish();
}

/// What a product adds to, into its D.
void startSum(Wave &w, const MatrixPlan &p, const Inst &in) {
  uint32_t *d = row(w, in.dst);
  const size_t size = size_t(p.dRegs()) * kRow;
  if (in.src[2].kind == OperandKind::Vgpr)
    memmove(d, row(w, in.src[2]), size * sizeof(uint32_t));
  else
    for (size_t n = 0, v = read32(w, in.src[2]); n < size; ++n)
      d[n] = static_cast<uint32_t>(v);
}

/// Products of one kind, with waits between them.
void denseFloatRun(Wave &w, const Inst &first) {
  struct alignas(64) Planes {
    float of[2][ProductPart::kMostPlanes * kRow];
  };
  static thread_local std::unique_ptr<Planes> planes{new Planes};
  const MatrixPlan &p = planOf(w, first);
  const MatrixDesc &d = *p.desc;
  const bool fnuz = fnuzFloats(w);
  auto *registers = reinterpret_cast<float *>(w.v);
  SumArgs s{planes->of[0], planes->of[1], registers, p.a.data(), p.b.data(), d.k, p.c.data(), nullptr};
  for (const ProductPart &part : w.products->of(w, first)) {
    for (unsigned side = 0; side < 2; ++side) {
      const unsigned slots = side ? p.bSlots : p.aSlots;
      float *to = planes->of[side];
      for (uint32_t reg : part.operands[side]) {
        unpackFloat(side ? d.b : d.a, fnuz, to, w.v + size_t(reg) * kRow, slots, p.lanes);
        to += slots * kRow;
      }
    }
    for (const Inst *in : part.starts)
      startSum(w, p, *in);
    s.factors = part.factors.data();
    for (const ProductPart::Tile &tile : part.tiles)
      sumTile(s, tile, d.m);
  }
  w.pc += first.joined;
  w.executed += first.joined;
}

/// Elements with saturation of the final sum, one at a time (clamp, rarely used).
void denseSaturated(const MatrixPlan &p, const Inst &in, const Sources &s,
                    const Accumulator &acc) {
  const MatrixDesc &d = *p.desc;
  bool signA = in.negLo & 1, signB = in.negLo & 2;
  auto at = [](uint16_t offset, unsigned i) { return offset % kRow + i; };
  for (unsigned i = 0; i < d.m; ++i)
    for (unsigned j = 0; j < d.n; ++j) {
      unsigned where = p.c[i] + j;
      int64_t sum = static_cast<int32_t>(acc.c()[where]);
      for (unsigned k = 0; k < d.k; ++k)
        sum += int64_t(integerAt(d.a, signA, s.a, at(p.a[k], i), p.a[k] / kRow)) *
               integerAt(d.b, signB, s.b, at(p.b[k], j), p.b[k] / kRow);
      sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      acc.d()[where] = static_cast<uint32_t>(sum);
    }
}

void denseInt(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) uint32_t swizzled[2][8 * kRow];
  alignas(64) uint32_t c[32 * kRow];
  Sources s = fetchSources(w, in, p, swizzled[0], swizzled[1]);
  Accumulator acc(w, in, p, in.src[2], c);
  if (in.clamp)
    return denseSaturated(p, in, s, acc);
  // MFMA is signed; WMMA takes the signs from neg_lo.
  bool signA = d.gfx9() || (in.negLo & 1), signB = d.gfx9() || (in.negLo & 2);
  unsigned pairs = p.aRegs() * 16 / elemBits(d.a);
  if (pairs * 2 > p.aSlots) { // iu4 K=16 of wave64 fills only half of a register
    auto low = [](const uint32_t *from, uint32_t *to) {
      for (unsigned l = 0; l < kRow; ++l)
        to[l] = from[l] & 0xffff;
      return to;
    };
    s = {low(s.a, swizzled[0]), low(s.b, swizzled[1])};
  }
  // Both operands have the same elements in the same places, so the order of k is free.
  uint16_t at[kMaxSlots * 2], steps = 0;
  unsigned groups = d.replicated() ? 1 : p.lanes / (d.m * d.blocks);
  auto stepsOf = [&](unsigned planes) {
    for (unsigned g = 0; g < groups; ++g)
      for (unsigned plane = 0; plane < planes; ++plane)
        at[steps++] = static_cast<uint16_t>(plane * kRow + g * d.m * d.blocks);
  };
#if defined(__AVX512VNNI__)
  if (d.a == Elem::I8 && d.b == Elem::I8 && signA && signB && d.n % 16 == 0) {
    stepsOf(p.aRegs());
    alignas(64) int32_t flipped[kMaxSlots / 4 * kRow], same[kMaxSlots / 4 * kRow];
    for (unsigned n = 0; n < p.aRegs() * kRow; ++n)
      flipped[n] = static_cast<int32_t>(s.a[n] ^ 0x80808080u);
    memcpy(same, s.b, size_t(p.bRegs()) * kRow * 4); // D may be there, too
    const int32_t *a = flipped, *b = same;
    return forBlocks(p, a, b, at, at, steps, acc, tileBytes);
  }
#endif
  auto planes = [&](unsigned n, Elem e, bool isSigned, unsigned regs, const uint32_t *rows) {
    return Fragments::ofThread(n).planes<int32_t>(
        {e, isSigned, uint8_t(p.lanes), uint8_t(regs)}, in.src[n].reg, rows, [&](int32_t *to) {
          unpackPairs(e, isSigned, reinterpret_cast<uint32_t *>(to), rows, regs, p.lanes);
        });
  };
  const int32_t *a = planes(0, d.a, signA, p.aRegs(), s.a), *b = planes(1, d.b, signB, p.bRegs(), s.b);
  stepsOf(pairs);
  forBlocks(p, a, b, at, at, steps, acc, tileInt);
}

/// Register pairs to doubles, negated on request.
void unpackDoubles(double *planes, const uint32_t *rows, unsigned slots, bool negate) {
  uint64_t flip = negate ? uint64_t(1) << 63 : 0;
  for (unsigned s = 0; s < slots; ++s, rows += 2 * kRow, planes += kRow)
    for (unsigned l = 0; l < kRow; ++l)
      planes[l] = asDouble((rows[l] | uint64_t(rows[l + kRow]) << 32) ^ flip);
}

/// v_mfma_f64: fused multiply-adds in ascending k; blgp negates A, B and C.
void denseDouble(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) uint32_t swizzled[2][2 * kRow];
  alignas(64) double a[kRow], b[kRow], c[4 * kRow];
  Sources s = fetchSources(w, in, p, swizzled[0], swizzled[1]);
  unsigned negate = in.ext ? in.ext->blgp : 0;
  unpackDoubles(a, s.a, 1, negate & 1);
  unpackDoubles(b, s.b, 1, negate & 2);
  const Operand &co = in.src[2];
  if (co.kind == OperandKind::Vgpr) {
    unpackDoubles(c, row(w, co), p.cSlots, negate & 4);
  } else {
    double constant = asDouble(read64(w, co));
    for (unsigned l = 0; l < p.cSlots * kRow; ++l)
      c[l] = negate & 4 ? -constant : constant;
  }
  for (unsigned block = 0; block < d.blocks; ++block)
    for (unsigned i = 0; i < d.m; ++i) {
      double *sum = c + p.c[block * d.m + i];
      for (unsigned k = 0; k < d.k; ++k) {
        double x = a[p.a[k] + block * d.m + i];
        const double *y = b + p.b[k] + block * d.n;
#pragma GCC ivdep
        for (unsigned j = 0; j < d.n; ++j)
          sum[j] = __builtin_fma(x, y[j], sum[j]);
      }
    }
  uint32_t *dst = row(w, in.dst);
  for (unsigned slot = 0; slot < p.cSlots; ++slot, dst += 2 * kRow)
    for (unsigned l = 0; l < kRow; ++l) {
      double v = c[slot * kRow + l];
      uint64_t bits = v != v ? 0x7ff8000000000000ull : asBits(v);
      dst[l] = static_cast<uint32_t>(bits);
      dst[l + kRow] = static_cast<uint32_t>(bits >> 32);
    }
}

ExecFn executorOf(const MatrixDesc &d) {
  if (d.sparse())
    return FLYSIM_LEVEL::sparseExecutor(d);
  if (d.mixed())
    return FLYSIM_LEVEL::mixedExecutor(d);
  if (d.a == Elem::F64)
    return denseDouble;
  return d.c == Elem::I32 ? denseInt : denseFloat;
}

/// How gfx90a spells what later architectures have too.
constexpr const char *kSpellings[][2] = {
    {"v_mfma_f32_32x32x4f16", "v_mfma_f32_32x32x4_2b_f16"},
    {"v_mfma_f32_16x16x4f16", "v_mfma_f32_16x16x4_4b_f16"},
    {"v_mfma_f32_4x4x4f16", "v_mfma_f32_4x4x4_16b_f16"},
    {"v_mfma_f32_32x32x8f16", "v_mfma_f32_32x32x8_f16"},
    {"v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16_f16"},
    {"v_mfma_f32_32x32x1f32", "v_mfma_f32_32x32x1_2b_f32"},
    {"v_mfma_f32_16x16x1f32", "v_mfma_f32_16x16x1_4b_f32"},
    {"v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32"},
    {"v_mfma_f32_32x32x2f32", "v_mfma_f32_32x32x2_f32"},
    {"v_mfma_f32_16x16x4f32", "v_mfma_f32_16x16x4_f32"},
    {"v_mfma_f32_32x32x4bf16_1k", "v_mfma_f32_32x32x4_2b_bf16"},
    {"v_mfma_f32_16x16x4bf16_1k", "v_mfma_f32_16x16x4_4b_bf16"},
    {"v_mfma_f32_4x4x4bf16_1k", "v_mfma_f32_4x4x4_16b_bf16"},
    {"v_mfma_f32_32x32x8bf16_1k", "v_mfma_f32_32x32x8_bf16"},
    {"v_mfma_f32_16x16x16bf16_1k", "v_mfma_f32_16x16x16_bf16"},
    {"v_mfma_i32_32x32x4i8", "v_mfma_i32_32x32x4_2b_i8"},
    {"v_mfma_i32_16x16x4i8", "v_mfma_i32_16x16x4_4b_i8"},
    {"v_mfma_i32_4x4x4i8", "v_mfma_i32_4x4x4_16b_i8"},
    {"v_mfma_f64_16x16x4f64", "v_mfma_f64_16x16x4_f64"},
    {"v_mfma_f64_4x4x4f64", "v_mfma_f64_4x4x4_4b_f64"},
};

} // namespace

void FLYSIM_LEVEL::registerMatrix(OpTable &table) {
  for (const MatrixInst &m : matrixInstructions()) {
    OpDef d;
    d.exec = executorOf(m.desc);
    if (d.exec == denseFloat && isSum(m.desc))
      d.run = denseFloatRun;
    d.nsrc = 3;
    d.table = &m;
    d.flags = m.desc.c == Elem::I32 ? 0u : uint32_t(kApprox);
    if (m.desc.a == Elem::Xf32) // rounding of the inputs is not documented
      d.flags |= kUncertain;
    table.add(m.desc.name, d);
  }
  for (const auto &spelling : kSpellings)
    table.alias(spelling[0], spelling[1]);
}

} // namespace flysim
