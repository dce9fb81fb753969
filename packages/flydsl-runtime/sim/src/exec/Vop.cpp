//===- Vop.cpp - the generic VALU path ------------------------------------===//
//
// Fetches operands (with modifiers, DPP and SDWA), runs the lane loop, and writes
// the result back under EXEC. Instructions with plain operands and a full EXEC run
// the loop directly on the register file.
//
//===----------------------------------------------------------------------===//

#include "decode/Program.h"
#include "exec/Dpp.h"
#include "exec/Register.h"
#include "exec/Valu.h"

namespace flysim {
namespace {

/// Applies a MODE with non-default rounding or denormal handling to the host's
/// floating-point unit for the duration of one instruction.
class HostFpMode {
public:
  HostFpMode(uint32_t mode, Num type) {
#if defined(__SSE2__)
    saved = _mm_getcsr();
    bool single = type == Num::F32 || type == Num::PkF32;
    uint32_t round = single ? mode & 3 : mode >> 2 & 3;
    uint32_t denorm = single ? mode >> 4 & 3 : mode >> 6 & 3;
    static const uint32_t kRound[4] = {0, 2, 1, 3}; // nearest, +inf, -inf, zero
    // MODE: 0 flushes sources and results, 1 flushes results, 2 sources, 3 none.
    uint32_t csr = (saved & ~0xe040u) | kRound[round] << 13;
    csr |= (denorm & 2 ? 0 : 0x8000u) | (denorm & 1 ? 0 : 0x0040u);
    _mm_setcsr(csr);
#else
    (void)mode;
    (void)type;
#endif
  }
  ~HostFpMode() {
#if defined(__SSE2__)
    _mm_setcsr(saved);
#endif
  }

private:
  unsigned saved = 0;
};

void copyRows(uint32_t *d, const uint32_t *s, unsigned words) {
  memcpy(d, s, words * kRow * 4);
}

void selectSdwa(uint32_t *d, unsigned sel, bool sext) {
  unsigned shift = sel < 4 ? sel * 8 : (sel == 5 ? 16 : 0);
  uint32_t mask = sel < 4 ? 0xff : (sel < 6 ? 0xffff : 0xffffffff);
  uint32_t sign = sel < 4 ? 0x80 : 0x8000;
  for (unsigned i = 0; i < kRow; ++i)
    d[i] = d[i] >> shift & mask;
  if (sext && sel < 6)
    for (unsigned i = 0; i < kRow; ++i)
      d[i] = (d[i] ^ sign) - sign;
}

void applySign(uint32_t *d, Num type, uint8_t mods) {
  uint32_t sign = type == Num::F16 || type == Num::BF16 ? 0x8000u : 0x80000000u;
  uint32_t *word = type == Num::F64 ? d + kRow : d;
  uint32_t keep = mods & kAbs ? ~sign : ~0u, flip = mods & kNeg ? sign : 0;
  for (unsigned i = 0; i < kRow; ++i)
    word[i] = (word[i] & keep) ^ flip;
}

/// Operands made of two halves: op_sel and op_sel_hi pick the halves, neg_lo and
/// neg_hi negate them.
const uint32_t *fetchPacked(const Inst &in, unsigned n, Num type, const uint32_t *s,
                            uint32_t *tmp) {
  bool lo = in.opSel >> n & 1, hi = in.opSelHi >> n & 1;
  if (type == Num::PkB32) // v_pk_mov_b32: op_sel alone picks the dword of either source
    hi = lo;
  bool negLo = in.negLo >> n & 1, negHi = in.negHi >> n & 1;
  if (!lo && hi && !negLo && !negHi)
    return s;
  if (type == Num::PkF32 || type == Num::PkB32) {
    uint32_t a[kRow], b[kRow];
    uint32_t fl = negLo && type == Num::PkF32 ? 0x80000000u : 0;
    uint32_t fh = negHi && type == Num::PkF32 ? 0x80000000u : 0;
    const uint32_t *sl = s + (lo ? kRow : 0), *sh = s + (hi ? kRow : 0);
    for (unsigned i = 0; i < kRow; ++i)
      a[i] = sl[i] ^ fl;
    for (unsigned i = 0; i < kRow; ++i)
      b[i] = sh[i] ^ fh;
    copyRows(tmp, a, 1);
    copyRows(tmp + kRow, b, 1);
    return tmp;
  }
  unsigned sl = lo ? 16 : 0, sh = hi ? 16 : 0;
  uint32_t flip = (negLo ? 0x8000u : 0) | (negHi ? 0x80000000u : 0);
  if (type == Num::PkB16)
    flip = 0;
  for (unsigned i = 0; i < kRow; ++i)
    tmp[i] = ((s[i] >> sl & 0xffff) | (s[i] >> sh) << 16) ^ flip;
  return tmp;
}

const uint32_t *fetchMix(const Inst &in, unsigned n, bool bf, const uint32_t *s, uint32_t *tmp) {
  bool half = in.opSelHi >> n & 1, high = in.opSel >> n & 1;
  bool neg = in.negLo >> n & 1, abs = in.negHi >> n & 1;
  if (!half && !neg && !abs)
    return s;
  unsigned shift = high ? 16 : 0;
  uint32_t keep = abs ? 0x7fffffffu : ~0u, flip = neg ? 0x80000000u : 0;
  for (unsigned i = 0; i < kRow; ++i) {
    uint32_t v = s[i];
    if (half)
      v = asBits(bf ? bf16ToFloat(v >> shift & 0xffff) : halfToFloat(v >> shift & 0xffff));
    tmp[i] = (v & keep) ^ flip;
  }
  return tmp;
}

const uint32_t *fetch(Wave &w, const Inst &in, unsigned n, uint64_t valid) {
  const Operand &o = in.src[n];
  Num type = in.def->src[n];
  unsigned words = dwords(type);
  uint32_t *tmp = w.tmp->src[n];
  const uint32_t *s = fetchRaw(w, o, words, tmp);
  if (in.ext) {
    if (in.ext->dpp && n == 0)
      s = fetchDpp(w, *in.ext, s, words, tmp, valid);
    if (in.ext->sdwa && n < 2 && in.ext->srcSel[n] != 6) {
      if (s != tmp)
        copyRows(tmp, s, words);
      selectSdwa(tmp, in.ext->srcSel[n], (o.mods & kSext) != 0);
      s = tmp;
    }
  }
  switch (type) {
  case Num::PkB16:
  case Num::PkF16:
  case Num::PkBF16:
  case Num::PkF32:
  case Num::PkB32:
    return fetchPacked(in, n, type, s, tmp);
  case Num::Mix:
  case Num::MixBF:
    return fetchMix(in, n, type == Num::MixBF, s, tmp);
  case Num::F16:
  case Num::BF16:
  case Num::U16:
    if (in.opSel >> n & 1) {
      for (unsigned i = 0; i < kRow; ++i)
        tmp[i] = s[i] >> 16;
      s = tmp;
    }
    break;
  default:
    // A 16-bit operand of an operation whose lane function takes the register's low half.
    if (o.mods & kHigh16) {
      for (unsigned i = 0; i < kRow; ++i)
        tmp[i] = s[i] >> 16;
      s = tmp;
    }
    break;
  }
  if (o.mods & (kNeg | kAbs)) {
    if (s != tmp)
      copyRows(tmp, s, words);
    applySign(tmp, type, o.mods);
    return tmp;
  }
  return s;
}

//===--- results -----------------------------------------------------------===//

float scaleOmod(unsigned omod) { return omod == 1 ? 2.0f : omod == 2 ? 4.0f : 0.5f; }

/// [0, 1]; a NaN becomes 0, or stays where gfx9's MODE.DX10_CLAMP is off.
template <class T> T clamped(T f, bool keepNan) {
  return f > 0 ? (f < 1 ? f : T(1)) : keepNan && f != f ? f : T(0);
}

void applyOutputModifiers(const Wave &w, const Inst &in, uint32_t *d) {
  Num type = in.def->dst;
  bool clamp = in.clamp && !in.def->laneSat;
  const bool keep = w.program->arch->has.clampModes && !(w.mode & 0x100);
  for (unsigned i = 0; i < kRow; ++i) {
    if (type == Num::F32) {
      float f = asFloat(d[i]);
      if (in.omod)
        f *= scaleOmod(in.omod);
      if (clamp)
        f = clamped(f, keep);
      d[i] = asBits(f);
    } else if (type == Num::F16 || type == Num::BF16) {
      bool bf = type == Num::BF16;
      float f = bf ? bf16ToFloat(d[i]) : halfToFloat(d[i]);
      if (in.omod)
        f *= scaleOmod(in.omod);
      if (clamp)
        f = clamped(f, keep);
      d[i] = bf ? floatToBf16(f) : floatToHalf(f);
    } else if (type == Num::PkF16) {
      float lo = halfToFloat(d[i] & 0xffff), hi = halfToFloat(d[i] >> 16);
      if (clamp) {
        lo = clamped(lo, keep);
        hi = clamped(hi, keep);
      }
      d[i] = floatToHalf(lo) | floatToHalf(hi) << 16;
    } else if (type == Num::PkF32) {
      for (unsigned k = 0; k < 2 && clamp; ++k) {
        float f = asFloat(d[i + k * kRow]);
        d[i + k * kRow] = asBits(clamped(f, keep));
      }
    } else if (type == Num::F64) {
      double f = asDouble(d[i] | uint64_t((d + kRow)[i]) << 32);
      if (in.omod)
        f *= scaleOmod(in.omod);
      if (clamp)
        f = clamped(f, keep);
      uint64_t bits = asBits(f);
      d[i] = static_cast<uint32_t>(bits);
      (d + kRow)[i] = static_cast<uint32_t>(bits >> 32);
    }
  }
}

/// Merges a 16-bit or SDWA result with the old register contents.
void mergePartial(const Wave &w, const Inst &in, uint32_t *d, const uint32_t *old) {
  const InstExt *e = in.ext;
  if (e && e->sdwa && e->dstSel != 6) {
    unsigned sel = e->dstSel, shift = sel < 4 ? sel * 8 : (sel == 5 ? 16 : 0);
    uint32_t field = sel < 4 ? 0xff : 0xffff, sign = sel < 4 ? 0x80 : 0x8000;
    for (unsigned i = 0; i < kRow; ++i) {
      uint32_t v = d[i] & field, placed = v << shift;
      if (e->dstUnused == 2)
        placed |= old[i] & ~(field << shift);
      else if (e->dstUnused == 1 && (v & sign))
        placed |= ~((field << shift) | ((1u << shift) - 1));
      d[i] = placed;
    }
    return;
  }
  Num type = in.def->dst;
  if (type != Num::F16 && type != Num::BF16 && type != Num::U16)
    return;
  bool high = (in.opSel & 8) || (in.def->flags & kMixHigh);
  bool keep = w.program->arch->has.keepsHigh || (in.def->flags & kKeepHigh);
  for (unsigned i = 0; i < kRow; ++i)
    d[i] = high ? (old[i] & 0xffff) | d[i] << 16
                : (keep ? (old[i] & 0xffff0000) | (d[i] & 0xffff) : d[i] & 0xffff);
}

/// Results of one VALU operation before they are committed.
struct Computed {
  const uint32_t *d;
  uint64_t writable;
};

/// Fetches sources that need treatment, and the carry-in. Returns the lanes that may be written.
/// Apart from `compute`, which most instructions pass without it.
__attribute__((noinline)) uint64_t fetchTreated(Wave &w, const Inst &in, LaneArgs &a) {
  const OpDef &def = *in.def;
  uint64_t writable = w.exec(), valid = ~0ull;
  if (in.ext && in.ext->dpp) {
    const InstExt &e = *in.ext;
    valid = dppValid(w, e);
    writable &= e.writable;
    if (!e.boundCtrl)
      writable &= valid;
  }
  for (unsigned n = 0; n < def.nsrc; ++n)
    a.s[n] = fetch(w, in, n, valid);
  if (def.flags & kCarryIn)
    expandMask(w.tmp->cin, readMask(w, in.data));
  return writable;
}

__attribute__((noinline)) void runInFpMode(Wave &w, const Inst &in, LaneFn lane, const LaneArgs &a) {
  const OpDef &def = *in.def;
  HostFpMode mode(w.mode, def.dst == Num::F32 || def.dst == Num::PkF32 ? def.dst : def.src[0]);
  lane(a);
}

/// Scalars, once for each lane.
__attribute__((noinline)) const uint32_t *spread(Wave &w, const Inst &in, unsigned n) {
  return fetchRaw(w, in.src[n], dwords(in.def->src[n]), w.tmp->src[n]);
}

/// The rows of a source as they are.
inline const uint32_t *rawSource(Wave &w, const Inst &in, unsigned n) {
  const Operand &o = in.src[n];
  return o.kind == OperandKind::Vgpr ? row(w, o) : o.kind == OperandKind::Const ? o.row : spread(w, in, n);
}

inline Computed compute(Wave &w, const Inst &in, LaneFn lane, uint32_t *d) {
  const OpDef &def = *in.def;
  uint64_t writable = w.exec();
  LaneArgs &a = w.tmp->args;
  a.d = d;
  a.imm = static_cast<uint32_t>(in.imm);
  a.mode = w.mode;
  if (__builtin_expect(in.rawSources, 1)) {
#pragma GCC unroll 3
    for (unsigned n = 0; n < 3; ++n)
      if (n < def.nsrc)
        a.s[n] = rawSource(w, in, n);
  } else {
    writable = fetchTreated(w, in, a);
  }
  if (__builtin_expect(w.fpSpecial, 0))
    runInFpMode(w, in, lane, a);
  else
    lane(a);
  return {d, writable};
}

void writeCarry(Wave &w, const Inst &in, uint64_t writable) {
  uint64_t bits = packMask(w.tmp->carry, w.lanes);
  writeMask(w, in.sdst, bits & writable);
}

void commit(Wave &w, const Inst &in, uint32_t *d, uint64_t writable) {
  uint32_t *old = row(w, in.dst);
  if (!in.plain) {
    if (in.omod || in.clamp)
      applyOutputModifiers(w, in, d);
    mergePartial(w, in, d, old);
  }
  for (unsigned k = 0; k < dwords(in.def->dst); ++k)
    blend(old + k * kRow, d + k * kRow, writable, w.lanes);
}

/// Runs the loop apart from the registers, and writes the lanes that are active; which they are.
__attribute__((noinline)) uint64_t execMasked(Wave &w, const Inst &in, LaneFn lane) {
  Computed c = compute(w, in, lane, w.tmp->dst);
  commit(w, in, w.tmp->dst, c.writable);
  return c.writable;
}

} // namespace

namespace FLYSIM_LEVEL {

void execVop(Wave &w, const Inst &in) {
  const bool whole = in.plain && w.exec() == w.fullMask;
  const uint64_t writable = whole ? compute(w, in, in.lane, row(w, in.dst)).writable : execMasked(w, in, in.lane);
  if (in.def->flags & kCarryOut)
    writeCarry(w, in, writable);
}

/// An instruction of `kSources` sources that is plain and takes them raw, as most are, without the lane mask that it
/// might write besides: by the loop that leaves it out (OpDef::laneResult) if `kResult`. Short, and the loop's call is
/// its last: what an instruction costs apart from its lanes is here.
template <unsigned kSources, bool kResult> static void execPlain(Wave &w, const Inst &in) {
  const LaneFn lane = kResult ? in.def->laneResult : in.lane;
  if (__builtin_expect(w.exec() != w.fullMask || w.fpSpecial, 0)) {
    execMasked(w, in, lane);
    return;
  }
  LaneArgs &a = w.tmp->args;
  a.d = row(w, in.dst);
  a.imm = static_cast<uint32_t>(in.imm);
  a.mode = w.mode;
#pragma GCC unroll 3
  for (unsigned n = 0; n < kSources; ++n)
    a.s[n] = rawSource(w, in, n);
  lane(a);
}

/// The same of products with an addend of 64 bits. LLVM multiplies by the upper halves of strides too, which are zero
/// in scalar registers: what remains is the addend.
static void execMultiplyAdd(Wave &w, const Inst &in) {
  const bool whole = w.exec() == w.fullMask && !w.fpSpecial;
  if (whole && in.src[0].kind == OperandKind::Sgpr && !w.s[in.src[0].reg])
    memmove(row(w, in.dst), rawSource(w, in, 2), 2 * kRow * sizeof(uint32_t));
  else
    execPlain<3, true>(w, in);
}

void execCmp(Wave &w, const Inst &in) {
  Computed c = compute(w, in, in.lane, w.tmp->dst);
  uint64_t bits = packMask(w.tmp->carry, w.lanes) & c.writable;
  writeMask(w, in.sdst, bits);
  if (in.def->flags & kCompareX)
    w.setExec(bits);
}

/// VOPD: both halves read their sources before either writes.
static void execDual(Wave &w, const Inst &in) {
  const Inst &second = *in.ext->second;
  alignas(64) uint32_t first[2 * kRow];
  Computed a = compute(w, in, in.lane, first);
  Computed b = compute(w, second, second.lane, w.tmp->dst);
  commit(w, in, first, a.writable);
  commit(w, second, w.tmp->dst, b.writable);
}

/// v_s_*: one value, whatever EXEC says.
static void execScalarResult(Wave &w, const Inst &in) {
  compute(w, in, in.lane, w.tmp->dst);
  if (in.omod || in.clamp)
    applyOutputModifiers(w, in, w.tmp->dst);
  bool half = in.def->dst == Num::F16;
  write32(w, in.dst, half ? w.tmp->dst[0] & 0xffff : w.tmp->dst[0]);
}

void registerLoops(OpTable &table) {
  table.scalarLoop = execScalarResult;
  table.dual = execDual;
  table.plain = {execPlain<1, false>, execPlain<2, false>, execPlain<3, false>};
  table.plainResult = {execPlain<1, true>, execPlain<2, true>, execMultiplyAdd};
  table.plainCompare = execCmp;
}

} // namespace FLYSIM_LEVEL
} // namespace flysim
