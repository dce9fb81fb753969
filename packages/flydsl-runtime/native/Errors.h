//===- Errors.h - C++ failures as Python exceptions -------------*- C++ -*-===//

#ifndef FLYDSL_RUNTIME_ERRORS_H
#define FLYDSL_RUNTIME_ERRORS_H

#include <Python.h>
#include <exception>

namespace flydsl::runtime {

/// Sets the Python error that stands for \p failure: HipFailure becomes HipError or
/// SimulatorError, PlanFailure a HostAssertionError, ZeroDivisionError or ValueError, LibraryError a
/// HipError, a Python error itself. Needs the GIL.
void setPythonError(std::exception_ptr failure) noexcept;

/// Runs \p body, a function that returns a new reference; a C++ exception becomes the Python error
/// and null is returned.
template <typename Body> PyObject *guarded(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    setPythonError(std::current_exception());
    return nullptr;
  }
}

/// Runs Python's signal handlers, if this is the main thread, and keeps the exception that one
/// raised (KeyboardInterrupt) for setPythonError(). Not 0 if there is one. For calls that wait
/// without the GIL.
int askInterrupt() noexcept;

/// The library in use; asks flydsl.runtime._provider to choose one on first use. Needs the GIL.
/// \throws nanobind::python_error
struct HipApi;
HipApi &requireApi();

} // namespace flydsl::runtime

#endif // FLYDSL_RUNTIME_ERRORS_H
