//===- Enqueue.cpp - work of streams --------------------------------------===//

#include "hip/Queues.h"
#include "hip/Runtime.h"

namespace flysim {

hipError_t enqueue(void *stream, NodeWork work) {
  if (!validStream(stream))
    return fail(hipErrorInvalidHandle, "invalid stream");
  if (Stream *s = capturing(stream)) {
    if (s->capture->invalid)
      return fail(hipErrorStreamCaptureInvalidated, "the capture of the stream is invalid");
    std::vector<GraphNode *> tail(1);
    tail[0] = s->capture->graph->add(std::move(work), s->tail);
    s->tail.swap(tail);
    return hipSuccess;
  }
  if (reinterpret_cast<uintptr_t>(stream) <= 1)
    if (hipError_t e = nullStreamAllowed())
      return e;
  if (!work.run)
    return hipSuccess;
  if (queuesEnabled()) {
    bool slow = work.type == NodeType::Kernel || work.type == NodeType::Child;
    // The null stream is ordered with every other stream of its device.
    if (isDefaultStream(stream))
      if (hipError_t e = finishDevice())
        return e;
    if (slow || queueBusy(stream)) {
      if (hipError_t e = queueWork(stream, std::move(work.run)))
        return e;
      return queueBusy(stream) ? hipSuccess : finishQueue(stream);
    }
  }
  return guarded([&] {
    work.run();
    return hipSuccess;
  });
}

} // namespace flysim
