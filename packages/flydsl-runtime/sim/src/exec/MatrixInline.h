//===- MatrixInline.h - operands and results of matrix executors -*- C++ -*-===//
#ifndef FLYSIM_EXEC_MATRIXINLINE_H
#define FLYSIM_EXEC_MATRIXINLINE_H

#include "decode/Program.h"
#include "exec/MatrixUnpack.h"

namespace flysim {
namespace {

inline const MatrixPlan &planOf(const Wave &w, const Inst &i) {
  return static_cast<const MatrixInst *>(i.def->table)->plan(w.lanes);
}

/// True where 8-bit floats have the FNUZ encodings (gfx942).
inline bool fnuzFloats(const Wave &w) {
  return w.program->arch->has.fnuz;
}

/// Where to read C from and write D to: in place when the registers allow, through
/// planes when the elements are not 32 bits wide or only partly overlap.
class Accumulator {
public:
  Accumulator(Wave &w, const Inst &in, const MatrixPlan &p, const Operand &c, uint32_t *planes)
      : w(w), in(in), p(p), planes(planes) {
    const MatrixDesc &desc = *p.desc;
    rows = row(w, in.dst);
    fetch(c, desc.c);
    applyModifiers(desc.c);
    out = elemBits(desc.d) == 32 ? rows : planes;
  }

  const uint32_t *c() const { return source; }
  uint32_t *d() const { return out; }

  /// Rounds and packs 16-bit results.
  void finish() {
    Elem e = p.desc->d;
    if (elemBits(e) != 16)
      return;
    if (p.desc->replicated())
      return finishHalves(e);
    for (unsigned r = 0; r < p.dRegs(); ++r) {
      const uint32_t *lo = planes + 2 * r * kRow, *hi = lo + kRow;
      uint32_t *dst = rows + r * kRow;
      if (e == Elem::F16)
        for (unsigned i = 0; i < p.lanes; ++i)
          dst[i] = floatToHalf(asFloat(lo[i])) | floatToHalf(asFloat(hi[i])) << 16;
      else
        for (unsigned i = 0; i < p.lanes; ++i)
          dst[i] = floatToBf16(asFloat(lo[i])) | floatToBf16(asFloat(hi[i])) << 16;
    }
  }

private:
  /// The bits of each register that hold a 16-bit element of gfx11; op_sel chooses them for C and D.
  unsigned halfShift() const { return in.opSel & 4 ? 16 : 0; }

  void fetchHalves(Elem e, const uint32_t *from) {
    for (unsigned n = 0; n < p.cSlots * kRow; ++n) {
      uint32_t v = from[n] >> halfShift() & 0xffff;
      planes[n] = asBits(e == Elem::F16 ? halfToFloat(v) : bf16ToFloat(v));
    }
  }
  void finishHalves(Elem e) {
    for (unsigned n = 0; n < p.cSlots * kRow; ++n) {
      float sum = asFloat(planes[n]);
      uint32_t v = e == Elem::F16 ? floatToHalf(sum) : floatToBf16(sum);
      rows[n] = (rows[n] & ~(0xffffu << halfShift())) | v << halfShift();
    }
  }

  void fetch(const Operand &o, Elem e) {
    unsigned regs = p.cRegs();
    if (o.kind != OperandKind::Vgpr) {
      uint32_t v = read32(w, o);
      if (e == Elem::F16)
        v = asBits(halfToFloat(v & 0xffff));
      else if (e == Elem::Bf16)
        v = asBits(bf16ToFloat(v & 0xffff));
      for (unsigned s = 0; s < p.cSlots * kRow; ++s)
        planes[s] = v;
      source = planes;
      return;
    }
    const uint32_t *from = row(w, o);
    if (elemBits(e) == 16 && p.desc->replicated()) {
      fetchHalves(e, from);
      source = planes;
      return;
    }
    if (elemBits(e) == 16) {
      unpackFloat(e, false, reinterpret_cast<float *>(planes), from, p.cSlots, p.lanes);
      source = planes;
      return;
    }
    ptrdiff_t apart = (from - rows) / ptrdiff_t(kRow);
    auto size = ptrdiff_t(regs);
    if (apart != 0 && apart < size && apart > -size) {
      memcpy(planes, from, size_t(regs) * kRow * 4);
      from = planes;
    }
    source = from;
  }

  /// neg_lo and neg_hi of C mean negation and absolute value (WMMA of floats).
  void applyModifiers(Elem e) {
    bool neg = in.negLo & 4, abs = in.negHi & 4;
    if (p.desc->gfx9() || e == Elem::I32 || (!neg && !abs))
      return;
    uint32_t keep = abs ? 0x7fffffffu : ~0u, flip = neg ? 0x80000000u : 0;
    for (unsigned s = 0; s < p.cSlots * kRow; ++s)
      planes[s] = (source[s] & keep) ^ flip;
    source = planes;
  }

  Wave &w;
  const Inst &in;
  const MatrixPlan &p;
  uint32_t *planes, *rows, *out;
  const uint32_t *source;
};

/// neg_lo and neg_hi of A or B: even and odd 16-bit elements change sign.
inline void negateHalves(const Inst &in, unsigned n, float *planes, unsigned slots) {
  for (unsigned s = 0; s < slots; ++s)
    if ((s & 1 ? in.negHi : in.negLo) >> n & 1)
      for (unsigned i = 0; i < kRow; ++i)
        planes[s * kRow + i] = -planes[s * kRow + i];
}

/// Registers of `from` with lane l taken from lane perm(l).
template <class Perm>
inline const uint32_t *permuteLanes(const uint32_t *from, unsigned regs, uint32_t *to, Perm perm) {
  for (unsigned r = 0; r < regs; ++r)
    for (unsigned l = 0; l < kRow; ++l)
      to[r * kRow + l] = from[r * kRow + perm(l)];
  return to;
}

/// A of a multi-block MFMA: cbsz and abid broadcast one block to a group of blocks.
inline const uint32_t *broadcastBlocks(const InstExt &e, const uint32_t *a, unsigned regs,
                                       uint32_t *tmp) {
  unsigned span = 64u >> e.cbsz, first = span * e.abid;
  if (e.cbsz == 0 || span == 0)
    return a;
  return permuteLanes(a, regs, tmp, [&](unsigned l) { return (l % span + first) & 63; });
}

/// B of an MFMA: blgp swizzles its lanes.
inline const uint32_t *swizzleLanes(const InstExt &e, const uint32_t *b, unsigned regs,
                                    uint32_t *tmp) {
  unsigned g = e.blgp & 7;
  if (g == 0)
    return b;
  return permuteLanes(b, regs, tmp, [&](unsigned l) {
    switch (g) {
    case 1:
      return l % 32;
    case 2:
      return l % 32 + 32;
    case 3:
      return (l + 16) & 63;
    default:
      return l % 16 + 16 * (g - 4);
    }
  });
}

} // namespace
} // namespace flysim

#endif
