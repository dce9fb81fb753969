//===- Algebra.h - the layout algebra -----------------------------*- C++ -*-===//
//
// One implementation for type inference (no builder: dynamic leaves have no values) and
// for lowering (with a builder: arithmetic on dynamic leaves is emitted). Whenever the
// result of a scalar operation is static, nothing is emitted.
//
// Errors are sticky: an operation whose precondition fails records a message that names
// the condition and returns a placeholder, and the caller checks failed() once at the
// end. All operations accept placeholders.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ALGEBRA_ALGEBRA_H
#define FLY_ALGEBRA_ALGEBRA_H

#include "fly/Algebra/Terms.h"

#include <optional>
#include <string>

namespace mlir::arith {
enum class CmpIPredicate : uint64_t;
}

namespace mlir::fly {

class Algebra {
public:
  /// Type level: no code is emitted.
  explicit Algebra(MLIRContext *ctx) : ctx(ctx) {}
  /// Value level: arithmetic on dynamic leaves is emitted with `builder`.
  Algebra(OpBuilder &builder, Location loc)
      : ctx(builder.getContext()), builder(&builder), loc(loc) {}

  bool failed() const { return !error.empty(); }
  StringRef message() const { return error; }
  /// Records the first error and returns a placeholder.
  Tuple fail(const Twine &what);

  //===---- Conversion (Convert.cpp) -------------------------------------------===//
  Int fromAttr(IntAttr attr);
  Tuple fromAttr(IntTupleAttr attr);
  Layout fromAttr(LayoutAttr attr);
  CoordMap mapFromAttr(Attribute attr);
  IntAttr toAttr(const Int &num);
  IntTupleAttr toAttr(const Tuple &tuple);
  LayoutAttr toAttr(const Layout &layout);
  /// Reads a value in normal form; records an error otherwise.
  Tuple fromValue(Value tuple);
  Layout layoutFromValue(Value layout);
  CoordMap mapFromValue(Value map);
  /// Builds make_int_tuple / make_layout; null after an error. Value level only.
  Value toValue(const Tuple &tuple);
  Value toValue(const Layout &layout);
  /// The SSA integer of a leaf in at least `width` bits (a constant if static).
  Value materialize(const Int &num, int32_t width);

  //===---- Scalars (Scalar.cpp) -------------------------------------------------===//
  Int add(const Int &a, const Int &b);
  Int sub(const Int &a, const Int &b);
  Int mul(const Int &a, const Int &b);
  Int div(const Int &a, const Int &b);
  Int mod(const Int &a, const Int &b);
  Int min(const Int &a, const Int &b);
  Int max(const Int &a, const Int &b);
  /// Division that must be exact.
  Int safeDiv(const Int &a, const Int &b);
  Int ceilDiv(const Int &a, const Int &b);
  /// Rounded-up division where one side must divide the other.
  Int shapeDiv(const Int &a, const Int &b);
  Int less(const Int &a, const Int &b);
  Int equal(const Int &a, const Int &b);
  Int logicalAnd(const Int &a, const Int &b);
  Int swizzle(const Int &v, SwizzleAttr attr);
  Int coordSwizzle(const Int &row, const Int &col, CoordSwizzleAttr attr);

  //===---- Tuple arithmetic (Tuple.cpp) ----------------------------------------===//
  using IntFn = Int (Algebra::*)(const Int &, const Int &);
  /// `fn` leaf by leaf; surplus modes of the longer operand are kept.
  Tuple zipWith(IntFn fn, const Tuple &a, const Tuple &b);
  /// int_tuple_add: leaf by leaf, with basis leaves added as coordinates.
  Tuple addTuples(const Tuple &a, const Tuple &b);
  /// Coordinate addition: 0 is neutral, basis leaves become tuples.
  Tuple coordAdd(const Tuple &a, const Tuple &b);
  Tuple basisToTuple(const Tuple &basis);
  /// Product of two leaves of which at most one is a basis.
  Tuple scale(const Tuple &a, const Tuple &b);
  /// Applies a division to the coefficient of a leaf.
  Tuple divLeaf(IntFn fn, const Tuple &a, const Tuple &b);
  Int product(const Tuple &t);
  Tuple productEach(const Tuple &t);
  Tuple productLike(const Tuple &t, const Tuple &guide);
  /// The tuple rule of ceil_div and shape_div.
  Tuple tupleDiv(IntFn fn, const Tuple &a, const Tuple &b);
  Int elemLess(const Tuple &a, const Tuple &b);
  Int equalTuples(const Tuple &a, const Tuple &b);

  //===---- Structure (Structure.cpp) -------------------------------------------===//
  Tuple at(const Tuple &t, int32_t index);
  Tuple unwrap(const Tuple &t);
  Tuple flatten(const Tuple &t);
  Tuple take(const Tuple &t, int32_t begin, int32_t end);
  Tuple select(const Tuple &t, ArrayRef<int32_t> indices);
  Tuple group(const Tuple &t, int32_t begin, int32_t end);
  Tuple append(const Tuple &t, const Tuple &x, std::optional<int32_t> n = std::nullopt);
  Tuple prepend(const Tuple &t, const Tuple &x, std::optional<int32_t> n = std::nullopt);
  Tuple expand(const Tuple &t, ArrayRef<int32_t> indices);
  Tuple slice(const Tuple &t, const Tuple &coord);
  Tuple dice(const Tuple &t, const Tuple &coord);
  Tuple zip(const Tuple &t);
  /// Splits by a guide into (first, second); a tile guide per mode, null for a leaf guide.
  Tuple zip2By(const Tuple &t, Attribute tileGuide);
  Tuple filterZero(const Tuple &guide, const Tuple &t);
  Layout canon(const Layout &l);
  Layout at(const Layout &l, int32_t index);
  Layout expand(const Layout &l, ArrayRef<int32_t> indices);
  Layout slice(const Layout &l, const Tuple &coord);
  Layout makeTuple(ArrayRef<Layout> modes);

  //===---- Coordinates (Coordinates.cpp) ---------------------------------------===//
  Tuple crd2idx(const Tuple &c, const Layout &l);
  Tuple crd2idx(const Tuple &c, const CoordMap &map);
  Tuple applySwizzle(const Tuple &v, const CoordMap &map);
  Tuple idx2crd(const Tuple &x, const Layout &l);
  Int colexIndex(const Tuple &c, const Tuple &shape);
  Tuple colexCoord(const Int &x, const Tuple &shape);
  Tuple crd2crd(const Tuple &c, const Tuple &from, const Tuple &to);
  Tuple flatCoord(const Tuple &index, const Layout &l);
  Tuple coord1D(const Tuple &index, const Layout &l);
  Tuple compact(const Tuple &shape, Int start = Int::constant(1));
  Tuple ordered(const Tuple &shape, const Tuple &order);
  Tuple identityStride(const Tuple &shape);
  Int size(const Tuple &shape) { return product(shape); }
  Int size(const Layout &l) { return product(l.shape); }
  Tuple coprofile(const Layout &l);
  Tuple coshape(const Layout &l);
  Int cosize(const Layout &l);
  /// The decomposed offset of a composed layout (see fly.decomposition).
  Tuple decomposedOffset(const CoordMap &map);

  //===---- Layout algebra (LayoutAlgebra.cpp, Divide.cpp) -----------------------===//
  Layout coalesce(const Layout &l);
  Layout coalesce(const Layout &l, const Tuple &profile);
  Layout composition(const Layout &a, const Layout &b);
  Layout composition(const Layout &a, TileAttr tile);
  Layout complement(const Layout &l, std::optional<Tuple> codomainSize = std::nullopt);
  Layout rightInverse(const Layout &l);
  Layout leftInverse(const Layout &l);
  Layout logicalDivide(const Layout &l, const Layout &divisor);
  Layout logicalDivide(const Layout &l, TileAttr tile);
  /// `divisor` is a LayoutAttr or a TileAttr.
  Layout logicalDivide(const Layout &l, Attribute divisor);
  Layout zippedDivide(const Layout &l, Attribute divisor);
  Layout zippedDivide(const Layout &l, const Layout &divisor);
  Layout tiledDivide(const Layout &l, Attribute divisor);
  Layout flatDivide(const Layout &l, Attribute divisor);
  Layout logicalProduct(const Layout &a, const Layout &t);
  Layout tiledProduct(const Layout &a, const Layout &t);
  Layout flatProduct(const Layout &a, const Layout &t);
  Layout blockedProduct(const Layout &a, const Layout &t, bool raked = false);
  Layout tileToShape(const Layout &block, const Tuple &target, const Tuple &order);
  Layout layoutLike(const Layout &l);
  Layout fragment(const Layout &l);
  Layout recast(const Layout &l, int32_t oldBits, int32_t newBits);
  /// Any layout or swizzle attribute; type level.
  Attribute recast(Attribute map, int32_t oldBits, int32_t newBits);
  Tuple recastOffset(const Tuple &offset, int32_t oldBits, int32_t newBits);

  //===---- Tiled copies and MMAs (Tiled.cpp) -------------------------------------===//
  enum class CopySide { Src, Dst };
  /// (thread, (value, rest of value), rest...) view of a tensor's layout.
  Layout copyView(TiledCopyType type, CopySide side, const Layout &l);
  Layout retile(TiledCopyType type, const Layout &l);
  /// ((V, (i, j)), (fragment, (rest i, rest j))) view of an operand's layout.
  Layout mmaView(TiledMmaType type, MmaOperand operand, const Layout &l);
  Layout thrLayoutVMNK(TiledMmaType type);
  /// The entry of the tile, or the extent that atom and atom layout imply.
  Attribute tileSizeMNK(TiledMmaType type, int32_t mode);
  /// Extents of the tile of a copy.
  Tuple tileExtents(TiledCopyType type);
  /// (thread, value) to the position in the tile, counted with the first mode fastest.
  Layout tiledCopyTV(TiledCopyType type, CopySide side);
  /// (thread, value) to the coordinate in the tile.
  Layout tiledCopyCoordinates(TiledCopyType type, CopySide side);
  Layout tiledMmaTV(TiledMmaType type, MmaOperand operand);

private:
  std::pair<Value, Value> operands(const Int &a, const Int &b);
  template <typename Op> Int emit(const Int &type, const Int &a, const Int &b);
  Int emitCompare(arith::CmpIPredicate predicate, const Int &a, const Int &b);
  Int staticInt(int64_t value);
  Int dynamicResult(const Int &a, const Int &b, int64_t div);
  Layout coalesceImpl(const Layout &l, bool extended);
  Layout coalesceByProfile(const Layout &l, const Tuple &profile, bool extended);
  Layout composeLeaf(const Layout &a, const Tuple &s, const Tuple &d, MutableArrayRef<int64_t> used);
  Layout failIn(StringRef operation, const Layout &a, const Layout &b);
  void checkRecast(const Layout &l, int32_t up, int32_t down);
  void flattenInto(const Layout &l, std::vector<Tuple> &shapes, std::vector<Tuple> &strides);
  Layout fromTile(Attribute entry);
  bool isSmaller(const Tuple &a, size_t i, const Tuple &b, size_t j);

  MLIRContext *ctx;
  OpBuilder *builder = nullptr;
  std::optional<Location> loc;
  std::string error;
};

} // namespace mlir::fly

#endif // FLY_ALGEBRA_ALGEBRA_H
