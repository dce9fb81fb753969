//===- PlanParser.cpp - Launch plan from Python data -------------------------===//

#include "PlanParser.h"

#include "PlanTable.h"

#include <algorithm>
#include <nanobind/stl/string.h>
#include <unordered_map>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

[[noreturn]] void fail(const std::string &where, const std::string &what) {
  throw nb::value_error(("invalid launch plan: " + where + ": " + what).c_str());
}

nb::object field(nb::handle dict, const char *key, const std::string &where) {
  PyObject *value = PyDict_GetItemString(dict.ptr(), key);
  if (!value)
    fail(where, std::string("missing field '") + key + "'");
  return nb::borrow(value);
}

nb::object optionalField(nb::handle dict, const char *key) {
  PyObject *value = PyDict_GetItemString(dict.ptr(), key);
  return value ? nb::borrow(value) : nb::none();
}

int64_t toInt(nb::handle value, const std::string &where) {
  int overflow = 0;
  if (!PyLong_Check(value.ptr()))
    fail(where, "expected an integer");
  int64_t result = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow > 0) { // an unsigned 64-bit immediate: keep its bits
    uint64_t bits = PyLong_AsUnsignedLongLong(value.ptr());
    if (!PyErr_Occurred())
      return static_cast<int64_t>(bits);
    PyErr_Clear();
  }
  if (overflow)
    fail(where, "integer does not fit in 64 bits");
  return result;
}

std::string toString(nb::handle value, const std::string &where) {
  const char *text = PyUnicode_Check(value.ptr()) ? PyUnicode_AsUTF8(value.ptr()) : nullptr;
  if (!text)
    fail(where, "expected a string");
  return text;
}

/// A list or tuple; JSON gives lists, Python builders often tuples.
nb::object toSequence(nb::handle value, const std::string &where) {
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr()))
    fail(where, "expected a list");
  return nb::steal(PySequence_Fast(value.ptr(), "expected a list"));
}

size_t length(const nb::object &sequence) { return PySequence_Fast_GET_SIZE(sequence.ptr()); }

nb::handle item(const nb::object &sequence, size_t index) {
  return PySequence_Fast_GET_ITEM(sequence.ptr(), index);
}

std::vector<int64_t> toExtents(nb::handle value, size_t rank, const std::string &where) {
  nb::object list = toSequence(value, where);
  if (length(list) != rank)
    fail(where, "expected " + std::to_string(rank) + " entries");
  std::vector<int64_t> result;
  for (size_t i = 0; i < rank; ++i) {
    result.push_back(item(list, i).is_none() ? kDynamic : toInt(item(list, i), where));
    if (result.back() == kDynamic && !item(list, i).is_none())
      fail(where, "out of range");
  }
  return result;
}

uint8_t toIndexWidth(int64_t bits, const std::string &where) {
  if (bits != 32 && bits != 64)
    fail(where, "index_width must be 32 or 64");
  return static_cast<uint8_t>(bits);
}

std::vector<int64_t> toDivisors(nb::handle value, size_t rank, const std::string &where) {
  if (value.is_none())
    return std::vector<int64_t>(rank, 1);
  std::vector<int64_t> result = toExtents(value, rank, where);
  for (int64_t &divisor : result) {
    if (divisor == kDynamic)
      divisor = 1;
    if (divisor < 1)
      fail(where, "divisors must be positive");
  }
  return result;
}

bool isPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

const std::unordered_map<std::string, ScalarType> &scalarTypes() {
  static const std::unordered_map<std::string, ScalarType> types = {
      {"i1", ScalarType::I1},     {"i8", ScalarType::I8},   {"i16", ScalarType::I16},
      {"i32", ScalarType::I32},   {"i64", ScalarType::I64}, {"index", ScalarType::I64},
      {"u8", ScalarType::U8},     {"u16", ScalarType::U16}, {"u32", ScalarType::U32},
      {"u64", ScalarType::U64},   {"f16", ScalarType::F16}, {"bf16", ScalarType::BF16},
      {"f32", ScalarType::F32},   {"f64", ScalarType::F64}};
  return types;
}

void parseTensor(nb::handle data, const std::string &where, ArgSpec &spec) {
  std::string dtype = toString(field(data, "dtype", where), where + ".dtype");
  spec.dtype = DType::parse(dtype);
  if (!spec.dtype.valid())
    fail(where, "unknown dtype '" + dtype + "'");
  spec.dtypeName = spec.dtype.frameworkName();
  int64_t rank = toInt(field(data, "rank", where), where + ".rank");
  if (rank < 0 || rank > kMaxRank)
    fail(where, "rank must be between 0 and " + std::to_string(kMaxRank));
  spec.rank = static_cast<int>(rank);
  spec.shape = toExtents(field(data, "shape", where), rank, where + ".shape");
  spec.strides = toExtents(field(data, "strides", where), rank, where + ".strides");
  spec.shapeDiv = toDivisors(optionalField(data, "shape_div"), rank, where + ".shape_div");
  spec.strideDiv = toDivisors(optionalField(data, "stride_div"), rank, where + ".stride_div");

  nb::object width = optionalField(data, "index_width");
  if (PyLong_Check(width.ptr()) || width.is_none()) {
    int64_t bits = width.is_none() ? 64 : toInt(width, where + ".index_width");
    spec.indexWidth.assign(rank, toIndexWidth(bits, where));
  } else {
    for (int64_t bits : toExtents(width, rank, where + ".index_width"))
      spec.indexWidth.push_back(toIndexWidth(bits == kDynamic ? 64 : bits, where));
  }
}

/// An optional bool, false if it is not there.
bool flag(nb::handle data, const char *name, const std::string &where) {
  nb::object value = optionalField(data, name);
  if (!value.is_none() && !PyBool_Check(value.ptr()))
    fail(where, std::string(name) + " must be a bool");
  return value.ptr() == Py_True;
}

ArgSpec parseArg(nb::handle data, const std::string &where) {
  if (!PyDict_Check(data.ptr()))
    fail(where, "expected a dictionary");
  ArgSpec spec;
  spec.name = toString(field(data, "name", where), where + ".name");
  std::string kind = toString(field(data, "kind", where), where + ".kind");
  nb::object align = optionalField(data, "align");
  if (!align.is_none())
    spec.align = toInt(align, where + ".align");
  if (!isPowerOfTwo(spec.align))
    fail(where, "align must be a power of two");
  nb::object maxBytes = optionalField(data, "max_bytes");
  if (!maxBytes.is_none())
    spec.maxBytes = toInt(maxBytes, where + ".max_bytes");
  for (const ArgumentFlag &known : argumentFlags())
    spec.*known.field = flag(data, known.name, where);

  if (kind == "tensor") {
    spec.kind = ArgKind::Tensor;
    parseTensor(data, where, spec);
  } else if (kind == "scalar") {
    spec.kind = ArgKind::Scalar;
    std::string type = toString(field(data, "type", where), where + ".type");
    auto entry = scalarTypes().find(type);
    if (entry == scalarTypes().end())
      fail(where, "unknown scalar type '" + type + "'");
    spec.scalar = entry->second;
  } else if (kind == "pointer") {
    spec.kind = ArgKind::Pointer;
  } else if (kind == "stream") {
    spec.kind = ArgKind::Stream;
  } else if (kind == "absent") {
    spec.kind = ArgKind::Absent;
  } else {
    fail(where, "unknown kind '" + kind + "'");
  }
  return spec;
}

const std::unordered_map<std::string, Predicate> &predicates() {
  static const std::unordered_map<std::string, Predicate> table = {
      {"eq", Predicate::EQ},   {"ne", Predicate::NE},   {"slt", Predicate::SLT},
      {"sle", Predicate::SLE}, {"sgt", Predicate::SGT}, {"sge", Predicate::SGE},
      {"ult", Predicate::ULT}, {"ule", Predicate::ULE}, {"ugt", Predicate::UGT},
      {"uge", Predicate::UGE}};
  return table;
}

/// Decodes one instruction at a time into the plan, by the table of PlanTable.h.
class CodeParser {
public:
  CodeParser(Plan &plan, size_t codeSize) : plan(plan), codeSize(codeSize) {}

  void parse(nb::handle data, size_t index) {
    where = "code[" + std::to_string(index) + "]";
    fields = toSequence(data, where);
    if (length(fields) == 0)
      fail(where, "empty instruction");
    std::string name = toString(item(fields, 0), where);
    const InstructionSpec *spec = findInstruction(name);
    if (!spec)
      fail(where, "unknown opcode '" + name + "'");
    where += " (" + name + ")";
    if (length(fields) - 1 != spec->operands.size())
      fail(where, "expected " + std::to_string(spec->operands.size()) + " operands, got " +
                      std::to_string(length(fields) - 1));
    Instr instr;
    instr.op = spec->op;
    for (size_t i = 0; i < spec->operands.size(); ++i)
      operand(instr, spec->operands[i], item(fields, i + 1), i + 1);
    plan.code.push_back(instr);
  }

private:
  void operand(Instr &instr, OperandSpec spec, nb::handle value, size_t position) {
    switch (spec.kind) {
    case Operand::Result:
    case Operand::Register: instr.*spec.field = reg(value); return;
    case Operand::Width: instr.width = width(value); return;
    case Operand::Immediate: instr.imm = toInt(value, where); return;
    case Operand::ScalarArgument: instr.a = argument(value, {ArgKind::Scalar}); return;
    case Operand::MemoryArgument:
      instr.a = argument(value, {ArgKind::Tensor, ArgKind::Pointer}, "has no data pointer");
      return;
    case Operand::TensorArgument: instr.a = argument(value, {ArgKind::Tensor}); return;
    case Operand::StreamArgument: instr.a = argument(value, {ArgKind::Stream}); return;
    case Operand::Dimension: instr.b = number(value, plan.args[instr.a].rank, "dimension"); return;
    case Operand::Predicate: {
      std::string text = toString(value, where);
      auto entry = predicates().find(text);
      if (entry == predicates().end())
        fail(where, "unknown predicate '" + text + "'");
      instr.predicate = entry->second;
      return;
    }
    // One past the end is a valid target: it ends the plan.
    case Operand::Target:
      instr.*spec.field = number(value, codeSize + 1, "branch target");
      return;
    case Operand::Text:
      instr.a = static_cast<int32_t>(plan.messages.size());
      plan.messages.push_back(toString(value, where));
      return;
    case Operand::FloatBinary:
      instr.imm = static_cast<int64_t>(named<FloatBinary>(value, parseFloatBinary, "function"));
      return;
    case Operand::FloatUnary:
      instr.imm = static_cast<int64_t>(named<FloatUnary>(value, parseFloatUnary, "function"));
      return;
    case Operand::FloatPredicate:
      instr.imm = named<uint8_t>(value, parseFloatPredicate, "predicate");
      return;
    case Operand::FloatType:
      instr.width = static_cast<uint8_t>(named<FloatType>(value, parseFloatType, "type"));
      return;
    case Operand::NumberType:
    case Operand::SourceType:
      instr.b = static_cast<int32_t>(plan.conversions.size());
      plan.conversions.emplace_back(named<NumberType>(value, parseNumberType, "type"), NumberType());
      return;
    case Operand::TargetType: {
      auto &[from, to] = plan.conversions.back();
      to = named<NumberType>(value, parseNumberType, "type");
      if (!from.isFloat && !to.isFloat)
        fail(where, "integers are converted by sext, zext and trunc");
      return;
    }
    case Operand::Kernel: // the first operand of a launch: all of it
      instr.a = static_cast<int32_t>(plan.launches.size());
      plan.launches.push_back(launch(position));
      return;
    case Operand::Registers:
    case Operand::OptionalRegister:
    case Operand::KernelArguments:
    case Operand::Bytes:
    case Operand::OptionalRegisters: return; // read with the kernel
    }
  }

  /// The value that a name stands for, by one of the parse functions of Floats.h.
  template <typename T>
  T named(nb::handle data, bool (*parse)(const std::string &, T &), const char *what) {
    const std::string name = toString(data, where);
    T value{};
    if (!parse(name, value))
      fail(where, std::string("unknown ") + what + " '" + name + "'");
    return value;
  }

  int32_t argument(nb::handle value, std::initializer_list<ArgKind> kinds,
                   const char *wrong = "is of another kind") {
    int32_t index = number(value, plan.args.size(), "argument");
    if (std::find(kinds.begin(), kinds.end(), plan.args[index].kind) == kinds.end())
      fail(where, "argument " + std::to_string(index) + " " + wrong);
    return index;
  }

  /// The operands of a launch, of which the first is at a position.
  LaunchSpec launch(size_t first) {
    LaunchSpec spec;
    std::string kernel = toString(item(fields, first), where);
    size_t index = 0;
    while (index < plan.kernels.size() && plan.kernels[index] != kernel)
      ++index;
    if (index == plan.kernels.size())
      plan.kernels.push_back(kernel);
    spec.kernel = static_cast<int>(index);
    triple(item(fields, first + 1), spec.grid);
    triple(item(fields, first + 2), spec.block);
    spec.smem = optionalReg(item(fields, first + 3));
    spec.stream = optionalReg(item(fields, first + 4));

    int64_t bytes = toInt(item(fields, first + 6), where);
    if (bytes < 0 || bytes > (1 << 20))
      fail(where, "kernarg size out of range");
    spec.kernargBytes = static_cast<uint32_t>(bytes);
    plan.maxKernargBytes = std::max(plan.maxKernargBytes, spec.kernargBytes);
    nb::object args = toSequence(item(fields, first + 5), where);
    for (size_t i = 0; i < length(args); ++i)
      spec.args.push_back(kernelArg(item(args, i), bytes));

    spec.hasCluster = !item(fields, first + 7).is_none();
    if (spec.hasCluster)
      triple(item(fields, first + 7), spec.cluster);
    return spec;
  }

  KernelArg kernelArg(nb::handle data, int64_t kernargBytes) {
    nb::object entry = toSequence(data, where);
    if (length(entry) != 3)
      fail(where, "a kernel argument is [register, offset, size]");
    int64_t offset = toInt(item(entry, 1), where), size = toInt(item(entry, 2), where);
    if (size != 1 && size != 2 && size != 4 && size != 8)
      fail(where, "kernel argument size must be 1, 2, 4 or 8");
    if (offset < 0 || offset > kernargBytes - size)
      fail(where, "kernel argument lies outside the kernarg segment");
    return {checkReg(toInt(item(entry, 0), where)), static_cast<uint32_t>(offset),
            static_cast<uint32_t>(size)};
  }

  int32_t checkReg(int64_t value) {
    if (value < 0 || value >= plan.regs)
      fail(where, "register " + std::to_string(value) + " out of range");
    return static_cast<int32_t>(value);
  }

  int32_t reg(nb::handle value) { return checkReg(toInt(value, where)); }

  int32_t optionalReg(nb::handle value) {
    int64_t number = value.is_none() ? -1 : toInt(value, where);
    return number == -1 ? -1 : checkReg(number);
  }

  int32_t number(nb::handle data, size_t limit, const char *what) {
    int64_t value = toInt(data, where);
    if (value < 0 || value >= static_cast<int64_t>(limit))
      fail(where, std::string(what) + " " + std::to_string(value) + " out of range");
    return static_cast<int32_t>(value);
  }

  uint8_t width(nb::handle value) {
    int64_t bits = toInt(value, where);
    if (bits < 1 || bits > 64)
      fail(where, "width must be between 1 and 64");
    return static_cast<uint8_t>(bits);
  }

  void triple(nb::handle data, int32_t (&out)[3]) {
    nb::object list = toSequence(data, where);
    if (length(list) != 3)
      fail(where, "expected three registers");
    for (size_t i = 0; i < 3; ++i)
      out[i] = checkReg(toInt(item(list, i), where));
  }

  Plan &plan;
  size_t codeSize;
  std::string where;
  nb::object fields;
};

} // namespace

Plan parsePlan(nb::dict data) {
  int64_t version = toInt(field(data, "version", "plan"), "version");
  if (version != kPlanVersion)
    fail("version", "this package reads version " + std::to_string(kPlanVersion) + ", the plan is " +
                        std::to_string(version));
  Plan plan;
  plan.name = toString(field(data, "name", "plan"), "name");

  nb::object args = toSequence(field(data, "args", "plan"), "args");
  for (size_t i = 0; i < length(args); ++i) {
    ArgSpec spec = parseArg(item(args, i), "args[" + std::to_string(i) + "]");
    spec.dimOffset = plan.dimSlots;
    plan.dimSlots += 2 * static_cast<size_t>(spec.rank);
    plan.args.push_back(std::move(spec));
  }

  int64_t regs = toInt(field(data, "regs", "plan"), "regs");
  if (regs < 0 || regs > (1 << 20))
    fail("regs", "out of range");
  plan.regs = static_cast<int>(regs);

  nb::object code = toSequence(field(data, "code", "plan"), "code");
  CodeParser parser(plan, length(code));
  for (size_t i = 0; i < length(code); ++i)
    parser.parse(item(code, i), i);
  return plan;
}

} // namespace flydsl::runtime
