//===- Bundle.cpp - finding the code object in an image -------------------===//
//
// An image is an ELF file, a clang offload bundle of several, or a compressed bundle.
//
//===----------------------------------------------------------------------===//

#include "loader/CodeObject.h"
#include "memory/Memory.h"
#include "support/Arch.h"
#include "support/CrashGuard.h"
#include "support/Error.h"

#include "llvm/Support/Compression.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace flysim {

namespace {

constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kMagicSize = sizeof kBundleMagic - 1;
constexpr char kCompressedMagic[] = "CCOB";
/// What zlib can reach; zstd reaches more only on constant bytes.
constexpr uint64_t kMostCompression = 1032;

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

std::vector<uint8_t> decompress(const uint8_t *p, size_t size) {
  Compressed c;
  if (size < 32)
    raise(FaultKind::InvalidImage, "truncated compressed offload bundle");
  if (!readCompressed(p, c))
    raise(FaultKind::InvalidImage, format("compressed offload bundle of unknown version %u",
                                          readAt<uint16_t>(p + 4)));
  if (c.fileSize < c.header || c.fileSize > size)
    raise(FaultKind::InvalidImage, "truncated compressed offload bundle");
  // The contents are allocated before they are read: a header may not claim what its bytes
  // cannot hold.
  if (c.contentSize / kMostCompression > c.fileSize)
    raise(FaultKind::InvalidImage,
          format("a compressed offload bundle of %llu bytes claims to hold %llu",
                 (unsigned long long)c.fileSize, (unsigned long long)c.contentSize));
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

namespace {

/// Size of the ELF file at the start of `size` bytes, by its headers; 0 when it is no ELF.
/// What lies outside of the bytes does not count: reading the file will find it missing.
size_t elfSize(const uint8_t *bytes, size_t size) {
  auto h = readAt<Elf64_Ehdr>(bytes);
  if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_ident[EI_CLASS] != ELFCLASS64)
    return 0;
  uint64_t end = sizeof h;
  auto cover = [&](uint64_t offset, uint64_t count) {
    if (offset <= size && count <= size - offset)
      end = std::max(end, offset + count);
  };
  auto each = [&](uint64_t offset, unsigned count, auto entry, auto visit) {
    using Entry = decltype(entry);
    for (unsigned i = 0; i < count; ++i, offset += sizeof(Entry)) {
      if (offset > size || size - offset < sizeof(Entry))
        return;
      cover(offset, sizeof(Entry));
      visit(readAt<Entry>(bytes + offset));
    }
  };
  each(h.e_phoff, h.e_phnum, Elf64_Phdr(),
       [&](const Elf64_Phdr &p) { cover(p.p_offset, p.p_filesz); });
  each(h.e_shoff, h.e_shnum, Elf64_Shdr(), [&](const Elf64_Shdr &s) {
    if (s.sh_type != SHT_NOBITS)
      cover(s.sh_offset, s.sh_size);
  });
  return end;
}

std::vector<uint8_t> fromBundle(const uint8_t *bytes, size_t total, const std::string &arch,
                                std::string &why) {
  uint64_t count = readAt<uint64_t>(bytes + kMagicSize);
  size_t pos = kMagicSize + 8;
  std::string seen;
  for (uint64_t i = 0; i < count && i < 256; ++i) {
    if (total - pos < 24)
      break;
    uint64_t offset = readAt<uint64_t>(bytes + pos), size = readAt<uint64_t>(bytes + pos + 8),
             nameSize = readAt<uint64_t>(bytes + pos + 16);
    pos += 24;
    if (nameSize > 256 || nameSize > total - pos)
      break;
    std::string triple(reinterpret_cast<const char *>(bytes + pos), nameSize);
    pos += nameSize;
    size_t dash = triple.rfind("gfx");
    std::string target = dash == std::string::npos ? "" : triple.substr(dash);
    target = target.substr(0, target.find(':'));
    seen += (seen.empty() ? "" : ", ") + triple;
    if (target != arch)
      continue;
    if (offset > total || size > total - offset)
      raise(FaultKind::InvalidImage, "truncated offload bundle");
    return std::vector<uint8_t>(bytes + offset, bytes + offset + size);
  }
  why = "the offload bundle has no code object for " + arch + " (it has " + seen + ")";
  return {};
}

/// `size`: of the image, or of the readable memory that it starts.
std::vector<uint8_t> select(const uint8_t *bytes, size_t size, bool exact, const std::string &arch,
                            std::string &why) {
  if (size < sizeof(Elf64_Ehdr))
    raise(FaultKind::InvalidImage, "the image is too small to be a code object");
  if (memcmp(bytes, kCompressedMagic, 4) == 0) {
    std::vector<uint8_t> plain = decompress(bytes, size);
    if (plain.size() < kMagicSize + 8 || memcmp(plain.data(), kBundleMagic, kMagicSize) != 0)
      raise(FaultKind::InvalidImage, "the compressed image is no offload bundle");
    return fromBundle(plain.data(), plain.size(), arch, why);
  }
  if (memcmp(bytes, kBundleMagic, kMagicSize) == 0)
    return fromBundle(bytes, size, arch, why);
  size_t found = elfSize(bytes, size);
  if (!found)
    raise(FaultKind::InvalidImage, "the image is neither an ELF file nor an offload bundle");
  return std::vector<uint8_t>(bytes, bytes + (exact ? size : found));
}

} // namespace

std::string archOfImage(const void *data, size_t knownSize) {
  try {
    std::string why;
    for (const std::string &name : archNames()) {
      std::vector<uint8_t> image = selectImage(data, knownSize, name, why);
      // A bare ELF file comes whatever is asked for.
      if (!image.empty() && CodeObject::load(image.data(), image.size())->arch == name)
        return name;
    }
  } catch (const Fault &) {
    // Loading it will tell.
  }
  return "";
}

std::vector<uint8_t> selectImage(const void *data, size_t knownSize, const std::string &arch,
                                 std::string &why) {
  auto *bytes = static_cast<const uint8_t *>(data);
  // Without a size, the headers say how large the image is: within the memory that there is.
  size_t size = knownSize ? knownSize
                          : AddressSpace::instance().readableFrom(reinterpret_cast<uint64_t>(data));
  std::vector<uint8_t> image;
  uint64_t address = 0;
  installCrashHandler();
  // Another thread may take the memory away; a decompressor may fail on what it reads.
  if (!protectedCall([&] { image = select(bytes, size, knownSize != 0, arch, why); }, address))
    raise(FaultKind::InvalidImage, "the image cannot be read");
  return image;
}

} // namespace flysim
