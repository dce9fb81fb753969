//===- Layouts.h - literal layouts --------------------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_LAYOUTS_H
#define FLY_ROCDL_LIB_IR_LAYOUTS_H

#include "fly/IR/FlyDialect.h"

namespace mlir::fly_rocdl {

/// A static int tuple written as nested braces: `{{16, 4}, 4}`.
struct Ints {
  int32_t value = 0;
  std::vector<Ints> children;

  Ints(int32_t value) : value(value) {}
  Ints(std::initializer_list<Ints> children) : children(children) {}

  fly::IntTupleAttr toAttr(MLIRContext *ctx) const {
    if (children.empty())
      return fly::IntTupleAttr::getStatic(ctx, value);
    SmallVector<fly::IntTupleAttr> attrs;
    for (const Ints &child : children)
      attrs.push_back(child.toAttr(ctx));
    return fly::IntTupleAttr::getTuple(ctx, attrs);
  }
};

/// `shape:stride`, for instance `makeLayout(ctx, {{16, 4}, 4}, {{1, 64}, 16})`.
inline fly::LayoutAttr makeLayout(MLIRContext *ctx, const Ints &shape, const Ints &stride) {
  return fly::LayoutAttr::get(shape.toAttr(ctx), stride.toAttr(ctx));
}

/// `threads:1`.
inline fly::LayoutAttr makeThrLayout(MLIRContext *ctx, int32_t threads) {
  return makeLayout(ctx, threads, 1);
}

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_LAYOUTS_H
