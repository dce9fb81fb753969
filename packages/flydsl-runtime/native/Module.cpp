//===- Module.cpp - The extension module flydsl.runtime._native --------------===//

#include "Errors.h"
#include "Launcher.h"
#include "PlanParser.h"
#include "PlanTable.h"

#include <nanobind/stl/string.h>

namespace nb = nanobind;

/// The table as Python sees it: instruction -> kinds of its operands.
static nb::dict planInstructions() {
  nb::dict found;
  for (const flydsl::runtime::InstructionSpec &spec : flydsl::runtime::instructions()) {
    nb::list kinds;
    for (const flydsl::runtime::OperandSpec &operand : spec.operands)
      kinds.append(flydsl::runtime::operandName(operand.kind));
    found[spec.name] = nb::tuple(kinds);
  }
  return found;
}

static nb::tuple planArgumentFlags() {
  nb::list names;
  for (const flydsl::runtime::ArgumentFlag &flag : flydsl::runtime::argumentFlags())
    names.append(flag.name);
  return nb::tuple(names);
}

NB_MODULE(_native, m) {
  m.doc() = "Launch plans and the HIP API of flydsl.runtime.";
  nb::register_exception_translator(
      [](const std::exception_ptr &failure, void *) { flydsl::runtime::setPythonError(failure); });
  m.attr("PLAN_VERSION") = flydsl::runtime::kPlanVersion;
  m.def("plan_instructions", &planInstructions, "The instructions of launch plans, with the kinds of their operands.");
  m.def("plan_argument_flags", &planArgumentFlags, "What entries of arguments may say of them.");
  flydsl::runtime::registerLauncher(m);
  flydsl::runtime::registerDispatcher(m);
  flydsl::runtime::registerDeviceFunctions(m);
}
