//===- DppLanes.cpp - the lanes that a DPP control names ------------------===//

#include "decode/DppLanes.h"

namespace flysim {

/// Source lane for DPP16 control word `control`, or -1 when it lies outside the row.
static int dppSource(uint32_t control, unsigned l) {
  unsigned row = l & ~15u, i = l & 15, n = control & 15;
  if (control < 0x100)
    return static_cast<int>((l & ~3u) + ((control >> (2 * (l & 3))) & 3));
  switch (control & ~15u) {
  case 0x100:
    return i + n > 15 ? -1 : static_cast<int>(l + n);
  case 0x110:
    return i < n ? -1 : static_cast<int>(l - n);
  case 0x120:
    return static_cast<int>(row + ((i - n) & 15));
  case 0x150:
    return static_cast<int>(row + n);
  case 0x160:
    return static_cast<int>(row + (i ^ n));
  default:
    break;
  }
  switch (control) {
  case 0x130:
    return l == 63 ? -1 : static_cast<int>(l + 1);
  case 0x134:
    return static_cast<int>((l + 1) & 63);
  case 0x138:
    return static_cast<int>(l) - 1;
  case 0x13c:
    return static_cast<int>((l - 1) & 63);
  case 0x140:
    return static_cast<int>(row + 15 - i);
  case 0x141:
    return static_cast<int>(row + (i & 8) + 7 - (i & 7));
  case 0x142:
    return l < 16 ? -1 : static_cast<int>(row - 1);
  case 0x143:
    return l < 32 ? -1 : 31;
  default:
    return -1;
  }
}

void setDpp16(InstExt &e, const Dpp16 &f) {
  e.dpp = true;
  e.boundCtrl = f.boundControl;
  e.fi = f.fetchInactive;
  e.writable = 0;
  for (unsigned l = 0; l < 64; ++l) {
    if ((f.rowMask >> (l / 16) & 1) && (f.bankMask >> (l % 16 / 4) & 1))
      e.writable |= 1ull << l;
    int source = dppSource(f.control, l);
    e.perm[l] = static_cast<uint8_t>(source < 0 ? l : source);
    if (source >= 0)
      e.inRange |= 1ull << l;
  }
}

void setDpp8(InstExt &e, uint32_t selects, bool fetchInactive) {
  e.dpp = e.boundCtrl = true;
  e.fi = fetchInactive;
  e.inRange = ~0ull;
  for (unsigned l = 0; l < 64; ++l)
    e.perm[l] = static_cast<uint8_t>((l & ~7u) + ((selects >> (3 * (l & 7))) & 7));
}

} // namespace flysim
