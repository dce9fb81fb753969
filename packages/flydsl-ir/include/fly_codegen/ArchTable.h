//===- ArchTable.h - What each AMD GPU architecture has ---------*- C++ -*-===//
//
// The one table of architecture facts of this package. Code that depends on the target asks the
// table for a feature or a limit and never compares architecture names.
//
//===----------------------------------------------------------------------===//
#ifndef FLY_CODEGEN_ARCHTABLE_H
#define FLY_CODEGEN_ARCHTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <string>

namespace mlir::fly {

/// Instruction groups and conventions an architecture may have. The names printed by
/// `archFeatureName` are what Python and pass options see.
enum class ArchFeature : unsigned {
  MFMA,             ///< wave64 matrix instructions of f32, f16 and bf16 (the _1k forms)
  MFMAHalfK,        ///< int8 and bf16 forms of CDNA2 with half the depth of their successors
  MFMA8Bit,         ///< fp8, bf8 and int8 forms of CDNA3: 16x16x32, 32x32x16
  MFMAWideK,        ///< double-K f16/bf16 forms of CDNA4
  MFMAScale,        ///< MX-scaled f8f6f4 matrix instructions, wave64
  WMMAGfx11,        ///< RDNA3 wave matrix instructions
  WMMAGfx120x,      ///< RDNA4 wave matrix instructions
  WMMAGfx1250,      ///< gfx1250 wave matrix instructions
  WMMAScale,        ///< MX-scaled wave matrix instructions, wave32
  BufferRsrcRDNA,   ///< buffer descriptor with the RDNA flag layout
  BufferChecksAll,  ///< buffer accesses are checked against the size in bytes, whatever the flags say
  BufferLdsDMA32,   ///< buffer load to LDS, 4 bytes a lane
  BufferLdsDMA128,  ///< buffer load to LDS, 12 and 16 bytes a lane
  LdsReadTranspose, ///< ds_read_*_tr_*
  LdsLoadTranspose, ///< ds_load_tr*
  AsyncLdsCopy,     ///< global_load_async_to_lds_*, with a wait counter of its own
  TensorDataMover,  ///< tensor_load_to_lds / tensor_store_from_lds
  Clusters,         ///< workgroup clusters
  SplitBarriers,    ///< s_barrier_signal and s_barrier_wait in place of s_barrier; s_sleep_var
  NamedBarriers,    ///< barriers of some waves of a workgroup
  SplitWaitCounters,///< s_wait_loadcnt and relatives in place of s_waitcnt
  LegacyWaitCounter,///< s_waitcnt
  AtomicSubClamp,   ///< atomics that subtract down to zero
  Graphics,         ///< exports, the stack of ray tracing
  FP8IsFNUZ,        ///< 8-bit floats use the FNUZ encodings
  ConvertFP8,       ///< v_cvt_* between f32 and fp8, bf8
  ConvertScaled2,   ///< v_cvt_scalef32_pk_*: two fp4, fp8, bf8 and f16, bf16, f32, with a scale
  ConvertScaled8,   ///< v_cvt_scale_pk8_*: eight of them
  RowPermutes,      ///< v_permlane16, v_permlanex16 and row_xmask of DPP
  RowSwaps,         ///< v_permlane16_swap, v_permlane32_swap
  NativeTanh,       ///< v_tanh
  NativeBF16Arith,  ///< packed bf16 arithmetic
  TrapIsLoop,       ///< s_trap is none in privileged waves: LLVM puts a loop in its place
  VGPRBanks,        ///< a mode says which 256 of a wave's registers instructions name
  XdlArbitration,   ///< a mode in which matrix instructions issue without the arbitration stall
  NumFeatures
};

/// One architecture. Sizes are bytes unless named otherwise.
struct ArchInfo {
  const char *name;
  const char *family;
  uint32_t waveSize;               ///< lanes in a wave of compiled kernels
  uint32_t ldsBytes;               ///< largest LDS allocation of a workgroup
  uint32_t ldsBanks;               ///< banks of 4 bytes
  uint32_t maxThreadsPerBlock;     ///< work-items in a workgroup
  uint32_t maxWavesPerSimd;
  uint32_t simdsPerCU;
  uint32_t vgprsPerWave;           ///< registers one wave can name, AGPRs included
  uint32_t vgprsPerSimd;           ///< registers a lane of a SIMD
  uint32_t bufferRsrcFlags;        ///< descriptor word 3, default size
  uint32_t bufferRsrcFlagsChecked; ///< descriptor word 3, explicit size
  uint64_t features;               ///< bit set of ArchFeature

  bool has(ArchFeature feature) const {
    return features >> static_cast<unsigned>(feature) & 1;
  }
};

/// All known architectures, in order of name.
llvm::ArrayRef<ArchInfo> archTable();

/// The entry of `name`, or null. A target-id suffix (`gfx942:sramecc+`) is ignored.
const ArchInfo *lookupArch(llvm::StringRef name);

/// Stable text name of a feature, e.g. "mfma_scale".
llvm::StringRef archFeatureName(ArchFeature feature);

/// Comma-separated names of the table, for messages.
std::string knownArchNames();

} // namespace mlir::fly

#endif // FLY_CODEGEN_ARCHTABLE_H
