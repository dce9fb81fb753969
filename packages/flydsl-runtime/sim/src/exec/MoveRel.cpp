//===- MoveRel.cpp - register indexing by M0, permutes across lanes -------===//

#include "exec/Dpp.h"
#include "exec/Register.h"
#include "exec/Valu.h"

#include "decode/Program.h"

namespace flysim {
namespace {

uint32_t m0(const Wave &w) { return w.s[w.m0Index]; }

[[noreturn]] void badIndex(const char *file, uint64_t index) {
  raise(FaultKind::IllegalAddress, format("relative move of %s register %llu, which does not exist",
                                          file, (unsigned long long)index));
}

//===--- scalar ------------------------------------------------------------===//

/// SGPR `base` + `index`, checked for `words` registers.
unsigned scalarAt(const Operand &o, uint32_t index, unsigned words) {
  uint64_t at = uint64_t(o.reg) + index;
  if (at + words > 106)
    badIndex("scalar", at);
  return static_cast<unsigned>(at);
}

template <unsigned words, bool relSource, bool relDest> void scalarMove(Wave &w, const Inst &i) {
  uint32_t value[2] = {};
  if (relSource)
    memcpy(value, &w.s[scalarAt(i.src[0], m0(w), words)], words * 4);
  else if (words == 2)
    memcpy(value, std::initializer_list<uint64_t>{read64(w, i.src[0])}.begin(), 8);
  else
    value[0] = read32(w, i.src[0]);
  unsigned at = relDest ? scalarAt(i.dst, m0(w), words) : i.dst.reg;
  memcpy(&w.s[at], value, words * 4);
}

void scalarMove2(Wave &w, const Inst &i) {
  uint32_t value = w.s[scalarAt(i.src[0], m0(w) & 0x3ff, 1)];
  w.s[scalarAt(i.dst, m0(w) >> 16 & 0x3ff, 1)] = value;
}

//===--- vector ------------------------------------------------------------===//

uint32_t *rowAt(Wave &w, const Operand &o, uint32_t index) {
  uint64_t at = uint64_t(o.reg) + w.msb[o.msb] + index;
  // a0 is row 256 of the gfx9 file: relative moves stay below it.
  uint64_t limit = w.program->arch->has.vgprMsb ? 1024 : 256;
  if (at >= limit)
    badIndex("vector", at);
  return w.v + at * kRow;
}

void copyActive(Wave &w, uint32_t *d, const uint32_t *s) { blend(d, s, w.exec(), w.lanes); }

/// Copies a register in the active lanes; a DPP form permutes the lanes of the source that
/// the index has chosen.
void move(Wave &w, const Inst &i, uint32_t *d, const uint32_t *s) {
  if (!i.ext || !i.ext->dpp)
    return copyActive(w, d, s);
  const InstExt &e = *i.ext;
  uint64_t valid = dppValid(w, e), writable = w.exec() & e.writable;
  s = fetchDpp(w, e, s, 1, w.tmp->src[0], valid);
  blend(d, s, e.boundCtrl ? writable : writable & valid, w.lanes);
}

void movrels(Wave &w, const Inst &i) { move(w, i, row(w, i.dst), rowAt(w, i.src[0], m0(w))); }
void movreld(Wave &w, const Inst &i) {
  move(w, i, rowAt(w, i.dst, m0(w)), fetchRaw(w, i.src[0], 1, w.tmp->src[0]));
}
void movrelsd(Wave &w, const Inst &i) {
  move(w, i, rowAt(w, i.dst, m0(w)), rowAt(w, i.src[0], m0(w)));
}
void movrelsd2(Wave &w, const Inst &i) {
  move(w, i, rowAt(w, i.dst, m0(w) >> 16 & 0x3ff), rowAt(w, i.src[0], m0(w) & 0x3ff));
}
void swaprel(Wave &w, const Inst &i) {
  uint32_t *d = rowAt(w, i.dst, m0(w) >> 16 & 0x3ff), *s = rowAt(w, i.src[0], m0(w) & 0x3ff);
  uint32_t old[kRow];
  memcpy(old, d, sizeof old);
  copyActive(w, d, s);
  copyActive(w, s, old);
}

void indexOn(Wave &w, const Inst &i) {
  uint32_t operands = i.src[1] ? read32(w, i.src[1]) : 0;
  w.mode |= 1u << 27;
  w.s[w.m0Index] = (m0(w) & ~0xf0ffu) | (read32(w, i.src[0]) & 0xff) | (operands & 15) << 12;
  applyIndexMode(w);
}
void indexOff(Wave &w, const Inst &) {
  w.mode &= ~(1u << 27);
  applyIndexMode(w);
}
void indexMode(Wave &w, const Inst &i) {
  w.s[w.m0Index] = (m0(w) & ~0xf000u) | static_cast<uint32_t>(i.imm & 15) << 12;
  applyIndexMode(w);
}
void indexIndex(Wave &w, const Inst &i) {
  w.s[w.m0Index] = (m0(w) & ~0xffu) | (read32(w, i.src[0]) & 0xff);
  applyIndexMode(w);
}

//===--- permutes ----------------------------------------------------------===//

/// v_permlane(x)16_var: each lane names its source within the row (or the other row).
template <unsigned cross> void permlaneVar(Wave &w, const Inst &i) {
  uint32_t out[kRow], data[kRow];
  memcpy(data, fetchRaw(w, i.src[0], 1, w.tmp->src[0]), sizeof data);
  const uint32_t *sel = fetchRaw(w, i.src[1], 1, w.tmp->src[1]);
  uint64_t exec = w.exec(), write = exec;
  bool fetchInactive = i.opSel & 1, bound = i.opSel & 2;
  for (unsigned l = 0; l < w.lanes; ++l) {
    unsigned s = ((l & ~15u) ^ cross) | (sel[l] & 15);
    bool active = fetchInactive || (exec >> s & 1);
    out[l] = active ? data[s] : 0;
    if (!active && !bound)
      write &= ~(uint64_t(1) << l);
  }
  blend(row(w, i.dst), out, write, w.lanes);
}

enum class Shuffle { Bcast, Up, Down, Xor };

/// v_permlane_{bcast,up,down,xor}_b32 of gfx1250: shuffles within groups of src2 lanes
/// by the offset (or lane) src1. A lane whose partner lies outside keeps its own value.
template <Shuffle kind> void permlaneGroup(Wave &w, const Inst &i) {
  uint32_t out[kRow], data[kRow];
  memcpy(data, fetchRaw(w, i.src[0], 1, w.tmp->src[0]), sizeof data);
  const uint32_t *offsets = fetchRaw(w, i.src[1], 1, w.tmp->src[1]);
  const uint32_t *widths = fetchRaw(w, i.src[2], 1, w.tmp->src[2]);
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t width = widths[l] == 0 || widths[l] > w.lanes ? w.lanes : widths[l];
    uint32_t base = l / width * width, in = l - base, k = offsets[l], s = in;
    switch (kind) {
    case Shuffle::Bcast:
      s = k % width;
      break;
    case Shuffle::Up:
      s = k <= in ? in - k : in;
      break;
    case Shuffle::Down:
      s = k < width - in ? in + k : in;
      break;
    case Shuffle::Xor:
      s = (in ^ k) < width ? in ^ k : in;
      break;
    }
    out[l] = data[(base + s) & (w.lanes - 1)];
  }
  blend(row(w, i.dst), out, w.exec(), w.lanes);
}

/// v_permlane_idx_gen_b32: the lane number that src0 selects within the lane's group of
/// src1 lanes.
void permlaneIndex(Wave &w, const Inst &i) {
  uint32_t out[kRow];
  const uint32_t *sel = fetchRaw(w, i.src[0], 1, w.tmp->src[0]);
  const uint32_t *widths = fetchRaw(w, i.src[1], 1, w.tmp->src[1]);
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t width = widths[l] == 0 || widths[l] > w.lanes ? w.lanes : widths[l];
    out[l] = l / width * width + sel[l] % width;
  }
  blend(row(w, i.dst), out, w.exec(), w.lanes);
}

/// v_perm_pk16_b*_u4: sixteen 4-bit selectors in src2 pick elements of `bits` bits from
/// the table {src0, src1} (src1 holds the low elements).
template <unsigned bits> void permPk16(Wave &w, const Inst &i) {
  constexpr unsigned words = bits / 2;
  constexpr unsigned highWords = bits == 8 ? 2 : 1, lowWords = words - highWords;
  const uint32_t *high = fetchRaw(w, i.src[0], highWords, w.tmp->src[0]);
  const uint32_t *low = fetchRaw(w, i.src[1], lowWords, w.tmp->src[1]);
  const uint32_t *sel = fetchRaw(w, i.src[2], 2, w.tmp->src[2]);
  uint32_t *out = w.tmp->dst;
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t table[5] = {}, result[5] = {};
    for (unsigned k = 0; k < words; ++k)
      table[k] = k < lowWords ? low[k * kRow + l] : high[(k - lowWords) * kRow + l];
    for (unsigned e = 0; e < 16; ++e) {
      unsigned from = (sel[e / 8 * kRow + l] >> (4 * (e % 8)) & 15) * bits, to = e * bits;
      uint64_t pair = table[from / 32] | uint64_t(table[from / 32 + 1]) << 32;
      uint64_t value = (pair >> (from % 32) & ((1u << bits) - 1)) << (to % 32);
      result[to / 32] |= static_cast<uint32_t>(value);
      result[to / 32 + 1] |= static_cast<uint32_t>(value >> 32);
    }
    for (unsigned k = 0; k < words; ++k)
      out[k * kRow + l] = result[k];
  }
  for (unsigned k = 0; k < words; ++k)
    blend(row(w, i.dst) + k * kRow, out + k * kRow, w.exec(), w.lanes);
}

} // namespace

void FLYSIM_LEVEL::registerMoveRel(OpTable &t) {
  auto add = [&](const char *name, ExecFn exec, unsigned nsrc = 0, uint32_t flags = 0) {
    OpDef d;
    d.exec = exec;
    d.dst = nsrc ? Num::B32 : Num::None;
    d.nsrc = static_cast<uint8_t>(nsrc);
    for (unsigned n = 0; n < nsrc; ++n)
      d.src[n] = Num::B32;
    d.flags = flags;
    t.add(name, d);
  };
  add("s_movrels_b32", scalarMove<1, true, false>);
  add("s_movrels_b64", scalarMove<2, true, false>);
  add("s_movreld_b32", scalarMove<1, false, true>);
  add("s_movreld_b64", scalarMove<2, false, true>);
  add("s_movrelsd_2_b32", scalarMove2);
  add("s_set_gpr_idx_on", indexOn, 0, kIndexes);
  add("s_set_gpr_idx_off", indexOff);
  add("s_set_gpr_idx_mode", indexMode);
  add("s_set_gpr_idx_idx", indexIndex);
  add("v_movrels_b32", movrels, 1, kPermutes);
  add("v_movreld_b32", movreld, 1, kPermutes);
  add("v_movrelsd_b32", movrelsd, 1, kPermutes);
  add("v_movrelsd_2_b32", movrelsd2, 1, kPermutes);
  add("v_swaprel_b32", swaprel, 1);
  add("v_permlane16_var_b32", permlaneVar<0>, 2);
  add("v_permlanex16_var_b32", permlaneVar<16>, 2);
  add("v_permlane_bcast_b32", permlaneGroup<Shuffle::Bcast>, 3, kUncertain);
  add("v_permlane_up_b32", permlaneGroup<Shuffle::Up>, 3, kUncertain);
  add("v_permlane_down_b32", permlaneGroup<Shuffle::Down>, 3, kUncertain);
  add("v_permlane_xor_b32", permlaneGroup<Shuffle::Xor>, 3, kUncertain);
  add("v_permlane_idx_gen_b32", permlaneIndex, 2, kUncertain);
  add("v_perm_pk16_b4_u4", permPk16<4>, 3, kUncertain);
  add("v_perm_pk16_b6_u4", permPk16<6>, 3, kUncertain);
  add("v_perm_pk16_b8_u4", permPk16<8>, 3, kUncertain);
}

} // namespace flysim
