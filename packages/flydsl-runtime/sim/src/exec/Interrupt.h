//===- Interrupt.h - ending launches on request ----------------*- C++ -*-===//
//
// A program may want a running launch to end: the user pressed Ctrl-C. Its function
// (flysimSetInterrupt) is asked now and then by the threads that its calls wait in; a request
// ends all launches that were running when it came.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_EXEC_INTERRUPT_H
#define FLYSIM_EXEC_INTERRUPT_H

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace flysim {

/// How often the program is asked.
constexpr auto kInterruptPeriod = std::chrono::milliseconds(50);

/// Requests so far to end what runs.
uint64_t stopRequests();
/// The calling thread is one of ours: no call of the program waits in it.
void becomeWorker();
/// A call of the program may take long from here on; the first question comes a period later.
void beginLongCall();
/// Asks the program, if a call of it waits in this thread and a period has passed. May run code of
/// the program: no lock that its other threads may want can be held.
void pollInterrupt();

/// Waits for `ready`, letting the program interrupt the launches that it waits for.
template <class Ready>
void waitInterruptibly(std::condition_variable &changed, std::unique_lock<std::mutex> &lock,
                       Ready ready) {
  beginLongCall();
  while (!changed.wait_for(lock, kInterruptPeriod, ready)) {
    lock.unlock();
    pollInterrupt();
    lock.lock();
  }
}

} // namespace flysim

#endif
