//===- MatrixSparse.cpp - SMFMAC and SWMMAC -------------------------------===//
//
// A keeps two of every four consecutive k. The elements 2q and 2q+1 of a lane meet
// B's elements 4q+x and 4q+y of the same lane group, where x and y are the two-bit
// fields of nibble q of the lane's index.
//
//===----------------------------------------------------------------------===//

#include "exec/MatrixExec.h"
#include "exec/MatrixInline.h"
#include "exec/MatrixVector.h"
#include "exec/Register.h"

namespace flysim {
namespace {

constexpr unsigned kMaxSteps = 64; ///< kept elements per row
constexpr unsigned kMaxRows = 32;

/// Which elements meet, per kept element and row.
struct Pairs {
  unsigned steps = 0;
  uint16_t a[kMaxSteps];           ///< plane offset of row 0
  uint16_t b[kMaxSteps][kMaxRows]; ///< plane offset of column 0
};

/// The index VGPR: the source of its own name on gfx9, src2 on gfx12.
const Operand &indexOperand(const Inst &in) {
  return in.ext && in.ext->index ? in.ext->index : in.src[2];
}

void findPairs(Wave &w, const Inst &in, const MatrixPlan &p, Pairs &out) {
  const MatrixDesc &d = *p.desc;
  const uint32_t *index = row(w, indexOperand(in));
  unsigned bits = 2 * p.aSlots, available = bits > 32 ? 64 : 32;
  unsigned key = !in.ext ? 0 : d.gfx9() ? (in.ext->cbsz ? 0u : in.ext->abid) : in.ext->indexKey;
  unsigned shift = key * bits % available;
  unsigned groups = p.lanes / d.m;
  for (unsigned g = 0; g < groups; ++g)
    for (unsigned s = 0; s < p.aSlots; ++s, ++out.steps) {
      out.a[out.steps] = static_cast<uint16_t>(s * kRow + g * d.m);
      for (unsigned i = 0; i < d.m; ++i) {
        unsigned lane = g * d.m + i;
        uint64_t word = index[lane];
        if (available == 64)
          word |= uint64_t(index[kRow + lane]) << 32;
        unsigned slot = s / 2 * 4 + (word >> (shift + 2 * s) & 3);
        out.b[out.steps][i] = static_cast<uint16_t>(slot * kRow + g * d.n);
      }
    }
}

template <class RowT, class T>
void multiply(const MatrixPlan &p, const Pairs &pairs, const T *a, const T *b, const T *c, T *d) {
  constexpr unsigned kRows = 4;
  for (unsigned j = 0; j < p.desc->n; j += 16)
    for (unsigned i = 0; i < p.desc->m; i += kRows) {
      RowT acc[kRows];
#pragma GCC unroll 4
      for (unsigned r = 0; r < kRows; ++r)
        acc[r] = RowT::load(c + p.c[i + r] + j);
      for (unsigned k = 0; k < pairs.steps; ++k) {
        const T *x = a + pairs.a[k] + i;
#pragma GCC unroll 4
        for (unsigned r = 0; r < kRows; ++r)
          acc[r].fma(x[r], RowT::load(b + pairs.b[k][i + r] + j));
      }
#pragma GCC unroll 4
      for (unsigned r = 0; r < kRows; ++r)
        acc[r].store(d + p.c[i + r] + j);
    }
}

void sparseFloat(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) float a[32 * kRow], b[64 * kRow];
  alignas(64) uint32_t c[16 * kRow];
  Pairs pairs;
  findPairs(w, in, p, pairs);
  unpackFloat(d.a, fnuzFloats(w), a, row(w, in.src[0]), p.aSlots, p.lanes);
  unpackFloat(d.b, fnuzFloats(w), b, row(w, in.src[1]), p.bSlots, p.lanes);
  if (!d.gfx9() && elemBits(d.a) == 16 && ((in.negLo | in.negHi) & 3)) {
    negateHalves(in, 0, a, p.aSlots);
    negateHalves(in, 1, b, p.bSlots);
  }
  Accumulator acc(w, in, p, in.dst, c);
  multiply<F32x16>(p, pairs, a, b, reinterpret_cast<const float *>(acc.c()),
                   reinterpret_cast<float *>(acc.d()));
  acc.finish();
}

/// Elements as 16-bit values with an empty upper half, as I32x16 wants them.
void unpackSingle(Elem e, bool isSigned, int32_t *planes, const uint32_t *rows, unsigned slots,
                  unsigned lanes) {
  for (unsigned s = 0; s < slots; ++s)
    for (unsigned l = 0; l < lanes; ++l)
      planes[s * kRow + l] = integerAt(e, isSigned, rows, l, s) & 0xffff;
}

/// One element at a time, for the clamp bit: only the final sum saturates.
void saturated(const MatrixPlan &p, const Pairs &pairs, const int32_t *a, const int32_t *b,
               const uint32_t *c, uint32_t *d) {
  for (unsigned i = 0; i < p.desc->m; ++i)
    for (unsigned j = 0; j < p.desc->n; ++j) {
      int64_t sum = static_cast<int32_t>(c[p.c[i] + j]);
      for (unsigned k = 0; k < pairs.steps; ++k)
        sum += int16_t(a[pairs.a[k] + i]) * int16_t(b[pairs.b[k][i] + j]);
      sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      d[p.c[i] + j] = static_cast<uint32_t>(sum);
    }
}

void sparseInt(Wave &w, const Inst &in) {
  const MatrixPlan &p = planOf(w, in);
  const MatrixDesc &d = *p.desc;
  alignas(64) int32_t a[32 * kRow], b[64 * kRow];
  alignas(64) uint32_t c[16 * kRow];
  Pairs pairs;
  findPairs(w, in, p, pairs);
  bool signA = d.gfx9() || (in.negLo & 1), signB = d.gfx9() || (in.negLo & 2);
  unpackSingle(d.a, signA, a, row(w, in.src[0]), p.aSlots, p.lanes);
  unpackSingle(d.b, signB, b, row(w, in.src[1]), p.bSlots, p.lanes);
  Accumulator acc(w, in, p, in.dst, c);
  if (in.clamp)
    return saturated(p, pairs, a, b, acc.c(), acc.d());
  multiply<I32x16>(p, pairs, a, b, reinterpret_cast<const int32_t *>(acc.c()),
                   reinterpret_cast<int32_t *>(acc.d()));
}

} // namespace

ExecFn FLYSIM_LEVEL::sparseExecutor(const MatrixDesc &d) {
  return d.c == Elem::I32 ? sparseInt : sparseFloat;
}

} // namespace flysim
