//===- PlanTable.cpp - The instructions of a launch plan ---------------------===//

#include "PlanTable.h"

#include <unordered_map>

namespace flydsl::runtime {

const char *operandName(Operand kind) {
  static const char *const names[] = {
      "result", "register", "width", "immediate", "scalar_argument", "memory_argument",
      "tensor_argument", "stream_argument", "dimension", "predicate", "target", "text",
      "float_binary", "float_unary", "float_predicate", "float_type", "number_type", "source_type",
      "target_type", "kernel", "registers", "optional_register", "kernel_arguments", "bytes",
      "optional_registers"};
  return names[static_cast<size_t>(kind)];
}

const std::vector<InstructionSpec> &instructions() {
  using K = Operand;
  const OperandSpec d{K::Result, &Instr::d}, a{K::Register, &Instr::a}, b{K::Register, &Instr::b},
      c{K::Register, &Instr::c}, toA{K::Target, &Instr::a}, toB{K::Target, &Instr::b};
  const std::vector<OperandSpec> binary = {d, a, b, {K::Width}};
  static const std::vector<InstructionSpec> table = {
      {"const", Op::Const, {d, {K::Immediate}}},
      {"arg", Op::Arg, {d, {K::ScalarArgument}}},
      {"ptr", Op::Ptr, {d, {K::MemoryArgument}}},
      {"stream", Op::Stream, {d, {K::StreamArgument}}},
      {"shape", Op::Shape, {d, {K::TensorArgument}, {K::Dimension}}},
      {"stride", Op::Stride, {d, {K::TensorArgument}, {K::Dimension}}},
      {"add", Op::Add, binary},
      {"sub", Op::Sub, binary},
      {"mul", Op::Mul, binary},
      {"sdiv", Op::SDiv, binary},
      {"srem", Op::SRem, binary},
      {"udiv", Op::UDiv, binary},
      {"urem", Op::URem, binary},
      {"ceildivs", Op::CeilDivS, binary},
      {"ceildivu", Op::CeilDivU, binary},
      {"floordivs", Op::FloorDivS, binary},
      {"mins", Op::MinS, binary},
      {"maxs", Op::MaxS, binary},
      {"minu", Op::MinU, binary},
      {"maxu", Op::MaxU, binary},
      {"and", Op::And, binary},
      {"or", Op::Or, binary},
      {"xor", Op::Xor, binary},
      {"shl", Op::Shl, binary},
      {"shrs", Op::ShrS, binary},
      {"shru", Op::ShrU, binary},
      {"cmp", Op::Cmp, {d, {K::Predicate}, a, b, {K::Width}}},
      {"select", Op::Select, {d, c, a, b}},
      {"sext", Op::SExt, {d, a, {K::Width}}},
      {"zext", Op::ZExt, {d, a, {K::Width}}},
      {"trunc", Op::Trunc, {d, a, {K::Width}}},
      {"mov", Op::Mov, {d, a}},
      {"fbin", Op::FloatBinary, {d, {K::FloatBinary}, a, b, {K::FloatType}}},
      {"fun", Op::FloatUnary, {d, {K::FloatUnary}, a, {K::FloatType}}},
      {"fcmp", Op::FloatCmp, {d, {K::FloatPredicate}, a, b, {K::FloatType}}},
      {"convert", Op::Convert, {d, a, {K::SourceType}, {K::TargetType}}},
      {"print", Op::Print, {a, {K::NumberType}}},
      {"print_text", Op::PrintText, {{K::Text}}},
      {"br", Op::Br, {toA}},
      {"cond_br", Op::CondBr, {c, toA, toB}},
      {"assert", Op::Assert, {c, {K::Text}}},
      {"ret", Op::Ret, {}},
      {"launch", Op::Launch,
       {{K::Kernel}, {K::Registers}, {K::Registers}, {K::OptionalRegister}, {K::OptionalRegister},
        {K::KernelArguments}, {K::Bytes}, {K::OptionalRegisters}}},
  };
  return table;
}

const std::vector<ArgumentFlag> &argumentFlags() {
  static const std::vector<ArgumentFlag> flags = {
      {"stored", &ArgSpec::stored}, {"words", &ArgSpec::words}, {"addresses", &ArgSpec::addresses}};
  return flags;
}

const InstructionSpec *findInstruction(std::string_view name) {
  static const auto byName = [] {
    std::unordered_map<std::string_view, const InstructionSpec *> found;
    for (const InstructionSpec &spec : instructions())
      found.emplace(spec.name, &spec);
    return found;
  }();
  auto entry = byName.find(name);
  return entry == byName.end() ? nullptr : entry->second;
}

} // namespace flydsl::runtime
