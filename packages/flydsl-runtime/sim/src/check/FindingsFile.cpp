//===- FindingsFile.cpp - findings of a whole process, in a file ----------===//

#include "check/FindingsFile.h"

#include "exec/Machine.h"
#include "support/Error.h"
#include "support/Json.h"
#include "support/Settings.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <unistd.h>

namespace flysim {

namespace {

/// Different findings that one process writes at most; a program may launch forever.
constexpr size_t kMost = 1000;

class File {
public:
  static File &instance() {
    static auto *file = new File;
    return *file;
  }
  bool open() const { return descriptor >= 0; }

  /// Appends a line, unless one of that key has been written.
  void add(const std::string &key, std::string line) {
    std::lock_guard<std::mutex> lock(mutex);
    if (told.size() >= kMost || !told.insert(key).second)
      return;
    line += '\n';
    // One call: lines of several processes do not mix in a file that is opened for appending.
    if (write(descriptor, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
      raise(FaultKind::InvalidConfiguration,
            std::string("FLYDSL_SIM_FINDINGS: a finding cannot be written: ") + strerror(errno));
  }

private:
  File() {
    const char *name = textSetting("FLYDSL_SIM_FINDINGS");
    if (!name)
      return;
    descriptor = ::open(name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (descriptor < 0)
      raise(FaultKind::InvalidConfiguration,
            std::string("FLYDSL_SIM_FINDINGS=") + name + ": " + strerror(errno));
  }
  int descriptor = -1;
  std::mutex mutex; ///< guards `told`
  std::set<std::string> told;
};

/// The name of the check that a fault belongs to.
const char *checkOf(FaultKind kind) {
  switch (kind) {
  case FaultKind::IllegalAddress:
    return "oob"; // as the check of that name, which finds what hardware lets pass
  case FaultKind::MisalignedAddress:
    return "address";
  case FaultKind::BarrierDivergence:
    return "barrier";
  case FaultKind::InstructionLimit:
    return "progress";
  case FaultKind::UnsupportedInstruction:
  case FaultKind::IllegalInstruction:
    return "unsupported";
  case FaultKind::Trap:
    return "trap";
  default:
    return "launch";
  }
}

} // namespace

bool recordingFindings() { return File::instance().open(); }

void recordFinding(const std::string &key, const std::string &json) {
  File::instance().add("finding " + key, json);
}

void recordKernel(const Dispatch &d) {
  if (!recordingFindings())
    return;
  Json j;
  j.open('{').field("event", "kernel").field("kernel", d.kernel->name);
  j.field("arch", d.object->arch).field("process", uint64_t(getpid())).close('}');
  File::instance().add("kernel " + d.kernel->name + " " + d.object->arch, j.text);
}

void recordFault(const std::string &kernel, const std::string &arch, const Fault &fault) {
  if (!recordingFindings() || fault.kind == FaultKind::Interrupted)
    return;
  Json j;
  j.open('{').field("event", "fault").field("check", checkOf(fault.kind)).field("message", fault.site ? fault.site->what : fault.text);
  j.field("kernel", kernel).field("arch", arch);
  std::string key = "fault " + kernel + " ";
  if (fault.site) {
    const FaultSite &s = *fault.site;
    const char *access = !fault.bytes ? "" : fault.write ? "write" : "read";
    j.field("access", access).field("instruction", s.instruction).field("pc", s.pc);
    j.field("source", s.source).key("workgroup").open('[');
    for (unsigned k = 0; k < 3; ++k)
      j.value(uint64_t(s.group[k]));
    j.close(']').field("wave", uint64_t(s.wave));
    if (fault.lane >= 0)
      j.field("lane", uint64_t(fault.lane));
    key += std::to_string(s.pc);
  } else {
    key += fault.text;
  }
  if (fault.bytes)
    j.field("space", "global").field("address", fault.address).field("bytes", uint64_t(fault.bytes));
  j.close('}');
  File::instance().add(key, j.text);
}

} // namespace flysim
