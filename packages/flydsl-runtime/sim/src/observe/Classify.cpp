//===- Classify.cpp - what an instruction asks of the machine -------------===//
//
// Cycle counts follow AMD's ISA manuals and LLVM's scheduling model; they are inputs
// of an estimate, not measurements.
//
//===----------------------------------------------------------------------===//

#include "observe/Classify.h"

#include "decode/Program.h"

#include <cstdio>
#include <cstring>
#include <string>

namespace flysim {

const char *unitName(Unit unit) {
  static const char *const kNames[] = {"valu", "trans", "matrix", "salu",    "smem", "lds",
                                       "vmem_load", "vmem_store", "branch", "barrier", "wait",
                                       "internal"};
  return kNames[static_cast<unsigned>(unit)];
}

namespace {

bool starts(const std::string &s, const char *prefix) { return s.rfind(prefix, 0) == 0; }
bool has(const std::string &s, const char *part) { return s.find(part) != std::string::npos; }

/// Bytes per lane from the size in a mnemonic.
unsigned accessBytes(const std::string &m) {
  struct {
    const char *text;
    unsigned bytes;
  } static const kSizes[] = {
      {"dwordx16", 64}, {"dwordx8", 32}, {"dwordx4", 16}, {"dwordx3", 12}, {"dwordx2", 8},
      {"dword", 4},     {"b512", 64},    {"b256", 32},    {"b128", 16},    {"b96", 12},
      {"b64", 8},       {"u64", 8},      {"i64", 8},      {"f64", 8},      {"_x2", 8},
      {"b32", 4},       {"ubyte", 1},    {"sbyte", 1},    {"byte", 1},     {"u8", 1},
      {"i8", 1},        {"b8", 1},       {"ushort", 2},   {"sshort", 2},   {"short", 2},
      {"u16", 2},       {"i16", 2},      {"b16", 2},
  };
  // Packed 16-bit atomics move a dword.
  if (has(m, "_pk_"))
    return 4;
  for (const auto &s : kSizes)
    if (has(m, s.text))
      return s.bytes;
  return 4;
}

/// Clocks that a matrix operation keeps the SIMD's matrix unit busy, and its flops.
void matrixCost(const std::string &m, const InstExt *ext, const ArchInfo &arch, unsigned waveSize,
                InstInfo &info) {
  unsigned rows = 0, cols = 0, depth = 0, blocks = 1;
  for (size_t at = m.find('_'); at != std::string::npos; at = m.find('_', at + 1))
    if (sscanf(m.c_str() + at + 1, "%ux%ux%u", &rows, &cols, &depth) == 3)
      break;
  if (has(m, "_16b_") || (rows == 4 && !has(m, "_4b_")))
    blocks = 16;
  else if (has(m, "_4b_"))
    blocks = 4;
  else if (has(m, "_2b_"))
    blocks = 2;
  info.flops = 2 * rows * cols * depth * blocks;
  auto suffix = [&](const char *t) { return m.size() > strlen(t) && m.rfind(t) == m.size() - strlen(t); };
  bool large = rows == 32;
  if (arch.gfx1250()) {
    info.cycles = suffix("_iu8") || suffix("x4_f32") ? 16 : 8;
    return;
  }
  if (arch.gfx12()) {
    bool half = suffix("_f16") || suffix("_bf16");
    info.cycles = static_cast<uint16_t>((half ? 16 : 8) * (waveSize == 64 ? 2 : 1));
    info.xdl = false; // WMMA occupies the vector ALU
    return;
  }
  if (suffix("_f64")) {
    info.cycles = rows == 4 ? 16 : (arch.gfx950() ? 64 : 32);
    info.xdl = false;
  } else if (suffix("xf32")) {
    info.cycles = large ? 32 : 16;
  } else if (suffix("_f32")) {
    info.cycles = large ? 64 : (rows == 16 ? 32 : 8);
    info.xdl = false;
  } else if (suffix("f8f6f4")) {
    // Formats 0 and 1 are 8-bit; 6- and 4-bit operands run twice as fast.
    bool eight = ext && (ext->cbsz < 2 || ext->blgp < 2);
    info.cycles = static_cast<uint16_t>((large ? 32 : 16) * (eight ? 2 : 1));
  } else if (blocks > 1) {
    info.cycles = large ? 64 : (rows == 16 ? 32 : 8);
  } else {
    info.cycles = large ? 32 : 16;
  }
}

bool isTranscendental(const std::string &m) {
  for (const char *name : {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_",
                           "v_tanh_", "v_rcp_iflag", "v_prng_"})
    if (starts(m, name))
      return true;
  return false;
}

/// Floating-point operations of one lane of a vector instruction: multiply-adds are two,
/// packed ones twice as many. Conversions, moves and comparisons count nothing.
unsigned laneFlops(const std::string &m) {
  if (starts(m, "v_dual_") || starts(m, "v_cvt") || starts(m, "v_cmp") || !has(m, "_f"))
    return 0;
  unsigned packed = starts(m, "v_pk_") ? 2 : 1;
  for (const char *name : {"_fma_", "_fmac_", "_fmamk_", "_fmaak_", "_mad_", "_mac_"})
    if (has(m, name))
      return 2 * packed;
  for (const char *name : {"_add_", "_sub_", "_subrev_", "_mul_", "_max_", "_min_", "_maximum_", "_minimum_", "_exp_",
                           "_log_", "_rcp_", "_rsq_", "_sqrt_"})
    if (has(m, name))
      return packed;
  if (starts(m, "v_dot2"))
    return 4;
  return 0;
}

bool isQuarterRate(const std::string &m) {
  for (const char *name : {"v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32",
                           "v_mad_i64_i32", "v_mad_co_u64_u32", "v_mad_co_i64_i32"})
    if (starts(m, name))
      return true;
  return false;
}

void waits(const std::string &m, uint32_t imm, InstInfo &info) {
  auto set = [&](Counter c, unsigned n) { info.wait[static_cast<unsigned>(c)] = static_cast<uint8_t>(n); };
  if (m == "s_waitcnt") {
    unsigned vm = (imm & 15) | (imm >> 14 & 3) << 4, lgkm = imm >> 8 & 15;
    if (vm != 63)
      set(Counter::Vm, vm);
    if (lgkm != 15)
      set(Counter::Lgkm, lgkm);
  } else if (m == "s_wait_loadcnt") {
    set(Counter::Vm, imm & 63);
  } else if (m == "s_wait_storecnt") {
    set(Counter::Store, imm & 63);
  } else if (m == "s_wait_dscnt") {
    set(Counter::Ds, imm & 63);
  } else if (m == "s_wait_kmcnt") {
    set(Counter::Km, imm & 31);
  } else if (m == "s_wait_asynccnt") {
    set(Counter::Async, imm & 63);
  } else if (m == "s_wait_tensorcnt") {
    set(Counter::Tensor, imm & 63);
  } else if (m == "s_wait_idle") {
    for (uint8_t &w : info.wait)
      w = 0;
  } else if (m == "s_wait_loadcnt_dscnt" || m == "s_wait_storecnt_dscnt") {
    set(starts(m, "s_wait_load") ? Counter::Vm : Counter::Store, imm >> 8 & 63);
    set(Counter::Ds, imm & 63);
  }
}

/// Vector memory and LDS instructions.
void memory(const std::string &m, bool returns, const ArchInfo &arch, InstInfo &info) {
  bool gfx12 = arch.gfx12();
  info.bytes = static_cast<uint16_t>(accessBytes(m));
  info.atomic = has(m, "_atomic") || has(m, "_cmpst") || has(m, "_rtn");
  if (starts(m, "ds_")) {
    info.unit = Unit::Lds;
    info.counter = gfx12 ? Counter::Ds : Counter::Lgkm;
    if (has(m, "permute") || has(m, "swizzle") || has(m, "ds_nop"))
      return;
    info.space = MemSpace::Lds;
    info.load = starts(m, "ds_read") || starts(m, "ds_load");
    info.store = starts(m, "ds_write") || starts(m, "ds_store");
    info.atomic = !info.load && !info.store;
    info.pairs = has(m, "read2") || has(m, "write2") || has(m, "load_2addr") || has(m, "store_2addr") ? 2 : 1;
    return;
  }
  if (starts(m, "tensor_")) {
    info.store = has(m, "store");
    info.load = !info.store;
    info.unit = info.store ? Unit::VmemStore : Unit::VmemLoad;
    info.space = MemSpace::Tensor;
    info.counter = Counter::Tensor;
    return;
  }
  info.space = starts(m, "global_") || starts(m, "cluster_")     ? MemSpace::Global
               : starts(m, "flat_")                             ? MemSpace::Flat
               : starts(m, "scratch_")                          ? MemSpace::Scratch
                                                                : MemSpace::Buffer;
  bool store = has(m, "_store"), async = has(m, "_async_");
  info.load = !store && !info.atomic;
  info.store = store;
  info.toLds = (info.load && has(m, "_lds")) || async;
  info.unit = info.load ? Unit::VmemLoad : Unit::VmemStore;
  // An atomic that returns nothing counts as a store on gfx12.
  bool noReturn = store || (info.atomic && !returns);
  info.counter = async ? Counter::Async : (gfx12 && noReturn) ? Counter::Store : Counter::Vm;
  // Cache maintenance and prefetches transfer nothing to a lane.
  if (has(m, "_inv") || has(m, "_wb") || has(m, "prefetch")) {
    info.space = MemSpace::None;
    info.load = info.store = info.atomic = false;
    info.bytes = 0;
    info.counter = has(m, "prefetch") ? Counter::Count : Counter::Vm;
  }
}

void registers(const Inst &i, InstInfo &info) {
  unsigned r = 0, w = 0;
  auto read = [&](const Operand &o) {
    if (o.kind == OperandKind::Vgpr && r < 4)
      info.reads[r++] = {o.reg, o.count};
  };
  for (const Operand &o : i.src) {
    if (&o == &i.src[2] && o.kind == OperandKind::Vgpr && r < 4)
      info.srcC = static_cast<int8_t>(r);
    read(o);
  }
  read(i.data);
  if (i.dst.kind == OperandKind::Vgpr)
    info.writes[w++] = {i.dst.reg, i.dst.count};
  if (i.sdst.kind == OperandKind::Vgpr)
    info.writes[w++] = {i.sdst.reg, i.sdst.count};
}

InstInfo classifyOne(const Inst &i, const ArchInfo &arch, unsigned waveSize) {
  InstInfo info;
  std::string m = i.def && i.def->name ? i.def->name : "";
  bool gfx12 = arch.gfx12();
  uint16_t pass = gfx12 ? (waveSize == 64 ? 2 : 1) : 4;
  if (starts(m, "v_")) {
    registers(i, info);
    if (starts(m, "v_mfma") || starts(m, "v_smfmac") || starts(m, "v_wmma") || starts(m, "v_swmmac")) {
      info.unit = Unit::Matrix;
      matrixCost(m, i.ext, arch, waveSize, info);
    } else if (isTranscendental(m)) {
      info.unit = Unit::Trans;
      info.cycles = static_cast<uint16_t>(4 * pass);
    } else if (isQuarterRate(m)) {
      info.cycles = static_cast<uint16_t>((gfx12 ? 8 : 4) * pass);
    } else if (gfx12 && has(m, "_f64")) {
      info.cycles = static_cast<uint16_t>(16 * pass);
    } else {
      info.cycles = pass;
    }
    if (info.unit != Unit::Matrix)
      info.laneFlops = static_cast<uint8_t>(laneFlops(m));
    return info;
  }
  if (starts(m, "ds_") || starts(m, "global_") || starts(m, "flat_") || starts(m, "scratch_") ||
      starts(m, "buffer_") || starts(m, "tbuffer_") || starts(m, "tensor_") || starts(m, "cluster_")) {
    registers(i, info);
    memory(m, static_cast<bool>(i.dst), arch, info);
    return info;
  }
  uint32_t imm = static_cast<uint32_t>(i.imm);
  if (starts(m, "s_load") || starts(m, "s_buffer_load") || starts(m, "s_scratch_load")) {
    info.unit = Unit::Smem;
    info.space = MemSpace::Scalar;
    info.load = true;
    info.bytes = static_cast<uint16_t>(accessBytes(m));
    info.counter = gfx12 ? Counter::Km : Counter::Lgkm;
  } else if (starts(m, "s_waitcnt") || starts(m, "s_wait_")) {
    info.unit = Unit::Wait;
    waits(m, imm, info);
  } else if (m == "s_barrier" || starts(m, "s_barrier_")) {
    info.unit = Unit::Barrier;
  } else if (starts(m, "s_branch") || starts(m, "s_cbranch") || starts(m, "s_setpc") ||
             starts(m, "s_swappc") || starts(m, "s_call") || starts(m, "s_endpgm")) {
    info.unit = Unit::Branch;
  } else if (m == "s_nop" || starts(m, "s_delay") || starts(m, "s_setprio") || starts(m, "s_sleep") ||
             starts(m, "s_clause") || starts(m, "s_sched") || starts(m, "s_set_vgpr_msb") ||
             starts(m, "s_code_end") || starts(m, "s_ttrace") || starts(m, "s_monitor_sleep") || starts(m, "s_wakeup") || starts(m, "s_icache") || starts(m, "s_dcache")) {
    info.unit = Unit::Internal;
    info.cycles = m == "s_nop" ? static_cast<uint16_t>((imm & 15) + 1) : 1;
  } else {
    info.unit = Unit::Salu;
  }
  return info;
}

} // namespace

std::vector<InstInfo> classify(const Program &program, unsigned waveSize) {
  std::vector<InstInfo> out;
  out.reserve(program.insts.size());
  for (const Inst &i : program.insts)
    out.push_back(classifyOne(i, *program.arch, waveSize));
  return out;
}

} // namespace flysim
