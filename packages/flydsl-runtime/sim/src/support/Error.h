//===- Error.h - simulator faults ------------------------------*- C++ -*-===//
//
// A fault raised while a simulated kernel runs. It travels as a C++ exception to
// the launch, which turns it into a HIP error code plus the text that
// flysimLastErrorMessage() returns.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_SUPPORT_ERROR_H
#define FLYSIM_SUPPORT_ERROR_H

#include <cstdint>
#include <memory>
#include <string>

namespace flysim {

/// What went wrong; mapped to a hipError_t by the HIP layer.
enum class FaultKind {
  InvalidImage,
  UnsupportedInstruction,
  IllegalAddress,
  MisalignedAddress,
  IllegalInstruction,
  BarrierDivergence,
  InstructionLimit,
  Trap,
  Interrupted,
  InvalidConfiguration,
  OutOfMemory,
};

/// The instruction that a fault is about, as data.
struct FaultSite {
  std::string what; ///< the fault without its place
  std::string instruction, source; ///< source: "file:line" or ""
  uint64_t pc = 0;                 ///< offset in the code object
  uint32_t group[3] = {0, 0, 0};
  unsigned wave = 0;
};

/// A fault with the text known where it was raised. `lane` is -1 when the fault is
/// not specific to one lane.
struct Fault {
  FaultKind kind;
  std::string text;
  int lane = -1;
  uint64_t address = 0; ///< of the access, if `bytes` is not 0
  unsigned bytes = 0;
  bool write = false;
  std::string finding; ///< of a check, about an element of an array: what it says, without the place
  std::shared_ptr<const FaultSite> site; ///< null if no wave was running
};

[[noreturn]] void raise(FaultKind kind, std::string text, int lane = -1);

/// printf-style formatting into a std::string.
std::string format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/// The message of the calling thread's last failed call ("" if none).
void setLastErrorMessage(std::string text);
const char *lastErrorMessage();

/// Tells a failed launch on stderr, as ROCm does, unless the program has asked for
/// messages (flysimLastErrorMessage) and tells them itself.
void tellFault(const Fault &fault);
void programReadsMessages();

} // namespace flysim

#endif
