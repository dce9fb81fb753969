//===- Settings.cpp - numbers in environment variables --------------------===//

#include "support/Settings.h"

#include "support/Error.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>

namespace flysim {

bool parseWhole(const char *text, uint64_t &number) {
  char *end = nullptr;
  errno = 0;
  number = strtoull(text, &end, 0);
  return isdigit(static_cast<unsigned char>(*text)) && !*end && !errno;
}

uint64_t wholeSetting(const char *name, uint64_t unset, uint64_t least) {
  const char *text = getenv(name);
  if (!text || !*text)
    return unset;
  uint64_t number = 0;
  if (!parseWhole(text, number) || number < least)
    raise(FaultKind::InvalidConfiguration, format("%s=%s: expected a whole number from %llu on", name, text,
                                                  static_cast<unsigned long long>(least)));
  return number;
}

double secondsSetting(const char *name, double unset) {
  const char *text = getenv(name);
  if (!text || !*text)
    return unset;
  char *end = nullptr;
  double seconds = strtod(text, &end);
  if (*end || !(seconds >= 0 && seconds < 1e9))
    raise(FaultKind::InvalidConfiguration, format("%s=%s: expected seconds, 0 or more", name, text));
  return seconds;
}

} // namespace flysim
