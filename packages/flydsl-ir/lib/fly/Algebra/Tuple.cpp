//===- Tuple.cpp - arithmetic on int tuples ---------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"

using namespace mlir;
using namespace mlir::fly;

// A zipped operation on the leaves of two tuples.
static Tuple zipLeaves(Algebra &algebra, const Tuple &a, const Tuple &b,
                       function_ref<Tuple(const Tuple &, const Tuple &)> fn) {
  if (a.isLeaf && b.isLeaf)
    return fn(a, b);
  if (a.isLeaf)
    return algebra.fail("an integer on the left cannot be combined with a tuple on the right");
  std::vector<Tuple> kids;
  size_t common = std::min<size_t>(a.rank(), b.rank());
  for (size_t i = 0; i < common; ++i)
    kids.push_back(zipLeaves(algebra, a.kids[i], b.isLeaf ? b : b.kids[i], fn));
  for (size_t i = common; i < a.kids.size(); ++i)
    kids.push_back(a.kids[i]);
  for (size_t i = common; i < b.kids.size(); ++i)
    kids.push_back(b.kids[i]);
  return Tuple(std::move(kids));
}

Tuple Algebra::zipWith(IntFn fn, const Tuple &a, const Tuple &b) {
  return zipLeaves(*this, a, b, [&](const Tuple &x, const Tuple &y) -> Tuple {
    if (x.isInt() && y.isInt())
      return (this->*fn)(x.num, y.num);
    if (fn == &Algebra::mul)
      return scale(x, y);
    return fail("this operation does not take basis leaves");
  });
}

Tuple Algebra::addTuples(const Tuple &a, const Tuple &b) {
  if (a.isBasis() || b.isBasis())
    return coordAdd(a, b);
  if (a.isLeaf && b.isLeaf)
    return add(a.num, b.num);
  if (a.isLeaf)
    return a.is(0) ? b : fail("cannot add a tuple to an integer");
  std::vector<Tuple> kids;
  size_t common = std::min<size_t>(a.rank(), b.rank());
  for (size_t i = 0; i < common; ++i)
    kids.push_back(addTuples(a.kids[i], b.isLeaf ? b : b.kids[i]));
  for (size_t i = common; i < a.kids.size(); ++i)
    kids.push_back(a.kids[i]);
  for (size_t i = common; i < b.kids.size(); ++i)
    kids.push_back(b.kids[i]);
  return Tuple(std::move(kids));
}

Tuple Algebra::basisToTuple(const Tuple &basis) {
  Tuple result(basis.num);
  for (int32_t mode : llvm::reverse(basis.modes)) {
    // A mode number only comes from text; a tuple this wide is a mistake.
    if (mode > 1024)
      return fail("basis mode " + Twine(mode) + " is too large");
    std::vector<Tuple> kids(mode, Tuple(0));
    kids.push_back(result);
    result = Tuple(std::move(kids));
  }
  return result;
}

Tuple Algebra::coordAdd(const Tuple &a, const Tuple &b) {
  if (a.isInt() && b.isInt())
    return add(a.num, b.num);
  if (a.is(0))
    return b;
  if (b.is(0))
    return a;
  if (a.isInt() || b.isInt())
    return fail("cannot add an integer to a coordinate");
  Tuple x = a.isBasis() ? basisToTuple(a) : a;
  Tuple y = b.isBasis() ? basisToTuple(b) : b;
  std::vector<Tuple> kids;
  size_t common = std::min(x.kids.size(), y.kids.size());
  for (size_t i = 0; i < common; ++i)
    kids.push_back(coordAdd(x.kids[i], y.kids[i]));
  kids.insert(kids.end(), x.kids.begin() + common, x.kids.end());
  kids.insert(kids.end(), y.kids.begin() + common, y.kids.end());
  return failed() ? Tuple(0) : Tuple(std::move(kids));
}

Tuple Algebra::scale(const Tuple &a, const Tuple &b) {
  if (!a.isLeaf || !b.isLeaf)
    return fail("shape and stride are not congruent");
  if (a.isBasis() && b.isBasis())
    return fail("two basis leaves cannot be multiplied");
  return Tuple(mul(a.num, b.num), a.isBasis() ? a.modes : b.modes);
}

Tuple Algebra::divLeaf(IntFn fn, const Tuple &a, const Tuple &b) {
  if (!a.isLeaf || !b.isInt())
    return fail("a leaf can only be divided by an integer");
  return Tuple((this->*fn)(a.num, b.num), a.modes);
}

Int Algebra::product(const Tuple &t) {
  std::optional<Int> result;
  t.walk([&](const Tuple &leaf) {
    if (leaf.isBasis() && !t.isLeaf)
      fail("the product of basis leaves is not defined");
    result = result ? mul(*result, leaf.num) : leaf.num;
  });
  return result.value_or(Int::constant(1));
}

Tuple Algebra::productEach(const Tuple &t) {
  if (t.isLeaf)
    return t;
  std::vector<Tuple> kids;
  for (const Tuple &kid : t.kids)
    kids.push_back(product(kid));
  return Tuple(std::move(kids));
}

Tuple Algebra::productLike(const Tuple &t, const Tuple &guide) {
  if (guide.isLeaf)
    return product(t);
  if (t.isLeaf || t.rank() < guide.rank())
    return fail("product_like: the guide has more modes than the tuple");
  std::vector<Tuple> kids;
  for (int32_t i = 0; i < guide.rank(); ++i)
    kids.push_back(productLike(t.kids[i], guide.kids[i]));
  return Tuple(std::move(kids));
}

Tuple Algebra::tupleDiv(IntFn fn, const Tuple &a, const Tuple &b) {
  if (a.isLeaf)
    return divLeaf(fn, a, b.isLeaf ? b : Tuple(product(b)));
  if (b.isLeaf) {
    // Fold the divisor through the leaves: what one mode does not use up, the next one takes.
    Tuple rest = b;
    std::function<Tuple(const Tuple &)> fold = [&](const Tuple &t) -> Tuple {
      if (t.isLeaf) {
        Tuple result = divLeaf(fn, t, rest);
        rest = divLeaf(fn, rest, t);
        return result;
      }
      std::vector<Tuple> kids;
      for (const Tuple &kid : t.kids)
        kids.push_back(fold(kid));
      return Tuple(std::move(kids));
    };
    return fold(a);
  }
  std::vector<Tuple> kids;
  for (size_t i = 0; i < a.kids.size(); ++i)
    kids.push_back(i < b.kids.size() ? tupleDiv(fn, a.kids[i], b.kids[i]) : a.kids[i]);
  return Tuple(std::move(kids));
}

Int Algebra::elemLess(const Tuple &a, const Tuple &b) {
  if (a.isLeaf && b.isLeaf) {
    if (a.isBasis() || b.isBasis())
      return fail("basis leaves have no order").num;
    return less(a.num, b.num);
  }
  if (a.rank() > b.rank())
    return Int::constant(0);
  Int result = Int::constant(1);
  for (int32_t i = 0; i < a.rank(); ++i)
    result = logicalAnd(result, elemLess(at(a, i), at(b, i)));
  return result;
}

Int Algebra::equalTuples(const Tuple &a, const Tuple &b) {
  if (a.isLeaf && b.isLeaf)
    return a.modes == b.modes ? equal(a.num, b.num) : Int::constant(0);
  if (a.isLeaf != b.isLeaf || a.rank() != b.rank())
    return Int::constant(0);
  Int result = Int::constant(1);
  for (int32_t i = 0; i < a.rank(); ++i)
    result = logicalAnd(result, equalTuples(a.kids[i], b.kids[i]));
  return result;
}
