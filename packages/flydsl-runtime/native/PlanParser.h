//===- PlanParser.h - Launch plan from Python data --------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_PLANPARSER_H
#define FLYDSL_RUNTIME_PLANPARSER_H

#include "Plan.h"

#include <nanobind/nanobind.h>

namespace flydsl::runtime {

/// The version of the plan format that this package reads.
inline constexpr int64_t kPlanVersion = 1;

/// Decodes and validates a plan: every register, argument, dimension, branch target and kernarg
/// offset is in range afterwards, so evaluation needs no further checks.
/// \throws nanobind::value_error naming the offending entry.
Plan parsePlan(nanobind::dict data);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_PLANPARSER_H
