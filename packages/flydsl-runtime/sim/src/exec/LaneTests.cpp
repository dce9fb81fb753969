//===- LaneTests.cpp - questions about a word of every lane ---------------===//

#include "exec/AddressInline.h"
#include "exec/OpTable.h"
#include "exec/Register.h"

namespace flysim {
namespace {

bool follow(const uint32_t *words, const uint32_t *distances, unsigned blocks) {
  const uint32_t start = words[0];
  uint32_t different = 0;
  for (unsigned b = 0; b < blocks; ++b, words += kBlock, distances += kBlock)
    for (unsigned l = 0; l < kBlock; ++l)
      different |= (words[l] - start) ^ distances[l];
  return !different;
}

bool same(const uint32_t *words, unsigned blocks) {
  const uint32_t start = words[0];
  uint32_t different = 0;
  for (unsigned b = 0; b < blocks; ++b, words += kBlock)
    for (unsigned l = 0; l < kBlock; ++l)
      different |= words[l] ^ start;
  return !different;
}

} // namespace

void FLYSIM_LEVEL::registerLaneTests(OpTable &t) { t.lanes = {follow, same}; }

} // namespace flysim
