//===- PlanTable.h - The instructions of a launch plan ----------*- C++ -*-===//
//
// The table of flydsl.runtime.plan, with the place that each operand has in a decoded instruction.
// A test holds the two to each other.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_PLANTABLE_H
#define FLYDSL_RUNTIME_PLANTABLE_H

#include "Plan.h"

#include <string_view>
#include <vector>

namespace flydsl::runtime {

/// What an operand is.
enum class Operand : uint8_t {
  Result, Register, Width, Immediate, ScalarArgument, MemoryArgument, TensorArgument,
  StreamArgument, Dimension, Predicate, Target, Text, FloatBinary, FloatUnary, FloatPredicate,
  FloatType, NumberType, SourceType, TargetType, Kernel, Registers, OptionalRegister,
  KernelArguments, Bytes, OptionalRegisters,
};

/// The name of a kind of operand, as flydsl.runtime.plan spells it.
const char *operandName(Operand kind);

struct OperandSpec {
  Operand kind;
  int32_t Instr::*field = nullptr; ///< where a register or a target goes; else the kind says it
};

struct InstructionSpec {
  const char *name;
  Op op;
  std::vector<OperandSpec> operands;
};

const std::vector<InstructionSpec> &instructions();

/// What an argument may be said to be: false where its entry does not say it.
struct ArgumentFlag {
  const char *name;
  bool ArgSpec::*field;
};

const std::vector<ArgumentFlag> &argumentFlags();

/// Null for an unknown name.
const InstructionSpec *findInstruction(std::string_view name);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_PLANTABLE_H
