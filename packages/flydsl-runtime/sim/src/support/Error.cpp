//===- Error.cpp - simulator faults ---------------------------------------===//

#include "support/Error.h"

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
}

void setLastErrorMessage(std::string text) { lastMessage = std::move(text); }
const char *lastErrorMessage() { return lastMessage.c_str(); }

} // namespace flysim
