//===- Breakpoints.cpp - stopping a wave to look at it --------------------===//
//
// A break observer calls back before an instruction runs, with the wave's state in
// place. The callback reads (and may write) registers and LDS, and says how to go on.
//
//===----------------------------------------------------------------------===//

#include "observe/Breakpoints.h"

#include "exec/Machine.h"
#include "hip/Runtime.h"
#include "loader/SourceLines.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/CRC.h"

#include <atomic>
#include <mutex>

/// What the callback sees. Pointers are valid during the call.
struct flysimWaveState {
  const char *kernel, *text, *source; ///< source: "file:line" or ""
  uint64_t address;                   ///< of the instruction, in the ELF file
  uint64_t exec;
  uint32_t workgroup[3], wave, lanes;
  uint32_t *sgprs, numSgprs; ///< operand encodings: s0.., 106 VCC, 126 EXEC
  uint32_t *vgprs, numVgprs; ///< rows of 64 lanes; a[i] is row 256 + i on gfx9
  uint8_t *lds;
  uint32_t ldsBytes, scc;
  const uint8_t *kernarg; ///< the segment of kernel arguments
  uint32_t kernargBytes;
  uint32_t checksum; ///< CRC-32 of the code object
};

/// 0: go on to the next breakpoint, 1: stop again at this wave's next instruction,
/// 2: abandon the launch.
using flysimBreakCallback = int (*)(flysimWaveState *);

/// Where to stop. Unused fields are -1 or empty.
struct flysimBreakpoint {
  int64_t address;       ///< ELF address of an instruction
  const char *source;    ///< end of "file:line"
  int64_t workgroup[3], wave;
};

namespace flysim {
namespace {

struct Breakpoint {
  int64_t address = -1, workgroup[3] = {-1, -1, -1}, wave = -1;
  std::string source;
};

std::mutex breakMutex; ///< one wave at a time is shown
std::vector<Breakpoint> breakpoints;
std::vector<uint8_t> matched; ///< of each breakpoint: some launch has an instruction for it
unsigned launches = 0;        ///< since the breakpoints were set
std::atomic<flysimBreakCallback> callback{nullptr};

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

class BreakLaunch final : public LaunchObserver {
public:
  explicit BreakLaunch(const Dispatch &d) : d(d) {
    std::lock_guard<std::mutex> lock(breakMutex);
    points = breakpoints;
    ++launches;
    llvm::ArrayRef<uint8_t> elf(reinterpret_cast<const uint8_t *>(d.object->elf.data()), d.object->elf.size());
    checksum = llvm::crc32(elf);
    // Instructions where some breakpoint may stop, so that the others cost one test.
    at.resize(d.program->insts.size());
    std::vector<uint64_t> addresses;
    for (const Inst &inst : d.program->insts)
      addresses.push_back(d.program->addressOf(inst) - d.object->bias);
    std::vector<std::string> lines = sourceLines(*d.object, addresses);
    std::string last;
    for (size_t i = 0; i < at.size(); ++i) {
      uint64_t address = addresses[i];
      const std::string &line = lines[i];
      for (size_t k = 0; k < points.size(); ++k) {
        const Breakpoint &p = points[k];
        // A source line stops where its code begins, not at each of its instructions.
        bool hit = p.address >= 0 ? uint64_t(p.address) == address
                                  : !p.source.empty() && endsWith(line, p.source) && line != last;
        if (p.address < 0 && p.source.empty())
          hit = i == d.program->indexOf(d.kernel->entryAddr);
        if (hit) {
          at[i].push_back(k);
          if (k < matched.size())
            matched[k] = 1;
        }
      }
      last = line;
    }
  }
  std::unique_ptr<GroupObserver> group() override;

  const Dispatch &d;
  std::vector<Breakpoint> points;
  std::vector<std::vector<size_t>> at;
  uint32_t checksum = 0;
};

class BreakGroup final : public GroupObserver {
public:
  explicit BreakGroup(const BreakLaunch &launch) : launch(launch) {}

  void startGroup(Workgroup &, uint64_t) override { stepping = nullptr; }

  void instruction(Wave &w, const Inst &inst) override {
    size_t index = static_cast<size_t>(&inst - w.program->insts.data());
    bool stop = stepping == &w;
    for (size_t k : launch.at[index])
      stop |= matches(launch.points[k], w);
    if (stop)
      show(w, inst);
  }

private:
  static bool matches(const Breakpoint &p, const Wave &w) {
    for (unsigned k = 0; k < 3; ++k)
      if (p.workgroup[k] >= 0 && p.workgroup[k] != int64_t(w.wg->id[k]))
        return false;
    return p.wave < 0 || p.wave == int64_t(w.id);
  }

  void show(Wave &w, const Inst &inst) {
    flysimBreakCallback call = callback.load();
    if (!call)
      return;
    const Dispatch &d = launch.d;
    uint64_t address = d.program->addressOf(inst) - d.object->bias;
    std::string text = d.program->text(inst), source = sourceLine(*d.object, address);
    std::lock_guard<std::mutex> lock(breakMutex);
    flysimWaveState s{d.kernel->name.c_str(), text.c_str(), source.c_str(), address, w.exec(),
                      {w.wg->id[0], w.wg->id[1], w.wg->id[2]}, w.id, w.lanes,
                      w.s, 128, w.v, d.program->arch->vgprRows, w.wg->lds, w.wg->ldsSize, w.scc, d.kernarg->data(),
                      static_cast<uint32_t>(d.kernarg->size()), launch.checksum};
    int next = call(&s);
    stepping = next == 1 ? &w : nullptr;
    if (next == 2)
      raise(FaultKind::Trap, "the launch was abandoned at a breakpoint");
  }

  const BreakLaunch &launch;
  const Wave *stepping = nullptr;
};

std::unique_ptr<GroupObserver> BreakLaunch::group() { return std::make_unique<BreakGroup>(*this); }

} // namespace

std::unique_ptr<LaunchObserver> breakLaunch(const Dispatch &dispatch) {
  return callback.load() ? std::make_unique<BreakLaunch>(dispatch) : nullptr;
}

} // namespace flysim

using namespace flysim;

/// Sets the breakpoints of later launches and the function that is called at them; a
/// null function removes them. One wave is shown at a time.
FLYSIM_API void flysimSetBreakpoints(const flysimBreakpoint *points, size_t count,
                                     flysimBreakCallback call) try {
  std::lock_guard<std::mutex> lock(breakMutex);
  breakpoints.clear();
  matched.assign(count, 0);
  launches = 0;
  for (size_t i = 0; i < count; ++i) {
    Breakpoint p;
    p.address = points[i].address;
    p.source = points[i].source ? points[i].source : "";
    std::copy(points[i].workgroup, points[i].workgroup + 3, p.workgroup);
    p.wave = points[i].wave;
    breakpoints.push_back(p);
  }
  callback.store(count ? call : nullptr);
} catch (const std::bad_alloc &) { // none is set, and none will have matched
  callback.store(nullptr);
  matched.clear();
}

/// Number of launches since the breakpoints were set. `found[i]` becomes 1 if some launch
/// had an instruction for breakpoint i, whether or not a wave came by.
FLYSIM_API unsigned flysimBreakpointsMatched(uint8_t *found, size_t count) {
  std::lock_guard<std::mutex> lock(breakMutex);
  for (size_t i = 0; i < count; ++i)
    found[i] = i < matched.size() ? matched[i] : 0;
  return launches;
}
