//===- Buffer.cpp - buffer memory (MUBUF, VBUFFER) ------------------------===//

#include "exec/Atomics.h"
#include "exec/BufferInline.h"
#include "exec/MemInline.h"
#include "exec/Register.h"

#include <algorithm>

namespace flysim {
namespace {

/// Finds every active lane's address, and how many leading bytes are in range; true if all lanes are
/// active and fully in range.
bool locateAll(Wave &w, const Addressing &a, unsigned bytes, unsigned *valid) {
  uint64_t exec = w.exec();
  bool all = exec == w.fullMask;
  if (all && a.plainRange() && a.inPlainRange(w.lanes, bytes, w.tmp->addr)) {
    std::fill(valid, valid + w.lanes, bytes);
    return true;
  }
  for (unsigned l = 0; l < w.lanes; ++l) {
    if (!(exec >> l & 1))
      continue;
    Access x = a.at(l, bytes);
    w.tmp->addr[l] = x.addr;
    valid[l] = x.valid;
    all &= x.valid == bytes;
  }
  return all;
}

void copyIn(Wave &w, uint8_t *to, unsigned lane, unsigned bytes, unsigned valid) {
  memset(to, 0, 16);
  if (!valid)
    return;
  unsigned n = valid < bytes ? valid : bytes;
  if (!w.mem->check(w.tmp->addr[lane], n, false))
    badAddress(w.tmp->addr[lane], n, false, static_cast<int>(lane));
  memcpy(to, reinterpret_cast<const void *>(w.tmp->addr[lane]), n);
}

void copyOut(Wave &w, const uint8_t *from, unsigned lane, unsigned bytes) {
  if (!w.mem->check(w.tmp->addr[lane], bytes, true))
    badAddress(w.tmp->addr[lane], bytes, true, static_cast<int>(lane));
  memcpy(reinterpret_cast<void *>(w.tmp->addr[lane]), from, bytes);
}

/// Where the lanes' places in LDS begin of a transfer between memory and LDS.
uint32_t ldsPlaces(const Wave &w, const Inst &i) { return ldsBase(w) + static_cast<uint32_t>(i.imm); }

void loadLds(Wave &w, const Inst &i, const MemShape &s) {
  Addressing a(w, i);
  unsigned valid[kRow];
  locateAll(w, a, s.bytes, valid);
  unsigned slot = s.bytes < 4 ? 4 : s.bytes;
  uint32_t base = ldsPlaces(w, i);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint8_t word[16];
    copyIn(w, word, l, s.bytes, valid[l]);
    if (s.sign && s.bytes < 4) {
      int32_t v = s.bytes == 1 ? static_cast<int8_t>(word[0]) : int16_t(word[0] | word[1] << 8);
      memcpy(word, &v, 4);
    }
    uint32_t at = base + l * slot;
    if (uint64_t(at) + slot <= w.wg->ldsSize)
      memcpy(w.wg->lds + at, word, slot);
  }
}

void load(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  if (i.lds)
    return loadLds(w, i, s);
  Addressing a(w, i);
  unsigned valid[kRow];
  uint32_t *d = row(w, i.dst);
  const bool all = locateAll(w, a, s.bytes, valid);
  Addressing::reportFaults(w, i, s.bytes < 4 ? 1 : s.bytes / 4); // may overwrite an address
  if (all)
    return vectorLoad(w, d, w.tmp->addr, s);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint8_t word[16];
    copyIn(w, word, l, s.bytes, valid[l]);
    storeLoaded(d, l, word, s);
  }
}

void store(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  Addressing a(w, i);
  unsigned valid[kRow];
  const uint32_t *d = row(w, i.data);
  if (locateAll(w, a, s.bytes, valid))
    return vectorStore(w, d, w.tmp->addr, s);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    if (!valid[l])
      continue;
    uint8_t word[16];
    fetchStored(d, l, word, s);
    copyOut(w, word, l, valid[l]);
  }
}

/// buffer_store_lds_dword, the way back of a load to LDS. It names no vector register, so that lanes have addresses
/// of their own only if the descriptor adds their number.
void storeLds(Wave &w, const Inst &i) {
  Addressing a(w, i);
  unsigned valid[kRow];
  locateAll(w, a, 4, valid);
  const uint32_t base = ldsPlaces(w, i);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    const auto l = static_cast<unsigned>(__builtin_ctzll(m));
    if (!valid[l])
      continue;
    const uint32_t at = base + 4 * l;
    uint8_t word[4] = {}; // out of range reads zero
    if (uint64_t(at) + 4 <= w.wg->ldsSize)
      memcpy(word, w.wg->lds + at, 4);
    copyOut(w, word, l, 4);
  }
}

template <class T> void atomic(Wave &w, const Inst &i) {
  auto op = static_cast<Rmw>(i.def->aux);
  Addressing a(w, i);
  uint32_t *d = row(w, i.data);
  constexpr unsigned words = sizeof(T) / 4;
  auto value = [&](unsigned from, unsigned l) {
    uint64_t v = d[from * kRow + l];
    if (words == 2)
      v |= uint64_t(d[(from + 1) * kRow + l]) << 32;
    return static_cast<T>(v);
  };
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    Access x = a.at(l, sizeof(T), true);
    T old = 0;
    if (x.valid) {
      if (x.addr % sizeof(T))
        raise(FaultKind::MisalignedAddress,
              format("atomic of %zu bytes at the misaligned address 0x%llx", sizeof(T),
                     (unsigned long long)x.addr),
              static_cast<int>(l));
      if (!w.mem->check(x.addr, sizeof(T), true))
        badAddress(x.addr, sizeof(T), true, static_cast<int>(l));
      T compare = comparesFirst(op) ? value(words, l) : T(0);
      old = rmwMemory<T>(op, reinterpret_cast<uint8_t *>(x.addr), value(0, l), compare);
    }
    if (i.cpol) {
      d[l] = static_cast<uint32_t>(old);
      if (words == 2)
        d[kRow + l] = static_cast<uint32_t>(uint64_t(old) >> 32);
    }
  }
}

} // namespace

void FLYSIM_LEVEL::registerBuffer(OpTable &t) {
  OpDef d;
  for (const MemName &m : kLoads) {
    d.exec = load;
    d.aux = packShape(m.shape);
    for (const char *name : {m.gfx9, m.gfx12})
      t.add((std::string("buffer_load_") + name).c_str(), d);
  }
  for (const MemName &m : kStores) {
    d.exec = store;
    d.aux = packShape(m.shape);
    for (const char *name : {m.gfx9, m.gfx12})
      t.add((std::string("buffer_store_") + name).c_str(), d);
  }
  d.exec = storeLds;
  d.aux = 0;
  t.add("buffer_store_lds_dword", d); // gfx90a
  for (const RmwName &r : kRmw) {
    d.exec = r.bytes == 4 ? ExecFn(atomic<uint32_t>) : ExecFn(atomic<uint64_t>);
    d.aux = static_cast<uint32_t>(r.op);
    for (const char *name : {r.gfx9, r.gfx12})
      t.add((std::string("buffer_atomic_") + name).c_str(), d);
  }
}

} // namespace flysim
