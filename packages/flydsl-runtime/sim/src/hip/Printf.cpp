//===- Printf.cpp - output of device printf -------------------------------===//

#include "hip/Printf.h"

#include "memory/Memory.h"
#include "support/Error.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace flysim {

namespace {

constexpr uint32_t kHeaderBytes = 8;
constexpr uint32_t kBufferBytes = 4u << 20;

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

/// One conversion such as "%-8.3ld" applied to `size` bytes.
std::string convert(const std::string &spec, const uint8_t *data, uint32_t size) {
  char conversion = spec.back();
  std::string flags = spec.substr(0, spec.size() - 1);
  while (!flags.empty() && strchr("hljztL", flags.back()))
    flags.pop_back();
  uint64_t bits = 0;
  memcpy(&bits, data, std::min<uint32_t>(size, 8));
  char text[512];
  if (strchr("fFeEgGaA", conversion)) {
    double value;
    if (size == 4) {
      float narrow;
      memcpy(&narrow, data, 4);
      value = narrow;
    } else {
      memcpy(&value, &bits, 8);
    }
    snprintf(text, sizeof text, (flags + conversion).c_str(), value);
  } else if (conversion == 'c') {
    snprintf(text, sizeof text, spec.c_str(), static_cast<int>(bits));
  } else if (conversion == 'p') {
    snprintf(text, sizeof text, spec.c_str(), reinterpret_cast<void *>(bits));
  } else if (conversion == 'd' || conversion == 'i') {
    int64_t value = size >= 8   ? static_cast<int64_t>(bits)
                    : size == 4 ? static_cast<int32_t>(bits)
                    : size == 2 ? static_cast<int16_t>(bits)
                                : static_cast<int8_t>(bits);
    snprintf(text, sizeof text, (flags + "ll" + conversion).c_str(), static_cast<long long>(value));
  } else {
    snprintf(text, sizeof text, (flags + "ll" + conversion).c_str(),
             static_cast<unsigned long long>(bits));
  }
  return text;
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
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
    } else if (i + 1 < text.size() && text[i + 1] == '%') {
      out += '%';
      ++i;
    } else {
      size_t end = text.find_first_of("diouxXfFeEgGaAcsp", i + 1);
      if (end == std::string::npos || next == format.sizes.size()) {
        out += text.substr(i);
        break;
      }
      uint32_t size = format.sizes[next++];
      std::string spec = text.substr(i, end - i + 1);
      if (text[end] == 's') // the string itself is in the record
        out.append(reinterpret_cast<const char *>(arguments),
                   strnlen(reinterpret_cast<const char *>(arguments), size));
      else
        out += convert(spec, arguments, size);
      arguments += size;
      i = end;
    }
  }
  return out;
}

PrintfBuffer::PrintfBuffer(const CodeObject &codeObject, uint32_t argumentOffset, uint8_t *kernarg)
    : object(codeObject) {
  base = AddressSpace::instance().allocate(kBufferBytes, MemKind::HostPinned, 0);
  const uint32_t header[2] = {0, kBufferBytes - kHeaderBytes};
  memcpy(reinterpret_cast<void *>(base), header, sizeof header);
  memcpy(kernarg + argumentOffset, &base, 8);
}

PrintfBuffer::~PrintfBuffer() { AddressSpace::instance().release(base); }

void PrintfBuffer::flush() const {
  const auto *bytes = reinterpret_cast<const uint8_t *>(base);
  uint32_t used, available;
  memcpy(&used, bytes, 4);
  memcpy(&available, bytes + 4, 4);
  std::string out;
  const uint8_t *at = bytes + kHeaderBytes, *end = at + std::min(used, available);
  while (at + 4 <= end) {
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
