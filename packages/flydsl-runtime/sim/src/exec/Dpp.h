//===- Dpp.h - lane permutes of the first VALU operand ----------*- C++ -*-===//
#ifndef FLYSIM_EXEC_DPP_H
#define FLYSIM_EXEC_DPP_H

#include "exec/Valu.h"

namespace flysim {
namespace {

/// Rows `s` as the lanes read them through the permute; lanes without a source read 0.
inline const uint32_t *fetchDpp(Wave &w, const InstExt &e, const uint32_t *s, unsigned words,
                                uint32_t *tmp, uint64_t valid) {
  uint32_t out[2 * kRow];
  for (unsigned k = 0; k < words; ++k)
    for (unsigned i = 0; i < w.lanes; ++i)
      out[k * kRow + i] = valid >> i & 1 ? s[k * kRow + (e.perm[i] & (w.lanes - 1))] : 0;
  memcpy(tmp, out, words * kRow * 4);
  return tmp;
}

/// Lanes whose DPP source lane exists and is enabled.
inline uint64_t dppValid(const Wave &w, const InstExt &e) {
  if (e.fi)
    return e.inRange;
  uint64_t exec = w.exec(), valid = 0;
  for (unsigned i = 0; i < w.lanes; ++i)
    if ((e.inRange >> i & 1) && (exec >> (e.perm[i] & (w.lanes - 1)) & 1))
      valid |= 1ull << i;
  return valid;
}

} // namespace
} // namespace flysim

#endif
