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

#include <algorithm>
#include <vector>

namespace flydsl {
namespace {

class KeptOperations {
public:
  KeptOperations() = default;
  KeptOperations(const KeptOperations &) = delete;
  KeptOperations &operator=(const KeptOperations &) = delete;

  // In order: what was taken out of an operation uses its values, not the other way round.
  ~KeptOperations() {
    for (MlirOperation op : operations)
      mlirOperationDestroy(op);
  }

  void take(MlirOperation op) {
    if (mlirBlockIsNull(mlirOperationGetBlock(op)))
      raiseValueError("expected an operation in a block");
    mlirOperationRemoveFromParent(op);
    operations.push_back(op);
    mlirOperationWalk(op, keepContexts, this, MlirWalkPreOrder);
  }

private:
  // A trace that uses values of another one is refused when it is done. What it made of them, types
  // too, is of the other's context, which must not end first.
  static MlirWalkResult keepContexts(MlirOperation op, void *self) {
    auto &contexts = static_cast<KeptOperations *>(self)->contexts;
    for (intptr_t i = 0, n = mlirOperationGetNumOperands(op); i < n; ++i) {
      MlirContext used = mlirTypeGetContext(mlirValueGetType(mlirOperationGetOperand(op, i)));
      auto known = [used](PyMlirContextRef &one) {
        return mlirContextEqual(one->get(), used);
      };
      if (!mlirContextEqual(used, mlirOperationGetContext(op)) &&
          std::none_of(contexts.begin(), contexts.end(), known))
        contexts.push_back(PyMlirContext::forContext(used));
    }
    return MlirWalkResultAdvance;
  }

  std::vector<PyMlirContextRef> contexts; // others than that of the operations
  std::vector<MlirOperation> operations;
};

} // namespace

void bindKeptOperations(nb::module_ &m) {
  nb::class_<KeptOperations>(m, "_KeptOperations",
                             "Operations that were taken out of their blocks. They end with this "
                             "object, which must not outlive their context.")
      .def(nb::init<>())
      .def("take", &KeptOperations::take, nb::arg("operation"),
           "Move an operation here. What is taken later may use nothing of it. Contexts of values that "
           "it uses live as long as this object.");
}

} // namespace flydsl
