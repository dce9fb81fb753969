//===- Breakpoints.h - stopping a wave to look at it -----------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_BREAKPOINTS_H
#define FLYSIM_OBSERVE_BREAKPOINTS_H

#include "observe/Observer.h"

namespace flysim {

/// The observer of the breakpoints that are set, or null.
std::unique_ptr<LaunchObserver> breakLaunch(const Dispatch &dispatch);

} // namespace flysim

#endif
