//===- CrashGuard.cpp - host memory faults as errors ----------------------===//

#include "support/CrashGuard.h"

#include <csignal>
#include <cstring>
#include <mutex>

namespace flysim {

namespace {

constexpr int kSignals[] = {SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSEGV}; // the last one tells
constexpr int kCount = sizeof kSignals / sizeof kSignals[0];
struct sigaction previous[kCount];

void handler(int signal, siginfo_t *info, void *context) {
  if (CrashGuard *guard = activeGuard()) {
    guard->address = reinterpret_cast<uint64_t>(info->si_addr);
    siglongjmp(guard->env, 1);
  }
  for (int i = 0; i < kCount; ++i) {
    if (kSignals[i] != signal)
      continue;
    const struct sigaction &old = previous[i];
    if (old.sa_flags & SA_SIGINFO) {
      old.sa_sigaction(signal, info, context);
    } else if (old.sa_handler == SIG_DFL || old.sa_handler == SIG_IGN) {
      // Running the faulting instruction again under the default action ends the
      // process as if we had never been here. What a call has sent comes no second time.
      ::signal(signal, SIG_DFL);
      if (info->si_code <= 0)
        ::raise(signal);
    } else {
      old.sa_handler(signal);
    }
  }
}

} // namespace

CrashGuard *&activeGuard() {
  static thread_local CrashGuard *active = nullptr;
  return active;
}

void installCrashHandler() {
  // Whoever takes signals takes this one: a system call for each launch, not five.
  struct sigaction segv;
  if (!sigaction(SIGSEGV, nullptr, &segv) && segv.sa_sigaction == handler)
    return;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  for (int i = 0; i < kCount; ++i) {
    struct sigaction now;
    if (sigaction(kSignals[i], nullptr, &now) || now.sa_sigaction == handler)
      continue;
    previous[i] = now;
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handler;
    // Not deferred: the handler leaves by siglongjmp, which restores no mask.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(kSignals[i], &ours, nullptr);
  }
}

} // namespace flysim
