//===- AbsentParts.cpp - What LLVM names and a disassembler never calls ---===//
//
// The description of the AMDGPU target names the encoders of its instructions, and with them the
// linker would take in their tables. Defined here, they stay out: the simulator decodes only.
//
//===----------------------------------------------------------------------===//
#include "llvm/MC/MCCodeEmitter.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCInstrInfo.h"

namespace llvm {
MCCodeEmitter *createAMDGPUMCCodeEmitter(const MCInstrInfo &, MCContext &) { return nullptr; }
MCCodeEmitter *createR600MCCodeEmitter(const MCInstrInfo &, MCContext &) { return nullptr; }
} // namespace llvm
