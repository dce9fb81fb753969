//===- Error.cpp - simulator faults ---------------------------------------===//

#include "support/Error.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <vector>

namespace flysim {

void raise(FaultKind kind, std::string text, int lane) {
  throw Fault{kind, std::move(text), lane};
}

std::string format(const char *fmt, ...) {
  va_list args, copy;
  va_start(args, fmt);
  va_copy(copy, args);
  int size = vsnprintf(nullptr, 0, fmt, args);
  va_end(args);
  std::string text(size > 0 ? size : 0, '\0');
  if (size > 0)
    vsnprintf(&text[0], size + 1, fmt, copy);
  va_end(copy);
  return text;
}

namespace {
thread_local std::string lastMessage;

/// Bytes of the UTF-8 sequence at `p`; 0 if it is none.
size_t sequenceLength(const std::string &s, size_t at) {
  auto lead = static_cast<unsigned char>(s[at]);
  size_t n = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3
             : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
  if (n == 0 || at + n > s.size())
    return 0;
  for (size_t k = 1; k < n; ++k)
    if ((static_cast<unsigned char>(s[at + k]) & 0xc0) != 0x80)
      return 0;
  // Surrogates and overlong forms are not worth a table: they cannot come from a name.
  bool odd = (lead == 0xe0 && static_cast<unsigned char>(s[at + 1]) < 0xa0) ||
             (lead == 0xed && static_cast<unsigned char>(s[at + 1]) >= 0xa0) ||
             (lead == 0xf0 && static_cast<unsigned char>(s[at + 1]) < 0x90) ||
             (lead == 0xf4 && static_cast<unsigned char>(s[at + 1]) >= 0x90);
  return odd ? 0 : n;
}
} // namespace

void setLastErrorMessage(std::string text) {
  // Names come from files that may be malformed; readers of the message expect UTF-8.
  for (size_t at = 0; at < text.size();) {
    size_t n = sequenceLength(text, at);
    if (n == 0 || text[at] == 0)
      text[at] = '?';
    at += n ? n : 1;
  }
  lastMessage = std::move(text);
}
const char *lastErrorMessage() { return lastMessage.c_str(); }

namespace {
std::atomic<bool> messagesRead{false};
}

void programReadsMessages() { messagesRead = true; }

void tellFault(const Fault &fault) {
  if (!messagesRead)
    fprintf(stderr, "HIP simulator: %s\n", fault.text.c_str());
}

} // namespace flysim
