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

void readSourceLines(const CodeObject &object, const std::vector<uint64_t> &addresses,
                     std::vector<std::string> &lines) {
  using namespace llvm;
  StringRef bytes(reinterpret_cast<const char *>(object.elf.data()), object.elf.size());
  auto file = object::ObjectFile::createELFObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file) {
    consumeError(file.takeError());
    return;
  }
  std::unique_ptr<DWARFContext> context = DWARFContext::create(**file);
  DILineInfoSpecifier spec(DILineInfoSpecifier::FileLineInfoKind::AbsoluteFilePath);
  for (size_t k = 0; k < addresses.size(); ++k) {
    auto info = context->getLineInfoForAddress(
        object::SectionedAddress{addresses[k], object::SectionedAddress::UndefSection}, spec);
    if (info && info->Line != 0)
      lines[k] = format("%s:%u", info->FileName.c_str(), info->Line);
  }
}

} // namespace

std::vector<std::string> sourceLines(const CodeObject &object, const std::vector<uint64_t> &addresses) {
  std::vector<std::string> lines(addresses.size());
  uint64_t crash = 0;
  // Debug information may be malformed; a message without the line is better than none.
  if (!protectedCall([&] { readSourceLines(object, addresses, lines); }, crash))
    lines.assign(addresses.size(), "");
  return lines;
}

std::string sourceLine(const CodeObject &object, uint64_t address) {
  return sourceLines(object, {address}).front();
}

} // namespace flysim
