//===- Bundle.cpp - finding the code object in an image -------------------===//
//
// An image is an ELF file, a clang offload bundle of several, or a compressed bundle.
//
//===----------------------------------------------------------------------===//

#include "loader/CodeObject.h"
#include "support/CrashGuard.h"
#include "support/Error.h"

#include "llvm/Support/Compression.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace flysim {

namespace {

constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kMagicSize = sizeof kBundleMagic - 1;
constexpr char kCompressedMagic[] = "CCOB";

template <class T> T readAt(const uint8_t *p) {
  T v;
  memcpy(&v, p, sizeof v);
  return v;
}

/// Header of a compressed bundle: sizes of the file and of the contents.
struct Compressed {
  size_t header = 0;
  uint64_t fileSize = 0, contentSize = 0;
  uint16_t method = 0; ///< 0 zlib, 1 zstd
};

bool readCompressed(const uint8_t *p, Compressed &out) {
  uint16_t version = readAt<uint16_t>(p + 4);
  out.method = readAt<uint16_t>(p + 6);
  switch (version) {
  case 2:
    out.header = 24;
    out.fileSize = readAt<uint32_t>(p + 8);
    out.contentSize = readAt<uint32_t>(p + 12);
    return true;
  case 3:
    out.header = 32;
    out.fileSize = readAt<uint64_t>(p + 8);
    out.contentSize = readAt<uint64_t>(p + 16);
    return true;
  default:
    return false;
  }
}

std::vector<uint8_t> decompress(const uint8_t *p, size_t knownSize) {
  Compressed c;
  if (!readCompressed(p, c))
    raise(FaultKind::InvalidImage, format("compressed offload bundle of unknown version %u",
                                          readAt<uint16_t>(p + 4)));
  if (c.fileSize < c.header || (knownSize && c.fileSize > knownSize) ||
      c.contentSize > (uint64_t(1) << 32))
    raise(FaultKind::InvalidImage, "truncated compressed offload bundle");
  llvm::ArrayRef<uint8_t> input(p + c.header, c.fileSize - c.header);
  llvm::SmallVector<uint8_t, 0> output;
  bool zstd = c.method == 1;
  if (zstd ? !llvm::compression::zstd::isAvailable() : !llvm::compression::zlib::isAvailable())
    raise(FaultKind::InvalidImage, format("offload bundle compressed with %s, which this build "
                                          "of the simulator cannot read",
                                          zstd ? "zstd" : "zlib"));
  llvm::Error e = zstd ? llvm::compression::zstd::decompress(input, output, c.contentSize)
                       : llvm::compression::zlib::decompress(input, output, c.contentSize);
  if (e)
    raise(FaultKind::InvalidImage,
          "compressed offload bundle: " + llvm::toString(std::move(e)));
  return std::vector<uint8_t>(output.begin(), output.end());
}

} // namespace

size_t elfSize(const void *data) {
  Elf64_Ehdr h;
  memcpy(&h, data, sizeof h);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64)
    return 0;
  auto *bytes = static_cast<const uint8_t *>(data);
  uint64_t end = h.e_shoff + uint64_t(h.e_shnum) * sizeof(Elf64_Shdr);
  for (unsigned i = 0; i < h.e_phnum; ++i) {
    Elf64_Phdr p;
    memcpy(&p, bytes + h.e_phoff + i * sizeof p, sizeof p);
    end = std::max<uint64_t>(end, p.p_offset + p.p_filesz);
  }
  for (unsigned i = 0; i < h.e_shnum; ++i) {
    Elf64_Shdr s;
    memcpy(&s, bytes + h.e_shoff + i * sizeof s, sizeof s);
    if (s.sh_type != SHT_NOBITS)
      end = std::max<uint64_t>(end, s.sh_offset + s.sh_size);
  }
  return end;
}

namespace {

std::vector<uint8_t> fromBundle(const uint8_t *bytes, size_t knownSize, const std::string &arch,
                                std::string &why) {
  uint64_t count = readAt<uint64_t>(bytes + kMagicSize);
  size_t pos = kMagicSize + 8;
  std::string seen;
  for (uint64_t i = 0; i < count && i < 256; ++i) {
    if (knownSize && pos + 24 > knownSize)
      break;
    uint64_t offset = readAt<uint64_t>(bytes + pos), size = readAt<uint64_t>(bytes + pos + 8),
             nameSize = readAt<uint64_t>(bytes + pos + 16);
    pos += 24;
    if (nameSize > 256 || (knownSize && pos + nameSize > knownSize))
      break;
    std::string triple(reinterpret_cast<const char *>(bytes + pos), nameSize);
    pos += nameSize;
    size_t dash = triple.rfind("gfx");
    std::string target = dash == std::string::npos ? "" : triple.substr(dash);
    target = target.substr(0, target.find(':'));
    seen += (seen.empty() ? "" : ", ") + triple;
    if (target != arch)
      continue;
    if (knownSize && (offset > knownSize || size > knownSize - offset))
      raise(FaultKind::InvalidImage, "truncated offload bundle");
    return std::vector<uint8_t>(bytes + offset, bytes + offset + size);
  }
  why = "the offload bundle has no code object for " + arch + " (it has " + seen + ")";
  return {};
}

std::vector<uint8_t> select(const void *data, size_t knownSize, const std::string &arch,
                            std::string &why) {
  auto *bytes = static_cast<const uint8_t *>(data);
  if (knownSize && knownSize < sizeof(Elf64_Ehdr))
    raise(FaultKind::InvalidImage, "the image is too small to be a code object");
  if (memcmp(bytes, kCompressedMagic, 4) == 0) {
    std::vector<uint8_t> plain = decompress(bytes, knownSize);
    if (plain.size() < kMagicSize + 8 || memcmp(plain.data(), kBundleMagic, kMagicSize) != 0)
      raise(FaultKind::InvalidImage, "the compressed image is no offload bundle");
    return fromBundle(plain.data(), plain.size(), arch, why);
  }
  if (memcmp(bytes, kBundleMagic, kMagicSize) == 0)
    return fromBundle(bytes, knownSize, arch, why);
  size_t size = knownSize ? knownSize : elfSize(data);
  if (!size)
    raise(FaultKind::InvalidImage, "the image is neither an ELF file nor an offload bundle");
  return std::vector<uint8_t>(bytes, bytes + size);
}

} // namespace

std::vector<uint8_t> selectImage(const void *data, size_t knownSize, const std::string &arch,
                                 std::string &why) {
  std::vector<uint8_t> image;
  uint64_t address = 0;
  installCrashHandler();
  // Without a size, a malformed header can point anywhere.
  if (!protectedCall([&] { image = select(data, knownSize, arch, why); }, address))
    raise(FaultKind::InvalidImage, "the image's headers point outside its memory");
  return image;
}

} // namespace flysim
