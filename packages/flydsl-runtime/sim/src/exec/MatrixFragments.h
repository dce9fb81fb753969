//===- MatrixFragments.h - operands that were unpacked before --*- C++ -*-===//
#ifndef FLYSIM_EXEC_MATRIXFRAGMENTS_H
#define FLYSIM_EXEC_MATRIXFRAGMENTS_H

#include "exec/MatrixUnpack.h"

#include <cstring>
#include <memory>

namespace flysim {
namespace {

/// What besides the bits of its registers decides about the planes of a fragment.
struct FragmentForm {
  Elem format;
  bool variant; ///< FNUZ encodings of floats, signed integers
  uint8_t lanes;
  uint8_t regs; ///< registers of a lane
  bool operator==(const FragmentForm &o) const {
    return format == o.format && variant == o.variant && lanes == o.lanes && regs == o.regs;
  }
};

/// Planes of fragments, kept with the registers that they came from. Products share their fragments, and
/// seeing that the bits are those of before takes a fraction of the time of unpacking them. Bits are all
/// that counts, so whatever writes registers need not know of this.
class Fragments {
public:
  /// The planes of the fragment in `rows`, whose first register is `reg`; made with `unpack(planes)`
  /// unless they are known. They stay until the next call.
  template <class T, class Unpack>
  const T *planes(FragmentForm wanted, unsigned reg, const uint32_t *rows, Unpack unpack) {
    static_assert(sizeof(T) == sizeof(uint32_t), "planes are made of dwords");
    if (!(form == wanted)) {
      form = wanted;
      filled = 0;
    }
    // Side by side, whatever their size: those of a loop fit the nearest cache of the host.
    const unsigned place = reg / form.regs % kPlaces;
    const size_t size = size_t(form.regs) * kRow, bytes = size * sizeof(uint32_t);
    uint32_t *known = knownRows + place * size;
    auto *planes = reinterpret_cast<T *>(knownPlanes + place * size * (32 / elemBits(form.format)));
    if (filled >> place & 1 && !memcmp(known, rows, bytes))
      return planes;
    memcpy(known, rows, bytes);
    filled |= 1u << place;
    unpack(planes);
    return planes;
  }

  /// Those of the calling thread, for A (0) and B (1): the two operands of a product are in use together.
  static Fragments &ofThread(unsigned side) {
    static thread_local std::unique_ptr<Fragments[]> sides{new Fragments[2]};
    return sides[side];
  }

private:
  static constexpr unsigned kPlaces = 16;
  static constexpr unsigned kMostRegs = 16, kMostPlanes = 64; ///< of a fragment of any instruction
  FragmentForm form{Elem::F32, false, 0, 0}; ///< of all that are kept; no instruction has 0 registers
  uint32_t filled = 0;                       ///< places in use
  alignas(64) uint32_t knownRows[kPlaces * kMostRegs * kRow];
  alignas(64) uint32_t knownPlanes[kPlaces * kMostPlanes * kRow];
};

} // namespace
} // namespace flysim

#endif
