//===- State.h - run-time state of operations ---------------------*- C++ -*-===//
//
// The state of a stateful operation is an LLVM struct of integers. One table of fields per
// operation says everything about it.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_STATE_H
#define FLY_ROCDL_LIB_IR_STATE_H

#include "mlir/IR/Builders.h"

namespace mlir::fly_rocdl {

/// A TDM stride that was not set: the static stride of the memref applies.
constexpr int64_t kStaticStride = -(int64_t(1) << 31);

struct StateField {
  const char *name;
  unsigned width; ///< bits
  int64_t initial = 0;
  bool bitcast = false; ///< accepts other types of the same total width
};

struct StateFields {
  ArrayRef<StateField> fields;

  Type getType(MLIRContext *ctx) const;
  Value getDefault(OpBuilder &builder, Location loc) const;
  std::optional<int32_t> indexOf(StringRef name) const;
  /// `state` with one field replaced; null after a diagnostic.
  Value set(OpBuilder &builder, Location loc, Value state, Attribute fieldAttr,
            Value value) const;
  /// One field, which must exist.
  Value get(OpBuilder &builder, Location loc, Value state, StringRef name) const;
};

/// The fields of an operation type; none for a stateless one.
StateFields getStateFields(Type op);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_STATE_H
