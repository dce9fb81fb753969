//===- Terms.h - operands of the layout algebra -------------------*- C++ -*-===//
//
// The algebra works on trees of leaves. A dynamic leaf carries its SSA value when code
// is being generated and no value when only types are inferred, so that type inference
// and lowering run the same algorithms.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ALGEBRA_TERMS_H
#define FLY_ALGEBRA_TERMS_H

#include "fly/IR/FlyDialect.h"

#include <memory>
#include <vector>

namespace mlir::fly {

/// None (static, width 0), a static integer, or a dynamic integer.
struct Int {
  int32_t value = 0;
  int32_t width = 32;
  int32_t div = 1;
  bool isStatic = true;
  Value ssa;

  static Int none() { return {0, 0, 0, true, {}}; }
  static Int constant(int32_t value) { return {value, 32, value == 0 ? 1 : value, true, {}}; }
  static Int dynamic(int32_t width, int32_t div, Value ssa = {}) {
    return {0, width, div, false, ssa};
  }
  /// True for a static value equal to `v`; None counts as 0.
  bool is(int32_t v) const { return isStatic && value == v; }
  bool isNone() const { return isStatic && width == 0; }
};

/// A leaf (an integer, or a basis if `modes` is not empty) or a tuple.
struct Tuple {
  bool isLeaf = true;
  Int num;
  SmallVector<int32_t, 2> modes;
  std::vector<Tuple> kids;

  Tuple() = default;
  Tuple(Int num) : num(num) {}
  Tuple(int32_t value) : num(Int::constant(value)) {}
  Tuple(Int num, ArrayRef<int32_t> modes) : num(num), modes(modes.begin(), modes.end()) {}
  explicit Tuple(std::vector<Tuple> kids) : isLeaf(false), kids(std::move(kids)) {}
  static Tuple of(std::vector<Tuple> kids) { return Tuple(std::move(kids)); }

  bool isBasis() const { return isLeaf && !modes.empty(); }
  bool isInt() const { return isLeaf && modes.empty(); }
  bool isNone() const { return isInt() && num.isNone(); }
  bool is(int32_t v) const { return isInt() && num.is(v); }
  int32_t rank() const { return isLeaf ? 1 : kids.size(); }
  bool isStatic() const;
  /// Calls `fn` on every leaf, depth first.
  void walk(function_ref<void(const Tuple &)> fn) const;
};

/// A layout: shape and stride.
struct Layout {
  Tuple shape, stride;
  int32_t rank() const { return shape.rank(); }
  bool isStatic() const { return shape.isStatic() && stride.isStatic(); }
};

/// A function on coordinates: a layout, a swizzle, a coordinate swizzle or a composition.
struct CoordMap {
  Layout layout;          // if plain
  SwizzleAttr swizzle;    // else if not null
  CoordSwizzleAttr coordSwizzle;
  Tuple offset;           // of a composition
  std::shared_ptr<CoordMap> inner, outer;

  bool isComposed() const { return inner != nullptr; }
  bool isPlain() const { return !inner && !swizzle && !coordSwizzle; }
  /// The plain layout at the end of the chain of outer parts.
  const Layout &linear() const { return isComposed() ? outer->linear() : layout; }
};

} // namespace mlir::fly

#endif // FLY_ALGEBRA_TERMS_H
