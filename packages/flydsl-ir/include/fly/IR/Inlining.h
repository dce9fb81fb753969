//===- Inlining.h - calls of functions with operations of ours ---*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_INLINING_H
#define FLY_IR_INLINING_H

#include "mlir/Transforms/InliningUtils.h"

namespace mlir::fly {

/// What a callee does with layouts, tensors and atoms it does in its caller as well: all that the
/// operations need is in their operands and types.
struct InlinerInterface : public DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
};

} // namespace mlir::fly

#endif // FLY_IR_INLINING_H
