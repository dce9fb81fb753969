//===- Checks.h - opt-in checks of running kernels -------------*- C++ -*-===//
#ifndef FLYSIM_CHECK_CHECKS_H
#define FLYSIM_CHECK_CHECKS_H

#include "observe/Observer.h"

#include <memory>

namespace flysim {

struct Dispatch;

/// FLYDSL_SIM_CHECK, a comma-separated list.
enum : unsigned {
  kCheckOob = 1,     ///< LDS accesses outside the allocation; host reads outside the arrays
  kCheckUninit = 2,  ///< reads of LDS that the work-group never wrote
  kCheckRace = 4,    ///< conflicting accesses of two waves with no barrier between them
  kCheckBarrier = 8, ///< barriers in divergent code, waves that skip one
  kCheckNan = 16,    ///< the first NaN or infinity made from finite operands
};

/// The checks that the environment asks for; raises InvalidConfiguration for a name that
/// does not exist.
unsigned requestedChecks();
/// An observer that performs them, or null when none is asked for. A finding is a fault.
std::unique_ptr<LaunchObserver> checkLaunch(const Dispatch &dispatch);

} // namespace flysim

#endif
