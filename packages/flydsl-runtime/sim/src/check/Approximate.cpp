//===- Approximate.cpp - what depends on approximate results --------------===//

#include "check/Approximate.h"

#include "exec/ExecInline.h"
#include "exec/Special.h"
#include "hip/Runtime.h"
#include "support/Json.h"

#include <map>

namespace flysim {

namespace {

constexpr unsigned kScc = 253, kSpareRows = 40;
constexpr uint64_t kAll = ~uint64_t(0);

std::mutex countsMutex;
std::map<std::string, uint64_t> counts; ///< executions (of a wave) by mnemonic

unsigned wordsOf(const Operand &o, Num n = Num::None) {
  return std::max<unsigned>({1u, o.count, dwords(n)});
}

bool approximate(const Inst &i) {
  return i.def && (i.def->flags & (kApprox | kUncertain)) && !readsKeptRegister(i);
}

} // namespace

ApproximateCheck::ApproximateCheck(const Dispatch &d, const std::vector<InstInfo> &infos,
                                   ApproximateGlobal &global, Findings &findings)
    : infos(infos), base(d.program->insts.data()), global(global), findings(findings),
      executed(infos.size()) {
  for (size_t n = 0; n < infos.size(); ++n)
    kinds.push_back(kindOf(base[n]));
}

ApproximateCheck::~ApproximateCheck() {
  std::lock_guard<std::mutex> lock(countsMutex);
  for (size_t n = 0; n < executed.size(); ++n)
    for (const Inst *part = &base[n]; executed[n] && part;
         part = part->ext ? part->ext->second : nullptr)
      if (approximate(*part) && part->def->name)
        counts[part->def->name] += executed[n];
}

ApproximateCheck::Kind ApproximateCheck::kindOf(const Inst &i) {
  Kind k;
  if (!i.def || !i.def->name)
    return k;
  const OpFacts &facts = i.def->facts;
  k.approximate = approximate(i) || (i.ext && i.ext->second && approximate(*i.ext->second));
  k.crossesLanes = (i.ext && i.ext->dpp) || facts.crossesLanes;
  k.writesExec = writesExec(i);
  k.partial = !i.plain && dwords(i.def->dst) == 1; // halves and bytes leave the rest alone
  return k;
}

void ApproximateCheck::startGroup(const Workgroup &wg) {
  waves.resize(wg.numWaves);
  for (State &s : waves) {
    s.rows.assign(1024 + kSpareRows, Mark());
    s.scalars.assign(kSgprFile, Mark());
  }
  lds.assign(wg.ldsSize / 4 + 1, nullptr);
  scratch.clear();
  any = false;
}

ApproximateCheck::Mark ApproximateCheck::read(Wave &w, const Operand &o, unsigned words) {
  Mark m;
  const State &s = waves[w.id];
  if (o.kind == OperandKind::Vgpr) {
    size_t first = static_cast<size_t>(row(w, o) - w.v) / kRow;
    for (unsigned k = 0; k < words && first + k < s.rows.size(); ++k)
      m.add(s.rows[first + k]);
  } else if (o.kind == OperandKind::Sgpr) {
    for (unsigned k = 0; k < words && o.reg + k < kSgprFile; ++k)
      m.add(s.scalars[o.reg + k]);
  } else if (o.kind == OperandKind::Scc) {
    m = s.scalars[kScc];
  } else if (o.kind == OperandKind::Vccz || o.kind == OperandKind::Execz) {
    unsigned reg = o.kind == OperandKind::Vccz ? kVcc : kExec;
    m = s.scalars[reg];
    m.add(s.scalars[reg + 1]);
  }
  return m;
}

ApproximateCheck::Mark ApproximateCheck::sources(Wave &w, const Inst &i) {
  Mark m;
  for (unsigned n = 0; n < 3; ++n)
    m.add(read(w, i.src[n], wordsOf(i.src[n], i.def->src[n])));
  m.add(read(w, i.data, wordsOf(i.data)));
  if (i.ext)
    for (const Operand *x : {&i.ext->scale[0], &i.ext->scale[1], &i.ext->index})
      m.add(read(w, *x, wordsOf(*x)));
  return m;
}

void ApproximateCheck::write(Wave &w, const Operand &o, unsigned words, Mark m, uint64_t lanes,
                             bool keep) {
  State &s = waves[w.id];
  if (o.kind == OperandKind::Vgpr) {
    size_t first = static_cast<size_t>(row(w, o) - w.v) / kRow;
    for (unsigned k = 0; k < words && first + k < s.rows.size(); ++k) {
      Mark &to = s.rows[first + k];
      to.lanes = (keep ? to.lanes : to.lanes & ~lanes) | (m.lanes & lanes);
      if (m.lanes & lanes)
        to.from = m.from;
    }
  } else if (o.kind == OperandKind::Sgpr && o.reg != kSink) {
    for (unsigned k = 0; k < words && o.reg + k < kSgprFile; ++k)
      s.scalars[o.reg + k] = m.lanes ? Mark{kAll, m.from} : Mark();
  }
}

void ApproximateCheck::before(Wave &w, const Inst &i, const InstInfo &info) {
  size_t n = static_cast<size_t>(&i - base);
  const Kind &k = kinds[n];
  if (k.approximate) {
    ++executed[n];
    any = true;
  }
  if (!any || !i.def)
    return;
  switch (info.unit) {
  case Unit::Branch:
    return branch(w, i);
  case Unit::Valu:
  case Unit::Trans:
  case Unit::Matrix:
    return vector(w, i, k, info);
  case Unit::Salu:
    return scalar(w, i, k);
  default:
    if (info.space != MemSpace::None && info.space != MemSpace::Tensor)
      memory(w, i, info);
    else if (info.unit == Unit::Lds)
      vector(w, i, k, info); // ds_bpermute and relatives touch no memory
  }
}

void ApproximateCheck::vector(Wave &w, const Inst &i, const Kind &k, const InstInfo &info) {
  Mark m = sources(w, i), second;
  const Inst *other = i.ext ? i.ext->second : nullptr;
  if (other)
    second = sources(w, *other);
  if ((k.crossesLanes || info.unit == Unit::Matrix) && m.lanes)
    m.lanes = kAll;
  if (approximate(i))
    m = Mark{kAll, &i};
  if (other && approximate(*other))
    second = Mark{kAll, &i};
  if (info.unit == Unit::Matrix)
    return write(w, i.dst, wordsOf(i.dst), m, kAll, false);
  result(w, i, k, m);
  if (other)
    result(w, *other, Kind(), second);
}

void ApproximateCheck::result(Wave &w, const Inst &i, const Kind &k, Mark m) {
  uint64_t lanes = w.exec();
  bool scalarResult = i.dst.kind == OperandKind::Sgpr; // v_readlane, v_s_*
  Mark bits = scalarResult ? m : Mark{m.lanes & lanes, m.from};
  if (k.writesExec && bits.lanes)
    tell(w, i, bits, "decides which lanes go on");
  bool keep = k.partial || i.def->facts.swaps || (k.crossesLanes && !scalarResult);
  write(w, i.dst, wordsOf(i.dst, i.def->dst), bits, lanes, keep);
  write(w, i.sdst, w.lanes / 32, bits, lanes, false);
  if (i.def->facts.swaps)
    write(w, i.src[0], 1, read(w, i.dst, 1), lanes, true);
}

void ApproximateCheck::scalar(Wave &w, const Inst &i, const Kind &k) {
  State &s = waves[w.id];
  Mark m = sources(w, i);
  if (i.def->facts.readsScc)
    m.add(s.scalars[kScc]);
  if (approximate(i))
    m = Mark{kAll, &i};
  if (k.writesExec && m.lanes)
    tell(w, i, m, "decides which lanes go on");
  bool save = i.def->facts.savesExec;
  Mark old = save ? s.scalars[kExec] : m;
  write(w, i.dst, wordsOf(i.dst), old, kAll, false);
  if (save)
    s.scalars[kExec] = s.scalars[kExec + 1] = m.lanes ? Mark{kAll, m.from} : Mark();
  if (i.def->facts.writesScc)
    s.scalars[kScc] = m.lanes ? Mark{kAll, m.from} : Mark();
}

void ApproximateCheck::branch(Wave &w, const Inst &i) {
  const State &s = waves[w.id];
  Mark m;
  switch (i.def->facts.branch) {
  case BranchOn::Scc:
    m = s.scalars[kScc];
    break;
  case BranchOn::Vcc:
    m = s.scalars[kVcc], m.add(s.scalars[kVcc + 1]);
    break;
  case BranchOn::Exec:
    m = s.scalars[kExec], m.add(s.scalars[kExec + 1]);
    break;
  default:
    m = read(w, i.src[0], 2);
  }
  if (m.lanes)
    tell(w, i, m, "decides a branch");
  write(w, i.dst, wordsOf(i.dst), Mark(), kAll, false);
}

//===--- memory ----------------------------------------------------------------===//

ApproximateCheck::Mark ApproximateCheck::memoryMark(Wave &w, unsigned pair, unsigned lane,
                                                    unsigned word) {
  uint64_t at = access.addr[pair][lane] + 4 * word;
  uint64_t own = access.ldsSpace ? at : at - reinterpret_cast<uint64_t>(w.wg->lds);
  const Inst *from = nullptr;
  if (own / 4 < lds.size() && own < w.wg->ldsSize) {
    from = lds[own / 4];
  } else if (!access.ldsSpace) {
    auto it = scratch.find(at / 4);
    if (it != scratch.end()) {
      from = it->second;
    } else {
      std::lock_guard<std::mutex> lock(global.mutex);
      auto g = global.dwords.find(at / 4);
      from = g == global.dwords.end() ? nullptr : g->second;
    }
  }
  return from ? Mark{uint64_t(1) << lane, from} : Mark();
}

void ApproximateCheck::setMemory(Wave &w, unsigned pair, unsigned lane, unsigned word,
                                 const Inst *from, bool keep) {
  uint64_t at = access.addr[pair][lane] + 4 * word;
  uint64_t own = access.ldsSpace ? at : at - reinterpret_cast<uint64_t>(w.wg->lds);
  if (own / 4 < lds.size() && own < w.wg->ldsSize) {
    lds[own / 4] = from ? from : keep ? lds[own / 4] : nullptr;
    return;
  }
  if (access.ldsSpace)
    return;
  uint64_t first = reinterpret_cast<uint64_t>(w.scratch);
  bool mine = at - first < uint64_t(w.scratchPerLane) * w.lanes;
  std::unique_lock<std::mutex> lock(global.mutex, std::defer_lock);
  if (!mine)
    lock.lock();
  ApproximateMemory &dwords = mine ? scratch : global.dwords;
  if (from)
    dwords[at / 4] = from;
  else if (!keep)
    dwords.erase(at / 4);
}

void ApproximateCheck::memory(Wave &w, const Inst &i, const InstInfo &info) {
  uint64_t lanes = info.space == MemSpace::Scalar ? 1 : w.exec();
  bool ds = info.space == MemSpace::Lds;
  Mark address = read(w, i.src[0], wordsOf(i.src[0]));
  if (!ds)
    address.add(read(w, i.src[1], wordsOf(i.src[1])));
  if (info.space == MemSpace::Buffer)
    address.add(read(w, i.src[2], 1));
  address.lanes &= lanes;
  if (address.lanes)
    tell(w, i, address, info.store || info.atomic ? "is the address of a write" : "is the address of a read");
  access.lanes = 0;
  if (!describeAccess(w, i, info, access))
    return write(w, i.dst, wordsOf(i.dst), Mark(), lanes, false);
  unsigned words = std::max(1u, access.bytes / 4);
  bool returns = info.load || (info.atomic && i.dst && (ds || i.cpol));
  Operand to = i.dst;
  to.count = 1;
  std::vector<Mark> loaded(returns ? size_t(access.count) * words : 0);
  for (unsigned p = 0; p < access.count; ++p)
    for (unsigned k = 0; k < words; ++k) {
      // Stored data: one operand per address for pairs, consecutive registers otherwise.
      Operand data = ds ? i.src[1 + p] : i.data;
      data.reg = static_cast<uint16_t>(data.reg + k);
      Mark value = info.store || info.atomic ? read(w, data, 1) : Mark();
      if (data.kind == OperandKind::Sgpr && value.lanes)
        value.lanes = kAll;
      for (uint64_t m = access.lanes; m; m &= m - 1) {
        unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
        if (returns)
          loaded[p * words + k].add(memoryMark(w, p, l, k));
        if (info.store || info.atomic)
          setMemory(w, p, l, k, value.lanes >> l & 1 ? value.from : nullptr,
                    info.atomic || access.bytes < 4);
      }
    }
  for (const Mark &m : loaded) {
    write(w, to, 1, m, lanes, access.bytes < 4);
    ++to.reg;
  }
}

void ApproximateCheck::tell(Wave &w, const Inst &i, Mark m, const char *use) {
  w.cur = &i;
  Site from = siteOf(w, *m.from, -1, "result");
  bool vectorWide = (m.lanes & w.fullMask) == w.fullMask;
  findings.add(FaultKind::Trap, "approx",
               "a result of " + findings.describe(from, false) +
                   ", which need not have the same bits on hardware, " + use,
               siteOf(w, i, vectorWide ? -1 : __builtin_ctzll(m.lanes), use), {}, &from);
}

} // namespace flysim

using namespace flysim;

/// How often waves ran each approximate instruction under FLYDSL_SIM_CHECK=approx since the
/// last call: a JSON object (see guardedText).
FLYSIM_API const char *flysimApproximations() {
  return guardedText([] {
    std::lock_guard<std::mutex> lock(countsMutex);
    Json j;
    j.open('{');
    for (const auto &[name, count] : counts)
      j.field(name.c_str(), count);
    j.close('}');
    counts.clear();
    return std::move(j.text);
  });
}
