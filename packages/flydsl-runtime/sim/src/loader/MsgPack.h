//===- MsgPack.h - a bounds-checked MessagePack reader ---------*- C++ -*-===//
#ifndef FLYSIM_LOADER_MSGPACK_H
#define FLYSIM_LOADER_MSGPACK_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace flysim {

/// One MessagePack value. Kernel metadata only uses maps with string keys. Strings point into
/// the parsed bytes, and containers are filled as elements are read: a value takes at most a
/// constant times the bytes that it comes from, whatever its headers claim.
struct MsgValue {
  enum Kind : uint8_t { Nil, Bool, Int, Float, Str, Array, Map } kind = Nil;
  int64_t integer = 0; ///< of a Float: the bits of a double
  std::string_view str;
  std::vector<MsgValue> items;  ///< elements of an array, values of a map
  std::vector<std::string_view> keys; ///< of a map, in the order of its values

  /// The field named `key`, or null when this is no map or has no such field.
  const MsgValue *get(const char *key) const {
    for (size_t n = keys.size(); n-- > 0;) // of equal keys the last one counts
      if (keys[n] == key)
        return &items[n];
    return nullptr;
  }
  int64_t getInt(const char *key, int64_t otherwise = 0) const {
    const MsgValue *v = get(key);
    return v && (v->kind == Int || v->kind == Bool) ? v->integer : otherwise;
  }
  std::string getStr(const char *key) const {
    const MsgValue *v = get(key);
    return v && v->kind == Str ? std::string(v->str) : std::string();
  }
};

/// Parses one value, which refers to `data`; false on malformed or truncated input.
bool parseMsgPack(const uint8_t *data, size_t size, MsgValue &out);

} // namespace flysim

#endif
