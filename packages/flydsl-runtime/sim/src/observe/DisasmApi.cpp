//===- DisasmApi.cpp - a code object as text, its loops in the timing model ===//

#include "decode/Program.h"
#include "hip/Runtime.h"
#include "loader/SourceLines.h"
#include "observe/Access.h"
#include "observe/Timing.h"
#include "support/Json.h"

#include <algorithm>

namespace flysim {
namespace {

const ArchInfo &archOf(const CodeObject &object) {
  const ArchInfo *arch = findArch(object.arch);
  if (!arch)
    raise(FaultKind::InvalidImage, format("code object for %s; simulated are %s",
                                          object.arch.c_str(), knownArchs().c_str()));
  return *arch;
}

bool isWave32(const CodeObject &object, const ArchInfo &arch) {
  bool wave32 = arch.waveSize == 32;
  for (const auto &[name, kernel] : object.kernels)
    wave32 = kernel.wave32;
  return wave32;
}

/// One wave alone on its compute unit: every access hits L1, no two lanes conflict, the
/// branch back is free. Clocks of one iteration in the steady state, those in which the
/// matrix unit works, and those in which the wave stalled, by cause.
std::string estimateLoop(const void *image, size_t size, uint64_t from, uint64_t to, unsigned iterations) {
  std::unique_ptr<CodeObject> object = CodeObject::load(image, size);
  const ArchInfo &arch = archOf(*object);
  unsigned lanes = isWave32(*object, arch) ? 32 : 64;
  for (const CodeRange &range : object->code) {
    std::unique_ptr<Program> program = decodeProgram(*object, range, arch, lanes == 32);
    LaunchProfile p;
    p.arch = &arch;
    p.waveSize = lanes;
    p.grid[0] = p.grid[1] = p.grid[2] = 1;
    p.infos = classify(*program, lanes);
    p.counters.resize(p.infos.size());
    p.texts.resize(p.infos.size());
    std::vector<TraceOp> body;
    for (size_t n = 0; n < p.infos.size(); ++n) {
      const InstInfo &info = p.infos[n];
      uint64_t address = program->addressOf(program->insts[n]) - object->bias;
      if (address < from || address > to || info.unit == Unit::Branch)
        continue;
      TraceOp op;
      op.inst = static_cast<uint32_t>(n);
      op.cost = static_cast<uint16_t>(std::max(1u, lanes * info.bytes / 64));
      if (info.space == MemSpace::Lds) {
        MemoryAccess access;
        access.bytes = info.bytes;
        access.lanes = lanes == 64 ? ~0ull : 0xffffffffull;
        for (unsigned l = 0; l < lanes; ++l)
          access.addr[0][l] = uint64_t(l) * info.bytes;
        op.cost = static_cast<uint16_t>(info.pairs * ldsCost(access, info, arch, lanes).cycles);
      }
      p.texts[n] = program->text(program->insts[n]);
      body.push_back(op);
    }
    if (body.empty())
      continue;
    auto run = [&](unsigned count) {
      p.traces.assign(1, GroupTrace());
      p.traces[0].waves.resize(1);
      for (unsigned k = 0; k < count; ++k)
        p.traces[0].waves[0].ops.insert(p.traces[0].waves[0].ops.end(), body.begin(), body.end());
      return estimateTiming(p, false);
    };
    // The difference leaves out what the first iterations and the last loads take.
    TimingResult half = run(iterations), whole = run(2 * iterations);
    auto each = [&](uint64_t a, uint64_t b) { return (double(b) - double(a)) / iterations; };
    Json j;
    j.open('{').field("clocks", each(half.sampleCycles, whole.sampleCycles));
    j.field("matrix_busy", each(half.matrixBusy, whole.matrixBusy)).key("stall").open('{');
    for (unsigned k = 1; k < kStalls; ++k)
      if (whole.stall[k])
        j.field(stallName(static_cast<Stall>(k)), each(half.stall[k], whole.stall[k]));
    j.close('}').close('}');
    return j.text;
  }
  raise(FaultKind::InvalidConfiguration, format("no instruction between 0x%llx and 0x%llx",
                                        (unsigned long long)from, (unsigned long long)to));
}

std::string disassemble(const void *image, size_t size) {
  std::unique_ptr<CodeObject> object = CodeObject::load(image, size);
  const ArchInfo &arch = archOf(*object);
  bool wave32 = isWave32(*object, arch);
  Json j;
  j.open('[');
  for (const CodeRange &range : object->code) {
    std::unique_ptr<Program> program = decodeProgram(*object, range, arch, wave32);
    std::vector<uint64_t> addresses;
    for (const Inst &inst : program->insts)
      addresses.push_back(program->addressOf(inst) - object->bias);
    std::vector<std::string> lines = sourceLines(*object, addresses);
    std::string function;
    size_t n = 0;
    for (const Inst &inst : program->insts) {
      auto symbol = object->functions.find(program->addressOf(inst));
      if (symbol != object->functions.end())
        function = symbol->second;
      j.open('{').field("address", addresses[n]).field("function", function);
      j.field("text", program->text(inst)).field("source", lines[n++]);
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

/// Estimates one iteration of the loop whose instructions lie at ELF addresses `from` to
/// `to` (its branches left out), for one wave alone with perfect caches: a JSON object
/// {clocks, matrix_busy, stall: {cause: clocks}}. `*text` belongs to the library and is valid until
/// the calling thread calls again.
FLYSIM_API hipError_t flysimLoopEstimate(const void *image, size_t size, uint64_t from, uint64_t to,
                                         unsigned iterations, const char **text) {
  return guarded([&] {
    static thread_local std::string last;
    last = estimateLoop(image, size, from, to, std::max(1u, iterations));
    *text = last.c_str();
    return hipSuccess;
  });
}
