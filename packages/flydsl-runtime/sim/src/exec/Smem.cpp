//===- Smem.cpp - scalar memory -------------------------------------------===//

#include "exec/ExecInline.h"
#include "exec/Register.h"

namespace flysim {
namespace {

uint64_t scalarAddress(Wave &w, const Inst &i) {
  uint64_t base = read64(w, i.src[0]);
  if (i.src[1])
    base += read32(w, i.src[1]);
  return base + static_cast<uint64_t>(i.imm);
}

/// s_load: aux is the number of dwords.
void load(Wave &w, const Inst &i) {
  uint64_t addr = scalarAddress(w, i) & ~uint64_t(3);
  unsigned bytes = i.def->aux * 4;
  if (!w.mem->check(addr, bytes, false))
    badAddress(addr, bytes, false, -1);
  if (i.dst.reg == kSink)
    return;
  memcpy(&w.s[i.dst.reg], reinterpret_cast<const void *>(addr), bytes);
}

/// s_load_{u,i}{8,16}: aux is bytes, negative sizes sign-extend.
template <class T> void loadSmall(Wave &w, const Inst &i) {
  uint64_t addr = scalarAddress(w, i);
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
  const uint32_t *d = &w.s[o.reg];
  uint64_t base = d[0] | uint64_t(d[1] & 0xffff) << 32;
  base = static_cast<uint64_t>(static_cast<int64_t>(base << 16) >> 16);
  uint64_t stride = d[1] >> 16 & 0x3fff;
  return {base, stride ? stride * d[2] : d[2]};
}

void bufferLoad(Wave &w, const Inst &i) {
  ScalarBuffer b = descriptor(w, i.src[0]);
  uint64_t offset = static_cast<uint64_t>(i.imm) + (i.src[1] ? read32(w, i.src[1]) : 0);
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

} // namespace

void FLYSIM_LEVEL::registerSmem(OpTable &t) {
  static const struct {
    const char *gfx9, *gfx12;
    unsigned dwords;
  } kSizes[] = {{"dword", "b32", 1},    {"dwordx2", "b64", 2},   {"", "b96", 3},
                {"dwordx4", "b128", 4}, {"dwordx8", "b256", 8}, {"dwordx16", "b512", 16}};
  for (const auto &s : kSizes) {
    OpDef d;
    d.aux = s.dwords;
    for (const char *name : {s.gfx9, s.gfx12}) {
      if (!*name)
        continue;
      d.exec = load;
      t.add((std::string("s_load_") + name).c_str(), d);
      t.add((std::string("s_scratch_load_") + name).c_str(), d);
      d.exec = bufferLoad;
      t.add((std::string("s_buffer_load_") + name).c_str(), d);
    }
  }
  OpDef d;
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
