//===- Queues.h - work that outlives the call that enqueued it -*- C++ -*-===//
//
// With one simulated device, everything runs to completion inside the call. With
// several, kernels may wait for each other across devices, so each stream has a thread
// of its own once a launch takes long.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_HIP_QUEUES_H
#define FLYSIM_HIP_QUEUES_H

#include "hip/HipTypes.h"

#include <functional>

namespace flysim {

/// Whether launches may continue after the call returns.
bool queuesEnabled();
/// From now on they may, whatever the number of devices: a stream waits for something
/// that a later call brings about.
void needQueues();
/// Runs `work` after everything that `stream` was given before. Waits a moment for it;
/// work that takes longer goes on in the background. An error if the queue's thread cannot start.
hipError_t queueWork(void *stream, std::function<void()> work);
/// True while the stream has unfinished work.
bool queueBusy(void *stream);
/// Waits for the stream's work; the error of its first failed work since the last
/// report, with its message set.
hipError_t finishQueue(void *stream);
/// The same for every stream of the current device, or of all devices.
hipError_t finishDevice();
hipError_t finishAll();

} // namespace flysim

#endif
