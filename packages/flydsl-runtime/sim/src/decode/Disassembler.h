//===- Disassembler.h - LLVM's AMDGPU disassembler -------------*- C++ -*-===//
//
// The only part of the simulator that sees LLVM's MC classes.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_DECODE_DISASSEMBLER_H
#define FLYSIM_DECODE_DISASSEMBLER_H

#include "decode/OperandNames.h"
#include "support/Arch.h"

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace flysim {

using OpName = llvm::AMDGPU::OpName;

/// One operand as the disassembler reports it.
struct RawOperand {
  bool present = false, isReg = false;
  int64_t imm = 0;
  uint16_t encoding = 0; ///< hardware encoding of the (first) register
  uint8_t count = 1;     ///< 32-bit registers in the tuple
  bool vgpr = false, agpr = false, null = false, hi16 = false;
};

/// What LLVM's opcode of a buffer instruction says of its operands.
struct RawBuffer {
  bool offset = false, index = false; ///< a VGPR has an offset, an index
  bool lds = false;                   ///< loads to LDS
  bool tfe = false;                   ///< gives a fault status
};

/// The mnemonics of the halves of a VOPD instruction.
struct RawDual {
  std::string x, y;
  bool wide = false; ///< the form with three sources
};

class Disassembler;

/// One disassembled instruction. Valid until the next decode() of its Disassembler.
class RawInst {
public:
  std::string mnemonic;   ///< without encoding suffix
  std::string opcode;     ///< MCInstrInfo name
  unsigned length = 0;
  unsigned opcodeId = 0;  ///< LLVM's opcode number
  /// Opcode numbers that decode() is to reject (used by the coverage survey).
  const std::set<unsigned> *skipOpcodes = nullptr;
  bool isSdwa = false, isDual = false;
  /// Of an instruction that LLVM makes but whose DPP form it does not list, the src0 field that announces DPP
  /// (0xfa: DPP16, 0xe9 and 0xea: DPP8); else 0.
  uint32_t unlistedDpp = 0;
  uint32_t dppWord = 0; ///< of an instruction with DPP, listed or not, the word of its control: the last one

  RawOperand operand(OpName name) const;
  bool has(OpName name) const;
  /// Immediate value of `name`, or `otherwise`.
  int64_t imm(OpName name, int64_t otherwise = 0) const;
  unsigned numOperands() const;
  unsigned numDefs() const;
  RawOperand at(unsigned index) const;
  RawBuffer buffer() const;
  RawDual dual() const;

private:
  friend class Disassembler;
  const Disassembler *owner = nullptr;
};

/// The registers that an instruction reads and writes, implicit ones included.
struct RegisterUse {
  /// Numbers: scalar registers by their encoding, vector registers from kVectors on (a0 is 256).
  static constexpr uint32_t kScc = 253, kVectors = 1024;
  std::vector<uint32_t> defs, uses;
  bool known = false; ///< false: it depends on more, such as a clock, or on registers found at run time
  bool acts = false;  ///< it does more than write registers: branches, memory, messages
  bool whole = false; ///< what it writes does not depend on what was there before
  bool loads = false, stores = false, lds = false; ///< `lds`: the memory is LDS
};

class Disassembler {
public:
  Disassembler(const ArchInfo &arch, bool wave32);
  ~Disassembler();

  /// Decodes the instruction at `bytes`; false if it is none.
  bool decode(const uint8_t *bytes, uint64_t size, uint64_t address, RawInst &out);
  /// Text of the instruction at `bytes`, or ".long 0x..." words.
  std::string print(const uint8_t *bytes, uint64_t size, uint64_t address);
  /// The registers that the instruction at `bytes` uses.
  RegisterUse registerUse(const uint8_t *bytes, uint64_t size, uint64_t address);

private:
  friend class RawInst;
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Strips the encoding suffixes (_e32, _e64, _dpp, ...) from a mnemonic.
std::string baseMnemonic(std::string mnemonic);

} // namespace flysim

#endif
