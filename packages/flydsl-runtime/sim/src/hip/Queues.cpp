//===- Queues.cpp - work that outlives the call that enqueued it ----------===//

#include "hip/Queues.h"

#include "exec/Interrupt.h"
#include "hip/Runtime.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <thread>

namespace flysim {

namespace {

/// How long an enqueuing call waits for its work before it returns.
constexpr auto kPatience = std::chrono::milliseconds(20);

class Queue {
public:
  explicit Queue(int device) : device(device), thread([this] { loop(); }) { thread.detach(); }

  void push(std::function<void()> work) {
    std::unique_lock<std::mutex> lock(mutex);
    pending.push_back(std::move(work));
    wake.notify_all();
    idle.wait_for(lock, kPatience, [this] { return pending.empty() && !running; });
  }
  bool busy() {
    std::lock_guard<std::mutex> lock(mutex);
    return running || !pending.empty();
  }
  hipError_t finish() {
    std::unique_lock<std::mutex> lock(mutex);
    waitInterruptibly(idle, lock, [this] { return pending.empty() && !running; });
    hipError_t e = error;
    error = hipSuccess;
    return e ? fail(e, message) : hipSuccess;
  }
  const int device;

private:
  void loop() {
    becomeWorker();
    setCurrentDevice(device);
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      wake.wait(lock, [this] { return !pending.empty(); });
      std::function<void()> work = std::move(pending.front());
      pending.pop_front();
      running = true;
      lock.unlock();
      hipError_t e = guarded([&] {
        work();
        return hipSuccess;
      });
      std::string text = e ? keptMessage() : "";
      work = nullptr;
      lock.lock();
      if (e && !error) {
        error = e;
        message = std::move(text);
      }
      running = false;
      idle.notify_all();
    }
  }

  /// A copy of this thread's last message for the thread that will ask; "" if there is no memory for it.
  static std::string keptMessage() noexcept {
    try {
      return lastErrorMessage();
    } catch (const std::bad_alloc &) {
      return "";
    }
  }

  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<std::function<void()>> pending;
  bool running = false;
  hipError_t error = hipSuccess;
  std::string message;
  std::thread thread;
};

/// Queues live as long as the process: their threads may still run at its end.
struct Queues {
  std::mutex mutex;
  std::map<std::pair<void *, int>, Queue *> table;
  static Queues &instance() {
    static auto *queues = new Queues;
    return *queues;
  }
};

bool special(void *s) { return reinterpret_cast<uintptr_t>(s) <= 2; }

int deviceOf(void *stream) {
  return special(stream) ? currentDevice() : static_cast<Stream *>(stream)->device;
}

Queue *find(void *stream, bool create) {
  Queues &q = Queues::instance();
  int device = deviceOf(stream);
  std::lock_guard<std::mutex> lock(q.mutex);
  Queue *&slot = q.table[{special(stream) ? nullptr : stream, device}];
  if (!slot && create)
    slot = new Queue(device);
  return slot;
}

template <class F> hipError_t finishWhere(F wanted) {
  std::vector<Queue *> list;
  auto collect = [&] {
    Queues &q = Queues::instance();
    std::lock_guard<std::mutex> lock(q.mutex);
    for (const auto &e : q.table)
      if (e.second && wanted(*e.second))
        list.push_back(e.second);
    return hipSuccess;
  };
  if (hipError_t e = guarded(collect))
    return e;
  hipError_t first = hipSuccess;
  for (Queue *queue : list)
    if (hipError_t e = queue->finish())
      first = first ? first : e;
  return first;
}

} // namespace

namespace {
std::atomic<bool> queuesNeeded{false};
}
bool queuesEnabled() { return queuesNeeded || Runtime::instance().deviceCount() > 1; }
void needQueues() { queuesNeeded = true; }

hipError_t queueWork(void *stream, std::function<void()> work) {
  return guarded([&] {
    find(stream, true)->push(std::move(work));
    return hipSuccess;
  });
}

bool queueBusy(void *stream) {
  Queue *q = find(stream, false);
  return q && q->busy();
}

hipError_t finishQueue(void *stream) {
  if (!queuesEnabled())
    return hipSuccess;
  Queue *q = find(stream, false);
  return q ? q->finish() : hipSuccess;
}

hipError_t finishDevice() {
  if (!queuesEnabled())
    return hipSuccess;
  int device = currentDevice();
  return finishWhere([=](const Queue &q) { return q.device == device; });
}

hipError_t finishAll() {
  return queuesEnabled() ? finishWhere([](const Queue &) { return true; }) : hipSuccess;
}

} // namespace flysim
