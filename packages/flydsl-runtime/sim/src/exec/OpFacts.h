//===- OpFacts.h - what an instruction is ----------------------*- C++ -*-===//
//
// Facts about a mnemonic that do not depend on its operands: the unit that executes it, the memory
// it reaches, the counters and barriers that it takes part in, the flags that it reads. They stand
// in the mnemonic's entry of the instruction table (OpDef::facts); the decoder, the profiler, the
// timing model and the checks read them there and nowhere look at names.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_OPFACTS_H
#define FLYSIM_EXEC_OPFACTS_H

#include <cstdint>
#include <string_view>

namespace flysim {

/// The unit that executes an instruction; the categories of the issue logic.
enum class Unit : uint8_t {
  Valu,
  Trans,    ///< transcendental and other quarter-rate vector operations
  Matrix,   ///< MFMA, SMFMAC, WMMA, SWMMAC
  Salu,
  Smem,
  Lds,
  VmemLoad,
  VmemStore, ///< stores and atomics
  Branch,
  Barrier,
  Wait,
  Internal, ///< s_nop, s_setprio and others that occupy no unit
  Count
};

/// Which operands an encoding has.
enum class Form : uint8_t { Scalar, Vector, Lds, Tensor, Buffer, Address };

/// How long a vector instruction keeps its unit, compared with an addition of f32.
enum class Rate : uint8_t { Full, Quarter, Double };

/// Address space of a memory instruction.
enum class MemSpace : uint8_t { None, Global, Flat, Scratch, Buffer, Lds, Scalar, Tensor };

/// Counters that memory operations increment and waits test.
enum class Counter : uint8_t { Vm, Lgkm, Store, Ds, Km, Async, Tensor, Count };
constexpr unsigned kCounters = static_cast<unsigned>(Counter::Count);

/// The half of a register that a 16-bit load fills or a 16-bit store takes.
enum class Half : uint8_t { None, Low, High };

/// What an instruction does to caches.
enum class CacheOp : uint8_t { None, WriteBack, Invalidate };

/// What a wave does at a barrier; `Other` neither arrives nor waits.
enum class BarrierRole : uint8_t { None, Whole, Signal, Wait, Other };

/// What decides where a branch leads.
enum class BranchOn : uint8_t { None, Scc, Vcc, Exec, Register, Always, End };

/// What a wait reads from its immediate.
enum class WaitKind : uint8_t {
  None,
  Legacy, ///< the fields of s_waitcnt, which are the architecture's
  One,    ///< `counter` in the low bits
  Two,    ///< and `second` from bit 8
  All     ///< waits for everything
};

struct MemoryFacts {
  MemSpace space = MemSpace::None;
  uint8_t bytes = 0; ///< of an access: per lane, for scalar ones per wave
  uint8_t pairs = 1; ///< addresses per lane: 2 for read2/write2
  bool load = false, store = false, atomic = false;
  bool toLds = false;       ///< a load whose result goes to LDS
  bool direct = false;      ///< a load whose bytes go to registers of their own lane as they are
  bool async = false;       ///< between memory and LDS, counted apart
  bool descriptor = false;  ///< a scalar access by a buffer descriptor
  bool ownAddress = false;  ///< addresses that are not those of the operands alone (addtid, block)
  bool compareSwap = false;
  bool arrives = false;     ///< at a barrier object in LDS
  bool prefetch = false;
  bool maintains = false;   ///< caches; moves no data
  Half half = Half::None;
  CacheOp cache = CacheOp::None;
};

struct WaitFacts {
  WaitKind kind = WaitKind::None;
  Counter counter = Counter::Count, second = Counter::Count;
  uint8_t mask = 63; ///< of the low field
};

struct OpFacts {
  Unit unit = Unit::Salu;
  Form form = Form::Scalar;
  Rate rate = Rate::Full;
  uint8_t flops = 0; ///< floating-point operations of a lane of a vector instruction
  MemoryFacts memory;
  WaitFacts wait;
  BarrierRole barrier = BarrierRole::None;
  BranchOn branch = BranchOn::None;
  bool readsScc = false, writesScc = false; ///< of scalar instructions
  bool savesExec = false;    ///< gives the old EXEC and writes a new one
  bool crossesLanes = false; ///< a lane's result depends on other lanes
  bool swaps = false;        ///< writes its source, too
  bool moves = false;        ///< gives its operand unchanged
  bool outside = false;      ///< gives what is not in the wave's registers (clocks, messages, its mode)
  bool relativeDst = false;  ///< the destination is found at run time, and LLVM calls it a source
  bool relativeSrc = false;  ///< the source of a scalar move is found at run time
  bool literal = false;      ///< one factor or summand is a literal (fmaak, fmamk)
  bool literalFactor = false; ///< it is a factor (fmamk): the summand has the place of a third source
  bool finishesDivision = false;
  bool replicated = false;   ///< a matrix operation that gfx11 has with operands in both half-waves
  bool setsPriority = false, idles = false, setsVgprMsb = false, marks = false; ///< s_trap marks
};

/// The facts of a mnemonic (without suffixes of the encoding).
OpFacts factsOf(std::string_view mnemonic);

} // namespace flysim

#endif
