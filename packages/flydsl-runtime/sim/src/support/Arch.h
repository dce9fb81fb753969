//===- Arch.h - facts about each simulated architecture --------*- C++ -*-===//
#ifndef FLYSIM_SUPPORT_ARCH_H
#define FLYSIM_SUPPORT_ARCH_H

#include <cstdint>
#include <string>
#include <vector>

namespace flysim {

/// How LDS serves a wide access: which lanes share a pass over the banks (observe/Access.cpp).
enum class LdsBanks : uint8_t { Cdna32, Cdna64, Rdna32, Rdna64 };

/// How memory instructions say who sees them: not at all, by sc0 and sc1, or by a field.
enum class ScopeSyntax : uint8_t { None, Bits, Field };

/// What a family of architectures has; the differences that the code asks about, by name.
struct Features {
  unsigned m0 = 124;            ///< scalar register number of M0
  bool wave32 = false;          ///< kernels may be compiled for 32 lanes
  bool rdna = false;            ///< execution units of RDNA: halves of a wave64 run one after the other
  bool indexMode = false;       ///< s_set_gpr_idx_*, MODE bit 27
  bool accumulators = false;    ///< a registers behind the v registers of one file
  bool clampModes = false;      ///< MODE.IEEE and DX10_CLAMP exist
  bool keepsHigh = false;       ///< 16-bit results leave the upper half of their register
  bool true16 = false;          ///< instructions name halves of registers
  bool architectedScratch = true; ///< private memory needs no descriptor from the kernel
  ScopeSyntax scopes = ScopeSyntax::None;
  bool flatAperture = false;    ///< registers hold the base of private memory for flat addresses
  bool workgroupInTtmp = false; ///< work-group ids in trap registers, SCC in STATE_PRIV
  bool splitCounters = false;   ///< one counter for each kind of memory access
  bool vectorStores = false;    ///< stores count in vscnt, apart from loads
  bool replicatedWmma = false;  ///< WMMA operands stand twice in a wave (gfx11)
  bool clusters = false;        ///< clusters of work-groups, their barriers and broadcasts
  bool wideDescriptors = false; ///< 57-bit addresses in buffer descriptors
  bool vgprMsb = false;         ///< 1024 vector registers, upper bits of their numbers in MODE
  bool scaledOffsets = false;   ///< cache policy bit 11 scales offsets
  bool fnuz = false;            ///< 8-bit floats are the FNUZ formats, else OCP's
  bool slowF64Matrix = false;   ///< f64 MFMA at half the rate of gfx942
  bool slowMatrix = false;      ///< dense MFMA of 16 and 8 bits at half the rate of gfx942
  unsigned matrixHazard = 0;    ///< issue slots between a matrix result and its reader, more than gfx942's
  unsigned flatOffsetBits = 13; ///< signed immediate offset of flat and global accesses
  unsigned scratchMiB = 32;     ///< private memory of a wave
  unsigned initialSgprs = 102;  ///< scalar registers of a wave
  unsigned vgprGranule64 = 8, vgprGranule32 = 8; ///< of the count in a kernel descriptor
  unsigned f32PerF64 = 2;       ///< rate of single to double precision, as HIP reports it
  LdsBanks ldsBanks = LdsBanks::Cdna32;
};

struct ArchInfo {
  const char *name;        ///< "gfx942"
  const char *gcnArchName; ///< target id as HIP reports it
  const char *product;
  unsigned elfMachine;     ///< EF_AMDGPU_MACH of its code objects
  unsigned major, minor, stepping;
  unsigned waveSize;       ///< default wave size
  unsigned computeUnits;
  unsigned ldsPerWorkgroup, ldsPerCu;
  unsigned maxThreadsPerCu;
  unsigned vgprRows;       ///< rows of the simulated register file (v and a registers)
  unsigned clockKhz, memClockKhz, memBusBits;
  unsigned l2Bytes;
  uint64_t memoryBytes;
  Features has;
};

/// The table entry for `name` ("gfx942", target ids with ":feature" accepted), or
/// null for an architecture that is not simulated.
const ArchInfo *findArch(const std::string &name);
/// The entry whose code objects have this EF_AMDGPU_MACH, or null.
const ArchInfo *findArch(unsigned elfMachine);
/// All names, in the order of the table.
std::vector<std::string> archNames();
/// "gfx942, gfx950, ..." for messages.
std::string knownArchs();

} // namespace flysim

#endif
