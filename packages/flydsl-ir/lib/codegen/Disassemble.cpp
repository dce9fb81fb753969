//===- Disassemble.cpp - Text of an AMDGPU code object --------------------===//
#include "fly_codegen/Codegen.h"

#include "llvm/MC/MCAsmInfo.h"
#include "llvm/MC/MCContext.h"
#include "llvm/MC/MCDisassembler/MCDisassembler.h"
#include "llvm/MC/MCInst.h"
#include "llvm/MC/MCInstPrinter.h"
#include "llvm/MC/MCInstrInfo.h"
#include "llvm/MC/MCRegisterInfo.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/MCTargetOptions.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>
#include <optional>

using namespace llvm;
using namespace llvm::object;

namespace {

/// The MC objects for one processor; members are in order of dependency.
struct Printer {
  std::unique_ptr<MCRegisterInfo> registers;
  std::unique_ptr<MCAsmInfo> asmInfo;
  std::unique_ptr<MCInstrInfo> instructions;
  std::unique_ptr<MCSubtargetInfo> subtarget;
  std::unique_ptr<MCContext> context;
  std::unique_ptr<MCDisassembler> disassembler;
  std::unique_ptr<MCInstPrinter> printer;
};

Expected<Printer> makePrinter(StringRef cpu) {
  mlir::fly::initializeAMDGPUTarget();
  Triple triple("amdgcn-amd-amdhsa");
  std::string reason;
  const Target *target = TargetRegistry::lookupTarget(triple, reason);
  if (!target)
    return createStringError("the AMDGPU target is missing: " + reason);
  Printer p;
  MCTargetOptions options;
  p.registers.reset(target->createMCRegInfo(triple));
  p.asmInfo.reset(target->createMCAsmInfo(*p.registers, triple, options));
  p.instructions.reset(target->createMCInstrInfo());
  p.subtarget.reset(target->createMCSubtargetInfo(triple, cpu, ""));
  p.context = std::make_unique<MCContext>(triple, p.asmInfo.get(), p.registers.get(),
                                          p.subtarget.get());
  p.disassembler.reset(target->createMCDisassembler(*p.subtarget, *p.context));
  p.printer.reset(target->createMCInstPrinter(triple, p.asmInfo->getAssemblerDialect(),
                                              *p.asmInfo, *p.instructions, *p.registers));
  if (!p.disassembler || !p.printer)
    return createStringError("no disassembler for '" + cpu + "'");
  return std::move(p);
}

/// Symbols of a section, by address; kernel entries and device functions.
Expected<std::multimap<uint64_t, StringRef>> sectionSymbols(const ELFObjectFileBase &object,
                                                            const SectionRef &section) {
  std::multimap<uint64_t, StringRef> symbols;
  for (const ELFSymbolRef &symbol : object.symbols()) {
    Expected<section_iterator> where = symbol.getSection();
    if (!where)
      return where.takeError();
    if (*where == object.section_end() || **where != section ||
        symbol.getELFType() != ELF::STT_FUNC)
      continue;
    Expected<StringRef> name = symbol.getName();
    Expected<uint64_t> address = symbol.getAddress();
    if (!name || !address)
      return joinErrors(name.takeError(), address.takeError());
    symbols.emplace(*address, *name);
  }
  return symbols;
}

Error printSection(const ELFObjectFileBase &object, const SectionRef &section, Printer &p,
                   raw_ostream &os) {
  Expected<StringRef> contents = section.getContents();
  if (!contents)
    return contents.takeError();
  auto symbols = sectionSymbols(object, section);
  if (!symbols)
    return symbols.takeError();
  ArrayRef<uint8_t> bytes = arrayRefFromStringRef(*contents);
  uint64_t base = section.getAddress();
  for (uint64_t offset = 0, size = 0; offset < bytes.size(); offset += size) {
    uint64_t address = base + offset;
    auto [first, last] = symbols->equal_range(address);
    for (auto it = first; it != last; ++it)
      os << '\n' << format_hex_no_prefix(address, 16) << " <" << it->second << ">:\n";
    MCInst inst;
    std::string comment;
    raw_string_ostream comments(comment);
    auto status = p.disassembler->getInstruction(inst, size, bytes.drop_front(offset), address,
                                                 comments);
    if (status == MCDisassembler::Fail) {
      size = std::min<uint64_t>(4, bytes.size() - offset);
      os << "\t.byte";
      for (uint64_t i = 0; i < size; ++i)
        os << (i ? "," : "") << ' ' << format_hex(bytes[offset + i], 4);
    } else {
      std::string text;
      raw_string_ostream line(text);
      p.printer->printInst(&inst, address, "", *p.subtarget, line);
      os << '\t' << StringRef(text).ltrim();
    }
    os << " // " << format_hex_no_prefix(address, 12) << ':';
    for (uint64_t i = 0; i + 4 <= size; i += 4)
      os << ' ' << format_hex_no_prefix(support::endian::read32le(&bytes[offset + i]), 8, true);
    os << '\n';
  }
  return Error::success();
}

} // namespace

/// The text of the executable sections.
static Expected<std::string> disassembleUnguarded(StringRef data) {
  auto binary = ObjectFile::createObjectFile(MemoryBufferRef(data, "code object"));
  if (!binary)
    return binary.takeError();
  auto *object = dyn_cast<ELFObjectFileBase>(binary->get());
  if (!object || object->getArch() != Triple::amdgcn)
    return createStringError("not an AMDGPU ELF file");
  std::optional<StringRef> cpu = object->tryGetCPUName();
  if (!cpu)
    return createStringError("the ELF header names an unknown processor");
  auto printer = makePrinter(*cpu);
  if (!printer)
    return printer.takeError();
  std::string text;
  raw_string_ostream os(text);
  os << "; " << *cpu << '\n';
  for (const SectionRef &section : object->sections()) {
    if (!section.isText() || section.getSize() == 0)
      continue;
    Expected<StringRef> name = section.getName();
    if (!name)
      return name.takeError();
    os << "\n; section " << *name << '\n';
    if (Error error = printSection(*object, section, *printer, os))
      return std::move(error);
  }
  return text;
}

Expected<std::string> mlir::fly::disassemble(StringRef data) {
  // LLVM accepts some reserved encodings and fails when it prints them.
  std::optional<Expected<std::string>> text;
  if (Error crash = runGuarded("disassembling the code object",
                               [&] { text.emplace(disassembleUnguarded(data)); }))
    return std::move(crash);
  return std::move(*text);
}
