//===- Conversion.h - conversions of printf formats ------------*- C++ -*-===//
//
// Formats come from code objects and from the memory of kernels: neither may reach a function
// of the C library. A conversion is read here, part by part, and only what has been understood
// is written into a format of our own.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_HIP_CONVERSION_H
#define FLYSIM_HIP_CONVERSION_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace flysim {

/// One conversion, such as "%-8.3lx".
struct Conversion {
  /// More than this is cut: C asks for 4095 characters of one conversion.
  static constexpr int kMost = 4095;

  std::string flags;  ///< of "-+ #0", each once
  int width = 0;      ///< 0: none
  int precision = -1; ///< -1: none
  bool widthArgument = false, precisionArgument = false; ///< a star
  std::string length; ///< "", "hh", "h", "l", "ll", "j", "z", "t", "L"
  char kind = 0;      ///< one of "diouxXfFeEgGaAcsp%"

  /// The conversion that starts at the percent sign `text[at]`, which then is the place behind
  /// it; nothing, and `at` as it was, if there is none.
  static std::optional<Conversion> read(std::string_view text, size_t &at);

  bool isReal() const;
  bool isSigned() const { return kind == 'd' || kind == 'i'; }
  unsigned arguments() const { return unsigned(widthArgument) + unsigned(precisionArgument); }
  /// The values of the stars, in their order.
  void setWidth(int value);
  void setPrecision(int value) { precision = value < 0 ? -1 : value < kMost ? value : kMost; }

  std::string real(double value) const;
  /// `d`, `i`: `bits` is the value with its sign; others take it as unsigned.
  std::string integer(uint64_t bits) const;
  std::string character(char value) const;
  std::string pointer(uint64_t value) const;
  std::string text(std::string_view value) const;

private:
  std::string spec(const char *length) const;
};

} // namespace flysim

#endif
