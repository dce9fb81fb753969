//===- ExecInline.h - helpers shared by execution functions ----*- C++ -*-===//
//
// Everything here has internal linkage: these files are compiled once per CPU
// feature level, and the linker must not merge code of different levels.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_EXECINLINE_H
#define FLYSIM_EXEC_EXECINLINE_H

#include "exec/OpTable.h"
#include "exec/Wave.h"
#include "support/Error.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace flysim {
namespace {

template <class To, class From> inline To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

//===--- scalar operands ---------------------------------------------------===//

inline uint32_t specialScalar(const Wave &w, const Operand &o) {
  switch (o.kind) {
  case OperandKind::Scc:
    return w.scc;
  case OperandKind::Vccz:
    return (w.lanes == 32 ? w.s[kVcc] : w.s[kVcc] | w.s[kVcc + 1]) == 0;
  case OperandKind::Execz:
    return w.exec() == 0;
  default:
    return 0;
  }
}

inline uint32_t read32(const Wave &w, const Operand &o) {
  if (o.kind == OperandKind::Sgpr)
    return w.s[o.reg];
  if (o.kind == OperandKind::Const)
    return o.row[0];
  return specialScalar(w, o);
}

inline uint64_t read64(const Wave &w, const Operand &o) {
  if (o.kind == OperandKind::Sgpr) {
    uint64_t v;
    memcpy(&v, &w.s[o.reg], 8);
    return v;
  }
  if (o.kind == OperandKind::Const)
    return o.row[0] | uint64_t(o.row[kRow]) << 32;
  return specialScalar(w, o);
}

inline void write32(Wave &w, const Operand &o, uint32_t v) { w.s[o.reg] = v; }
inline void write64(Wave &w, const Operand &o, uint64_t v) { memcpy(&w.s[o.reg], &v, 8); }

/// A lane mask in SGPRs: 32 bits for wave32, 64 for wave64.
inline uint64_t readMask(const Wave &w, const Operand &o) {
  return w.lanes == 32 ? read32(w, o) : read64(w, o);
}
inline void writeMask(Wave &w, const Operand &o, uint64_t v) {
  if (w.lanes == 32)
    write32(w, o, static_cast<uint32_t>(v));
  else
    write64(w, o, v);
}

/// gfx9: while MODE.GPR_IDX_EN is set, M0[7:0] is added to the register numbers of the
/// operands that M0[15:12] names (source 0, 1, 2, destination).
inline void applyIndexMode(Wave &w) {
  const uint32_t m0 = w.s[w.m0Index];
  const bool on = w.mode >> 27 & 1;
  for (unsigned k = 0; k < 4; ++k)
    w.msb[k] = on && (m0 >> (12 + k) & 1) ? m0 & 0xff : 0;
}

//===--- vector registers --------------------------------------------------===//

inline uint32_t *row(Wave &w, const Operand &o) {
  return w.v + (size_t(o.reg) + w.msb[o.msb]) * kRow;
}

inline void broadcast(uint32_t *d, uint32_t v) {
  for (unsigned i = 0; i < kRow; ++i)
    d[i] = v;
}

/// 0/1 per lane from a lane mask.
inline void expandMask(uint32_t *d, uint64_t mask) {
  uint32_t lo = static_cast<uint32_t>(mask), hi = static_cast<uint32_t>(mask >> 32);
  for (unsigned i = 0; i < 32; ++i)
    d[i] = lo >> i & 1;
  for (unsigned i = 0; i < 32; ++i)
    d[32 + i] = hi >> i & 1;
}

/// A lane mask from 0/1 per lane.
inline uint64_t packMask(const uint32_t *s, unsigned lanes) {
  uint64_t mask = 0;
#if defined(__AVX512F__)
  for (unsigned i = 0; i < lanes; i += 16)
    mask |= uint64_t(_mm512_test_epi32_mask(_mm512_loadu_si512(s + i), _mm512_set1_epi32(1))) << i;
#elif defined(__AVX2__)
  for (unsigned i = 0; i < lanes; i += 8) {
    __m256i r = _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(s + i)), 31);
    mask |= uint64_t(static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(r)))) << i;
  }
#else
  for (unsigned i = 0; i < lanes; ++i)
    mask |= uint64_t(s[i] & 1) << i;
#endif
  return mask;
}

/// Copies the lanes of `mask` from `s` to `d`.
inline void blend(uint32_t *d, const uint32_t *s, uint64_t mask, unsigned lanes) {
  for (unsigned b = 0; b < lanes; b += 32) {
    uint32_t m = static_cast<uint32_t>(mask >> b);
    for (unsigned i = 0; i < 32; ++i)
      d[b + i] = (m >> i & 1) ? s[b + i] : d[b + i];
  }
}

/// The rows of a source operand without modifiers: registers in place, scalars
/// broadcast into `tmp`.
inline const uint32_t *fetchRaw(Wave &w, const Operand &o, unsigned words, uint32_t *tmp) {
  switch (o.kind) {
  case OperandKind::Vgpr:
    return row(w, o);
  case OperandKind::Const:
    if (words <= 2)
      return o.row;
    for (unsigned k = 0; k < words; ++k)
      memcpy(tmp + k * kRow, o.row + (k & 1) * kRow, kRow * 4);
    return tmp;
  case OperandKind::Sgpr:
    for (unsigned k = 0; k < words; ++k)
      broadcast(tmp + k * kRow, w.s[o.reg + k]);
    return tmp;
  default:
    broadcast(tmp, specialScalar(w, o));
    for (unsigned k = 1; k < words; ++k)
      broadcast(tmp + k * kRow, 0);
    return tmp;
  }
}

[[noreturn, maybe_unused]] __attribute__((noinline)) void badAddress(uint64_t addr, unsigned size, bool write,
                                                       int lane) {
  throw Fault{FaultKind::IllegalAddress,
              format("%s of %u bytes at 0x%llx, %s", write ? "write" : "read", size,
                     (unsigned long long)addr, AddressSpace::instance().describe(addr).c_str()),
              lane, addr, size, write};
}

} // namespace
} // namespace flysim

#endif
