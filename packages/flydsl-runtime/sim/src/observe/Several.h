//===- Several.h - several observers of one launch -------------*- C++ -*-===//
#ifndef FLYSIM_OBSERVE_SEVERAL_H
#define FLYSIM_OBSERVE_SEVERAL_H

#include "observe/Observer.h"

namespace flysim {

/// An observer that tells both of what it sees, `a` first; either may be null.
std::unique_ptr<LaunchObserver> several(std::unique_ptr<LaunchObserver> a,
                                        std::unique_ptr<LaunchObserver> b);

} // namespace flysim

#endif
