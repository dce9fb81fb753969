//===- CrashGuard.cpp - host memory faults as errors ----------------------===//

#include "support/CrashGuard.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <iterator>
#include <mutex>

namespace flysim {

namespace {

constexpr int kSignals[] = {SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSEGV}; // the last one tells
constexpr int kCount = sizeof kSignals / sizeof kSignals[0];

// Another library may stack its handlers on ours, and we stack ours on those in turn, so that it does
// not see what our guards catch. What it does not want it passes on to the handler it has found, which
// must not be the one that it got the signal from: each time that we stack, it is another function.
constexpr int kLevels = 4;
struct sigaction previous[kLevels][kCount];

void handle(int level, int signal, siginfo_t *info, void *context) {
  if (CrashGuard *guard = activeGuard()) {
    guard->address = reinterpret_cast<uint64_t>(info->si_addr);
    siglongjmp(guard->env, 1);
  }
  for (int i = 0; i < kCount; ++i) {
    if (kSignals[i] != signal)
      continue;
    const struct sigaction &old = previous[level][i];
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

template <int level> void handler(int signal, siginfo_t *info, void *context) {
  handle(level, signal, info, context);
}
constexpr void (*handlers[kLevels])(int, siginfo_t *, void *) = {handler<0>, handler<1>, handler<2>,
                                                                 handler<3>};

/// The level at which we have stacked this handler; -1 if it is not ours.
int levelOf(const struct sigaction &action) {
  auto *found = std::find(std::begin(handlers), std::end(handlers), action.sa_sigaction);
  return found == std::end(handlers) ? -1 : static_cast<int>(found - std::begin(handlers));
}

} // namespace

CrashGuard *&activeGuard() {
  static thread_local CrashGuard *active = nullptr;
  return active;
}

void installCrashHandler() {
  // Whoever takes signals takes this one: a system call for each launch, not five.
  struct sigaction segv;
  if (!sigaction(SIGSEGV, nullptr, &segv) && levelOf(segv) >= 0)
    return;
  static std::mutex mutex;
  static int next[kCount] = {};
  std::lock_guard<std::mutex> lock(mutex);
  for (int i = 0; i < kCount; ++i) {
    struct sigaction now;
    if (sigaction(kSignals[i], nullptr, &now) || levelOf(now) >= 0)
      continue;
    bool bottom = now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN; // none of ours is below
    int level = bottom ? 0 : std::min(next[i], kLevels - 1);
    next[i] = level + 1;
    previous[level][i] = now;
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handlers[level];
    // Not deferred: the handler leaves by siglongjmp, which restores no mask.
    ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    sigaction(kSignals[i], &ours, nullptr);
  }
}

} // namespace flysim
