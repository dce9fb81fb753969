//===- SourceLines.cpp - DWARF line information ---------------------------===//

#include "loader/SourceLines.h"

#include "support/CrashGuard.h"
#include "support/Error.h"

#include <cstring>
#include <elf.h>

#include "llvm/DebugInfo/DIContext.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

namespace flysim {

namespace {

/// Whether the compressed sections of the file are what they say. LLVM takes memory by their
/// headers and ends the process when there is not so much.
bool compressionPlausible(const std::vector<uint8_t> &elf) {
  constexpr uint64_t kMostCompression = 1032; // of zlib
  auto at = [&](uint64_t offset, auto &out) {
    bool fits = offset <= elf.size() && sizeof out <= elf.size() - offset;
    if (fits)
      memcpy(&out, elf.data() + offset, sizeof out);
    return fits;
  };
  Elf64_Ehdr header;
  if (!at(0, header))
    return false;
  uint64_t total = 0;
  for (unsigned n = 0; n < header.e_shnum; ++n) {
    Elf64_Shdr s;
    if (!at(header.e_shoff + n * sizeof s, s))
      return false;
    if (!(s.sh_flags & SHF_COMPRESSED))
      continue;
    Elf64_Chdr c;
    constexpr uint32_t kZlib = 1, kZstd = 2;
    if (!at(s.sh_offset, c) || (c.ch_type != kZlib && c.ch_type != kZstd) ||
        c.ch_size / kMostCompression > s.sh_size)
      return false;
    total += c.ch_size;
  }
  return total / kMostCompression <= elf.size();
}

void readSourceLines(const CodeObject &object, const std::vector<uint64_t> &addresses,
                     std::vector<std::string> &lines) {
  using namespace llvm;
  if (!compressionPlausible(object.elf))
    return;
  StringRef bytes(reinterpret_cast<const char *>(object.elf.data()), object.elf.size());
  auto file = object::ObjectFile::createELFObjectFile(MemoryBufferRef(bytes, "kernel"));
  if (!file) {
    consumeError(file.takeError());
    return;
  }
  std::unique_ptr<DWARFContext> context = DWARFContext::create(
      **file, DWARFContext::ProcessDebugRelocations::Process, nullptr, "",
      [](Error e) { consumeError(std::move(e)); }, [](Error e) { consumeError(std::move(e)); });
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
  std::lock_guard<std::mutex> lock(object.known.mutex);
  auto &known = object.known.lines;
  std::vector<uint64_t> others;
  for (uint64_t address : addresses)
    if (!known.count(address))
      others.push_back(address);
  if (!others.empty()) {
    std::vector<std::string> found(others.size());
    uint64_t crash = 0;
    // Debug information may be malformed; a message without the line is better than none.
    if (!protectedCall([&] { readSourceLines(object, others, found); }, crash))
      found.assign(others.size(), "");
    for (size_t k = 0; k < others.size(); ++k)
      known[others[k]] = std::move(found[k]);
  }
  std::vector<std::string> lines;
  for (uint64_t address : addresses)
    lines.push_back(known.at(address));
  return lines;
}

std::string sourceLine(const CodeObject &object, uint64_t address) {
  return sourceLines(object, {address}).front();
}

} // namespace flysim
