//===- CodeObject.cpp - AMDHSA code objects -------------------------------===//

#include "loader/CodeObject.h"

#include "hip/Printf.h"
#include "loader/MsgPack.h"
#include "memory/Memory.h"
#include "support/Arch.h"
#include "support/Error.h"

#include "llvm/Support/SHA256.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <set>
#include <string_view>

namespace flysim {

namespace {

constexpr uint16_t kMachineAmdgpu = 224;
constexpr uint8_t kOsAbiHsa = 64;
constexpr uint32_t kNoteMetadata = 32;
enum : uint32_t { kRelocAbs64 = 3, kRelocRelative64 = 13 };

[[noreturn]] void bad(std::string why) {
  raise(FaultKind::InvalidImage, "invalid code object: " + std::move(why));
}

/// Bounds-checked view of the file.
class Image {
public:
  Image(const uint8_t *data, size_t size) : data(data), size(size) {}

  template <typename T> T read(uint64_t offset) const {
    if (offset > size || size - offset < sizeof(T))
      bad(format("truncated (needs byte %llu of %zu)", (unsigned long long)offset, size));
    T value;
    memcpy(&value, data + offset, sizeof(T));
    return value;
  }
  const uint8_t *bytes(uint64_t offset, uint64_t count) const {
    if (offset > size || size - offset < count)
      bad(format("truncated (needs %llu bytes at %llu of %zu)", (unsigned long long)count,
                 (unsigned long long)offset, size));
    return data + offset;
  }
  std::string_view text(uint64_t offset) const {
    if (offset >= size)
      bad("string outside the file");
    auto *start = reinterpret_cast<const char *>(data + offset);
    const void *nul = memchr(start, 0, size - offset);
    if (!nul)
      bad("unterminated string");
    return {start, static_cast<size_t>(static_cast<const char *>(nul) - start)};
  }
  size_t fileSize() const { return size; }

private:
  const uint8_t *data;
  size_t size;
};

struct Symbol {
  std::string_view name;
  Elf64_Sym sym;
};

/// What reading a file may cost. Headers can name the same bytes many times (a thousand
/// segments or symbol tables of the whole file, a name of a megabyte for each symbol), so that
/// bounds of each alone bound neither time nor memory.
class Budget {
public:
  explicit Budget(size_t fileSize) : left(uint64_t(fileSize) * 8 + (1 << 16)) {}
  void charge(uint64_t bytes) {
    if (bytes > left)
      bad("its tables overlap: they name several times the bytes of the file");
    left -= bytes;
  }

private:
  uint64_t left;
};

struct Loader {
  Image image;
  Budget budget;
  CodeObject &object;
  Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments;
  std::vector<Elf64_Shdr> sections;

  Loader(const Image &img, CodeObject &obj)
      : image(img), budget(img.fileSize()), object(obj) {}

  void readHeaders() {
    header = image.read<Elf64_Ehdr>(0);
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64)
      bad("not a 64-bit ELF file");
    if (header.e_machine != kMachineAmdgpu)
      bad(format("ELF machine %u is not AMDGPU", header.e_machine));
    if (header.e_ident[EI_OSABI] != kOsAbiHsa)
      bad(format("ELF OS ABI %u is not AMDHSA", header.e_ident[EI_OSABI]));
    if (header.e_type != ET_DYN)
      bad("not a linked (ET_DYN) code object");
    const ArchInfo *arch = findArch(unsigned(header.e_flags & 0xff));
    if (!arch)
      bad(format("machine 0x%x in e_flags is not simulated; the simulator has %s",
                 header.e_flags & 0xff, knownArchs().c_str()));
    object.arch = arch->name;
    for (unsigned i = 0; i < header.e_phnum; ++i)
      segments.push_back(image.read<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
    for (unsigned i = 0; i < header.e_shnum; ++i)
      sections.push_back(image.read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
  }

  void mapSegments() {
    uint64_t lo = UINT64_MAX, hi = 0;
    for (const Elf64_Phdr &p : segments) {
      if (p.p_type != PT_LOAD)
        continue;
      if (p.p_memsz < p.p_filesz || p.p_vaddr + p.p_memsz < p.p_vaddr ||
          p.p_memsz > (uint64_t(1) << 32))
        bad("bad segment size");
      lo = std::min(lo, p.p_vaddr & ~uint64_t(0xfff));
      hi = std::max(hi, p.p_vaddr + p.p_memsz);
    }
    if (lo >= hi || hi - lo > (uint64_t(1) << 32))
      bad("no loadable segment");
    // Instruction prefetch and s_load may touch a little past the last byte.
    object.loadSize = hi - lo + 256;
    object.loadBase = AddressSpace::instance().allocate(object.loadSize, MemKind::Module, 0);
    if (!object.loadBase)
      raise(FaultKind::OutOfMemory, "no memory for the code object");
    object.bias = object.loadBase - lo;
    for (const Elf64_Phdr &p : segments) {
      if (p.p_type != PT_LOAD)
        continue;
      budget.charge(p.p_filesz);
      memcpy(reinterpret_cast<void *>(object.bias + p.p_vaddr),
             image.bytes(p.p_offset, p.p_filesz), p.p_filesz);
      if (p.p_flags & PF_X)
        object.code.push_back(CodeRange{object.bias + p.p_vaddr, p.p_filesz});
    }
  }

  /// Whether the image has `size` bytes at `vaddr`.
  bool contains(uint64_t vaddr, uint64_t size) const {
    uint64_t addr = object.bias + vaddr, end = object.loadBase + object.loadSize;
    return addr >= object.loadBase && addr <= end && size <= end - addr;
  }
  uint8_t *at(uint64_t vaddr, uint64_t size) {
    if (!contains(vaddr, size))
      bad(format("address 0x%llx outside the image", (unsigned long long)vaddr));
    return reinterpret_cast<uint8_t *>(object.bias + vaddr);
  }

  std::vector<Symbol> readSymbols() {
    std::vector<Symbol> symbols;
    for (uint32_t wanted : {SHT_DYNSYM, SHT_SYMTAB}) {
      for (const Elf64_Shdr &s : sections) {
        if (s.sh_type != wanted || s.sh_link >= sections.size())
          continue;
        const Elf64_Shdr &strings = sections[s.sh_link];
        uint64_t count = s.sh_size / sizeof(Elf64_Sym);
        for (uint64_t n = 0; n < count; ++n) {
          auto sym = image.read<Elf64_Sym>(s.sh_offset + n * sizeof(Elf64_Sym));
          std::string_view name = image.text(strings.sh_offset + sym.st_name);
          budget.charge(sizeof(Elf64_Sym) + name.size());
          symbols.push_back(Symbol{name, sym});
        }
      }
      // The dynamic table is complete for what a launch needs; the static one only
      // names local functions.
    }
    return symbols;
  }

  void relocate() {
    for (const Elf64_Shdr &s : sections) {
      if (s.sh_type != SHT_RELA || !(s.sh_flags & SHF_ALLOC))
        continue;
      if (s.sh_link >= sections.size())
        bad("relocations without symbol table");
      const Elf64_Shdr &table = sections[s.sh_link];
      uint64_t count = s.sh_size / sizeof(Elf64_Rela);
      for (uint64_t n = 0; n < count; ++n) {
        budget.charge(sizeof(Elf64_Rela));
        auto rela = image.read<Elf64_Rela>(s.sh_offset + n * sizeof(Elf64_Rela));
        uint32_t type = ELF64_R_TYPE(rela.r_info), index = ELF64_R_SYM(rela.r_info);
        uint64_t value;
        if (type == kRelocRelative64) {
          value = object.bias + rela.r_addend;
        } else if (type == kRelocAbs64) {
          auto sym = image.read<Elf64_Sym>(table.sh_offset + uint64_t(index) * sizeof(Elf64_Sym));
          if (sym.st_shndx == SHN_UNDEF) {
            const Elf64_Shdr &strings = sections.at(std::min<size_t>(table.sh_link,
                                                                     sections.size() - 1));
            bad("undefined symbol " + std::string(image.text(strings.sh_offset + sym.st_name)));
          }
          value = object.bias + sym.st_value + rela.r_addend;
        } else {
          bad(format("unsupported dynamic relocation type %u", type));
        }
        memcpy(at(rela.r_offset, 8), &value, 8);
      }
    }
  }

  MsgValue readMetadata() {
    for (const Elf64_Phdr &p : segments) {
      if (p.p_type != PT_NOTE)
        continue;
      uint64_t off = p.p_offset, end = p.p_offset + p.p_filesz;
      while (off + sizeof(Elf64_Nhdr) <= end) {
        budget.charge(sizeof(Elf64_Nhdr));
        auto note = image.read<Elf64_Nhdr>(off);
        uint64_t name = off + sizeof(Elf64_Nhdr);
        uint64_t desc = name + ((uint64_t(note.n_namesz) + 3) & ~uint64_t(3));
        if (note.n_type == kNoteMetadata) {
          MsgValue root;
          if (!parseMsgPack(image.bytes(desc, note.n_descsz), note.n_descsz, root))
            bad("malformed metadata note");
          return root;
        }
        off = desc + ((uint64_t(note.n_descsz) + 3) & ~uint64_t(3));
      }
    }
    return {};
  }

  void readDescriptor(const Symbol &s) {
    const uint8_t *kd = at(s.sym.st_value, 64);
    auto word = [&](unsigned off) {
      uint32_t v;
      memcpy(&v, kd + off, 4);
      return v;
    };
    KernelInfo k;
    k.name = std::string(s.name.substr(0, s.name.size() - 3));
    k.descriptorAddr = object.bias + s.sym.st_value;
    k.ldsBytes = word(0);
    k.scratchBytes = word(4);
    k.kernargBytes = std::min<uint32_t>(word(8), 1 << 16);
    int64_t entry;
    memcpy(&entry, kd + 16, 8);
    k.entryAddr = k.descriptorAddr + entry;
    k.rsrc3 = word(44);
    k.rsrc1 = word(48);
    k.rsrc2 = word(52);
    k.properties = static_cast<uint16_t>(word(56));
    k.preload = static_cast<uint16_t>(word(56) >> 16);
    k.wave32 = (k.properties >> 10) & 1;
    k.dynamicStack = (k.properties >> 11) & 1;
    object.kernels[k.name] = k;
  }

  void addMetadata(const MsgValue &root) {
    if (const MsgValue *formats = root.get("amdhsa.printf"))
      for (const MsgValue &entry : formats->items) {
        uint32_t id;
        PrintfFormat parsed;
        if (!parsePrintfFormat(std::string(entry.str), id, parsed))
          bad("malformed amdhsa.printf entry '" + std::string(entry.str.substr(0, 200)) + "'");
        object.printfFormats[id] = parsed;
      }
    const MsgValue *list = root.get("amdhsa.kernels");
    if (!list)
      return;
    std::set<std::string> described;
    for (const MsgValue &m : list->items) {
      std::string symbol = m.getStr(".symbol");
      if (symbol.size() < 3)
        continue;
      auto it = object.kernels.find(symbol.substr(0, symbol.size() - 3));
      if (it == object.kernels.end())
        continue;
      KernelInfo &k = it->second;
      // Sizes of one entry and arguments of another would not fit together.
      if (!described.insert(k.name).second)
        bad("two metadata entries for kernel " + k.name);
      k.maxWorkgroup = static_cast<uint32_t>(m.getInt(".max_flat_workgroup_size", 1024));
      int64_t kernarg = m.getInt(".kernarg_segment_size", k.kernargBytes);
      if (kernarg < 0 || kernarg > (1 << 16))
        bad(format("kernel %s has a kernarg segment of %lld bytes", k.name.c_str(),
                   (long long)kernarg));
      k.kernargBytes = static_cast<uint32_t>(kernarg);
      auto registers = [&](const char *key) {
        constexpr int64_t kMost = 4096; // more than any register file has of one kind
        const int64_t count = m.getInt(key);
        if (count < 0 || count > kMost)
          bad(format("kernel %s has %lld registers (%s)", k.name.c_str(), (long long)count, key));
        return static_cast<uint32_t>(count);
      };
      k.vgprs = registers(".vgpr_count");
      k.sgprs = registers(".sgpr_count");
      k.agprs = registers(".agpr_count");
      auto triple = [&](const char *key, uint32_t *out) {
        const MsgValue *v = m.get(key);
        for (unsigned i = 0; v && i < 3 && i < v->items.size(); ++i)
          out[i] = static_cast<uint32_t>(v->items[i].integer);
      };
      triple(".reqd_workgroup_size", k.reqdWorkgroup);
      triple(".cluster_dims", k.clusterDims);
      if (const MsgValue *args = m.get(".args"))
        for (const MsgValue &a : args->items) {
          KernelArg arg{static_cast<uint32_t>(a.getInt(".offset")),
                        static_cast<uint32_t>(a.getInt(".size")), a.getStr(".name"),
                        a.getStr(".value_kind")};
          if (uint64_t(arg.offset) + arg.size > k.kernargBytes ||
              (arg.hidden() && arg.size > 8))
            bad("argument outside the kernarg segment of " + k.name);
          if (arg.hidden() && arg.size != 8 && arg.isPointer())
            bad(format("the hidden pointer %s of %s has %u bytes", arg.kind.c_str(),
                       k.name.c_str(), arg.size));
          k.args.push_back(arg);
        }
    }
  }

  void run() {
    readHeaders();
    mapSegments();
    relocate();
    for (const Symbol &s : readSymbols()) {
      if (s.sym.st_shndx == SHN_UNDEF || s.sym.st_shndx >= SHN_LORESERVE)
        continue; // no address of the image
      unsigned type = ELF64_ST_TYPE(s.sym.st_info);
      bool isDescriptor = s.name.size() > 3 && s.name.compare(s.name.size() - 3, 3, ".kd") == 0;
      if (type == STT_FUNC)
        object.functions[object.bias + s.sym.st_value] = std::string(s.name);
      else if (isDescriptor && type == STT_OBJECT && s.sym.st_size == 64)
        readDescriptor(s);
      else if (type == STT_OBJECT && !s.name.empty()) {
        if (!contains(s.sym.st_value, s.sym.st_size))
          bad("global " + std::string(s.name.substr(0, 200)) + " lies outside the image");
        object.globals[std::string(s.name)] =
            GlobalSymbol{object.bias + s.sym.st_value, s.sym.st_size};
      }
    }
    addMetadata(readMetadata());
  }
};

} // namespace

std::unique_ptr<CodeObject> CodeObject::load(const void *data, size_t size) {
  std::unique_ptr<CodeObject> object(new CodeObject);
  auto *bytes = static_cast<const uint8_t *>(data);
  object->elf.assign(bytes, bytes + size);
  Loader(Image(object->elf.data(), size), *object).run();
  return object;
}

const std::string &CodeObject::digest() const {
  std::call_once(digestOnce, [this] {
    const auto hash = llvm::SHA256::hash(elf);
    for (unsigned k = 0; k < 8; ++k)
      digestText += format("%02x", hash[k]);
  });
  return digestText;
}

CodeObject::~CodeObject() {
  if (loadBase)
    AddressSpace::instance().release(loadBase);
}

} // namespace flysim
