//===- FlyDialects.cpp - Type classes of our dialects ---------------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

namespace nb = nanobind;
using namespace flydsl;

NB_MODULE(_flyDialects, m) {
  m.doc() = "Types of the dialects fly and fly_rocdl.";

  nb::module_ fly = m.def_submodule("fly", "Types and helper functions of the fly dialect.");
  bindHelpers(fly);
  bindLayoutTypes(fly);
  bindTensorTypes(fly);
  bindAtomTypes(fly);
  bindDLTensor(fly);
  bindKeptOperations(fly);

  nb::module_ flyROCDL = m.def_submodule("fly_rocdl", "Types of the fly_rocdl dialect.");
  bindFlyROCDLTypes(flyROCDL);
}
