//===- Checks.cpp - opt-in checks of running kernels ----------------------===//

#include "check/Checks.h"

#include "exec/ExecInline.h"
#include "exec/FloatFormats.h"
#include "exec/Machine.h"
#include "loader/SourceLines.h"
#include "observe/Access.h"
#include "observe/Classify.h"

#include <cstdlib>
#include <unordered_map>

namespace flysim {

unsigned requestedChecks() {
  const char *text = getenv("FLYDSL_SIM_CHECK");
  if (!text || !*text)
    return 0;
  static const struct {
    const char *name;
    unsigned bit;
  } kNames[] = {{"oob", kCheckOob},         {"uninit", kCheckUninit}, {"race", kCheckRace},
                {"barrier", kCheckBarrier}, {"nan", kCheckNan},       {"all", 15}};
  unsigned checks = 0;
  std::string list = text;
  for (size_t at = 0; at <= list.size();) {
    size_t comma = std::min(list.find(',', at), list.size());
    std::string name = list.substr(at, comma - at);
    at = comma + 1;
    if (name.empty())
      continue;
    unsigned bit = 0;
    for (const auto &n : kNames)
      if (name == n.name)
        bit = n.bit;
    if (!bit)
      raise(FaultKind::InvalidConfiguration,
            "FLYDSL_SIM_CHECK: '" + name + "' is none of oob, uninit, race, barrier, nan, all");
    checks |= bit;
  }
  return checks;
}

namespace {

/// Who touched a dword since when. Waves count the barriers that they have passed; two
/// accesses of different waves with the same count are unordered.
struct Shadow {
  const Inst *write = nullptr, *read[2] = {nullptr, nullptr};
  uint32_t writeEpoch = 0, readEpoch = 0;
  uint16_t writer = 0, reader[2] = {0, 0};
  bool atomic = false, written = false;
};

/// A result to look at when its instruction has run.
struct Pending {
  const Inst *inst = nullptr;
  uint64_t exec = 0;
};

bool isFloat(Num n) {
  return n == Num::F32 || n == Num::F64 || n == Num::F16 || n == Num::BF16 || n == Num::PkF32 ||
         n == Num::PkF16 || n == Num::PkBF16;
}

/// True when a lane of an operand in rows `s` is NaN or infinite.
bool special(const uint32_t *s, Num n, unsigned lane) {
  uint32_t v = s[lane];
  switch (n) {
  case Num::F32:
    return (v & 0x7f800000) == 0x7f800000;
  case Num::F64:
    return (s[kRow + lane] & 0x7ff00000) == 0x7ff00000;
  case Num::F16:
    return (v & 0x7c00) == 0x7c00;
  case Num::BF16:
    return (v & 0x7f80) == 0x7f80;
  case Num::PkF32:
    return (v & 0x7f800000) == 0x7f800000 || (s[kRow + lane] & 0x7f800000) == 0x7f800000;
  case Num::PkF16:
    return (v & 0x7c00) == 0x7c00 || (v & 0x7c000000) == 0x7c000000;
  case Num::PkBF16:
    return (v & 0x7f80) == 0x7f80 || (v & 0x7f800000) == 0x7f800000;
  default:
    return false;
  }
}

class Checker : public WorkerObserver {
public:
  Checker(const Dispatch &d, unsigned checks, const std::vector<InstInfo> &infos)
      : d(d), checks(checks), infos(infos), base(d.program->insts.data()) {}

  void startGroup(Workgroup &wg, uint64_t) override {
    lds.assign((wg.ldsSize + 3) / 4, Shadow());
    memory.clear();
    epochs.assign(wg.numWaves, 0);
    pending.assign(wg.numWaves, Pending());
  }

  void endGroup(Workgroup &wg) override {
    if (!(checks & kCheckBarrier))
      return;
    for (unsigned k = 1; k < wg.numWaves; ++k)
      if (epochs[k] != epochs[0])
        raise(FaultKind::BarrierDivergence,
              format("check barrier: wave 0 passed %u barriers, wave %u passed %u", epochs[0], k,
                     epochs[k]));
  }

  void instruction(Wave &w, const Inst &i) override {
    const InstInfo &info = infos[static_cast<size_t>(&i - base)];
    if (checks & kCheckNan)
      watchNumbers(w, i);
    if (info.unit == Unit::Barrier)
      return barrier(w, i);
    if (!(checks & (kCheckOob | kCheckRace | kCheckUninit)))
      return;
    if (info.toLds)
      return writesLds(w, i, info);
    if (info.space == MemSpace::None || info.space == MemSpace::Scalar ||
        info.space == MemSpace::Scratch)
      return;
    if (describeAccess(w, i, info, access))
      visit(w, i, info);
  }

private:
  std::string place(const Inst &i, unsigned wave) const {
    uint64_t pc = d.program->addressOf(i) - d.object->bias;
    std::string text = format("'%s' at pc 0x%llx of wave %u", d.program->text(i).c_str(),
                              (unsigned long long)pc, wave);
    std::string line = sourceLine(*d.object, pc);
    return line.empty() ? text : text + " (" + line + ")";
  }

  void barrier(Wave &w, const Inst &i) {
    bool old = i.def && i.def->exec && d.program->text(i).compare(0, 9, "s_barrier") == 0;
    if (!old)
      return;
    std::string text = d.program->text(i);
    bool whole = text == "s_barrier";
    bool wait = text.compare(0, 14, "s_barrier_wait") == 0 && static_cast<int16_t>(i.imm) == -1;
    if ((checks & kCheckBarrier) && (whole || text.compare(0, 16, "s_barrier_signal") == 0)) {
      unsigned items = d.block[0] * d.block[1] * d.block[2], first = w.id * w.lanes;
      unsigned count = std::min(w.lanes, items - first);
      uint64_t all = count == 64 ? ~0ull : (1ull << count) - 1;
      if (w.exec() != all)
        raise(FaultKind::BarrierDivergence,
              format("check barrier: the barrier is reached with %d of %u lanes active (EXEC "
                     "0x%llx)",
                     __builtin_popcountll(w.exec()), count, (unsigned long long)w.exec()));
    }
    if (whole || (wait && (w.barrierDone & 1)))
      ++epochs[w.id];
  }

  /// Direct-to-LDS loads and other writers whose extent is not described.
  void writesLds(Wave &w, const Inst &i, const InstInfo &info) {
    uint32_t at = (w.s[w.m0Index] & 0x3ffff) + static_cast<uint32_t>(i.imm);
    unsigned slot = info.bytes < 4 ? 4 : info.bytes;
    for (uint64_t m = w.exec(); m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      for (unsigned b = 0; b < slot; b += 4)
        markWritten((at + l * slot + b) / 4);
    }
    if (!i.lds && w.program->arch->gfx1250())
      for (Shadow &s : lds) // per-lane destinations
        s.written = true;
  }
  void markWritten(uint32_t dword) {
    if (dword < lds.size())
      lds[dword].written = true;
  }

  void visit(Wave &w, const Inst &i, const InstInfo &info) {
    auto ldsBase = reinterpret_cast<uint64_t>(w.wg->lds);
    for (uint64_t m = access.lanes; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      for (unsigned k = 0; k < access.count; ++k) {
        uint64_t addr = access.addr[k][l];
        bool inLds = access.ldsSpace;
        if (!inLds && addr - ldsBase < w.wg->ldsSize) {
          inLds = true;
          addr -= ldsBase;
        }
        if (!inLds) {
          if ((checks & kCheckRace) && w.wg->numWaves > 1)
            for (unsigned b = 0; b < access.bytes; b += 4)
              race(w, i, info, memory[(addr + b) / 4], addr + b, "address 0x%llx", l);
          continue;
        }
        if (addr + access.bytes > w.wg->ldsSize) {
          if (checks & kCheckOob)
            raise(FaultKind::IllegalAddress,
                  format("check oob: %s of %u bytes at LDS offset %llu of %u",
                         info.store ? "write" : "read", access.bytes, (unsigned long long)addr,
                         w.wg->ldsSize),
                  static_cast<int>(l));
          continue;
        }
        for (unsigned b = 0; b < access.bytes; b += 4) {
          Shadow &s = lds[(addr + b) / 4];
          if ((checks & kCheckUninit) && (info.load || info.atomic) && !s.written)
            raise(FaultKind::IllegalAddress,
                  format("check uninit: LDS offset %llu is read, but no wave of the work-group "
                         "has written it",
                         (unsigned long long)(addr + b)),
                  static_cast<int>(l));
          if (checks & kCheckRace)
            race(w, i, info, s, addr + b, "LDS offset %llu", l);
          s.written |= info.store || info.atomic;
        }
      }
    }
  }

  void race(Wave &w, const Inst &i, const InstInfo &info, Shadow &s, uint64_t at,
            const char *where, unsigned lane) {
    uint32_t epoch = epochs[w.id];
    auto me = static_cast<uint16_t>(w.id);
    bool writes = info.store || info.atomic;
    auto conflict = [&](const Inst &other, uint16_t wave, const char *what) {
      std::string place0 = format(strstr(where, "0x") ? "address 0x%llx" : "LDS offset %llu",
                                  (unsigned long long)at);
      raise(FaultKind::Trap,
            format("check race: %s at %s, which %s %s with no barrier in between",
                   writes ? "write" : "read", place0.c_str(), what, place(other, wave).c_str()),
            static_cast<int>(lane));
    };
    if (s.write && s.writeEpoch == epoch && s.writer != me && !(s.atomic && info.atomic))
      conflict(*s.write, s.writer, "was written by");
    if (writes && s.readEpoch == epoch && !info.atomic)
      for (unsigned k = 0; k < 2; ++k)
        if (s.read[k] && s.reader[k] != me)
          conflict(*s.read[k], s.reader[k], "was read by");
    if (writes) {
      s.write = &i;
      s.writeEpoch = epoch;
      s.writer = me;
      s.atomic = info.atomic;
      return;
    }
    if (s.readEpoch != epoch || !s.read[0]) {
      s.readEpoch = epoch;
      s.read[0] = &i;
      s.reader[0] = me;
      s.read[1] = nullptr;
    } else if (s.reader[0] != me && !s.read[1]) {
      s.read[1] = &i;
      s.reader[1] = me;
    }
  }

  //===--- numbers ---------------------------------------------------------===//

  void watchNumbers(Wave &w, const Inst &i) {
    Pending &p = pending[w.id];
    if (p.inst)
      inspect(w, p);
    p.inst = nullptr;
    if (!i.def || i.dst.kind != OperandKind::Vgpr || !isFloat(i.def->dst) || i.sdst ||
        (i.ext && i.ext->second))
      return;
    uint64_t finite = w.exec();
    for (unsigned n = 0; n < i.def->nsrc; ++n) {
      if (!isFloat(i.def->src[n]))
        continue;
      unsigned words = dwords(i.def->src[n]);
      const uint32_t *s = fetchRaw(w, i.src[n], words, scratch);
      for (unsigned l = 0; l < w.lanes; ++l)
        if (special(s, i.def->src[n], l))
          finite &= ~(uint64_t(1) << l);
    }
    p = {&i, finite};
  }

  void inspect(Wave &w, const Pending &p) {
    const Inst &i = *p.inst;
    const uint32_t *v = row(w, i.dst);
    for (uint64_t m = p.exec; m; m &= m - 1) {
      unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
      if (!special(v, i.def->dst, l))
        continue;
      w.cur = &i; // the fault is told at the instruction that made the value
      raise(FaultKind::Trap,
            format("check nan: the result 0x%08x is a NaN or infinity made from finite operands",
                   v[l]),
            static_cast<int>(l));
    }
  }

  const Dispatch &d;
  unsigned checks;
  const std::vector<InstInfo> &infos;
  const Inst *base;
  std::vector<Shadow> lds;
  std::unordered_map<uint64_t, Shadow> memory;
  std::vector<uint32_t> epochs;
  std::vector<Pending> pending;
  MemoryAccess access;
  uint32_t scratch[2 * kRow];
};

class CheckedLaunch : public LaunchObserver {
public:
  CheckedLaunch(const Dispatch &d, unsigned checks)
      : d(d), checks(checks), infos(classify(*d.program, d.kernel->waveSize())) {}
  std::unique_ptr<WorkerObserver> worker() override {
    return std::make_unique<Checker>(d, checks, infos);
  }

private:
  const Dispatch &d;
  unsigned checks;
  std::vector<InstInfo> infos;
};

} // namespace

std::unique_ptr<LaunchObserver> checkLaunch(const Dispatch &dispatch) {
  unsigned checks = requestedChecks();
  return checks ? std::make_unique<CheckedLaunch>(dispatch, checks) : nullptr;
}

} // namespace flysim
