//===- OpFacts.cpp - what an instruction is -------------------------------===//
//
// AMD's mnemonics are systematic: a prefix names the unit or the address space, what follows the
// operation, its types and sizes. This file reads them, once for each entry of the instruction table;
// no other file does. What a name does not say stands in a list here. Sources: AMD's instruction set
// manuals; the use of SCC is tested against LLVM's tables.
//
//===----------------------------------------------------------------------===//

#include "exec/OpFacts.h"

#include <initializer_list>

namespace flysim {

namespace {

using Name = std::string_view;

bool starts(Name m, Name prefix) { return m.substr(0, prefix.size()) == prefix; }
bool has(Name m, Name part) { return m.find(part) != Name::npos; }
bool startsAny(Name m, std::initializer_list<Name> prefixes) {
  for (Name p : prefixes)
    if (starts(m, p))
      return true;
  return false;
}
bool hasAny(Name m, std::initializer_list<Name> parts) {
  for (Name p : parts)
    if (has(m, p))
      return true;
  return false;
}

//===--- memory -----------------------------------------------------------------===//

/// Bytes of an access from the size in its name.
uint8_t accessBytes(Name m) {
  struct {
    Name text;
    uint8_t bytes;
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

void lds(Name m, OpFacts &f) {
  MemoryFacts &a = f.memory;
  f.unit = Unit::Lds;
  f.form = Form::Lds;
  if (hasAny(m, {"permute", "swizzle", "ds_nop"})) {
    a.atomic = hasAny(m, {"_atomic", "_cmpst", "_rtn"});
    return; // no memory
  }
  a.space = MemSpace::Lds;
  a.load = startsAny(m, {"ds_read", "ds_load"});
  a.store = startsAny(m, {"ds_write", "ds_store"}) && !has(m, "xchg");
  a.atomic = !a.load && !a.store;
  a.pairs = hasAny(m, {"read2", "write2", "load_2addr", "store_2addr"}) ? 2 : 1;
  a.arrives = has(m, "barrier_arrive");
  a.async = has(m, "_async_");
}

void tensor(Name m, OpFacts &f) {
  f.form = Form::Tensor;
  f.memory.store = has(m, "store");
  f.memory.load = !f.memory.store;
  f.memory.space = MemSpace::Tensor;
  f.unit = f.memory.store ? Unit::VmemStore : Unit::VmemLoad;
}

void addressed(Name m, OpFacts &f) {
  MemoryFacts &a = f.memory;
  bool buffer = startsAny(m, {"buffer_", "tbuffer_"});
  f.form = buffer ? Form::Buffer : Form::Address;
  a.space = startsAny(m, {"global_", "cluster_"}) ? MemSpace::Global
            : starts(m, "flat_")                  ? MemSpace::Flat
            : starts(m, "scratch_")               ? MemSpace::Scratch
                                                  : MemSpace::Buffer;
  a.atomic = hasAny(m, {"_atomic", "_cmpst", "_rtn"});
  a.store = has(m, "_store");
  a.load = !a.store && !a.atomic;
  a.async = has(m, "_async_");
  a.toLds = (a.load && has(m, "_lds")) || a.async;
  a.direct = a.load && !a.toLds && !hasAny(m, {"_format", "_tr"});
  a.ownAddress = hasAny(m, {"addtid", "_block"});
  a.compareSwap = has(m, "cmpswap");
  f.unit = a.load ? Unit::VmemLoad : Unit::VmemStore;
  a.cache = m == "buffer_wbl2" || m == "global_wb"      ? CacheOp::WriteBack
            : m == "buffer_inv" || m == "global_inv" ? CacheOp::Invalidate
                                                     : CacheOp::None;
  a.prefetch = has(m, "prefetch");
  a.maintains = a.prefetch || hasAny(m, {"_inv", "_wb"});
  if (a.maintains) {
    a.space = MemSpace::None;
    a.load = a.store = a.atomic = false;
    a.bytes = 0;
  }
}

void memory(Name m, OpFacts &f) {
  f.memory.bytes = accessBytes(m);
  f.memory.half = !has(m, "d16") ? Half::None : has(m, "d16_hi") ? Half::High : Half::Low;
  if (starts(m, "ds_"))
    lds(m, f);
  else if (starts(m, "tensor_"))
    tensor(m, f);
  else
    addressed(m, f);
}

//===--- vector instructions ------------------------------------------------------===//

/// Multiply-adds are two operations, packed ones twice as many. Conversions, moves and comparisons
/// count nothing.
uint8_t laneFlops(Name m) {
  if (startsAny(m, {"v_cvt", "v_cmp"}) || !has(m, "_f"))
    return 0;
  uint8_t packed = starts(m, "v_pk_") ? 2 : 1;
  if (hasAny(m, {"_fma_", "_fmac_", "_fmamk_", "_fmaak_", "_mad_", "_mac_"}))
    return static_cast<uint8_t>(2 * packed);
  if (hasAny(m, {"_add_", "_sub_", "_subrev_", "_mul_", "_max_", "_min_", "_maximum_", "_minimum_", "_exp_", "_log_",
                 "_rcp_", "_rsq_", "_sqrt_"}))
    return packed;
  return starts(m, "v_dot2") ? 4 : 0;
}

void vector(Name m, OpFacts &f) {
  f.form = Form::Vector;
  f.unit = startsAny(m, {"v_mfma", "v_smfmac", "v_wmma", "v_swmmac"}) ? Unit::Matrix
           : startsAny(m, {"v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_", "v_tanh_",
                           "v_rcp_iflag", "v_prng_", "v_s_"})
               ? Unit::Trans
               : Unit::Valu;
  f.replicated = starts(m, "v_wmma_");
  if (f.unit == Unit::Valu)
    f.rate = startsAny(m, {"v_mul_lo_u32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32", "v_mad_i64_i32",
                           "v_mad_co_u64_u32", "v_mad_co_i64_i32"})
                 ? Rate::Quarter
             : has(m, "_f64") ? Rate::Double
                              : Rate::Full;
  if (f.unit != Unit::Matrix)
    f.flops = laneFlops(m);
  f.swaps = startsAny(m, {"v_swap", "v_permlane16_swap", "v_permlane32_swap"});
  f.literalFactor = hasAny(m, {"fmamk"});
  f.literal = f.literalFactor || hasAny(m, {"fmaak"});
  f.finishesDivision = starts(m, "v_div_fixup");
}

//===--- scalar instructions ------------------------------------------------------===//

void scalarMemory(Name m, OpFacts &f) {
  f.unit = Unit::Smem;
  f.memory.space = MemSpace::Scalar;
  f.memory.load = true;
  f.memory.descriptor = has(m, "buffer");
  f.memory.bytes = accessBytes(m);
}

void wait(Name m, OpFacts &f) {
  struct {
    Name name;
    WaitFacts facts;
  } static const kWaits[] = {
      {"s_waitcnt", {WaitKind::Legacy}},
      {"s_waitcnt_vscnt", {WaitKind::One, Counter::Store}},
      {"s_wait_loadcnt", {WaitKind::One, Counter::Vm}},
      {"s_wait_storecnt", {WaitKind::One, Counter::Store}},
      {"s_wait_dscnt", {WaitKind::One, Counter::Ds}},
      {"s_wait_kmcnt", {WaitKind::One, Counter::Km, Counter::Count, 31}},
      {"s_wait_asynccnt", {WaitKind::One, Counter::Async}},
      {"s_wait_tensorcnt", {WaitKind::One, Counter::Tensor}},
      {"s_wait_idle", {WaitKind::All}},
      {"s_wait_loadcnt_dscnt", {WaitKind::Two, Counter::Ds, Counter::Vm}},
      {"s_wait_storecnt_dscnt", {WaitKind::Two, Counter::Ds, Counter::Store}},
  };
  f.unit = Unit::Wait;
  for (const auto &w : kWaits)
    if (m == w.name)
      f.wait = w.facts;
}

void barrier(Name m, OpFacts &f) {
  f.unit = Unit::Barrier;
  f.barrier = m == "s_barrier"                  ? BarrierRole::Whole
              : starts(m, "s_barrier_signal") ? BarrierRole::Signal
              : starts(m, "s_barrier_wait")   ? BarrierRole::Wait
                                              : BarrierRole::Other;
  f.writesScc = hasAny(m, {"isfirst", "leave"});
}

void branch(Name m, OpFacts &f) {
  f.unit = Unit::Branch;
  f.branch = starts(m, "s_endpgm")                              ? BranchOn::End
             : has(m, "scc")                                    ? BranchOn::Scc
             : has(m, "vcc")                                    ? BranchOn::Vcc
             : has(m, "exec")                                   ? BranchOn::Exec
             : startsAny(m, {"s_set", "s_swap", "s_add_pc"}) ? BranchOn::Register
                                                                : BranchOn::Always;
  f.readsScc = f.branch == BranchOn::Scc;
}

/// Whether SCC is written, by the operation; of those that are no arithmetic of integers.
bool writesScc(Name m) {
  // Conversions and arithmetic of floats (comparisons apart), moves, fields and counts of bits, MODE.
  if (startsAny(m, {"s_mov", "s_cselect", "s_cmov", "s_mul_", "s_mulk_", "s_sext", "s_pack", "s_brev", "s_ff",
                    "s_flbit", "s_getpc", "s_get", "s_setreg", "s_bitset", "s_cls", "s_ctz", "s_clz", "s_bfm",
                    "s_cvt", "s_fma", "s_add_f", "s_sub_f", "s_min_num", "s_max_num", "s_min_f", "s_max_f",
                    "s_minimum", "s_maximum", "s_floor", "s_ceil", "s_trunc", "s_rndne", "s_add_nc", "s_sub_nc",
                    "s_set_", "s_bitreplicate", "s_mem", "s_sendmsg", "s_trap", "s_round_mode", "s_denorm_mode",
                    "s_sethalt", "s_setkill", "s_rfe", "s_ttrace", "s_sleep", "s_store", "s_buffer_store",
                    "s_scratch_store", "s_atomic", "s_buffer_atomic", "s_dcache", "s_atc_probe", "s_prefetch",
                    "s_buffer_prefetch", "s_version", "s_subvector_loop", "s_setvskip", "s_code_end", "s_incperflevel",
                    "s_decperflevel", "s_gl1_inv"}))
    return false;
  return true;
}

void scalar(Name m, OpFacts &f) {
  if (startsAny(m, {"s_load", "s_buffer_load", "s_scratch_load"}))
    return scalarMemory(m, f);
  if (startsAny(m, {"s_waitcnt", "s_wait_"}))
    return wait(m, f);
  if (m == "s_barrier" || starts(m, "s_barrier_"))
    return barrier(m, f);
  if (startsAny(m, {"s_branch", "s_cbranch", "s_setpc", "s_set_pc", "s_swappc", "s_swap_pc", "s_call", "s_add_pc",
                    "s_endpgm"}))
    return branch(m, f);
  if (m == "s_nop" || startsAny(m, {"s_delay", "s_setprio", "s_sleep", "s_clause", "s_sched", "s_set_vgpr_msb",
                                    "s_code_end", "s_ttrace", "s_monitor_sleep", "s_wakeup", "s_icache", "s_dcache"})) {
    f.unit = Unit::Internal;
    f.idles = m == "s_nop";
    f.setsPriority = m == "s_setprio";
    f.setsVgprMsb = starts(m, "s_set_vgpr_msb");
    return;
  }
  f.readsScc = startsAny(m, {"s_addc", "s_subb", "s_add_co_ci", "s_sub_co_ci", "s_cselect", "s_cmov"});
  f.writesScc = writesScc(m);
  f.savesExec = hasAny(m, {"saveexec", "wrexec"});
  f.outside = startsAny(m, {"s_get", "s_mem", "s_sendmsg", "s_alloc", "s_trap", "s_atomic", "s_sethalt", "s_rfe"}) &&
              !startsAny(m, {"s_getpc", "s_get_pc"});
  f.relativeDst = starts(m, "s_movreld");
  f.relativeSrc = starts(m, "s_movrels");
  f.marks = m == "s_trap";
}

} // namespace

OpFacts factsOf(Name m) {
  OpFacts f;
  f.crossesLanes = hasAny(m, {"lane", "permute", "swizzle"});
  f.moves = has(m, "_mov_b");
  if (starts(m, "v_"))
    vector(m, f);
  else if (starts(m, "s_"))
    scalar(m, f);
  else if (!m.empty())
    memory(m, f);
  return f;
}

} // namespace flysim
