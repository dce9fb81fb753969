//===- Access.cpp - the memory that an instruction is about to touch ------===//

#include "observe/Access.h"

#include "exec/AddressInline.h"
#include "exec/BufferInline.h"
#include "exec/OpTable.h"
#include "exec/TensorInline.h"

#include <algorithm>
#include <cstring>

namespace flysim {

namespace {

template <Space space> void vector(Wave &w, const Inst &i, const InstInfo &info, MemoryAccess &out) {
  addresses<space>(w, i, info.bytes, out.addr[0]);
  out.lanes = w.exec() & w.fullMask;
}

void buffer(Wave &w, const Inst &i, const InstInfo &info, MemoryAccess &out) {
  Addressing addressing(w, i);
  const Resource &r = addressing.resource();
  const uint64_t exec = w.exec();
  out.lanes = 0;
  if (addressing.plainRange()) {
    if (exec == w.fullMask && addressing.inPlainRange(w.lanes, info.bytes, out.addr[0])) {
      out.lanes = exec;
      return;
    }
    // The range check of the first dword as in locate().
    uint32_t soffset = i.src[2] ? read32(w, i.src[2]) : 0, imm = static_cast<uint32_t>(i.imm);
    const uint32_t *v = (i.addrMode & 1) && i.src[0] ? row(w, i.src[0]) : nullptr;
    unsigned first = info.bytes < 4 || info.atomic ? info.bytes : 4;
    for (unsigned l = 0; l < w.lanes; ++l) {
      uint32_t offset = (v ? v[l] : 0) + imm;
      out.addr[0][l] = r.base + soffset + offset;
      out.lanes |= uint64_t(uint64_t(offset) + soffset + first <= r.records) << l;
    }
    out.lanes &= exec;
    return;
  }
  for (uint64_t m = exec; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    flysim::Access a = addressing.at(l, info.bytes, info.atomic);
    // Out of range reads zero and writes nothing: no memory is touched.
    if (!a.valid)
      continue;
    out.addr[0][l] = a.addr;
    out.lanes |= 1ull << l;
  }
}

void lds(Wave &w, const Inst &i, const InstInfo &info, MemoryAccess &out) {
  out.ldsSpace = true;
  out.lanes = w.exec() & w.fullMask;
  out.count = info.pairs;
  const uint32_t *base = i.src[0] ? row(w, i.src[0]) : nullptr;
  unsigned unit = 1;
  uint32_t offsets[2] = {static_cast<uint32_t>(i.imm), i.offset2};
  if (info.pairs == 2) {
    unit = (i.def->aux & 0xff) * (i.def->aux & 0x100 ? 64 : 1);
    offsets[0] *= unit;
    offsets[1] *= unit;
  }
  for (unsigned k = 0; k < info.pairs; ++k)
    for (unsigned l = 0; l < w.lanes; ++l)
      out.addr[k][l] = (base ? base[l] : 0) + offsets[k];
}

void scalar(Wave &w, const Inst &i, const InstInfo &info, MemoryAccess &out) {
  out.lanes = 1;
  out.addr[0][0] = 0;
  if (i.src[0].kind != OperandKind::Sgpr)
    return;
  uint64_t offset = static_cast<uint64_t>(i.imm);
  if (i.src[1])
    offset += uint64_t(read32(w, i.src[1])) * (i.addrMode & 8 ? info.bytes : 1);
  uint64_t whole = info.bytes >= 4 ? ~uint64_t(3) : ~uint64_t(0);
  if (!i.def->facts.memory.descriptor) {
    out.addr[0][0] = ((read64(w, i.src[0]) & 0xffffffffffffull) + offset) & whole;
    return;
  }
  // Dwords outside the buffer are zero: no memory is touched.
  Resource r = decodeResource(w, i.src[0]);
  uint64_t limit = r.stride ? uint64_t(r.stride) * r.records : r.records;
  offset &= whole;
  out.addr[0][0] = r.base + offset;
  uint64_t left = (offset < limit ? limit - offset : 0) & whole;
  if (left < out.bytes)
    out.bytes = static_cast<unsigned>(left);
  out.lanes = out.bytes != 0;
}

/// Which lanes the LDS serves together, as groups of `width` in `order`.
struct Phases {
  const uint8_t *order;
  unsigned width, banks;
};

constexpr uint8_t kIdentity[64] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
    22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
    44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63};
// Wide reads of gfx9 pair groups of four lanes from two halves of 32.
constexpr uint8_t kEights[64] = {
    0,  1,  2,  3,  20, 21, 22, 23, 4,  5,  6,  7,  16, 17, 18, 19, 8,  9,  10, 11, 28, 29,
    30, 31, 12, 13, 14, 15, 24, 25, 26, 27, 32, 33, 34, 35, 52, 53, 54, 55, 36, 37, 38, 39,
    48, 49, 50, 51, 40, 41, 42, 43, 60, 61, 62, 63, 44, 45, 46, 47, 56, 57, 58, 59};
constexpr uint8_t kSixteens[64] = {
    0,  1,  2,  3,  12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27, 4,  5,  6,  7,  8,  9,
    10, 11, 16, 17, 18, 19, 28, 29, 30, 31, 32, 33, 34, 35, 44, 45, 46, 47, 52, 53, 54, 55,
    56, 57, 58, 59, 36, 37, 38, 39, 40, 41, 42, 43, 48, 49, 50, 51, 60, 61, 62, 63};

Phases phasesOf(unsigned bytes, bool read, const ArchInfo &arch) {
  if (arch.has.ldsBanks == LdsBanks::Rdna32 || arch.has.ldsBanks == LdsBanks::Rdna64)
    return {kIdentity, bytes <= 4 ? 32u : (bytes <= 8 ? 16u : 8u),
            arch.has.ldsBanks == LdsBanks::Rdna64 ? 64u : 32u};
  // Bytes and halves are served like the dwords that hold them.
  if (!read)
    return {kIdentity, bytes <= 4 ? 32u : (bytes <= 8 ? 16u : 8u), 32};
  if (arch.has.ldsBanks == LdsBanks::Cdna64) {
    if (bytes <= 4)
      return {kIdentity, 64, 64};
    if (bytes <= 8)
      return {kIdentity, 32, 64};
    return bytes == 12 ? Phases{kEights, 8, 32} : Phases{kSixteens, 16, 64};
  }
  if (bytes <= 8)
    return {kIdentity, bytes <= 4 ? 32u : 16u, 32};
  return {bytes == 12 ? kIdentity : kEights, 8, 32};
}

/// Most distinct dwords that one bank serves for the lanes of a phase; with `each`, most
/// dwords, distinct or not.
unsigned phaseCycles(const uint64_t *addr, uint64_t lanes, const Phases &p, unsigned first,
                     unsigned bytes, bool each) {
  uint32_t dwords[64 * 4];
  unsigned n = 0;
  for (unsigned k = first; k < first + p.width; ++k) {
    unsigned l = p.order[k];
    if (!(lanes >> l & 1))
      continue;
    uint32_t from = static_cast<uint32_t>(addr[l]) / 4;
    uint32_t to = (static_cast<uint32_t>(addr[l]) + bytes - 1) / 4;
    for (uint32_t d = from; d <= to && n < 64 * 4; ++d)
      dwords[n++] = d;
  }
  if (!n)
    return 0;
  // Distinct dwords per bank, with small chains instead of a sort.
  uint8_t load[64] = {}, head[64], next[64 * 4];
  memset(head, 255, sizeof head);
  unsigned worst = 1;
  for (unsigned k = 0; k < n; ++k) {
    unsigned bank = dwords[k] & (p.banks - 1);
    bool seen = false;
    for (unsigned at = head[bank]; !each && at != 255 && !seen; at = next[at])
      seen = dwords[at] == dwords[k];
    if (seen)
      continue;
    next[k] = head[bank];
    head[bank] = static_cast<uint8_t>(k);
    worst = ++load[bank] > worst ? load[bank] : worst;
  }
  return worst;
}

} // namespace

bool describeAccess(Wave &w, const Inst &i, const InstInfo &info, MemoryAccess &out) {
  out.count = 1;
  out.bytes = info.bytes;
  out.ldsSpace = false;
  switch (info.space) {
  case MemSpace::None:
  case MemSpace::Tensor:
    return false;
  case MemSpace::Global:
    vector<kGlobal>(w, i, info, out);
    return true;
  case MemSpace::Flat:
    vector<kFlat>(w, i, info, out);
    return true;
  case MemSpace::Scratch:
    vector<kScratch>(w, i, info, out);
    return true;
  case MemSpace::Buffer:
    buffer(w, i, info, out);
    return true;
  case MemSpace::Lds:
    lds(w, i, info, out);
    return true;
  case MemSpace::Scalar:
    scalar(w, i, info, out);
    return true;
  }
  return false;
}

LdsCost ldsCost(const MemoryAccess &a, const InstInfo &info, const ArchInfo &arch, unsigned lanes) {
  Phases p = phasesOf(a.bytes, info.load, arch);
  LdsCost cost;
  for (unsigned k = 0; k < a.count; ++k)
    for (unsigned first = 0; first < lanes; first += p.width) {
      unsigned cycles = phaseCycles(a.addr[k], a.lanes, p, first, a.bytes, info.atomic);
      cost.cycles += cycles;
      cost.ideal += cycles != 0;
      cost.degree = std::max(cost.degree, cycles);
    }
  // gfx950 spends two clocks on a conflict-free dword access of 64 lanes.
  unsigned least = arch.has.ldsBanks == LdsBanks::Cdna64 && a.bytes <= 4 && info.load ? 2 * a.count : 1;
  cost.cycles = std::max(cost.cycles, least);
  cost.ideal = std::max(cost.ideal, least);
  return cost;
}

LdsPhases ldsPhases(const InstInfo &info, const ArchInfo &arch, unsigned lanes) {
  Phases p = phasesOf(info.bytes, info.load, arch);
  LdsPhases out{{}, p.banks};
  for (unsigned first = 0; first < lanes; first += p.width)
    out.lanes.emplace_back(p.order + first, p.order + std::min(first + p.width, lanes));
  return out;
}

bool LanePattern::matches(uint64_t active, const uint32_t *offsets, unsigned blocks) const {
  return lanes == active && active && OpTable::instance().lanes.follow(offsets, relative, blocks);
}

void LanePattern::keep(uint64_t active, const uint32_t *offsets, unsigned blocks) {
  lanes = active;
  for (unsigned l = 0; l < blocks * kBlock; ++l)
    relative[l] = offsets[l] - offsets[0];
}

LdsCost LdsCosts::find(size_t index, Wave &w, const Inst &inst, const InstInfo &info) {
  if (!memos[index])
    memos[index] = std::make_unique<Memo>();
  Memo &m = *memos[index];
  // The offsets of the instruction, also the second of a pair, are the same each time.
  static constexpr uint32_t kZeros[kRow] = {};
  const uint32_t *base = inst.src[0] ? row(w, inst.src[0]) : kZeros;
  const uint64_t active = w.exec();
  if (m.low == (base[0] & 3) && m.pattern.matches(active, base, w.blocks))
    return m.cost;
  m.pattern.keep(active, base, w.blocks);
  m.low = base[0] & 3;
  MemoryAccess access;
  describeAccess(w, inst, info, access);
  m.cost = ldsCost(access, info, *w.program->arch, w.lanes);
  if (m.cost.degree > m.worst.degree) {
    m.worst.degree = m.cost.degree;
    m.worst.group = group;
    m.worst.lanes = access.lanes;
    for (unsigned l = 0; l < w.lanes; ++l)
      m.worst.address[l] = static_cast<uint32_t>(access.addr[0][l]);
  }
  return m.cost;
}

uint64_t describeTensor(Wave &w, const Inst &inst, std::vector<Run> &out) {
  out.clear();
  Tensor t = decodeTensor(w, inst);
  // More than any LDS holds: descriptors are data, and may claim tiles that take hours to walk.
  constexpr uint32_t kMostMoved = 16u << 20;
  uint64_t ldsBytes = 0;
  if (!t.valid)
    return 0;
  for (uint32_t n = 0; n < t.iterations; ++n)
    forElements(t, t.global + n * t.globalIncrement, 0, false, kMostMoved, [&](uint64_t address, uint64_t) {
      ldsBytes += t.elementBytes;
      if (!address)
        return;
      if (!out.empty() && out.back().from + out.back().bytes == address)
        out.back().bytes += t.elementBytes;
      else
        out.push_back({address, t.elementBytes});
    });
  return ldsBytes;
}

} // namespace flysim
