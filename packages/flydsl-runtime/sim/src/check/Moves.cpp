//===- Moves.cpp - transfers between memory and LDS -----------------------===//

#include "check/Moves.h"

#include "decode/Program.h"
#include "exec/ExecInline.h"
#include "exec/TensorInline.h"

#include <algorithm>

namespace flysim {

bool movesLds(const Inst &i, const InstInfo &info) {
  return info.space == MemSpace::Tensor || info.toLds || i.lds;
}

namespace {

void tensorMoves(Wave &w, const Inst &i, const InstInfo &info, std::vector<LdsMove> &out) {
  Tensor t = decodeTensor(w, i);
  if (!t.valid)
    return;
  for (uint32_t n = 0; n < t.iterations; ++n)
    forElements(t, t.global + n * t.globalIncrement, t.lds + n * t.ldsIncrement, info.load && t.pad,
                w.wg->ldsSize, [&](uint64_t memory, uint64_t lds) {
      if (!memory && info.store)
        return;
      bool inside = lds < w.wg->ldsSize && t.elementBytes <= w.wg->ldsSize - lds;
      if (!out.empty() && inside) {
        LdsMove &m = out.back();
        bool follows = memory ? m.memory && m.memory + m.memoryBytes == memory : !m.memory;
        if (follows && m.lds + m.bytes == lds) {
          m.bytes += t.elementBytes;
          m.memoryBytes += memory ? t.elementBytes : 0;
          return;
        }
      }
      out.push_back({memory, lds, t.elementBytes, memory ? t.elementBytes : 0, -1});
    });
}

} // namespace

void describeMoves(Wave &w, const Inst &i, const InstInfo &info, const MemoryAccess &access,
                   std::vector<LdsMove> &out) {
  out.clear();
  if (info.space == MemSpace::Tensor)
    return tensorMoves(w, i, info, out);
  bool own = w.program->arch->has.clusters && !i.lds; // every lane names its place in LDS
  const Operand &o = info.store ? (i.data ? i.data : i.dst) : (i.dst ? i.dst : i.data);
  if (own && o.kind != OperandKind::Vgpr)
    return;
  const uint32_t *offset = own ? row(w, o) : nullptr;
  unsigned slot = own ? info.bytes : std::max<unsigned>(4, info.bytes);
  uint32_t first = (w.s[w.m0Index] & 0x3ffff) + static_cast<uint32_t>(i.imm);
  for (uint64_t m = w.exec() & w.fullMask; m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    bool inside = access.lanes >> l & 1; // buffer loads outside their range fetch zero
    uint64_t at = own ? uint64_t(offset[l]) + static_cast<uint64_t>(i.imm) : first + l * slot;
    out.push_back({inside && !access.ldsSpace ? access.addr[0][l] : 0, at, slot,
                   inside ? info.bytes : 0u, static_cast<int>(l)});
  }
}

std::optional<uint64_t> arrivalOf(Wave &w, const Inst &i, const InstInfo &info) {
  if (info.space != MemSpace::Tensor)
    return {};
  Tensor t = decodeTensor(w, i);
  return t.valid && t.barrier ? std::optional<uint64_t>(t.barrierAt) : std::nullopt;
}

} // namespace flysim
