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

/// Where the guarded call of this thread wants the reason of a fatal error.
thread_local std::string *fatalReason = nullptr;

void onFatalError(void *, const char *reason, bool) {
  if (CrashRecoveryContext *current = CrashRecoveryContext::GetCurrent()) {
    if (fatalReason)
      *fatalReason = reason;
    current->HandleExit(70);
  }
}

/// Signal handlers are process-wide, and other libraries have theirs (a simulated GPU for what
/// kernels touch). They chain as long as nobody takes handlers away that another has stacked his
/// own on: ours stay. Outside of guarded calls they pass on what they get.
void enable() {
  static std::mutex mutex;
  static bool handlesFatal = false;
  std::lock_guard<std::mutex> lock(mutex);
  CrashRecoveryContext::Enable();
  if (!std::exchange(handlesFatal, true))
    install_fatal_error_handler(onFatalError);
}

} // namespace

Error mlir::fly::runGuarded(StringRef what, function_ref<void()> fn, unsigned stackBytes) {
  enable();
  std::string reason;
  std::string *outer = fatalReason; // of a guarded call around this one
  auto body = [&] {
    fatalReason = &reason;
    fn();
  };
  CrashRecoveryContext context;
  bool survived = stackBytes ? context.RunSafelyOnThread(body, stackBytes) : context.RunSafely(body);
  fatalReason = outer;
  if (survived)
    return Error::success();
  if (reason.empty())
    reason = "internal failure (code " + std::to_string(context.RetCode) + ")";
  return createStringError(what + ": " + reason);
}
