//===- DisasmApi.cpp - a code object as text ------------------------------===//

#include "decode/Program.h"
#include "hip/Runtime.h"
#include "loader/SourceLines.h"
#include "support/Json.h"

namespace flysim {
namespace {

std::string disassemble(const void *image, size_t size) {
  std::unique_ptr<CodeObject> object = CodeObject::load(image, size);
  const ArchInfo *arch = findArch(object->arch);
  if (!arch)
    raise(FaultKind::InvalidImage, format("code object for %s; simulated are %s",
                                          object->arch.c_str(), knownArchs().c_str()));
  bool wave32 = arch->waveSize == 32;
  for (const auto &[name, kernel] : object->kernels)
    wave32 = kernel.wave32;
  Json j;
  j.open('[');
  for (const CodeRange &range : object->code) {
    std::unique_ptr<Program> program = decodeProgram(*object, range, *arch, wave32);
    std::string function;
    for (const Inst &inst : program->insts) {
      auto symbol = object->functions.find(program->addressOf(inst));
      if (symbol != object->functions.end())
        function = symbol->second;
      uint64_t address = program->addressOf(inst) - object->bias;
      j.open('{').field("address", address).field("function", function);
      j.field("text", program->text(inst)).field("source", sourceLine(*object, address));
      j.close('}');
    }
  }
  j.close(']');
  return j.text;
}

} // namespace
} // namespace flysim

using namespace flysim;

/// Disassembles an ELF image (`size` bytes) to a JSON list of {address, function, text,
/// source}. `*text` belongs to the library and is valid until the calling thread calls
/// again.
FLYSIM_API hipError_t flysimDisassemble(const void *image, size_t size, const char **text) {
  return guarded([&] {
    static thread_local std::string last;
    last = disassemble(image, size);
    *text = last.c_str();
    return hipSuccess;
  });
}
