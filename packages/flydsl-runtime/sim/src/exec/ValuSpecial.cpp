//===- ValuSpecial.cpp - cross-lane operations ----------------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

namespace flysim {
namespace {

using u32 = uint32_t;

uint32_t laneOf(const Wave &w, uint32_t v) { return v & (w.lanes - 1); }

/// Row of a source; scalars are broadcast.
const uint32_t *source(Wave &w, const Inst &i, unsigned n) {
  return fetchRaw(w, i.src[n], 1, w.tmp->src[n]);
}

uint32_t scalarOrLane0(Wave &w, const Operand &o) {
  return o.kind == OperandKind::Vgpr ? row(w, o)[0] : read32(w, o);
}

void readlane(Wave &w, const Inst &i) {
  uint32_t lane = laneOf(w, scalarOrLane0(w, i.src[1]));
  write32(w, i.dst, source(w, i, 0)[lane]);
}

void readfirstlane(Wave &w, const Inst &i) {
  uint64_t exec = w.exec();
  unsigned lane = exec ? static_cast<unsigned>(__builtin_ctzll(exec)) : 0;
  write32(w, i.dst, source(w, i, 0)[lane]);
}

void writelane(Wave &w, const Inst &i) {
  row(w, i.dst)[laneOf(w, read32(w, i.src[1]))] = read32(w, i.src[0]);
}

/// Bits of src0 that belong to lanes below each lane, counted and added to src1.
template <unsigned half> void mbcnt(const LaneArgs &a) {
  FLYSIM_LANES(u32 below = half ? (i < 32 ? 0u : (1u << (i - 32)) - 1)
                                : (i < 32 ? (1u << i) - 1 : ~0u);
               a.d[i] = u32(__builtin_popcount(a.s[0][i] & below)) + a.s[1][i];);
}

/// v_permlane16 / permlanex16: op_sel[0] is fetch-inactive, op_sel[1] bound_ctrl.
template <unsigned cross> void permlane16(Wave &w, const Inst &i) {
  uint32_t out[kRow], data[kRow];
  memcpy(data, source(w, i, 0), sizeof data);
  const uint32_t *lo = source(w, i, 1), *hi = source(w, i, 2);
  uint64_t exec = w.exec(), write = exec;
  bool fetchInactive = i.opSel & 1, bound = i.opSel & 2;
  for (unsigned l = 0; l < w.lanes; ++l) {
    unsigned k = l & 15, sel = (k < 8 ? lo[l] >> (4 * k) : hi[l] >> (4 * (k - 8))) & 15;
    unsigned s = ((l & ~15u) ^ cross) | sel;
    bool active = fetchInactive || (exec >> s & 1);
    out[l] = active ? data[s] : 0;
    if (!active && !bound)
      write &= ~(uint64_t(1) << l);
  }
  blend(row(w, i.dst), out, write, w.lanes);
}

/// Swaps the halves of wave64; in wave32 the instruction does nothing.
void permlane64(Wave &w, const Inst &i) {
  if (w.lanes == 32)
    return;
  uint32_t out[kRow];
  const uint32_t *a = source(w, i, 0);
  for (unsigned l = 0; l < w.lanes; ++l)
    out[l] = a[l ^ 32];
  blend(row(w, i.dst), out, w.exec(), w.lanes);
}

/// v_permlane{16,32}_swap: odd rows of the destination with even rows of the source.
template <unsigned width> void permlaneSwap(Wave &w, const Inst &i) {
  uint32_t *d = row(w, i.dst), *s = row(w, i.src[0]);
  uint64_t exec = w.exec();
  for (unsigned l = 0; l < w.lanes; ++l) {
    unsigned high = l | width;
    if ((l & width) || high >= w.lanes || !(exec >> l & 1) || !(exec >> high & 1))
      continue;
    uint32_t t = d[high];
    d[high] = s[l];
    s[l] = t;
  }
}

void swap(Wave &w, const Inst &i) {
  uint32_t *d = row(w, i.dst), *s = row(w, i.src[0]);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint32_t t = d[l];
    d[l] = s[l];
    s[l] = t;
  }
}

/// v_swap_b16: halves chosen by op_sel bit 3 (destination) and 0 (source).
void swapHalf(Wave &w, const Inst &i) {
  uint32_t *d = row(w, i.dst), *s = row(w, i.src[0]);
  unsigned dShift = i.opSel & 8 ? 16 : 0, sShift = i.opSel & 1 ? 16 : 0;
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint32_t a = d[l] >> dShift & 0xffff, b = s[l] >> sShift & 0xffff;
    d[l] = (d[l] & ~(0xffffu << dShift)) | b << dShift;
    s[l] = (s[l] & ~(0xffffu << sShift)) | a << sShift;
  }
}

/// v_bitop3: the immediate is the truth table, indexed by 4 * src0 + 2 * src1 + src2.
void bitop3(const LaneArgs &a) {
  u32 table[8];
  for (unsigned k = 0; k < 8; ++k)
    table[k] = a.imm >> k & 1 ? ~0u : 0;
  FLYSIM_LANES(
      u32 x = a.s[0][i]; u32 y = a.s[1][i]; u32 z = a.s[2][i];
      u32 low = (~y & ((~z & table[0]) | (z & table[1]))) | (y & ((~z & table[2]) | (z & table[3])));
      u32 high = (~y & ((~z & table[4]) | (z & table[5]))) | (y & ((~z & table[6]) | (z & table[7])));
      a.d[i] = (~x & low) | (x & high););
}

} // namespace

void FLYSIM_LEVEL::registerValuSpecial(OpTable &t) {
  auto add = [&](const char *name, ExecFn exec, unsigned nsrc) {
    OpDef d;
    d.exec = exec;
    d.dst = Num::B32;
    d.nsrc = static_cast<uint8_t>(nsrc);
    for (unsigned n = 0; n < nsrc; ++n)
      d.src[n] = Num::B32;
    t.add(name, d);
  };
  add("v_readlane_b32", readlane, 2);
  add("v_readfirstlane_b32", readfirstlane, 1);
  add("v_writelane_b32", writelane, 2);
  add("v_permlane16_b32", permlane16<0>, 3);
  add("v_permlanex16_b32", permlane16<16>, 3);
  add("v_permlane64_b32", permlane64, 1);
  add("v_permlane16_swap_b32", permlaneSwap<16>, 1);
  add("v_permlane32_swap_b32", permlaneSwap<32>, 1);
  add("v_swap_b32", swap, 1);
  add("v_swap_b16", swapHalf, 1);
  auto lanes = [&](const char *name, LaneFn lane, unsigned nsrc, Num type) {
    OpDef d;
    d.exec = execVop; // the generic path: these have DPP and op_sel forms
    d.lane = lane;
    d.dst = type;
    d.nsrc = static_cast<uint8_t>(nsrc);
    for (unsigned n = 0; n < nsrc; ++n)
      d.src[n] = type;
    t.add(name, d);
  };
  lanes("v_mbcnt_lo_u32_b32", mbcnt<0>, 2, Num::B32);
  lanes("v_mbcnt_hi_u32_b32", mbcnt<1>, 2, Num::B32);
  lanes("v_bitop3_b32", bitop3, 3, Num::B32);
  lanes("v_bitop3_b16", bitop3, 3, Num::U16);
}

} // namespace flysim
