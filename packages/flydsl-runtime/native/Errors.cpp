//===- Errors.cpp - C++ failures as Python exceptions ------------------------===//

#include "Errors.h"

#include "Evaluator.h"
#include "HipApi.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace flydsl::runtime {

namespace {

void setHipError(const char *className, const std::string &message, int code,
                 const std::string &name) {
  nb::object type = nb::module_::import_("flydsl.runtime._errors").attr(className);
  nb::object error = type(nb::str(message.data(), message.size()), code,
                          nb::str(name.data(), name.size()));
  PyErr_SetObject(type.ptr(), error.ptr());
}

PyObject *planErrorType(PlanFailure::Kind kind) {
  switch (kind) {
  case PlanFailure::Kind::Assertion: return PyExc_AssertionError;
  case PlanFailure::Kind::Division: return PyExc_ZeroDivisionError;
  case PlanFailure::Kind::Launch: return PyExc_ValueError;
  }
  return PyExc_RuntimeError;
}

PyObject *builtinType(nb::exception_type type) {
  switch (type) {
  case nb::exception_type::value_error: return PyExc_ValueError;
  case nb::exception_type::key_error: return PyExc_KeyError;
  case nb::exception_type::type_error: return PyExc_TypeError;
  default: return PyExc_RuntimeError;
  }
}

} // namespace

void setPythonError(std::exception_ptr failure) noexcept {
  try {
    try {
      std::rethrow_exception(failure);
    } catch (const HipFailure &error) {
      setHipError(error.fromSimulator ? "SimulatorError" : "HipError", error.what(), error.code,
                  error.name);
    } catch (const LibraryError &error) {
      setHipError("HipError", error.what(), 0, "");
    } catch (const PlanFailure &error) {
      PyErr_SetString(planErrorType(error.kind), error.what());
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
