//===- MatrixPlan.cpp - operand layouts of the matrix instructions --------===//

#include "exec/Matrix.h"

#include "exec/Inst.h"

namespace flysim {

namespace {

struct Place {
  unsigned group, slot; ///< which run of lanes holds step k, and its element there
};

/// Lane group and slot of step `k`. `groups` runs of lanes share the rows of a block.
Place placeOf(const MatrixDesc &d, unsigned k, unsigned steps, unsigned groups, unsigned bits) {
  unsigned perGroup = steps / groups;
  switch (d.family) {
  case MatrixFamily::MfmaMixed:
    // 8-bit operands are split in chunks of 16, narrower ones are contiguous.
    if (bits == 8)
      return {k / 16 % groups, 16 * (k / (16 * groups)) + k % 16};
    return {k / perGroup, k % perGroup};
  case MatrixFamily::Wmma5:
  case MatrixFamily::Wmma5Mixed:
  case MatrixFamily::Swmmac5: {
    // Chunks of 16 bytes (24 for 6-bit elements) alternate between the lane halves.
    unsigned chunk = bits == 6 ? 32 : 128 / bits;
    if (chunk > perGroup)
      chunk = perGroup;
    return {k / chunk % groups, chunk * (k / (chunk * groups)) + k % chunk};
  }
  default:
    return {k / perGroup, k % perGroup};
  }
}

/// Plane offset of output row `i` of block `b`.
unsigned outputOffset(const MatrixDesc &d, unsigned lanes, unsigned b, unsigned i) {
  if (d.gfx9() && d.c == Elem::F64) {
    if (d.blocks > 1)
      return i * 16 + 4 * b;
    return (i / 4) * kRow + (i % 4) * 16;
  }
  if (d.gfx9()) {
    unsigned rowsAcross = 64 / d.n, blockSize = d.m * d.n;
    unsigned blocksAcross = (64 + blockSize / 4 - 1) / (blockSize / 4);
    unsigned slot = b / blocksAcross * (blockSize / 64) + i / (4 * rowsAcross) * 4 + i % 4;
    if (blocksAcross > 1)
      slot = i % 4;
    return slot * kRow + (b % blocksAcross) * d.n + (i / 4 % rowsAcross) * blocksAcross * d.n;
  }
  if (d.replicated()) { // rows go round the groups of 16 lanes
    unsigned groups = lanes / 16;
    return i / groups * kRow + 16 * (i % groups);
  }
  if (lanes == 64)
    return (i % 4) * kRow + 32 * (i / 4 % 2) + 16 * (i / 8);
  return (i / 16 * 8 + i % 8) * kRow + 16 * (i / 8 % 2);
}

MatrixPlan makePlan(const MatrixDesc &d, unsigned lanes) {
  MatrixPlan p;
  p.desc = &d;
  p.lanes = lanes;
  unsigned aSteps = d.sparse() ? d.k / 2u : d.k;
  unsigned share = d.replicated() ? 16 : lanes; // lanes that share an operand
  p.aSlots = aSteps * d.m * d.blocks / share;
  p.bSlots = unsigned(d.k) * d.n * d.blocks / share;
  p.cSlots = unsigned(d.m) * d.n * d.blocks / lanes;
  if (!d.mixed() && !d.sparse()) {
    p.a = operandOffsets(d, lanes, d.m, d.k, elemBits(d.a));
    p.b = operandOffsets(d, lanes, d.n, d.k, elemBits(d.b));
  }
  if (d.mixed())
    for (unsigned f = 0; f < 3; ++f)
      p.mixed[f] = operandOffsets(d, lanes, d.n, d.k, 8 - 2 * f);
  for (unsigned b = 0; b < d.blocks; ++b)
    for (unsigned i = 0; i < d.m; ++i)
      p.c.push_back(static_cast<uint16_t>(outputOffset(d, lanes, b, i)));
  return p;
}

} // namespace

std::vector<uint16_t> operandOffsets(const MatrixDesc &d, unsigned lanes, unsigned dim,
                                     unsigned steps, unsigned bits) {
  unsigned stride = dim * d.blocks, groups = d.replicated() ? 1 : lanes / stride;
  std::vector<uint16_t> at;
  for (unsigned k = 0; k < steps; ++k) {
    Place p = placeOf(d, k, steps, groups, bits);
    at.push_back(static_cast<uint16_t>(p.slot * kRow + p.group * stride));
  }
  return at;
}

std::vector<MatrixDesc> matrixTable();

const std::vector<MatrixInst> &matrixInstructions() {
  static const std::vector<MatrixInst> all = [] {
    std::vector<MatrixInst> v;
    for (const MatrixDesc &d : matrixTable())
      v.push_back(MatrixInst{d, MatrixPlan(), MatrixPlan()});
    for (MatrixInst &m : v) {
      if (m.desc.family != MatrixFamily::Wmma5 && m.desc.family != MatrixFamily::Wmma5Mixed &&
          m.desc.family != MatrixFamily::Swmmac5)
        m.wave64 = makePlan(m.desc, 64);
      if (!m.desc.gfx9())
        m.wave32 = makePlan(m.desc, 32);
    }
    return v;
  }();
  return all;
}

} // namespace flysim
