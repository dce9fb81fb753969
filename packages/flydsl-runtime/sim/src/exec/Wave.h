//===- Wave.h - state of a running wave and work-group ---------*- C++ -*-===//
#ifndef FLYSIM_EXEC_WAVE_H
#define FLYSIM_EXEC_WAVE_H

#include "exec/Inst.h"
#include "memory/Memory.h"

#include <cstdint>
#include <cstring>

namespace flysim {

struct Program;
struct Workgroup;
class ProductRuns;

/// Scalar register file indexes (operand encodings).
enum : unsigned {
  kVcc = 106,
  kTtmp0 = 108,
  kExec = 126,
  kSink = 128, ///< writes to NULL land here
  kFlatScratchBase = 230,
  kSgprFile = 256,
};

enum class WaveState : uint8_t { Running, AtBarrier, Yield, Ended };

/// Scratch rows for operands that cannot be used in place, and what lane loops are called with. One per worker thread.
struct alignas(64) Temps {
  /// For waves of so many lanes.
  void prepare(unsigned lanes) {
    args.carry = carry;
    args.cin = cin;
    args.blocks = lanes / 32;
  }
  uint32_t src[3][4 * kRow];
  uint32_t dst[32 * kRow];
  uint32_t carry[kRow];
  uint32_t cin[kRow];
  uint64_t addr[kRow];
  LaneArgs args;
};

struct Wave {
  uint32_t *v = nullptr; ///< VGPR rows
  uint32_t msb[4] = {0, 0, 0, 0}; ///< row offsets of s_set_vgpr_msb (gfx1250)
  unsigned lanes = 64, blocks = 2;
  uint64_t fullMask = ~0ull;
  uint32_t pc = 0; ///< index of the next instruction
  WaveState state = WaveState::Running;
  bool laneInAperture = false; ///< flat private addresses hold the lane in bits 56:52 (gfx1250)
  bool fpSpecial = false; ///< MODE has a non-default rounding or denormal setting
  uint32_t scc = 0;
  uint32_t mode = 0;
  uint32_t m0Index = 124;
  const Inst *cur = nullptr;
  const Program *program = nullptr;
  Temps *tmp = nullptr;
  AccessCache *mem = nullptr;
  ProductRuns *products = nullptr;
  Workgroup *wg = nullptr;
  uint8_t *scratch = nullptr; ///< lane-major private memory
  uint32_t scratchPerLane = 0;
  uint64_t privateBase = 0; ///< of the buffer descriptor of private memory, where the kernel has one
  unsigned id = 0;
  int barrierWait = 0; ///< barrier id that the wave waits for
  uint32_t barrierDone = 0; ///< completed split barriers not yet waited for, bit = id & 31
  uint32_t joinedBarrier = 0;
  uint64_t executed = 0;
  uint32_t s[kSgprFile] = {};

  /// Active lanes. EXEC_HI can be written in wave32, but means nothing there.
  uint64_t exec() const {
    uint64_t m;
    memcpy(&m, &s[kExec], 8);
    return m & fullMask;
  }
  void setExec(uint64_t m) { memcpy(&s[kExec], &m, 8); }
};

/// A barrier with member and signal counts (work-group and named barriers).
struct Barrier {
  uint32_t members = 0, signals = 0;
  bool valid = false;
};

struct Workgroup {
  uint8_t *lds = nullptr;
  uint32_t ldsSize = 0;
  Wave *waves = nullptr;
  unsigned numWaves = 0;
  uint32_t id[3] = {0, 0, 0};
  Barrier barriers[32]; ///< [0] is the work-group barrier
  Workgroup *cluster = nullptr; ///< the work-groups of the cluster, this one included
  unsigned clusterSize = 1, clusterIndex = 0;
  uint32_t idInCluster[3] = {0, 0, 0}, clusterDims[3] = {1, 1, 1};
};

/// Flat address apertures (high dwords). Any values that user space never maps.
constexpr uint32_t kSharedAperture = 0x80010000u;
constexpr uint32_t kPrivateAperture = 0x80020000u;

} // namespace flysim

#endif
