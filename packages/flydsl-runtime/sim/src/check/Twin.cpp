//===- Twin.cpp - what depends on values that nobody wrote ----------------===//

#include "check/Twin.h"

#include "check/Unwritten.h"
#include "exec/ExecInline.h"
#include "memory/Memory.h"

#include <algorithm>
#include <cstring>

namespace flysim {

namespace {

constexpr unsigned kSpareRows = 40, kSccIndex = 253;

/// SGPRs that the hardware sets before a kernel starts.
unsigned initialSgprs(const KernelInfo &k, const ArchInfo &arch) {
  static const unsigned kSizes[] = {4, 2, 2, 2, 2, 2, 1};
  unsigned n = 0;
  for (unsigned bit = 0; bit < 7; ++bit)
    n += k.properties >> bit & 1 ? kSizes[bit] : 0;
  n = std::max<unsigned>(n + (k.preload & 127), k.userSgprs(arch.has.vgprMsb));
  if (!arch.has.workgroupInTtmp)
    for (unsigned bit = 7; bit < 10; ++bit)
      n += k.rsrc2 >> bit & 1;
  if (!arch.has.architectedScratch)
    n += k.rsrc2 & 1;
  return n;
}

/// Whether a lane of a flat or buffer instruction is in LDS or private memory.
bool inAperture(Wave &w, const Inst &i, MemSpace space) {
  if (space == MemSpace::Buffer) {
    uint64_t base = w.s[i.src[1].reg] | uint64_t(w.s[i.src[1].reg + 1] & 0xffff) << 32;
    return w.privateBase && base == w.privateBase;
  }
  if (space != MemSpace::Flat)
    return false;
  if (i.src[1] || i.src[0].kind != OperandKind::Vgpr)
    return i.src[1].kind == OperandKind::Sgpr && (w.s[i.src[1].reg + 1] & 0xfe0f0000u) == 0x80000000u;
  const uint32_t *high = row(w, i.src[0]) + kRow;
  for (uint64_t m = w.exec() & w.fullMask; m; m &= m - 1) {
    uint32_t a = high[__builtin_ctzll(m)];
    if (a == kSharedAperture || (a & 0xfe0fffffu) == kPrivateAperture)
      return true;
  }
  return false;
}

unsigned wordsOf(const Operand &o, Num n = Num::None) {
  return std::max<unsigned>({1u, o.count, dwords(n)});
}

} // namespace

TwinCheck::TwinCheck(const Dispatch &d, const std::vector<InstInfo> &infos, Findings &findings)
    : d(d), infos(infos), base(d.program->insts.data()), findings(findings) {
  for (size_t n = 0; n < infos.size(); ++n)
    actions.push_back(actionOf(base[n], infos[n]));
}

TwinCheck::Action TwinCheck::actionOf(const Inst &i, const InstInfo &info) {
  if (!i.def || !i.exec)
    return Action::None;
  switch (info.unit) {
  case Unit::Valu:
  case Unit::Trans:
  case Unit::Matrix:
    return Action::Run;
  case Unit::Salu:
    return i.def->facts.outside ? Action::Copy : Action::Run;
  case Unit::Internal:
    return i.def->facts.setsVgprMsb ? Action::Run : Action::None;
  case Unit::Smem:
    return Action::Load;
  case Unit::Lds:
    return info.load || info.atomic ? Action::OwnLoad : Action::Run;
  case Unit::Branch:
    return Action::Branch;
  case Unit::Barrier:
    return Action::Copy;
  case Unit::VmemLoad:
    if (movesLds(i, info))
      return Action::Run;
    if (info.space == MemSpace::None)
      return Action::None;
    return info.space == MemSpace::Scratch ? Action::OwnLoad : Action::Load;
  case Unit::VmemStore:
    if (info.space == MemSpace::None)
      return Action::None;
    if (movesLds(i, info))
      return Action::Run; // the twin stores the same: what differs is a finding
    return info.space == MemSpace::Scratch ? Action::Run : Action::Store;
  default:
    return Action::None;
  }
}

//===--- set-up --------------------------------------------------------------===//

void TwinCheck::startGroup(Workgroup &wg, Workgroup &twin) {
  const ArchInfo &arch = *d.program->arch;
  size_t stride = size_t(arch.vgprRows + kSpareRows) * kRow;
  size_t perWave = wg.numWaves ? size_t(wg.waves[0].scratchPerLane) * wg.waves[0].lanes : 0;
  twins.resize(wg.numWaves);
  registers.resize(stride * wg.numWaves);
  scratch.resize(perWave * wg.numWaves + 64);
  lds.assign(wg.lds, wg.lds + (wg.ldsSize + 3) / 4 * 4);
  for (size_t n = 0; n < lds.size(); n += 4) {
    uint32_t f = flip(n);
    for (unsigned b = 0; b < 4; ++b)
      lds[n + b] ^= static_cast<uint8_t>(f >> (8 * b));
  }
  lds.resize(lds.size() + 64);
  ldsWritten.assign((wg.ldsSize + 3) / 4, false);
  origins.assign(1, Origin());
  twin = wg;
  twin.cluster = &twin - wg.clusterIndex;
  twin.lds = lds.data();
  auto region = [](const auto &bytes) {
    auto at = reinterpret_cast<uint64_t>(bytes.data());
    return Region{at, at + bytes.size(), true};
  };
  if (wg.numWaves)
    wg.waves[0].mem->setOwn(this, {region(lds), region(scratch)});
  temps.prepare(wg.waves[0].lanes);
  for (unsigned k = 0; k < wg.numWaves; ++k) {
    Twin &t = twins[k];
    t = Twin();
    t.wave = wg.waves[k];
    t.wave.v = registers.data() + stride * k;
    t.wave.wg = &twin;
    t.wave.tmp = &temps;
    t.wave.scratch = scratch.data() + perWave * k;
    for (size_t n = 0; n < perWave; ++n)
      t.wave.scratch[n] = static_cast<uint8_t>(wg.waves[k].scratch[n] ^ (n * 37 | 1));
    setUp(wg.waves[k], t);
  }
}

void TwinCheck::setUp(Wave &w, Twin &t) {
  const ArchInfo &arch = *d.program->arch;
  memcpy(t.wave.v, w.v, size_t(arch.vgprRows) * kRow * 4);
  for (size_t n = kRow; n < size_t(arch.vgprRows) * kRow; ++n)
    t.wave.v[n] ^= flip(n); // v0 holds the work-item's number
  t.vectorOrigin.assign(arch.vgprRows + kSpareRows, 0);
  t.scalarOrigin.assign(kSgprFile, 0);
  auto never = [&](unsigned s) {
    t.wave.s[s] ^= flip(s);
    Origin o;
    o.scalar = true;
    o.reg = static_cast<uint16_t>(s);
    t.scalarOrigin[s] = addOrigin(o);
  };
  for (unsigned s = initialSgprs(*d.kernel, arch); s < arch.has.initialSgprs; ++s)
    never(s);
  never(kVcc);
  never(kVcc + 1);
}

//===--- comparing -------------------------------------------------------------===//

uint64_t TwinCheck::difference(Wave &w, Twin &t, const Operand &o, unsigned words) {
  switch (o.kind) {
  case OperandKind::Vgpr: {
    const uint32_t *a = row(w, o), *b = row(t.wave, o);
    uint64_t lanes = 0;
    for (unsigned k = 0; k < words; ++k, a += kRow, b += kRow) {
      if (memcmp(a, b, w.lanes * 4) == 0)
        continue;
      for (unsigned l = 0; l < w.lanes; ++l)
        lanes |= uint64_t(a[l] != b[l]) << l;
    }
    return lanes;
  }
  case OperandKind::Sgpr:
    for (unsigned k = 0; k < words && o.reg + k < kSgprFile; ++k)
      if (o.reg + k != kSink && w.s[o.reg + k] != t.wave.s[o.reg + k])
        return 1;
    return 0;
  case OperandKind::None:
  case OperandKind::Const:
    return 0;
  default:
    return specialScalar(w, o) != specialScalar(t.wave, o);
  }
}

/// The origin of the first register of an operand that differs (0: not known).
uint32_t TwinCheck::originOf(Wave &w, Twin &t, const Operand &o, unsigned words) {
  Operand one = o;
  one.count = 1;
  for (unsigned k = 0; k < words; ++k, ++one.reg) {
    if (!difference(w, t, one, 1))
      continue;
    if (o.kind == OperandKind::Sgpr)
      return t.scalarOrigin[one.reg];
    if (o.kind != OperandKind::Vgpr)
      return o.kind == OperandKind::Scc ? t.scalarOrigin[kSccIndex] : t.scalarOrigin[kVcc];
    size_t r = static_cast<size_t>(row(w, one) - w.v) / kRow;
    if (t.vectorOrigin[r])
      return t.vectorOrigin[r];
    Origin never;
    never.reg = static_cast<uint16_t>(r);
    return t.vectorOrigin[r] = addOrigin(never);
  }
  return 0;
}

uint32_t TwinCheck::firstDifference(Wave &w, Twin &t, const Inst &i) {
  auto look = [&](const Operand &o, Num n) -> uint32_t {
    unsigned words = wordsOf(o, n);
    return difference(w, t, o, words) ? originOf(w, t, o, words) : 0;
  };
  for (const Inst *part = &i; part; part = part->ext ? part->ext->second : nullptr) {
    for (unsigned n = 0; n < 3; ++n)
      if (uint32_t o = look(part->src[n], part->def ? part->def->src[n] : Num::None))
        return o;
    if (uint32_t o = look(part->data, Num::B64))
      return o;
    if (part->ext)
      for (const Operand *x : {&part->ext->scale[0], &part->ext->scale[1], &part->ext->index})
        if (uint32_t o = look(*x, Num::None))
          return o;
  }
  return w.scc != t.wave.scc ? t.scalarOrigin[kSccIndex] : 0;
}

void TwinCheck::copy(Wave &w, Twin &t, const Operand &o, unsigned words, uint64_t lanes) {
  if (o.kind == OperandKind::Sgpr)
    for (unsigned k = 0; k < words && o.reg + k < kSgprFile; ++k)
      t.wave.s[o.reg + k] = w.s[o.reg + k];
  if (o.kind != OperandKind::Vgpr)
    return;
  const uint32_t *from = row(w, o);
  uint32_t *to = row(t.wave, o);
  for (unsigned k = 0; k < words; ++k)
    blend(to + k * kRow, from + k * kRow, lanes, w.lanes);
}

/// Remembers where the differences of a result come from.
void TwinCheck::compare(Wave &w, Twin &t, const Operand &o, unsigned words, uint32_t origin) {
  Operand one = o;
  for (unsigned k = 0; k < words && o; ++k, ++one.reg) {
    if (!difference(w, t, one, 1))
      continue;
    if (o.kind == OperandKind::Sgpr && one.reg < kSgprFile)
      t.scalarOrigin[one.reg] = origin;
    else if (o.kind == OperandKind::Vgpr)
      t.vectorOrigin[static_cast<size_t>(row(w, one) - w.v) / kRow] = origin;
  }
}

//===--- before and after an instruction ----------------------------------------===//

void TwinCheck::run(Wave &w, Twin &t, const Inst &i) {
  t.wave.pc = w.pc;
  t.wave.cur = &i;
  t.wave.state = WaveState::Running;
  try {
    i.exec(t.wave, i);
  } catch (const Fault &) {
    // The wave itself is about to raise it.
  }
}

void TwinCheck::before(Wave &w, const Inst &i, const InstInfo &info) {
  Twin &t = twins[w.id];
  finish(w, t);
  t.last = &i;
  t.lanes = w.exec() & w.fullMask;
  t.action = actions[static_cast<size_t>(&i - base)];
  if (t.action == Action::Load && inAperture(w, i, info.space))
    t.action = Action::OwnLoad;
  if (t.action == Action::Store && inAperture(w, i, info.space))
    t.action = Action::Run;
  t.source = 0;
  switch (t.action) {
  case Action::None:
  case Action::Copy:
    return;
  case Action::Branch:
    return checkBranch(w, t, i);
  case Action::Load:
    checkAddress(w, t, i, info);
    t.access.lanes = 0;
    describeAccess(w, i, info, t.access);
    return;
  case Action::Store:
    checkAddress(w, t, i, info);
    t.access.lanes = 0;
    describeAccess(w, i, info, t.access);
    return checkStore(w, t, i, info);
  case Action::OwnLoad:
  case Action::Run:
    break;
  }
  t.source = firstDifference(w, t, i);
  if (info.space != MemSpace::None) {
    checkAddress(w, t, i, info);
    t.access.lanes = 0;
    describeAccess(w, i, info, t.access);
  }
  bool moves = movesLds(i, info);
  if (moves)
    describeMoves(w, i, info, t.access, list);
  if (moves && info.store)
    checkMoves(w, t, i);
  written(w, i, info);
  run(w, t, i);
  if (moves && !info.store)
    unwrittenMoves(w, t);
}

/// Remembers the LDS that an instruction writes.
void TwinCheck::written(Wave &w, const Inst &i, const InstInfo &info) {
  auto mark = [&](uint64_t offset, unsigned bytes) {
    for (uint64_t n = offset / 4; n * 4 < offset + bytes && n < ldsWritten.size(); ++n)
      ldsWritten[n] = true;
  };
  if (movesLds(i, info)) {
    for (const LdsMove &m : list)
      if (!info.store)
        mark(m.lds, m.bytes);
    return;
  }
  Twin &t = twins[w.id];
  if (!(info.store || info.atomic) || !t.access.ldsSpace || info.space != MemSpace::Lds)
    return;
  for (uint64_t m = t.access.lanes; m; m &= m - 1)
    for (unsigned k = 0; k < t.access.count; ++k)
      mark(t.access.addr[k][__builtin_ctzll(m)], t.access.bytes);
}

void TwinCheck::finish(Wave &w, Twin &t) {
  if (!t.last)
    return;
  const Inst &i = *t.last;
  t.last = nullptr;
  const InstInfo &info = infos[static_cast<size_t>(&i - base)];
  switch (t.action) {
  case Action::Copy:
  case Action::Branch:
    copy(w, t, i.dst, wordsOf(i.dst), t.lanes);
    t.wave.scc = w.scc;
    break;
  case Action::Load:
    finishLoad(w, t, i);
    break;
  case Action::Store:
    if (info.atomic)
      copy(w, t, i.dst, wordsOf(i.dst), t.lanes);
    break;
  case Action::OwnLoad:
  case Action::Run:
    note(w, t, i, info);
    break;
  case Action::None:
    break;
  }
  if (t.wave.exec() != w.exec()) {
    uint64_t lanes = (t.wave.exec() ^ w.exec()) & w.fullMask;
    t.wave.setExec(w.exec());
    if (lanes) {
      w.cur = &i;
      tell(w, i, t.source, "decides which lanes go on", __builtin_ctzll(lanes));
    }
  }
}

void TwinCheck::note(Wave &w, Twin &t, const Inst &i, const InstInfo &info) {
  uint32_t origin = t.source;
  if (t.action == Action::OwnLoad && i.dst.kind == OperandKind::Vgpr &&
      info.space != MemSpace::None) {
    unsigned words = wordsOf(i.dst);
    uint64_t lanes = difference(w, t, i.dst, words) & t.access.lanes;
    if (lanes) {
      Origin o;
      o.load = &i;
      o.wave = static_cast<uint16_t>(w.id);
      o.lane = static_cast<uint8_t>(__builtin_ctzll(lanes));
      unsigned k = 0, each = std::max(1u, t.access.bytes / 4u);
      Operand one = i.dst;
      for (; k + 1 < words && !(difference(w, t, one, 1) >> o.lane & 1); ++k)
        ++one.reg;
      unsigned pair = t.access.count == 2 ? std::min(1u, k / each) : 0;
      o.address = t.access.addr[pair][o.lane] + 4 * (k - pair * each);
      o.space = "lds";
      uint64_t own = o.address - reinterpret_cast<uint64_t>(w.wg->lds);
      if (!t.access.ldsSpace && own < w.wg->ldsSize) {
        o.address = own;
      } else if (!t.access.ldsSpace) {
        o.space = "private";
        o.address -= reinterpret_cast<uint64_t>(w.scratch) + uint64_t(o.lane) * w.scratchPerLane;
      }
      origin = addOrigin(o);
    }
  }
  for (const Inst *part = &i; part; part = part->ext ? part->ext->second : nullptr) {
    compare(w, t, part->dst, wordsOf(part->dst, part->def ? part->def->dst : Num::None), origin);
    compare(w, t, part->sdst, w.lanes / 32, origin);
  }
  if (w.scc != t.wave.scc)
    t.scalarOrigin[kSccIndex] = origin;
}

void TwinCheck::finishLoad(Wave &w, Twin &t, const Inst &i) {
  unsigned words = wordsOf(i.dst);
  if (i.dst.kind == OperandKind::Sgpr) {
    copy(w, t, i.dst, words, 1);
    for (unsigned k = 0; k < words && i.dst.reg + k < kSgprFile; ++k) {
      uint64_t at = t.access.addr[0][0] + 4 * k;
      if (!neverWritten(at, w.s[i.dst.reg + k]))
        continue;
      t.wave.s[i.dst.reg + k] ^= flip(at);
      t.scalarOrigin[i.dst.reg + k] =
          addOrigin(Origin{&i, "global", at, 0, false, static_cast<uint16_t>(w.id), 0});
    }
    return;
  }
  if (i.dst.kind != OperandKind::Vgpr)
    return;
  const uint32_t *now = row(w, i.dst);
  uint32_t *mine = row(t.wave, i.dst);
  // A 16-bit half leaves the other one as it is.
  const Half half = i.def->facts.memory.half;
  uint32_t kept = half == Half::None ? 0 : half == Half::High ? 0xffffu : 0xffff0000u;
  for (uint64_t m = t.lanes; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    for (unsigned k = 0; k < words; ++k) {
      uint32_t &to = mine[k * kRow + l];
      to = (to & kept) | (now[k * kRow + l] & ~kept);
    }
  }
  uint32_t origin = 0;
  for (uint64_t m = t.access.lanes & t.lanes; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    for (unsigned k = 0; k < words && 4 * k < std::max(4u, t.access.bytes); ++k) {
      uint64_t at = t.access.addr[0][l] + 4 * k;
      uint32_t value = now[k * kRow + l];
      if (t.access.bytes < 4)
        memcpy(&value, reinterpret_cast<const void *>(at & ~3ull), 4);
      else if (at & 3)
        continue;
      if (!neverWritten(at, value))
        continue;
      mine[k * kRow + l] ^= flip(at) & ~kept & (t.access.bytes == 1 ? 0xff00ffu : ~0u);
      if (!origin)
        origin = addOrigin(Origin{&i, "global", at, 0, false, static_cast<uint16_t>(w.id),
                                  static_cast<uint8_t>(l)});
    }
  }
  if (origin)
    compare(w, t, i.dst, words, origin);
}

//===--- uses -------------------------------------------------------------------===//

void TwinCheck::checkAddress(Wave &w, Twin &t, const Inst &i, const InstInfo &info) {
  auto look = [&](const Operand &o) {
    unsigned words = wordsOf(o);
    uint64_t lanes = difference(w, t, o, words);
    if (o.kind == OperandKind::Vgpr)
      lanes &= t.lanes;
    if (!lanes)
      return;
    uint32_t origin = originOf(w, t, o, words);
    copy(w, t, o, words, ~0ull);
    tell(w, i, origin, "is used as an address",
         o.kind == OperandKind::Vgpr ? __builtin_ctzll(lanes) : -1);
  };
  if (info.space == MemSpace::None || info.space == MemSpace::Scalar || t.lanes) {
    look(i.src[0]);
    if (info.space == MemSpace::Lds)
      return;
    look(i.src[1]);
    look(i.src[2]);
  }
}

void TwinCheck::checkStore(Wave &w, Twin &t, const Inst &i, const InstInfo &info) {
  const Operand &o = i.data;
  if (o.kind != OperandKind::Vgpr)
    return;
  unsigned words = std::max(1u, info.bytes / 4u);
  if (!difference(w, t, o, words))
    return;
  const uint32_t *a = row(w, o), *b = row(t.wave, o);
  uint32_t mask = info.bytes >= 4 ? ~0u : info.bytes == 2 ? 0xffffu : 0xffu;
  if (i.def->facts.memory.half == Half::High)
    mask <<= 16;
  for (uint64_t m = t.access.lanes; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    // Structs have padding and vectors unused elements: all of the lane's data must differ.
    bool all = true;
    for (unsigned k = 0; k < words && all; ++k) {
      uint32_t x = (a[k * kRow + l] ^ b[k * kRow + l]) & mask;
      all = info.bytes < 4 ? x != 0 : (x & 0xffff) && x >> 16;
    }
    if (!all)
      continue;
    uint32_t origin = originOf(w, t, o, words);
    copy(w, t, o, words, ~0ull);
    return tell(w, i, origin, "is stored to memory", static_cast<int>(l));
  }
}

void TwinCheck::checkBranch(Wave &w, Twin &t, const Inst &i) {
  uint32_t origin = 0;
  bool differs = false;
  const BranchOn on = i.def->facts.branch;
  if (on == BranchOn::Scc) {
    differs = w.scc != t.wave.scc;
    origin = t.scalarOrigin[kSccIndex];
  } else if (on == BranchOn::Vcc) {
    auto zero = [&](const Wave &x) { return (x.s[kVcc] | (x.lanes == 64 ? x.s[kVcc + 1] : 0)) == 0; };
    differs = zero(w) != zero(t.wave);
    origin = t.scalarOrigin[kVcc];
  } else if (i.src[0].kind == OperandKind::Sgpr && on == BranchOn::Register) {
    differs = difference(w, t, i.src[0], 2) != 0;
    origin = t.scalarOrigin[i.src[0].reg];
  }
  if (!differs)
    return;
  t.wave.scc = w.scc;
  t.wave.s[kVcc] = w.s[kVcc];
  t.wave.s[kVcc + 1] = w.s[kVcc + 1];
  tell(w, i, origin, "decides a branch", -1);
}

} // namespace flysim
