//===- Json.h - writing JSON -----------------------------------*- C++ -*-===//
#ifndef FLYSIM_SUPPORT_JSON_H
#define FLYSIM_SUPPORT_JSON_H

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace flysim {

/// Appends values to `text`; commas come by themselves.
class Json {
public:
  Json &key(const char *name) {
    comma();
    quote(name);
    text += ':';
    fresh = true;
    return *this;
  }
  Json &open(char c) {
    comma();
    text += c;
    fresh = true;
    return *this;
  }
  Json &close(char c) {
    text += c;
    fresh = false;
    return *this;
  }
  Json &value(std::string_view s) {
    comma();
    quote(s);
    return *this;
  }
  Json &value(const char *s) { return value(std::string_view(s)); }
  Json &value(const std::string &s) { return value(std::string_view(s)); }
  Json &value(double v) {
    comma();
    char buffer[40];
    snprintf(buffer, sizeof buffer, "%.6g", v);
    text += buffer;
    return *this;
  }
  Json &value(uint64_t v) {
    comma();
    text += std::to_string(v);
    return *this;
  }
  Json &value(unsigned v) { return value(uint64_t(v)); }
  Json &value(bool v) {
    comma();
    text += v ? "true" : "false";
    return *this;
  }
  template <class T> Json &field(const char *name, T v) { return key(name).value(v); }

  std::string text;

private:
  void comma() {
    if (!fresh)
      text += ',';
    fresh = false;
  }
  void quote(std::string_view s) {
    text += '"';
    for (char c : s) {
      if (c == '"' || c == '\\') {
        text += '\\';
        text += c;
      } else if (static_cast<unsigned char>(c) < 32) {
        text += ' ';
      } else {
        text += c;
      }
    }
    text += '"';
  }
  bool fresh = true;
};

/// A JSON list of JSON texts.
inline std::string jsonList(const std::vector<std::string> &entries) {
  std::string text = "[";
  for (const std::string &entry : entries)
    text += (text.size() > 1 ? ",\n" : "") + entry;
  return text += "]";
}

} // namespace flysim

#endif
