//===- CrashGuard.h - host memory faults as errors -------------*- C++ -*-===//
//
// Simulated code reaches host memory directly, and LLVM survives neither every malformed
// instruction nor every malformed debug section. Work done under protectedCall() turns a
// fault of the calling thread, a failed assertion or a fatal error of LLVM among them, into
// a return value. Signals of other code go to the handler that was there before.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_SUPPORT_CRASHGUARD_H
#define FLYSIM_SUPPORT_CRASHGUARD_H

#include <csetjmp>
#include <cstdint>

namespace flysim {

struct CrashGuard {
  sigjmp_buf env;
  uint64_t address = 0; ///< that the faulting instruction accessed
  CrashGuard *outer = nullptr;
};

/// The calling thread's innermost guard.
CrashGuard *&activeGuard();
/// Makes sure that our signal handler is installed; cheap when it is.
void installCrashHandler();

/// Runs `work`; false if it crashed, with the address in `address`. C++ exceptions
/// pass through. Objects that `work` created are abandoned after a crash.
template <class F> bool protectedCall(F &&work, uint64_t &address) {
  CrashGuard guard;
  CrashGuard *&active = activeGuard();
  guard.outer = active;
  if (sigsetjmp(guard.env, 0)) {
    active = guard.outer;
    address = guard.address;
    return false;
  }
  active = &guard;
  struct Restore {
    CrashGuard *&active, *outer;
    ~Restore() { active = outer; }
  } restore{active, guard.outer};
  work();
  return true;
}

} // namespace flysim

#endif
