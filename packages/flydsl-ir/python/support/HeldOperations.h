//===- HeldOperations.h - What Python has of operations ---------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
// Objects of the bindings point at operations, blocks and values, which passes, patterns and other
// objects may erase. An object of what is gone raises when it is used.
//
//===----------------------------------------------------------------------===//
#ifndef FLY_PYTHON_HELDOPERATIONS_H
#define FLY_PYTHON_HELDOPERATIONS_H

#include "mlir-c/IR.h"
#include "llvm/ADT/SmallPtrSet.h"
#include <cstdint>

namespace mlir {
namespace python {
namespace MLIR_BINDINGS_PYTHON_DOMAIN {

class PyOperation;

/// All objects of operations. The GIL guards them.
class MLIR_PYTHON_API_EXPORTED HeldOperations {
public:
  static void add(PyOperation *object, MlirOperation operation);
  static void remove(PyOperation *object, MlirOperation operation);

  /// `operation` is about to be erased, with what is in it.
  static void invalidate(MlirOperation operation);

  /// Whether an operation outside of `operation` uses a value of it or of what is in it.
  static bool isUsedOutside(MlirOperation operation);

  /// The same of a module: what is not in it and may use its values is what Python owns.
  static bool isUsedByPython(MlirModule module);

  /// Grows when blocks, arguments or operations may have been erased: what an object has found then
  /// has to be found again.
  static uint64_t changes();
  static void addChange();

  /// Whether the regions of `parent` have `block`, and `parent` has `value` as a result or an argument.
  static bool contains(MlirOperation parent, MlirBlock block);
  static bool contains(MlirOperation parent, MlirValue value);
};

/// While it lives, something else changes what is in an operation: passes, patterns. Afterwards the
/// objects of the operations that are no longer there are invalid. An object of an operation that was
/// erased stays valid only if an operation of the same name and numbers of results and regions has
/// taken its place in memory: then it is an object of that one.
class MLIR_PYTHON_API_EXPORTED ChangesByOthers {
public:
  explicit ChangesByOthers(PyOperation &root);
  ~ChangesByOthers();
  ChangesByOthers(const ChangesByOthers &) = delete;
  ChangesByOthers &operator=(const ChangesByOthers &) = delete;

private:
  MlirOperation root;
  uint64_t firstNew;
  llvm::SmallPtrSet<PyOperation *, 8> inside;
};

} // namespace MLIR_BINDINGS_PYTHON_DOMAIN
} // namespace python
} // namespace mlir

#endif // FLY_PYTHON_HELDOPERATIONS_H
