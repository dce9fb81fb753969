//===- TensorInline.h - the tensor data mover's descriptors ----*- C++ -*-===//
//
// Used by the operations themselves and by the profiler, which counts what they move.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_TENSORINLINE_H
#define FLYSIM_EXEC_TENSORINLINE_H

#include "exec/Wave.h"

#include <cstring>

namespace flysim {
namespace {

/// The descriptor groups of a tensor transfer, decoded.
struct Tensor {
  bool valid = false, gather = false, wideIndex = false, iterate = false, pad = false,
       barrier = false;
  uint32_t lds = 0, elementBytes = 1, padInterval = 0, padBytes = 0, barrierAt = 0;
  uint64_t global = 0;
  uint64_t dim[5] = {}, tile[5] = {}, stride[5] = {1, 0, 0, 0, 0};
  uint32_t sharers = 0; ///< bits of the work-groups of the cluster that make the same request
  uint32_t iterations = 1, ldsIncrement = 0;
  uint64_t globalIncrement = 0;
  uint32_t index[8] = {};
};

uint64_t bitField(const uint32_t *words, unsigned at, unsigned count) {
  uint64_t v = 0;
  for (unsigned k = 0; k < count; ++k)
    v |= uint64_t(words[(at + k) / 32] >> ((at + k) % 32) & 1) << k;
  return v;
}

Tensor decodeTensor(Wave &w, const Inst &i) {
  uint32_t g0[4] = {}, g1[8] = {}, g2[4] = {}, g3[4] = {};
  auto fetch = [&](const Operand &o, uint32_t *to, unsigned words) {
    if (o.kind == OperandKind::Sgpr)
      memcpy(to, &w.s[o.reg], words * 4);
  };
  fetch(i.src[0], g0, 4);
  fetch(i.src[1], g1, 8);
  fetch(i.src[2], g2, 4);
  fetch(i.data, g3, 4);
  Tensor t;
  t.valid = (g0[0] & 3) != 0;
  t.wideIndex = g0[0] >> 30 & 1;
  t.gather = g0[0] >> 31;
  t.lds = g0[1];
  t.global = bitField(g0, 64, 57);
  t.sharers = g1[0] & 0xffff;
  t.elementBytes = 1u << (g1[0] >> 16 & 3);
  t.barrier = g1[0] >> 18 & 1;
  t.iterate = g1[0] >> 19 & 1;
  t.pad = g1[0] >> 20 & 1;
  t.padInterval = 4u << ((g1[0] >> 22 & 7) + 1);
  t.padBytes = 4 * ((g1[0] >> 25) + 1);
  t.barrierAt = static_cast<uint32_t>(bitField(g1, 32, 16)) << 3;
  t.dim[0] = bitField(g1, 48, 32);
  t.dim[1] = bitField(g1, 80, 32);
  t.tile[0] = bitField(g1, 112, 16);
  t.tile[1] = bitField(g1, 128, 16);
  t.tile[2] = bitField(g1, 144, 16);
  t.stride[1] = bitField(g1, 160, 48);
  t.stride[2] = bitField(g1, 208, 48);
  if (t.gather) {
    memcpy(t.index, g2, 16);
    memcpy(t.index + 4, g3, 16);
    return t;
  }
  t.dim[2] = g2[0];
  if (t.iterate) {
    t.ldsIncrement = g2[1] * t.elementBytes;
    t.globalIncrement = bitField(g2, 64, 48) * t.elementBytes;
    t.iterations = static_cast<uint32_t>(bitField(g2, 112, 16)) + 1;
    return t;
  }
  t.dim[3] = g2[1];
  t.stride[3] = bitField(g2, 64, 48);
  t.tile[3] = bitField(g2, 112, 16);
  t.stride[4] = bitField(g3, 0, 48);
  t.dim[4] = bitField(g3, 48, 32);
  t.tile[4] = bitField(g3, 80, 16);
  return t;
}

/// Calls f(address or 0 when out of bounds, LDS byte) for every element of the tile, in the order
/// of their places in LDS; of those behind `ldsSize`, which are dropped, for the first alone.
template <class F> void forElements(const Tensor &t, uint64_t global, uint32_t lds, bool padded,
                                    uint32_t ldsSize, F f) {
  unsigned rank = 1;
  for (unsigned d = 1; d < 5; ++d)
    if (t.tile[d])
      rank = d + 1;
  uint64_t count[5], at[5] = {}, dense = 0;
  for (unsigned d = 0; d < 5; ++d)
    count[d] = d < rank ? t.tile[d] : 1;
  for (unsigned d = 0; d < rank; ++d)
    if (count[d] == 0)
      return;
  for (;;) {
    bool inside = at[0] < t.dim[0];
    uint64_t offset = at[0];
    for (unsigned d = 1; d < rank; ++d) {
      uint64_t coordinate = at[d];
      if (d == 1 && t.gather) {
        unsigned n = static_cast<unsigned>(at[1]);
        coordinate = t.wideIndex ? t.index[n & 7]
                                 : t.index[n / 2 & 7] >> (16 * (n & 1)) & 0xffff;
      }
      inside &= coordinate < t.dim[d];
      offset += coordinate * t.stride[d];
    }
    uint64_t to = lds + dense + (padded ? dense / t.padInterval * t.padBytes : 0);
    f(inside ? global + offset * t.elementBytes : 0, to);
    if (to >= ldsSize)
      return;
    dense += t.elementBytes;
    unsigned d = 0;
    while (d < rank && ++at[d] == count[d])
      at[d++] = 0;
    if (d == rank)
      return;
  }
}

} // namespace
} // namespace flysim

#endif
