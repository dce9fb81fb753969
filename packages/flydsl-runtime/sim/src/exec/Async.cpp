//===- Async.cpp - copies between memory and LDS, tensor data mover -------===//
//
// The asynchronous copies of gfx1250 happen at once; the counters that programs wait
// for are always zero. Multicast copies (cluster_load_async_to_lds_*) write the LDS of the
// cluster's work-groups that the mask selects; tensor moves write their own.
//
//===----------------------------------------------------------------------===//

#include "exec/AddressInline.h"
#include "exec/LdsBarrier.h"
#include "exec/MemInline.h"
#include "exec/Register.h"
#include "exec/TensorInline.h"

#include "decode/Program.h"

namespace flysim {
namespace {

//===--- per-lane copies ---------------------------------------------------===//

void checkedRead(Wave &w, uint64_t from, void *to, unsigned bytes, int lane) {
  if (!w.mem->check(from, bytes, false))
    badAddress(from, bytes, false, lane);
  memcpy(to, reinterpret_cast<const void *>(from), bytes);
}

/// Lane addresses of the global side; flat addresses are not allowed.
void globalSide(Wave &w, const Inst &i, unsigned bytes) { addresses<kGlobal>(w, i, bytes, w.tmp->addr); }

/// As all of LDS: what lies outside of the allocation is neither read nor written. Programs rely
/// on it: a published compiler gives masked lanes the offset 0x7fffffff.
bool inLds(const Wave &w, uint64_t at, unsigned bytes) {
  return at <= w.wg->ldsSize && bytes <= w.wg->ldsSize - at;
}

/// global_load_async_to_lds_*; with `multicast`, to every work-group in M0[15:0].
template <unsigned bytes, bool multicast> void asyncLoad(Wave &w, const Inst &i) {
  globalSide(w, i, bytes);
  const uint32_t *lds = row(w, i.dst ? i.dst : i.data);
  uint32_t mask = multicast ? w.s[w.m0Index] & 0xffff : 0;
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint8_t word[16];
    uint64_t at = uint64_t(lds[l]) + static_cast<uint64_t>(i.imm);
    if (!inLds(w, at, bytes))
      continue;
    checkedRead(w, w.tmp->addr[l], word, bytes, static_cast<int>(l));
    if (!mask) {
      memcpy(w.wg->lds + at, word, bytes);
      continue;
    }
    for (unsigned k = 0; k < w.wg->clusterSize; ++k)
      if (mask >> k & 1)
        memcpy(w.wg->cluster[k].lds + at, word, bytes);
  }
}

template <unsigned bytes> void asyncStore(Wave &w, const Inst &i) {
  globalSide(w, i, bytes);
  const uint32_t *lds = row(w, i.data ? i.data : i.dst);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint64_t at = uint64_t(lds[l]) + static_cast<uint64_t>(i.imm);
    if (!w.mem->check(w.tmp->addr[l], bytes, true))
      badAddress(w.tmp->addr[l], bytes, true, static_cast<int>(l));
    auto *to = reinterpret_cast<void *>(w.tmp->addr[l]);
    if (inLds(w, at, bytes))
      memcpy(to, w.wg->lds + at, bytes);
    else
      memset(to, 0, bytes);
  }
}

//===--- block and add-tid forms -------------------------------------------===//

/// global_load_addtid_b32: scalar base + offset + 4 * lane.
uint64_t tidAddress(Wave &w, const Inst &i, unsigned l) {
  return (i.src[1] ? read64(w, i.src[1]) : 0) + static_cast<uint64_t>(i.imm) + 4 * l;
}
void loadAddTid(Wave &w, const Inst &i) {
  for (unsigned l = 0; l < w.lanes; ++l)
    w.tmp->addr[l] = tidAddress(w, i, l);
  vectorLoad(w, row(w, i.dst), w.tmp->addr, MemShape{4, false, false, false});
}
void storeAddTid(Wave &w, const Inst &i) {
  for (unsigned l = 0; l < w.lanes; ++l)
    w.tmp->addr[l] = tidAddress(w, i, l);
  vectorStore(w, row(w, i.data), w.tmp->addr, MemShape{4, false, false, false});
}

/// {global,scratch}_{load,store}_block: register k <-> dword k for the bits of M0.
template <Space space, bool isStore> void block(Wave &w, const Inst &i) {
  uint32_t mask = w.s[w.m0Index];
  uint64_t addr[kRow];
  addresses<space>(w, i, mask ? 4 * (32 - static_cast<unsigned>(__builtin_clz(mask))) : 0, addr);
  uint32_t *v = row(w, isStore ? i.data : i.dst);
  for (unsigned k = 0; k < 32; ++k) {
    if (!(mask >> k & 1))
      continue;
    for (unsigned l = 0; l < w.lanes; ++l)
      w.tmp->addr[l] = addr[l] + 4 * k;
    if (isStore)
      vectorStore(w, v + k * kRow, w.tmp->addr, MemShape{4, false, false, false});
    else
      vectorLoad(w, v + k * kRow, w.tmp->addr, MemShape{4, false, false, false});
  }
}

/// scratch_load_lds_*: as global_load_lds with the lane's scratch as source.
void scratchToLds(Wave &w, const Inst &i) {
  MemShape s = shapeOf(i.def->aux);
  addresses<kScratch>(w, i, s.bytes, w.tmp->addr);
  uint32_t base = ldsBase(w) + static_cast<uint32_t>(i.imm);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    uint8_t word[4] = {};
    memcpy(word, reinterpret_cast<const void *>(w.tmp->addr[l]), s.bytes);
    if (s.sign && s.bytes < 4) {
      int32_t v = s.bytes == 1 ? static_cast<int8_t>(word[0]) : int16_t(word[0] | word[1] << 8);
      memcpy(word, &v, 4);
    }
    uint32_t at = base + 4 * l;
    if (uint64_t(at) + 4 <= w.wg->ldsSize)
      memcpy(w.wg->lds + at, word, 4);
  }
}

//===--- tensor data mover -------------------------------------------------===//

/// A finished transfer is one arrival at the barrier object that its descriptor names.
void arrive(Wave &w, uint32_t at) {
  if (uint64_t(at) + 8 > w.wg->ldsSize)
    return;
  uint64_t cell;
  memcpy(&cell, w.wg->lds + at, 8);
  cell = arrived(cell, 1);
  memcpy(w.wg->lds + at, &cell, 8);
}

/// A multicast mask names the work-groups that make the same request, so that the memory is read
/// once for all of them. Each one's own request delivers to its own LDS, when it makes it: kernels
/// that wait for their cluster only every few tiles rely on it.
template <bool isLoad> void tensor(Wave &w, const Inst &i) {
  Tensor t = decodeTensor(w, i);
  if (!t.valid)
    return;
  for (uint32_t n = 0; n < t.iterations; ++n) {
    forElements(t, t.global + n * t.globalIncrement, t.lds + n * t.ldsIncrement, isLoad && t.pad,
                w.wg->ldsSize, [&](uint64_t address, uint64_t lds) {
      if (!inLds(w, lds, t.elementBytes))
        return;
      uint8_t element[8] = {};
      if (!isLoad) {
        if (!address)
          return;
        if (!w.mem->check(address, t.elementBytes, true))
          badAddress(address, t.elementBytes, true, -1);
        memcpy(reinterpret_cast<void *>(address), w.wg->lds + lds, t.elementBytes);
        return;
      }
      if (address)
        checkedRead(w, address, element, t.elementBytes, -1);
      memcpy(w.wg->lds + lds, element, t.elementBytes);
    });
  }
  if (t.barrier)
    arrive(w, t.barrierAt);
}

} // namespace

void FLYSIM_LEVEL::registerAsync(OpTable &t) {
  auto add = [&](const std::string &name, ExecFn exec, uint32_t aux = 0, uint32_t flags = 0) {
    OpDef d;
    d.exec = exec;
    d.aux = aux;
    d.flags = flags;
    t.add(name.c_str(), d);
  };
  add("global_load_async_to_lds_b8", asyncLoad<1, false>);
  add("global_load_async_to_lds_b32", asyncLoad<4, false>);
  add("global_load_async_to_lds_b64", asyncLoad<8, false>);
  add("global_load_async_to_lds_b128", asyncLoad<16, false>);
  add("cluster_load_async_to_lds_b8", asyncLoad<1, true>);
  add("cluster_load_async_to_lds_b32", asyncLoad<4, true>);
  add("cluster_load_async_to_lds_b64", asyncLoad<8, true>);
  add("cluster_load_async_to_lds_b128", asyncLoad<16, true>);
  add("global_store_async_from_lds_b8", asyncStore<1>);
  add("global_store_async_from_lds_b32", asyncStore<4>);
  add("global_store_async_from_lds_b64", asyncStore<8>);
  add("global_store_async_from_lds_b128", asyncStore<16>);
  add("global_load_addtid_b32", loadAddTid);
  add("global_store_addtid_b32", storeAddTid);
  add("global_load_block", block<kGlobal, false>);
  add("global_store_block", block<kGlobal, true>);
  add("scratch_load_block", block<kScratch, false>);
  add("scratch_store_block", block<kScratch, true>);
  for (const MemName &m : kLoads)
    if (!m.shape.d16 && m.shape.bytes <= 4)
      add(std::string("scratch_load_lds_") + m.gfx9, scratchToLds, packShape(m.shape));
  for (const char *bits : {"b32", "b64", "b128"}) {
    t.alias((std::string("cluster_load_") + bits).c_str(),
            (std::string("global_load_") + bits).c_str());
    t.alias((std::string("global_load_monitor_") + bits).c_str(),
            (std::string("global_load_") + bits).c_str());
    t.alias((std::string("flat_load_monitor_") + bits).c_str(),
            (std::string("flat_load_") + bits).c_str());
  }
  add("tensor_load_to_lds", tensor<true>);
  add("tensor_store_from_lds", tensor<false>);
}

} // namespace flysim
