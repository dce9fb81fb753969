//===- LayoutAlgebra.cpp - coalesce, composition, complement, inverses ------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;

void Algebra::flattenInto(const Layout &l, std::vector<Tuple> &shapes,
                          std::vector<Tuple> &strides) {
  if (l.shape.isLeaf) {
    if (!l.stride.isLeaf || l.shape.isBasis())
      fail("shape and stride are not congruent");
    shapes.push_back(l.shape);
    strides.push_back(l.stride.isLeaf ? l.stride : Tuple(0));
    return;
  }
  if (l.stride.isLeaf || l.stride.rank() != l.rank()) {
    fail("shape and stride are not congruent");
    return;
  }
  for (int32_t i = 0; i < l.rank(); ++i)
    flattenInto({l.shape.kids[i], l.stride.kids[i]}, shapes, strides);
}

// A single mode is a leaf, not a one-element tuple.
static Layout layoutOf(std::vector<Tuple> shapes, std::vector<Tuple> strides) {
  if (shapes.size() == 1)
    return {shapes.front(), strides.front()};
  return {Tuple(std::move(shapes)), Tuple(std::move(strides))};
}

//===------------------------------------------------------------------------===//
// Coalesce
//===------------------------------------------------------------------------===//

Layout Algebra::coalesceImpl(const Layout &l, bool extended) {
  std::vector<Tuple> shapes, strides;
  flattenInto(l, shapes, strides);
  if (failed() || shapes.empty())
    return {Tuple(1), Tuple(0)};
  // The extended domain keeps a last mode of size 1 alive: the layout goes on beyond its size.
  if (extended && shapes.back().is(1))
    shapes.back() = Tuple(2);
  if (shapes.size() == 1) {
    if (extended)
      return {shapes.front(), strides.front()};
    return shapes.front().is(1) ? Layout{Tuple(1), Tuple(0)} : l;
  }
  Tuple shape = shapes.back(), stride = strides.back();
  std::vector<Tuple> outShapes, outStrides; // right to left
  for (size_t i = shapes.size() - 1; i-- > 0;) {
    const Tuple &leftShape = shapes[i], &leftStride = strides[i];
    if (leftShape.is(1))
      continue;
    if (shape.is(1)) {
      shape = leftShape;
      stride = leftStride;
      continue;
    }
    bool allStatic = leftShape.num.isStatic && leftStride.num.isStatic && shape.num.isStatic &&
                     stride.num.isStatic;
    // Neighbours along different basis directions never merge.
    if (allStatic && leftStride.modes == stride.modes &&
        int64_t(leftShape.num.value) * leftStride.num.value == stride.num.value) {
      shape = mul(leftShape.num, shape.num);
      stride = leftStride;
      continue;
    }
    outShapes.push_back(shape);
    outStrides.push_back(stride);
    shape = leftShape;
    stride = leftStride;
  }
  if (outShapes.empty() && shape.is(1))
    return {Tuple(1), Tuple(0)};
  outShapes.push_back(shape);
  outStrides.push_back(stride);
  return layoutOf({outShapes.rbegin(), outShapes.rend()}, {outStrides.rbegin(), outStrides.rend()});
}

Layout Algebra::coalesceByProfile(const Layout &l, const Tuple &profile, bool extended) {
  if (profile.isLeaf)
    return coalesceImpl(l, extended);
  if (l.shape.isLeaf || l.rank() < profile.rank()) {
    fail("the pattern has rank " + Twine(profile.rank()) + " but the layout has rank " +
         Twine(l.rank()));
    return l;
  }
  SmallVector<Layout> modes;
  for (int32_t i = 0; i < l.rank(); ++i) {
    Layout mode = at(l, i);
    modes.push_back(i < profile.rank() ? coalesceByProfile(mode, profile.kids[i], extended) : mode);
  }
  return makeTuple(modes);
}

Layout Algebra::coalesce(const Layout &l) { return coalesceImpl(l, /*extended=*/false); }

Layout Algebra::coalesce(const Layout &l, const Tuple &profile) {
  return coalesceByProfile(l, profile, /*extended=*/false);
}

//===------------------------------------------------------------------------===//
// Composition
//===------------------------------------------------------------------------===//

// a after (s:d), where a is a leaf or flat. `used` adds up the largest coordinate that the modes of the
// inner layout reach in each mode of a: where the sum reaches the extent, coordinates carry into the
// next mode, and the result would be wrong.
Layout Algebra::composeLeaf(const Layout &a, const Tuple &s, const Tuple &d,
                            MutableArrayRef<int64_t> used) {
  if (!s.isInt() || !d.isInt()) {
    fail("composition needs integer shapes and strides in the inner layout");
    return {s, Tuple(0)};
  }
  if (d.is(0))
    return canon({s, Tuple(0)});
  if (a.shape.isLeaf)
    return canon({s, scale(d, a.stride)});
  if (d.num.isStatic && d.num.value < 0 && !s.is(1)) {
    fail("composition: the inner layout has the negative stride " + Twine(d.num.value));
    return {s, Tuple(0)};
  }
  Int restShape = s.num, restStride = d.num;
  std::vector<Tuple> shapes, strides;
  auto describe = [&] { return Twine(d.num.value).str(); };
  for (int32_t i = 0; i + 1 < a.rank() && !failed(); ++i) {
    const Int &extent = a.shape.kids[i].num;
    bool known = extent.isStatic && restStride.isStatic;
    if (known && !restShape.is(1) && restStride.value >= extent.value &&
        int64_t(restStride.value) % std::max(extent.value, 1) != 0)
      fail("composition: stride " + describe() + " neither divides nor is divided by mode " +
           Twine(i) + " of extent " + Twine(extent.value));
    Int steps = ceilDiv(extent, restStride);
    Int nextStride = ceilDiv(restStride, extent);
    if (steps.is(1) || restShape.is(1)) {
      restStride = nextStride;
      continue;
    }
    Int taken = min(steps, restShape);
    if (taken.is(0)) {
      fail("composition: mode " + Twine(i) + " is empty");
      break;
    }
    if (taken.isStatic && restShape.isStatic && int64_t(restShape.value) % taken.value != 0)
      fail("composition: the " + Twine(restShape.value) + " elements left do not divide into the " +
           Twine(taken.value) + " of mode " + Twine(i));
    Int left = div(restShape, taken);
    if (taken.isStatic && restStride.isStatic) {
      used[i] += (int64_t(taken.value) - 1) * restStride.value;
      if (extent.isStatic && used[i] >= extent.value)
        fail("composition: the modes of the inner layout together reach coordinate " +
             Twine(used[i]) + " of mode " + Twine(i) + ", whose extent is " + Twine(extent.value));
    }
    // A step that straddles the end of the mode gives wrong indices if more modes follow.
    if (known && !left.is(1) && int64_t(extent.value) % std::max(restStride.value, 1) != 0)
      fail("composition: stride " + Twine(restStride.value) + " does not divide mode " + Twine(i) +
           " of extent " + Twine(extent.value) + ", and the inner layout goes beyond it");
    shapes.push_back(taken);
    strides.push_back(scale(restStride, a.stride.kids[i]));
    restShape = left;
    restStride = nextStride;
  }
  if (shapes.empty() || !restShape.is(1)) {
    shapes.push_back(restShape);
    strides.push_back(scale(restStride, a.stride.kids.back()));
  }
  return canon(layoutOf(std::move(shapes), std::move(strides)));
}

Layout Algebra::composition(const Layout &a, const Layout &b) {
  Layout flat = coalesceByProfile(a, coprofile(b), /*extended=*/true);
  SmallVector<int64_t> used(flat.rank(), 0);
  std::function<Layout(const Tuple &, const Tuple &)> compose =
      [&](const Tuple &s, const Tuple &d) -> Layout {
    if (s.isLeaf)
      return composeLeaf(flat, s, d, used);
    if (d.isLeaf || d.rank() != s.rank()) {
      fail("shape and stride are not congruent");
      return {s, d};
    }
    SmallVector<Layout> modes;
    for (int32_t i = 0; i < s.rank(); ++i)
      modes.push_back(compose(s.kids[i], d.kids[i]));
    return makeTuple(modes);
  };
  if (failed())
    return b;
  Layout result = compose(b.shape, b.stride);
  return failed() ? b : canon(result);
}

// The layout of a tile entry that is not None.
Layout Algebra::fromTile(Attribute entry) {
  if (auto layout = dyn_cast<LayoutAttr>(entry)) {
    if (!layout.isStatic())
      fail("a tile must be static");
    return fromAttr(layout);
  }
  auto size = dyn_cast<IntAttr>(entry);
  if (!size || !size.isStatic()) {
    fail("a tile must be static");
    return {Tuple(1), Tuple(0)};
  }
  return {fromAttr(size), Tuple(1)};
}

static bool isNoneEntry(Attribute entry) {
  auto size = dyn_cast<IntAttr>(entry);
  return size && size.isNone();
}

Layout Algebra::composition(const Layout &a, TileAttr tile) {
  if (tile.isLeaf()) {
    Attribute entry = tile.at(0);
    if (isNoneEntry(entry))
      return a;
    if (auto nested = dyn_cast<TileAttr>(entry))
      return composition(a, nested);
    return composition(a, fromTile(entry));
  }
  SmallVector<Layout> modes;
  for (int32_t i = 0; i < a.rank(); ++i) {
    Layout mode = at(a, i);
    Attribute entry = tile.at(i);
    if (!entry || isNoneEntry(entry))
      modes.push_back(mode);
    else if (auto nested = dyn_cast<TileAttr>(entry))
      modes.push_back(composition(mode, nested));
    else
      modes.push_back(composition(mode, fromTile(entry)));
  }
  return canon(makeTuple(modes));
}

//===------------------------------------------------------------------------===//
// Complement and inverses
//===------------------------------------------------------------------------===//

// Indices of the leaves with a static stride, by ascending stride.
static SmallVector<size_t> sortByStride(ArrayRef<Tuple> strides) {
  SmallVector<size_t> order;
  for (size_t i = 0; i < strides.size(); ++i)
    if (strides[i].num.isStatic && !strides[i].num.isNone())
      order.push_back(i);
  llvm::stable_sort(order,
                    [&](size_t i, size_t j) { return strides[i].num.value < strides[j].num.value; });
  return order;
}

static std::string textOf(Attribute attr) {
  std::string text;
  llvm::raw_string_ostream(text) << attr;
  return text;
}

Layout Algebra::complement(const Layout &l, std::optional<Tuple> codomainSize) {
  Layout filtered = coalesce({filterZero(l.stride, l.shape), l.stride});
  Tuple bound = codomainSize ? *codomainSize : Tuple(cosize(filtered));
  if (!bound.isInt()) {
    fail("the codomain size of a complement must be an integer");
    return {Tuple(1), Tuple(0)};
  }
  std::vector<Tuple> shapes, strides;
  flattenInto(filtered, shapes, strides);
  if (failed() || shapes.empty())
    return {Tuple(1), Tuple(0)};
  if (llvm::any_of(strides, [](const Tuple &d) { return d.isBasis(); })) {
    fail("the complement of a layout with basis strides is not defined");
    return {Tuple(1), Tuple(0)};
  }
  if (shapes.size() == 1 && strides[0].is(0))
    return {bound, Tuple(1)};
  SmallVector<size_t> order = sortByStride(strides);
  if (shapes.size() == 1)
    order = {0};
  if (order.size() != shapes.size()) {
    fail("the complement of a layout with several modes needs static strides");
    return {Tuple(1), Tuple(0)};
  }
  Int last = Int::constant(1);
  std::vector<Tuple> outShapes, outStrides;
  for (size_t i : order) {
    const Int &stride = strides[i].num;
    if (stride.isStatic && last.isStatic &&
        (last.value <= 0 || stride.value < last.value || stride.value % last.value != 0))
      fail("complement of " + textOf(toAttr(l)) + " up to " + textOf(toAttr(bound)) + ": stride " +
           Twine(stride.value) + " of mode " + Twine(i) + " is not a multiple of " +
           Twine(last.value) + ", where the modes of smaller stride end, so no layout enumerates the "
           "gaps. Divide by a layout whose modes nest (stride i + 1 a multiple of extent i * stride "
           "i), split the extents so that they do, or compose with the tile alone where the rest is "
           "not needed");
    outShapes.push_back(div(stride, last));
    outStrides.push_back(last);
    last = mul(stride, shapes[i].num);
  }
  outShapes.push_back(ceilDiv(bound.num, last));
  outStrides.push_back(last);
  if (failed())
    return {Tuple(1), Tuple(0)};
  return coalesce(layoutOf(std::move(outShapes), std::move(outStrides)));
}

// Products of the extents before every leaf.
static SmallVector<Int> prefixProducts(Algebra &algebra, ArrayRef<Tuple> shapes) {
  SmallVector<Int> prefix;
  Int running = Int::constant(1);
  for (const Tuple &shape : shapes) {
    prefix.push_back(running);
    running = algebra.mul(running, shape.num);
  }
  return prefix;
}

Layout Algebra::rightInverse(const Layout &l) {
  std::vector<Tuple> shapes, strides;
  flattenInto(coalesce(l), shapes, strides);
  SmallVector<Int> prefix = prefixProducts(*this, shapes);
  std::vector<Tuple> outShapes{Tuple(1)}, outStrides{Tuple(0)};
  int64_t current = 1;
  for (size_t i : sortByStride(strides)) {
    const Int &shape = shapes[i].num, &stride = strides[i].num;
    if (!shape.isStatic || stride.value != current)
      continue;
    outShapes.push_back(shape);
    outStrides.push_back(prefix[i]);
    current = int64_t(shape.value) * stride.value;
  }
  return coalesce(layoutOf(std::move(outShapes), std::move(outStrides)));
}

Layout Algebra::leftInverse(const Layout &l) {
  std::vector<Tuple> shapes, strides;
  flattenInto(coalesce(l), shapes, strides);
  SmallVector<Int> prefix = prefixProducts(*this, shapes);
  std::vector<Tuple> outShapes, outStrides{Tuple(0)};
  Int covered = Int::constant(1);
  Tuple lastShape(1);
  int64_t end = 0; // of the indices that the modes before take, in one step of the next mode
  for (size_t i : sortByStride(strides)) {
    const Int &stride = strides[i].num;
    if (stride.is(0))
      continue;
    if (covered.value <= 0 || int64_t(stride.value) % covered.value != 0) {
      fail("left inverse: stride " + Twine(stride.value) + " is not a multiple of the stride " +
           Twine(covered.value) + " before it");
      return {Tuple(1), Tuple(0)};
    }
    if (end > stride.value) {
      fail("left inverse: stride " + Twine(stride.value) + " does not clear the " + Twine(end) +
           " indices of the modes of smaller stride");
      return {Tuple(1), Tuple(0)};
    }
    if (shapes[i].num.isStatic)
      end = int64_t(stride.value) * shapes[i].num.value;
    Int gap = div(stride, covered);
    outShapes.push_back(gap);
    outStrides.push_back(prefix[i]);
    covered = mul(covered, gap);
    lastShape = shapes[i];
  }
  outShapes.push_back(lastShape);
  return coalesce(layoutOf(std::move(outShapes), std::move(outStrides)));
}
