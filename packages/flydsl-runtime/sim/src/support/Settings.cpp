//===- Settings.cpp - what environment variables say ----------------------===//

#include "support/Settings.h"

#include "support/Error.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace flysim {

bool parseWhole(const char *text, uint64_t &number) {
  char *end = nullptr;
  errno = 0;
  number = strtoull(text, &end, 0);
  return isdigit(static_cast<unsigned char>(*text)) && !*end && !errno;
}

const char *textSetting(const char *name) {
  const char *text = getenv(name);
  return text && *text ? text : nullptr;
}

uint64_t wholeSetting(const char *name, uint64_t unset, uint64_t least, uint64_t most) {
  const char *text = textSetting(name);
  if (!text)
    return unset;
  uint64_t number = 0;
  if (!parseWhole(text, number) || number < least || number > most) {
    const std::string range = most == UINT64_MAX ? " on" : format(" to %llu", static_cast<unsigned long long>(most));
    raise(FaultKind::InvalidConfiguration, format("%s=%s: expected a whole number from %llu%s", name, text,
                                                  static_cast<unsigned long long>(least), range.c_str()));
  }
  return number;
}

double secondsSetting(const char *name, double unset) {
  const char *text = textSetting(name);
  if (!text)
    return unset;
  char *end = nullptr;
  double seconds = strtod(text, &end);
  if (*end || !(seconds >= 0 && seconds < 1e9))
    raise(FaultKind::InvalidConfiguration, format("%s=%s: expected seconds, 0 or more", name, text));
  return seconds;
}

const char *choiceSetting(const char *name, std::initializer_list<const char *> choices) {
  const char *text = textSetting(name);
  if (!text)
    return nullptr;
  std::string all;
  for (const char *choice : choices) {
    if (!strcmp(text, choice))
      return choice;
    all += all.empty() ? "'" : choice == *(choices.end() - 1) ? " or '" : ", '";
    all += choice + std::string("'");
  }
  raise(FaultKind::InvalidConfiguration, format("%s=%s: expected %s", name, text, all.c_str()));
}

} // namespace flysim
