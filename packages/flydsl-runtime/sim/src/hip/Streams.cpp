//===- Streams.cpp - streams ----------------------------------------------===//

#include "hip/MemoryWork.h"
#include "hip/Queues.h"
#include "hip/Runtime.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <type_traits>

using namespace flysim;

FLYSIM_API hipError_t hipStreamCreateWithPriority(void **stream, unsigned flags, int priority) try {
  if (!stream)
    return fail(hipErrorInvalidValue, "hipStreamCreate: null pointer");
  auto s = std::make_unique<Stream>();
  static std::atomic<unsigned long long> nextId{3}; // after the two streams of every device
  if (flags > 1)
    return fail(hipErrorInvalidValue, "hipStreamCreate: invalid flags");
  s->id = nextId++;
  s->flags = flags;
  s->priority = std::max(-1, std::min(1, priority));
  s->device = currentDevice();
  *stream = Runtime::instance().streams.add(std::move(s));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamCreate(void **stream) {
  return hipStreamCreateWithPriority(stream, 0, 0);
}
FLYSIM_API hipError_t hipStreamCreateWithFlags(void **stream, unsigned flags) {
  return hipStreamCreateWithPriority(stream, flags, 0);
}
FLYSIM_API hipError_t hipStreamDestroy(void *stream) try {
  if (Runtime::instance().streams.contains(stream)) {
    finishQueue(stream);
    endCaptureOf(*static_cast<Stream *>(stream));
  }
  return Runtime::instance().streams.destroy(stream)
             ? hipSuccess
             : fail(hipErrorInvalidHandle, "hipStreamDestroy: invalid stream");
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamSynchronize(void *stream) try {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamSynchronize: invalid stream");
  if (Stream *s = capturing(stream)) {
    s->capture->invalid = true;
    return fail(hipErrorStreamCaptureUnsupported, "a capturing stream cannot be synchronized");
  }
  return isDefaultStream(stream) ? finishDevice() : finishQueue(stream);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamQuery(void *stream) try {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamQuery: invalid stream");
  if (Stream *s = capturing(stream)) {
    s->capture->invalid = true;
    return fail(hipErrorStreamCaptureUnsupported, "a capturing stream cannot be queried");
  }
  if (!queuesEnabled())
    return hipSuccess;
  return queueBusy(stream) ? hipErrorNotReady : finishQueue(stream);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamWaitEvent(void *stream, void *event, unsigned flags) try {
  if (!validStream(stream) || !Runtime::instance().events.contains(event))
    return fail(hipErrorInvalidHandle, "hipStreamWaitEvent: invalid handle");
  auto *e = static_cast<Event *>(event);
  Stream *own = capturing(stream);
  if (e->capture) {
    if (isDefaultStream(stream))
      return fail(hipErrorStreamCaptureImplicit, "the null stream cannot join a capture");
    auto *s = static_cast<Stream *>(stream);
    if (own && own->capture != e->capture)
      return fail(hipErrorStreamCaptureIsolation, "the event belongs to another capture");
    std::vector<GraphNode *> tail = s->tail;
    for (GraphNode *n : e->tail)
      if (std::find(tail.begin(), tail.end(), n) == tail.end())
        tail.push_back(n);
    s->tail.swap(tail);
    s->capture = e->capture;
    return hipSuccess;
  }
  if (own) {
    if (!(flags & 1)) // hipEventWaitExternal
      return fail(hipErrorStreamCaptureIsolation,
                  "a captured stream cannot wait for an event outside its capture");
    void *node;
    std::vector<GraphNode *> tail(1);
    if (hipError_t error = hipGraphAddEventWaitNode(&node, own->capture->graph,
                                                    reinterpret_cast<void **>(own->tail.data()),
                                                    own->tail.size(), event))
      return error;
    tail[0] = static_cast<GraphNode *>(node);
    own->tail.swap(tail);
    return hipSuccess;
  }
  std::shared_ptr<EventState> state = e->state;
  if (state->done())
    return hipSuccess;
  needQueues();
  return queueWork(stream, [state] { state->wait(); });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetFlags(void *stream, unsigned *flags) try {
  if (!flags)
    return fail(hipErrorInvalidValue, "hipStreamGetFlags: null pointer");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetFlags: invalid stream");
  *flags = isDefaultStream(stream) ? 0 : static_cast<Stream *>(stream)->flags;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetPriority(void *stream, int *priority) try {
  if (!priority)
    return fail(hipErrorInvalidValue, "hipStreamGetPriority: null pointer");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetPriority: invalid stream");
  *priority = isDefaultStream(stream) ? 0 : static_cast<Stream *>(stream)->priority;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetDevice(void *stream, int *device) try {
  if (!device)
    return fail(hipErrorInvalidValue, "hipStreamGetDevice: null pointer");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetDevice: invalid stream");
  *device = isDefaultStream(stream) ? currentDevice() : static_cast<Stream *>(stream)->device;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetId(void *stream, unsigned long long *id) try {
  if (!id)
    return fail(hipErrorInvalidValue, "hipStreamGetId: null pointer");
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamGetId: invalid stream");
  *id = isDefaultStream(stream) ? (reinterpret_cast<uintptr_t>(stream) == 2 ? 2 : 1)
                        : static_cast<Stream *>(stream)->id;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtStreamCreateWithCUMask(void **stream, uint32_t words, const uint32_t *mask) try {
  if (!words || !mask)
    return fail(hipErrorInvalidValue, "hipExtStreamCreateWithCUMask: no mask");
  return hipStreamCreate(stream); // which compute units run a kernel changes no result
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipExtStreamGetCUMask(void *stream, uint32_t words, uint32_t *mask) try {
  if (!words || !mask || !validStream(stream))
    return fail(hipErrorInvalidValue, "hipExtStreamGetCUMask: invalid stream or no mask");
  return guarded([&] {
    unsigned units = Runtime::instance().arch().computeUnits;
    // No part has more than 2048: a longer mask stays as it is behind them.
    for (uint32_t n = 0; n < std::min(words, 64u); ++n)
      mask[n] = units >= 32 * (n + 1) ? ~0u : units > 32 * n ? (1u << (units - 32 * n)) - 1 : 0;
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamSetAttribute(void *stream, int attribute, const void *value) try {
  if (!value || attribute < 0 || attribute >= 16 || !validStream(stream) || isDefaultStream(stream))
    return fail(hipErrorInvalidValue, "hipStreamSetAttribute: invalid stream or attribute");
  memcpy(static_cast<Stream *>(stream)->attribute[attribute], value, 64);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamGetAttribute(void *stream, int attribute, void *value) try {
  if (!value || attribute < 0 || attribute >= 16 || !validStream(stream) || isDefaultStream(stream))
    return fail(hipErrorInvalidValue, "hipStreamGetAttribute: invalid stream or attribute");
  memcpy(value, static_cast<Stream *>(stream)->attribute[attribute], 64);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamCopyAttributes(void *to, void *from) try {
  if (!validStream(to) || !validStream(from) || isDefaultStream(to) || isDefaultStream(from))
    return fail(hipErrorInvalidValue, "hipStreamCopyAttributes: invalid stream");
  memcpy(static_cast<Stream *>(to)->attribute, static_cast<Stream *>(from)->attribute,
         sizeof(Stream::attribute));
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamAddCallback(void *stream, void (*callback)(void *, int, void *),
                                           void *data, unsigned flags) try {
  if (!callback || flags)
    return fail(hipErrorInvalidValue, "hipStreamAddCallback: no function, or flags");
  if (capturing(stream))
    return fail(hipErrorStreamCaptureUnsupported, "callbacks cannot be captured");
  NodeWork work;
  work.type = NodeType::Host;
  work.run = [=] { callback(stream, hipSuccess, data); };
  return enqueue(stream, std::move(work));
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipLaunchHostFunc(void *stream, void (*fn)(void *), void *data) try {
  if (!fn)
    return fail(hipErrorInvalidValue, "hipLaunchHostFunc: no function");
  NodeWork work;
  work.type = NodeType::Host;
  work.host = {fn, data};
  work.run = [=] { fn(data); };
  return enqueue(stream, std::move(work));
} FLYSIM_GUARDED

//===--- values in memory ---------------------------------------------------===//

namespace {

template <class T>
hipError_t waitValue(void *stream, void *address, T value, unsigned flags, T mask) {
  if (!validStream(stream) || !address || flags > 3)
    return fail(hipErrorInvalidValue, "hipStreamWaitValue: invalid stream, address or flags");
  auto ready = [=] {
    checkRange(address, sizeof(T), false, "hipStreamWaitValue");
    T now = 0;
    onHostMemory("hipStreamWaitValue",
                 [&] { now = __atomic_load_n(static_cast<T *>(address), __ATOMIC_ACQUIRE) & mask; });
    using S = std::make_signed_t<T>;
    switch (flags) {
    case 0:
      return static_cast<S>(now - (value & mask)) >= 0;
    case 1:
      return now == (value & mask);
    case 2:
      return (now & value) != 0;
    default:
      return static_cast<T>(~(now | value)) != 0;
    }
  };
  NodeWork work;
  work.run = [=] {
    while (!ready())
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  };
  if (capturing(stream))
    return enqueue(stream, std::move(work));
  if (!queueBusy(stream) && ready())
    return hipSuccess;
  needQueues(); // whoever writes the value may be called after this function
  return queueWork(stream, std::move(work.run));
}

template <class T> hipError_t writeValue(void *stream, void *address, T value) {
  if (!address)
    return fail(hipErrorInvalidValue, "hipStreamWriteValue: no address");
  NodeWork work;
  work.run = [=] {
    checkRange(address, sizeof(T), true, "hipStreamWriteValue");
    onHostMemory("hipStreamWriteValue",
                 [=] { __atomic_store_n(static_cast<T *>(address), value, __ATOMIC_RELEASE); });
  };
  return enqueue(stream, std::move(work));
}

} // namespace

FLYSIM_API hipError_t hipStreamWaitValue32(void *stream, void *address, uint32_t value,
                                           unsigned flags, uint32_t mask) try {
  return waitValue(stream, address, value, flags, mask);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamWaitValue64(void *stream, void *address, uint64_t value,
                                           unsigned flags, uint64_t mask) try {
  return waitValue(stream, address, value, flags, mask);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamWriteValue32(void *stream, void *address, uint32_t value, unsigned) try {
  return writeValue(stream, address, value);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipStreamWriteValue64(void *stream, void *address, uint64_t value, unsigned) try {
  return writeValue(stream, address, value);
} FLYSIM_GUARDED

namespace {

/// One operation of hipStreamBatchMemOp.
struct MemOp {
  int operation; ///< 1 wait32, 2 write32, 3 flush, 4 wait64, 5 write64, 6 barrier
  void *address;
  uint64_t value;
  unsigned flags;
  void *alias;
  uint64_t pad;
};
static_assert(sizeof(MemOp) == 48, "HIP binary interface");

} // namespace

FLYSIM_API hipError_t hipStreamBatchMemOp(void *stream, unsigned count, const MemOp *list, unsigned flags) try {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "hipStreamBatchMemOp: invalid stream");
  if (!count || count > 256 || !list || flags)
    return fail(hipErrorInvalidValue, "hipStreamBatchMemOp: no operations, more than 256, or flags");
  for (unsigned n = 0; n < count; ++n) {
    int op = list[n].operation;
    bool wait = op == 1 || op == 4, known = op >= 1 && op <= 6;
    if (!known || (op != 3 && op != 6 && !list[n].address) || (wait && list[n].flags > 3))
      return fail(hipErrorInvalidValue, format("hipStreamBatchMemOp: operation %u is invalid", n));
  }
  for (unsigned n = 0; n < count; ++n) {
    const MemOp &o = list[n];
    auto low = static_cast<uint32_t>(o.value);
    hipError_t e = o.operation == 1   ? waitValue<uint32_t>(stream, o.address, low, o.flags, ~0u)
                   : o.operation == 4 ? waitValue<uint64_t>(stream, o.address, o.value, o.flags, ~0ull)
                   : o.operation == 2 ? writeValue<uint32_t>(stream, o.address, low)
                   : o.operation == 5 ? writeValue<uint64_t>(stream, o.address, o.value)
                                      : hipSuccess; // everything is in order and visible at once
    if (e)
      return e;
  }
  return hipSuccess;
} FLYSIM_GUARDED
