//===- ValuConvertScaled.cpp - conversions with a scale -------------------===//
//
// v_cvt_scalef32_* divide (to a small format) or multiply (from one) by the power of
// two in the exponent field of a float; v_cvt_scale_* of gfx1250 multiply by a packed
// e8m0 scale that may come from another lane. One executor works through planes: a
// row of 64 lanes per element.
//
//===----------------------------------------------------------------------===//

#include "exec/MatrixUnpack.h"
#include "exec/Register.h"

#include <deque>
#include <string>

namespace flysim {
namespace {

constexpr unsigned kMaxElements = 32;

/// Where a partial source or result sits in its register.
enum class Part : uint8_t { Whole, Word, Byte };

struct ScaledDef {
  Elem from, to;
  uint8_t count;           ///< elements per lane
  uint8_t sources = 1;     ///< 2: elements alternate between src0 and src1
  bool stochastic = false; ///< a random number follows the sources
  bool packedScale = false; ///< e8m0 bytes and scale_sel instead of a float
  Part part = Part::Whole;
};

bool widens(Elem to) { return elemBits(to) >= 16; }

/// The next random number of v_prng_b32.
inline uint32_t nextRandom(uint32_t a) { return a << 1 ^ (a >> 31 ? 197u : 0u); }

//===--- sources ------------------------------------------------------------===//

/// neg and abs of a float source.
void applyModifiers(const Operand &o, float *plane) {
  if (!(o.mods & (kNeg | kAbs)))
    return;
  for (unsigned l = 0; l < kRow; ++l) {
    float v = o.mods & kAbs ? std::fabs(plane[l]) : plane[l];
    plane[l] = o.mods & kNeg ? -v : v;
  }
}

/// The elements of source `n` as float planes.
void readSource(Wave &w, const Inst &in, const ScaledDef &d, unsigned n, unsigned count,
                float *planes) {
  alignas(64) uint32_t tmp[kMaxElements * kRow], part[kRow];
  unsigned bits = elemBits(d.from), regs = (count * bits + 31) / 32;
  const uint32_t *rows = fetchRaw(w, in.src[n], regs, tmp);
  unsigned shift = 0;
  if (bits < 16 && d.part == Part::Word)
    shift = in.opSel & 1 ? 16 : 0;
  else if (bits < 16 && d.part == Part::Byte)
    shift = 8 * (in.imm & 3);
  else if (bits == 16 && count == 1)
    shift = in.opSel >> n & 1 ? 16 : 0;
  if (shift) {
    for (unsigned l = 0; l < kRow; ++l)
      part[l] = rows[l] >> shift;
    rows = part;
  }
  if (bits < 16) {
    for (unsigned s = 0; s < count; ++s) {
      auto *plane = reinterpret_cast<uint32_t *>(planes + s * kRow);
      for (unsigned l = 0; l < w.lanes; ++l)
        plane[l] = packedField(rows, l, s, bits);
    }
    return;
  }
  if (bits == 16 && count == 1) {
    for (unsigned l = 0; l < kRow; ++l)
      planes[l] = d.from == Elem::F16 ? halfToFloat(rows[l] & 0xffff) : bf16ToFloat(rows[l]);
  } else {
    unpackFloat(d.from, false, planes, rows, count, w.lanes);
  }
  for (unsigned s = 0; s < count; ++s)
    applyModifiers(in.src[n], planes + s * kRow);
}

/// Exponents of the scale per lane: -127..127, or 128 for NaN.
void readScale(Wave &w, const Inst &in, const ScaledDef &d, const Operand &o, int *exponent) {
  alignas(64) uint32_t tmp[kRow];
  const uint32_t *rows = fetchRaw(w, o, 1, tmp);
  if (!d.packedScale) {
    for (unsigned l = 0; l < w.lanes; ++l)
      exponent[l] = int(rows[l] >> 23 & 0xff) - 127;
    return;
  }
  // scale_sel: bit 0 is blocks of 16 instead of 32, then the byte, then the half of
  // the wave that holds the scales of both halves. Both halves use the same byte of
  // fp8 and bf8 blocks of 32; otherwise they use neighbours.
  // 8 is not among what MLIR documents for fp8 and bf8; Triton's compiler takes it for the neighbours
  // of lanes 0 to 15, which narrower floats have with 0.
  bool isByte = elemBits(d.from) == 8, bytes = isByte && in.imm != 8;
  auto sel = isByte && !bytes ? 0 : static_cast<unsigned>(in.imm);
  bool blocks16 = sel & 1;
  unsigned byte = bytes ? sel >> 1 & 3 : blocks16 ? sel >> 1 & 1 : (sel & 2);
  unsigned first = (bytes ? sel >> 3 & 1 : sel >> 2 & 1) * 16;
  unsigned step = blocks16 ? 2 : bytes ? 0 : 1;
  for (unsigned l = 0; l < w.lanes; ++l) {
    unsigned at = (byte + (l / 16) * step) & 3;
    exponent[l] = int(rows[first + l % 16] >> (8 * at) & 0xff) - 127;
  }
}

//===--- conversion ---------------------------------------------------------===//

float powerOfTwo(int e) {
  return e == 128 ? asFloat(0x7fc00000) : e == -127 ? 0x1p-127f : asFloat(uint32_t(e + 127) << 23);
}

template <class F> void decodePlane(float *plane, unsigned lanes) {
  decodeFields<F>(plane, reinterpret_cast<const uint32_t *>(plane), nullptr, 0, lanes);
}

void decodeCodes(Elem e, float *plane, unsigned lanes) {
  switch (e) {
  case Elem::Fp8:
    return decodePlane<Fp8Ocp>(plane, lanes);
  case Elem::Bf8:
    return decodePlane<Bf8Ocp>(plane, lanes);
  case Elem::Fp6:
    return decodePlane<Fp6E2m3>(plane, lanes);
  case Elem::Bf6:
    return decodePlane<Bf6E3m2>(plane, lanes);
  default:
    return decodePlane<Fp4E2m1>(plane, lanes);
  }
}

struct Rounding {
  const int *down;         ///< exponents to divide by
  const uint32_t *random;  ///< null: nearest even
  bool clamp;
};

template <class F>
void encodePlane(const float *plane, uint32_t *codes, const Rounding &r, unsigned lanes) {
  if (r.random)
    for (unsigned l = 0; l < lanes; ++l)
      codes[l] = encodeSmall<F, true>(asBits(plane[l]), r.down[l], r.random[l], r.clamp);
  else
    for (unsigned l = 0; l < lanes; ++l)
      codes[l] = encodeSmall<F, false>(asBits(plane[l]), r.down[l], 0, r.clamp);
}

void encode(Elem e, const float *plane, uint32_t *codes, const Rounding &r, unsigned lanes) {
  switch (e) {
  case Elem::Fp8:
    return encodePlane<Fp8Ocp>(plane, codes, r, lanes);
  case Elem::Bf8:
    return encodePlane<Bf8Ocp>(plane, codes, r, lanes);
  case Elem::Fp6:
    return encodePlane<Fp6E2m3>(plane, codes, r, lanes);
  case Elem::Bf6:
    return encodePlane<Bf6E3m2>(plane, codes, r, lanes);
  default:
    return encodePlane<Fp4E2m1>(plane, codes, r, lanes);
  }
}

/// Rounds scaled values to a wide format; the codes replace the plane's contents.
void roundWide(Elem to, const float *plane, uint32_t *codes, bool clamp, unsigned lanes) {
  for (unsigned l = 0; l < lanes; ++l) {
    uint32_t bits = asBits(plane[l]);
    if (to == Elem::F16) {
      codes[l] = floatToHalf(plane[l]);
      if (clamp && (codes[l] & 0x7fff) == 0x7c00 && (bits & 0x7fffffff) < 0x7f800000)
        --codes[l];
    } else {
      codes[l] = to == Elem::Bf16 ? floatToBf16(plane[l]) : bits;
    }
  }
}

//===--- results ------------------------------------------------------------===//

/// Packs the code planes and writes them where the instruction says.
void write(Wave &w, const Inst &in, const ScaledDef &d, const uint32_t *codes) {
  unsigned bits = elemBits(d.to), regs = (d.count * bits + 31) / 32;
  alignas(64) uint32_t out[kMaxElements * kRow] = {};
  for (unsigned s = 0; s < d.count; ++s) {
    unsigned at = s * bits, r = at / 32, shift = at % 32;
    for (unsigned l = 0; l < w.lanes; ++l)
      out[r * kRow + l] |= codes[s * kRow + l] << shift;
    if (shift + bits > 32)
      for (unsigned l = 0; l < w.lanes; ++l)
        out[(r + 1) * kRow + l] |= codes[s * kRow + l] >> (32 - shift);
  }
  uint32_t *dst = row(w, in.dst);
  unsigned used = d.count * bits;
  if (used < 32 && (d.part != Part::Whole || d.count == 1)) {
    bool byte = used == 8;
    unsigned shift = byte ? 8 * (in.imm & 3) : in.opSel & 8 ? 16 : 0;
    uint32_t mask = (byte ? 0xffu : 0xffffu) << shift;
    for (unsigned l = 0; l < w.lanes; ++l)
      out[l] = (dst[l] & ~mask) | (out[l] << shift & mask);
  }
  for (unsigned r = 0; r < regs; ++r)
    blend(dst + r * kRow, out + r * kRow, w.exec(), w.lanes);
}

void execScaled(Wave &w, const Inst &in) {
  const auto &d = *static_cast<const ScaledDef *>(in.def->table);
  alignas(64) float planes[kMaxElements * kRow];
  alignas(64) uint32_t codes[kMaxElements * kRow], random[kRow];
  int exponent[kRow];
  if (d.sources == 2) {
    alignas(64) float side[kMaxElements / 2 * kRow];
    for (unsigned n = 0; n < 2; ++n) {
      readSource(w, in, d, n, d.count / 2, side);
      for (unsigned s = 0; s < d.count / 2u; ++s)
        memcpy(planes + (2 * s + n) * kRow, side + s * kRow, kRow * 4);
    }
  } else {
    readSource(w, in, d, 0, d.count, planes);
  }
  unsigned next = d.sources;
  if (d.stochastic) {
    alignas(64) uint32_t tmp[kRow];
    memcpy(random, fetchRaw(w, in.src[next++], 1, tmp), sizeof random);
  }
  readScale(w, in, d, in.src[next], exponent);
  bool clamp = w.mode >> 23 & 1;
  for (unsigned s = 0; s < d.count; ++s) {
    float *plane = planes + s * kRow;
    if (widens(d.to)) {
      decodeCodes(d.from, plane, w.lanes);
      for (unsigned l = 0; l < w.lanes; ++l)
        plane[l] *= powerOfTwo(exponent[l]);
      roundWide(d.to, plane, codes + s * kRow, clamp, w.lanes);
      continue;
    }
    for (unsigned l = 0; l < w.lanes; ++l)
      if (exponent[l] == 128)
        plane[l] = asFloat(0x7fc00000);
    encode(d.to, plane, codes + s * kRow, {exponent, d.stochastic ? random : nullptr, clamp},
           w.lanes);
    for (unsigned l = 0; l < w.lanes && d.stochastic; ++l)
      random[l] = nextRandom(random[l]);
  }
  write(w, in, d, codes);
}

//===--- the table ----------------------------------------------------------===//

struct NamedElem {
  const char *name;
  Elem elem;
};
const NamedElem kWide[] = {{"f32", Elem::F32}, {"f16", Elem::F16}, {"bf16", Elem::Bf16}};
const NamedElem kBytes[] = {{"fp8", Elem::Fp8}, {"bf8", Elem::Bf8}};
const NamedElem kSixes[] = {{"fp6", Elem::Fp6}, {"bf6", Elem::Bf6}};
const NamedElem kFour = {"fp4", Elem::Fp4};

class Registrar {
public:
  explicit Registrar(OpTable &table) : table(table) {}

  void add(const std::string &name, const ScaledDef &def, uint32_t flags = 0) {
    static std::deque<ScaledDef> defs;
    defs.push_back(def);
    OpDef d;
    d.exec = execScaled;
    d.nsrc = static_cast<uint8_t>(def.sources + def.stochastic + 1);
    d.table = &defs.back();
    d.flags = flags | (def.stochastic ? kUncertain : 0u);
    if (elemBits(def.from) >= 16)
      for (unsigned n = 0; n < def.sources; ++n)
        d.src[n] = def.count > def.sources ? Num::B32 : Num::F32;
    table.add(name.c_str(), d);
  }

  /// gfx950: one or two values, in a byte or word of their register.
  void fewValues(const NamedElem &small, const NamedElem &wide, bool four) {
    std::string s = small.name, w = wide.name, cvt = "v_cvt_scalef32_";
    Part part = four ? Part::Byte : Part::Word;
    ScaledDef narrow{wide.elem, small.elem, 2};
    narrow.part = part;
    narrow.sources = wide.elem == Elem::F32 ? 2 : 1;
    add(cvt + "pk_" + s + "_" + w, narrow, four ? uint32_t(kByteDst) : 0u);
    ScaledDef widen{small.elem, wide.elem, 2};
    widen.part = part;
    add(cvt + "pk_" + w + "_" + s, widen, four ? uint32_t(kByteSrc) : 0u);
    ScaledDef stochastic{wide.elem, small.elem, uint8_t(four ? 2 : 1)};
    stochastic.part = Part::Byte;
    stochastic.stochastic = true;
    add(cvt + (four ? "sr_pk_" : "sr_") + s + "_" + w, stochastic, kByteDst);
    if (!four && wide.elem != Elem::Bf16) {
      ScaledDef one{small.elem, wide.elem, 1};
      one.part = Part::Byte;
      add(cvt + w + "_" + s, one, kByteSrc);
    }
  }

  /// gfx950: 32 values of 6 bits.
  void thirtyTwo(const NamedElem &small, const NamedElem &wide) {
    std::string s = small.name, w = wide.name, cvt = "v_cvt_scalef32_";
    ScaledDef narrow{wide.elem, small.elem, 32};
    ScaledDef stochastic = narrow;
    stochastic.stochastic = true;
    add(cvt + "sr_pk32_" + s + "_" + w, stochastic);
    narrow.sources = wide.elem == Elem::F32 ? 2 : 1;
    add(cvt + (wide.elem == Elem::F32 ? "2xpk16_" : "pk32_") + s + "_" + w, narrow);
    add(cvt + "pk32_" + w + "_" + s, ScaledDef{small.elem, wide.elem, 32});
  }

  /// gfx1250: 8 values of 8 or 4 bits, 16 of 6 bits.
  void packed(const NamedElem &small, const NamedElem &wide) {
    uint8_t count = elemBits(small.elem) == 6 ? 16 : 8;
    std::string pk = count == 16 ? "pk16_" : "pk8_", s = small.name, w = wide.name;
    ScaledDef widen{small.elem, wide.elem, count};
    widen.packedScale = true;
    add("v_cvt_scale_" + pk + w + "_" + s, widen);
    ScaledDef narrow{wide.elem, small.elem, count};
    add("v_cvt_scalef32_" + pk + s + "_" + w, narrow);
    narrow.stochastic = true;
    add("v_cvt_scalef32_sr_" + pk + s + "_" + w, narrow);
  }

private:
  OpTable &table;
};

} // namespace

void FLYSIM_LEVEL::registerConvertScaled(OpTable &table) {
  Registrar r(table);
  for (const NamedElem &wide : kWide) {
    for (const NamedElem &small : kBytes) {
      r.fewValues(small, wide, false);
      r.packed(small, wide);
    }
    for (const NamedElem &small : kSixes) {
      r.thirtyTwo(small, wide);
      r.packed(small, wide);
    }
    r.fewValues(kFour, wide, true);
    r.packed(kFour, wide);
  }
}

} // namespace flysim
