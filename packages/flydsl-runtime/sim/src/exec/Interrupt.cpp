//===- Interrupt.cpp - ending launches on request -------------------------===//

#include "exec/Interrupt.h"

#include "hip/Runtime.h"

#include <atomic>

namespace flysim {

namespace {
using Clock = std::chrono::steady_clock;
std::atomic<uint64_t> requests{0};
std::atomic<int (*)()> question{nullptr};
thread_local bool worker = false;
thread_local Clock::time_point asked;
} // namespace

uint64_t stopRequests() { return requests.load(std::memory_order_relaxed); }

void becomeWorker() { worker = true; }

void beginLongCall() {
  if (!worker && question.load(std::memory_order_relaxed))
    asked = Clock::now();
}

void pollInterrupt() {
  int (*ask)() = worker ? nullptr : question.load(std::memory_order_relaxed);
  if (!ask)
    return;
  Clock::time_point now = Clock::now();
  if (now - asked < kInterruptPeriod)
    return;
  int stop = ask();
  asked = Clock::now(); // the answer may have waited for a lock of the program
  if (stop)
    requests.fetch_add(1, std::memory_order_relaxed);
}

} // namespace flysim

using namespace flysim;

/// Sets the function that says (not 0) that the launches which run now should end; null: none.
/// It is called every 50 ms by threads of the program that wait in a call for a launch.
FLYSIM_API void flysimSetInterrupt(int (*ask)()) { question = ask; }
