//===- ThreadPool.cpp - worker threads ------------------------------------===//

#include "exec/ThreadPool.h"

#include "exec/Interrupt.h"
#include "exec/Machine.h"
#include "support/Settings.h"

#include <algorithm>
#include <csignal>
#include <unistd.h>

namespace flysim {

unsigned workerCount() {
  static unsigned count = [] {
    constexpr uint64_t kMost = 4096;
    auto n = static_cast<unsigned>(std::min(kMost, wholeSetting("FLYDSL_SIM_THREADS", 0)));
    return n ? n : std::max(1u, std::thread::hardware_concurrency());
  }();
  return count;
}

ThreadPool &ThreadPool::instance() {
  // Leaked on purpose: joining in a static destructor would hang or crash when the
  // host process exits while a thread of a forked child is missing.
  static ThreadPool *pool = new ThreadPool;
  if (pool->owner != getpid()) {
    if (pool->owner)
      pool = new ThreadPool;
    pool->owner = getpid();
  }
  return *pool;
}

void ThreadPool::run(unsigned count, const std::function<void()> &body) {
  unsigned extra = count > 1 ? count - 1 : 0;
  if (extra) {
    std::unique_lock<std::mutex> lock(mutex);
    // Signals of the host program belong to its own threads.
    sigset_t all, old;
    sigfillset(&all);
    // A blocked signal that the thread itself raises ends the process, whatever handler there is:
    // CrashGuard must get these on the workers too.
    for (int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT})
      sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    try {
      while (threads.size() < extra)
        threads.emplace_back([this] { loop(); });
    } catch (const std::exception &) {
      // The system gives no more threads: those that there are share the work.
    }
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
    // A thread takes memory for its thread-local variables when it first runs, and the C library ends
    // the process if there is none: not in a later launch.
    done.wait(lock, [this] { return started == threads.size(); });
    extra = std::min<unsigned>(extra, static_cast<unsigned>(threads.size()));
    job = &body;
    wanted = extra;
    wake.notify_all();
  }
  body();
  if (extra) {
    std::unique_lock<std::mutex> lock(mutex);
    wanted = 0; // threads that have not started are not needed any more
    waitInterruptibly(done, lock, [this] { return active == 0; });
    job = nullptr;
  }
}

void ThreadPool::loop() {
  becomeWorker();
  std::unique_lock<std::mutex> lock(mutex);
  ++started;
  done.notify_all();
  for (;;) {
    wake.wait(lock, [this] { return wanted > 0; });
    --wanted;
    ++active;
    const std::function<void()> *body = job;
    lock.unlock();
    (*body)();
    lock.lock();
    if (--active == 0)
      done.notify_all();
  }
}

} // namespace flysim
