//===- Disassembler.cpp - LLVM's AMDGPU disassembler ----------------------===//

#include "decode/Disassembler.h"

#include "support/CrashGuard.h"
#include "support/Error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCExpr.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <mutex>
#include <vector>

extern "C" {
void LLVMInitializeAMDGPUTargetInfo();
void LLVMInitializeAMDGPUTargetMC();
void LLVMInitializeAMDGPUDisassembler();
}

namespace flysim {

using namespace llvm;

namespace {

/// Register encodings carry flags above the index (SIDefines.h, HWEncoding).
enum : unsigned { kIndexMask = 0x3ff, kIsVgpr = 1u << 10, kIsAgpr = 1u << 11, kIsHi16 = 1u << 12 };

struct RegFacts {
  uint16_t encoding;
  uint8_t count;
  bool vgpr, agpr, null, hi16;
};

const Target &target() {
  static const Target *result = [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUDisassembler();
    std::string error;
    return TargetRegistry::lookupTarget(Triple("amdgcn-amd-amdhsa"), error);
  }();
  if (!result)
    raise(FaultKind::InvalidConfiguration, "LLVM has no AMDGPU target");
  return *result;
}

/// A tuple's name lists its registers: VGPR0_VGPR1_VGPR2. There are some 200 000 in all names: looked at by their starts.
size_t registersIn(StringRef name) {
  size_t count = 0;
  for (; !name.empty(); name = name.split('_').second)
    count += name.drop_front().starts_with("GPR") || name.starts_with("TTMP");
  return count;
}

std::vector<RegFacts> buildRegisterTable(const MCRegisterInfo &mri) {
  std::vector<RegFacts> table(mri.getNumRegs());
  for (unsigned r = 1; r < mri.getNumRegs(); ++r) {
    unsigned enc = mri.getEncodingValue(r);
    StringRef name = mri.getName(r);
    RegFacts &f = table[r];
    f.encoding = enc & kIndexMask;
    f.vgpr = (enc & kIsVgpr) != 0;
    f.agpr = (enc & kIsAgpr) != 0;
    f.hi16 = (enc & kIsHi16) != 0;
    f.null = name.starts_with("SGPR_NULL");
    const size_t parts = registersIn(name);
    f.count = static_cast<uint8_t>(parts > 1 ? parts : (name == "VCC" || name == "EXEC" ? 2 : 1));
    // LLVM numbers what no operand names (SCC, MODE) as s0.
    if (name == "SCC")
      f.encoding = RegisterUse::kScc;
    else if (f.encoding == 0 && !parts && !f.vgpr && !f.agpr)
      f.count = 0;
  }
  return table;
}

const std::vector<RegFacts> &registerTable(const MCRegisterInfo &mri) {
  static const std::vector<RegFacts> table = buildRegisterTable(mri);
  return table;
}

} // namespace

struct Disassembler::Impl {
  Triple triple{"amdgcn-amd-amdhsa"};
  MCTargetOptions options;
  std::unique_ptr<MCRegisterInfo> mri;
  std::unique_ptr<MCAsmInfo> mai;
  std::unique_ptr<MCSubtargetInfo> sti;
  std::unique_ptr<MCInstrInfo> mii;
  std::unique_ptr<MCContext> context;
  std::unique_ptr<MCDisassembler> dis;
  std::unique_ptr<MCInstPrinter> printer;
  MCInst inst;
  std::mutex mutex;

  /// False for reserved values of enumerated operands, which LLVM's disassembler accepts and its
  /// printer does not survive.
  bool operandsValid(const MCInst &i) const {
    static const struct {
      OpName name;
      int64_t max;
    } kEnums[] = {{OpName::matrix_a_fmt, 4}, {OpName::matrix_b_fmt, 4}, {OpName::dst_sel, 6},
                  {OpName::src0_sel, 6},     {OpName::src1_sel, 6},     {OpName::dst_unused, 2}};
    for (const auto &e : kEnums) {
      int at = AMDGPU::getNamedOperandIdx(i.getOpcode(), e.name);
      if (at < 0)
        continue;
      if (unsigned(at) >= i.getNumOperands() || !i.getOperand(at).isImm() ||
          i.getOperand(at).getImm() < 0 || i.getOperand(at).getImm() > e.max)
        return false;
    }
    return true;
  }

  /// Looks up an opcode whose operand positions are known, to detect an LLVM whose
  /// operand-name ids differ from OperandNames.h.
  void checkOperandNames() {
    for (unsigned op = 0; op < mii->getNumOpcodes(); ++op) {
      if (mii->getName(op) != "V_FMA_F32_e64_vi" && mii->getName(op) != "V_FMA_F32_vi")
        continue;
      auto at = [&](OpName n) { return AMDGPU::getNamedOperandIdx(op, n); };
      if (at(OpName::vdst) == 0 && at(OpName::src0_modifiers) == 1 && at(OpName::src0) == 2 &&
          at(OpName::src1) == 4 && at(OpName::src2_modifiers) == 5 && at(OpName::src2) == 6 &&
          at(OpName::clamp) == 7 && at(OpName::omod) == 8 && at(OpName::vdata) == -1)
        return;
    }
    raise(FaultKind::InvalidConfiguration,
          "the simulator was built with an LLVM whose operand names it does not know");
  }
};

Disassembler::Disassembler(const ArchInfo &arch, bool wave32) : impl(new Impl) {
  installCrashHandler();
  const Target &t = target();
  impl->mri.reset(t.createMCRegInfo(impl->triple));
  impl->mai.reset(t.createMCAsmInfo(*impl->mri, impl->triple, impl->options));
  std::string features;
  // The encodings of 16-bit operands can name both halves of a register whether or not the
  // compiler makes use of that.
  if (arch.has.true16)
    features = "+real-true16";
  if (arch.has.wave32 && !arch.has.vgprMsb)
    features += wave32 ? ",+wavefrontsize32" : ",+wavefrontsize64";
  impl->sti.reset(t.createMCSubtargetInfo(impl->triple, arch.name, features));
  impl->mii.reset(t.createMCInstrInfo());
  impl->context.reset(new MCContext(impl->triple, impl->mai.get(), impl->mri.get(),
                                    impl->sti.get()));
  impl->dis.reset(t.createMCDisassembler(*impl->sti, *impl->context));
  impl->printer.reset(
      t.createMCInstPrinter(impl->triple, 0, *impl->mai, *impl->mii, *impl->mri));
  if (!impl->dis || !impl->printer)
    raise(FaultKind::InvalidConfiguration, "LLVM has no AMDGPU disassembler");
  impl->checkOperandNames();
}

Disassembler::~Disassembler() = default;

namespace {

/// An instruction in the spelling that LLVM's decoder knows.
struct Spelling {
  ArrayRef<uint8_t> bytes;
  uint8_t buffer[16];
  uint32_t unlistedDpp = 0, dppWord = 0; ///< see RawInst

  /// Newer LLVMs put the constant 0 into the unused third source of the prefix of scaled WMMA, where
  /// this LLVM's decoder wants v0. And GCNDPPCombine makes DPP forms of 64-bit multiply-adds, which
  /// LLVM writes and cannot read: the form without DPP is decoded, the control kept aside.
  Spelling(const uint8_t *code, uint64_t size) : bytes(code, size) {
    uint32_t words[4] = {};
    memcpy(words, code, size < sizeof words ? size : sizeof words);
    uint32_t opcode = words[0] >> 16, field = words[1] & 0x1ff;
    bool wmma = size >= sizeof words && words[2] >> 24 == 0xcc; // the one that the prefix belongs to
    bool mad = opcode == 0xd6fa || opcode == 0xd6fb || opcode == 0xd6fe || opcode == 0xd6ff;
    if (wmma && (opcode == 0xcc35 || opcode == 0xcc3a))
      words[1] = (words[1] & ~(0x1ffu << 18)) | 0x100u << 18;
    else if (mad && size >= 12 && (field == 0xfa || field == 0xe9 || field == 0xea)) {
      unlistedDpp = field;
      dppWord = words[2];
      words[1] = (words[1] & ~0x1ffu) | 0x100u | (dppWord & 0xff);
    } else
      return;
    memcpy(buffer, words, sizeof words);
    bytes = ArrayRef<uint8_t>(buffer, size < sizeof words ? size : sizeof words);
  }
};

} // namespace

bool Disassembler::decode(const uint8_t *code, uint64_t size, uint64_t address, RawInst &out) {
  Spelling known(code, size);
  impl->inst = MCInst();
  uint64_t length = 0, crashAddress = 0;
  auto status = MCDisassembler::Fail;
  // Reserved encodings can crash LLVM (a literal where an instruction allows none).
  bool survived = protectedCall(
      [&] {
        status = impl->dis->getInstruction(impl->inst, length, known.bytes,
                                           address, nulls());
      },
      crashAddress);
  if (!survived)
    return false;
  out.length = static_cast<unsigned>(length) + (known.unlistedDpp ? 4 : 0);
  out.unlistedDpp = known.unlistedDpp;
  if (out.length >= 8)
    memcpy(&out.dppWord, code + out.length - 4, 4);
  if (status != MCDisassembler::Success || length == 0 || !impl->operandsValid(impl->inst))
    return false;
  out.opcodeId = impl->inst.getOpcode();
  if (out.skipOpcodes && out.skipOpcodes->count(out.opcodeId))
    return false;
  out.owner = this;
  out.opcode = impl->mii->getName(impl->inst.getOpcode()).str();
  const char *mnemonic = impl->printer->getMnemonic(impl->inst).first;
  std::string full = mnemonic ? mnemonic : "";
  // Some assembly strings go on with a fixed operand ("buffer_load_dword off, ").
  full.erase(std::min(full.size(), full.find_first_of(" \t")));
  out.isSdwa = out.has(OpName::src0_sel);
  out.isDual = out.has(OpName::vdstX);
  out.mnemonic = baseMnemonic(full);
  // What gfx90a writes as a modifier ("global_load_dword v0, off lds") its successors have in the name.
  size_t data = out.opcode.find("_LOAD_LDS_");
  if (data != std::string::npos && out.mnemonic.find("_lds_") == std::string::npos)
    out.mnemonic.insert(data + StringRef("_load_").size(), "lds_");
  return true;
}

std::string Disassembler::print(const uint8_t *code, uint64_t size, uint64_t address) {
  Spelling known(code, size);
  std::lock_guard<std::mutex> lock(impl->mutex);
  MCInst inst;
  uint64_t length = 0, crashAddress = 0;
  auto status = MCDisassembler::Fail;
  std::string text;
  raw_string_ostream os(text);
  bool survived = protectedCall(
      [&] {
        status = impl->dis->getInstruction(inst, length, known.bytes, address,
                                           nulls());
        if (status == MCDisassembler::Success && impl->operandsValid(inst))
          impl->printer->printInst(&inst, address, "", *impl->sti, os);
      },
      crashAddress);
  if (!survived || status != MCDisassembler::Success || !impl->operandsValid(inst)) {
    uint32_t word = 0;
    memcpy(&word, code, size < 4 ? size : 4);
    return format(".long 0x%08x", word);
  }
  if (known.unlistedDpp)
    text += format(" dpp:0x%08x", known.dppWord);
  size_t start = text.find_first_not_of(" \t");
  for (char &c : text)
    if (c == '\t')
      c = ' ';
  return start == std::string::npos ? text : text.substr(start);
}

RegisterUse Disassembler::registerUse(const uint8_t *code, uint64_t size, uint64_t address) {
  Spelling known(code, size);
  std::lock_guard<std::mutex> lock(impl->mutex);
  RegisterUse use;
  MCInst inst;
  uint64_t length = 0, crash = 0;
  auto status = MCDisassembler::Fail;
  bool survived = protectedCall(
      [&] { status = impl->dis->getInstruction(inst, length, known.bytes, address, nulls()); }, crash);
  if (!survived || status != MCDisassembler::Success)
    return use;
  const MCInstrDesc &desc = impl->mii->get(inst.getOpcode());
  const std::vector<RegFacts> &table = registerTable(*impl->mri);
  bool vectors = false;
  auto add = [&](std::vector<uint32_t> &list, MCRegister r) {
    const RegFacts &f = table[r.id()];
    uint32_t first = f.encoding + (f.vgpr ? RegisterUse::kVectors : 0) +
                     (f.agpr ? RegisterUse::kVectors + 256 : 0);
    for (unsigned k = 0; k < f.count; ++k)
      list.push_back(first + k);
    vectors |= f.vgpr || f.agpr;
  };
  for (unsigned k = 0; k < inst.getNumOperands(); ++k) {
    const MCOperand &o = inst.getOperand(k);
    if (!o.isReg() || !o.getReg())
      continue;
    add(k < desc.getNumDefs() ? use.defs : use.uses, o.getReg());
  }
  // Vector registers keep the lanes that are not active, halves the other half.
  use.whole = true;
  for (uint32_t r : use.defs)
    use.whole &= r < RegisterUse::kVectors;
  for (MCPhysReg r : desc.implicit_defs())
    add(use.defs, r);
  for (MCPhysReg r : desc.implicit_uses())
    add(use.uses, r);
  StringRef name = impl->mii->getName(inst.getOpcode());
  use.loads = desc.mayLoad();
  use.stores = desc.mayStore();
  use.lds = name.starts_with("DS_");
  if (name.starts_with("S_")) { // waits and barriers count as memory instructions in LLVM
    use.loads &= !use.defs.empty();
    use.stores &= name.contains("STORE") || name.contains("ATOMIC");
  }
  // What writes no register is there for something else; LLVM's own flag is set for all scalar code.
  use.acts = use.loads || use.stores || desc.isBranch() || desc.isCall() || desc.isReturn() ||
             desc.isTerminator() || use.defs.empty();
  use.known = true;
  for (const char *part : {"TIME", "GETREG", "SENDMSG_RTN", "S_GET_", "ISFIRST", "MOVREL", "GPR_IDX", "VGPR_MSB"})
    use.known &= !name.contains(part);
  return use;
}

std::string baseMnemonic(std::string m) {
  for (bool again = true; again;) {
    again = false;
    for (const char *suffix : {"_e32", "_e64", "_dpp", "_sdwa", "_dpp8"}) {
      std::string s = suffix;
      if (m.size() > s.size() && m.compare(m.size() - s.size(), s.size(), s) == 0) {
        m.erase(m.size() - s.size());
        again = true;
      }
    }
  }
  return m;
}

RawBuffer RawInst::buffer() const {
  StringRef name = opcode;
  RawBuffer b;
  bool both = name.contains("_BOTHEN");
  b.offset = both || name.contains("_OFFEN");
  b.index = both || name.contains("_IDXEN");
  b.lds = name.contains("_LDS_");
  b.tfe = name.contains("_TFE_");
  return b;
}

RawDual RawInst::dual() const {
  // V_DUAL_FMAC_F32_X_MUL_F32_e96_gfx12
  auto half = [](StringRef part) {
    std::string name = StringRef(("V_" + part).str()).lower();
    for (const char *extra : {"_e96", "_pseudo"})
      name.erase(std::min(name.find(extra), name.size()));
    return baseMnemonic(name);
  };
  StringRef name = opcode;
  auto [x, rest] = name.drop_front(7).split("_X_");
  return {half(x), half(rest.take_front(rest.rfind("_gfx"))), name.contains("_e96")};
}

RawOperand RawInst::at(unsigned index) const {
  RawOperand r;
  const MCInst &inst = owner->impl->inst;
  if (index >= inst.getNumOperands())
    return r;
  const MCOperand &op = inst.getOperand(index);
  if (op.isReg()) {
    if (!op.getReg())
      return r;
    const RegFacts &f = registerTable(*owner->impl->mri)[op.getReg().id()];
    r.isReg = true;
    r.encoding = f.encoding;
    r.count = f.count;
    r.vgpr = f.vgpr;
    r.agpr = f.agpr;
    r.null = f.null;
    r.hi16 = f.hi16;
  } else if (op.isImm()) {
    r.imm = op.getImm();
  } else if (op.isExpr()) {
    if (!op.getExpr()->evaluateAsAbsolute(r.imm))
      return r;
  } else {
    return r;
  }
  r.present = true;
  return r;
}

RawOperand RawInst::operand(OpName name) const {
  int index = AMDGPU::getNamedOperandIdx(owner->impl->inst.getOpcode(), name);
  return index < 0 ? RawOperand{} : at(index);
}

bool RawInst::has(OpName name) const {
  return AMDGPU::getNamedOperandIdx(owner->impl->inst.getOpcode(), name) >= 0;
}

int64_t RawInst::imm(OpName name, int64_t otherwise) const {
  RawOperand r = operand(name);
  return r.present && !r.isReg ? r.imm : otherwise;
}

unsigned RawInst::numOperands() const { return owner->impl->inst.getNumOperands(); }

unsigned RawInst::numDefs() const {
  return owner->impl->mii->get(owner->impl->inst.getOpcode()).getNumDefs();
}

} // namespace flysim
