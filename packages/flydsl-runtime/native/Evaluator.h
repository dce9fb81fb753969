//===- Evaluator.h - Evaluation of launch plans -----------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_EVALUATOR_H
#define FLYDSL_RUNTIME_EVALUATOR_H

#include "Plan.h"

#include <stdexcept>

namespace flydsl::runtime {

/// An error found while a plan runs: a failed assertion, a division by zero, a bad launch size.
struct PlanFailure : std::runtime_error {
  enum class Kind { Assertion, Division, Launch };
  PlanFailure(Kind kind, const std::string &what) : std::runtime_error(what), kind(kind) {}
  Kind kind;
};

/// What a plan acts on.
class LaunchSink {
public:
  virtual ~LaunchSink() = default;
  /// Executes one launch; operands are read from \p regs.
  virtual void launch(const LaunchSpec &spec, const int64_t *regs) = 0;
  /// Text that the host code prints; by default to the standard output, flushed at a line's end.
  virtual void print(const std::string &text);
  /// Called now and then in long host loops; may throw to leave the plan.
  virtual void poll() {}
};

/// Runs \p plan on bound arguments (one per ArgSpec). Operations of width 1 leave 0 or 1 in a
/// register, wider integers are sign-extended from their width. Shifts by the width or more give
/// what shifting bit by bit would give. Pure C++: needs neither the GIL nor a device.
/// \throws PlanFailure, and whatever \p sink throws.
void evaluate(const Plan &plan, const ArgValue *args, LaunchSink &sink);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_EVALUATOR_H
