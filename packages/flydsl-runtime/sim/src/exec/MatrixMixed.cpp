//===- MatrixMixed.cpp - f8f6f4 instructions and block scales -------------===//
//
// A and B choose among fp8, bf8, fp6, bf6 and fp4 independently. In the scaled forms
// every run of 32 (or 16) consecutive k of a row of A and of a column of B has a
// scale: D = C + sum over k of scaleA * a * scaleB * b.
//
//===----------------------------------------------------------------------===//

#include "exec/MatrixExec.h"
#include "exec/MatrixInline.h"
#include "exec/MatrixVector.h"
#include "exec/Register.h"

namespace flysim {
namespace {

constexpr unsigned kMaxDim = 32;
constexpr unsigned kMaxScales = 8; ///< k blocks of an instruction
constexpr unsigned kMaxSlots = 128;

Elem formatOf(unsigned code) {
  static const Elem kFormats[] = {Elem::Fp8, Elem::Bf8, Elem::Fp6, Elem::Bf6, Elem::Fp4};
  return code < 5 ? kFormats[code] : Elem::Fp8;
}

/// The value of a scale byte: e8m0, or on gfx1250 unsigned e5m3 and e4m3.
float scaleValue(unsigned format, uint32_t byte) {
  switch (format) {
  case 1:
    return byte == 0xff ? asFloat(0x7fc00000)
                        : smallToFloat<SmallFormat<5, 3, 15, Small::Finite>>(byte);
  case 2:
    return smallToFloat<Fp8Ocp>(byte & 0x7f);
  default:
    return byte == 0xff ? asFloat(0x7fc00000) : byte ? asFloat(byte << 23) : 0x1p-127f;
  }
}

/// One side of the product (A or B).
struct Side {
  Elem format;
  unsigned dim;             ///< rows of A or columns of B
  const uint16_t *at;       ///< plane offsets per k
  unsigned halves = 1;      ///< groups of 16 rows in registers of their own
  unsigned halfSlots = 0;   ///< slots of one such group
  alignas(64) float planes[kMaxSlots * kRow];
  float scale[kMaxScales][kMaxDim];
  bool scaled = false, huge = false;

  float *element(unsigned k, unsigned i) {
    return halves == 1 ? planes + at[k] + i
                       : planes + i / 16 * halfSlots * kRow + at[k] + i % 16;
  }
  float scaleAt(unsigned k, unsigned i, unsigned block) const {
    return scaled ? scale[k / block][i] : 1.0f;
  }
};

void unpackSide(Side &s, const MatrixPlan &p, Elem format, unsigned dim, const uint32_t *rows) {
  unsigned bits = elemBits(format);
  s.format = format;
  s.dim = dim;
  s.at = p.mixed[bits == 8 ? 0 : bits == 6 ? 1 : 2].data();
  unsigned slots = unsigned(p.desc->k) * dim / p.lanes;
  if (dim > p.desc->n) {
    s.halves = dim / p.desc->n;
    s.halfSlots = slots / s.halves;
  }
  unpackFloat(format, false, s.planes, rows, slots, p.lanes);
}

/// Reads the scales of operand `n`. A lane holds the scales of one row in its bytes
/// (gfx1250) or the byte `sel` of lane block * dim + row (gfx950).
void readScales(Wave &w, const Inst &in, const MatrixPlan &p, unsigned n, Side &s) {
  const MatrixDesc &d = *p.desc;
  if (!d.scaleBlock)
    return;
  const InstExt &e = *in.ext;
  unsigned blocks = d.k / d.scaleBlock, words = d.scaleBlock == 16 ? 2 : 1;
  unsigned format = n ? e.bScaleFmt : e.aScaleFmt, select = n ? e.bScale : e.aScale;
  unsigned sel = (in.opSel >> n & 1) + 2 * (in.opSelHi >> n & 1);
  alignas(64) uint32_t tmp[2 * kRow];
  Operand o = e.scale[n];
  // Scale registers are always among v0..v255, whatever s_set_vgpr_msb says.
  const uint32_t *v = o.kind == OperandKind::Vgpr ? w.v + size_t(o.reg) * kRow
                                                  : fetchRaw(w, o, words, tmp);
  s.scaled = true;
  if (d.gfx9()) { // one byte of every lane, e8m0 only
    for (unsigned q = 0; q < blocks; ++q)
      for (unsigned i = 0; i < s.dim; ++i) {
        uint32_t byte = v[s.dim * q + i] >> (8 * sel) & 0xff;
        uint32_t bits = byte == 0xff ? 0x7fc00000u : byte ? byte << 23 : 0x00400000u;
        s.scale[q][i] = asFloat(bits);
        s.huge |= byte > 127 + 100 && byte != 0xff;
      }
    return;
  }
  for (unsigned q = 0; q < blocks; ++q)
    for (unsigned i = 0; i < s.dim; ++i) {
      unsigned lane = s.dim > 16 ? i : i + 16 * (select & 1);
      uint32_t byte = v[q / 4 * kRow + lane] >> (q % 4 * 8) & 0xff;
      float value = scaleValue(format, byte);
      s.scale[q][i] = value;
      s.huge |= value > 0x1p100f;
    }
}

/// Multiplies the scales into the planes: exact below 2^100.
void applyScales(Side &s, unsigned k, unsigned block) {
  for (unsigned i = 0; i < s.dim; i += 16)
    for (unsigned step = 0; step < k; ++step) {
      float *e = s.element(step, i);
      const float *f = s.scale[step / block] + i;
#pragma GCC ivdep
      for (unsigned x = 0; x < 16; ++x)
        e[x] *= f[x];
    }
}

/// Scales beyond float's range: exact products, sums in double, one rounding.
void multiplyWide(const MatrixPlan &p, Side &a, Side &b, const Accumulator &acc) {
  const MatrixDesc &d = *p.desc;
  for (unsigned i = 0; i < d.m; ++i)
    for (unsigned j = 0; j < d.n; ++j) {
      unsigned where = p.c[i] + j;
      double sum = asFloat(acc.c()[where]);
      for (unsigned k = 0; k < d.k; ++k)
        sum += double(*a.element(k, i)) * a.scaleAt(k, i, d.scaleBlock) *
               (double(*b.element(k, j)) * b.scaleAt(k, j, d.scaleBlock));
      float r = static_cast<float>(sum);
      acc.d()[where] = r != r ? 0x7fc00000u : asBits(r);
    }
}

void mixed(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) uint32_t c[16 * kRow];
  Side a, b;
  unsigned aCode = 4, bCode = 4;
  if (d.a != Elem::Fp4) {
    aCode = !in.ext ? 0 : d.gfx9() ? in.ext->cbsz : in.ext->aFmt;
    bCode = !in.ext ? 0 : d.gfx9() ? in.ext->blgp : in.ext->bFmt;
  }
  unpackSide(a, p, formatOf(aCode), d.m, row(w, in.src[0]));
  unpackSide(b, p, formatOf(bCode), d.n, row(w, in.src[1]));
  readScales(w, in, p, 0, a);
  readScales(w, in, p, 1, b);
  Accumulator acc(w, in, p, in.src[2], c);
  if (a.huge || b.huge)
    return multiplyWide(p, a, b, acc);
  if (d.scaleBlock) {
    applyScales(a, d.k, d.scaleBlock);
    applyScales(b, d.k, d.scaleBlock);
  }
  TileArgs<float> t{a.planes, b.planes, a.at, b.at, d.k, reinterpret_cast<const float *>(acc.c()),
                    reinterpret_cast<float *>(acc.d()), p.c.data(), d.m / a.halves};
  for (unsigned h = 0; h < a.halves; ++h) {
    tileFloat(t, d.n);
    t.a += a.halfSlots * kRow;
    t.at += t.m;
  }
}

} // namespace

ExecFn FLYSIM_LEVEL::mixedExecutor(const MatrixDesc &) { return mixed; }

} // namespace flysim
