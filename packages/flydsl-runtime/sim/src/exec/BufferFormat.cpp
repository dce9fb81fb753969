//===- BufferFormat.cpp - typed buffer loads and stores -------------------===//

#include "exec/BufferInline.h"
#include "exec/FloatFormats.h"
#include "exec/Register.h"

namespace flysim {
namespace {

enum Kind : uint8_t { kUnorm, kSnorm, kUscaled, kSscaled, kUint, kSint, kNone, kFloat };

/// A buffer format: bits of each component in memory order, and how they are numbers.
struct Format {
  uint8_t bits[4];
  Kind kind;
  unsigned components() const {
    unsigned n = 0;
    while (n < 4 && bits[n])
      ++n;
    return n;
  }
  unsigned bytes() const { return (bits[0] + bits[1] + bits[2] + bits[3]) / 8; }
};

/// Component sizes of the gfx9 data formats.
constexpr uint8_t kDataFormats[16][4] = {
    {0, 0, 0, 0},     {8, 0, 0, 0},     {16, 0, 0, 0},    {8, 8, 0, 0},
    {32, 0, 0, 0},    {16, 16, 0, 0},   {11, 11, 10, 0},  {10, 11, 11, 0},
    {2, 10, 10, 10},  {10, 10, 10, 2},  {8, 8, 8, 8},     {32, 32, 0, 0},
    {16, 16, 16, 16}, {32, 32, 32, 0},  {32, 32, 32, 32}, {0, 0, 0, 0}};

/// The unified formats of gfx12: data format and number kinds in order of the code.
struct Unified {
  uint8_t first, dataFormat;
  const char *kinds; ///< u n s c ... see kindOf
};
constexpr Unified kUnified[] = {
    {1, 1, "nsUSui"},  {7, 2, "nsUSuif"},  {14, 3, "nsUSui"},   {20, 4, "uif"},
    {23, 5, "nsUSuif"}, {30, 6, "f"},      {31, 7, "f"},        {32, 8, "nsui"},
    {36, 9, "nsUSui"}, {42, 10, "nsUSui"}, {48, 11, "uif"},     {51, 12, "nsUSuif"},
    {58, 13, "uif"},   {61, 14, "uif"}};

Kind kindOf(char c) {
  switch (c) {
  case 'n':
    return kUnorm;
  case 's':
    return kSnorm;
  case 'U':
    return kUscaled;
  case 'S':
    return kSscaled;
  case 'u':
    return kUint;
  case 'i':
    return kSint;
  default:
    return kFloat;
  }
}

Format decodeFormat(uint32_t code, bool gfx12) {
  Format f = {{0, 0, 0, 0}, kNone};
  unsigned data = code & 15;
  if (gfx12) {
    data = 0;
    for (const Unified &u : kUnified)
      if (code >= u.first && code < u.first + strlen(u.kinds)) {
        data = u.dataFormat;
        f.kind = kindOf(u.kinds[code - u.first]);
      }
  } else {
    f.kind = static_cast<Kind>(code >> 4 & 7);
  }
  memcpy(f.bits, kDataFormats[data], 4);
  if (!f.bits[0] || f.kind == kNone)
    raise(FaultKind::UnsupportedInstruction,
          format("buffer format %u (data format %u) does not exist", code, data));
  return f;
}

/// Unsigned small floats of the 10_11_11 formats: 5 exponent bits.
float smallFloat(uint32_t v, unsigned bits) {
  unsigned mantissa = bits - 5;
  return halfToFloat(v << (10 - mantissa));
}

uint32_t component(uint32_t v, unsigned bits, Kind kind) {
  auto s = static_cast<int32_t>(v << (32 - bits)) >> (32 - bits);
  double range = bits == 32 ? 4294967295.0 : double((1u << bits) - 1);
  double half = double((1u << (bits - 1)) - 1);
  switch (kind) {
  case kUnorm:
    return asBits(static_cast<float>(v / range));
  case kSnorm: {
    double x = s / half;
    return asBits(static_cast<float>(x < -1 ? -1 : x));
  }
  case kUscaled:
    return asBits(static_cast<float>(v));
  case kSscaled:
    return asBits(static_cast<float>(s));
  case kSint:
    return static_cast<uint32_t>(s);
  case kFloat:
    return bits == 32 ? v : asBits(bits == 16 ? halfToFloat(v) : smallFloat(v, bits));
  default:
    return v;
  }
}

uint32_t packComponent(uint32_t v, unsigned bits, Kind kind) {
  uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  float f = asFloat(v);
  auto clampRound = [&](double low, double high, double scale) {
    double x = f != f ? 0 : f < low ? low : f > high ? high : f;
    return static_cast<uint32_t>(static_cast<int64_t>(__builtin_rint(x * scale))) & mask;
  };
  double range = double(mask), half = double(mask >> 1);
  switch (kind) {
  case kUnorm:
    return clampRound(0, 1, range);
  case kSnorm:
    return clampRound(-1, 1, half);
  case kUscaled:
    return clampRound(0, range, 1);
  case kSscaled:
    return clampRound(-half - 1, half, 1);
  case kUint:
    return v > mask ? mask : v;
  case kSint: {
    auto s = static_cast<int32_t>(v);
    auto top = static_cast<int32_t>(mask >> 1);
    return static_cast<uint32_t>(s > top ? top : s < -top - 1 ? -top - 1 : s) & mask;
  }
  case kFloat:
    if (bits == 32)
      return v;
    if (bits == 16)
      return floatToHalf(f);
    return f <= 0 ? 0 : floatToHalf(f) >> (10 - (bits - 5)) & mask;
  default:
    return v & mask;
  }
}

constexpr uint32_t kTyped = 0x100, kD16 = 0x200, kHigh = 0x400;

Format formatOf(Wave &w, const Inst &i, const Resource &r) {
  if (i.def->aux & kTyped)
    return decodeFormat(static_cast<uint32_t>(i.offset2), r.rdna);
  const uint32_t word = w.s[i.src[1].reg + 3];
  if (r.rdna)
    return decodeFormat(word >> 12 & 63, true);
  return decodeFormat((word >> 15 & 15) | (word >> 12 & 7) << 4, false);
}

/// d16 forms hold two components a register, as f16 or 16-bit integers.
uint32_t to16(uint32_t v, Kind kind) {
  return kind == kUint || kind == kSint ? v & 0xffff : floatToHalf(asFloat(v));
}
uint32_t from16(uint32_t v, Kind kind) {
  if (kind == kSint)
    return static_cast<uint32_t>(static_cast<int32_t>(static_cast<int16_t>(v)));
  return kind == kUint ? v & 0xffff : asBits(halfToFloat(v & 0xffff));
}

void loadFormat(Wave &w, const Inst &i) {
  Addressing a(w, i);
  Format f = formatOf(w, i, a.resource());
  unsigned count = i.def->aux & 15;
  bool d16 = i.def->aux & kD16;
  // The V# also says which component each result comes from.
  uint32_t select = i.def->aux & kTyped || a.resource().wide ? 0xfac : w.s[i.src[1].reg + 3] & 0xfff;
  uint32_t *d = row(w, i.dst);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    Access x = a.at(l, f.bytes(), true);
    uint8_t raw[16] = {};
    if (x.valid) {
      if (!w.mem->check(x.addr, f.bytes(), false))
        badAddress(x.addr, f.bytes(), false, static_cast<int>(l));
      memcpy(raw, reinterpret_cast<const void *>(x.addr), f.bytes());
    }
    bool integer = f.kind == kUint || f.kind == kSint;
    uint32_t texel[8] = {0, integer ? 1u : 0x3f800000u, 0, 0, 0, 0, 0, integer ? 1u : 0x3f800000u};
    for (unsigned k = 0, bit = 0; k < f.components(); bit += f.bits[k++]) {
      uint64_t v = 0;
      memcpy(&v, raw + bit / 8, bit / 8 + 8 <= 16 ? 8 : 16 - bit / 8);
      v = v >> (bit % 8) & (f.bits[k] == 32 ? 0xffffffffu : (1u << f.bits[k]) - 1);
      texel[4 + k] = component(static_cast<uint32_t>(v), f.bits[k], f.kind);
    }
    for (unsigned k = 0; k < count; ++k) {
      uint32_t v = x.valid ? texel[select >> (3 * k) & 7] : 0;
      if (!d16) {
        d[k * kRow + l] = v;
        continue;
      }
      uint32_t h = to16(v, f.kind), &word = d[k / 2 * kRow + l];
      bool high = k & 1 || (i.def->aux & kHigh);
      word = high ? (word & 0xffff) | h << 16 : (word & 0xffff0000) | h;
    }
  }
  Addressing::reportFaults(w, i, d16 ? (count + 1) / 2 : count);
}

void storeFormat(Wave &w, const Inst &i) {
  Addressing a(w, i);
  Format f = formatOf(w, i, a.resource());
  unsigned count = i.def->aux & 15;
  bool d16 = i.def->aux & kD16;
  const uint32_t *s = row(w, i.data);
  for (uint64_t m = w.exec(); m; m &= m - 1) {
    unsigned l = static_cast<unsigned>(__builtin_ctzll(m));
    Access x = a.at(l, f.bytes(), true);
    if (!x.valid)
      continue;
    uint8_t raw[24] = {};
    for (unsigned k = 0, bit = 0; k < f.components(); bit += f.bits[k++]) {
      uint32_t v = 0;
      if (k < count)
        v = d16 ? from16(s[k / 2 * kRow + l] >> (k & 1 || (i.def->aux & kHigh) ? 16 : 0), f.kind)
                : s[k * kRow + l];
      uint64_t old, bitsNow = uint64_t(packComponent(v, f.bits[k], f.kind)) << (bit % 8);
      memcpy(&old, raw + bit / 8, 8);
      old |= bitsNow;
      memcpy(raw + bit / 8, &old, 8);
    }
    if (!w.mem->check(x.addr, f.bytes(), true))
      badAddress(x.addr, f.bytes(), true, static_cast<int>(l));
    memcpy(reinterpret_cast<void *>(x.addr), raw, f.bytes());
  }
}

} // namespace

void FLYSIM_LEVEL::registerBufferFormat(OpTable &t) {
  static const char *const kComponents[] = {"x", "xy", "xyz", "xyzw"};
  OpDef d;
  for (unsigned typed = 0; typed < 2; ++typed) {
    std::string prefix = typed ? "tbuffer_" : "buffer_";
    for (unsigned n = 1; n <= 4; ++n) {
      std::string tail = kComponents[n - 1];
      uint32_t aux = n | (typed ? kTyped : 0);
      for (unsigned isStore = 0; isStore < 2; ++isStore) {
        std::string base = prefix + (isStore ? "store_" : "load_");
        d.exec = isStore ? storeFormat : loadFormat;
        d.aux = aux;
        t.add((base + "format_" + tail).c_str(), d);
        d.aux = aux | kD16;
        t.add((base + "format_d16_" + tail).c_str(), d);
        t.add((base + "d16_format_" + tail).c_str(), d);
        if (n == 1 && !typed) {
          d.aux = aux | kD16 | kHigh;
          t.add((base + "format_d16_hi_x").c_str(), d);
          t.add((base + "d16_hi_format_x").c_str(), d);
        }
      }
    }
  }
}

} // namespace flysim
