//===- Streams.cpp - streams, events, capture and graphs ------------------===//

#include "hip/Queues.h"
#include "hip/Runtime.h"

#include <atomic>
#include <cstring>

namespace flysim {

namespace {
/// hipStreamLegacy and hipStreamPerThread are the handles 1 and 2.
bool special(void *s) { return reinterpret_cast<uintptr_t>(s) <= 2; }
} // namespace

bool validStream(void *stream) {
  return special(stream) || Runtime::instance().streams.contains(stream);
}

Stream *capturing(void *stream) {
  if (special(stream) || !Runtime::instance().streams.contains(stream))
    return nullptr;
  auto *s = static_cast<Stream *>(stream);
  return s->capture ? s : nullptr;
}

hipError_t enqueue(void *stream, const char *kind, std::function<void()> work) {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "invalid stream");
  if (Stream *s = capturing(stream)) {
    s->capture->nodes.push_back(GraphNode{std::move(work), kind});
    return hipSuccess;
  }
  if (queuesEnabled()) {
    bool slow = !strcmp(kind, "kernel") || !strcmp(kind, "graph");
    // The null stream is ordered with every other stream of its device.
    if (special(stream))
      if (hipError_t e = finishDevice())
        return e;
    if (slow || queueBusy(stream)) {
      queueWork(stream, std::move(work));
      return queueBusy(stream) ? hipSuccess : finishQueue(stream);
    }
  }
  return guarded([&] {
    work();
    return hipSuccess;
  });
}

} // namespace flysim

using namespace flysim;

FLYSIM_API hipError_t hipStreamCreateWithPriority(void **stream, unsigned flags, int priority) {
  if (!stream)
    return fail(hipErrorInvalidValue, "hipStreamCreate: null pointer");
  auto s = std::make_unique<Stream>();
  s->flags = flags;
  s->priority = priority;
  s->device = currentDevice();
  *stream = Runtime::instance().streams.add(std::move(s));
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamCreate(void **stream) {
  return hipStreamCreateWithPriority(stream, 0, 0);
}
FLYSIM_API hipError_t hipStreamCreateWithFlags(void **stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}
FLYSIM_API hipError_t hipStreamDestroy(void *stream) {
  if (Runtime::instance().streams.contains(stream))
    finishQueue(stream);
  return Runtime::instance().streams.destroy(stream)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipStreamDestroy: invalid stream");
}
FLYSIM_API hipError_t hipStreamSynchronize(void *stream) {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamSynchronize: invalid stream");
  if (capturing(stream))
    return fail(hipErrorStreamCaptureUnsupported, "a capturing stream cannot be synchronized");
  return special(stream) ? finishDevice() : finishQueue(stream);
}
FLYSIM_API hipError_t hipStreamQuery(void *stream) {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamQuery: invalid stream");
  if (capturing(stream))
    return fail(hipErrorStreamCaptureUnsupported, "a capturing stream cannot be queried");
  if (!queuesEnabled())
    return hipSuccess;
  return queueBusy(stream) ? hipErrorNotReady : finishQueue(stream);
}
FLYSIM_API hipError_t hipStreamWaitEvent(void *stream, void *event, unsigned) {
  if (!validStream(stream) || !Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipStreamWaitEvent: invalid handle");
  auto *e = static_cast<Event *>(event);
  if (e->capture) {
    if (special(stream))
      return fail(hipErrorStreamCaptureImplicit, "the null stream cannot join a capture");
    // Nodes are kept in program order, which satisfies every dependency.
    static_cast<Stream *>(stream)->capture = e->capture;
    return hipSuccess;
  }
  std::shared_ptr<EventState> state = e->state;
  if (!queuesEnabled() || capturing(stream))
    return hipSuccess;
  queueWork(stream, [state] { state->wait(); });
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamGetFlags(void *stream, unsigned *flags) {
  if (!flags || !validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetFlags: invalid stream");
  *flags = special(stream) ? 0 : static_cast<Stream *>(stream)->flags;
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamGetPriority(void *stream, int *priority) {
  if (!priority || !validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetPriority: invalid stream");
  *priority = special(stream) ? 0 : static_cast<Stream *>(stream)->priority;
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamGetDevice(void *, int *device) {
  *device = currentDevice();
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamAddCallback(void *stream, void (*callback)(void *, int, void *),
                                           void *data, unsigned) {
  return enqueue(stream, "callback", [=] { callback(stream, hipSuccess, data); });
}
FLYSIM_API hipError_t hipLaunchHostFunc(void *stream, void (*fn)(void *), void *data) {
  return enqueue(stream, "host", [=] { fn(data); });
}

//===--- events -------------------------------------------------------------===//

FLYSIM_API hipError_t hipEventCreateWithFlags(void **event, unsigned flags) {
  if (!event)
    return fail(hipErrorInvalidValue, "hipEventCreate: null pointer");
  auto e = std::make_unique<Event>();
  e->flags = flags;
  *event = Runtime::instance().events.add(std::move(e));
  return hipSuccess;
}
FLYSIM_API hipError_t hipEventCreate(void **event) { return hipEventCreateWithFlags(event, 0); }
FLYSIM_API hipError_t hipEventDestroy(void *event) {
  return Runtime::instance().events.destroy(event)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipEventDestroy: invalid event");
}
FLYSIM_API hipError_t hipEventRecord(void *event, void *stream) {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventRecord: invalid event");
  auto *e = static_cast<Event *>(event);
  std::shared_ptr<EventState> state = e->state;
  Stream *captured = capturing(stream);
  e->capture = captured ? captured->capture : nullptr;
  if (!captured) {
    std::lock_guard<std::mutex> lock(state->mutex);
    ++state->pending;
  }
  return enqueue(stream, "event", [state] { state->reach(); });
}
FLYSIM_API hipError_t hipEventRecordWithFlags(void *event, void *stream, unsigned) {
  return hipEventRecord(event, stream);
}
FLYSIM_API hipError_t hipEventSynchronize(void *event) {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventSynchronize: invalid event");
  static_cast<Event *>(event)->state->wait();
  return hipSuccess;
}
FLYSIM_API hipError_t hipEventQuery(void *event) {
  if (!Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipEventQuery: invalid event");
  EventState &s = *static_cast<Event *>(event)->state;
  std::lock_guard<std::mutex> lock(s.mutex);
  return s.pending ? hipErrorNotReady : hipSuccess;
}
FLYSIM_API hipError_t hipEventElapsedTime(float *ms, void *start, void *stop) {
  Runtime &r = Runtime::instance();
  if (!ms || !r.events.contains(start) || !r.events.contains(stop))
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: invalid event");
  EventState &a = *static_cast<Event *>(start)->state, &b = *static_cast<Event *>(stop)->state;
  if (!a.recorded || !b.recorded)
    return fail(hipErrorInvalidHandle, "hipEventElapsedTime: the event was never recorded");
  if (a.pending || b.pending)
    return fail(hipErrorNotReady, "hipEventElapsedTime: the event has not been reached");
  *ms = std::chrono::duration<float, std::milli>(b.when - a.when).count();
  return hipSuccess;
}

//===--- capture and graphs ---------------------------------------------------===//

FLYSIM_API hipError_t hipStreamBeginCapture(void *stream, int) {
  static std::atomic<unsigned long long> nextId{1};
  if (special(stream))
    return fail(hipErrorStreamCaptureUnsupported, "the null stream cannot be captured");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamBeginCapture: invalid stream");
  auto *s = static_cast<Stream *>(stream);
  if (s->capture)
    return fail(hipErrorIllegalState, "the stream is already being captured");
  s->capture = std::make_shared<Graph>();
  s->captureId = nextId++;
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamEndCapture(void *stream, void **graph) {
  Stream *s = capturing(stream);
  if (!s || !graph)
    return fail(hipErrorIllegalState, "hipStreamEndCapture: the stream is not being captured");
  Runtime &r = Runtime::instance();
  std::shared_ptr<Graph> captured = s->capture;
  *graph = r.graphs.add(std::make_unique<Graph>(*captured));
  auto leave = [&](auto &object) {
    if (object.capture == captured)
      object.capture = nullptr;
  };
  r.streams.forEach(leave);
  r.events.forEach(leave);
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamIsCapturing(void *stream, int *status) {
  if (!status || !validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamIsCapturing: invalid stream");
  *status = capturing(stream) ? 1 : 0;
  return hipSuccess;
}
FLYSIM_API hipError_t hipStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id) {
  if (hipError_t e = hipStreamIsCapturing(stream, status))
    return e;
  if (id && *status)
    *id = static_cast<Stream *>(stream)->captureId;
  return hipSuccess;
}
FLYSIM_API hipError_t hipThreadExchangeStreamCaptureMode(int *) { return hipSuccess; }
FLYSIM_API hipError_t hipGraphCreate(void **graph, unsigned) {
  if (!graph)
    return fail(hipErrorInvalidValue, "hipGraphCreate: null pointer");
  *graph = Runtime::instance().graphs.add(std::make_unique<Graph>());
  return hipSuccess;
}
FLYSIM_API hipError_t hipGraphDestroy(void *graph) {
  return Runtime::instance().graphs.destroy(graph)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipGraphDestroy: invalid graph");
}
FLYSIM_API hipError_t hipGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long) {
  Runtime &r = Runtime::instance();
  if (!exec || !r.graphs.contains(graph))
    return fail(hipErrorInvalidHandle, "hipGraphInstantiate: invalid graph");
  *exec = r.graphExecs.add(std::make_unique<Graph>(*static_cast<Graph *>(graph)));
  return hipSuccess;
}
FLYSIM_API hipError_t hipGraphInstantiate(void **exec, void *graph, void **, char *, size_t) {
  return hipGraphInstantiateWithFlags(exec, graph, 0);
}
FLYSIM_API hipError_t hipGraphExecDestroy(void *exec) {
  return Runtime::instance().graphExecs.destroy(exec)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipGraphExecDestroy: invalid graph");
}
FLYSIM_API hipError_t hipGraphLaunch(void *exec, void *stream) {
  if (!Runtime::instance().graphExecs.contains(exec))
    return fail(hipErrorInvalidHandle, "hipGraphLaunch: invalid graph");
  Graph copy = *static_cast<Graph *>(exec);
  return enqueue(stream, "graph", [copy] {
    for (const GraphNode &n : copy.nodes)
      n.run();
  });
}
FLYSIM_API hipError_t hipGraphGetNodes(void *graph, void **, size_t *count) {
  if (!count || !Runtime::instance().graphs.contains(graph))
    return fail(hipErrorInvalidHandle, "hipGraphGetNodes: invalid graph");
  *count = static_cast<Graph *>(graph)->nodes.size();
  return hipSuccess;
}
FLYSIM_API hipError_t hipGraphExecUpdate(void *exec, void *graph, void **errorNode, int *result) {
  Runtime &r = Runtime::instance();
  if (!r.graphExecs.contains(exec) || !r.graphs.contains(graph))
    return fail(hipErrorInvalidHandle, "hipGraphExecUpdate: invalid graph");
  *static_cast<Graph *>(exec) = *static_cast<Graph *>(graph);
  if (errorNode)
    *errorNode = nullptr;
  if (result)
    *result = 0;
  return hipSuccess;
}
