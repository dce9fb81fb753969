//===- Coverage.cpp - which instructions are implemented ------------------===//

#include "decode/Coverage.h"

#include "decode/Disassembler.h"
#include "decode/Program.h"
#include "exec/Special.h"
#include "hip/Runtime.h"

#include <cstring>
#include <set>

namespace flysim {

namespace {

/// Deterministic operand bits.
class Bits {
public:
  uint32_t next() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<uint32_t>(state >> 33) << 1 | static_cast<uint32_t>(state >> 62 & 1);
  }

private:
  uint64_t state = 88172645463325252ull;
};

class Survey {
public:
  Survey(const ArchInfo &arch, bool wave32, const CoverageVisitor &visit) : visit(visit) {
    program.arch = &arch;
    program.wave32 = wave32;
    program.disassembler = std::make_shared<Disassembler>(arch, wave32);
  }

  void run() {
    // Most opcode fields end at bit 14 or above.
    for (uint32_t top = 0; top < 1u << 18; ++top)
      for (unsigned k = 0; k < 5; ++k)
        sample(top << 14, 0x3fff, k);
    // VOP1 has its opcode in bits 16:9, SOP1 in bits 15:8.
    for (uint32_t op = 0; op < 256; ++op)
      for (unsigned k = 0; k < 64; ++k) {
        sample(0x7e000000u | op << 9, 0x01fe01ff, k);
        sample(0xbe800000u | op << 8, 0x007f00ff, k);
      }
    // VOP3-style encodings need the second word's operand fields in many combinations
    // (register classes, required zero bits).
    for (uint32_t top = 0; top < 1u << 16; ++top) {
      uint32_t high = top >> 10;
      if (high != 0x34 && high != 0x35 && high != 0x33 && high != 0x32)
        continue;
      for (unsigned k = 0; k < 48; ++k)
        sample(top << 16, 0xffff, k);
    }
  }

private:
  /// Decodes `fixed` with the bits of `free` and three more words filled by recipe `k`.
  void sample(uint32_t fixed, uint32_t free, unsigned k) {
    // Operands that are valid in many places: an even VGPR, an aligned SGPR, inline
    // constants, and the markers of literals, DPP and SDWA.
    static const uint32_t kOperands[] = {0x100, 0x104, 0x08, 0x10, 0x80, 0xf2, 0xff, 0xf9,
                                         0xfa,  0xe9,  0x00, 0x7c, 0x6a, 0xea, 0xc1, 0x7d};
    uint32_t words[5];
    for (uint32_t &w : words)
      w = bits.next();
    uint32_t fill;
    switch (k % 8) {
    case 0:
      fill = 0;
      words[1] = words[2] = words[3] = 0;
      break;
    case 1:
      fill = 0x04040404;
      words[1] = 0x04041008;
      words[2] = 0x00000400;
      break;
    case 2:
      fill = bits.next();
      break;
    case 3: // three VGPR operands
      fill = 0x0c0c0004;
      words[1] = 0x104u | 0x108u << 9 | 0x110u << 18;
      words[2] = 0;
      break;
    case 4: // SGPR base, offset fields zero
      fill = bits.next() & 0x00ff;
      words[1] = 0x7c000000u | (bits.next() & 0x00ffff00u);
      words[2] = bits.next() & 0xff;
      break;
    case 5: // one operand field per word from the list
      fill = kOperands[bits.next() & 15] | kOperands[bits.next() & 15] << 8;
      words[1] = (kOperands[bits.next() & 15] & 0x1ff) | (kOperands[bits.next() & 15] & 0x1ff) << 9 |
                 (kOperands[bits.next() & 15] & 0x1ff) << 18;
      break;
    case 6: // DPP, SDWA or literal as first source, zero controls
      fill = kOperands[bits.next() & 15];
      words[1] = (bits.next() & 0xff) | 0xff000000u;
      break;
    default: // even registers everywhere
      fill = bits.next() & 0x04040404;
      words[1] = bits.next() & 0x040c0404;
      words[2] = bits.next() & 0x04040404;
      break;
    }
    words[0] = fixed | (fill & free);
    uint8_t bytes[20];
    memcpy(bytes, words, sizeof bytes);
    RawInst raw;
    raw.skipOpcodes = &seen;
    if (!program.disassembler->decode(bytes, sizeof bytes, 0x1000, raw))
      return;
    seen.insert(raw.opcodeId);
    Inst inst;
    inst.length = static_cast<uint8_t>(raw.length);
    CoverageEntry e;
    e.opcode = raw.opcode;
    e.mnemonic = raw.mnemonic;
    e.text = program.disassembler->print(bytes, sizeof bytes, 0x1000);
    e.fidelity = decodeInstruction(program, raw, inst);
    // The sample is the program's only code while it is looked at.
    program.base = reinterpret_cast<uint64_t>(bytes);
    program.size = sizeof bytes;
    visit(e, program, inst);
  }

  Program program;
  Bits bits;
  std::set<unsigned> seen;
  const CoverageVisitor &visit;
};

} // namespace

void visitInstructions(const ArchInfo &arch, bool wave32, const CoverageVisitor &visit) {
  Survey(arch, wave32, visit).run();
}

} // namespace flysim

/// Calls `report` for every instruction of `arch`: LLVM's opcode name, mnemonic, example
/// text, and 0 missing, 1 exact, 2 approximate. Returns 1 for an unknown architecture, another error for one of the host.
extern "C" __attribute__((visibility("default"))) int
flysimCoverage(const char *arch, int wave32,
               void (*report)(void *, const char *, const char *, const char *, int), void *data) try {
  using namespace flysim;
  const ArchInfo *info = arch ? findArch(arch) : nullptr;
  if (!info)
    return 1;
  visitInstructions(*info, wave32 != 0, [&](const CoverageEntry &e, const Program &, const Inst &) {
    report(data, e.opcode.c_str(), e.mnemonic.c_str(), e.text.c_str(), static_cast<int>(e.fidelity));
  });
  return 0;
} FLYSIM_GUARDED
