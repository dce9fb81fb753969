//===- Conversion.cpp - conversions of printf formats ---------------------===//

#include "hip/Conversion.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace flysim {

namespace {

bool oneOf(char c, const char *set) { return c && strchr(set, c); }

/// A format that Conversion::spec wrote, applied to a value of the type that it names.
template <class T> std::string render(const std::string &format, T value) {
  int size = snprintf(nullptr, 0, format.c_str(), value);
  std::string text(size > 0 ? static_cast<size_t>(size) : 0, '\0');
  if (size > 0)
    snprintf(text.data(), text.size() + 1, format.c_str(), value);
  return text;
}

std::string padded(std::string text, int width, bool left) {
  if (width > 0 && text.size() < static_cast<size_t>(width))
    text.insert(left ? text.size() : 0, static_cast<size_t>(width) - text.size(), ' ');
  return text;
}

} // namespace

std::optional<Conversion> Conversion::read(std::string_view text, size_t &at) {
  Conversion c;
  size_t next = at + 1;
  auto peek = [&] { return next < text.size() ? text[next] : '\0'; };
  auto number = [&] {
    int value = 0;
    for (; peek() >= '0' && peek() <= '9'; ++next)
      value = std::min(value * 10 + (text[next] - '0'), kMost);
    return value;
  };
  for (; oneOf(peek(), "-+ #0"); ++next)
    if (c.flags.find(text[next]) == std::string::npos)
      c.flags += text[next];
  if (peek() == '*') {
    c.widthArgument = true;
    ++next;
  } else {
    c.width = number();
  }
  if (peek() == '.') {
    ++next;
    c.precisionArgument = peek() == '*';
    if (c.precisionArgument)
      ++next;
    else
      c.precision = number();
  }
  for (; oneOf(peek(), "hljztL"); ++next)
    c.length += text[next];
  static const char *const kLengths[] = {"", "hh", "h", "l", "ll", "j", "z", "t", "L", "hl"};
  bool known = std::any_of(std::begin(kLengths), std::end(kLengths),
                           [&](const char *l) { return c.length == l; });
  if (!known || !oneOf(peek(), "diouxXfFeEgGaAcsp%"))
    return std::nullopt;
  c.kind = text[next];
  at = next + 1;
  return c;
}

bool Conversion::isReal() const { return oneOf(kind, "fFeEgGaA"); }

void Conversion::setWidth(int value) {
  if (value < 0 && flags.find('-') == std::string::npos)
    flags += '-';
  // The most negative number has no positive one.
  width = value < -kMost || value > kMost ? kMost : value < 0 ? -value : value;
}

std::string Conversion::spec(const char *size) const {
  std::string out = "%" + flags;
  if (width)
    out += std::to_string(width);
  if (precision >= 0)
    out += "." + std::to_string(precision);
  return out + size + kind;
}

std::string Conversion::real(double value) const { return render(spec(""), value); }
std::string Conversion::integer(uint64_t bits) const {
  // A short value travels as an int: what is printed is the short one.
  if (length == "h")
    bits = isSigned() ? static_cast<uint64_t>(static_cast<int16_t>(bits)) : static_cast<uint16_t>(bits);
  else if (length == "hh")
    bits = isSigned() ? static_cast<uint64_t>(static_cast<int8_t>(bits)) : static_cast<uint8_t>(bits);
  return isSigned() ? render(spec("ll"), static_cast<long long>(bits))
                    : render(spec("ll"), static_cast<unsigned long long>(bits));
}
std::string Conversion::character(char value) const {
  return padded(std::string(1, value), width, flags.find('-') != std::string::npos);
}
std::string Conversion::pointer(uint64_t value) const {
  return render(spec(""), reinterpret_cast<void *>(value));
}
std::string Conversion::text(std::string_view value) const {
  if (precision >= 0)
    value = value.substr(0, static_cast<size_t>(precision));
  return padded(std::string(value), width, flags.find('-') != std::string::npos);
}

} // namespace flysim
