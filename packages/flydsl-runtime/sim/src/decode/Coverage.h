//===- Coverage.h - which instructions are implemented ---------*- C++ -*-===//
#ifndef FLYSIM_DECODE_COVERAGE_H
#define FLYSIM_DECODE_COVERAGE_H

#include "support/Arch.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace flysim {

/// How well an instruction is simulated.
enum class Fidelity : uint8_t { Missing, Exact, Approximate };

struct CoverageEntry {
  std::string opcode;   ///< LLVM's name of the encoded instruction
  std::string mnemonic; ///< without encoding suffix
  std::string text;     ///< an example in assembly
  Fidelity fidelity;
};

struct Inst;
struct Program;

/// Called with each entry, and the sample of it that was decoded.
using CoverageVisitor = std::function<void(const CoverageEntry &, const Program &, const Inst &)>;

/// Every instruction that LLVM's disassembler accepts for the architecture, found by
/// decoding samples of the whole encoding space (all values of the opcode fields with
/// several fillings of the operand fields). Takes a few seconds.
void visitInstructions(const ArchInfo &arch, bool wave32, const CoverageVisitor &visit);

} // namespace flysim

#endif
