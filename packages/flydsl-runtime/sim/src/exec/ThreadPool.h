//===- ThreadPool.h - worker threads ---------------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_THREADPOOL_H
#define FLYSIM_EXEC_THREADPOOL_H

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace flysim {

/// Runs one function on several threads at once; the caller is one of them.
class ThreadPool {
public:
  static ThreadPool &instance();
  /// Calls `body`, which throws nothing, on `count` threads (fewer when the system gives no
  /// more) and returns when all calls have returned.
  void run(unsigned count, const std::function<void()> &body);

private:
  void loop();
  std::mutex mutex;
  std::condition_variable wake, done;
  std::vector<std::thread> threads;
  const std::function<void()> *job = nullptr;
  size_t started = 0; ///< of `threads`, those that run
  unsigned wanted = 0, active = 0;
  int owner = 0; ///< process that created the threads (they do not survive fork)
};

} // namespace flysim

#endif
