//===- Floats.h - Floating point in launch plans ----------------*- C++ -*-===//
//
// Registers hold floats as the raw bits of their type. Results are those of the IEEE operation in
// that type: the operations are computed in double precision and rounded once more, which is exact
// for +, -, *, / and the square root of narrower types, and within an ulp for the other functions.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_FLOATS_H
#define FLYDSL_RUNTIME_FLOATS_H

#include <cstdint>
#include <string>

namespace flydsl::runtime {

enum class FloatType : uint8_t { F16, BF16, F32, F64, Count };

/// Functions of two numbers. Minimum and maximum propagate NaN, the "num" forms prefer numbers.
enum class FloatBinary : uint8_t {
  Add, Sub, Mul, Div, Rem, Minimum, Maximum, MinNum, MaxNum, Pow, Atan2, CopySign, Count,
};

enum class FloatUnary : uint8_t {
  Neg, Abs, Sqrt, RSqrt, Cbrt, Exp, Exp2, ExpM1, Log, Log2, Log10, Log1P, Sin, Cos, Tan, Tanh, Erf,
  Floor, Ceil, Trunc, Round, RoundEven, Count,
};

/// Bit set of the outcomes that make a comparison true.
enum FloatOutcome : uint8_t { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };

/// Number types of conversions: floats, and integers of a width.
struct NumberType {
  bool isFloat = false;
  bool isSigned = true;
  uint8_t width = 32; ///< of an integer
  FloatType type = FloatType::F32;
};

// Each parses the plan's spelling; false for an unknown one.
bool parseFloatType(const std::string &name, FloatType &out);
bool parseFloatBinary(const std::string &name, FloatBinary &out);
bool parseFloatUnary(const std::string &name, FloatUnary &out);
/// "olt", "une", "ord", ... as arith.cmpf spells them, "true" and "false".
bool parseFloatPredicate(const std::string &name, uint8_t &outcomes);
/// "f16", "bf16", "f32", "f64", "i1" ... "i64", "u1" ... "u64".
bool parseNumberType(const std::string &name, NumberType &out);

double toDouble(int64_t bits, FloatType type);
/// Nearest number of \p type, ties to even; too large ones become infinite.
int64_t fromDouble(double value, FloatType type);

int64_t floatBinary(FloatBinary function, int64_t a, int64_t b, FloatType type);
int64_t floatUnary(FloatUnary function, int64_t a, FloatType type);
bool floatCompare(uint8_t outcomes, int64_t a, int64_t b, FloatType type);
/// Integers come from and go to registers as plans keep them. A float that does not fit its
/// integer saturates, and NaN gives 0, as the device's conversions do.
int64_t convertNumber(int64_t value, NumberType from, NumberType to);

/// A number as printf shows it on the host: integers in decimal, floats in the shortest %g form.
std::string numberText(int64_t value, NumberType type);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_FLOATS_H
