//===- DppLanes.h - the lanes that a DPP control names ---------*- C++ -*-===//
//
// The permutes of the first operand of a vector instruction (ISA documents, "Data Parallel Processing"), from the
// fields of the encoding to a source lane for each lane (InstExt).
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_DECODE_DPPLANES_H
#define FLYSIM_DECODE_DPPLANES_H

#include "exec/Inst.h"

#include <cstdint>

namespace flysim {

/// The fields of DPP16: lanes of a row of 16 permuted by `control`, and which rows and banks are written.
struct Dpp16 {
  uint32_t control, rowMask, bankMask;
  bool boundControl, fetchInactive;
};
void setDpp16(InstExt &ext, const Dpp16 &fields);

/// DPP8: each lane of eight names its source among them, by 3 bits of `selects`.
void setDpp8(InstExt &ext, uint32_t selects, bool fetchInactive);

} // namespace flysim

#endif
