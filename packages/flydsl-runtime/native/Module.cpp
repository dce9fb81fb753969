//===- Module.cpp - The extension module flydsl.runtime._native --------------===//

#include "Errors.h"
#include "Launcher.h"
#include "PlanParser.h"

namespace nb = nanobind;

NB_MODULE(_native, m) {
  m.doc() = "Launch plans and the HIP API of flydsl.runtime.";
  nb::register_exception_translator(
      [](const std::exception_ptr &failure, void *) { flydsl::runtime::setPythonError(failure); });
  m.attr("PLAN_VERSION") = flydsl::runtime::kPlanVersion;
  flydsl::runtime::registerLauncher(m);
  flydsl::runtime::registerDispatcher(m);
  flydsl::runtime::registerDeviceFunctions(m);
}
