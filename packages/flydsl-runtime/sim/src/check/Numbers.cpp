//===- Numbers.cpp - where NaN and infinity come from ---------------------===//

#include "check/Numbers.h"

#include "decode/Program.h"
#include "exec/ExecInline.h"

namespace flysim {

namespace {

bool isFloat(Num n) {
  return n == Num::F32 || n == Num::F64 || n == Num::F16 || n == Num::BF16 || n == Num::PkF32 ||
         n == Num::PkF16 || n == Num::PkBF16;
}

/// True when a lane of an operand in rows `s` is NaN or infinite.
bool special(const uint32_t *s, Num n, unsigned lane) {
  uint32_t v = s[lane];
  switch (n) {
  case Num::F32:
    return (v & 0x7f800000) == 0x7f800000;
  case Num::F64:
    return (s[kRow + lane] & 0x7ff00000) == 0x7ff00000;
  case Num::F16:
    return (v & 0x7c00) == 0x7c00;
  case Num::BF16:
    return (v & 0x7f80) == 0x7f80;
  case Num::PkF32:
    return (v & 0x7f800000) == 0x7f800000 || (s[kRow + lane] & 0x7f800000) == 0x7f800000;
  case Num::PkF16:
    return (v & 0x7c00) == 0x7c00 || (v & 0x7c000000) == 0x7c000000;
  case Num::PkBF16:
    return (v & 0x7f80) == 0x7f80 || (v & 0x7f800000) == 0x7f800000;
  default:
    return false;
  }
}

/// True when an element with these bits is NaN or infinite.
bool special(uint64_t v, Elem e, bool fnuz) {
  switch (e) {
  case Elem::F64:
    return (v & 0x7ff0000000000000) == 0x7ff0000000000000;
  case Elem::F32:
  case Elem::Xf32:
    return (v & 0x7f800000) == 0x7f800000;
  case Elem::F16:
    return (v & 0x7c00) == 0x7c00;
  case Elem::Bf16:
    return (v & 0x7f80) == 0x7f80;
  case Elem::Fp8:
    return fnuz ? v == 0x80 : (v & 0x7f) == 0x7f;
  case Elem::Bf8:
    return fnuz ? v == 0x80 : (v & 0x7c) == 0x7c;
  default:
    return false; // integers, and the formats of 6 and 4 bits, have no such values
  }
}

/// Element `slot` of a lane of an operand in consecutive rows.
uint64_t element(const uint32_t *rows, unsigned slot, unsigned bits, unsigned lane) {
  unsigned at = slot * bits;
  uint64_t v = rows[at / 32 * kRow + lane];
  if (bits == 64)
    return v | uint64_t(rows[(at / 32 + 1) * kRow + lane]) << 32;
  return v >> (at % 32) & ((uint64_t(1) << bits) - 1);
}

/// An element of C or D; the 16-bit ones of gfx11 have a half of a register each.
uint64_t elementOfResult(const MatrixDesc &desc, const Inst &i, const uint32_t *rows, unsigned slot, unsigned bits,
                         unsigned lane) {
  if (desc.replicated() && bits == 16)
    return rows[slot * kRow + lane] >> (i.opSel & 4 ? 16 : 0) & 0xffff;
  return element(rows, slot, bits, lane);
}

/// Formats of A and B: those of f8f6f4 instructions are in modifiers.
Elem formatOf(const MatrixDesc &desc, const Inst &i, bool second) {
  static const Elem kFormats[] = {Elem::Fp8, Elem::Bf8, Elem::Fp6, Elem::Bf6, Elem::Fp4};
  if (!desc.mixed())
    return second ? desc.b : desc.a;
  if (!i.ext)
    return Elem::Fp8;
  unsigned f = desc.gfx9() ? (second ? i.ext->blgp : i.ext->cbsz) : (second ? i.ext->bFmt : i.ext->aFmt);
  return f < 5 ? kFormats[f] : Elem::Fp8;
}

} // namespace

void NumberCheck::before(Wave &w, const Inst &i) {
  Pending &p = pending[w.id];
  const Inst *last = p.inst;
  p.inst = nullptr;
  if (last) {
    p.inst = last;
    if (p.plan)
      inspectMatrix(w, p);
    else
      inspectVector(w, p);
    w.cur = &i;
    p.inst = nullptr;
  }
  p.plan = nullptr;
  if (i.def && (watchMatrix(w, i, p) || watchVector(w, i, p)))
    p.inst = &i;
}

bool NumberCheck::watchVector(Wave &w, const Inst &i, Pending &p) {
  if (i.dst.kind != OperandKind::Vgpr || !isFloat(i.def->dst) || i.sdst || (i.ext && i.ext->second))
    return false;
  p.lanes = w.exec();
  // The end of a division: what it is of are the denominator and the numerator. The quotient before
  // it is a NaN where the denominator is zero.
  bool fixup = i.def->facts.finishesDivision;
  for (unsigned n = fixup; n < i.def->nsrc; ++n) {
    if (!isFloat(i.def->src[n]))
      continue;
    const uint32_t *s = fetchRaw(w, i.src[n], dwords(i.def->src[n]), scratch);
    for (unsigned l = 0; l < w.lanes; ++l)
      if (special(s, i.def->src[n], l))
        p.lanes &= ~(uint64_t(1) << l);
  }
  return true;
}

void NumberCheck::inspectVector(Wave &w, const Pending &p) {
  const Inst &i = *p.inst;
  const uint32_t *v = row(w, i.dst);
  for (uint64_t m = p.lanes; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    if (special(v, i.def->dst, l))
      return tell(w, i, l, 32, v[l], "");
  }
}

bool NumberCheck::watchMatrix(Wave &w, const Inst &i, Pending &p) {
  if (i.def->facts.unit != Unit::Matrix)
    return false;
  const MatrixPlan &plan = static_cast<const MatrixInst *>(i.def->table)->plan(w.lanes);
  if (!plan.desc)
    return false;
  const MatrixDesc &d = *plan.desc;
  if (d.d == Elem::I32)
    return false;
  bool fnuz = w.program->arch->has.fnuz;
  auto operand = [&](unsigned n, unsigned dim, unsigned slots) {
    Elem e = formatOf(d, i, n == 1);
    unsigned bits = elemBits(e), regs = (slots * bits + 31) / 32;
    uint64_t bad = 0;
    const uint32_t *s = fetchRaw(w, i.src[n], regs, scratch);
    for (unsigned l = 0; l < w.lanes; ++l)
      for (unsigned k = 0; k < slots; ++k)
        if (special(element(s, k, bits, l), e, fnuz))
          bad |= d.blocks > 1 ? ~uint64_t(0) : uint64_t(1) << (l % dim);
    return bad;
  };
  // Block scales are powers of two, 255 is NaN.
  if (d.scaleBlock && i.ext)
    for (unsigned n = 0; n < 2; ++n) {
      const uint32_t *s = fetchRaw(w, i.ext->scale[n], 1, scratch);
      for (unsigned l = 0; l < w.lanes; ++l)
        for (unsigned b = 0; b < 4; ++b)
          if ((s[l] >> (8 * b) & 255) == 255)
            return false;
    }
  p.badRows = operand(0, d.m, plan.aSlots);
  p.badCols = operand(1, d.n, plan.bSlots);
  p.badC.assign(plan.cSlots, 0);
  const Operand &c = d.sparse() ? i.dst : i.src[2];
  unsigned bits = elemBits(d.c);
  const uint32_t *s = fetchRaw(w, c, plan.cRegs(), scratch);
  for (unsigned k = 0; k < plan.cSlots; ++k)
    for (unsigned l = 0; l < w.lanes; ++l)
      if (c.kind == OperandKind::Vgpr
              ? special(elementOfResult(d, i, s, k, bits, l), d.c, fnuz)
              : special(read32(w, c), d.c, fnuz))
        p.badC[k] |= uint64_t(1) << l;
  p.plan = &plan;
  return true;
}

void NumberCheck::inspectMatrix(Wave &w, const Pending &p) {
  const MatrixDesc &d = *p.plan->desc;
  const uint32_t *v = row(w, p.inst->dst);
  unsigned bits = elemBits(d.d);
  for (unsigned b = 0; b < d.blocks; ++b)
    for (unsigned r = 0; r < d.m; ++r) {
      if (p.badRows >> r & 1)
        continue;
      unsigned at = p.plan->c[b * d.m + r], slot = at / kRow;
      for (unsigned c = 0; c < d.n; ++c) {
        unsigned lane = at % kRow + c;
        if ((p.badCols >> c & 1) || (p.badC[slot] >> lane & 1))
          continue;
        uint64_t value = elementOfResult(d, *p.inst, v, slot, bits, lane);
        if (special(value, d.d, false))
          return tell(w, *p.inst, lane, bits, value,
                      format(" (row %u, column %u of the product)", r, c));
      }
    }
}

void NumberCheck::tell(Wave &w, const Inst &i, unsigned lane, unsigned bits, uint64_t value,
                       const std::string &where) {
  w.cur = &i; // the fault is told at the instruction that made the value
  findings.add(FaultKind::Trap, "nan",
               format("the result 0x%0*llx%s is a NaN or infinity made from finite operands",
                      static_cast<int>(bits / 4), (unsigned long long)value, where.c_str()),
               siteOf(w, i, static_cast<int>(lane), "result"));
}

} // namespace flysim
