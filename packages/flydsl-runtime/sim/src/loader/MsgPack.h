//===- MsgPack.h - a bounds-checked MessagePack reader ---------*- C++ -*-===//
#ifndef FLYSIM_LOADER_MSGPACK_H
#define FLYSIM_LOADER_MSGPACK_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace flysim {

/// One MessagePack value. Kernel metadata only uses maps with string keys.
struct MsgValue {
  enum Kind { Nil, Bool, Int, Float, Str, Array, Map } kind = Nil;
  int64_t integer = 0;
  double real = 0;
  std::string str;
  std::vector<MsgValue> items;
  std::map<std::string, MsgValue> fields;

  /// The field named `key`, or null when this is no map or has no such field.
  const MsgValue *get(const char *key) const {
    auto it = fields.find(key);
    return it == fields.end() ? nullptr : &it->second;
  }
  int64_t getInt(const char *key, int64_t otherwise = 0) const {
    const MsgValue *v = get(key);
    return v && (v->kind == Int || v->kind == Bool) ? v->integer : otherwise;
  }
  std::string getStr(const char *key) const {
    const MsgValue *v = get(key);
    return v && v->kind == Str ? v->str : std::string();
  }
};

/// Parses one value; false on malformed or truncated input.
bool parseMsgPack(const uint8_t *data, size_t size, MsgValue &out);

} // namespace flysim

#endif
