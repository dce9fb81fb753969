//===- LdsExtra.cpp - less common LDS operations, transposing loads -------===//

#include "exec/AddressInline.h"
#include "exec/LdsBarrier.h"
#include "exec/MemInline.h"
#include "exec/Register.h"

#include "decode/Program.h"

namespace flysim {
namespace {

inline bool inLds(const Wave &w, uint32_t addr, unsigned bytes) {
  return uint64_t(addr) + bytes <= w.wg->ldsSize;
}
template <class F> inline void forActive(const Wave &w, F f) {
  for (uint64_t m = w.exec(); m; m &= m - 1)
    f(static_cast<unsigned>(__builtin_ctzll(m)));
}
template <class T> inline T valueOf(const uint32_t *s, unsigned l) {
  uint64_t v = s[l];
  if (sizeof(T) == 8)
    v |= uint64_t(s[kRow + l]) << 32;
  return static_cast<T>(v);
}
template <class T> inline void setValue(uint32_t *d, unsigned l, T v) {
  d[l] = static_cast<uint32_t>(v);
  if (sizeof(T) == 8)
    d[kRow + l] = static_cast<uint32_t>(uint64_t(v) >> 32);
}

/// An atomic of two data operands: `op(old, data0, data1)` is the new value.
template <class T, class F> void rmw2(Wave &w, const Inst &i, F op) {
  uint32_t addr[kRow];
  memcpy(addr, row(w, i.src[0]), sizeof addr);
  const uint32_t *a = row(w, i.src[1]), *b = i.src[2] ? row(w, i.src[2]) : a;
  uint32_t *d = i.dst ? row(w, i.dst) : nullptr;
  forActive(w, [&](unsigned l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    T old = 0;
    if (at % sizeof(T))
      raise(FaultKind::MisalignedAddress,
            format("LDS atomic of %zu bytes at the misaligned offset %u", sizeof(T), at),
            static_cast<int>(l));
    if (inLds(w, at, sizeof(T))) {
      memcpy(&old, w.wg->lds + at, sizeof(T));
      T next = op(old, valueOf<T>(a, l), valueOf<T>(b, l));
      memcpy(w.wg->lds + at, &next, sizeof(T));
    }
    if (d)
      setValue<T>(d, l, old);
  });
}

template <class T> void maskOr(Wave &w, const Inst &i) {
  rmw2<T>(w, i, [](T old, T mask, T bits) { return T((old & ~mask) | bits); });
}
void wrap(Wave &w, const Inst &i) {
  rmw2<uint32_t>(w, i, [](uint32_t old, uint32_t a, uint32_t b) {
    return old >= a ? old - a : old + b; });
}
/// ds_cmpst_f*: data0 is compared as a float, data1 is the new value.
template <class T, class F> void compareFloat(Wave &w, const Inst &i) {
  rmw2<T>(w, i, [](T old, T compare, T next) {
    return bitCast<F>(old) == bitCast<F>(compare) ? next : old; });
}

/// ds_cmpstore_f*: the same with the operands in the other order.
template <class T, class F> void compareStoreFloat(Wave &w, const Inst &i) {
  rmw2<T>(w, i, [](T old, T next, T compare) {
    return bitCast<F>(old) == bitCast<F>(compare) ? next : old; });
}

void conditionalExchange(Wave &w, const Inst &i) {
  const uint32_t *addr = row(w, i.src[0]), *data = row(w, i.src[1]);
  uint32_t out[2 * kRow] = {};
  forActive(w, [&](unsigned l) {
    uint32_t at = (addr[l] + static_cast<uint32_t>(i.imm)) & ~7u;
    for (unsigned k = 0; k < 2; ++k) {
      if (!inLds(w, at + 4 * k, 4))
        continue;
      memcpy(&out[k * kRow + l], w.wg->lds + at + 4 * k, 4);
      uint32_t v = data[k * kRow + l];
      if (v >> 31) {
        v &= 0x7fffffff;
        memcpy(w.wg->lds + at + 4 * k, &v, 4);
      }
    }
  });
  for (unsigned k = 0; k < 2; ++k)
    blend(row(w, i.dst) + k * kRow, out + k * kRow, w.exec(), w.lanes);
}

/// ds_wrxchg2: two exchanges; aux as in read2.
template <class T> void exchange2(Wave &w, const Inst &i) {
  unsigned unit = sizeof(T) * (i.def->aux & 0x100 ? 64 : 1);
  uint32_t addr[kRow];
  memcpy(addr, row(w, i.src[0]), sizeof addr);
  const uint32_t *s[2] = {row(w, i.src[1]), row(w, i.src[2])};
  const uint32_t offsets[2] = {static_cast<uint32_t>(i.imm) * unit, i.offset2 * unit};
  uint32_t out[4 * kRow] = {};
  constexpr unsigned words = sizeof(T) / 4;
  forActive(w, [&](unsigned l) {
    for (unsigned k = 0; k < 2; ++k) {
      uint32_t at = addr[l] + offsets[k];
      if (!inLds(w, at, sizeof(T)))
        continue;
      T old, next = valueOf<T>(s[k], l);
      memcpy(&old, w.wg->lds + at, sizeof(T));
      memcpy(w.wg->lds + at, &next, sizeof(T));
      setValue<T>(out + k * words * kRow, l, old);
    }
  });
  for (unsigned k = 0; k < 2 * words; ++k)
    blend(row(w, i.dst) + k * kRow, out + k * kRow, w.exec(), w.lanes);
}

/// ds_append / ds_consume: one counter, moved by the number of active lanes.
template <int direction> void count(Wave &w, const Inst &i) {
  uint32_t at = (w.s[w.m0Index] & 0x7ffff) + static_cast<uint32_t>(i.imm), old = 0;
  if (inLds(w, at, 4)) {
    memcpy(&old, w.wg->lds + at, 4);
    auto active = static_cast<uint32_t>(__builtin_popcountll(w.exec()));
    uint32_t next = direction > 0 ? old + active : old - active;
    memcpy(w.wg->lds + at, &next, 4);
  }
  uint32_t *d = row(w, i.dst);
  forActive(w, [&](unsigned l) { d[l] = old; });
}

void readAddTid(Wave &w, const Inst &i) {
  uint32_t base = (w.s[w.m0Index] & 0xffff) + static_cast<uint32_t>(i.imm);
  uint32_t *d = row(w, i.dst);
  forActive(w, [&](unsigned l) {
    uint32_t v = 0;
    if (inLds(w, base + 4 * l, 4))
      memcpy(&v, w.wg->lds + base + 4 * l, 4);
    d[l] = v;
  });
}
void writeAddTid(Wave &w, const Inst &i) {
  uint32_t base = (w.s[w.m0Index] & 0xffff) + static_cast<uint32_t>(i.imm);
  const uint32_t *s = row(w, i.src[1] ? i.src[1] : i.src[0]);
  forActive(w, [&](unsigned l) {
    if (inLds(w, base + 4 * l, 4))
      memcpy(w.wg->lds + base + 4 * l, &s[l], 4);
  });
}

void bpermuteInactive(Wave &w, const Inst &i) {
  uint32_t addr[kRow], data[kRow];
  memcpy(addr, row(w, i.src[0]), sizeof addr);
  memcpy(data, row(w, i.src[1]), sizeof data);
  uint32_t *d = row(w, i.dst);
  forActive(w, [&](unsigned l) {
    d[l] = data[((addr[l] + static_cast<uint32_t>(i.imm)) >> 2) & (w.lanes - 1)];
  });
}

/// Arrivals at a barrier object in LDS: `returns`, as many as the data operand says, else one a lane.
template <bool returns> void barrierArrive(Wave &w, const Inst &i) {
  const uint32_t *addr = row(w, i.src[0]), *data = returns ? row(w, i.src[1]) : nullptr;
  uint32_t *d = returns && i.dst ? row(w, i.dst) : nullptr;
  forActive(w, [&](unsigned l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    uint64_t count = data ? valueOf<uint64_t>(data, l) : 1, old = 0;
    if (inLds(w, at, 8)) {
      memcpy(&old, w.wg->lds + at, 8);
      uint64_t next = arrived(old, count);
      memcpy(w.wg->lds + at, &next, 8);
    }
    if (d)
      setValue<uint64_t>(d, l, old);
  });
}

//===--- transposing loads -------------------------------------------------===//

/// How 16 (or 8) lanes exchange elements: which lane and element each slot reads.
struct Exchange {
  uint8_t bits, bytes, mapping;
};
enum : uint8_t { kRows16, kTr16, kTr8, kTr4, kTr6 };

constexpr uint32_t packExchange(Exchange e) {
  return e.bits | uint32_t(e.bytes) << 8 | uint32_t(e.mapping) << 16;
}

unsigned sourceLane(unsigned mapping, unsigned l, unsigned j) {
  switch (mapping) {
  case kTr16:
    return 8 * (l / 8) + j;
  case kTr8:
    return 16 * (l / 16) + 8 * (j / 4) + 4 * (l / 8 % 2) + j % 4;
  case kTr4:
    return 16 * (j / 8) + 8 * (l / 16 % 2) + j % 8;
  case kTr6:
    return 8 * (j / 4) + j % 4 + 4 * (l / 16 % 2);
  default:
    return 16 * (l / 16) + j;
  }
}

/// Distributes `data` (bytes of each lane, 16 apart) to the destination rows.
void exchange(Wave &w, const Inst &i, const uint8_t (*data)[16]) {
  unsigned bits = i.def->aux & 0xff, bytes = i.def->aux >> 8 & 0xff, mapping = i.def->aux >> 16;
  unsigned slots = bytes * 8 / bits, perSource = mapping == kTr16 || mapping == kTr8 ? 8 : 16;
  uint32_t out[4 * kRow] = {};
  for (unsigned l = 0; l < w.lanes; ++l)
    for (unsigned j = 0; j < slots; ++j) {
      unsigned s = sourceLane(mapping, l, j) & (w.lanes - 1), from = l % perSource * bits;
      uint32_t pair = data[s][from / 8];
      if (from / 8 + 1 < 16)
        pair |= uint32_t(data[s][from / 8 + 1]) << 8;
      uint32_t value = pair >> (from % 8) & ((1u << bits) - 1);
      unsigned to = j * bits;
      out[to / 32 * kRow + l] |= value << (to % 32);
      if (to % 32 + bits > 32)
        out[(to / 32 + 1) * kRow + l] |= value >> (32 - to % 32);
    }
  uint32_t *d = row(w, i.dst);
  for (unsigned k = 0; k < bytes / 4; ++k)
    blend(d + k * kRow, out + k * kRow, w.exec(), w.lanes);
}

void ldsTranspose(Wave &w, const Inst &i) {
  uint8_t data[kRow][16] = {};
  unsigned bytes = i.def->aux >> 8 & 0xff;
  const uint32_t *addr = row(w, i.src[0]);
  for (unsigned l = 0; l < w.lanes; ++l) {
    uint32_t at = addr[l] + static_cast<uint32_t>(i.imm);
    if (inLds(w, at, bytes))
      memcpy(data[l], w.wg->lds + at, bytes);
  }
  exchange(w, i, data);
}

void globalTranspose(Wave &w, const Inst &i) {
  if (w.lanes == 64)
    raise(FaultKind::UnsupportedInstruction, "transposing global loads are simulated for wave32");
  uint8_t data[kRow][16] = {};
  unsigned bytes = i.def->aux >> 8 & 0xff;
  addresses<kGlobal>(w, i, bytes, w.tmp->addr);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    if (!w.mem->check(w.tmp->addr[l], bytes, false))
      badAddress(w.tmp->addr[l], bytes, false, static_cast<int>(l));
    memcpy(data[l], reinterpret_cast<const void *>(w.tmp->addr[l]), bytes);
  }
  exchange(w, i, data);
}

} // namespace

void FLYSIM_LEVEL::registerLdsExtra(OpTable &t) {
  auto add = [&](const std::string &name, ExecFn exec, uint32_t aux = 0, uint32_t flags = 0) {
    OpDef d;
    d.exec = exec;
    d.aux = aux;
    d.flags = flags;
    t.add(name.c_str(), d);
  };
  for (const char *rtn : {"_", "_rtn_"}) {
    add(std::string("ds_mskor") + rtn + "b32", maskOr<uint32_t>);
    add(std::string("ds_mskor") + rtn + "b64", maskOr<uint64_t>);
    add(std::string("ds_cmpst") + rtn + "f32", compareFloat<uint32_t, float>);
    add(std::string("ds_cmpst") + rtn + "f64", compareFloat<uint64_t, double>);
    add(std::string("ds_cmpstore") + rtn + "f32", compareStoreFloat<uint32_t, float>);
    add(std::string("ds_cmpstore") + rtn + "f64", compareStoreFloat<uint64_t, double>);
  }
  add("ds_wrap_rtn_b32", wrap);
  add("ds_condxchg32_rtn_b64", conditionalExchange);
  for (const char *far : {"", "st64"}) {
    add(std::string("ds_wrxchg2") + far + "_rtn_b32", exchange2<uint32_t>, *far ? 0x100 : 0);
    add(std::string("ds_wrxchg2") + far + "_rtn_b64", exchange2<uint64_t>, *far ? 0x100 : 0);
  }
  for (const char *far : {"", "_stride64"}) {
    add(std::string("ds_storexchg_2addr") + far + "_rtn_b32", exchange2<uint32_t>,
        *far ? 0x100 : 0);
    add(std::string("ds_storexchg_2addr") + far + "_rtn_b64", exchange2<uint64_t>,
        *far ? 0x100 : 0);
  }
  add("ds_append", count<1>);
  add("ds_consume", count<-1>);
  for (const char *name : {"ds_read_addtid_b32", "ds_load_addtid_b32"})
    add(name, readAddTid);
  for (const char *name : {"ds_write_addtid_b32", "ds_store_addtid_b32"})
    add(name, writeAddTid);
  add("ds_bpermute_fi_b32", bpermuteInactive);
  add("ds_atomic_barrier_arrive_rtn_b64", barrierArrive<true>, 0, kUncertain);
  add("ds_atomic_async_barrier_arrive_b64", barrierArrive<false>, 0, kUncertain);

  add("ds_read_b96_tr_b6", ldsTranspose, packExchange({6, 12, kRows16}));
  add("ds_load_tr16_b128", ldsTranspose, packExchange({16, 16, kTr16}));
  add("ds_load_tr8_b64", ldsTranspose, packExchange({8, 8, kTr8}));
  add("ds_load_tr4_b64", ldsTranspose, packExchange({4, 8, kTr4}), kUncertain);
  add("ds_load_tr6_b96", ldsTranspose, packExchange({6, 12, kTr6}), kUncertain);
  for (const char *name : {"global_load_tr16_b128", "global_load_tr_b128"})
    add(name, globalTranspose, packExchange({16, 16, kTr16}));
  for (const char *name : {"global_load_tr8_b64", "global_load_tr_b64"})
    add(name, globalTranspose, packExchange({8, 8, kTr8}));
  add("global_load_tr4_b64", globalTranspose, packExchange({4, 8, kTr4}), kUncertain);
  add("global_load_tr6_b96", globalTranspose, packExchange({6, 12, kTr6}), kUncertain);
}

} // namespace flysim
