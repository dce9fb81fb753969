//===- CodeObject.cpp - Checks of code objects -------------------------------===//

#include "CodeObject.h"

#include <cstdint>
#include <cstring>
#include <elf.h>

namespace flydsl::runtime {

namespace {

constexpr uint16_t kMachineAmdGpu = 224; // EM_AMDGPU; absent from older elf.h

bool inside(std::string_view image, uint64_t offset, uint64_t size) {
  return offset <= image.size() && size <= image.size() - offset;
}

template <typename Header> Header read(std::string_view image, uint64_t offset) {
  Header header; // copied: the image need not be aligned
  std::memcpy(&header, image.data() + offset, sizeof(header));
  return header;
}

} // namespace

std::string codeObjectProblem(std::string_view image) {
  if (!inside(image, 0, sizeof(Elf64_Ehdr)) || std::memcmp(image.data(), ELFMAG, SELFMAG) != 0)
    return "not an ELF file";
  const auto header = read<Elf64_Ehdr>(image, 0);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachineAmdGpu)
    return "not a 64-bit AMDGPU ELF file";
  const std::string truncated = "truncated or damaged ELF file";

  if (header.e_phnum && (header.e_phentsize != sizeof(Elf64_Phdr) ||
                         !inside(image, header.e_phoff, header.e_phnum * sizeof(Elf64_Phdr))))
    return truncated;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (!inside(image, segment.p_offset, segment.p_filesz))
      return truncated;
  }
  if (header.e_shnum && (header.e_shentsize != sizeof(Elf64_Shdr) ||
                         !inside(image, header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr))))
    return truncated;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = read<Elf64_Shdr>(image, header.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && !inside(image, section.sh_offset, section.sh_size))
      return truncated;
  }
  return {};
}

} // namespace flydsl::runtime
