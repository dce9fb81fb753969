//===- MsgPack.cpp - a bounds-checked MessagePack reader ------------------===//

#include "loader/MsgPack.h"

#include <cstring>

namespace flysim {

namespace {

class Reader {
public:
  Reader(const uint8_t *data, size_t size) : p(data), end(data + size) {}

  bool value(MsgValue &out, int depth) {
    if (depth > 32 || p == end)
      return false;
    uint8_t tag = *p++;
    if (tag < 0x80)
      return integer(out, tag);
    if (tag >= 0xe0)
      return integer(out, static_cast<int8_t>(tag));
    if (tag < 0x90)
      return map(out, tag & 15, depth);
    if (tag < 0xa0)
      return array(out, tag & 15, depth);
    if (tag < 0xc0)
      return string(out, tag & 31);
    uint64_t n;
    switch (tag) {
    case 0xc0:
      return true;
    case 0xc2:
    case 0xc3:
      out.kind = MsgValue::Bool;
      out.integer = tag & 1;
      return true;
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return number(n, 1u << (tag - 0xc4)) && string(out, n);
    case 0xca:
    case 0xcb: {
      if (!number(n, tag == 0xca ? 4 : 8))
        return false;
      out.kind = MsgValue::Float;
      if (tag == 0xca) {
        float f;
        uint32_t bits = static_cast<uint32_t>(n);
        memcpy(&f, &bits, 4);
        double wide = f;
        memcpy(&n, &wide, 8);
      }
      out.integer = static_cast<int64_t>(n);
      return true;
    }
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
      return number(n, 1u << (tag - 0xcc)) && integer(out, static_cast<int64_t>(n));
    case 0xd0:
      return number(n, 1) && integer(out, static_cast<int8_t>(n));
    case 0xd1:
      return number(n, 2) && integer(out, static_cast<int16_t>(n));
    case 0xd2:
      return number(n, 4) && integer(out, static_cast<int32_t>(n));
    case 0xd3:
      return number(n, 8) && integer(out, static_cast<int64_t>(n));
    case 0xd9:
    case 0xda:
    case 0xdb:
      return number(n, 1u << (tag - 0xd9)) && string(out, n);
    case 0xdc:
    case 0xdd:
      return number(n, 2u << (tag - 0xdc)) && array(out, n, depth);
    case 0xde:
    case 0xdf:
      return number(n, 2u << (tag - 0xde)) && map(out, n, depth);
    default:
      return false;
    }
  }

private:
  bool number(uint64_t &out, unsigned bytes) {
    if (static_cast<size_t>(end - p) < bytes)
      return false;
    out = 0;
    for (unsigned i = 0; i < bytes; ++i)
      out = out << 8 | *p++;
    return true;
  }
  bool integer(MsgValue &out, int64_t v) {
    out.kind = MsgValue::Int;
    out.integer = v;
    return true;
  }
  bool string(MsgValue &out, uint64_t size) {
    if (static_cast<uint64_t>(end - p) < size)
      return false;
    out.kind = MsgValue::Str;
    out.str = std::string_view(reinterpret_cast<const char *>(p), size);
    p += size;
    return true;
  }
  bool array(MsgValue &out, uint64_t count, int depth) {
    out.kind = MsgValue::Array;
    for (uint64_t i = 0; i < count; ++i) {
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1))
        return false;
    }
    return true;
  }
  bool map(MsgValue &out, uint64_t count, int depth) {
    out.kind = MsgValue::Map;
    for (uint64_t i = 0; i < count; ++i) {
      MsgValue key;
      if (!value(key, depth + 1) || key.kind != MsgValue::Str)
        return false;
      out.keys.push_back(key.str);
      out.items.emplace_back();
      if (!value(out.items.back(), depth + 1))
        return false;
    }
    return true;
  }

  const uint8_t *p, *end;
};

} // namespace

bool parseMsgPack(const uint8_t *data, size_t size, MsgValue &out) {
  return Reader(data, size).value(out, 0);
}

} // namespace flysim
