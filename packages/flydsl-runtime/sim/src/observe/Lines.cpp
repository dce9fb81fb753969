//===- Lines.cpp - the lines that an access touches -----------------------===//

#include "observe/Lines.h"

#include "exec/AddressInline.h"
#include "exec/BufferInline.h"
#include "exec/MemInline.h"
#include "exec/OpTable.h"

namespace flysim {

void Lines::add(const MemoryAccess &a) {
  uint64_t from = 0, to = 0; // neighbouring lanes mostly touch one stretch
  auto extend = [&](uint64_t at, uint64_t bytes) {
    if (at != to || at == from) {
      touch(from, to);
      from = at;
    }
    to = at + bytes;
  };
  for (unsigned first = 0; first < kRow; first += kBlock) {
    auto lanes = static_cast<uint32_t>(a.lanes >> first);
    const uint64_t *addr = a.addr[0] + first;
    if (lanes == ~0u && isDense<kBlock>(addr, a.bytes)) {
      extend(addr[0], uint64_t(kBlock) * a.bytes);
      continue;
    }
    for (; lanes; lanes &= lanes - 1)
      extend(addr[__builtin_ctz(lanes)], a.bytes);
  }
  touch(from, to);
}

void Lines::touch(uint64_t from, uint64_t to) {
  while (from < to) {
    // Part by part, if it spans arrays that lie side by side here.
    if (!part.has(from))
      part = arrays.partAround(from);
    uint64_t end = std::min(to, part.end);
    uint64_t first = (from + part.shift) / kSectorBytes, last = (end - 1 + part.shift) / kSectorBytes;
    uint64_t line = first / kSectorsOfLine, lastLine = last / kSectorsOfLine;
    unsigned sectors = kAllSectors << first % kSectorsOfLine & kAllSectors;
    for (; line < lastLine; ++line, sectors = kAllSectors)
      addSectors(line, sectors);
    addSectors(line, sectors & kAllSectors >> (kSectorsOfLine - 1 - last % kSectorsOfLine));
    from = end;
  }
}

void Lines::addSectors(uint64_t line, unsigned sectors) {
  // Lanes mostly go on to lines behind all others, or share the line found last.
  if (line < behind)
    for (unsigned k = count; k-- > 0;)
      if (lines[k] == line) {
        masks[k] |= sectors;
        return;
      }
  if (count == kMost)
    return;
  behind = std::max(behind, line + 1);
  lines[count] = line;
  masks[count++] = sectors;
}

bool Lines::placeOf(uint64_t address, uint64_t from, uint64_t to, HostArrays::Part &part, uint64_t &place) const {
  if (!part.has(from))
    part = arrays.partAround(from);
  place = address + part.shift;
  return from < to && part.has(to - 1);
}

void Lines::gather(bool whole) {
  gathered.count = count;
  gathered.stretches.clear();
  for (unsigned k = 0; k < count; ++k) {
    const unsigned sectors = whole ? kAllSectors : masks[k];
    LineStretch *last = gathered.stretches.empty() ? nullptr : &gathered.stretches.back();
    if (last && last->line + last->count == lines[k] && last->sectors == sectors)
      ++last->count;
    else
      gathered.stretches.push_back({lines[k], 1, sectors});
  }
  now = &gathered;
  place0 = 0;
}

void Lines::keep(uint64_t place, Shape &shape) const {
  shape = *now;
  shape.low = place % kLineBytes;
  for (LineStretch &s : shape.stretches)
    s.line += place0 - place / kLineBytes;
}

namespace {

/// The addresses of all lanes of an access: base + (row[lane] + bias) * scale, where the sum has 32 bits.
struct LaneOffsets {
  const uint32_t *row;
  uint64_t base = 0;
  uint32_t bias = 0, scale = 1;
  uint32_t limit = ~0u; ///< the largest sum of which all bytes are in range

  uint32_t sum(unsigned lane) const { return row[lane] + bias; }
  uint64_t address(uint32_t sum) const { return base + uint64_t(sum) * scale; }
};

constexpr uint32_t kNoOffsets[kRow] = {};

bool bufferOffsets(Wave &w, const Inst &i, const InstInfo &info, LaneOffsets &out) {
  const Addressing a(w, i);
  const Resource &r = a.resource();
  const uint64_t used = uint64_t(a.scalarOffset()) + info.bytes;
  if (!a.plainRange() || used > r.records)
    return false;
  out.row = a.offsets() ? a.offsets() : kNoOffsets;
  out.base = r.base + a.scalarOffset();
  out.bias = a.constant();
  out.limit = static_cast<uint32_t>(std::min<uint64_t>(r.records - used, ~0u));
  return true;
}

bool globalOffsets(Wave &w, const Inst &i, const InstInfo &info, LaneOffsets &out) {
  out.base = static_cast<uint64_t>(i.imm);
  out.row = i.src[0] ? row(w, i.src[0]) : kNoOffsets;
  if (i.src[1]) {
    out.base += read64(w, i.src[1]);
    out.scale = i.addrMode & 8 ? info.bytes : 1;
    if (i.addrMode & 16) { // signed: in the order of unsigned numbers
      out.bias = 1u << 31;
      out.base -= uint64_t(out.bias) * out.scale;
    }
    return true;
  }
  const uint32_t *high = out.row + kRow;
  out.base += uint64_t(high[0]) << 32;
  return OpTable::instance().lanes.same(high, w.blocks);
}

} // namespace

bool LinePatterns::find(size_t index, Wave &w, const Inst &inst, const InstInfo &info, Lines &lines) {
  if (w.exec() != w.fullMask || w.scratchPerLane)
    return false;
  LaneOffsets o;
  if (!(info.space == MemSpace::Buffer ? bufferOffsets(w, inst, info, o)
                                       : info.space == MemSpace::Global && globalOffsets(w, inst, info, o)))
    return false;
  if (!memos[index])
    memos[index] = std::make_unique<Memo>();
  Memo &m = *memos[index];
  const uint32_t first = o.sum(0);
  const bool known = m.pattern.matches(w.fullMask, o.row, w.blocks);
  uint32_t lowest = first - m.below, highest = first + m.above;
  if (!known) {
    lowest = highest = first;
    for (unsigned l = 1; l < w.lanes; ++l) {
      lowest = std::min(lowest, o.sum(l));
      highest = std::max(highest, o.sum(l));
    }
  }
  if (lowest > first || highest < first || highest > o.limit) // wraps around, or is out of range
    return false;
  uint64_t place;
  const bool together = lines.placeOf(o.address(first), o.address(lowest), o.address(highest) + info.bytes, m.part,
                                      place);
  Lines::Shape &shape = m.shapes[place % kLineBytes / kSectorBytes];
  if (known && together && shape.count && shape.low == place % kLineBytes) {
    lines.set(place, shape);
    return true;
  }
  MemoryAccess access;
  access.lanes = w.fullMask;
  access.bytes = info.bytes;
  for (unsigned l = 0; l < w.lanes; ++l)
    access.addr[0][l] = o.address(o.sum(l));
  lines.clear();
  lines.add(access);
  lines.gather(info.load);
  if (together) {
    if (!known) {
      for (Lines::Shape &other : m.shapes)
        other.count = 0;
      m.pattern.keep(w.fullMask, o.row, w.blocks);
      m.below = first - lowest;
      m.above = highest - first;
    }
    lines.keep(place, shape);
  }
  return true;
}

} // namespace flysim
