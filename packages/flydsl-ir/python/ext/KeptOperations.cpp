//===- KeptOperations.cpp - IR that lives as long as its values -----------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
// A value in Python keeps its context, not the operation that gives it. What may still have values
// when its module ends is moved to a holder, which the caller lets end with the context.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "PyUtils.h"

#include "fly-c/Operations.h"

#include <vector>

namespace flydsl {
namespace {

class KeptOperations {
public:
  KeptOperations() = default;
  KeptOperations(const KeptOperations &) = delete;
  KeptOperations &operator=(const KeptOperations &) = delete;

  // Operations of other contexts may use theirs: a trace that fails since it does ends later.
  ~KeptOperations() {
    for (MlirOperation op : operations)
      flyOperationDestroyUsed(op);
  }

  void take(MlirOperation op) {
    if (mlirBlockIsNull(mlirOperationGetBlock(op)))
      raiseValueError("expected an operation in a block");
    mlirOperationRemoveFromParent(op);
    operations.push_back(op);
  }

private:
  std::vector<MlirOperation> operations;
};

} // namespace

void bindKeptOperations(nb::module_ &m) {
  nb::class_<KeptOperations>(m, "_KeptOperations",
                             "Operations that were taken out of their blocks. They end with this "
                             "object, which must not outlive their context.")
      .def(nb::init<>())
      .def("take", &KeptOperations::take, nb::arg("operation"),
           "Move an operation here.");
}

} // namespace flydsl
