//===- Inst.h - pre-decoded instructions -----------------------*- C++ -*-===//
//
// The form in which the interpreter executes code: one Inst per instruction, with
// operands resolved as far as possible at decode time. OpDef is the semantics of
// one mnemonic; it serves every encoding (e32, e64, DPP, SDWA) and architecture.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_INST_H
#define FLYSIM_EXEC_INST_H

#include "exec/OpFacts.h"

#include <cstdint>

namespace flysim {

struct Wave;
struct Inst;

/// Registers are stored as rows of 64 lanes, whatever the wave size.
constexpr unsigned kRow = 64;

/// Number formats of VALU operands: they decide how modifiers apply and how many
/// registers an operand has.
enum class Num : uint8_t {
  None,
  B32, ///< untyped or integer, one register
  U16, ///< integer in a 16-bit half
  F16,
  BF16,
  F32,
  B64,
  F64,
  PkB16, ///< two integer halves
  PkF16,
  PkBF16,
  PkF32, ///< two registers, each an operand of its own
  PkB32,
  Mix,  ///< f32, or f16 when op_sel_hi is set (v_fma_mix*)
  MixBF, ///< the same with bf16
  Mask, ///< a lane mask in SGPRs, seen by the lane loop as 0/1 per lane
};

constexpr unsigned dwords(Num n) {
  return n == Num::B64 || n == Num::F64 || n == Num::PkF32 || n == Num::PkB32 ? 2 : 1;
}

enum class OperandKind : uint8_t { None, Vgpr, Sgpr, Const, Scc, Vccz, Execz };

struct Operand {
  OperandKind kind = OperandKind::None;
  uint8_t msb = 0;  ///< which VGPR-MSB field applies (gfx1250): 0..2 sources, 3 destination
  uint8_t mods = 0; ///< kNeg, kAbs, kSext, kHigh16
  uint8_t count = 1; ///< registers in the tuple
  uint16_t reg = 0; ///< row in the VGPR file (a0 is row 256), or SGPR encoding
  const uint32_t *row = nullptr; ///< Const: two rows, low and high dwords

  explicit operator bool() const { return kind != OperandKind::None; }
};

enum : uint8_t { kNeg = 1, kAbs = 2, kSext = 4, kHigh16 = 8 };

/// Arguments of a lane loop. Row pointers; a 64-bit operand continues one row later.
/// A thread has one of them for all instructions: what is the same for all is set once (Temps).
struct LaneArgs {
  uint32_t *d;       ///< result rows
  uint32_t *carry;   ///< 0/1 per lane for results in a lane mask
  const uint32_t *s[3];
  const uint32_t *cin; ///< 0/1 per lane, carry-in or select condition
  uint32_t imm;      ///< instruction-specific immediate
  unsigned blocks;   ///< lanes / 32
  uint32_t mode;     ///< MODE register
};

using LaneFn = void (*)(const LaneArgs &);
using ExecFn = void (*)(Wave &, const Inst &);

/// OpDef flags.
enum : uint32_t {
  kTied = 1,          ///< the destination is also the last source (fmac, dot2c)
  kCarryOut = 2,      ///< writes a lane mask besides the result
  kCarryIn = 4,       ///< reads a lane mask
  kCompare = 8,       ///< the only result is a lane mask
  kCompareX = 16,     ///< ... which also goes to EXEC
  kKeepHigh = 32,     ///< a 16-bit result preserves the other half on every target
  kUsesVccIn = 64,    ///< reads VCC whatever the encoding (div_fmas)
  kApprox = 256,      ///< not bit-exact; listed in the fidelity table
  kMixHigh = 512,     ///< result goes to the high half (mixhi)
  kBranch = 1024,     ///< ends a straight run; imm is the target
  kRawMods = 4096,    ///< neg bits have a meaning of their own: they arrive as the immediate
  kUncertain = 8192,  ///< semantics not confirmed by a public source; listed as approximate
  kByteDst = 1 << 15, ///< op_sel[3:2] picks a byte of the result; it arrives as the immediate
  kByteSrc = 1 << 16, ///< op_sel[1:0] picks a byte of src0
  kPermutes = 1 << 18, ///< exec applies the lane permute of a DPP form itself
  kIndexes = 1 << 19, ///< may begin the mode in which M0 is added to register numbers (gfx9)
  kFnuz = 1 << 17,    ///< has a variant named "<name>.fnuz" for gfx942
};

/// Number of the s_trap that marks a store beyond an extent of an array. A compiler that knows
/// shapes places it before the store, in the lanes that it is about: v0 has the coordinate along
/// a mode, v1 the mode's extent, v2 the mode, v[4:5] the address or 0. It has no effect itself.
constexpr int64_t kExtentMark = 0xe0;

/// Semantics of one mnemonic.
struct OpDef {
  const char *name = nullptr;
  ExecFn exec = nullptr;     ///< runs the instruction
  ExecFn run = nullptr;      ///< runs it and the instructions that `Inst::joined` counts; null if it takes none along
  LaneFn lane = nullptr;     ///< inner loop, for the generic VALU path
  LaneFn laneSat = nullptr;  ///< inner loop when clamp means saturation
  LaneFn laneResult = nullptr; ///< inner loop that leaves out the lane mask, for when nothing reads it
  Num dst = Num::None;
  Num src[3] = {Num::None, Num::None, Num::None};
  uint8_t nsrc = 0;
  uint32_t flags = 0;
  uint32_t aux = 0;          ///< meaning belongs to exec (e.g. bytes accessed)
  const void *table = nullptr; ///< more of the same, for larger descriptions
  OpFacts facts;
};

/// Rarely used parts of an instruction.
struct InstExt {
  // DPP
  bool dpp = false, fi = false, boundCtrl = false;
  uint8_t perm[64] = {};      ///< source lane of each lane
  uint64_t inRange = 0;       ///< lanes whose source lane exists
  uint64_t writable = ~0ull;  ///< lanes allowed by row_mask and bank_mask
  // SDWA
  bool sdwa = false;
  uint8_t dstSel = 6, dstUnused = 0, srcSel[2] = {6, 6};
  // Matrix instructions
  uint8_t cbsz = 0, abid = 0, blgp = 0;
  uint8_t aFmt = 0, bFmt = 0, aScale = 0, bScale = 0, aScaleFmt = 0, bScaleFmt = 0;
  uint32_t indexKey = 0;
  Operand scale[2], index;
  // VOPD: the second half, executed after both halves have read their sources
  const Inst *second = nullptr;
};

struct Inst {
  ExecFn exec = nullptr;
  /// Executes this instruction and the `joined` ones after it, where nobody looks at single instructions.
  ExecFn run = nullptr;
  const OpDef *def = nullptr;
  LaneFn lane = nullptr;
  Operand dst, sdst, src[3], data;
  const InstExt *ext = nullptr;
  int64_t imm = 0;       ///< immediate operand, byte offset, or branch target index
  uint32_t pc = 0;       ///< byte offset in the code range
  uint32_t offset2 = 0;  ///< second DS offset
  uint16_t joined = 0;   ///< instructions after this one that `run` executes with it
  uint8_t length = 4;    ///< bytes
  uint8_t clamp = 0, omod = 0;
  uint8_t opSel = 0, opSelHi = 0, negLo = 0, negHi = 0;
  uint8_t cpol = 0;      ///< 1: atomic returns the old value
  uint8_t policy = 0;    ///< bits of the cache policy, as LLVM's operand has them
  /// Buffers: 1 offen, 2 idxen; LDS: 4; 8: the offset counts elements (scale_offset);
  /// 16: the 32-bit VGPR offset beside an SGPR base is signed (gfx1250).
  uint8_t addrMode = 0;
  bool steers = true;    ///< its wave may go on somewhere else, stop or have other active lanes after it
  bool plain = false;    ///< no modifier of any kind: results may go straight to the VGPR
  bool rawSources = false; ///< a lane loop takes its sources as the registers have them, and no mask
  bool lds = false;      ///< load to LDS
  bool tfe = false;      ///< a fault status follows the loaded registers
};

} // namespace flysim

#endif
