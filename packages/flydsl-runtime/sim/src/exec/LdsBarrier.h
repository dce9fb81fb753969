//===- LdsBarrier.h - barrier objects of gfx1250 in LDS --------*- C++ -*-===//
//
// An object is 64 bits: arrivals still pending [28:0], the phase [31:29], the count of arrivals that
// a phase begins with [60:32]; both counts are one less than the arrivals, since the one that finds
// too few pending ends the phase. Programs wait by reading the phase's lowest bit again and again.
// Descriptions differ; this is what Triton's compiler for gfx1250 stores into it and reads from it.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_LDSBARRIER_H
#define FLYSIM_EXEC_LDSBARRIER_H

#include <cstdint>

namespace flysim {
namespace {

/// The object `cell` after `count` arrivals at once.
inline uint64_t arrived(uint64_t cell, uint64_t count) {
  constexpr uint64_t kCount = (uint64_t(1) << 29) - 1, kPhase = uint64_t(7) << 29;
  uint64_t pending = cell & kCount, phase = cell & kPhase, init = cell >> 32 & kCount;
  if (pending < count) {
    pending = init;
    phase = (phase - (uint64_t(1) << 29)) & kPhase;
  } else {
    pending -= count;
  }
  return (cell & ~uint64_t(0xffffffff)) | phase | pending;
}

} // namespace
} // namespace flysim

#endif
