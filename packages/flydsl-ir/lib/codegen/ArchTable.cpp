//===- ArchTable.cpp - What each AMD GPU architecture has -----------------===//
//
// Sources: AMD ISA documents of CDNA2, CDNA3, CDNA4, RDNA3, RDNA4; LLVM's AMDGPUUsage and processor
// definitions for gfx1250.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/ArchTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir::fly;

namespace {

constexpr uint64_t bit(ArchFeature feature) {
  return uint64_t(1) << static_cast<unsigned>(feature);
}
template <typename... T> constexpr uint64_t bits(T... features) {
  return (bit(features) | ... | uint64_t(0));
}

using F = ArchFeature;

constexpr uint64_t kCDNA =
    bits(F::MFMA, F::BufferLdsDMA32, F::LegacyWaitCounter, F::BufferChecksAll);
constexpr uint64_t kCDNA2 = kCDNA | bits(F::MFMAHalfK);
constexpr uint64_t kCDNA3 = kCDNA | bits(F::MFMA8Bit, F::FP8IsFNUZ, F::ConvertFP8);
constexpr uint64_t kCDNA4 =
    kCDNA | bits(F::MFMA8Bit, F::MFMAWideK, F::MFMAScale, F::BufferLdsDMA128, F::LdsReadTranspose,
                 F::ConvertFP8, F::ConvertScaled2, F::RowSwaps);
constexpr uint64_t kRDNA3 =
    bits(F::WMMAGfx11, F::BufferRsrcRDNA, F::LegacyWaitCounter, F::AtomicSubClamp, F::Graphics,
         F::TrapIsLoop, F::RowPermutes);
constexpr uint64_t kRDNA4 =
    bits(F::WMMAGfx120x, F::BufferRsrcRDNA, F::SplitWaitCounters, F::LegacyWaitCounter,
         F::AtomicSubClamp, F::Graphics, F::ConvertFP8, F::SplitBarriers, F::RowPermutes);
constexpr uint64_t kGfx1250 =
    bits(F::WMMAGfx1250, F::WMMAScale, F::TensorDataMover, F::Clusters, F::SplitWaitCounters,
         F::NativeTanh, F::NativeBF16Arith, F::VGPRBanks, F::ConvertFP8, F::ConvertScaled8,
         F::LdsLoadTranspose, F::AsyncLdsCopy, F::SplitBarriers, F::NamedBarriers, F::AtomicSubClamp,
         F::RowPermutes, F::XdlArbitration);

// Word 3 of a buffer descriptor: number and data format, and on RDNA the bit that must be one
// (24) and OOB_SELECT (28..29; 2 = no check, 3 = raw-buffer check).
constexpr uint32_t kFlags = 7u << 12 | 4u << 15;
constexpr uint32_t kFlagsRDNA = kFlags | 1u << 24 | 2u << 28;
constexpr uint32_t kFlagsRDNAChecked = kFlags | 1u << 24 | 3u << 28;

// clang-format off
constexpr ArchInfo kTable[] = {
  // name      family   wave LDS     banks threads waves simds vgpr/wave /simd  rsrc flags, checked         features
  {"gfx1100", "rdna3",   32,  65536,  32,   1024,   16,   2,   256, 1536, kFlagsRDNA, kFlagsRDNAChecked, kRDNA3},
  {"gfx1101", "rdna3",   32,  65536,  32,   1024,   16,   2,   256, 1536, kFlagsRDNA, kFlagsRDNAChecked, kRDNA3},
  {"gfx1102", "rdna3",   32,  65536,  32,   1024,   16,   2,   256, 1024, kFlagsRDNA, kFlagsRDNAChecked, kRDNA3},
  {"gfx1150", "rdna3.5", 32,  65536,  32,   1024,   16,   2,   256, 1024, kFlagsRDNA, kFlagsRDNAChecked, kRDNA3},
  {"gfx1151", "rdna3.5", 32,  65536,  32,   1024,   16,   2,   256, 1536, kFlagsRDNA, kFlagsRDNAChecked, kRDNA3},
  {"gfx1200", "rdna4",   32,  65536,  32,   1024,   16,   2,   256, 1536, kFlagsRDNA, kFlagsRDNAChecked, kRDNA4},
  {"gfx1201", "rdna4",   32,  65536,  32,   1024,   16,   2,   256, 1536, kFlagsRDNA, kFlagsRDNAChecked, kRDNA4},
  {"gfx1250", "cdna5",   32, 327680,  64,   1024,   16,   4,  1024, 1024, kFlags,     kFlags,            kGfx1250},
  {"gfx90a",  "cdna2",   64,  65536,  32,   1024,    8,   4,   512,  512, kFlags,     kFlags,            kCDNA2},
  {"gfx942",  "cdna3",   64,  65536,  32,   1024,    8,   4,   512,  512, kFlags,     kFlags,            kCDNA3},
  {"gfx950",  "cdna4",   64, 163840,  64,   1024,    8,   4,   512,  512, kFlags,     kFlags,            kCDNA4},
};
// clang-format on

constexpr const char *kFeatureNames[] = {
    "mfma",              "mfma_half_k",       "mfma_8bit",          "mfma_wide_k",
    "mfma_scale",        "wmma_gfx11",        "wmma_gfx120x",       "wmma_gfx1250",
    "wmma_scale",        "buffer_rsrc_rdna",  "buffer_checks_all",  "buffer_lds_dma32",
    "buffer_lds_dma128", "lds_read_transpose", "lds_load_transpose", "async_lds_copy",
    "tensor_data_mover", "clusters",          "split_barriers",     "named_barriers",
    "split_wait_counters", "legacy_wait_counter", "atomic_sub_clamp", "graphics",
    "fp8_fnuz",          "convert_fp8",
    "convert_scaled_2",  "convert_scaled_8",  "row_permutes",       "row_swaps",
    "native_tanh",       "native_bf16_arith", "trap_is_loop",       "vgpr_banks",
    "xdl_arbitration"};
static_assert(std::size(kFeatureNames) == static_cast<size_t>(ArchFeature::NumFeatures));

} // namespace

llvm::ArrayRef<ArchInfo> mlir::fly::archTable() { return kTable; }

const ArchInfo *mlir::fly::lookupArch(llvm::StringRef name) {
  llvm::StringRef chip = name.split(':').first;
  for (const ArchInfo &info : kTable)
    if (chip == info.name)
      return &info;
  return nullptr;
}

llvm::StringRef mlir::fly::archFeatureName(ArchFeature feature) {
  return kFeatureNames[static_cast<size_t>(feature)];
}

std::string mlir::fly::knownArchNames() {
  return llvm::join(llvm::map_range(kTable, [](const ArchInfo &i) { return i.name; }), ", ");
}
