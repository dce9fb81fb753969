//===- Flow.cpp - branches, barriers, waits and messages ------------------===//

#include "exec/ExecInline.h"
#include "exec/Register.h"
#include "exec/Special.h"

#include "decode/Program.h"

#include <chrono>

namespace flysim {
namespace {

void nop(Wave &, const Inst &) {}

void endProgram(Wave &w, const Inst &) { w.state = WaveState::Ended; }

void jump(Wave &w, const Inst &i) { w.pc = static_cast<uint32_t>(i.imm); }

template <class F> void branchIf(Wave &w, const Inst &i, F condition) {
  if (condition(w))
    jump(w, i);
}

uint64_t vcc(const Wave &w) {
  return w.lanes == 32 ? w.s[kVcc] : w.s[kVcc] | uint64_t(w.s[kVcc + 1]) << 32;
}

uint64_t nextAddress(const Wave &w, const Inst &i) {
  return w.program->addressOf(i) + i.length;
}

void barrier(Wave &w, const Inst &) {
  if (w.wg->numWaves > 1)
    w.state = WaveState::AtBarrier;
}

/// Barrier operand: immediate id, or M0[4:0] for the register form.
int barrierId(const Wave &w, const Inst &i) {
  if (i.src[0] && i.src[0].kind == OperandKind::Const)
    return static_cast<int>(i.src[0].row[0]);
  // The form with M0 has no operand at all.
  return static_cast<int>(w.s[w.m0Index] & 63);
}

/// Slot of a barrier in the work-group's table, and its bit in Wave::barrierDone: named
/// barriers are slots 1 to 16, -1 (work-group) is 0, the others below zero follow.
unsigned slotOf(int id) {
  if (id == 0 || id > 16 || id < -4)
    raise(FaultKind::BarrierDivergence, format("barrier id %d does not exist", id));
  return static_cast<unsigned>(id > 0 ? id : (id == -1 ? 0 : 16 - id));
}
Barrier &barrierSlot(Wave &w, int id) { return w.wg->barriers[slotOf(id)]; }

uint32_t liveWaves(const Wave &w) {
  uint32_t live = 0;
  for (unsigned k = 0; k < w.wg->numWaves; ++k)
    live += w.wg->waves[k].state != WaveState::Ended;
  return live;
}

void complete(Wave &w, Barrier &b, uint32_t bit) {
  b.signals = 0;
  for (unsigned k = 0; k < w.wg->numWaves; ++k)
    w.wg->waves[k].barrierDone |= bit;
}

/// s_barrier_leave: the wave no longer takes part in its named barrier, and SCC says
/// whether it had joined one.
void leave(Wave &w) {
  w.scc = w.joinedBarrier != 0;
  if (!w.joinedBarrier)
    return;
  Barrier &b = w.wg->barriers[w.joinedBarrier];
  if (b.members)
    --b.members;
  if (b.signals && b.signals >= b.members)
    complete(w, b, 1u << w.joinedBarrier);
  w.joinedBarrier = 0;
}

void signal(Wave &w, const Inst &i, bool isFirst) {
  int id = barrierId(w, i);
  if (id == 0)
    return;
  if (id == -3) {
    // One signal per work-group; the first work-group keeps the count.
    Barrier &b = w.wg->cluster[0].barriers[19];
    if (isFirst)
      w.scc = b.signals == 0;
    if (++b.signals < w.wg->clusterSize)
      return;
    b.signals = 0;
    for (unsigned g = 0; g < w.wg->clusterSize; ++g)
      for (unsigned k = 0; k < w.wg->cluster[g].numWaves; ++k)
        w.wg->cluster[g].waves[k].barrierDone |= 1u << 19;
    return;
  }
  Barrier &b = barrierSlot(w, id);
  if (isFirst)
    w.scc = b.signals == 0;
  ++b.signals;
  uint32_t members = b.members;
  if (id == -1) {
    members = 0;
    for (unsigned k = 0; k < w.wg->numWaves; ++k)
      members += w.wg->waves[k].state != WaveState::Ended;
  }
  if (b.signals < members)
    return;
  b.signals = 0;
  uint32_t bit = 1u << slotOf(id);
  for (unsigned k = 0; k < w.wg->numWaves; ++k)
    w.wg->waves[k].barrierDone |= bit;
}

void wait(Wave &w, const Inst &i) {
  int id = static_cast<int16_t>(i.imm);
  if (id == 0)
    return;
  if (id > 0)
    id = static_cast<int>(w.joinedBarrier ? w.joinedBarrier : id);
  uint32_t bit = 1u << slotOf(id);
  if (w.barrierDone & bit) {
    w.barrierDone &= ~bit;
    return;
  }
  // Try again when the other waves have run.
  w.barrierWait = id;
  w.state = WaveState::AtBarrier;
}

void trap(Wave &, const Inst &i) {
  if (i.imm == kExtentMark)
    return; // for the checks
  raise(FaultKind::Trap, format("s_trap %d: the kernel aborted (llvm.trap or an assertion)",
                                static_cast<int>(i.imm)));
}

/// What only a debugger undoes.
[[noreturn]] void stopped(const char *name) {
  raise(FaultKind::Trap, format("%s: the wave stops itself, and no debugger is there to continue it", name));
}

void halt(Wave &, const Inst &i) {
  if (i.imm & 1)
    stopped("s_sethalt");
}

uint64_t clockTicks(double perSecond) {
  using namespace std::chrono;
  double t = duration<double>(steady_clock::now().time_since_epoch()).count();
  return static_cast<uint64_t>(t * perSecond);
}

void setFpMode(Wave &w, uint32_t mode) {
  w.mode = mode;
  w.fpSpecial = (mode & 0xff) != 0xf0;
}

uint32_t readHwreg(Wave &w, uint32_t id) {
  const Features &has = w.program->arch->has;
  switch (id) {
  case 1:
    return w.mode;
  case 2: // STATUS: execz, vccz; SCC moved to STATE_PRIV with gfx12
    return (has.workgroupInTtmp ? 0 : w.scc) | (w.exec() == 0) << 9 | (vcc(w) == 0) << 10;
  case 4: // gfx9 HW_ID: slot of the wave and its SIMD; gfx12 STATE_PRIV
    return has.workgroupInTtmp ? w.scc << 9 : (w.id / 4 & 15) | (w.id & 3) << 4;
  case 6: // LDS_ALLOC: the size in units of 512 bytes
    return (w.wg->ldsSize + 511) / 512 << 12;
  case 23: // RDNA HW_ID1
    return has.rdna ? (w.id / 4 & 31) | (w.id & 3) << 8 : 0;
  case 20:
    return has.flatAperture ? w.s[kFlatScratchBase] : 0;
  case 21:
    return has.flatAperture ? w.s[kFlatScratchBase + 1] : 0;
  case 28: // IB_STS2: [9:6] cluster present, [24:21] work-group in the cluster
    return w.wg->clusterSize > 1 ? 1u << 6 | w.wg->clusterIndex << 21 : 0;
  case 29:
    return static_cast<uint32_t>(clockTicks(1e9));
  case 30:
    return static_cast<uint32_t>(clockTicks(1e9) >> 32);
  default:
    return 0;
  }
}

void getreg(Wave &w, const Inst &i) {
  uint32_t id = i.imm & 63, offset = i.imm >> 6 & 31, size = (i.imm >> 11 & 31) + 1;
  uint32_t v = readHwreg(w, id) >> offset;
  write32(w, i.dst, size == 32 ? v : v & ((1u << size) - 1));
}

} // namespace

bool readsKeptRegister(const Inst &i) {
  uint32_t id = i.imm & 63;
  return i.exec == getreg && (id == 1 || id == 2 || id == 6 || id == 20 || id == 21 || id == 28);
}

namespace {

/// gfx1250 keeps the high bits of VGPR numbers in MODE[19:12]: destination, sources 0, 1, 2.
void msbFromMode(Wave &w) {
  static const unsigned kField[4] = {14, 16, 18, 12};
  for (unsigned k = 0; k < 4; ++k)
    w.msb[k] = (w.mode >> kField[k] & 3) * 256;
}

void setField(Wave &w, const Inst &i, uint32_t value) {
  uint32_t id = i.imm & 63, offset = i.imm >> 6 & 31, size = (i.imm >> 11 & 31) + 1;
  uint32_t mask = (size == 32 ? ~0u : (1u << size) - 1) << offset;
  if (id == 1)
    setFpMode(w, (w.mode & ~mask) | (value << offset & mask));
  if (id == 1 && (mask & 0xff000) && w.program->arch->has.vgprMsb)
    msbFromMode(w);
  if (id == 1 && (mask >> 27 & 1) && w.program->arch->has.indexMode)
    applyIndexMode(w);
}

/// On gfx1250 an immediate for another part of MODE also sets the high bits of VGPR numbers, from its
/// own bits 19:12: LLVM puts those that are to be in force there.
void setFieldImmediate(Wave &w, const Inst &i) {
  uint32_t value = read32(w, i.src[2]), offset = i.imm >> 6 & 31, size = (i.imm >> 11 & 31) + 1;
  setField(w, i, value);
  if ((i.imm & 63) != 1 || !w.program->arch->has.vgprMsb || (offset < 20 && offset + size > 12))
    return;
  w.mode = (w.mode & ~0xff000u) | (value & 0xff000u);
  msbFromMode(w);
}

void setVgprMsb(Wave &w, const Inst &i) {
  uint32_t fields = static_cast<uint32_t>(i.imm);
  w.mode = (w.mode & ~0xff000u) | (fields & 0x3f) << 14 | (fields >> 6 & 3) << 12;
  msbFromMode(w);
}

/// gfx11, wave64: a loop that runs once for each half of the lanes that has active ones. The register
/// keeps EXEC of the other half.
void beginHalves(Wave &w, const Inst &i) {
  uint32_t &low = w.s[kExec], &high = w.s[kExec + 1];
  if (w.exec() == 0)
    return jump(w, i);
  if (low == 0) {
    write32(w, i.dst, low);
  } else {
    write32(w, i.dst, high);
    high = 0;
  }
}

void endHalves(Wave &w, const Inst &i) {
  uint32_t &low = w.s[kExec], &high = w.s[kExec + 1], kept = read32(w, i.dst);
  if (high) {
    low = kept; // the high half is done
  } else if (kept) {
    write32(w, i.dst, low);
    high = kept;
    low = 0;
    jump(w, i);
  }
}

void sleep(Wave &w, const Inst &) { w.state = WaveState::Yield; }

} // namespace

void scalar::registerFlow(OpTable &t) {
  auto add = [&](const char *name, ExecFn exec, uint32_t flags = 0) {
    OpDef d;
    d.exec = exec;
    d.flags = flags;
    t.add(name, d);
  };
  for (const char *name :
       {"s_nop", "s_waitcnt", "s_setprio", "s_clause", "s_delay_alu", "s_wait_alu", "s_code_end",
        "s_icache_inv", "s_dcache_inv", "s_dcache_wb", "s_dcache_inv_vol", "s_dcache_wb_vol",
        "s_wait_loadcnt", "s_wait_storecnt", "s_wait_samplecnt", "s_wait_bvhcnt", "s_wait_expcnt",
        "s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt", "s_wait_storecnt_dscnt",
        "s_wait_asynccnt", "s_wait_tensorcnt", "s_wait_xcnt", "s_wait_idle", "s_wait_event",
        "s_waitcnt_depctr", "s_waitcnt_vscnt", "s_waitcnt_vmcnt", "s_waitcnt_lgkmcnt", "s_waitcnt_expcnt",
        "buffer_gl0_inv", "buffer_gl1_inv", "buffer_invl2", "s_gl1_inv", "s_inst_prefetch", "s_set_inst_prefetch_distance",
        "s_sendmsg", "s_ttracedata", "s_ttracedata_imm", "s_incperflevel",
        "s_decperflevel", "s_prefetch_inst", "s_prefetch_inst_pc_rel", "s_prefetch_data",
        "s_prefetch_data_pc_rel", "s_buffer_prefetch_data", "s_wakeup",
        "s_wakeup_barrier", "s_setprio_inc_wg", "s_monitor_sleep", "v_nop",
        "buffer_wbl2", "buffer_inv", "buffer_wbinvl1", "buffer_wbinvl1_vol", "global_wb",
        "global_inv", "global_wbinv", "global_prefetch_b8", "ds_nop", "s_sched_barrier",
        "s_atc_probe", "s_atc_probe_buffer", "s_dcache_discard", "s_dcache_discard_x2",
        "flat_prefetch_b8", "v_pipeflush", "v_clrexcp"})
    add(name, nop);
  add("s_endpgm", endProgram);
  add("s_endpgm_saved", endProgram);
  add("s_sethalt", halt);
  add("s_sendmsghalt", [](Wave &, const Inst &) { stopped("s_sendmsghalt"); });
  add("s_setkill", [](Wave &, const Inst &i) {
    if (i.imm & 1)
      stopped("s_setkill"); });
  add("s_sleep", sleep);
  add("s_sleep_var", sleep);
  add("s_branch", jump, kBranch);
  add("s_cbranch_scc0", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return !x.scc; }); }, kBranch);
  add("s_cbranch_scc1", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return x.scc != 0; }); }, kBranch);
  add("s_cbranch_vccz", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return vcc(x) == 0; }); }, kBranch);
  add("s_cbranch_vccnz", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return vcc(x) != 0; }); }, kBranch);
  add("s_cbranch_execz", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return x.exec() == 0; }); }, kBranch);
  add("s_cbranch_execnz", [](Wave &w, const Inst &i) {
    branchIf(w, i, [](Wave &x) { return x.exec() != 0; }); }, kBranch);
  add("s_subvector_loop_begin", beginHalves, kBranch | kUncertain);
  add("s_subvector_loop_end", endHalves, kBranch | kUncertain);
  add("s_call_b64", [](Wave &w, const Inst &i) {
    write64(w, i.dst, nextAddress(w, i));
    jump(w, i); }, kBranch);
  add("s_getpc_b64", [](Wave &w, const Inst &i) { write64(w, i.dst, nextAddress(w, i)); });
  add("s_setpc_b64", [](Wave &w, const Inst &i) {
    w.pc = w.program->indexOf(read64(w, i.src[0])); });
  add("s_swappc_b64", [](Wave &w, const Inst &i) {
    uint64_t target = read64(w, i.src[0]);
    write64(w, i.dst, nextAddress(w, i));
    w.pc = w.program->indexOf(target); });
  t.alias("s_set_pc_i64", "s_setpc_b64");
  t.alias("s_swap_pc_i64", "s_swappc_b64");
  t.alias("s_get_pc_i64", "s_getpc_b64");
  t.alias("s_call_i64", "s_call_b64");
  add("s_barrier", barrier);
  add("s_barrier_signal", [](Wave &w, const Inst &i) { signal(w, i, false); });
  add("s_barrier_signal_isfirst", [](Wave &w, const Inst &i) { signal(w, i, true); });
  add("s_barrier_wait", wait);
  add("s_barrier_init", [](Wave &w, const Inst &i) {
    uint32_t m0 = w.s[w.m0Index];
    Barrier &b = barrierSlot(w, barrierId(w, i));
    b.members = m0 >> 16 & 63;
    b.signals = 0;
    b.valid = true; });
  add("s_barrier_join", [](Wave &w, const Inst &i) {
    int id = barrierId(w, i); // 0 joins none
    if (id < 0)
      raise(FaultKind::BarrierDivergence, format("barrier id %d cannot be joined", id));
    w.joinedBarrier = id ? slotOf(id) : 0; });
  add("s_barrier_leave", [](Wave &w, const Inst &) { leave(w); });
  add("s_get_barrier_state", [](Wave &w, const Inst &i) {
    int id = barrierId(w, i);
    Barrier b = id == 0 ? Barrier{} : barrierSlot(w, id);
    uint32_t members = id == -1 ? liveWaves(w) : b.members;
    write32(w, i.dst, (b.signals & 127) << 16 | (members & 127) << 4 | (b.valid || id == -1)); });
  add("s_alloc_vgpr", [](Wave &w, const Inst &) { w.scc = 1; }, kUncertain);
  add("s_get_shader_cycles_u64", [](Wave &w, const Inst &i) {
    write64(w, i.dst, clockTicks(1e9)); }, kUncertain);
  add("s_add_pc_i64", [](Wave &w, const Inst &i) {
    w.pc = w.program->indexOf(nextAddress(w, i) + read64(w, i.src[0])); });
  add("s_trap", trap);
  add("s_getreg_b32", getreg, kUncertain); // what the machine has no register for reads 0
  add("s_setreg_b32", [](Wave &w, const Inst &i) { setField(w, i, read32(w, i.dst)); }, kIndexes);
  add("s_setreg_imm32_b32", setFieldImmediate, kIndexes);
  add("s_round_mode", [](Wave &w, const Inst &i) {
    setFpMode(w, (w.mode & ~0xfu) | (i.imm & 15)); });
  add("s_denorm_mode", [](Wave &w, const Inst &i) {
    setFpMode(w, (w.mode & ~0xf0u) | (i.imm & 15) << 4); });
  add("s_set_vgpr_msb", setVgprMsb);
  add("s_memtime", [](Wave &w, const Inst &i) { write64(w, i.dst, clockTicks(1e9)); }, kUncertain);
  add("s_memrealtime", [](Wave &w, const Inst &i) { write64(w, i.dst, clockTicks(1e8)); }, kUncertain);
  add("s_sendmsg_rtn_b32", [](Wave &w, const Inst &i) { write32(w, i.dst, 0); }, kUncertain);
  add("s_sendmsg_rtn_b64", [](Wave &w, const Inst &i) {
    uint32_t id = i.src[0] ? read32(w, i.src[0]) : 0;
    write64(w, i.dst, id == 0x83 ? clockTicks(1e8) : 0); }, kUncertain);
}

} // namespace flysim
