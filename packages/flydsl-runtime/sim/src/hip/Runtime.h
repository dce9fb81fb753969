//===- Runtime.h - state behind the HIP entry points -----------*- C++ -*-===//
#ifndef FLYSIM_HIP_RUNTIME_H
#define FLYSIM_HIP_RUNTIME_H

#include "decode/Program.h"
#include "hip/Capture.h"
#include "hip/Entries.h"
#include "hip/Graph.h"
#include "hip/HipTypes.h"
#include "loader/CodeObject.h"
#include "support/Arch.h"
#include "support/Error.h"
#include "support/ForkGate.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace flysim {

int currentDevice();
void setCurrentDevice(int device);

/// hipModule_t points to one of these.
struct Module {
  static constexpr int kOfNoDevice = -1;
  int device = currentDevice(); ///< in whose context it was loaded
  std::unique_ptr<CodeObject> object;
  std::map<std::string, Function> functions;
  /// Decoded code: per executable range and wave size.
  const Program *programFor(const KernelInfo &kernel);

private:
  std::mutex mutex;
  std::map<std::pair<uint64_t, bool>, std::unique_ptr<Program>> programs;
};

/// hipStream_t. Its work runs in the order of the calls, inside them or on a thread of its own (Queues.h).
struct Stream {
  unsigned flags = 0;
  int priority = 0;
  int device = 0;
  unsigned long long id = 0;
  std::shared_ptr<Capture> capture; ///< shared with the streams that joined the capture
  std::vector<GraphNode *> tail;    ///< what the next recorded work depends on
  char attribute[16][64] = {};      ///< values of hipStreamSetAttribute
};

/// Counters of an event that other processes see.
struct SharedEvent {
  std::atomic<uint64_t> recorded{0}, reached{0};
};

/// What a recorded event stands for; outlives its event while work refers to it.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  bool recorded = false;
  unsigned pending = 0; ///< records that have not been reached yet
  std::chrono::steady_clock::time_point when;
  SharedEvent *shared = nullptr; ///< set for events of several processes

  /// A record is enqueued.
  void record();
  /// It will never be reached.
  void withdraw();
  /// A record is reached. `counted`: it was announced with record().
  void reach(bool counted = true);
  bool done();
  void wait();
};
struct Event {
  int device = currentDevice(); ///< in whose context it was made
  unsigned flags = 0;
  std::shared_ptr<EventState> state = std::make_shared<EventState>();
  std::shared_ptr<Capture> capture; ///< the capture in which it was recorded last
  std::vector<GraphNode *> tail;    ///< what it stands for there
};

/// Handles that are alive, so that a stale or foreign one is an error and not a crash.
template <class T> class HandleSet {
public:
  /// The object's handle. It stays the caller's if that raises.
  T *add(std::unique_ptr<T> &&object) {
    std::lock_guard<std::mutex> lock(mutex);
    T *raw = object.get();
    alive.emplace(raw, std::move(object));
    return raw;
  }
  bool contains(const void *handle) { return share(handle) != nullptr; }
  /// The object, which lives at least as long as what is returned; null for no handle of one.
  std::shared_ptr<T> share(const void *handle) {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = alive.find(handle);
    return it == alive.end() ? nullptr : it->second;
  }
  template <class F> void forEach(F f) {
    std::lock_guard<std::mutex> lock(mutex);
    for (auto &entry : alive)
      f(*entry.second);
  }
  bool destroy(const void *handle) {
    std::shared_ptr<T> last; // goes outside of the lock
    std::lock_guard<std::mutex> lock(mutex);
    auto it = alive.find(handle);
    if (it == alive.end())
      return false;
    last = std::move(it->second);
    alive.erase(it);
    return true;
  }

private:
  std::mutex mutex;
  std::map<const void *, std::shared_ptr<T>> alive;
};

struct Runtime {
  static Runtime &instance();
  /// The simulated architecture: the one that setArch or FLYDSL_SIM_ARCH names, else that of the code
  /// that the program carries or loads, else gfx942.
  /// Raises what is hipErrorNoDevice to the caller if the program sees none.
  const ArchInfo &arch();
  /// An image that the program carries (code embedded by the compiler).
  void noteImage(const void *image);
  void forgetImage(const void *image);
  /// Simulates what the image is for, unless an architecture was asked for by name.
  void adoptArchOf(const void *image, size_t size);
  /// From now on code is for this architecture. False with a message when the name is unknown.
  bool setArch(const char *name);
  /// Of those that the program sees.
  int deviceCount();
  /// The simulated device that the program sees as number `device`.
  int ordinal(int device);

  HandleSet<Module> modules;
  HandleSet<Stream> streams;
  HandleSet<Event> events;
  HandleSet<Graph> graphs;
  HandleSet<Graph> graphExecs;
  std::mutex functionMutex;
  std::set<const Function *> functions;

private:
  std::mutex mutex;
  const ArchInfo *chosen = nullptr;
  std::string requested;
  bool byName = false; ///< `chosen` was asked for by name
  std::vector<const void *> images;
};

/// Records `code` as the thread's last error with a message (another one if the heap is exhausted).
hipError_t fail(hipError_t code, std::string_view text) noexcept;
hipError_t errorCode(FaultKind kind);
const char *errorName(hipError_t code);
const char *errorString(hipError_t code);

/// Records the exception that is being handled, a fault or one of the host, as the error of the call.
hipError_t failRaised() noexcept;

/// The end of an entry point that is a function-try-block: nothing that is raised leaves the library.
///
///     FLYSIM_API hipError_t hipFunction(int argument) try {
///       ...
///     } FLYSIM_GUARDED
#define FLYSIM_GUARDED                                                                             \
  catch (...) {                                                                                    \
    return flysim::failRaised();                                                                   \
  }

/// Runs `body` of an entry point that takes part in what a fork must wait for, guarded likewise.
template <class F> hipError_t guarded(F body) {
  InLibrary inside;
  if (forkedInside())
    return fail(hipErrorNotInitialized, "this process was forked while the simulator was at work "
                                        "in its parent: fork before, or between launches");
  try {
    return body();
  }
  FLYSIM_GUARDED
}

/// What `write` returns, as text that belongs to the library and is valid until the calling thread
/// calls the same entry point again. Null on an error, such as no host memory; `write` gives up what
/// its text is made of last, so that nothing is lost.
template <class F> const char *guardedText(F write) {
  static thread_local std::string text;
  hipError_t error = guarded([&] {
    text = write();
    return hipSuccess;
  });
  return error ? nullptr : text.c_str();
}

/// Null, hipStreamLegacy and hipStreamPerThread, which are the handles 0 to 2.
inline bool isDefaultStream(const void *stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }
/// The default streams are valid besides created ones.
bool validStream(void *stream);
/// The stream if it is being captured, else null.
Stream *capturing(void *stream);
/// Runs `work` now, or records it when the stream is being captured.
hipError_t enqueue(void *stream, NodeWork work);
/// References of objects that graphs keep alive; false for an unknown one.
bool retainUserObject(void *object, unsigned count);
bool releaseUserObject(void *object, unsigned count);
/// True once memory or events were shared with another process.
bool memoryIsShared();
void noteSharedMemory();
/// Forgets a node that is about to be destroyed.
void forgetNode(const GraphNode *node);

/// The function behind a handle of a loaded module, or null.
Function *checkedFunction(const void *handle);
/// The same for a handle or the address of a registered host function.
hipError_t resolveKernel(const void *handle, const Function **out);

/// Work-groups of `block` lanes, with `lds` bytes of dynamic LDS, that the device runs at once.
uint64_t residentGroups(const Function &f, unsigned block, size_t lds);

/// A launch with arguments already copied, so that it can be replayed.
/// `cluster` is null for the size that the kernel's metadata names (usually 1).
/// `cooperative`: the kernel may wait for all its work-groups.
hipError_t launchKernel(const void *function, const uint32_t grid[3], const uint32_t block[3],
                        uint32_t dynamicLds, void *stream, void **params, void **extra,
                        const uint32_t *cluster = nullptr, bool cooperative = false);

} // namespace flysim

#endif
