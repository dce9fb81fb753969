//===- Checks.h - opt-in checks of running kernels -------------*- C++ -*-===//
#ifndef FLYSIM_CHECK_CHECKS_H
#define FLYSIM_CHECK_CHECKS_H

#include "observe/Observer.h"

#include <memory>
#include <string>

namespace flysim {

struct Dispatch;

/// FLYDSL_SIM_CHECK, a comma-separated list.
enum : unsigned {
  kCheckOob = 1,     ///< LDS accesses outside the allocation; host reads outside the arrays
  kCheckUninit = 2,  ///< results that depend on registers or memory that nobody wrote
  kCheckRace = 4,    ///< conflicting accesses that no barrier or atomic operation orders
  kCheckBarrier = 8, ///< barriers in divergent code, waves that skip one, multicasts without their partners
  kCheckNan = 16,    ///< the first NaN or infinity made from finite operands
  kCheckApprox = 64, ///< branches, active lanes and addresses that depend on approximate results
  kCheckLate = 128,  ///< plain stores reach other devices when they are released, not before
  kCheckStale = 256, ///< plain loads see what other devices wrote when it is acquired, not before
  kCheckBuffer = 32, ///< buffer accesses outside their descriptor (legal: they read zero)
};

/// The checks of later launches: those that flysimCheck chose, else those of the
/// environment. Raises InvalidConfiguration for a name that does not exist.
unsigned requestedChecks();
/// The bits of a list of names.
unsigned parseChecks(const std::string &list);
/// An observer that performs them, or null when none is asked for. A finding is a fault,
/// unless findings are collected.
std::unique_ptr<LaunchObserver> checkLaunch(const Dispatch &dispatch);

} // namespace flysim

#endif
