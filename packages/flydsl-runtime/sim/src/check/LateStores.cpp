//===- LateStores.cpp - stores that other devices see late ----------------===//

#include "check/LateStores.h"

namespace flysim {

/// Byte by byte: others may write the rest of the dword.
static void write(uint64_t address, uint32_t value, unsigned bytes) {
  auto *place = reinterpret_cast<volatile uint8_t *>(address);
  for (unsigned k = 0; k < 4; ++k)
    if (bytes >> k & 1)
      place[k] = static_cast<uint8_t>(value >> (8 * k));
}

LateStores::~LateStores() {
  for (const auto &[address, h] : hidden)
    write(address, h.value, h.bytes);
}

void LateStores::hide(uint64_t address, uint32_t before, unsigned bytes) {
  std::lock_guard<std::mutex> lock(mutex);
  Hidden &h = hidden.try_emplace(address, Hidden{0, 0}).first->second;
  bytes &= ~h.bytes; // a store of another wave at the same time: one of them stays
  for (unsigned k = 0; k < 4; ++k)
    if (bytes >> k & 1)
      h.value |= static_cast<uint32_t>(reinterpret_cast<volatile uint8_t *>(address)[k]) << (8 * k);
  h.bytes |= bytes;
  write(address, before, bytes);
}

void LateStores::show(uint64_t address) {
  std::lock_guard<std::mutex> lock(mutex);
  auto at = hidden.find(address);
  if (at == hidden.end())
    return;
  write(address, at->second.value, at->second.bytes);
  hidden.erase(at);
}

} // namespace flysim
