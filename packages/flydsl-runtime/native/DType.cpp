//===- DType.cpp - Element types of arguments --------------------------------===//

#include "DType.h"

namespace flydsl::runtime {

namespace {

struct NamedType {
  DType type;
  const char *mlir;
  const char *framework;
};

// The one table of names. An empty string means that the name does not exist on that side.
constexpr NamedType kTypes[] = {
    {{TypeCode::Bool, 8}, "i1", "bool"},
    {{TypeCode::Int, 8}, "i8", "int8"},
    {{TypeCode::Int, 16}, "i16", "int16"},
    {{TypeCode::Int, 32}, "i32", "int32"},
    {{TypeCode::Int, 64}, "i64", "int64"},
    {{TypeCode::UInt, 8}, "u8", "uint8"},
    {{TypeCode::UInt, 16}, "u16", "uint16"},
    {{TypeCode::UInt, 32}, "u32", "uint32"},
    {{TypeCode::UInt, 64}, "u64", "uint64"},
    {{TypeCode::Float, 16}, "f16", "float16"},
    {{TypeCode::Float, 32}, "f32", "float32"},
    {{TypeCode::Float, 64}, "f64", "float64"},
    {{TypeCode::BFloat, 16}, "bf16", "bfloat16"},
    {{TypeCode::Complex, 64}, "complex<f32>", "complex64"},
    {{TypeCode::Complex, 128}, "complex<f64>", "complex128"},
    {{TypeCode::Float8E3M4, 8}, "f8E3M4", "float8_e3m4"},
    {{TypeCode::Float8E4M3, 8}, "f8E4M3", "float8_e4m3"},
    {{TypeCode::Float8E4M3B11FNUZ, 8}, "f8E4M3B11FNUZ", "float8_e4m3b11fnuz"},
    {{TypeCode::Float8E4M3FN, 8}, "f8E4M3FN", "float8_e4m3fn"},
    {{TypeCode::Float8E4M3FNUZ, 8}, "f8E4M3FNUZ", "float8_e4m3fnuz"},
    {{TypeCode::Float8E5M2, 8}, "f8E5M2", "float8_e5m2"},
    {{TypeCode::Float8E5M2FNUZ, 8}, "f8E5M2FNUZ", "float8_e5m2fnuz"},
    {{TypeCode::Float8E8M0FNU, 8}, "f8E8M0FNU", "float8_e8m0fnu"},
    {{TypeCode::Float6E2M3FN, 6}, "f6E2M3FN", "float6_e2m3fn"},
    {{TypeCode::Float6E3M2FN, 6}, "f6E3M2FN", "float6_e3m2fn"},
    {{TypeCode::Float4E2M1FN, 4}, "f4E2M1FN", "float4_e2m1fn"},
};

} // namespace

std::string DType::str() const {
  for (const NamedType &entry : kTypes)
    if (entry.type == *this)
      return entry.mlir;
  return "type(code " + std::to_string(static_cast<int>(code)) + ", " + std::to_string(bits) +
         " bits)";
}

const char *DType::frameworkName() const {
  for (const NamedType &entry : kTypes)
    if (entry.type == *this)
      return entry.framework;
  return "?";
}

DType DType::parse(std::string_view name) {
  for (const NamedType &entry : kTypes)
    if (name == entry.mlir)
      return entry.type;
  return {};
}

DType DType::parseFrameworkName(std::string_view name) {
  for (const NamedType &entry : kTypes)
    if (name == entry.framework)
      return entry.type;
  return {};
}

} // namespace flydsl::runtime
