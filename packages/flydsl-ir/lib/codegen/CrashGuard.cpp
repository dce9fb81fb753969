//===- CrashGuard.cpp - Turn fatal errors of LLVM into errors -------------===//
//
// Instruction selection reports what it cannot select with report_fatal_error, and lld its fatal
// errors with exit. Inside a CrashRecoveryContext both unwind to here instead of ending Python.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/Codegen.h"

#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/ErrorHandling.h"
#include <mutex>

using namespace llvm;

namespace {

/// Signal handlers are process-wide: they are installed while at least one guarded call runs, and
/// Python's own handlers are back in place afterwards.
std::mutex enableMutex;
unsigned enableCount = 0;

thread_local std::string fatalReason;

void onFatalError(void *, const char *reason, bool) {
  if (CrashRecoveryContext *current = CrashRecoveryContext::GetCurrent()) {
    fatalReason = reason;
    current->HandleExit(70);
  }
}

struct EnableScope {
  EnableScope() {
    std::lock_guard<std::mutex> lock(enableMutex);
    if (enableCount++ == 0) {
      CrashRecoveryContext::Enable();
      install_fatal_error_handler(onFatalError);
    }
  }
  ~EnableScope() {
    std::lock_guard<std::mutex> lock(enableMutex);
    if (--enableCount == 0) {
      remove_fatal_error_handler();
      CrashRecoveryContext::Disable();
    }
  }
};

} // namespace

Error mlir::fly::runGuarded(StringRef what, function_ref<void()> fn) {
  EnableScope scope;
  fatalReason.clear();
  CrashRecoveryContext context;
  if (context.RunSafely(fn))
    return Error::success();
  std::string reason = fatalReason.empty()
                           ? "internal failure (code " + std::to_string(context.RetCode) + ")"
                           : std::exchange(fatalReason, std::string());
  return createStringError(what + ": " + reason);
}
