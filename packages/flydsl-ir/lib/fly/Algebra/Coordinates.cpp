//===- Coordinates.cpp - coordinates, indices, sizes ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;

Tuple Algebra::crd2idx(const Tuple &c, const Layout &l) {
  const Tuple &shape = l.shape, &stride = l.stride;
  if (failed())
    return Tuple(0);
  if (!shape.isLeaf && (stride.isLeaf || stride.rank() != shape.rank()))
    return fail("shape and stride are not congruent");
  if (!c.isLeaf) {
    if (shape.isLeaf || c.rank() != shape.rank())
      return fail("the coordinate has rank " + Twine(c.rank()) + " but the shape has rank " +
                  Twine(shape.rank()));
    Tuple sum(0);
    for (int32_t i = 0; i < c.rank(); ++i)
      sum = coordAdd(sum, crd2idx(c.kids[i], Layout{shape.kids[i], stride.kids[i]}));
    return sum;
  }
  if (c.isNone())
    return Tuple(0);
  if (c.isBasis())
    return fail("a basis is not a coordinate");
  if (shape.isLeaf)
    return scale(c, stride);
  // Colexicographic split; the last mode takes what is left, unreduced.
  Int rest = c.num;
  Tuple sum(0);
  for (int32_t i = 0; i < shape.rank(); ++i) {
    bool last = i + 1 == shape.rank();
    Int extent = last ? Int() : size(shape.kids[i]);
    Int here = last ? rest : mod(rest, extent);
    if (!last)
      rest = div(rest, extent);
    sum = coordAdd(sum, crd2idx(Tuple(here), Layout{shape.kids[i], stride.kids[i]}));
  }
  return sum;
}

// Replaces the leaf at `path` by `leaf`; null path means the tuple itself.
static bool replaceAt(Tuple &t, ArrayRef<int32_t> path, const Tuple &leaf) {
  Tuple *place = &t;
  for (int32_t index : path) {
    if (index >= place->rank())
      return false;
    if (!place->isLeaf)
      place = &place->kids[index];
  }
  if (!place->isInt())
    return false;
  *place = leaf;
  return true;
}

static const Tuple *leafAt(const Tuple &t, ArrayRef<int32_t> path) {
  const Tuple *place = &t;
  for (int32_t index : path) {
    if (index >= place->rank())
      return nullptr;
    if (!place->isLeaf)
      place = &place->kids[index];
  }
  return place->isInt() ? place : nullptr;
}

Tuple Algebra::applySwizzle(const Tuple &v, const CoordMap &map) {
  if (map.swizzle) {
    if (!v.isInt())
      return fail("a swizzle applies to an integer, not to a coordinate tuple");
    return swizzle(v.num, map.swizzle);
  }
  CoordSwizzleAttr attr = map.coordSwizzle;
  Tuple result = v.isBasis() ? basisToTuple(v) : v;
  const Tuple *row = leafAt(result, attr.getModeRow());
  const Tuple *col = leafAt(result, attr.getModeCol());
  if (!row || !col)
    return fail("the coordinate swizzle names a mode that is not an integer of the coordinate");
  Tuple mixed = coordSwizzle(row->num, col->num, attr);
  replaceAt(result, attr.getModeCol(), mixed);
  return result;
}

Tuple Algebra::crd2idx(const Tuple &c, const CoordMap &map) {
  if (map.isPlain())
    return crd2idx(c, map.layout);
  if (!map.isComposed())
    return applySwizzle(c, map);
  Tuple t = coordAdd(map.offset, crd2idx(c, *map.outer));
  return crd2idx(t, *map.inner);
}

Tuple Algebra::idx2crd(const Tuple &x, const Layout &l) {
  const Tuple &shape = l.shape, &stride = l.stride;
  if (shape.isLeaf) {
    if (!x.isInt() || !stride.isInt())
      return fail("idx2crd needs an integer index and integer strides");
    if (shape.is(1))
      return Tuple(0);
    return mod(div(x.num, stride.num), shape.num);
  }
  if (stride.isLeaf || stride.rank() != shape.rank())
    return fail("shape and stride are not congruent");
  if (!x.isLeaf && x.rank() != shape.rank())
    return fail("the index has rank " + Twine(x.rank()) + " but the shape has rank " +
                Twine(shape.rank()));
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < shape.rank() && !failed(); ++i)
    kids.push_back(idx2crd(x.isLeaf ? x : x.kids[i], {shape.kids[i], stride.kids[i]}));
  return failed() ? Tuple(0) : Tuple(std::move(kids));
}

Int Algebra::colexIndex(const Tuple &c, const Tuple &shape) {
  if (c.isLeaf) {
    if (c.isBasis())
      fail("a basis is not a coordinate");
    return c.num;
  }
  if (shape.isLeaf || shape.rank() != c.rank())
    return fail("the coordinate and the shape have different ranks").num;
  Int result = colexIndex(c.kids.back(), shape.kids.back());
  for (int32_t i = c.rank() - 2; i >= 0; --i)
    result = add(colexIndex(c.kids[i], shape.kids[i]), mul(size(shape.kids[i]), result));
  return result;
}

Tuple Algebra::colexCoord(const Int &x, const Tuple &shape) {
  if (shape.isLeaf)
    return x;
  Int rest = x;
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < shape.rank(); ++i) {
    bool last = i + 1 == shape.rank();
    Int extent = last ? Int() : size(shape.kids[i]);
    kids.push_back(colexCoord(last ? rest : mod(rest, extent), shape.kids[i]));
    if (!last)
      rest = div(rest, extent);
  }
  return Tuple(std::move(kids));
}

Tuple Algebra::crd2crd(const Tuple &c, const Tuple &from, const Tuple &to) {
  if (c.isLeaf || from.isLeaf || to.isLeaf)
    return colexCoord(colexIndex(c, from), to);
  if (c.rank() != from.rank() || c.rank() != to.rank())
    return fail("crd2crd needs tuples of equal rank");
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < c.rank(); ++i)
    kids.push_back(crd2crd(c.kids[i], from.kids[i], to.kids[i]));
  return Tuple(std::move(kids));
}

Tuple Algebra::flatCoord(const Tuple &index, const Layout &l) {
  Tuple crd = idx2crd(index, l);
  if (l.shape.isLeaf || failed())
    return crd;
  return crd2crd(crd, l.shape, Tuple(std::vector<Tuple>(l.rank(), Tuple(1))));
}

Tuple Algebra::coord1D(const Tuple &index, const Layout &l) {
  return colexIndex(idx2crd(index, l), l.shape);
}

// Column-major strides; `running` is the stride of the next leaf.
static Tuple compactFrom(Algebra &algebra, const Tuple &shape, Int &running) {
  if (shape.isLeaf) {
    if (shape.isBasis())
      return algebra.fail("a basis is not an extent");
    Tuple stride(running);
    running = algebra.mul(running, shape.num);
    return stride;
  }
  std::vector<Tuple> kids;
  for (const Tuple &kid : shape.kids)
    kids.push_back(compactFrom(algebra, kid, running));
  return Tuple(std::move(kids));
}

Tuple Algebra::compact(const Tuple &shape, Int start) {
  return compactFrom(*this, shape, start);
}

namespace {
/// A leaf of the order and the part of the shape that it faces.
struct OrderedPart {
  const Tuple *order;
  const Tuple *shape;
};
} // namespace

static void collectParts(Algebra &algebra, const Tuple &shape, const Tuple &order,
                         SmallVectorImpl<OrderedPart> &parts) {
  if (order.isLeaf) {
    if (order.isBasis())
      algebra.fail("an order must consist of integers, not of basis leaves");
    parts.push_back({&order, &shape});
    return;
  }
  if (shape.isLeaf || shape.rank() != order.rank()) {
    algebra.fail("the order is not weakly congruent to the shape: rank " + Twine(order.rank()) +
                 " where the shape has rank " + Twine(shape.rank()));
    return;
  }
  for (int32_t i = 0; i < order.rank(); ++i)
    collectParts(algebra, shape.kids[i], order.kids[i], parts);
}

// Static orders by value, before all dynamic ones, which keep their place.
bool Algebra::isSmaller(const Tuple &a, size_t i, const Tuple &b, size_t j) {
  if (a.num.isStatic && b.num.isStatic)
    return a.num.value < b.num.value;
  if (a.num.isStatic != b.num.isStatic)
    return a.num.isStatic;
  return i < j;
}

static Tuple rebuildLike(const Tuple &order, ArrayRef<Tuple> parts, size_t &next) {
  if (order.isLeaf)
    return parts[next++];
  std::vector<Tuple> kids;
  for (const Tuple &kid : order.kids)
    kids.push_back(rebuildLike(kid, parts, next));
  return Tuple(std::move(kids));
}

Tuple Algebra::ordered(const Tuple &shape, const Tuple &order) {
  if (order.isLeaf)
    return compact(shape);
  SmallVector<OrderedPart> parts;
  collectParts(*this, shape, order, parts);
  if (failed())
    return Tuple(0);
  auto sorted = llvm::to_vector(llvm::seq<size_t>(0, parts.size()));
  llvm::stable_sort(sorted, [&](size_t i, size_t j) {
    return isSmaller(*parts[i].order, i, *parts[j].order, j);
  });
  // Walk in order; parts of equal order start at the same stride.
  SmallVector<Tuple> strides(parts.size());
  Int start = Int::constant(1), next = start;
  for (size_t k = 0; k < sorted.size(); ++k) {
    size_t i = sorted[k];
    if (k > 0 && isSmaller(*parts[sorted[k - 1]].order, sorted[k - 1], *parts[i].order, i))
      start = next;
    strides[i] = compact(*parts[i].shape, start);
    next = mul(next, size(*parts[i].shape));
  }
  size_t position = 0;
  return rebuildLike(order, strides, position);
}

static Tuple identityFrom(const Tuple &shape, SmallVectorImpl<int32_t> &path) {
  if (shape.isLeaf)
    return path.empty() ? Tuple(1) : Tuple(Int::constant(1), path);
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < shape.rank(); ++i) {
    path.push_back(i);
    kids.push_back(identityFrom(shape.kids[i], path));
    path.pop_back();
  }
  return Tuple(std::move(kids));
}

Tuple Algebra::identityStride(const Tuple &shape) {
  SmallVector<int32_t> path;
  return identityFrom(shape, path);
}

static Tuple mapLeaves(const Tuple &t, function_ref<Tuple(const Tuple &)> fn) {
  if (t.isLeaf)
    return fn(t);
  std::vector<Tuple> kids;
  for (const Tuple &kid : t.kids)
    kids.push_back(mapLeaves(kid, fn));
  return Tuple(std::move(kids));
}

Tuple Algebra::coprofile(const Layout &l) {
  Tuple sum(0);
  l.stride.walk([&](const Tuple &leaf) {
    sum = coordAdd(sum, leaf.isBasis() ? Tuple(Int::constant(0), leaf.modes) : Tuple(0));
  });
  return mapLeaves(sum, [](const Tuple &) { return Tuple(0); });
}

static Tuple lastIndex(Algebra &algebra, const Tuple &shape, const Tuple &stride) {
  if (shape.isLeaf)
    return algebra.scale(algebra.sub(shape.num, Int::constant(1)), stride);
  if (stride.isLeaf || stride.rank() != shape.rank())
    return algebra.fail("shape and stride are not congruent");
  Tuple sum(0);
  for (int32_t i = 0; i < shape.rank(); ++i)
    sum = algebra.coordAdd(sum, lastIndex(algebra, shape.kids[i], stride.kids[i]));
  return sum;
}

Tuple Algebra::coshape(const Layout &l) {
  Tuple last = lastIndex(*this, l.shape, l.stride);
  if (last.isBasis())
    last = basisToTuple(last);
  return mapLeaves(last, [&](const Tuple &leaf) { return add(leaf.num, Int::constant(1)); });
}

Int Algebra::cosize(const Layout &l) { return product(coshape(l)); }

Tuple Algebra::decomposedOffset(const CoordMap &map) {
  Tuple t = map.offset;
  if (map.outer->isComposed())
    t = coordAdd(t, decomposedOffset(*map.outer));
  return crd2idx(t, *map.inner);
}
