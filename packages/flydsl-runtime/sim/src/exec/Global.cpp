//===- Global.cpp - global, flat and scratch memory -----------------------===//

#include "exec/AddressInline.h"
#include "exec/Atomics.h"
#include "exec/MemInline.h"
#include "exec/Register.h"

namespace flysim {
namespace {

template <Space space> void load(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  uint64_t first[kRow / kBlock];
  if (space == kGlobal && denseBlocks(w, i, s.bytes, first) && loadBlocks(w, row(w, i.dst), first, s.bytes))
    return;
  addresses<space>(w, i, s.bytes, w.tmp->addr);
  vectorLoad(w, row(w, i.dst), w.tmp->addr, s);
}

template <Space space> void store(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  uint64_t first[kRow / kBlock];
  if (space == kGlobal && denseBlocks(w, i, s.bytes, first) && storeBlocks(w, row(w, i.data), first, s.bytes))
    return;
  addresses<space>(w, i, s.bytes, w.tmp->addr);
  vectorStore(w, row(w, i.data), w.tmp->addr, s);
}

template <Space space, class T> void atomic(Wave &w, const Inst &i) {
  auto op = static_cast<Rmw>(i.def->aux);
  addresses<space>(w, i, sizeof(T), w.tmp->addr);
  constexpr unsigned words = sizeof(T) / 4;
  const uint32_t *s = row(w, i.data);
  uint32_t *d = i.dst && i.cpol ? row(w, i.dst) : nullptr;
  auto value = [&](unsigned from, unsigned l) {
    uint64_t v = s[from * kRow + l];
    if (words == 2)
      v |= uint64_t(s[(from + 1) * kRow + l]) << 32;
    return static_cast<T>(v);
  };
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint64_t addr = w.tmp->addr[l];
    if (addr % sizeof(T))
      raise(FaultKind::MisalignedAddress,
            format("atomic of %zu bytes at the misaligned address 0x%llx", sizeof(T),
                   (unsigned long long)addr),
            static_cast<int>(l));
    if (!w.mem->check(addr, sizeof(T), true))
      badAddress(addr, sizeof(T), true, static_cast<int>(l));
    T compare = comparesFirst(op) ? value(words, l) : T(0);
    T old = rmwMemory<T>(op, reinterpret_cast<uint8_t *>(addr), value(0, l), compare);
    if (d) {
      d[l] = static_cast<uint32_t>(old);
      if (words == 2)
        d[kRow + l] = static_cast<uint32_t>(uint64_t(old) >> 32);
    }
  }
}

/// global_load_lds_*: each active lane copies from its address to
/// LDS[M0 + offset + lane * slot].
void loadToLds(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  addresses<kGlobal>(w, i, s.bytes, w.tmp->addr);
  unsigned slot = s.bytes < 4 ? 4 : s.bytes;
  uint32_t base = ldsBase(w) + static_cast<uint32_t>(i.imm);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint64_t from = w.tmp->addr[l];
    uint32_t at = base + l * slot;
    if (!w.mem->check(from, s.bytes, false))
      badAddress(from, s.bytes, false, static_cast<int>(l));
    if (uint64_t(at) + slot > w.wg->ldsSize)
      continue;
    uint8_t word[16] = {};
    memcpy(word, reinterpret_cast<const void *>(from), s.bytes);
    if (s.sign && s.bytes < 4) {
      int32_t v = s.bytes == 1 ? static_cast<int8_t>(word[0]) : int16_t(word[0] | word[1] << 8);
      memcpy(word, &v, 4);
    }
    memcpy(w.wg->lds + at, word, slot);
  }
}

} // namespace

void FLYSIM_LEVEL::registerGlobal(OpTable &t) {
  struct {
    const char *prefix;
    ExecFn load, store, atomic4, atomic8;
  } spaces[] = {
      {"global_", load<kGlobal>, store<kGlobal>, atomic<kGlobal, uint32_t>,
       atomic<kGlobal, uint64_t>},
      {"flat_", load<kFlat>, store<kFlat>, atomic<kFlat, uint32_t>, atomic<kFlat, uint64_t>},
      {"scratch_", load<kScratch>, store<kScratch>, nullptr, nullptr},
  };
  for (const auto &s : spaces) {
    OpDef d;
    for (const MemName &m : kLoads) {
      d.exec = s.load;
      d.aux = packShape(m.shape);
      for (const char *name : {m.gfx9, m.gfx12})
        t.add((std::string(s.prefix) + "load_" + name).c_str(), d);
    }
    for (const MemName &m : kStores) {
      d.exec = s.store;
      d.aux = packShape(m.shape);
      for (const char *name : {m.gfx9, m.gfx12})
        t.add((std::string(s.prefix) + "store_" + name).c_str(), d);
    }
    for (const RmwName &r : kRmw) {
      d.exec = r.bytes == 4 ? s.atomic4 : s.atomic8;
      if (!d.exec)
        continue;
      d.aux = static_cast<uint32_t>(r.op);
      for (const char *name : {r.gfx9, r.gfx12})
        t.add((std::string(s.prefix) + "atomic_" + name).c_str(), d);
    }
  }
  for (const MemName &m : kLoads) {
    if (m.shape.d16 || m.shape.bytes == 8)
      continue;
    OpDef d;
    d.exec = loadToLds;
    d.aux = packShape(m.shape);
    t.add((std::string("global_load_lds_") + m.gfx9).c_str(), d);
  }
}

} // namespace flysim
