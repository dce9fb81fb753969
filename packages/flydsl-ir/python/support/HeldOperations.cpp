//===- HeldOperations.cpp - What Python has of operations -----------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
#include "mlir/Bindings/Python/IRCore.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>

using namespace mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

namespace {

struct Held {
  PyOperation *object;
  uint64_t number; ///< in order of construction
  const void *name;
  intptr_t results, regions;

  bool looksLike(MlirOperation operation) const {
    return mlirOperationGetName(operation).ptr == name &&
           mlirOperationGetNumResults(operation) == results &&
           mlirOperationGetNumRegions(operation) == regions;
  }
};

// Never destroyed: objects end after static data.
llvm::DenseMap<void *, llvm::SmallVector<Held, 1>> &table() {
  static auto *objects = new llvm::DenseMap<void *, llvm::SmallVector<Held, 1>>();
  return *objects;
}

uint64_t constructed = 0;
uint64_t changeCount = 0;

template <typename Visit> void eachBlock(MlirOperation operation, Visit visit) {
  for (intptr_t i = 0, n = mlirOperationGetNumRegions(operation); i < n; ++i)
    for (MlirBlock block = mlirRegionGetFirstBlock(mlirOperationGetRegion(operation, i));
         !mlirBlockIsNull(block); block = mlirBlockGetNextInRegion(block))
      visit(block);
}

/// The results of an operation and the arguments of its blocks.
template <typename Visit> void eachValue(MlirOperation operation, Visit visit) {
  for (intptr_t i = 0, n = mlirOperationGetNumResults(operation); i < n; ++i)
    visit(mlirOperationGetResult(operation, i));
  eachBlock(operation, [&](MlirBlock block) {
    for (intptr_t i = 0, n = mlirBlockGetNumArguments(block); i < n; ++i)
      visit(mlirBlockGetArgument(block, i));
  });
}

template <typename Visit> void walk(MlirOperation root, Visit visit) {
  auto callback = [](MlirOperation operation, void *data) {
    (*static_cast<Visit *>(data))(operation);
    return MlirWalkResultAdvance;
  };
  mlirOperationWalk(root, callback, &visit, MlirWalkPreOrder);
}

} // namespace

void HeldOperations::add(PyOperation *object, MlirOperation operation) {
  table()[operation.ptr].push_back({object, constructed++, mlirOperationGetName(operation).ptr,
                                    mlirOperationGetNumResults(operation),
                                    mlirOperationGetNumRegions(operation)});
}

void HeldOperations::remove(PyOperation *object, MlirOperation operation) {
  auto found = table().find(operation.ptr);
  llvm::erase_if(found->second, [object](const Held &held) { return held.object == object; });
  if (found->second.empty())
    table().erase(found);
}

void HeldOperations::invalidate(MlirOperation operation) {
  addChange();
  walk(operation, [](MlirOperation inner) {
    if (auto found = table().find(inner.ptr); found != table().end())
      for (Held &held : found->second)
        held.object->setInvalid();
  });
}

bool HeldOperations::isUsedOutside(MlirOperation operation) {
  auto isInside = [operation](MlirOperation inner) {
    while (!mlirOperationIsNull(inner) && !mlirOperationEqual(inner, operation))
      inner = mlirOperationGetParentOperation(inner);
    return !mlirOperationIsNull(inner);
  };
  bool used = false;
  auto look = [&](MlirValue value) {
    for (MlirOpOperand use = mlirValueGetFirstUse(value); !used && !mlirOpOperandIsNull(use);
         use = mlirOpOperandGetNextUse(use))
      used = !isInside(mlirOpOperandGetOwner(use));
  };
  walk(operation, [&](MlirOperation inner) { eachValue(inner, look); });
  return used;
}

bool HeldOperations::isUsedByPython(MlirModule module) {
  for (auto &[pointer, objects] : table())
    for (Held &held : objects)
      if (!held.object->isAttached())
        return isUsedOutside(mlirModuleGetOperation(module));
  return false;
}

uint64_t HeldOperations::changes() { return changeCount; }
void HeldOperations::addChange() { ++changeCount; }

bool HeldOperations::contains(MlirOperation parent, MlirBlock block) {
  bool found = false;
  eachBlock(parent, [&](MlirBlock one) { found |= mlirBlockEqual(one, block); });
  return found;
}

bool HeldOperations::contains(MlirOperation parent, MlirValue value) {
  bool found = false;
  eachValue(parent, [&](MlirValue one) { found |= mlirValueEqual(one, value); });
  return found;
}

ChangesByOthers::ChangesByOthers(PyOperation &object)
    : root(object.get()), firstNew(constructed) {
  walk(root, [this](MlirOperation inner) {
    if (auto found = table().find(inner.ptr); found != table().end())
      for (Held &held : found->second)
        inside.insert(held.object);
  });
}

ChangesByOthers::~ChangesByOthers() {
  HeldOperations::addChange();
  llvm::SmallPtrSet<void *, 32> present;
  walk(root, [&](MlirOperation inner) { present.insert(inner.ptr); });
  MlirContext context = mlirOperationGetContext(root);
  for (auto &[pointer, objects] : table())
    for (Held &held : objects) {
      // What Python built or took out during the changes, and still owns, nobody else erases.
      bool concerned = inside.contains(held.object) ||
                       (held.number >= firstNew &&
                        mlirContextEqual(held.object->getContext()->get(), context));
      if (concerned && held.object->isAttached() &&
          !(present.contains(pointer) && held.looksLike(MlirOperation{pointer})))
        held.object->setInvalid();
    }
}
