//===- ValuConvert.cpp - conversions between formats ----------------------===//

#include "exec/Register.h"
#include "exec/Valu.h"

#include <cmath>

namespace flysim {
namespace {

template <class F> inline int32_t toI32(F a) {
  return a != a ? 0 : a >= F(0x1p31) ? INT32_MAX : a < F(-0x1p31) ? INT32_MIN : int32_t(a);
}
template <class F> inline uint32_t toU32(F a) {
  return a != a || a <= F(-1) ? 0u : a >= F(0x1p32) ? UINT32_MAX : uint32_t(int64_t(a));
}
inline uint16_t toU16(float a) {
  return static_cast<uint16_t>(a != a || a <= -1.0f ? 0 : a >= 65535.0f ? 65535 : int(a));
}
inline int16_t toI16(float a) {
  return static_cast<int16_t>(a != a ? 0 : a >= 32767.0f ? 32767 : a <= -32768.0f ? -32768 : int(a));
}
inline H16 half(float f) { return H16{static_cast<uint16_t>(floatToHalf(f))}; }

void integers(ValuBuilder &v) {
  v.op("v_cvt_f32_i32", [](int32_t a) { return float(a); });
  v.op("v_cvt_f32_u32", [](uint32_t a) { return float(a); });
  v.op("v_cvt_i32_f32", [](float a) { return toI32(a); });
  v.op("v_cvt_u32_f32", [](float a) { return toU32(a); });
  v.op("v_cvt_rpi_i32_f32", [](float a) { return toI32(std::floor(double(a) + 0.5)); });
  v.op("v_cvt_flr_i32_f32", [](float a) { return toI32(std::floor(a)); });
  v.alias("v_cvt_nearest_i32_f32", "v_cvt_rpi_i32_f32");
  v.alias("v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32");
  v.op("v_cvt_f64_i32", [](int32_t a) { return double(a); });
  v.op("v_cvt_f64_u32", [](uint32_t a) { return double(a); });
  v.op("v_cvt_i32_f64", [](double a) { return toI32(a); });
  v.op("v_cvt_u32_f64", [](double a) { return toU32(a); });
  v.op("v_cvt_f32_f64", [](double a) { return float(a); });
  v.op("v_cvt_f64_f32", [](float a) { return double(a); });
  v.op("v_cvt_f32_ubyte0", [](uint32_t a) { return float(a & 0xff); });
  v.op("v_cvt_f32_ubyte1", [](uint32_t a) { return float(a >> 8 & 0xff); });
  v.op("v_cvt_f32_ubyte2", [](uint32_t a) { return float(a >> 16 & 0xff); });
  v.op("v_cvt_f32_ubyte3", [](uint32_t a) { return float(a >> 24); });
  v.op("v_cvt_f16_u16", [](uint16_t a) { return half(float(a)); });
  v.op("v_cvt_f16_i16", [](int16_t a) { return half(float(a)); });
  v.op("v_cvt_u16_f16", [](H16 a) { return toU16(halfToFloat(a.bits)); });
  v.op("v_cvt_i16_f16", [](H16 a) { return toI16(halfToFloat(a.bits)); });
  v.op("v_cvt_i32_i16", [](int16_t a) { return int32_t(a); });
  v.op("v_cvt_u32_u16", [](uint16_t a) { return uint32_t(a); });
  v.op("v_cvt_pk_u16_u32", [](uint32_t a, uint32_t b) {
    return (a > 65535 ? 65535 : a) | (b > 65535 ? 65535u : b) << 16;
  });
  v.op("v_cvt_pk_i16_i32", [](int32_t a, int32_t b) {
    auto sat = [](int32_t x) { return uint32_t(x > 32767 ? 32767 : x < -32768 ? -32768 : x); };
    return (sat(a) & 0xffff) | sat(b) << 16;
  });
  v.op("v_cvt_pkaccum_u8_f32", [](float a, uint32_t b, uint32_t c) {
    uint32_t byte = a != a || a <= 0 ? 0 : a >= 255.0f ? 255 : uint32_t(a), s = (b & 3) * 8;
    return (c & ~(0xffu << s)) | byte << s;
  });
  v.op("v_cvt_pk_u8_f32", [](float a, uint32_t b, uint32_t c) {
    float r = __builtin_roundevenf(a);
    uint32_t byte = r != r || r <= 0 ? 0 : r >= 255.0f ? 255 : uint32_t(r), s = (b & 3) * 8;
    return (c & ~(0xffu << s)) | byte << s;
  });
  v.op("v_cvt_pknorm_i16_f32", [](float a, float b) {
    return signedNorm16(a) | signedNorm16(b) << 16;
  });
  v.op("v_cvt_pknorm_u16_f32", [](float a, float b) {
    return unsignedNorm16(a) | unsignedNorm16(b) << 16;
  });
  v.alias("v_cvt_pk_norm_i16_f32", "v_cvt_pknorm_i16_f32");
  v.alias("v_cvt_pk_norm_u16_f32", "v_cvt_pknorm_u16_f32");
}

void halves(ValuBuilder &v) {
  v.op("v_cvt_f16_f32", [](float a) { return half(a); });
  v.op("v_cvt_f32_f16", [](H16 a) { return halfToFloat(a.bits); });
  v.op("v_cvt_pkrtz_f16_f32",
       [](float a, float b) { return floatToHalfRtz(a) | floatToHalfRtz(b) << 16; });
  v.alias("v_cvt_pk_rtz_f16_f32", "v_cvt_pkrtz_f16_f32");
  v.op("v_cvt_pk_f16_f32", [](float a, float b) { return floatToHalf(a) | floatToHalf(b) << 16; });
  v.op("v_cvt_pk_bf16_f32", [](float a, float b) { return floatToBf16(a) | floatToBf16(b) << 16; });
  v.op("v_cvt_f32_bf16", [](BF a) { return bf16ToFloat(a.bits); });
}

} // namespace

void FLYSIM_LEVEL::registerValuConvert(OpTable &table) {
  ValuBuilder v(table);
  integers(v);
  halves(v);
}

} // namespace flysim
