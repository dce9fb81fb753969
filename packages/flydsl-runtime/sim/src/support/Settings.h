//===- Settings.h - what environment variables say --------------*- C++ -*-===//
#ifndef FLYSIM_SUPPORT_SETTINGS_H
#define FLYSIM_SUPPORT_SETTINGS_H

#include <cstdint>
#include <initializer_list>

namespace flysim {

// The environment is read here alone.

/// The text of an environment variable; null if it is not there or empty.
const char *textSetting(const char *name);

/// What an environment variable says; `unset` if it is not there or empty. They raise InvalidConfiguration, with the
/// name and the text, for anything but one number in range: half of a text would be another number.
uint64_t wholeSetting(const char *name, uint64_t unset, uint64_t least = 0, uint64_t most = UINT64_MAX);
double secondsSetting(const char *name, double unset);

/// The one of `choices` that an environment variable names; null if it is not there or empty. Raises like the above.
const char *choiceSetting(const char *name, std::initializer_list<const char *> choices);

/// The whole of `text` as a number (decimal, or hexadecimal behind 0x); false if it is none.
bool parseWhole(const char *text, uint64_t &number);

} // namespace flysim

#endif
