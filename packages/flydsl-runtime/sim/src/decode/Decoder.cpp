//===- Decoder.cpp - bytes to pre-decoded instructions --------------------===//

#include "decode/Coverage.h"
#include "decode/Disassembler.h"
#include "decode/DppLanes.h"
#include "decode/Program.h"
#include "exec/FloatFormats.h"
#include "exec/Matrix.h"
#include "exec/OpTable.h"
#include "exec/Special.h"
#include "exec/Wave.h"
#include "support/Error.h"

namespace flysim {

namespace {

/// Bits of srcN_modifiers (SISrcMods in LLVM).
enum : int64_t { kModNeg = 1, kModAbs = 2, kModOpSel = 4, kModOpSelHi = 8, kModSext = 16 };

class InstDecoder {
public:
  InstDecoder(Program &program, const RawInst &raw, Inst &inst)
      : program(program), raw(raw), inst(inst) {}

  void run() {
    const std::string &m = raw.mnemonic;
    if (raw.isDual)
      return decodeDual();
    const OpDef *def = OpTable::instance().find(m);
    if (!def) {
      inst.exec = execUnsupported;
      return;
    }
    if ((def->flags & kFnuz) && arch().has.fnuz)
      def = OpTable::instance().find(m + ".fnuz");
    if (arch().has.replicatedWmma && def->facts.replicated)
      def = OpTable::instance().find(m + kReplicatedSuffix);
    inst.def = def;
    inst.exec = def->exec;
    inst.lane = def->lane;
    inst.policy = static_cast<uint8_t>(raw.imm(OpName::cpol));
    switch (def->facts.form) {
    case Form::Scalar:
      return decodeScalar();
    case Form::Vector:
      return decodeVector();
    default:
      decodeMemory(def->facts.form);
    }
  }

private:
  const ArchInfo &arch() const { return *program.arch; }
  InstExt &ext() {
    if (!inst.ext) {
      program.exts.emplace_back();
      inst.ext = &program.exts.back();
    }
    return const_cast<InstExt &>(*inst.ext);
  }

  Operand constant(int64_t value) {
    Operand o;
    o.kind = OperandKind::Const;
    o.row = program.constant(static_cast<uint64_t>(value));
    return o;
  }

  /// A source operand; `wide` asks for a 64-bit constant.
  Operand source(const RawOperand &r, Num type, uint8_t msb) {
    Operand o;
    if (!r.present)
      return o;
    if (!r.isReg) {
      int64_t v = r.imm;
      if (type == Num::PkF32 || type == Num::PkB32)
        v = static_cast<int64_t>((static_cast<uint64_t>(v) & 0xffffffffu) |
                                 static_cast<uint64_t>(v) << 32);
      return constant(v);
    }
    o.count = r.count;
    o.msb = msb;
    if (r.vgpr || r.agpr) {
      o.kind = OperandKind::Vgpr;
      o.reg = static_cast<uint16_t>(r.encoding % 256 + (r.agpr ? 256 : 0));
      if (r.vgpr && r.encoding >= 256)
        o.reg = r.encoding;
      return o;
    }
    if (r.null)
      return constant(0);
    o.kind = OperandKind::Sgpr;
    o.reg = r.encoding;
    switch (r.encoding) {
    case 235:
      return constant(static_cast<int64_t>(uint64_t(kSharedAperture) << 32));
    case 236:
      return constant(static_cast<int64_t>(uint64_t(kSharedAperture) << 32 | 0xffffffffu));
    case 237:
      return constant(static_cast<int64_t>(uint64_t(kPrivateAperture) << 32));
    case 238:
      return constant(static_cast<int64_t>(uint64_t(kPrivateAperture) << 32 | 0xffffffffu));
    case 251:
      o.kind = OperandKind::Vccz;
      break;
    case 252:
      o.kind = OperandKind::Execz;
      break;
    case 253:
      o.kind = OperandKind::Scc;
      break;
    default:
      break;
    }
    return o;
  }

  Operand destination(const RawOperand &r) {
    Operand o = source(r, Num::B32, 3);
    if (r.present && r.isReg && r.null) {
      o = Operand();
      o.kind = OperandKind::Sgpr;
      o.reg = kSink;
    }
    return o;
  }

  Operand scalar(unsigned encoding) {
    Operand o;
    o.kind = OperandKind::Sgpr;
    o.reg = static_cast<uint16_t>(encoding);
    return o;
  }

  void decodeScalar() {
    bool named = raw.has(OpName::sdst) || raw.has(OpName::src0) || raw.has(OpName::simm16) ||
                 raw.has(OpName::sbase) || raw.has(OpName::imm);
    if (raw.has(OpName::sbase)) {
      inst.dst = destination(raw.operand(raw.has(OpName::sdst) ? OpName::sdst : OpName::sdata));
      inst.src[0] = source(raw.operand(OpName::sbase), Num::B64, 0);
      if (raw.has(OpName::soffset))
        inst.src[1] = source(raw.operand(OpName::soffset), Num::B32, 0);
      inst.imm = raw.imm(OpName::offset);
      // Atomics: the data registers are also the result when it is returned.
      inst.cpol = raw.has(OpName::sdst) && raw.has(OpName::sdata);
      if (arch().has.scaledOffsets && (raw.imm(OpName::cpol) & 0x800))
        inst.addrMode |= 8;
      return;
    }
    if (named) {
      inst.dst = destination(raw.operand(OpName::sdst));
      inst.src[0] = source(raw.operand(OpName::src0), Num::B32, 0);
      inst.src[1] = source(raw.operand(OpName::src1), Num::B32, 0);
      inst.src[2] = source(raw.operand(OpName::src2), Num::B32, 0);
      if (raw.has(OpName::imm) && !inst.src[2])
        inst.src[2] = constant(raw.imm(OpName::imm));
      inst.imm = static_cast<int16_t>(raw.imm(OpName::simm16));
    } else {
      unsigned next = 0;
      // LLVM calls the destination of a relative move a use: which register changes is unknown.
      if ((raw.numDefs() || inst.def->facts.relativeDst) && raw.numOperands())
        inst.dst = destination(raw.at(next++));
      for (unsigned i = 0; i < 3 && next < raw.numOperands(); ++i, ++next)
        inst.src[i] = source(raw.at(next), Num::B32, 0);
      if (!inst.dst && raw.numOperands() && !raw.at(0).isReg)
        inst.imm = raw.at(0).imm;
    }
    // Branch targets become instruction indexes once all instructions are known.
  }

  /// Which bits of the banks (gfx1250: s_set_vgpr_msb) belong to srcN.
  static uint8_t bankOf(const OpDef &def, unsigned n) {
    return n == 1 && def.facts.literalFactor ? 2 : static_cast<uint8_t>(n);
  }

  /// A constant of an operand that may be a half or an f32. LLVM gives the bits of the half, but the constant has
  /// those of the f32: compilers name the bf16 of 1.0 as the upper half of it. An f16 is no half of an f32, so that
  /// it stays what LLVM says where op_sel_hi asks for one.
  static int64_t mixedConstant(int64_t bits, Num type, bool half) {
    const uint16_t low = static_cast<uint16_t>(bits);
    if ((bits >= -16 && bits <= 64) || (type == Num::Mix && half))
      return bits;
    if (low == (type == Num::Mix ? 0x3118 : 0x3e22))
      return 0x3e22f983; // 1/(2 pi), the only one that a half rounds
    return type == Num::Mix ? asBits(halfToFloat(low)) : uint32_t(low) << 16;
  }

  /// Reads srcN and srcN_modifiers.
  void vectorSource(unsigned n, OpName name, OpName modName) {
    Num type = inst.def->src[n];
    RawOperand r = raw.operand(name);
    if (!r.present)
      return;
    int64_t mods = raw.imm(modName);
    const bool mixed = type == Num::Mix || type == Num::MixBF;
    if (mixed && !r.isReg && raw.length == 8) // a literal would stand behind the instruction
      r.imm = mixedConstant(r.imm, type, mods & kModOpSelHi);
    inst.src[n] = source(r, type, bankOf(*inst.def, n));
    if (r.hi16) {
      inst.opSel |= 1 << n;
      if (type == Num::B32)
        inst.src[n].mods = kHigh16;
    }
    bool packed = mixed || type == Num::PkF16 || type == Num::PkB16 || type == Num::PkBF16 ||
                  type == Num::PkF32 || type == Num::PkB32;
    if (inst.def->flags & kRawMods) {
      inst.negLo |= (mods & kModNeg ? 1 : 0) << n;
      return;
    }
    if (packed) {
      inst.negLo |= (mods & kModNeg ? 1 : 0) << n;
      inst.negHi |= (mods & kModAbs ? 1 : 0) << n;
      inst.opSel |= (mods & kModOpSel ? 1 : 0) << n;
      inst.opSelHi |= (mods & kModOpSelHi ? 1 : 0) << n;
      return;
    }
    if (raw.isSdwa && (type == Num::B32 || type == Num::U16)) {
      inst.src[n].mods = mods & kModSext ? kSext : 0;
    } else {
      inst.src[n].mods |= static_cast<uint8_t>((mods & kModNeg ? kNeg : 0) |
                                               (mods & kModAbs ? kAbs : 0));
      // Raw bits for instructions that give them a meaning of their own.
      inst.negLo |= (mods & kModNeg ? 1 : 0) << n;
      inst.negHi |= (mods & kModAbs ? 1 : 0) << n;
      inst.opSelHi |= (mods & kModOpSelHi ? 1 : 0) << n;
    }
    inst.opSel |= (mods & kModOpSel ? 1 : 0) << n;
    if (n == 0 && (mods & kModOpSelHi))
      inst.opSel |= 8;
  }

  void decodeVector() {
    const OpDef &def = *inst.def;
    RawOperand vdst = raw.operand(OpName::vdst);
    if (!vdst.present && !raw.has(OpName::vdst) && !raw.has(OpName::src0))
      return decodeUnnamedVector();
    inst.dst = destination(vdst);
    if (vdst.hi16)
      inst.opSel |= 8;
    inst.sdst = destination(raw.operand(OpName::sdst));
    vectorSource(0, OpName::src0, OpName::src0_modifiers);
    vectorSource(1, OpName::src1, OpName::src1_modifiers);
    vectorSource(2, OpName::src2, OpName::src2_modifiers);
    if (raw.has(OpName::imm))
      inst.src[2] = constant(raw.imm(OpName::imm));
    if ((def.flags & kTied) && def.nsrc >= 1) {
      inst.src[def.nsrc - 1] = inst.dst;
      if (inst.opSel & 8)
        inst.opSel |= 1 << (def.nsrc - 1);
    }
    if (raw.has(OpName::vdst1))
      inst.sdst = destination(raw.operand(OpName::vdst1));
    if (def.flags & (kCarryOut | kCompare)) {
      if (!inst.sdst)
        inst.sdst = scalar(def.flags & kCompareX && arch().has.rdna ? unsigned(kExec)
                                                                   : unsigned(kVcc));
    }
    if (def.flags & kCarryIn)
      inst.data = inst.src[2] && !(def.flags & kUsesVccIn) ? inst.src[2] : scalar(kVcc);
    inst.clamp = static_cast<uint8_t>(raw.imm(OpName::clamp));
    inst.omod = static_cast<uint8_t>(raw.imm(OpName::omod));
    if (inst.clamp && def.laneSat)
      inst.lane = def.laneSat;
    decodeDpp();
    decodeSdwa();
    decodeMatrix();
    if (raw.has(OpName::bitop3))
      inst.imm = raw.imm(OpName::bitop3);
    if (def.flags & kByteDst)
      inst.imm = (raw.imm(OpName::src0_modifiers) & kModOpSelHi ? 2 : 0) |
                 (raw.imm(OpName::src2_modifiers) & kModOpSel ? 1 : 0);
    if (def.flags & kByteSrc)
      inst.imm = (raw.imm(OpName::src1_modifiers) & kModOpSel ? 2 : 0) |
                 (raw.imm(OpName::src0_modifiers) & kModOpSel ? 1 : 0);
    if (raw.has(OpName::byte_sel))
      inst.imm = raw.imm(OpName::byte_sel);
    if (raw.has(OpName::scale_sel))
      inst.imm = raw.imm(OpName::scale_sel);
    if (def.flags & kRawMods)
      inst.imm = inst.negLo;
    inst.plain = isPlain();
    inst.rawSources = takesRawSources();
    // Most operations with a loop of their own know nothing of lane permutes and byte selects.
    if (inst.ext && (inst.ext->dpp || inst.ext->sdwa) && !inst.lane && !(def.flags & kPermutes))
      inst.exec = execUnsupported;
    // v_s_* run on the vector unit with scalar operands.
    if (inst.dst.kind == OperandKind::Sgpr && inst.lane && !(def.flags & kCompare))
      inst.exec = OpTable::instance().scalarLoop;
  }

  void decodeUnnamedVector() {
    unsigned next = 0;
    if (raw.numDefs() && raw.numOperands())
      inst.dst = destination(raw.at(next++));
    for (unsigned i = 0; i < 3 && next < raw.numOperands(); ++i, ++next)
      inst.src[i] = source(raw.at(next), inst.def->src[i], static_cast<uint8_t>(i));
    inst.plain = isPlain();
  }

  bool sixteenBit() const {
    Num d = inst.def->dst;
    return d == Num::F16 || d == Num::U16 || d == Num::BF16;
  }

  bool isPlain() {
    const OpDef &def = *inst.def;
    if (inst.ext && (inst.ext->dpp || inst.ext->sdwa))
      return false;
    if (inst.clamp && !def.laneSat)
      return false;
    if (inst.omod)
      return false;
    if (sixteenBit() && (arch().has.keepsHigh || (inst.opSel & 8) || (def.flags & kKeepHigh)))
      return false;
    return true;
  }

  /// True if what the operand fetch of the generic path (Vop.cpp) would do to the sources is nothing.
  bool takesRawSources() {
    const OpDef &def = *inst.def;
    if ((inst.ext && (inst.ext->dpp || inst.ext->sdwa)) || (def.flags & kCarryIn))
      return false;
    for (unsigned n = 0; n < def.nsrc; ++n) {
      if (inst.src[n].mods & (kNeg | kAbs | kHigh16))
        return false;
      const bool low = inst.opSel >> n & 1, high = inst.opSelHi >> n & 1;
      const bool negative = (inst.negLo | inst.negHi) >> n & 1;
      switch (def.src[n]) {
      case Num::PkB16:
      case Num::PkF16:
      case Num::PkBF16:
      case Num::PkF32:
        if (low || !high || negative)
          return false;
        break;
      case Num::PkB32: // op_sel alone picks both halves
        return false;
      case Num::Mix:
      case Num::MixBF:
        if (high || negative)
          return false;
        break;
      case Num::F16:
      case Num::BF16:
      case Num::U16:
        if (low)
          return false;
        break;
      default:
        break;
      }
    }
    return true;
  }

  void decodeDpp() {
    // From the code: LLVM's decoder loses a bit of dpp_ctrl where the result is half of a register (fma_mixlo).
    const uint32_t w = raw.dppWord;
    if (raw.unlistedDpp == 0xfa || raw.has(OpName::dpp_ctrl)) {
      const bool fetches = raw.unlistedDpp || raw.has(OpName::fi);
      setDpp16(ext(), {w >> 8 & 0x1ff, w >> 28, w >> 24 & 15, (w >> 19 & 1) != 0, fetches && (w >> 18 & 1)});
    } else if (raw.unlistedDpp || raw.has(OpName::dpp8)) {
      // LLVM keeps the encoding (233 or 234) of DPP8's fetch-inactive bit here.
      const int64_t fi = raw.unlistedDpp ? raw.unlistedDpp : raw.imm(OpName::fi);
      setDpp8(ext(), w >> 8, fi == 234 || fi == 1);
    }
  }

  void decodeSdwa() {
    if (!raw.isSdwa)
      return;
    InstExt &e = ext();
    e.sdwa = true;
    e.dstSel = static_cast<uint8_t>(raw.imm(OpName::dst_sel, 6));
    e.dstUnused = static_cast<uint8_t>(raw.imm(OpName::dst_unused, 0));
    e.srcSel[0] = static_cast<uint8_t>(raw.imm(OpName::src0_sel, 6));
    e.srcSel[1] = static_cast<uint8_t>(raw.imm(OpName::src1_sel, 6));
  }

  void decodeMatrix() {
    static const OpName kNames[] = {OpName::cbsz, OpName::idx, OpName::scale_src0,
                                    OpName::matrix_a_fmt, OpName::index_key_8bit,
                                    OpName::index_key_16bit, OpName::index_key_32bit};
    bool any = false;
    for (OpName n : kNames)
      any |= raw.has(n);
    if (!any)
      return;
    InstExt &e = ext();
    e.cbsz = static_cast<uint8_t>(raw.imm(OpName::cbsz));
    e.abid = static_cast<uint8_t>(raw.imm(OpName::abid));
    e.blgp = static_cast<uint8_t>(raw.imm(OpName::blgp));
    e.aFmt = static_cast<uint8_t>(raw.imm(OpName::matrix_a_fmt));
    e.bFmt = static_cast<uint8_t>(raw.imm(OpName::matrix_b_fmt));
    e.aScale = static_cast<uint8_t>(raw.imm(OpName::matrix_a_scale));
    e.bScale = static_cast<uint8_t>(raw.imm(OpName::matrix_b_scale));
    e.aScaleFmt = static_cast<uint8_t>(raw.imm(OpName::matrix_a_scale_fmt));
    e.bScaleFmt = static_cast<uint8_t>(raw.imm(OpName::matrix_b_scale_fmt));
    e.indexKey = static_cast<uint32_t>(raw.imm(OpName::index_key_8bit) +
                                       raw.imm(OpName::index_key_16bit) +
                                       raw.imm(OpName::index_key_32bit));
    e.index = source(raw.operand(OpName::idx), Num::B32, 2);
    // Scale operands are always named with the low 256 registers.
    e.scale[0] = source(raw.operand(OpName::scale_src0), Num::B32, 0);
    e.scale[1] = source(raw.operand(OpName::scale_src1), Num::B32, 1);
  }

  void decodeMemory(Form form) {
    inst.cpol = static_cast<uint8_t>(raw.imm(OpName::cpol) & 1);
    inst.imm = raw.imm(OpName::offset);
    if (form == Form::Lds) {
      inst.dst = destination(raw.operand(OpName::vdst));
      inst.src[0] = source(raw.operand(OpName::addr), Num::B32, 0);
      inst.src[1] = source(raw.operand(OpName::data0), Num::B32, 1);
      inst.src[2] = source(raw.operand(OpName::data1), Num::B32, 2);
      if (raw.has(OpName::offset0)) {
        inst.imm = raw.imm(OpName::offset0) & 0xff;
        inst.offset2 = static_cast<uint32_t>(raw.imm(OpName::offset1) & 0xff);
      } else {
        inst.imm &= 0xffff;
      }
      return;
    }
    if (form == Form::Tensor) {
      static const OpName kGroups[] = {OpName::vaddr0, OpName::vaddr1, OpName::vaddr2, OpName::vaddr3};
      for (unsigned i = 0; i < 3; ++i)
        inst.src[i] = source(raw.operand(kGroups[i]), Num::B32, 0);
      inst.data = source(raw.operand(kGroups[3]), Num::B32, 0);
      return;
    }
    bool buffer = form == Form::Buffer;
    inst.dst = destination(raw.operand(OpName::vdst));
    inst.data = source(raw.operand(OpName::vdata), Num::B32, buffer ? 3 : 1);
    if (buffer && !inst.dst)
      inst.dst = inst.data;
    inst.src[0] = source(raw.operand(OpName::vaddr), Num::B64, 0);
    if (buffer) {
      inst.src[1] = source(raw.operand(OpName::srsrc), Num::B32, 0);
      inst.src[2] = source(raw.operand(OpName::soffset), Num::B32, 0);
      RawBuffer form = raw.buffer();
      inst.addrMode = static_cast<uint8_t>(form.offset | form.index << 1);
      inst.lds = form.lds;
      inst.tfe = form.tfe;
      if (raw.has(OpName::format))
        inst.offset2 = static_cast<uint32_t>(raw.imm(OpName::format));
      if (inst.lds)
        inst.dst = Operand();
    } else {
      inst.src[1] = source(raw.operand(OpName::saddr), Num::B64, 0);
      if (raw.has(OpName::saddr) && !inst.src[1])
        inst.src[1] = Operand();
      // LLVM keeps the encoded field, two's complement.
      unsigned bits = arch().has.flatOffsetBits;
      inst.imm = (inst.imm & ((1ll << bits) - 1)) - ((inst.imm >> (bits - 1) & 1) << bits);
      // scale_offset (gfx1250) is bit 11 of LLVM's cache policy operand.
      if (arch().has.scaledOffsets && (raw.imm(OpName::cpol) & 0x800))
        inst.addrMode |= 8;
      // LLVM selects this form for a sign-extended index there, for a zero-extended one before.
      if (arch().has.scaledOffsets && inst.src[1])
        inst.addrMode |= 16;
    }
  }

  //===--- VOPD -----------------------------------------------------------===//

  void decodeDual() {
    RawDual names = raw.dual();
    const OpDef *dx = OpTable::instance().find(names.x), *dy = OpTable::instance().find(names.y);
    if (!dx || !dy) {
      inst.exec = execUnsupported;
      return;
    }
    program.halves.emplace_back();
    Inst &second = program.halves.back();
    half(inst, *dx, OpName::vdstX, OpName::src0X, OpName::vsrc1X, OpName::vsrc2X,
         OpName::src0X_modifiers, OpName::vsrc1X_modifiers, OpName::vsrc2X_modifiers, names.wide);
    half(second, *dy, OpName::vdstY, OpName::src0Y, OpName::vsrc1Y, OpName::vsrc2Y,
         OpName::src0Y_modifiers, OpName::vsrc1Y_modifiers, OpName::vsrc2Y_modifiers, names.wide);
    // v_dual_bitop2_b32 is the only half with an immediate.
    inst.imm = second.imm = raw.imm(OpName::bitop3);
    ext().second = &second;
    inst.exec = OpTable::instance().dual;
  }

  void half(Inst &h, const OpDef &def, OpName vdst, OpName src0, OpName src1, OpName src2,
            OpName mod0, OpName mod1, OpName mod2, bool wide) {
    h.def = &def;
    h.exec = def.exec;
    h.lane = def.lane;
    h.pc = inst.pc;
    h.length = inst.length;
    h.dst = destination(raw.operand(vdst));
    const OpName names[3] = {src0, src1, src2}, mods[3] = {mod0, mod1, mod2};
    for (unsigned n = 0; n < 3; ++n) {
      RawOperand r = raw.operand(names[n]);
      if (!r.present)
        continue;
      h.src[n] = source(r, def.src[n], bankOf(def, n));
      int64_t m = raw.imm(mods[n]);
      h.src[n].mods = static_cast<uint8_t>((m & kModNeg ? kNeg : 0) | (m & kModAbs ? kAbs : 0));
    }
    if (def.facts.literal)
      h.src[2] = constant(raw.imm(OpName::imm));
    if (def.flags & kTied)
      h.src[def.nsrc - 1] = h.dst;
    if (def.flags & kCarryIn)
      h.data = wide && h.src[2] ? h.src[2] : scalar(kVcc);
    h.plain = true;
  }

  Program &program;
  const RawInst &raw;
  Inst &inst;
};

} // namespace

Fidelity decodeInstruction(Program &program, const RawInst &raw, Inst &inst) {
  InstDecoder(program, raw, inst).run();
  if (inst.exec == execUnsupported)
    return Fidelity::Missing;
  bool approximate = inst.def && (inst.def->flags & (kApprox | kUncertain));
  if (inst.ext && inst.ext->second)
    approximate |= (inst.ext->second->def->flags & kApprox) != 0;
  return approximate ? Fidelity::Approximate : Fidelity::Exact;
}

} // namespace flysim
