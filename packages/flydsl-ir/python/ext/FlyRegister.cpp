//===- FlyRegister.cpp - Registers dialects and passes with Python --------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/Dialects.h"

#include "mlir/Bindings/Python/NanobindAdaptors.h"

namespace nb = nanobind;

NB_MODULE(_flyRegister, m) {
  m.doc() = "Registration of the dialects and passes of FlyDSL.";
  m.def("register_dialects", &flyRegisterAllDialects, nb::arg("registry"),
        "Adds fly, fly_rocdl and the upstream dialects of the pipeline to a registry.");
  m.def("register_passes", &flyRegisterAllPasses,
        "Registers every pass of the pipeline by name; repeated calls do nothing.");
}
