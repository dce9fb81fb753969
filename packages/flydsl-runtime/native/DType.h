//===- DType.h - Element types of arguments ---------------------*- C++ -*-===//
//
// An element type is identified by DLPack's pair of type code and bit width.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_DTYPE_H
#define FLYDSL_RUNTIME_DTYPE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace flydsl::runtime {

/// Type codes of DLPack 1.1.
enum class TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  OpaqueHandle = 3,
  BFloat = 4,
  Complex = 5,
  Bool = 6,
  Float8E3M4 = 7,
  Float8E4M3 = 8,
  Float8E4M3B11FNUZ = 9,
  Float8E4M3FN = 10,
  Float8E4M3FNUZ = 11,
  Float8E5M2 = 12,
  Float8E5M2FNUZ = 13,
  Float8E8M0FNU = 14,
  Float6E2M3FN = 15,
  Float6E3M2FN = 16,
  Float4E2M1FN = 17,
};

struct DType {
  TypeCode code = TypeCode::OpaqueHandle;
  uint8_t bits = 0;

  bool valid() const { return bits != 0; }
  /// Bytes of one element in an array; sub-byte elements of a tensor library take a byte.
  int64_t bytes() const { return (bits + 7) / 8; }
  bool operator==(DType other) const { return code == other.code && bits == other.bits; }

  /// MLIR spelling: "f32", "bf16", "i8", "u8", "i1", "f8E4M3FN", "complex<f32>".
  std::string str() const;

  /// The spelling of NumPy, ml_dtypes and torch: "float32", "bfloat16", "float8_e4m3fn".
  const char *frameworkName() const;

  /// Parses the MLIR spelling; invalid() on an unknown name.
  static DType parse(std::string_view name);

  /// Parses NumPy's, ml_dtypes' and torch's spelling ("float32", "bfloat16", "float8_e4m3fn").
  static DType parseFrameworkName(std::string_view name);
};

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_DTYPE_H
