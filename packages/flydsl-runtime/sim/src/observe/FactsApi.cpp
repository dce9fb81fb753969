//===- FactsApi.cpp - the facts of every instruction ----------------------===//

#include "decode/Coverage.h"
#include "decode/Disassembler.h"
#include "decode/Program.h"
#include "hip/Runtime.h"
#include "observe/Classify.h"
#include "support/Json.h"

#include <algorithm>

namespace flysim {

namespace {

const char *spaceName(MemSpace space) {
  static const char *const kNames[] = {"", "global", "flat", "scratch", "buffer", "lds", "scalar", "tensor"};
  return kNames[static_cast<unsigned>(space)];
}
const char *counterName(Counter counter) {
  static const char *const kNames[] = {"vm", "lgkm", "store", "ds", "km", "async", "tensor", ""};
  return kNames[static_cast<unsigned>(counter)];
}
const char *barrierName(BarrierRole role) {
  static const char *const kNames[] = {"", "whole", "signal", "wait", "other"};
  return kNames[static_cast<unsigned>(role)];
}
const char *branchName(BranchOn on) {
  static const char *const kNames[] = {"", "scc", "vcc", "exec", "register", "always", "end"};
  return kNames[static_cast<unsigned>(on)];
}
const char *halfName(Half half) {
  static const char *const kNames[] = {"", "low", "high"};
  return kNames[static_cast<unsigned>(half)];
}

/// What the table says, and under "llvm" what LLVM's tables say of the same.
std::string factsText(const Program &program, const Inst &inst) {
  const OpFacts &f = inst.def->facts;
  InstInfo info = classifyOne(inst, *program.arch, program.wave32 ? 32 : 64);
  Json j;
  j.open('{').field("unit", unitName(info.unit)).field("space", spaceName(info.space));
  j.field("load", info.load).field("store", info.store).field("atomic", info.atomic).field("to_lds", info.toLds || inst.lds);
  j.field("bytes", unsigned(info.bytes)).field("pairs", unsigned(info.pairs)).field("cycles", unsigned(info.cycles));
  j.field("counter", counterName(info.counter)).field("flops", unsigned(info.laneFlops));
  j.key("waits").open('[');
  for (unsigned c = 0; c < kCounters; ++c)
    if (info.wait[c] != kNoWait)
      j.value(counterName(static_cast<Counter>(c)));
  j.close(']');
  j.field("barrier", barrierName(f.barrier)).field("branch", branchName(f.branch)).field("half", halfName(f.memory.half));
  j.field("reads_scc", f.readsScc).field("writes_scc", f.writesScc).field("saves_exec", f.savesExec);
  j.field("crosses_lanes", f.crossesLanes).field("swaps", f.swaps).field("outside", f.outside);
  j.field("cache", f.memory.cache != CacheOp::None).field("prefetch", f.memory.prefetch);
  RegisterUse use = program.registerUse(inst);
  auto names = [](const std::vector<uint32_t> &list, uint32_t r) {
    return std::find(list.begin(), list.end(), r) != list.end();
  };
  j.key("llvm").open('{').field("reads_scc", names(use.uses, RegisterUse::kScc));
  j.field("writes_scc", names(use.defs, RegisterUse::kScc));
  j.field("loads", use.loads).field("stores", use.stores).field("lds", use.lds).close('}').close('}');
  return j.text;
}

} // namespace

} // namespace flysim

/// Calls `report` for every instruction of `arch` that is implemented: LLVM's opcode name, mnemonic, and
/// its facts as a JSON object. Returns 1 for an unknown architecture, another error for one of the host.
extern "C" __attribute__((visibility("default"))) int
flysimFacts(const char *arch, int wave32, void (*report)(void *, const char *, const char *, const char *),
            void *data) try {
  using namespace flysim;
  const ArchInfo *info = arch ? findArch(arch) : nullptr;
  if (!info)
    return 1;
  visitInstructions(*info, wave32 != 0, [&](const CoverageEntry &e, const Program &program, const Inst &inst) {
    if (inst.def)
      report(data, e.opcode.c_str(), e.mnemonic.c_str(), factsText(program, inst).c_str());
  });
  return 0;
} FLYSIM_GUARDED
