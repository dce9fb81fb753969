//===- Capture.h - recording streams into graphs ---------------*- C++ -*-===//
#ifndef FLYSIM_HIP_CAPTURE_H
#define FLYSIM_HIP_CAPTURE_H

#include "hip/Graph.h"

#include <memory>
#include <thread>

namespace flysim {

struct Stream;

/// hipStreamCaptureMode.
enum CaptureMode { kCaptureGlobal, kCaptureThreadLocal, kCaptureRelaxed };

/// A capture and the graph that it fills; shared by the streams and events that took part.
struct Capture {
  std::unique_ptr<Graph> own; ///< null when the capture extends a graph of the program
  Graph *graph = nullptr;
  unsigned long long id = 0;
  int mode = kCaptureGlobal;
  Stream *origin = nullptr;
  std::thread::id thread;
  bool invalid = false;
};

/// Ends the capture that began on a stream, without a graph.
void endCaptureOf(Stream &s);
/// Success, or the error of a call that must not be made while streams are captured, as
/// the modes of the captures and of this thread demand.
hipError_t allowedInCapture(const char *function);
/// The error of work on the null stream while a blocking stream is captured.
hipError_t nullStreamAllowed();

} // namespace flysim

#endif
