//===- Smem.cpp - scalar memory -------------------------------------------===//

#include "exec/Atomics.h"
#include "exec/BufferInline.h"
#include "exec/Register.h"

namespace flysim {
namespace {

/// soffset, multiplied by the access size if the instruction says so (gfx1250).
uint64_t scalarOffset(Wave &w, const Inst &i, unsigned bytes) {
  if (!i.src[1])
    return 0;
  return uint64_t(read32(w, i.src[1])) * (i.addrMode & 8 ? bytes : 1);
}

uint64_t scalarAddress(Wave &w, const Inst &i, unsigned bytes) {
  return read64(w, i.src[0]) + scalarOffset(w, i, bytes) + static_cast<uint64_t>(i.imm);
}

/// Marks the scratch forms in aux: their register offset counts 64 bytes, one of each lane.
constexpr uint32_t kScalarScratch = 0x100;

unsigned dwordsOf(const Inst &i) { return i.def->aux & 0xff; }

uint64_t dwordAddress(Wave &w, const Inst &i, unsigned bytes) {
  uint64_t addr = scalarAddress(w, i, bytes);
  if (i.def->aux & kScalarScratch)
    addr += scalarOffset(w, i, bytes) * 63;
  return addr & ~uint64_t(3);
}

/// s_load. The number of dwords is a constant: most waves begin with some, and copy no memory by a call.
template <unsigned kDwords> void load(Wave &w, const Inst &i) {
  constexpr unsigned bytes = kDwords * 4;
  uint64_t addr = dwordAddress(w, i, bytes);
  if (!w.mem->check(addr, bytes, false))
    badAddress(addr, bytes, false, -1);
  if (i.dst.reg == kSink)
    return;
  memcpy(&w.s[i.dst.reg], reinterpret_cast<const void *>(addr), bytes);
}

/// s_load_{u,i}{8,16}: aux is bytes, negative sizes sign-extend.
template <class T> void loadSmall(Wave &w, const Inst &i) {
  uint64_t addr = scalarAddress(w, i, sizeof(T));
  if (!w.mem->check(addr, sizeof(T), false))
    badAddress(addr, sizeof(T), false, -1);
  T v;
  memcpy(&v, reinterpret_cast<const void *>(addr), sizeof(T));
  write32(w, i.dst, static_cast<uint32_t>(static_cast<int32_t>(v)));
}

/// The parts of a buffer resource that scalar loads use.
struct ScalarBuffer {
  uint64_t base, limit;
};

ScalarBuffer descriptor(Wave &w, const Operand &o) {
  Resource r = decodeResource(w, o);
  return {r.base, r.stride ? r.stride * r.records : r.records};
}

void bufferLoad(Wave &w, const Inst &i) {
  ScalarBuffer b = descriptor(w, i.src[0]);
  uint64_t offset = static_cast<uint64_t>(i.imm) + scalarOffset(w, i, i.def->aux * 4);
  offset &= ~uint64_t(3);
  for (unsigned k = 0; k < i.def->aux; ++k) {
    uint32_t v = 0;
    uint64_t at = offset + 4 * k;
    if (at + 4 <= b.limit) {
      if (!w.mem->check(b.base + at, 4, false))
        badAddress(b.base + at, 4, false, -1);
      memcpy(&v, reinterpret_cast<const void *>(b.base + at), 4);
    }
    w.s[i.dst.reg == kSink ? unsigned(kSink) : i.dst.reg + k] = v;
  }
}

template <class T> void bufferLoadSmall(Wave &w, const Inst &i) {
  ScalarBuffer b = descriptor(w, i.src[0]);
  uint64_t at = static_cast<uint64_t>(i.imm) + scalarOffset(w, i, sizeof(T));
  T v = 0;
  if (at + sizeof(T) <= b.limit) {
    if (!w.mem->check(b.base + at, sizeof(T), false))
      badAddress(b.base + at, sizeof(T), false, -1);
    memcpy(&v, reinterpret_cast<const void *>(b.base + at), sizeof(T));
  }
  write32(w, i.dst, static_cast<uint32_t>(static_cast<int32_t>(v)));
}

void store(Wave &w, const Inst &i) {
  unsigned bytes = dwordsOf(i) * 4;
  uint64_t addr = dwordAddress(w, i, bytes);
  if (!w.mem->check(addr, bytes, true))
    badAddress(addr, bytes, true, -1);
  memcpy(reinterpret_cast<void *>(addr), &w.s[i.dst.reg], bytes);
}

void bufferStore(Wave &w, const Inst &i) {
  ScalarBuffer b = descriptor(w, i.src[0]);
  uint64_t offset = static_cast<uint64_t>(i.imm) + scalarOffset(w, i, i.def->aux * 4);
  offset &= ~uint64_t(3);
  for (unsigned k = 0; k < i.def->aux; ++k) {
    uint64_t at = offset + 4 * k;
    if (at + 4 > b.limit)
      continue;
    if (!w.mem->check(b.base + at, 4, true))
      badAddress(b.base + at, 4, true, -1);
    memcpy(reinterpret_cast<void *>(b.base + at), &w.s[i.dst.reg + k], 4);
  }
}

/// Scalar atomics: aux is the operation, with buffers in bit 8.
template <class T> void scalarAtomic(Wave &w, const Inst &i) {
  auto op = static_cast<Rmw>(i.def->aux & 0xff);
  uint64_t addr;
  if (i.def->aux & 0x100) {
    ScalarBuffer b = descriptor(w, i.src[0]);
    uint64_t at = static_cast<uint64_t>(i.imm) + scalarOffset(w, i, sizeof(T));
    if (at + sizeof(T) > b.limit) {
      if (i.cpol)
        memset(&w.s[i.dst.reg], 0, sizeof(T));
      return;
    }
    addr = b.base + at;
  } else {
    addr = scalarAddress(w, i, sizeof(T));
  }
  if (addr % sizeof(T))
    raise(FaultKind::MisalignedAddress, format("scalar atomic at the misaligned address 0x%llx",
                                               (unsigned long long)addr));
  if (!w.mem->check(addr, sizeof(T), true))
    badAddress(addr, sizeof(T), true, -1);
  T data, compare = 0;
  memcpy(&data, &w.s[i.dst.reg], sizeof(T));
  if (op == Rmw::CmpSwap)
    memcpy(&compare, &w.s[i.dst.reg + sizeof(T) / 4], sizeof(T));
  T old = rmwMemory<T>(op, reinterpret_cast<uint8_t *>(addr), data, compare);
  if (i.cpol)
    memcpy(&w.s[i.dst.reg], &old, sizeof(T));
}

} // namespace

void scalar::registerSmem(OpTable &t) {
  static const struct {
    const char *gfx9, *gfx12;
    unsigned dwords;
    ExecFn load;
  } kSizes[] = {{"dword", "b32", 1, load<1>},    {"dwordx2", "b64", 2, load<2>},   {"", "b96", 3, load<3>},
                {"dwordx4", "b128", 4, load<4>}, {"dwordx8", "b256", 8, load<8>}, {"dwordx16", "b512", 16, load<16>}};
  for (const auto &s : kSizes) {
    OpDef d;
    d.aux = s.dwords;
    for (const char *name : {s.gfx9, s.gfx12}) {
      if (!*name)
        continue;
      d.exec = s.load;
      t.add((std::string("s_load_") + name).c_str(), d);
      d.aux = s.dwords | kScalarScratch;
      t.add((std::string("s_scratch_load_") + name).c_str(), d);
      d.aux = s.dwords;
      d.exec = bufferLoad;
      t.add((std::string("s_buffer_load_") + name).c_str(), d);
    }
  }
  for (const auto &s : kSizes) {
    if (!*s.gfx9 || s.dwords > 4)
      continue;
    OpDef d;
    d.aux = s.dwords;
    d.exec = store;
    t.add((std::string("s_store_") + s.gfx9).c_str(), d);
    d.aux = s.dwords | kScalarScratch;
    t.add((std::string("s_scratch_store_") + s.gfx9).c_str(), d);
    d.aux = s.dwords;
    d.exec = bufferStore;
    t.add((std::string("s_buffer_store_") + s.gfx9).c_str(), d);
  }
  for (const RmwName &r : kRmw) {
    if (r.op >= Rmw::FAdd)
      continue;
    OpDef d;
    d.exec = r.bytes == 4 ? ExecFn(scalarAtomic<uint32_t>) : ExecFn(scalarAtomic<uint64_t>);
    d.aux = static_cast<uint32_t>(r.op);
    t.add((std::string("s_atomic_") + r.gfx9).c_str(), d);
    d.aux |= 0x100;
    t.add((std::string("s_buffer_atomic_") + r.gfx9).c_str(), d);
  }
  OpDef d;
  d.exec = bufferLoadSmall<uint8_t>;
  t.add("s_buffer_load_u8", d);
  d.exec = bufferLoadSmall<int8_t>;
  t.add("s_buffer_load_i8", d);
  d.exec = bufferLoadSmall<uint16_t>;
  t.add("s_buffer_load_u16", d);
  d.exec = bufferLoadSmall<int16_t>;
  t.add("s_buffer_load_i16", d);
  d.exec = loadSmall<uint8_t>;
  t.add("s_load_u8", d);
  d.exec = loadSmall<int8_t>;
  t.add("s_load_i8", d);
  d.exec = loadSmall<uint16_t>;
  t.add("s_load_u16", d);
  d.exec = loadSmall<int16_t>;
  t.add("s_load_i16", d);
}

} // namespace flysim
