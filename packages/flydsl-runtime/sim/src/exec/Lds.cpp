//===- Lds.cpp - LDS memory and lane exchange through the LDS unit --------===//

#include "decode/Program.h"
#include "exec/Atomics.h"
#include "exec/LdsWide.h"
#include "exec/MemInline.h"
#include "exec/Register.h"

namespace flysim {
namespace {

/// An access outside the work-group's allocation reads zero and drops writes.
inline bool inLds(const Wave &w, uint32_t addr, unsigned bytes) {
  return uint64_t(addr) + bytes <= w.wg->ldsSize;
}

template <class F> inline void forActive(const Wave &w, F f) {
  for (uint64_t m = w.exec(); m; m &= m - 1)
    f(static_cast<unsigned>(__builtin_ctzll(m)));
}

void read(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  uint32_t *d = row(w, i.dst), copy[kRow];
  const uint32_t *addr = addressesBeside(d, (s.bytes + 3u) / 4, row(w, i.src[0]), copy);
  auto offset = static_cast<uint32_t>(i.imm);
  if (readWhole(w, addr, offset, s.bytes, d))
    return;
  forActive(w, [&](unsigned l) {
    uint8_t word[16] = {};
    uint32_t at = addr[l] + offset;
    if (inLds(w, at, s.bytes))
      memcpy(word, w.wg->lds + at, s.bytes);
    storeLoaded(d, l, word, s);
  });
}

void write(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  const uint32_t *addr = row(w, i.src[0]), *d = row(w, i.src[1]);
  if (writeWhole(w, addr, static_cast<uint32_t>(i.imm), s.bytes, d))
    return;
  forActive(w, [&](unsigned l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    if (inLds(w, at, s.bytes))
      fetchStored(d, l, w.wg->lds + at, s);
  });
}

/// read2/write2: aux is the element size, with the 64-element stride in bit 8.
void read2(Wave &w, const Inst &i) {
  unsigned bytes = i.def->aux & 0xff, unit = bytes * (i.def->aux & 0x100 ? 64 : 1);
  uint32_t *d = row(w, i.dst), copy[kRow];
  const uint32_t *addr = addressesBeside(d, bytes / 2, row(w, i.src[0]), copy);
  const uint32_t offsets[2] = {static_cast<uint32_t>(i.imm) * unit, i.offset2 * unit};
  if (readWholeTwice(w, addr, offsets, bytes, d))
    return;
  forActive(w, [&](unsigned l) {
    for (unsigned k = 0; k < 2; ++k) {
      uint8_t word[8] = {};
      uint32_t at = addr[l] + offsets[k];
      if (inLds(w, at, bytes))
        memcpy(word, w.wg->lds + at, bytes);
      for (unsigned j = 0; j < bytes / 4; ++j)
        memcpy(&d[(k * bytes / 4 + j) * kRow + l], word + 4 * j, 4);
    }
  });
}

void write2(Wave &w, const Inst &i) {
  unsigned bytes = i.def->aux & 0xff, unit = bytes * (i.def->aux & 0x100 ? 64 : 1);
  const uint32_t *addr = row(w, i.src[0]);
  const uint32_t *d[2] = {row(w, i.src[1]), row(w, i.src[2])};
  const uint32_t offsets[2] = {static_cast<uint32_t>(i.imm) * unit, i.offset2 * unit};
  forActive(w, [&](unsigned l) {
    for (unsigned k = 0; k < 2; ++k) {
      uint32_t at = addr[l] + offsets[k];
      if (inLds(w, at, bytes))
        for (unsigned j = 0; j < bytes / 4; ++j)
          memcpy(w.wg->lds + at + 4 * j, &d[k][j * kRow + l], 4);
    }
  });
}

/// aux: operation, operand order of compare-and-swap in bit 8 (data0 = compare).
template <class T> void atomic(Wave &w, const Inst &i) {
  auto op = static_cast<Rmw>(i.def->aux & 0xff);
  bool compareFirst = i.def->aux & 0x100;
  const uint32_t *addr = row(w, i.src[0]);
  const uint32_t *a = row(w, i.src[1]), *b = i.src[2] ? row(w, i.src[2]) : a;
  uint32_t *d = i.dst ? row(w, i.dst) : nullptr;
  auto value = [](const uint32_t *s, unsigned l) {
    uint64_t v = s[l];
    if (sizeof(T) == 8)
      v |= uint64_t(s[kRow + l]) << 32;
    return static_cast<T>(v);
  };
  forActive(w, [&](unsigned l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    T old = 0;
    if (at % sizeof(T))
      raise(FaultKind::MisalignedAddress,
            format("LDS atomic of %zu bytes at the misaligned offset %u", sizeof(T), at),
            static_cast<int>(l));
    if (inLds(w, at, sizeof(T))) {
      // One thread runs a whole work-group, so plain memory is atomic enough.
      memcpy(&old, w.wg->lds + at, sizeof(T));
      T data = op == Rmw::CmpSwap && compareFirst ? value(b, l) : value(a, l);
      T compare = op == Rmw::CmpSwap ? (compareFirst ? value(a, l) : value(b, l)) : T(0);
      T next = op == Rmw::CmpSwap ? (old == compare ? data : old) : rmwApply<T>(op, old, data);
      memcpy(w.wg->lds + at, &next, sizeof(T));
    }
    if (d) {
      d[l] = static_cast<uint32_t>(old);
      if (sizeof(T) == 8)
        d[kRow + l] = static_cast<uint32_t>(uint64_t(old) >> 32);
    }
  });
}

void bpermute(Wave &w, const Inst &i) {
  uint32_t addr[kRow], data[kRow];
  memcpy(addr, row(w, i.src[0]), sizeof addr);
  memcpy(data, row(w, i.src[1]), sizeof data);
  uint32_t *d = row(w, i.dst);
  uint64_t exec = w.exec();
  bool halves = w.program->arch->has.rdna && w.lanes == 64;
  forActive(w, [&](unsigned l) {
    unsigned s = ((addr[l] + static_cast<uint32_t>(i.imm)) >> 2) & (w.lanes - 1);
    if (halves)
      s = (s & 31) | (l & 32);
    d[l] = exec >> s & 1 ? data[s] : 0;
  });
}

void permute(Wave &w, const Inst &i) {
  uint32_t out[kRow] = {};
  const uint32_t *addr = row(w, i.src[0]), *data = row(w, i.src[1]);
  forActive(w, [&](unsigned l) {
    out[((addr[l] + static_cast<uint32_t>(i.imm)) >> 2) & (w.lanes - 1)] = data[l];
  });
  blend(row(w, i.dst), out, w.exec(), w.lanes);
}

unsigned swizzleSource(uint32_t offset, unsigned l) {
  if (offset >= 0xe000) { // FFT: bit reversal within 32 lanes, by the mask
    unsigned mask = offset & 31, r = 0;
    for (unsigned b = 0; b < 5; ++b)
      r |= (l >> b & 1) << (4 - b);
    return (l & ~31u) | ((r & mask) | (l & ~mask & 31));
  }
  if (offset >= 0xc000) { // rotate within groups
    unsigned amount = offset >> 5 & 31, keep = offset & 31;
    unsigned to = offset >> 10 & 1 ? l - amount : l + amount;
    return (l & ~31u) | (l & keep) | (to & ~keep & 31);
  }
  if (offset & 0x8000)
    return (l & ~3u) | (offset >> (2 * (l & 3)) & 3);
  unsigned in = l & 31;
  return (l & ~31u) | (((in & (offset & 31)) | (offset >> 5 & 31)) ^ (offset >> 10 & 31));
}

void swizzle(Wave &w, const Inst &i) {
  uint32_t data[kRow];
  memcpy(data, row(w, i.src[0] ? i.src[0] : i.src[1]), sizeof data);
  uint32_t *d = row(w, i.dst);
  uint64_t exec = w.exec();
  forActive(w, [&](unsigned l) {
    unsigned s = swizzleSource(static_cast<uint32_t>(i.imm) & 0xffff, l) & (w.lanes - 1);
    d[l] = exec >> s & 1 ? data[s] : 0;
  });
}

/// Transposing reads: every lane loads 64 bits, 16 lanes exchange elements. Unlike plain reads they have no
/// unaligned mode.
/// aux: element bits.
void readTranspose(Wave &w, const Inst &i) {
  unsigned bits = i.def->aux, slots = 64 / bits;
  uint64_t data[kRow] = {};
  const uint32_t *addr = row(w, i.src[0]);
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    if (at % 8 && (w.exec() >> l & 1))
      raise(FaultKind::MisalignedAddress,
            format("transposing LDS read of 8 bytes at the misaligned offset %u", at), static_cast<int>(l));
    if (inLds(w, at, 8))
      memcpy(&data[l], w.wg->lds + at, 8);
  }
  uint32_t *d = row(w, i.dst);
  uint64_t mask = (uint64_t(1) << bits) - 1;
  forActive(w, [&](unsigned l) {
    uint64_t r = 0;
    for (unsigned j = 0; j < slots; ++j) {
      unsigned s = 16 * (l / 16) + j * 16 / slots + (l % 16) / slots, e = l % slots;
      r |= (data[s] >> (e * bits) & mask) << (j * bits);
    }
    d[l] = static_cast<uint32_t>(r);
    d[kRow + l] = static_cast<uint32_t>(r >> 32);
  });
}

struct DsName {
  const char *gfx9, *gfx12;
  MemShape shape;
};
constexpr DsName kReads[] = {
    {"read_u8", "load_u8", {1, false, false, false}},
    {"read_i8", "load_i8", {1, true, false, false}},
    {"read_u16", "load_u16", {2, false, false, false}},
    {"read_i16", "load_i16", {2, true, false, false}},
    {"read_b32", "load_b32", {4, false, false, false}},
    {"read_b64", "load_b64", {8, false, false, false}},
    {"read_b96", "load_b96", {12, false, false, false}},
    {"read_b128", "load_b128", {16, false, false, false}},
    {"read_u8_d16", "load_u8_d16", {1, false, true, false}},
    {"read_u8_d16_hi", "load_u8_d16_hi", {1, false, true, true}},
    {"read_i8_d16", "load_i8_d16", {1, true, true, false}},
    {"read_i8_d16_hi", "load_i8_d16_hi", {1, true, true, true}},
    {"read_u16_d16", "load_u16_d16", {2, false, true, false}},
    {"read_u16_d16_hi", "load_u16_d16_hi", {2, false, true, true}},
};
constexpr DsName kWrites[] = {
    {"write_b8", "store_b8", {1, false, false, false}},
    {"write_b16", "store_b16", {2, false, false, false}},
    {"write_b32", "store_b32", {4, false, false, false}},
    {"write_b64", "store_b64", {8, false, false, false}},
    {"write_b96", "store_b96", {12, false, false, false}},
    {"write_b128", "store_b128", {16, false, false, false}},
    {"write_b8_d16_hi", "store_b8_d16_hi", {1, false, false, true}},
    {"write_b16_d16_hi", "store_b16_d16_hi", {2, false, false, true}},
};

struct DsRmw {
  const char *name; ///< without and with "_rtn" before the type
  const char *type;
  Rmw op;
  unsigned bytes;
};
constexpr DsRmw kDsRmw[] = {
    {"add", "u32", Rmw::Add, 4},       {"sub", "u32", Rmw::Sub, 4},
    {"rsub", "u32", Rmw::RSub, 4},     {"inc", "u32", Rmw::Inc, 4},
    {"dec", "u32", Rmw::Dec, 4},       {"min", "i32", Rmw::SMin, 4},
    {"max", "i32", Rmw::SMax, 4},      {"min", "u32", Rmw::UMin, 4},
    {"max", "u32", Rmw::UMax, 4},      {"and", "b32", Rmw::And, 4},
    {"or", "b32", Rmw::Or, 4},         {"xor", "b32", Rmw::Xor, 4},
    {"add", "f32", Rmw::FAdd, 4},      {"min", "f32", Rmw::FMin, 4},
    {"max", "f32", Rmw::FMax, 4},      {"min_num", "f32", Rmw::FMinNum, 4},
    {"max_num", "f32", Rmw::FMaxNum, 4},  {"pk_add", "f16", Rmw::PkAddF16, 4},
    {"pk_add", "bf16", Rmw::PkAddBF16, 4}, {"add", "u64", Rmw::Add, 8},
    {"sub", "u64", Rmw::Sub, 8},       {"rsub", "u64", Rmw::RSub, 8},
    {"inc", "u64", Rmw::Inc, 8},       {"dec", "u64", Rmw::Dec, 8},
    {"min", "i64", Rmw::SMin, 8},      {"max", "i64", Rmw::SMax, 8},
    {"min", "u64", Rmw::UMin, 8},      {"max", "u64", Rmw::UMax, 8},
    {"and", "b64", Rmw::And, 8},       {"or", "b64", Rmw::Or, 8},
    {"xor", "b64", Rmw::Xor, 8},       {"add", "f64", Rmw::FAdd, 8},
    {"min", "f64", Rmw::FMin, 8},      {"max", "f64", Rmw::FMax, 8},
    {"min_num", "f64", Rmw::FMinNum, 8},  {"max_num", "f64", Rmw::FMaxNum, 8},
    {"sub_clamp", "u32", Rmw::SubClamp, 4}, {"cond_sub", "u32", Rmw::CondSub, 4},
};

void addAtomics(OpTable &t) {
  OpDef d;
  auto add = [&](const std::string &name, Rmw op, unsigned bytes, bool compareFirst) {
    d.exec = bytes == 4 ? ExecFn(atomic<uint32_t>) : ExecFn(atomic<uint64_t>);
    d.aux = static_cast<uint32_t>(op) | (compareFirst ? 0x100 : 0);
    t.add(name.c_str(), d);
  };
  for (const DsRmw &r : kDsRmw)
    for (const char *rtn : {"_", "_rtn_"})
      add(std::string("ds_") + r.name + rtn + r.type, r.op, r.bytes, false);
  for (unsigned bytes : {4u, 8u}) {
    std::string type = bytes == 4 ? "b32" : "b64";
    add("ds_wrxchg_rtn_" + type, Rmw::Swap, bytes, false);
    add("ds_storexchg_rtn_" + type, Rmw::Swap, bytes, false);
    for (const char *rtn : {"_", "_rtn_"}) {
      add(std::string("ds_cmpst") + rtn + type, Rmw::CmpSwap, bytes, true);
      add(std::string("ds_cmpstore") + rtn + type, Rmw::CmpSwap, bytes, false);
    }
  }
}

} // namespace

void FLYSIM_LEVEL::registerLds(OpTable &t) {
  OpDef d;
  for (const DsName &n : kReads) {
    d.exec = read;
    d.aux = packShape(n.shape);
    t.add((std::string("ds_") + n.gfx9).c_str(), d);
    t.add((std::string("ds_") + n.gfx12).c_str(), d);
  }
  for (const DsName &n : kWrites) {
    d.exec = write;
    d.aux = packShape(n.shape);
    t.add((std::string("ds_") + n.gfx9).c_str(), d);
    t.add((std::string("ds_") + n.gfx12).c_str(), d);
  }
  for (unsigned bytes : {4u, 8u})
    for (bool far : {false, true}) {
      std::string tail = std::string(far ? "st64" : "") + (bytes == 4 ? "_b32" : "_b64");
      std::string tail12 = std::string(far ? "_stride64" : "") + (bytes == 4 ? "_b32" : "_b64");
      d.aux = bytes | (far ? 0x100 : 0);
      d.exec = read2;
      t.add(("ds_read2" + tail).c_str(), d);
      t.add(("ds_load_2addr" + tail12).c_str(), d);
      d.exec = write2;
      t.add(("ds_write2" + tail).c_str(), d);
      t.add(("ds_store_2addr" + tail12).c_str(), d);
    }
  addAtomics(t);
  d.aux = 0;
  d.exec = bpermute;
  t.add("ds_bpermute_b32", d);
  d.exec = permute;
  t.add("ds_permute_b32", d);
  d.exec = swizzle;
  t.add("ds_swizzle_b32", d);
  d.exec = readTranspose;
  for (unsigned bits : {4u, 8u, 16u}) {
    d.aux = bits;
    t.add(("ds_read_b64_tr_b" + std::to_string(bits)).c_str(), d);
  }
}

} // namespace flysim
