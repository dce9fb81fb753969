//===- Structure.cpp - rearranging tuples -----------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;

Tuple Algebra::at(const Tuple &t, int32_t index) {
  if (index < 0 || index >= t.rank())
    return fail("mode " + Twine(index) + " does not exist in a tuple of rank " + Twine(t.rank()));
  return t.isLeaf ? t : t.kids[index];
}

Tuple Algebra::unwrap(const Tuple &t) {
  const Tuple *inner = &t;
  while (!inner->isLeaf && inner->kids.size() == 1)
    inner = &inner->kids.front();
  return *inner;
}

Tuple Algebra::flatten(const Tuple &t) {
  if (t.isLeaf)
    return t;
  std::vector<Tuple> leaves;
  t.walk([&](const Tuple &leaf) { leaves.push_back(leaf); });
  return Tuple(std::move(leaves));
}

// A single child stays bare.
static Tuple bareOrTuple(std::vector<Tuple> kids) {
  return kids.size() == 1 ? kids.front() : Tuple(std::move(kids));
}

Tuple Algebra::take(const Tuple &t, int32_t begin, int32_t end) {
  if (t.isLeaf)
    return fail("take needs a tuple, not a leaf");
  if (end == -1)
    end = t.rank();
  if (begin < 0 || end > t.rank() || begin >= end)
    return fail("take: modes " + Twine(begin) + ".." + Twine(end) +
                " are empty or outside a tuple of rank " + Twine(t.rank()));
  return bareOrTuple({t.kids.begin() + begin, t.kids.begin() + end});
}

Tuple Algebra::select(const Tuple &t, ArrayRef<int32_t> indices) {
  if (indices.empty())
    return fail("select needs at least one index");
  std::vector<Tuple> kids;
  for (int32_t index : indices)
    kids.push_back(at(t, index));
  return bareOrTuple(std::move(kids));
}

Tuple Algebra::group(const Tuple &t, int32_t begin, int32_t end) {
  if (t.isLeaf)
    return t;
  if (end == -1)
    end = t.rank();
  if (begin < 0 || end > t.rank() || begin > end)
    return fail("group: modes " + Twine(begin) + ".." + Twine(end) +
                " are outside a tuple of rank " + Twine(t.rank()));
  if (begin == end)
    return t;
  std::vector<Tuple> kids(t.kids.begin(), t.kids.begin() + begin);
  kids.push_back(Tuple::of({t.kids.begin() + begin, t.kids.begin() + end}));
  kids.insert(kids.end(), t.kids.begin() + end, t.kids.end());
  return Tuple(std::move(kids));
}

// Number of copies that append and prepend add.
static int32_t numCopies(Algebra &algebra, int32_t rank, std::optional<int32_t> n) {
  if (!n)
    return 1;
  if (*n < rank || *n > 1024) {
    algebra.fail("cannot extend a tuple of rank " + Twine(rank) + " to rank " + Twine(*n));
    return 0;
  }
  return *n - rank;
}

Tuple Algebra::append(const Tuple &t, const Tuple &x, std::optional<int32_t> n) {
  std::vector<Tuple> kids = t.isLeaf ? std::vector<Tuple>{t} : t.kids;
  kids.insert(kids.end(), numCopies(*this, t.rank(), n), x);
  return Tuple(std::move(kids));
}

Tuple Algebra::prepend(const Tuple &t, const Tuple &x, std::optional<int32_t> n) {
  std::vector<Tuple> kids(numCopies(*this, t.rank(), n), x);
  if (t.isLeaf)
    kids.push_back(t);
  else
    kids.insert(kids.end(), t.kids.begin(), t.kids.end());
  return Tuple(std::move(kids));
}

Tuple Algebra::expand(const Tuple &t, ArrayRef<int32_t> indices) {
  if (t.isLeaf || indices.empty())
    return t;
  std::vector<Tuple> kids;
  for (auto [i, kid] : llvm::enumerate(t.kids)) {
    if (!kid.isLeaf && llvm::is_contained(indices, int32_t(i)))
      kids.insert(kids.end(), kid.kids.begin(), kid.kids.end());
    else
      kids.push_back(kid);
  }
  return bareOrTuple(std::move(kids));
}

static void collectFacing(Algebra &algebra, const Tuple &t, const Tuple &coord, bool none,
                          std::vector<Tuple> &kept) {
  if (coord.isLeaf) {
    if (coord.isNone() == none)
      kept.push_back(t);
    return;
  }
  if (t.isLeaf || t.rank() != coord.rank()) {
    algebra.fail("the coordinate has rank " + Twine(coord.rank()) + " where the tuple has rank " +
                 Twine(t.rank()));
    return;
  }
  for (int32_t i = 0; i < t.rank(); ++i)
    collectFacing(algebra, t.kids[i], coord.kids[i], none, kept);
}

Tuple Algebra::slice(const Tuple &t, const Tuple &coord) {
  std::vector<Tuple> kept;
  collectFacing(*this, t, coord, /*none=*/true, kept);
  if (kept.empty())
    return fail("a slice must keep at least one mode: the coordinate has no '*'");
  return coord.isLeaf ? t : unwrap(Tuple(std::move(kept)));
}

Tuple Algebra::dice(const Tuple &t, const Tuple &coord) {
  std::vector<Tuple> kept;
  collectFacing(*this, t, coord, /*none=*/false, kept);
  if (kept.empty())
    return fail("dice must keep at least one mode: the coordinate has only '*'");
  return coord.isLeaf ? t : unwrap(Tuple(std::move(kept)));
}

Tuple Algebra::zip(const Tuple &t) {
  if (t.isLeaf || t.kids.empty() || t.kids.front().isLeaf)
    return t;
  std::vector<Tuple> modes;
  for (int32_t i = 0; i < t.kids.front().rank(); ++i) {
    std::vector<Tuple> parts;
    for (const Tuple &kid : t.kids)
      parts.push_back(at(kid, i));
    modes.push_back(Tuple(std::move(parts)));
  }
  return Tuple(std::move(modes));
}

Tuple Algebra::zip2By(const Tuple &t, Attribute tileGuide) {
  auto tile = dyn_cast_or_null<TileAttr>(tileGuide);
  if (!tile || tile.isLeaf()) {
    if (t.isLeaf || t.rank() != 2)
      return fail("a mode covered by the tile must split into two parts, but has rank " +
                  Twine(t.rank()));
    return t;
  }
  if (t.rank() < tile.rank() || t.isLeaf)
    return fail("the tile has rank " + Twine(tile.rank()) + " but the layout has rank " +
                Twine(t.rank()));
  std::vector<Tuple> first, second;
  for (int32_t i = 0; i < tile.rank(); ++i) {
    Tuple pair = zip2By(t.kids[i], tile.at(i));
    first.push_back(at(pair, 0));
    second.push_back(failed() ? Tuple(0) : at(pair, 1));
  }
  second.insert(second.end(), t.kids.begin() + tile.rank(), t.kids.end());
  return Tuple::of({Tuple(std::move(first)), Tuple(std::move(second))});
}

static Tuple allOnes(const Tuple &t) {
  if (t.isLeaf)
    return Tuple(1);
  std::vector<Tuple> kids;
  for (const Tuple &kid : t.kids)
    kids.push_back(allOnes(kid));
  return Tuple(std::move(kids));
}

Tuple Algebra::filterZero(const Tuple &guide, const Tuple &t) {
  if (guide.isLeaf)
    return guide.is(0) ? allOnes(t) : t;
  if (t.isLeaf || t.rank() != guide.rank())
    return fail("shape and stride are not congruent");
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < t.rank(); ++i)
    kids.push_back(filterZero(guide.kids[i], t.kids[i]));
  return Tuple(std::move(kids));
}

Layout Algebra::canon(const Layout &l) {
  if (l.shape.isLeaf)
    return l.shape.is(1) ? Layout{l.shape, Tuple(0)} : l;
  if (l.stride.isLeaf || l.stride.rank() != l.rank()) {
    fail("shape and stride are not congruent");
    return l;
  }
  if (l.rank() == 1)
    return canon({l.shape.kids[0], l.stride.kids[0]});
  SmallVector<Layout> modes;
  for (int32_t i = 0; i < l.rank(); ++i)
    modes.push_back(canon({l.shape.kids[i], l.stride.kids[i]}));
  return makeTuple(modes);
}

Layout Algebra::at(const Layout &l, int32_t index) {
  return {at(l.shape, index), at(l.stride, index)};
}

Layout Algebra::expand(const Layout &l, ArrayRef<int32_t> indices) {
  return {expand(l.shape, indices), expand(l.stride, indices)};
}

Layout Algebra::slice(const Layout &l, const Tuple &coord) {
  return {slice(l.shape, coord), slice(l.stride, coord)};
}

Layout Algebra::makeTuple(ArrayRef<Layout> modes) {
  std::vector<Tuple> shapes, strides;
  for (const Layout &mode : modes) {
    shapes.push_back(mode.shape);
    strides.push_back(mode.stride);
  }
  return {Tuple(std::move(shapes)), Tuple(std::move(strides))};
}
