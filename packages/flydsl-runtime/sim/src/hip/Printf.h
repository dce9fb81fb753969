//===- Printf.h - output of device printf ----------------------*- C++ -*-===//
//
// The back end stores printf calls as records in a buffer, which the kernel gets as
// a hidden argument; the formats are metadata of the code object (`amdhsa.printf`).
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_HIP_PRINTF_H
#define FLYSIM_HIP_PRINTF_H

#include "loader/CodeObject.h"

#include <cstdint>
#include <string>
#include <vector>

namespace flysim {

/// The buffer of one launch. Bytes: used (4), available (4), records.
class PrintfBuffer {
public:
  /// Puts the address of a new buffer into the kernel arguments `kernarg`.
  PrintfBuffer(const CodeObject &object, uint32_t argumentOffset, uint8_t *kernarg);
  ~PrintfBuffer();
  PrintfBuffer(const PrintfBuffer &) = delete;
  PrintfBuffer &operator=(const PrintfBuffer &) = delete;

  /// Writes what the kernel printed to stdout.
  void flush() const;

private:
  const CodeObject &object;
  uint64_t base = 0;
};

/// One entry of `amdhsa.printf`: "id:count:size...:format", the format escaped as in C.
/// False when the text has another form.
bool parsePrintfFormat(const std::string &entry, uint32_t &id, PrintfFormat &out);

/// `format` with the argument bytes of one record.
std::string formatRecord(const PrintfFormat &format, const uint8_t *arguments);

} // namespace flysim

#endif
