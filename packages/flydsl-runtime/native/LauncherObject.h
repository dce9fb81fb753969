//===- LauncherObject.h - The state of a flydsl.runtime.Launcher -*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_LAUNCHEROBJECT_H
#define FLYDSL_RUNTIME_LAUNCHEROBJECT_H

#include "Arguments.h"
#include "LoadedKernels.h"
#include "Plan.h"
#include "TensorView.h"

#include <Python.h>
#include <string>
#include <vector>

namespace flydsl::runtime {

struct LauncherState {
  LauncherState(Plan plan, std::string codeObject, std::string arch)
      : plan(std::move(plan)), kernels(std::move(codeObject), std::move(arch)) {}
  LauncherState(const LauncherState &) = delete;
  ~LauncherState() { // with the GIL
    for (PyObject *converter : converters)
      Py_XDECREF(converter);
  }

  Plan plan;
  LoadedKernels kernels;
  /// Arguments of a call: as many as the plan has, or more when `positions` selects among them.
  size_t parameterCount = 0;
  /// For each plan argument the position in the call; empty: the same order.
  std::vector<uint32_t> positions;
  /// For each plan argument a callable that turns the call's object into a value, or null; empty
  /// when there are none. Owned references.
  std::vector<PyObject *> converters;
};

/// The state of \p object, or null if it is no Launcher.
LauncherState *launcherStateOf(PyObject *object);

/// Binds \p args (parameterCount of them) and launches on the current device. `views` holds, for
/// each of them, a view that was taken already, or null; it may be null as a whole.
/// \throws nanobind::python_error, HipFailure, PlanFailure, LibraryError
void runLauncher(LauncherState &state, PyObject *const *args, const TensorView *const *views);

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_LAUNCHEROBJECT_H
