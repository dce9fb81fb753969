//===- Events.cpp - events ------------------------------------------------===//

#include "exec/Interrupt.h"
#include "hip/Runtime.h"

#include <thread>

namespace flysim {

void EventState::record() {
  std::lock_guard<std::mutex> lock(mutex);
  ++pending;
  if (shared)
    ++shared->recorded;
}
void EventState::withdraw() {
  std::lock_guard<std::mutex> lock(mutex);
  --pending;
  if (shared)
    --shared->recorded;
  changed.notify_all();
}
void EventState::reach(bool counted) {
  std::lock_guard<std::mutex> lock(mutex);
  recorded = true;
  when = std::chrono::steady_clock::now();
  if (shared && !counted)
    ++shared->recorded;
  if (shared)
    ++shared->reached;
  if (pending && counted)
    --pending;
  changed.notify_all();
}
bool EventState::done() {
  std::lock_guard<std::mutex> lock(mutex);
  return pending == 0 && (!shared || shared->reached >= shared->recorded);
}
void EventState::wait() {
  {
    std::unique_lock<std::mutex> lock(mutex);
    waitInterruptibly(changed, lock, [this] { return pending == 0; });
  }
  // Records of other processes are only seen by looking.
  if (shared)
    for (uint64_t wanted = shared->recorded; shared->reached < wanted;)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
}

} // namespace flysim

using namespace flysim;

namespace {

/// A record that was announced: reached when its work runs, withdrawn if that is dropped.
class Record {
public:
  explicit Record(std::shared_ptr<EventState> of) : state(std::move(of)) { state->record(); }
  ~Record() {
    if (!reached)
      state->withdraw();
  }
  Record(const Record &) = delete;
  Record &operator=(const Record &) = delete;
  void reach() {
    reached = true;
    state->reach();
  }

private:
  std::shared_ptr<EventState> state;
  bool reached = false;
};

} // namespace

FLYSIM_API hipError_t hipEventCreateWithFlags(void **event, unsigned flags) try {
  if (!event)
    return fail(hipErrorInvalidValue, "hipEventCreate: null pointer");
  // Blocking, without timing, interprocess, without a system fence, released to the device or to the system.
  constexpr unsigned kKnown = 0x7 | 0x20000000 | 0x40000000 | 0x80000000, kReleases = 0x40000000 | 0x80000000;
  if ((flags & ~kKnown) || (flags & kReleases) == kReleases)
    return fail(hipErrorInvalidValue, format("hipEventCreate: invalid flags 0x%x", flags));
  auto e = std::make_unique<Event>();
  // Interprocess events (4) must not measure time (2).
  if ((flags & 4) && !(flags & 2))
    return fail(hipErrorInvalidValue, "hipEventCreate: hipEventInterprocess needs hipEventDisableTiming");
  e->flags = flags;
  *event = Runtime::instance().events.add(std::move(e));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipEventCreate(void **event) { return hipEventCreateWithFlags(event, 0); }
FLYSIM_API hipError_t hipEventDestroy(void *event) try {
  return Runtime::instance().events.destroy(event)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipEventDestroy: invalid event");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipEventRecordWithFlags(void *event, void *stream, unsigned flags) try {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventRecord: invalid event");
  auto *e = static_cast<Event *>(event);
  if (Stream *s = capturing(stream)) {
    if (!(flags & 1)) { // hipEventRecordExternal makes a node, else the event marks a place
      e->tail = s->tail;
      e->capture = s->capture;
      return hipSuccess;
    }
    NodeWork work;
    work.type = NodeType::EventRecord;
    work.event = event;
    work.run = [state = e->state] { state->reach(false); };
    return enqueue(stream, std::move(work));
  }
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipEventRecord: invalid stream");
  e->capture = nullptr;
  e->tail.clear();
  NodeWork work;
  work.type = NodeType::EventRecord;
  work.run = [record = std::make_shared<Record>(e->state)] { record->reach(); };
  return enqueue(stream, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipEventRecord(void *event, void *stream) {
  return hipEventRecordWithFlags(event, stream, 0);
}
FLYSIM_API hipError_t hipEventSynchronize(void *event) try {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventSynchronize: invalid event");
  auto *e = static_cast<Event *>(event);
  if (e->capture)
    return fail(hipErrorCapturedEvent, "hipEventSynchronize: the event was recorded in a capture");
  e->state->wait();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipEventQuery(void *event) try {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventQuery: invalid event");
  auto *e = static_cast<Event *>(event);
  if (e->capture)
    return fail(hipErrorCapturedEvent, "hipEventQuery: the event was recorded in a capture");
  return e->state->done() ? hipSuccess : hipErrorNotReady;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipEventElapsedTime(float *ms, void *start, void *stop) try {
  Runtime &r = Runtime::instance();
  if (!ms)
    return fail(hipErrorInvalidValue, "hipEventElapsedTime: null pointer");
  if (!r.events.contains(start) || !r.events.contains(stop))
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: invalid event");
  EventState &a = *static_cast<Event *>(start)->state, &b = *static_cast<Event *>(stop)->state;
  if ((static_cast<Event *>(start)->flags | static_cast<Event *>(stop)->flags) & 2)
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: an event has hipEventDisableTiming");
  if (!a.recorded || !b.recorded)
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: the event was never recorded");
  if (a.pending || b.pending)
    return fail(hipErrorNotReady, "hipEventElapsedTime: the event has not been reached");
  *ms = std::chrono::duration<float, std::milli>(b.when - a.when).count();
  return hipSuccess;
} FLYSIM_GUARDED
