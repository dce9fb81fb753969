//===- Plan.h - Launch plan: arguments and host code ------------*- C++ -*-===//
//
// A launch plan is the host side of a compiled function as data: how to read
// the arguments, and a straight list of instructions over 64-bit registers
// that computes grid, block and kernel arguments and launches kernels.
// docs in README.md, section "The launch plan".
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_PLAN_H
#define FLYDSL_RUNTIME_PLAN_H

#include "DType.h"
#include "Floats.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace flydsl::runtime {

/// A shape or stride entry that is only known at the call.
inline constexpr int64_t kDynamic = std::numeric_limits<int64_t>::min();

/// Highest rank of a tensor argument.
inline constexpr int64_t kMaxRank = 32;

/// `Absent` is an optional argument that was left out where the function was compiled: it must be None.
enum class ArgKind : uint8_t { Tensor, Scalar, Pointer, Stream, Absent };

enum class ScalarType : uint8_t { I1, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64 };

/// What the plan demands of one argument.
struct ArgSpec {
  ArgKind kind;
  std::string name;

  // Tensor.
  DType dtype;
  const char *dtypeName = nullptr; ///< the libraries' spelling of it, for messages
  int rank = 0;
  std::vector<int64_t> shape;      ///< extent or kDynamic
  std::vector<int64_t> strides;    ///< stride in elements or kDynamic
  std::vector<int64_t> shapeDiv;   ///< known divisor of a dynamic extent
  std::vector<int64_t> strideDiv;  ///< known divisor of a dynamic stride
  std::vector<uint8_t> indexWidth; ///< bits a dynamic stride is passed in
  int64_t align = 1;               ///< bytes; also for pointers
  int64_t maxBytes = 0;            ///< a larger tensor is refused; 0: any size
  bool stored = false;             ///< a kernel stores to it: read-only memory is refused
  bool words = false;              ///< must consist of whole 32-bit words, and so must its rows
  bool addresses = false;          ///< its elements are addresses that a kernel uses
  size_t dimOffset = 0;            ///< first slot in the per-call shape/stride storage

  // Scalar.
  ScalarType scalar = ScalarType::I32;
};

enum class Op : uint8_t {
  Const, Arg, Ptr, Shape, Stride, Stream,
  Add, Sub, Mul, SDiv, SRem, UDiv, URem, CeilDivS, CeilDivU, FloorDivS,
  MinS, MaxS, MinU, MaxU, And, Or, Xor, Shl, ShrS, ShrU,
  Cmp, Select, SExt, ZExt, Trunc, Br, CondBr, Mov, Assert, Ret, Launch,
  FloatBinary, FloatUnary, FloatCmp, Convert, Print, PrintText,
};

enum class Predicate : uint8_t { EQ, NE, SLT, SLE, SGT, SGE, ULT, ULE, UGT, UGE };

/// One decoded instruction. The meaning of d, a, b, c depends on the opcode: registers, argument
/// and dimension numbers, branch targets, or an index into messages, launches or conversions. Float
/// operations have their FloatType in `width` and their function or outcomes in `imm`.
struct Instr {
  Op op;
  uint8_t width = 64;
  Predicate predicate = Predicate::EQ;
  int32_t d = 0, a = 0, b = 0, c = 0;
  int64_t imm = 0;
};

/// A register copied into the kernarg buffer.
struct KernelArg {
  int32_t reg;
  uint32_t offset;
  uint32_t size;
};

struct LaunchSpec {
  int kernel; ///< index into Plan::kernels
  int32_t grid[3];
  int32_t block[3];
  int32_t cluster[3];
  bool hasCluster = false;
  int32_t smem;   ///< register, or -1 for none
  int32_t stream; ///< register, or -1 for the default stream
  std::vector<KernelArg> args;
  uint32_t kernargBytes;
};

struct Plan {
  std::string name;
  std::vector<ArgSpec> args;
  size_t dimSlots = 0; ///< per-call storage: sum of 2 * rank
  int regs = 0;
  std::vector<Instr> code;
  std::vector<LaunchSpec> launches;
  std::vector<std::string> messages;
  std::vector<std::pair<NumberType, NumberType>> conversions; ///< from, to; printing has from only
  std::vector<std::string> kernels;
  uint32_t maxKernargBytes = 0;
};

/// One bound argument: a scalar's bits, a pointer or a stream handle, and for tensors the
/// extents and the strides in elements.
struct ArgValue {
  uint64_t bits = 0;
  const int64_t *shape = nullptr;
  const int64_t *strides = nullptr;
};

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_PLAN_H
