//===- Capture.cpp - recording streams into graphs ------------------------===//

#include "hip/Capture.h"

#include "hip/Runtime.h"

#include <algorithm>
#include <atomic>
#include <mutex>

using namespace flysim;

namespace {

std::atomic<unsigned long long> nextId{1};
thread_local int threadMode = kCaptureGlobal;

/// The captures that forbid calls: all but relaxed ones. Not kept by thread, since any thread may
/// end one with its stream.
std::vector<const Capture *> strict;
std::mutex strictMutex;
std::atomic<bool> anyStrict{false};

/// Whether this thread has such a capture, or, with `others`, another one that is for all threads.
bool forbidding(bool others) {
  if (!anyStrict)
    return false;
  std::lock_guard<std::mutex> lock(strictMutex);
  return std::any_of(strict.begin(), strict.end(), [&](const Capture *c) {
    return c->thread == std::this_thread::get_id() || (others && c->mode == kCaptureGlobal);
  });
}

bool reaches(const GraphNode *from, const GraphNode *wanted) {
  if (from == wanted)
    return true;
  return std::any_of(from->dependencies.begin(), from->dependencies.end(),
                     [&](const GraphNode *d) { return reaches(d, wanted); });
}

/// True when everything that a stream recorded is before what the origin recorded last.
bool joined(const Stream &s, const Stream &origin) {
  for (const GraphNode *n : s.tail)
    if (std::none_of(origin.tail.begin(), origin.tail.end(),
                     [&](const GraphNode *t) { return reaches(t, n); }))
      return false;
  return true;
}

hipError_t begin(void *stream, int mode, Graph *graph, void *const *deps, size_t count) {
  if (reinterpret_cast<uintptr_t>(stream) <= 1)
    return fail(hipErrorStreamCaptureUnsupported, "the null stream cannot be captured");
  if (!validStream(stream) || isDefaultStream(stream))
    return fail(hipErrorInvalidValue, "hipStreamBeginCapture: invalid stream");
  if (mode < kCaptureGlobal || mode > kCaptureRelaxed)
    return fail(hipErrorInvalidValue, "hipStreamBeginCapture: invalid mode");
  auto *s = static_cast<Stream *>(stream);
  if (s->capture)
    return fail(hipErrorIllegalState, "the stream is already being captured");
  auto c = std::make_shared<Capture>();
  std::vector<GraphNode *> tail;
  for (size_t n = 0; n < count; ++n)
    tail.push_back(static_cast<GraphNode *>(deps[n]));
  if (!graph) {
    c->own = std::make_unique<Graph>();
    graph = c->own.get();
  }
  c->graph = graph;
  c->id = nextId++;
  c->mode = mode;
  c->origin = s;
  c->thread = std::this_thread::get_id();
  if (mode != kCaptureRelaxed) {
    std::lock_guard<std::mutex> lock(strictMutex);
    strict.push_back(c.get());
    anyStrict = true;
  }
  s->capture = c;
  s->tail = std::move(tail);
  return hipSuccess;
}

/// Takes a capture from the streams and events that took part.
void end(const std::shared_ptr<Capture> &c) {
  auto leave = [&](auto &x) {
    if (x.capture == c) {
      x.capture = nullptr;
      x.tail.clear();
    }
  };
  Runtime::instance().streams.forEach(leave);
  Runtime::instance().events.forEach(leave);
  std::lock_guard<std::mutex> lock(strictMutex);
  strict.erase(std::remove(strict.begin(), strict.end(), c.get()), strict.end());
  anyStrict = !strict.empty();
}

} // namespace

namespace flysim {

void endCaptureOf(Stream &s) {
  if (std::shared_ptr<Capture> c = s.capture; c && c->origin == &s)
    end(c);
}

hipError_t allowedInCapture(const char *function) {
  if (threadMode == kCaptureRelaxed || !forbidding(threadMode == kCaptureGlobal))
    return hipSuccess;
  return fail(hipErrorStreamCaptureUnsupported,
              std::string(function) + " is not permitted while a stream is captured");
}

hipError_t nullStreamAllowed() {
  bool blocking = false;
  if (forbidding(true))
    Runtime::instance().streams.forEach([&](Stream &s) {
      if (s.capture && !(s.flags & 1)) {
        blocking = true;
        s.capture->invalid = true;
      }
    });
  return blocking ? fail(hipErrorStreamCaptureImplicit,
                         "work on the null stream while a blocking stream is captured")
                  : hipSuccess;
}

} // namespace flysim

FLYSIM_API hipError_t hipStreamBeginCapture(void *stream, int mode) try {
  return begin(stream, mode, nullptr, nullptr, 0);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamBeginCaptureToGraph(void *stream, void *graph, void *const *deps,
                                                   const void *, size_t count, int mode) try {
  if (!validGraph(graph) || (count && !deps))
    return fail(hipErrorInvalidValue, "hipStreamBeginCaptureToGraph: invalid graph");
  for (size_t n = 0; n < count; ++n)
    if (!validNode(deps[n]) || static_cast<GraphNode *>(deps[n])->graph != graph)
      return fail(hipErrorInvalidValue, "hipStreamBeginCaptureToGraph: no node of the graph");
  return begin(stream, mode, static_cast<Graph *>(graph), deps, count);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamEndCapture(void *stream, void **graph) try {
  Stream *s = capturing(stream);
  if (!graph)
    return fail(hipErrorInvalidValue, "hipStreamEndCapture: null pointer");
  if (!s)
    return fail(hipErrorIllegalState, "hipStreamEndCapture: the stream is not being captured");
  *graph = nullptr;
  std::shared_ptr<Capture> c = s->capture;
  if (c->origin != s)
    return fail(hipErrorStreamCaptureUnmatched,
                "hipStreamEndCapture: the capture began on another stream");
  if (c->mode != kCaptureRelaxed && c->thread != std::this_thread::get_id())
    return fail(hipErrorStreamCaptureWrongThread,
                "hipStreamEndCapture: the capture was begun by another thread");
  Runtime &r = Runtime::instance();
  bool unjoined = false;
  r.streams.forEach([&](Stream &x) { unjoined |= x.capture == c && !joined(x, *s); });
  if (!c->invalid && !unjoined) // before anything changes: it takes memory
    *graph = c->own ? r.graphs.add(std::move(c->own)) : c->graph;
  end(c);
  if (c->invalid)
    return fail(hipErrorStreamCaptureInvalidated,
                "hipStreamEndCapture: a call was made that is not permitted in a capture");
  if (unjoined)
    return fail(hipErrorStreamCaptureUnjoined,
                "hipStreamEndCapture: work of another stream was not joined to the first stream");
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamIsCapturing(void *stream, int *status) try {
  if (!status)
    return fail(hipErrorInvalidValue, "hipStreamIsCapturing: null pointer");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamIsCapturing: invalid stream");
  Stream *s = capturing(stream);
  *status = !s ? 0 : s->capture->invalid ? 2 : 1;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id) try {
  if (hipError_t e = hipStreamIsCapturing(stream, status))
    return e;
  if (id && *status)
    *id = static_cast<Stream *>(stream)->capture->id;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id,
                                                 void **graph, void ***deps, size_t *count) try {
  if (hipError_t e = hipStreamGetCaptureInfo(stream, status, id))
    return e;
  if (*status != 1)
    return hipSuccess;
  auto *s = static_cast<Stream *>(stream);
  if (graph)
    *graph = s->capture->graph;
  if (deps)
    *deps = reinterpret_cast<void **>(s->tail.data());
  if (count)
    *count = s->tail.size();
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamUpdateCaptureDependencies(void *stream, void **deps, size_t count,
                                                         unsigned flags) try {
  Stream *s = capturing(stream);
  if (!s || (count && !deps))
    return fail(hipErrorIllegalState, "hipStreamUpdateCaptureDependencies: the stream is not captured");
  std::vector<GraphNode *> list;
  for (size_t n = 0; n < count; ++n) {
    auto *d = static_cast<GraphNode *>(deps[n]);
    if (!validNode(d) || d->graph != s->capture->graph)
      return fail(hipErrorInvalidValue, "hipStreamUpdateCaptureDependencies: no node of the capture");
    list.push_back(d);
  }
  if (!(flags & 1)) // 0 adds, 1 replaces
    list.insert(list.begin(), s->tail.begin(), s->tail.end());
  s->tail = std::move(list);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipThreadExchangeStreamCaptureMode(int *mode) try {
  if (!mode || *mode < kCaptureGlobal || *mode > kCaptureRelaxed)
    return fail(hipErrorInvalidValue, "hipThreadExchangeStreamCaptureMode: invalid mode");
  std::swap(*mode, threadMode);
  return hipSuccess;
} FLYSIM_GUARDED
