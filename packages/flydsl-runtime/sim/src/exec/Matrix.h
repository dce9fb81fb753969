//===- Matrix.h - descriptions of the matrix instructions ------*- C++ -*-===//
//
// One table row per instruction (MatrixTable.cpp) and, derived from it, a plan that
// says where the elements of every operand live (MatrixPlan.cpp). The executors know
// no instruction by name.
//
// Executors work on "planes": the elements of one slot of all lanes, 64 in a row, so
// that element `slot` of lane `l` is plane[slot * 64 + l]. Rows of A (columns of B)
// are consecutive lanes in every layout, hence the matrix row i, step k of A is
// plane[a[k] + i] and an output row is a run of N consecutive lanes.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_MATRIX_H
#define FLYSIM_EXEC_MATRIX_H

#include <cstdint>
#include <vector>

namespace flysim {

/// Element formats of matrix operands. Fp8 and Bf8 mean the architecture's variant.
enum class Elem : uint8_t { F64, F32, Xf32, F16, Bf16, Fp8, Bf8, Fp6, Bf6, Fp4, I8, I4, I32 };

constexpr unsigned elemBits(Elem e) {
  switch (e) {
  case Elem::F64:
    return 64;
  case Elem::F32:
  case Elem::Xf32:
  case Elem::I32:
    return 32;
  case Elem::F16:
  case Elem::Bf16:
    return 16;
  case Elem::Fp8:
  case Elem::Bf8:
  case Elem::I8:
    return 8;
  case Elem::Fp6:
  case Elem::Bf6:
    return 6;
  case Elem::Fp4:
  case Elem::I4:
    return 4;
  }
  return 32;
}

/// Instruction families: they fix the operand layouts and the meaning of modifiers.
enum class MatrixFamily : uint8_t {
  Mfma,       ///< gfx9 dense
  MfmaMixed,  ///< gfx950 f8f6f4, optionally with block scales
  Smfmac,     ///< gfx9, A 4:2 sparse
  Wmma3,      ///< gfx11: A and B stand in each 16 lanes, 16-bit results in one half of a register
  Wmma,       ///< gfx1200/gfx1201
  Swmmac,     ///< gfx1200/gfx1201, A 4:2 sparse
  Wmma5,      ///< gfx1250
  Wmma5Mixed, ///< gfx1250 f8f6f4 and f4, optionally with block scales
  Swmmac5,    ///< gfx1250, A 4:2 sparse
};

/// Distinguishes what gfx11 and gfx12 call by the same name.
constexpr const char *kReplicatedSuffix = ".gfx11";

/// One instruction: D (MxN) = A (MxK) * B (KxN) + C, `blocks` times.
struct MatrixDesc {
  const char *name;
  MatrixFamily family;
  uint8_t m, n, k, blocks;
  Elem a, b, c, d;
  uint8_t scaleBlock = 0; ///< k per block scale, 0 without scales

  bool sparse() const {
    return family == MatrixFamily::Smfmac || family == MatrixFamily::Swmmac ||
           family == MatrixFamily::Swmmac5;
  }
  bool gfx9() const {
    return family == MatrixFamily::Mfma || family == MatrixFamily::MfmaMixed ||
           family == MatrixFamily::Smfmac;
  }
  /// Operands stand in every 16 lanes.
  bool replicated() const { return family == MatrixFamily::Wmma3; }
  bool mixed() const {
    return family == MatrixFamily::MfmaMixed || family == MatrixFamily::Wmma5Mixed;
  }
};

/// Where the elements are, for one instruction and wave size.
struct MatrixPlan {
  const MatrixDesc *desc = nullptr;
  unsigned lanes = 64;
  unsigned aSlots = 0, bSlots = 0, cSlots = 0; ///< elements per lane
  std::vector<uint16_t> a, b; ///< per k: plane offset of row (column) 0 of block 0
  std::vector<uint16_t> mixed[3]; ///< the same for 8-, 6- and 4-bit operands of f8f6f4 forms
  std::vector<uint16_t> c;    ///< per block and row: plane offset of column 0

  unsigned aRegs() const { return regs(aSlots, desc->a); }
  unsigned bRegs() const { return regs(bSlots, desc->b); }
  unsigned cRegs() const { return desc->replicated() ? cSlots : regs(cSlots, desc->c); }
  unsigned dRegs() const { return desc->replicated() ? cSlots : regs(cSlots, desc->d); }
  static unsigned regs(unsigned slots, Elem e) { return (slots * elemBits(e) + 31) / 32; }
};

/// Plans of one instruction for both wave sizes.
struct MatrixInst {
  MatrixDesc desc;
  MatrixPlan wave64, wave32;
  const MatrixPlan &plan(unsigned lanes) const { return lanes == 64 ? wave64 : wave32; }
};

/// Every matrix instruction of every architecture.
const std::vector<MatrixInst> &matrixInstructions();

/// Plane offsets of `k` for an operand with `bits` per element and `dim` rows (or
/// columns): the layout tables of the families.
std::vector<uint16_t> operandOffsets(const MatrixDesc &desc, unsigned lanes, unsigned dim,
                                     unsigned steps, unsigned bits);

} // namespace flysim

#endif
