//===- Divide.cpp - divides, products, derived layouts, recasts -------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly;

// Puts the operation and its operands before the message of a part of it.
Layout Algebra::failIn(StringRef operation, const Layout &a, const Layout &b) {
  std::string text;
  llvm::raw_string_ostream(text) << operation << " of " << toAttr(a) << " by " << toAttr(b) << ": ";
  error = text + error;
  return a;
}

//===------------------------------------------------------------------------===//
// Divides
//===------------------------------------------------------------------------===//

Layout Algebra::logicalDivide(const Layout &l, const Layout &divisor) {
  Tuple bound = size(coalesce(l));
  bool before = failed();
  Layout rest = complement(divisor, bound);
  Layout tiles = makeTuple({divisor, rest});
  if (failed())
    return before ? l : failIn("logical_divide", l, divisor);
  Layout result = composition(l, tiles);
  if (!failed())
    return result;
  // A number of tiles that is rounded up reaches beyond l. What l means there is of no consequence,
  // so a last mode of extent 1 need not be kept.
  Int covered = mul(size(divisor), size(rest));
  if (!bound.num.isStatic || !covered.isStatic || covered.value <= bound.num.value)
    return failIn("logical_divide", l, divisor);
  error.clear();
  result = composition(coalesce(l), tiles);
  return failed() ? failIn("logical_divide", l, divisor) : result;
}

Layout Algebra::logicalDivide(const Layout &l, TileAttr tile) {
  auto divideBy = [&](const Layout &mode, Attribute entry) -> Layout {
    auto size = dyn_cast<IntAttr>(entry);
    if (size && size.isNone())
      return mode;
    if (auto nested = dyn_cast<TileAttr>(entry))
      return logicalDivide(mode, nested);
    return logicalDivide(mode, fromTile(entry));
  };
  if (tile.isLeaf())
    return divideBy(l, tile.at(0));
  SmallVector<Layout> modes;
  for (int32_t i = 0; i < l.rank(); ++i) {
    Attribute entry = tile.at(i);
    Layout mode = at(l, i);
    modes.push_back(entry ? divideBy(mode, entry) : mode);
  }
  return makeTuple(modes);
}

Layout Algebra::logicalDivide(const Layout &l, Attribute divisor) {
  if (auto tile = dyn_cast<TileAttr>(divisor))
    return logicalDivide(l, tile);
  return logicalDivide(l, fromAttr(cast<LayoutAttr>(divisor)));
}

Layout Algebra::zippedDivide(const Layout &l, const Layout &divisor) {
  Layout divided = logicalDivide(l, divisor);
  return {zip2By(divided.shape, {}), zip2By(divided.stride, {})};
}

Layout Algebra::zippedDivide(const Layout &l, Attribute divisor) {
  auto tile = dyn_cast<TileAttr>(divisor);
  if (!tile)
    return zippedDivide(l, fromAttr(cast<LayoutAttr>(divisor)));
  Layout divided = logicalDivide(l, tile);
  return {zip2By(divided.shape, tile), zip2By(divided.stride, tile)};
}

Layout Algebra::tiledDivide(const Layout &l, Attribute divisor) {
  return expand(zippedDivide(l, divisor), {1});
}

Layout Algebra::flatDivide(const Layout &l, Attribute divisor) {
  return expand(zippedDivide(l, divisor), {0, 1});
}

//===------------------------------------------------------------------------===//
// Products
//===------------------------------------------------------------------------===//

Layout Algebra::logicalProduct(const Layout &a, const Layout &t) {
  Tuple bound = mul(size(a), cosize(t));
  bool before = failed();
  Layout repeated = composition(complement(a, bound), t);
  if (failed() && !before)
    return failIn("logical_product", a, t);
  return canon(makeTuple({a, repeated}));
}

Layout Algebra::tiledProduct(const Layout &a, const Layout &t) {
  return expand(logicalProduct(a, t), {1});
}

Layout Algebra::flatProduct(const Layout &a, const Layout &t) {
  return expand(logicalProduct(a, t), {0, 1});
}

Layout Algebra::blockedProduct(const Layout &a, const Layout &t, bool raked) {
  int32_t rank = std::max(a.rank(), t.rank());
  auto pad = [&](const Layout &l) -> Layout {
    if (l.rank() == rank)
      return l;
    return {append(l.shape, Tuple(1), rank), append(l.stride, Tuple(0), rank)};
  };
  Layout product = logicalProduct(pad(a), pad(t));
  auto pair = [&](const Tuple &p) {
    Tuple block = at(p, 0), rest = at(p, 1);
    Tuple both = raked ? Tuple::of({rest, block}) : Tuple::of({block, rest});
    return rank == 1 ? both : zip(both); // a single mode is the pair itself
  };
  if (failed() || product.rank() != 2)
    return product;
  return {pair(product.shape), pair(product.stride)};
}

Layout Algebra::tileToShape(const Layout &block, const Tuple &target, const Tuple &order) {
  int32_t rank = target.rank();
  Layout padded = block;
  if (block.rank() < rank)
    padded = {append(block.shape, Tuple(1), rank), append(block.stride, Tuple(0), rank)};
  else if (block.rank() > rank)
    fail("tile_to_shape: the block has rank " + Twine(block.rank()) +
         " but the target shape has rank " + Twine(rank));
  if (failed())
    return block;
  Tuple repeats = tupleDiv(&Algebra::ceilDiv, productEach(target), productEach(padded.shape));
  return blockedProduct(padded, {repeats, ordered(repeats, order)});
}

Layout Algebra::layoutLike(const Layout &l) {
  return {l.shape, ordered(filterZero(l.stride, l.shape), l.stride)};
}

Layout Algebra::fragment(const Layout &l) {
  if (l.rank() <= 1)
    return {l.shape, compact(l.shape)};
  if (l.stride.isLeaf || l.stride.rank() != l.rank()) {
    fail("shape and stride are not congruent");
    return l;
  }
  const Tuple &shape0 = l.shape.kids[0];
  Layout first{shape0, compact(filterZero(l.stride.kids[0], shape0))};
  Tuple restShape = take(l.shape, 1, -1), restOrder = take(l.stride, 1, -1);
  return tiledProduct(first, {restShape, ordered(restShape, restOrder)});
}

//===------------------------------------------------------------------------===//
// Recasts
//===------------------------------------------------------------------------===//

namespace {
/// new = old * down / up elements of the new width for each old one.
struct RecastFactors {
  int32_t up = 1, down = 1;
};
} // namespace

static RecastFactors recastFactors(int32_t oldBits, int32_t newBits) {
  if (oldBits <= 0 || newBits <= 0 || oldBits == newBits)
    return {};
  int32_t common = std::gcd(oldBits, newBits);
  return {newBits / common, oldBits / common};
}

namespace {
struct FlatMode {
  Int extent, stride;
};
} // namespace

static void collectModes(const Layout &l, SmallVectorImpl<FlatMode> &modes) {
  if (l.shape.isLeaf) {
    if (l.stride.isLeaf)
      modes.push_back({l.shape.num, l.stride.num});
    return;
  }
  for (int32_t i = 0; i < l.rank() && !l.stride.isLeaf && i < l.stride.rank(); ++i)
    collectModes({l.shape.kids[i], l.stride.kids[i]}, modes);
}

static Layout upcast(Algebra &algebra, const Layout &l, int32_t f) {
  if (!l.shape.isLeaf) {
    SmallVector<Layout> modes;
    for (int32_t i = 0; i < l.rank(); ++i)
      modes.push_back(upcast(algebra, algebra.at(l, i), f));
    return algebra.makeTuple(modes);
  }
  if (!l.stride.isLeaf || l.stride.is(0))
    return l;
  Int factor = Int::constant(f);
  const Int &d = l.stride.num;
  if (!d.isStatic)
    return {l.shape, Tuple(algebra.safeDiv(d, factor), l.stride.modes)};
  int64_t magnitude = std::abs(int64_t(d.value));
  if (magnitude == 0)
    return l;
  if (magnitude % f != 0 && f % magnitude != 0) {
    algebra.fail("recast: stride " + Twine(d.value) + " and the factor " + Twine(f) +
                 " do not divide each other");
    return l;
  }
  Int step = Int::constant(llvm::divideCeil(f, magnitude));
  int32_t stride = llvm::divideCeil(magnitude, f);
  return {algebra.ceilDiv(l.shape.num, step),
          Tuple(Int::constant(d.value < 0 ? -stride : stride), l.stride.modes)};
}

// `growing` is the position of the mode that takes the new elements, -1 if there is none; `position`
// counts the leaves.
static Layout downcastAt(Algebra &algebra, const Layout &l, int32_t f, int growing, int &position) {
  if (!l.shape.isLeaf) {
    SmallVector<Layout> modes;
    for (int32_t i = 0; i < l.rank(); ++i)
      modes.push_back(downcastAt(algebra, algebra.at(l, i), f, growing, position));
    return algebra.makeTuple(modes);
  }
  int here = position++;
  if (!l.stride.isLeaf)
    return l;
  const Int &d = l.stride.num;
  if ((d.is(1) || d.is(-1)) && here == growing)
    return {algebra.mul(l.shape.num, Int::constant(f)), l.stride};
  return {l.shape, algebra.scale(l.stride, Tuple(f))};
}

static Layout downcast(Algebra &algebra, const Layout &l, int32_t f) {
  SmallVector<FlatMode> modes;
  collectModes(l, modes);
  // The mode of stride 1; of modes of extent 1 the last, and only if no longer one has stride 1.
  int growing = -1;
  bool isLong = false;
  for (auto [i, mode] : llvm::enumerate(modes)) {
    if (!mode.stride.is(1) && !mode.stride.is(-1))
      continue;
    bool longer = !mode.extent.is(1);
    if (longer && isLong)
      algebra.fail("recast: several modes have stride 1");
    if (growing < 0 || longer || !isLong)
      growing = i;
    isLong |= longer;
  }
  int position = 0;
  return downcastAt(algebra, l, f, growing, position);
}

// Old elements that share a new one, or new ones that share an old one, must be whole: otherwise no
// layout of the same profile describes the same bits.
void Algebra::checkRecast(const Layout &l, int32_t up, int32_t down) {
  SmallVector<FlatMode> modes;
  collectModes(l, modes);
  int64_t inside = 0; // old elements below the width of a new one
  for (auto [i, mode] : llvm::enumerate(modes)) {
    if (!mode.stride.isStatic || mode.stride.value == 0 || !mode.extent.isStatic)
      continue;
    int64_t step = std::abs(int64_t(mode.stride.value)), extent = mode.extent.value;
    if (step < up) {
      int64_t together = llvm::divideCeil(up, step);
      inside += step * (std::min(extent, together) - 1);
      if (down > 1 && extent != 1 && extent % together != 0)
        fail("recast: the " + Twine(extent) + " elements of mode " + Twine(i) +
             " are not a multiple of the " + Twine(together) + " that share a new one");
    }
  }
  if (up > 1 && inside >= up)
    fail("recast: several modes address elements inside of one new element");
}

Layout Algebra::recast(const Layout &l, int32_t oldBits, int32_t newBits) {
  RecastFactors factors = recastFactors(oldBits, newBits);
  checkRecast(l, factors.up, factors.down);
  Layout result = factors.up > 1 ? upcast(*this, l, factors.up) : l;
  return factors.down > 1 && !failed() ? downcast(*this, result, factors.down) : result;
}

static Tuple mapInts(const Tuple &t, function_ref<Int(const Int &)> fn) {
  if (t.isLeaf)
    return Tuple(fn(t.num), t.modes);
  std::vector<Tuple> kids;
  for (const Tuple &kid : t.kids)
    kids.push_back(mapInts(kid, fn));
  return Tuple(std::move(kids));
}

Tuple Algebra::recastOffset(const Tuple &offset, int32_t oldBits, int32_t newBits) {
  RecastFactors factors = recastFactors(oldBits, newBits);
  return mapInts(offset, [&](const Int &num) {
    Int scaled = factors.up > 1 ? safeDiv(num, Int::constant(factors.up)) : num;
    return factors.down > 1 ? mul(scaled, Int::constant(factors.down)) : scaled;
  });
}

// Swizzle bases move by the logarithm of the factor.
static int32_t recastBase(Algebra &algebra, int32_t base, RecastFactors factors) {
  if (!llvm::isPowerOf2_32(factors.up) || !llvm::isPowerOf2_32(factors.down)) {
    algebra.fail("recast: a swizzle can only be recast by a power of two");
    return base;
  }
  int32_t result = base - int32_t(llvm::Log2_32(factors.up)) + int32_t(llvm::Log2_32(factors.down));
  if (result < 0)
    algebra.fail("recast: the swizzle works on bits smaller than the new element");
  return std::max(result, 0);
}

// The base of a swizzle that does nothing, moved as far as it goes.
static int32_t trivialBase(int32_t base, const RecastFactors &factors) {
  for (int32_t f = factors.up; f > 1; f /= 2)
    base = std::max(0, base - 1);
  for (int32_t f = factors.down; f > 1; f /= 2)
    base = std::min(30, base + 1);
  return base;
}

Attribute Algebra::recast(Attribute map, int32_t oldBits, int32_t newBits) {
  if (auto layout = dyn_cast<LayoutAttr>(map))
    return toAttr(recast(fromAttr(layout), oldBits, newBits));
  RecastFactors factors = recastFactors(oldBits, newBits);
  if (auto swizzle = dyn_cast<SwizzleAttr>(map)) {
    if (swizzle.isTrivial()) // of any base
      return SwizzleAttr::get(ctx, 0, trivialBase(swizzle.getBase(), factors), swizzle.getShift());
    int32_t base = recastBase(*this, swizzle.getBase(), factors);
    if (base + swizzle.getMask() + swizzle.getShift() > 31)
      fail("recast: the swizzle reaches beyond bit 30");
    return failed() ? map : SwizzleAttr::get(ctx, swizzle.getMask(), base, swizzle.getShift());
  }
  if (auto swizzle = dyn_cast<CoordSwizzleAttr>(map)) {
    int32_t row = recastBase(*this, swizzle.getBaseRow(), factors);
    int32_t col = recastBase(*this, swizzle.getBaseCol(), factors);
    if (std::max(row, col) + swizzle.getMask() > 31)
      fail("recast: the swizzle reaches beyond bit 30");
    return failed() ? map
                    : CoordSwizzleAttr::get(ctx, swizzle.getMask(), row, swizzle.getModeRow(), col,
                                            swizzle.getModeCol());
  }
  auto composed = cast<ComposedLayoutAttr>(map);
  Attribute inner = recast(composed.getInner(), oldBits, newBits);
  Tuple offset = recastOffset(fromAttr(composed.getOffset()), oldBits, newBits);
  Attribute outer = recast(composed.getOuter(), oldBits, newBits);
  return ComposedLayoutAttr::get(inner, toAttr(offset), outer);
}
