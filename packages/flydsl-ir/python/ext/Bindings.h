//===- Bindings.h - Parts of the extension _flyDialects ---------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_PYTHON_EXT_BINDINGS_H
#define FLY_PYTHON_EXT_BINDINGS_H

#include "mlir/Bindings/Python/Nanobind.h"

namespace flydsl {

/// Int tuples, layouts, swizzles, tiles.
void bindLayoutTypes(nanobind::module_ &m);
/// Address spaces, pointers, memrefs, coordinate tensors.
void bindTensorTypes(nanobind::module_ &m);
/// Atoms, tiled operations, universal operations.
void bindAtomTypes(nanobind::module_ &m);
/// `_Basis` and functions on values; LLVM options.
void bindHelpers(nanobind::module_ &m);
/// `_KeptOperations`.
void bindKeptOperations(nanobind::module_ &m);
/// `DLTensorAdaptor`.
void bindDLTensor(nanobind::module_ &m);
/// Copy and MMA operations of AMD GPUs.
void bindFlyROCDLTypes(nanobind::module_ &m);

} // namespace flydsl

#endif // FLY_PYTHON_EXT_BINDINGS_H
