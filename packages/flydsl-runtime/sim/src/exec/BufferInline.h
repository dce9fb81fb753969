//===- BufferInline.h - addressing of buffer memory ------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_BUFFERINLINE_H
#define FLYSIM_EXEC_BUFFERINLINE_H

#include "decode/Program.h"
#include "exec/ExecInline.h"

namespace flysim {
namespace {

/// A buffer resource descriptor (V#), decoded.
struct Resource {
  uint64_t base, records;
  uint32_t stride, indexStride, elementSize, oobSelect;
  bool swizzle, addTid, rdna, wide; ///< rdna: the descriptors of RDNA; wide: 57-bit addresses
};

Resource decodeResource(const Wave &w, const Operand &o) {
  const uint32_t *d = &w.s[o.reg];
  const ArchInfo &arch = *w.program->arch;
  Resource r;
  r.rdna = arch.has.rdna;
  r.wide = arch.has.wideDescriptors;
  if (r.wide) {
    r.base = d[0] | uint64_t(d[1] & 0x01ffffff) << 32;
    r.records = (uint64_t(d[1]) >> 25 | uint64_t(d[2]) << 7 | uint64_t(d[3] & 0x3f) << 39);
    r.stride = d[3] >> 12 & 0xffff;
    r.swizzle = r.addTid = false;
    r.indexStride = 8;
    r.elementSize = 4;
    r.oobSelect = 3;
    return r;
  }
  uint64_t base = d[0] | uint64_t(d[1] & 0xffff) << 32;
  r.base = static_cast<uint64_t>(static_cast<int64_t>(base << 16) >> 16);
  r.stride = d[1] >> 16 & 0x3fff;
  r.records = d[2];
  r.indexStride = 8u << (d[3] >> 21 & 3);
  r.addTid = d[3] >> 23 & 1;
  unsigned swizzle = d[1] >> 30;
  r.swizzle = r.rdna ? swizzle != 0 : (swizzle & 2) != 0;
  // On gfx9 the data format extends the stride of a descriptor that adds the lane number.
  if (!r.rdna && r.addTid)
    r.stride |= (d[3] >> 15 & 15) << 14;
  r.elementSize = r.rdna && swizzle == 3 ? 16 : 4;
  r.oobSelect = d[3] >> 28 & 3;
  return r;
}

/// One lane's access: where, and how many leading bytes are in range.
struct Access {
  uint64_t addr;
  unsigned valid;
};

Access locate(const Resource &r, uint64_t index, uint32_t offset, uint32_t soffset, unsigned bytes,
              bool idxen, bool atomic) {
  Access a;
  if (r.swizzle && r.stride) {
    uint64_t is = r.indexStride, es = r.elementSize;
    a.addr = r.base + soffset + ((index / is) * r.stride + (offset / es) * es) * is +
             (index % is) * es + offset % es;
  } else {
    a.addr = r.base + soffset + index * r.stride + offset;
  }
  a.valid = bytes;
  auto rawRange = [&] {
    // Each dword (or the whole sub-dword) is checked on its own.
    uint64_t at = uint64_t(offset) + soffset;
    unsigned step = bytes < 4 || atomic ? bytes : 4;
    unsigned ok = 0;
    while (ok < bytes && at + ok + step <= r.records)
      ok += step;
    a.valid = ok;
  };
  if (!r.rdna) {
    if (r.addTid && !idxen)
      return a;
    if (idxen && r.stride) {
      if (index >= r.records)
        a.valid = 0;
    } else {
      rawRange();
    }
    return a;
  }
  unsigned mode = r.oobSelect;
  if (mode == 3 && r.swizzle && r.stride)
    mode = 0;
  if (mode == 0)
    a.valid = index < r.records && (!r.stride || uint64_t(offset) + bytes <= r.stride) ? bytes : 0;
  else if (mode == 1)
    a.valid = index < r.records ? bytes : 0;
  else if (mode == 2)
    a.valid = r.records ? bytes : 0;
  else
    rawRange();
  return a;
}

/// The addressing operands of a buffer instruction.
class Addressing {
public:
  Addressing(Wave &w, const Inst &i) : r(decodeResource(w, i.src[1])) {
    soffset = i.src[2] ? read32(w, i.src[2]) : 0;
    imm = static_cast<uint32_t>(i.imm);
    offen = i.addrMode & 1;
    idxen = i.addrMode & 2;
    const uint32_t *v = i.src[0] ? row(w, i.src[0]) : nullptr;
    index = idxen ? v : nullptr;
    if (w.privateBase && r.addTid && r.base == w.privateBase) {
      r.base = reinterpret_cast<uint64_t>(w.scratch);
      privateBytes = w.scratchPerLane;
    }
    offset = offen ? (idxen ? v + kRow : v) : nullptr;
  }
  Access at(unsigned lane, unsigned bytes, bool atomic = false) const {
    // Private memory: scalar offsets are those of a wave of 64 lanes; each lane's lies whole (see flat accesses).
    if (privateBytes)
      return {r.base + uint64_t(lane) * privateBytes + soffset / 64 + (offset ? offset[lane] : 0) + imm, bytes};
    uint64_t n = (index ? index[lane] : 0) + (r.addTid ? lane : 0);
    return locate(r, n, (offset ? offset[lane] : 0) + imm, soffset, bytes, idxen, atomic);
  }

  const Resource &resource() const { return r; }
  uint32_t scalarOffset() const { return soffset; }
  uint32_t constant() const { return imm; }
  /// The offset of each lane, or null.
  const uint32_t *offsets() const { return offset; }
  /// True for a plain range of bytes: offsets count from its base, and each dword is checked against its size.
  bool plainRange() const {
    return !r.swizzle && !r.addTid && !r.stride && !idxen && (!r.rdna || r.oobSelect == 3);
  }
  /// The addresses of all lanes in a plain range; true if each of them lies in it with all its bytes.
  bool inPlainRange(unsigned lanes, unsigned bytes, uint64_t *addr) const {
    const uint64_t from = r.base + soffset;
    uint32_t largest = 0;
    for (unsigned l = 0; l < lanes; ++l) {
      const uint32_t at = (offset ? offset[l] : 0) + imm;
      addr[l] = from + at;
      largest = at > largest ? at : largest;
    }
    return uint64_t(largest) + soffset + bytes <= r.records;
  }

  /// The fault status of a load of `words` registers: nothing ever faults quietly here.
  static void reportFaults(Wave &w, const Inst &i, unsigned words) {
    if (!i.tfe)
      return;
    uint32_t *d = row(w, i.dst) + words * kRow;
    for (uint64_t m = w.exec(); m; m &= m - 1)
      d[__builtin_ctzll(m)] = 0;
  }

private:
  Resource r;
  uint32_t soffset, imm;
  bool offen, idxen;
  uint32_t privateBytes = 0; ///< of a lane, if the descriptor is that of private memory
  const uint32_t *index = nullptr, *offset = nullptr;
};

} // namespace
} // namespace flysim

#endif
