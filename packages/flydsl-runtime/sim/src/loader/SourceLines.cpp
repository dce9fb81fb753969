//===- SourceLines.cpp - DWARF line information ---------------------------===//

#include "loader/SourceLines.h"

#include "support/CrashGuard.h"
#include "support/Error.h"

#include "llvm/DebugInfo/DIContext.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

namespace flysim {

namespace {

std::string readSourceLine(const CodeObject &object, uint64_t address) {
  using namespace llvm;
  StringRef bytes(reinterpret_cast<const char *>(object.elf.data()), object.elf.size());
  auto file = object::ObjectFile::createELFObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file) {
    consumeError(file.takeError());
    return "";
  }
  std::unique_ptr<DWARFContext> context = DWARFContext::create(**file);
  DILineInfoSpecifier spec(DILineInfoSpecifier::FileLineInfoKind::AbsoluteFilePath);
  auto info = context->getLineInfoForAddress(
      object::SectionedAddress{address, object::SectionedAddress::UndefSection}, spec);
  if (!info || info->Line == 0)
    return "";
  return format("%s:%u", info->FileName.c_str(), info->Line);
}

} // namespace

std::string sourceLine(const CodeObject &object, uint64_t address) {
  std::string line;
  uint64_t crash = 0;
  // Debug information may be malformed; a message without the line is better than none.
  if (!protectedCall([&] { line = readSourceLine(object, address); }, crash))
    return "";
  return line;
}

} // namespace flysim
