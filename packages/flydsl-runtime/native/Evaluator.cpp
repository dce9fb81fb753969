//===- Evaluator.cpp - Evaluation of launch plans ----------------------------===//

#include "Evaluator.h"

#include <algorithm>
#include <cstdio>
#include <memory>

namespace flydsl::runtime {

namespace {

/// Registers of a plan of usual size live on the stack.
constexpr int kInlineRegs = 128;

/// Branches between two polls of a plan that loops.
constexpr uint32_t kPollInterval = 1u << 20;
/// Intervals without a launch after which a plan counts as endless.
constexpr uint64_t kMostIdle = 1u << 6;

uint64_t zeroExtend(int64_t value, unsigned width) {
  return width == 64 ? static_cast<uint64_t>(value)
                     : static_cast<uint64_t>(value) & ((uint64_t(1) << width) - 1);
}

int64_t signExtend(int64_t value, unsigned width) {
  unsigned shift = 64 - width;
  return static_cast<int64_t>(static_cast<uint64_t>(value) << shift) >> shift;
}

/// The form in which a result of \p width is kept in a register.
int64_t canonical(int64_t value, unsigned width) {
  return width == 1 ? (value & 1) : signExtend(value, width);
}

[[noreturn]] void divisionByZero(const Plan &plan, size_t pc) {
  throw PlanFailure(PlanFailure::Kind::Division,
                    plan.name + "(): integer division by zero in the host code of the launch "
                                "(plan instruction " + std::to_string(pc) + ")");
}

/// Quotient rounded towards zero; the one overflowing case wraps instead of trapping.
int64_t divideSigned(int64_t a, int64_t b) {
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}

int64_t remainderSigned(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

int64_t binary(const Plan &plan, size_t pc, const Instr &instr, int64_t x, int64_t y) {
  const unsigned width = instr.width;
  const int64_t a = signExtend(x, width), b = signExtend(y, width);
  const uint64_t ua = zeroExtend(x, width), ub = zeroExtend(y, width);
  auto nonZero = [&] {
    if (ub == 0)
      divisionByZero(plan, pc);
  };
  switch (instr.op) {
  case Op::Add: return static_cast<int64_t>(ua + ub);
  case Op::Sub: return static_cast<int64_t>(ua - ub);
  case Op::Mul: return static_cast<int64_t>(ua * ub);
  case Op::SDiv: nonZero(); return divideSigned(a, b);
  case Op::SRem: nonZero(); return remainderSigned(a, b);
  case Op::UDiv: nonZero(); return static_cast<int64_t>(ua / ub);
  case Op::URem: nonZero(); return static_cast<int64_t>(ua % ub);
  case Op::CeilDivS: {
    nonZero();
    bool roundUp = remainderSigned(a, b) != 0 && ((a < 0) == (b < 0));
    return divideSigned(a, b) + (roundUp ? 1 : 0);
  }
  case Op::CeilDivU: nonZero(); return static_cast<int64_t>(ua / ub + (ua % ub != 0 ? 1 : 0));
  case Op::FloorDivS: {
    nonZero();
    bool roundDown = remainderSigned(a, b) != 0 && ((a < 0) != (b < 0));
    return divideSigned(a, b) - (roundDown ? 1 : 0);
  }
  case Op::MinS: return std::min(a, b);
  case Op::MaxS: return std::max(a, b);
  case Op::MinU: return static_cast<int64_t>(std::min(ua, ub));
  case Op::MaxU: return static_cast<int64_t>(std::max(ua, ub));
  case Op::And: return static_cast<int64_t>(ua & ub);
  case Op::Or: return static_cast<int64_t>(ua | ub);
  case Op::Xor: return static_cast<int64_t>(ua ^ ub);
  case Op::Shl: return ub >= width ? 0 : static_cast<int64_t>(ua << ub);
  case Op::ShrS: return a >> std::min<uint64_t>(ub, 63);
  case Op::ShrU: return ub >= width ? 0 : static_cast<int64_t>(ua >> ub);
  default: return 0; // not a binary operation: the parser lets none through
  }
}

bool compare(const Instr &instr, int64_t x, int64_t y) {
  const int64_t a = signExtend(x, instr.width), b = signExtend(y, instr.width);
  const uint64_t ua = zeroExtend(x, instr.width), ub = zeroExtend(y, instr.width);
  switch (instr.predicate) {
  case Predicate::EQ: return a == b;
  case Predicate::NE: return a != b;
  case Predicate::SLT: return a < b;
  case Predicate::SLE: return a <= b;
  case Predicate::SGT: return a > b;
  case Predicate::SGE: return a >= b;
  case Predicate::ULT: return ua < ub;
  case Predicate::ULE: return ua <= ub;
  case Predicate::UGT: return ua > ub;
  case Predicate::UGE: return ua >= ub;
  }
  return false;
}

} // namespace

void LaunchSink::print(const std::string &text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (!text.empty() && text.back() == '\n')
    std::fflush(stdout);
}

void evaluate(const Plan &plan, const ArgValue *args, LaunchSink &sink) {
  int64_t inlineRegs[kInlineRegs];
  std::unique_ptr<int64_t[]> heapRegs;
  int64_t *regs = inlineRegs;
  if (plan.regs > kInlineRegs) {
    heapRegs = std::make_unique<int64_t[]>(plan.regs);
    regs = heapRegs.get();
  }
  // A register read before it is written reads 0 on every call, whatever the stack holds.
  std::fill_n(regs, plan.regs, 0);

  const Instr *code = plan.code.data();
  const size_t size = plan.code.size();
  uint32_t budget = kPollInterval;
  uint64_t idle = 0; // intervals since the last launch
  auto branch = [&](int32_t target) {
    if (--budget == 0) {
      sink.poll();
      budget = kPollInterval;
      if (++idle > kMostIdle)
        throw PlanFailure(PlanFailure::Kind::Assertion,
                          plan.name + "(): the host side of the function has gone through " +
                              std::to_string(kMostIdle * kPollInterval) +
                              " branches without a launch; endless loop?");
    }
    return static_cast<size_t>(target);
  };
  for (size_t pc = 0; pc < size;) {
    const Instr &instr = code[pc];
    switch (instr.op) {
    case Op::Const: regs[instr.d] = instr.imm; break;
    case Op::Arg:
    case Op::Ptr:
    case Op::Stream: regs[instr.d] = static_cast<int64_t>(args[instr.a].bits); break;
    case Op::Shape: regs[instr.d] = args[instr.a].shape[instr.b]; break;
    case Op::Stride: regs[instr.d] = args[instr.a].strides[instr.b]; break;
    case Op::Cmp: regs[instr.d] = compare(instr, regs[instr.a], regs[instr.b]); break;
    case Op::Select: regs[instr.d] = (regs[instr.c] & 1) ? regs[instr.a] : regs[instr.b]; break;
    case Op::SExt: regs[instr.d] = signExtend(regs[instr.a], instr.width); break;
    case Op::ZExt:
      regs[instr.d] = static_cast<int64_t>(zeroExtend(regs[instr.a], instr.width));
      break;
    case Op::Trunc: regs[instr.d] = canonical(regs[instr.a], instr.width); break;
    case Op::Mov: regs[instr.d] = regs[instr.a]; break;
    case Op::Br: pc = branch(instr.a); continue;
    case Op::CondBr: pc = branch((regs[instr.c] & 1) ? instr.a : instr.b); continue;
    case Op::Assert:
      if (!(regs[instr.c] & 1))
        throw PlanFailure(PlanFailure::Kind::Assertion,
                          plan.name + "(): " + plan.messages[instr.a]);
      break;
    case Op::Ret: return;
    case Op::FloatBinary:
      regs[instr.d] = floatBinary(static_cast<FloatBinary>(instr.imm), regs[instr.a], regs[instr.b],
                                  static_cast<FloatType>(instr.width));
      break;
    case Op::FloatUnary:
      regs[instr.d] = floatUnary(static_cast<FloatUnary>(instr.imm), regs[instr.a],
                                 static_cast<FloatType>(instr.width));
      break;
    case Op::FloatCmp:
      regs[instr.d] = floatCompare(static_cast<uint8_t>(instr.imm), regs[instr.a], regs[instr.b],
                                   static_cast<FloatType>(instr.width));
      break;
    case Op::Convert:
      regs[instr.d] = convertNumber(regs[instr.a], plan.conversions[instr.b].first,
                                    plan.conversions[instr.b].second);
      break;
    case Op::Print:
      sink.print(numberText(regs[instr.a], plan.conversions[instr.b].first));
      break;
    case Op::PrintText: sink.print(plan.messages[instr.a]); break;
    case Op::Launch:
      sink.launch(plan.launches[instr.a], regs);
      idle = 0;
      break;
    default:
      regs[instr.d] =
          canonical(binary(plan, pc, instr, regs[instr.a], regs[instr.b]), instr.width);
      break;
    }
    ++pc;
  }
}

} // namespace flydsl::runtime
