//===- Errors.cpp - C++ failures as Python exceptions ------------------------===//

#include "Errors.h"

#include "Evaluator.h"
#include "HipApi.h"

#include <nanobind/nanobind.h>
#include <utility>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

nb::object ofPackage(const char *className) {
  return nb::module_::import_("flydsl.runtime._errors").attr(className);
}

void setHipError(const char *className, const std::string &message, int code,
                 const std::string &name) {
  nb::object type = ofPackage(className);
  nb::object error = type(nb::str(message.data(), message.size()), code,
                          nb::str(name.data(), name.size()));
  PyErr_SetObject(type.ptr(), error.ptr());
}

nb::object planErrorType(PlanFailure::Kind kind) {
  switch (kind) {
  case PlanFailure::Kind::Assertion: return ofPackage("HostAssertionError");
  case PlanFailure::Kind::Division: return nb::borrow(PyExc_ZeroDivisionError);
  case PlanFailure::Kind::Launch: return nb::borrow(PyExc_ValueError);
  }
  return nb::borrow(PyExc_RuntimeError);
}

PyObject *builtinType(nb::exception_type type) {
  switch (type) {
  case nb::exception_type::value_error: return PyExc_ValueError;
  case nb::exception_type::key_error: return PyExc_KeyError;
  case nb::exception_type::type_error: return PyExc_TypeError;
  default: return PyExc_RuntimeError;
  }
}

/// What a signal handler raised while a HIP call waited; the call's failure is reported as this.
thread_local PyObject *interruption = nullptr;

/// Makes the kept exception the Python error, with \p where the launch was.
void restoreInterruption(const char *where) {
  PyObject *error = std::exchange(interruption, nullptr);
#if PY_VERSION_HEX >= 0x030B0000
  if (PyObject *done = PyObject_CallMethod(error, "add_note", "s", where))
    Py_DECREF(done);
  else
    PyErr_Clear();
#else
  (void)where;
#endif
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

} // namespace

int askInterrupt() noexcept {
  nb::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0)
    return 0;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace)
    PyException_SetTraceback(value, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  Py_XSETREF(interruption, value);
  return 1;
}

void setPythonError(std::exception_ptr failure) noexcept {
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const HipFailure &error) {
      if (interruption)
        return restoreInterruption(error.what());
      setHipError(error.fromSimulator ? "SimulatorError" : "HipError", error.what(), error.code,
                  error.name);
    } catch (const LibraryError &error) {
      setHipError("HipError", error.what(), 0, "");
    } catch (const PlanFailure &error) {
      PyErr_SetString(planErrorType(error.kind).ptr(), error.what());
    }
  } catch (nb::python_error &error) {
    error.restore();
  } catch (nb::builtin_exception &error) {
    PyErr_SetString(builtinType(error.type()), error.what());
  } catch (const std::exception &error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "unknown C++ exception");
  }
}

HipApi &requireApi() {
  if (HipApi *api = currentApi())
    return *api;
  nb::module_::import_("flydsl.runtime._provider").attr("ensure_loaded")();
  if (HipApi *api = currentApi())
    return *api;
  throw LibraryError("no HIP library was loaded");
}

} // namespace flydsl::runtime
