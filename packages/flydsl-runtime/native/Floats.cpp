//===- Floats.cpp - Floating point in launch plans ---------------------------===//

#include "Floats.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace flydsl::runtime {

namespace {

template <typename Enum, size_t N>
bool lookUp(const char *const (&names)[N], const std::string &name, Enum &out) {
  static_assert(N == static_cast<size_t>(Enum::Count), "one name for each");
  for (size_t i = 0; i < N; ++i) {
    if (name == names[i]) {
      out = static_cast<Enum>(i);
      return true;
    }
  }
  return false;
}

/// Nearest number with \p digits significant bits and no bit below 2^minExponent, ties to even.
double roundTo(double value, int digits, int minExponent) {
  if (!std::isfinite(value) || value == 0)
    return value;
  int exponent;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent - digits, minExponent);
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

double halfToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double magnitude;
  if (exponent == 31)
    magnitude = fraction ? std::numeric_limits<double>::quiet_NaN()
                         : std::numeric_limits<double>::infinity();
  else
    magnitude = exponent ? std::ldexp(1024 + fraction, exponent - 25) : std::ldexp(fraction, -24);
  return bits >> 15 ? -magnitude : magnitude;
}

uint16_t doubleToHalf(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  const double magnitude = std::fabs(roundTo(value, 11, -24));
  if (magnitude > 65504)
    return sign | 0x7c00;
  if (magnitude < 0x1p-14)
    return sign | static_cast<uint16_t>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  const auto significand = static_cast<uint16_t>(std::ldexp(magnitude, 10 - exponent));
  return sign | static_cast<uint16_t>(((exponent + 15) << 10) + (significand - 1024));
}

template <typename To, typename From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

double apply(FloatBinary function, double a, double b) {
  switch (function) {
  case FloatBinary::Add: return a + b;
  case FloatBinary::Sub: return a - b;
  case FloatBinary::Mul: return a * b;
  case FloatBinary::Div: return a / b;
  case FloatBinary::Rem: return std::fmod(a, b);
  case FloatBinary::MinNum: return std::fmin(a, b);
  case FloatBinary::MaxNum: return std::fmax(a, b);
  case FloatBinary::Minimum:
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<double>::quiet_NaN();
    return a == b ? (std::signbit(a) ? a : b) : std::fmin(a, b);
  case FloatBinary::Maximum:
    if (std::isnan(a) || std::isnan(b))
      return std::numeric_limits<double>::quiet_NaN();
    return a == b ? (std::signbit(a) ? b : a) : std::fmax(a, b);
  case FloatBinary::Pow: return std::pow(a, b);
  case FloatBinary::Atan2: return std::atan2(a, b);
  case FloatBinary::CopySign: return std::copysign(a, b);
  case FloatBinary::Count: break;
  }
  return 0;
}

double apply(FloatUnary function, double a) {
  switch (function) {
  case FloatUnary::Neg: return -a;
  case FloatUnary::Abs: return std::fabs(a);
  case FloatUnary::Sqrt: return std::sqrt(a);
  case FloatUnary::RSqrt: return 1 / std::sqrt(a);
  case FloatUnary::Cbrt: return std::cbrt(a);
  case FloatUnary::Exp: return std::exp(a);
  case FloatUnary::Exp2: return std::exp2(a);
  case FloatUnary::ExpM1: return std::expm1(a);
  case FloatUnary::Log: return std::log(a);
  case FloatUnary::Log2: return std::log2(a);
  case FloatUnary::Log10: return std::log10(a);
  case FloatUnary::Log1P: return std::log1p(a);
  case FloatUnary::Sin: return std::sin(a);
  case FloatUnary::Cos: return std::cos(a);
  case FloatUnary::Tan: return std::tan(a);
  case FloatUnary::Tanh: return std::tanh(a);
  case FloatUnary::Erf: return std::erf(a);
  case FloatUnary::Floor: return std::floor(a);
  case FloatUnary::Ceil: return std::ceil(a);
  case FloatUnary::Trunc: return std::trunc(a);
  case FloatUnary::Round: return std::round(a);
  case FloatUnary::RoundEven: return std::nearbyint(a);
  case FloatUnary::Count: break;
  }
  return 0;
}

uint64_t lowBits(int64_t value, unsigned width) {
  const auto bits = static_cast<uint64_t>(value);
  return width == 64 ? bits : bits & ((uint64_t(1) << width) - 1);
}

/// The value of an integer register, rounded to nearest where a double has too few bits.
double integerToDouble(int64_t value, NumberType type) {
  if (type.isSigned && type.width > 1)
    return static_cast<double>(value);
  return static_cast<double>(lowBits(value, type.width));
}

int64_t doubleToInteger(double value, NumberType type) {
  if (std::isnan(value))
    return 0;
  const double number = std::trunc(value);
  const bool isSigned = type.isSigned && type.width > 1;
  const int bits = isSigned ? type.width - 1 : type.width;
  const double limit = std::ldexp(1.0, bits);
  if (isSigned) {
    if (number >= limit)
      return static_cast<int64_t>((uint64_t(1) << bits) - 1);
    return number < -limit ? -static_cast<int64_t>(uint64_t(1) << (bits - 1)) * 2
                           : static_cast<int64_t>(number);
  }
  if (number <= 0)
    return 0;
  uint64_t out = number >= limit ? ~uint64_t(0) >> (64 - type.width) : static_cast<uint64_t>(number);
  // Registers keep integers sign-extended from their width.
  const unsigned shift = type.width == 1 ? 0 : 64 - type.width;
  return static_cast<int64_t>(out << shift) >> shift;
}

} // namespace

bool parseFloatType(const std::string &name, FloatType &out) {
  static const char *const names[] = {"f16", "bf16", "f32", "f64"};
  return lookUp(names, name, out);
}

bool parseFloatBinary(const std::string &name, FloatBinary &out) {
  static const char *const names[] = {"add",     "sub",    "mul",    "div", "rem",   "minimum",
                                      "maximum", "minnum", "maxnum", "pow", "atan2", "copysign"};
  return lookUp(names, name, out);
}

bool parseFloatUnary(const std::string &name, FloatUnary &out) {
  static const char *const names[] = {"neg",  "abs",   "sqrt",  "rsqrt", "cbrt", "exp",
                                      "exp2", "expm1", "log",   "log2",  "log10", "log1p",
                                      "sin",  "cos",   "tan",   "tanh",  "erf",  "floor",
                                      "ceil", "trunc", "round", "roundeven"};
  return lookUp(names, name, out);
}

bool parseFloatPredicate(const std::string &name, uint8_t &outcomes) {
  struct Entry {
    const char *name;
    uint8_t outcomes;
  };
  static constexpr Entry table[] = {{"eq", kEqual},
                                    {"gt", kGreater},
                                    {"ge", kGreater | kEqual},
                                    {"lt", kLess},
                                    {"le", kLess | kEqual},
                                    {"ne", kLess | kGreater}};
  if (name == "true" || name == "false" || name == "ord" || name == "uno") {
    outcomes = name == "true" ? 15 : name == "ord" ? 7 : name == "uno" ? kUnordered : 0;
    return true;
  }
  for (const Entry &entry : table) {
    if (name.size() == 3 && name.compare(1, 2, entry.name) == 0 && (name[0] == 'o' || name[0] == 'u')) {
      outcomes = entry.outcomes | (name[0] == 'u' ? kUnordered : 0);
      return true;
    }
  }
  return false;
}

bool parseNumberType(const std::string &name, NumberType &out) {
  out.isFloat = parseFloatType(name, out.type);
  if (out.isFloat)
    return true;
  for (int width : {1, 8, 16, 32, 64}) {
    const std::string digits = std::to_string(width);
    if (name == "i" + digits || name == "u" + digits) {
      out.isSigned = name[0] == 'i';
      out.width = static_cast<uint8_t>(width);
      return true;
    }
  }
  return false;
}

double toDouble(int64_t bits, FloatType type) {
  switch (type) {
  case FloatType::F16: return halfToDouble(static_cast<uint16_t>(bits));
  case FloatType::BF16: return bitCast<float>(static_cast<uint32_t>(bits) << 16);
  case FloatType::F32: return bitCast<float>(static_cast<uint32_t>(bits));
  default: return bitCast<double>(bits);
  }
}

int64_t fromDouble(double value, FloatType type) {
  switch (type) {
  case FloatType::F16: return doubleToHalf(value);
  case FloatType::BF16:
    return bitCast<uint32_t>(static_cast<float>(roundTo(value, 8, -133))) >> 16;
  case FloatType::F32: return bitCast<int32_t>(static_cast<float>(value));
  default: return bitCast<int64_t>(value);
  }
}

int64_t floatBinary(FloatBinary function, int64_t a, int64_t b, FloatType type) {
  return fromDouble(apply(function, toDouble(a, type), toDouble(b, type)), type);
}

int64_t floatUnary(FloatUnary function, int64_t a, FloatType type) {
  return fromDouble(apply(function, toDouble(a, type)), type);
}

bool floatCompare(uint8_t outcomes, int64_t a, int64_t b, FloatType type) {
  const double x = toDouble(a, type), y = toDouble(b, type);
  return (outcomes & (x < y ? kLess : x == y ? kEqual : x > y ? kGreater : kUnordered)) != 0;
}

int64_t convertNumber(int64_t value, NumberType from, NumberType to) {
  if (!from.isFloat && to.isFloat) {
    if (to.type == FloatType::F32) // in one rounding: a 64-bit integer does not fit a double
      return bitCast<int32_t>(from.isSigned && from.width > 1
                                  ? static_cast<float>(value)
                                  : static_cast<float>(lowBits(value, from.width)));
    return fromDouble(integerToDouble(value, from), to.type);
  }
  const double number = toDouble(value, from.type);
  return to.isFloat ? fromDouble(number, to.type) : doubleToInteger(number, to);
}

std::string numberText(int64_t value, NumberType type) {
  char text[64];
  if (type.isFloat)
    std::snprintf(text, sizeof(text), "%g", toDouble(value, type.type));
  else if (type.isSigned && type.width > 1)
    std::snprintf(text, sizeof(text), "%lld", static_cast<long long>(value));
  else
    std::snprintf(text, sizeof(text), "%llu",
                  static_cast<unsigned long long>(lowBits(value, type.width)));
  return text;
}

} // namespace flydsl::runtime
