//===- Printf.cpp - output of device printf -------------------------------===//

#include "hip/Printf.h"

#include "hip/Conversion.h"
#include "memory/Memory.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flysim {

namespace {

constexpr uint32_t kHeaderBytes = 8;
constexpr uint32_t kBufferBytes = 4u << 20;
constexpr size_t kMostOutput = 64u << 20;

std::string unescape(const std::string &text) {
  static const char names[] = "abfnrtv\\\"'", values[] = "\a\b\f\n\r\t\v\\\"'";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    char c = text[++i];
    if (c >= '0' && c <= '7') {
      int value = 0;
      size_t end = std::min(text.size(), i + 3);
      while (i < end && text[i] >= '0' && text[i] <= '7')
        value = value * 8 + (text[i++] - '0');
      --i;
      out += static_cast<char>(value);
    } else {
      const char *at = strchr(names, c);
      out += at ? values[at - names] : c;
    }
  }
  return out;
}

/// The text of one argument of `size` bytes.
std::string convert(const Conversion &c, const uint8_t *data, uint32_t size) {
  uint64_t bits = 0;
  memcpy(&bits, data, std::min<uint32_t>(size, 8));
  if (c.isReal()) {
    double value;
    memcpy(&value, &bits, 8);
    if (size == 4) {
      float narrow;
      memcpy(&narrow, data, 4);
      value = narrow;
    }
    return c.real(value);
  }
  if (c.kind == 'c')
    return c.character(static_cast<char>(bits));
  if (c.kind == 'p')
    return c.pointer(bits);
  if (c.kind == 's') { // the string itself is in the record
    auto *text = reinterpret_cast<const char *>(data);
    return c.text({text, strnlen(text, size)});
  }
  if (c.isSigned())
    bits = size >= 8   ? bits
           : size == 4 ? static_cast<uint64_t>(static_cast<int32_t>(bits))
           : size == 2 ? static_cast<uint64_t>(static_cast<int16_t>(bits))
                       : static_cast<uint64_t>(static_cast<int8_t>(bits));
  return c.integer(bits);
}

} // namespace

bool parsePrintfFormat(const std::string &entry, uint32_t &id, PrintfFormat &out) {
  const char *at = entry.c_str();
  auto number = [&](uint32_t &value) {
    char *end = nullptr;
    value = static_cast<uint32_t>(strtoul(at, &end, 10));
    if (end == at || *end != ':')
      return false;
    at = end + 1;
    return true;
  };
  uint32_t count = 0;
  if (!number(id) || !number(count) || count > 1024)
    return false;
  out.sizes.assign(count, 0);
  for (uint32_t &size : out.sizes)
    if (!number(size) || size > 64)
      return false;
  out.text = unescape(at);
  return true;
}

std::string formatRecord(const PrintfFormat &format, const uint8_t *arguments) {
  std::string out;
  size_t next = 0;
  const std::string &text = format.text;
  // Stars are arguments of four bytes.
  auto take = [&](uint32_t &size) {
    const uint8_t *at = arguments;
    size = format.sizes[next++];
    arguments += size;
    return at;
  };
  auto star = [&] {
    uint32_t size;
    const uint8_t *at = take(size);
    int value = 0;
    memcpy(&value, at, std::min<size_t>(size, sizeof value));
    return value;
  };
  for (size_t i = 0; i < text.size();) {
    size_t start = i;
    std::optional<Conversion> c;
    if (text[i] == '%')
      c = Conversion::read(text, i);
    if (!c) {
      out += text[i++];
    } else if (c->kind == '%') {
      out += '%';
    } else if (next + c->arguments() >= format.sizes.size()) {
      out += text.substr(start);
      break;
    } else {
      if (c->widthArgument)
        c->setWidth(star());
      if (c->precisionArgument)
        c->setPrecision(star());
      uint32_t size;
      const uint8_t *at = take(size);
      out += convert(*c, at, size);
    }
  }
  return out;
}

PrintfBuffer::PrintfBuffer(const CodeObject &codeObject, uint32_t argumentOffset, uint8_t *kernarg)
    : object(codeObject) {
  base = AddressSpace::instance().allocate(kBufferBytes, MemKind::Service, 0);
  const uint32_t header[2] = {0, kBufferBytes - kHeaderBytes};
  if (!base)
    raise(FaultKind::OutOfMemory, "no memory for the output of printf");
  memcpy(reinterpret_cast<void *>(base), header, sizeof header);
  memcpy(kernarg + argumentOffset, &base, 8);
}

PrintfBuffer::~PrintfBuffer() { AddressSpace::instance().release(base); }

void PrintfBuffer::flush() const {
  const auto *bytes = reinterpret_cast<const uint8_t *>(base);
  // Kernels may write the header: the size is the one that was allocated.
  const uint32_t available = kBufferBytes - kHeaderBytes;
  uint32_t used;
  memcpy(&used, bytes, 4);
  std::string out;
  const uint8_t *at = bytes + kHeaderBytes, *end = at + std::min(used, available);
  // Kept small: records of one byte can ask for fields of thousands.
  while (at + 4 <= end && out.size() < kMostOutput) {
    uint32_t id;
    memcpy(&id, at, 4);
    auto found = object.printfFormats.find(id);
    if (found == object.printfFormats.end())
      break; // the unused rest of a full buffer
    uint32_t length = 0;
    for (uint32_t size : found->second.sizes)
      length += size;
    if (at + 4 + length > end)
      break;
    out += formatRecord(found->second, at + 4);
    at += 4 + length;
  }
  if (used > available)
    out += format("[printf: %u bytes of output did not fit into the buffer]\n", used - available);
  fwrite(out.data(), 1, out.size(), stdout);
  fflush(stdout);
}

} // namespace flysim
