//===- CodeObject.h - AMDHSA code objects ----------------------*- C++ -*-===//
//
// ELF loading, relocation and kernel metadata. A loaded code object lives in
// simulated device memory, so that kernels may take addresses of its globals.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_LOADER_CODEOBJECT_H
#define FLYSIM_LOADER_CODEOBJECT_H

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace flysim {

/// One kernel argument as the metadata describes it.
struct KernelArg {
  uint32_t offset = 0, size = 0;
  std::string name, kind; ///< kind: "by_value", "global_buffer", "hidden_..."

  bool hidden() const { return kind.compare(0, 7, "hidden_") == 0; }
  /// A hidden argument that the runtime fills with an address.
  bool isPointer() const {
    return kind == "hidden_printf_buffer" || kind == "hidden_hostcall_buffer" ||
           kind == "hidden_heap_v1" || kind == "hidden_multigrid_sync_arg";
  }
};

/// The fields of the 64-byte kernel descriptor plus the kernel's metadata.
struct KernelInfo {
  std::string name;
  uint64_t descriptorAddr = 0;
  uint64_t entryAddr = 0;
  uint32_t ldsBytes = 0, scratchBytes = 0, kernargBytes = 0;
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0, preload = 0;
  uint32_t maxWorkgroup = 1024;
  uint32_t reqdWorkgroup[3] = {0, 0, 0};
  uint32_t vgprs = 0, sgprs = 0, agprs = 0;
  uint32_t clusterDims[3] = {0, 0, 0};
  bool wave32 = false, dynamicStack = false;
  std::vector<KernelArg> args;

  uint32_t userSgprs(bool many) const { return (rsrc2 >> 1) & (many ? 63 : 31); }
  unsigned waveSize() const { return wave32 ? 32 : 64; }
};

struct GlobalSymbol {
  uint64_t addr = 0, size = 0;
};

/// A range of executable code inside the loaded image.
struct CodeRange {
  uint64_t addr = 0, size = 0;
};

/// A format of the device's printf: the sizes of its arguments and the text.
struct PrintfFormat {
  std::vector<uint32_t> sizes;
  std::string text;
};

class CodeObject {
public:
  /// Loads an ELF image; raises FaultKind::InvalidImage with the reason.
  static std::unique_ptr<CodeObject> load(const void *data, size_t size);
  ~CodeObject();

  std::string arch;                          ///< "gfx942"
  std::map<std::string, KernelInfo> kernels; ///< by name without ".kd"
  std::map<std::string, GlobalSymbol> globals;
  std::map<uint32_t, PrintfFormat> printfFormats; ///< by record id
  std::vector<CodeRange> code;
  std::map<uint64_t, std::string> functions; ///< address -> symbol
  std::vector<uint8_t> elf;                  ///< the file, for debug information
  uint64_t loadBase = 0, loadSize = 0;
  /// image address = ELF virtual address + bias
  uint64_t bias = 0;

  /// What tells the file from others: the first 16 hexadecimal digits of its SHA-256. Computed when it is first asked
  /// for. Thread safe.
  const std::string &digest() const;

  /// Source lines that were asked for, by address: looking for them takes long (SourceLines.h).
  struct KnownLines {
    std::mutex mutex;
    std::unordered_map<uint64_t, std::string> lines;
  };
  mutable KnownLines known;

private:
  CodeObject() = default;
  mutable std::once_flag digestOnce;
  mutable std::string digestText;
};

/// The first simulated architecture that an image has code for, as selectImage takes it; "" if
/// there is none, or if it is no image.
std::string archOfImage(const void *data, size_t knownSize);
/// The code object for `arch` in an ELF file or a clang offload bundle (compressed ones
/// too). Empty, with the reason in `why`, when a bundle has none; raises InvalidImage for
/// anything else. `knownSize` 0: the image says itself how large it is.
std::vector<uint8_t> selectImage(const void *data, size_t knownSize, const std::string &arch,
                                 std::string &why);

} // namespace flysim

#endif
