//===- MatrixSums.h - tiles that are sums of products ----------*- C++ -*-===//
#ifndef FLYSIM_EXEC_MATRIXSUMS_H
#define FLYSIM_EXEC_MATRIXSUMS_H

#include "exec/MatrixVector.h"
#include "exec/ProductRun.h"

namespace flysim {
namespace {

/// The planes of the operands of a part, and where its elements are.
struct SumArgs {
  const float *a, *b;
  float *registers;
  const uint16_t *aAt, *bAt; ///< plane offsets per step
  unsigned steps;            ///< of one product
  const uint16_t *at;        ///< places of the rows of a tile
  const ProductPart::Factor *factors;
};

/// Rows from `i` of the columns from `column` on: each element of A is fetched once for all columns.
template <unsigned kRows, unsigned kColumns>
__attribute__((noinline)) void sumRows(const SumArgs &s, const ProductPart::Tile &t, unsigned i, unsigned column) {
  const uint16_t *at = s.at + i;
  F32x16 acc[kColumns][kRows];
#pragma GCC unroll 4
  for (unsigned j = 0; j < kColumns; ++j)
#pragma GCC unroll 16
    for (unsigned r = 0; r < kRows; ++r)
      acc[j][r] = F32x16::load(s.registers + t.d[column + j] + at[r]);
  const uint16_t *aAt = s.aAt, *bAt = s.bAt;
  const unsigned steps = s.steps;
  const ProductPart::Factor *const end = s.factors + t.first + t.count;
  for (const ProductPart::Factor *f = s.factors + t.first; f < end; ++f) {
    const float *rows = s.a + f->a + i, *columns[kColumns];
#pragma GCC unroll 4
    for (unsigned j = 0; j < kColumns; ++j)
      columns[j] = s.b + f->b[column + j];
    auto step = [&](unsigned k) __attribute__((always_inline)) {
      const float *a = rows + aAt[k];
      F32x16 b[kColumns];
#pragma GCC unroll 4
      for (unsigned j = 0; j < kColumns; ++j)
        b[j] = F32x16::load(columns[j] + bAt[k]);
#pragma GCC unroll 16
      for (unsigned r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (unsigned j = 0; j < kColumns; ++j)
          acc[j][r].fma(a[r], b[j]);
    };
    unsigned k = 0;
    for (; k + 4 <= steps; k += 4) {
#pragma GCC unroll 4
      for (unsigned n = 0; n < 4; ++n)
        step(k + n);
    }
    for (; k < steps; ++k)
      step(k);
  }
#pragma GCC unroll 4
  for (unsigned j = 0; j < kColumns; ++j)
    storeRows(acc[j], s.registers + t.d[column + j], at);
}

/// A tile of `m` rows, a multiple of 16.
inline void sumTile(const SumArgs &s, const ProductPart::Tile &t, unsigned m) {
  unsigned column = 0;
#if defined(__AVX512F__)
  // 24 of the 32 vector registers hold sums, or 16.
  for (; column + 4 <= t.columns; column += 4)
    for (unsigned i = 0; i < m; i += 16) {
      sumRows<6, 4>(s, t, i, column);
      sumRows<6, 4>(s, t, i + 6, column);
      sumRows<4, 4>(s, t, i + 12, column);
    }
  for (; column + 2 <= t.columns; column += 2)
    for (unsigned i = 0; i < m; i += 8)
      sumRows<8, 2>(s, t, i, column);
#endif
  for (; column < t.columns; ++column)
    for (unsigned i = 0; i < m; i += kRowsAtOnce)
      sumRows<kRowsAtOnce, 1>(s, t, i, column);
}

} // namespace
} // namespace flysim

#endif
