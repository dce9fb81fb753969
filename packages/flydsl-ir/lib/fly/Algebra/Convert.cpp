//===- Convert.cpp - between attributes, SSA values and terms ---------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyOps.h"
#include "fly/IR/NormalForm.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::fly;

//===------------------------------------------------------------------------===//
// Attributes
//===------------------------------------------------------------------------===//

Int Algebra::fromAttr(IntAttr attr) {
  return {attr.getValue(), attr.getWidth(), attr.getDivisibility(), attr.getStaticFlag(), {}};
}

Tuple Algebra::fromAttr(IntTupleAttr attr) {
  if (auto basis = dyn_cast<BasisAttr>(attr.getValue()))
    return Tuple(fromAttr(basis.getValue()), basis.getModes());
  if (auto leaf = dyn_cast<IntAttr>(attr.getValue()))
    return fromAttr(leaf);
  auto list = cast<ArrayAttr>(attr.getValue());
  std::vector<Tuple> kids;
  kids.reserve(list.size());
  for (Attribute kid : list)
    kids.push_back(fromAttr(cast<IntTupleAttr>(kid)));
  return Tuple(std::move(kids));
}

Layout Algebra::fromAttr(LayoutAttr attr) {
  return {fromAttr(attr.getShape()), fromAttr(attr.getStride())};
}

CoordMap Algebra::mapFromAttr(Attribute attr) {
  CoordMap map;
  if (auto layout = dyn_cast<LayoutAttr>(attr)) {
    map.layout = fromAttr(layout);
  } else if (auto composed = dyn_cast<ComposedLayoutAttr>(attr)) {
    map.inner = std::make_shared<CoordMap>(mapFromAttr(composed.getInner()));
    map.offset = fromAttr(composed.getOffset());
    map.outer = std::make_shared<CoordMap>(mapFromAttr(composed.getOuter()));
  } else {
    map.swizzle = dyn_cast<SwizzleAttr>(attr);
    map.coordSwizzle = dyn_cast<CoordSwizzleAttr>(attr);
  }
  return map;
}

IntAttr Algebra::toAttr(const Int &num) {
  if (num.isNone())
    return IntAttr::getNone(ctx);
  return num.isStatic ? IntAttr::getStatic(ctx, num.value)
                      : IntAttr::getDynamic(ctx, num.width, num.div);
}

IntTupleAttr Algebra::toAttr(const Tuple &tuple) {
  if (tuple.isBasis())
    return IntTupleAttr::get(BasisAttr::get(ctx, toAttr(tuple.num), tuple.modes));
  if (tuple.isLeaf)
    return IntTupleAttr::get(toAttr(tuple.num));
  SmallVector<IntTupleAttr> kids;
  for (const Tuple &kid : tuple.kids)
    kids.push_back(toAttr(kid));
  return IntTupleAttr::getTuple(ctx, kids);
}

LayoutAttr Algebra::toAttr(const Layout &layout) {
  return LayoutAttr::get(toAttr(layout.shape), toAttr(layout.stride));
}

//===------------------------------------------------------------------------===//
// Values
//===------------------------------------------------------------------------===//

static void attachLeaves(Tuple &tuple, ArrayRef<Value> &values) {
  if (!tuple.isLeaf) {
    for (Tuple &kid : tuple.kids)
      attachLeaves(kid, values);
  } else if (!tuple.num.isStatic && !values.empty()) {
    tuple.num.ssa = values.front();
    values = values.drop_front();
  }
}

/// Truncates the values of leaves that are narrower than them.
static void narrowLeaves(OpBuilder &builder, Location loc, const Tuple &tuple,
                         MutableArrayRef<Value> values) {
  size_t next = 0;
  tuple.walk([&](const Tuple &leaf) {
    if (leaf.num.isStatic || next == values.size())
      return;
    Value &value = values[next++];
    Type type = builder.getIntegerType(leaf.num.width);
    if (value.getType().getIntOrFloatBitWidth() > static_cast<unsigned>(leaf.num.width))
      value = arith::TruncIOp::create(builder, loc, type, value);
  });
}

Tuple Algebra::fromValue(Value value) {
  auto type = dyn_cast<IntTupleType>(value.getType());
  if (!type)
    return fail("expected an int tuple");
  Tuple tuple = fromAttr(type.getAttr());
  if (type.isStatic())
    return tuple;
  auto maker = value.getDefiningOp<MakeIntTupleOp>();
  if (!maker)
    return fail("int tuple is not in normal form");
  SmallVector<Value> values(maker.getDyncElems());
  if (builder) // leaves have the width that the type says
    narrowLeaves(*builder, *loc, tuple, values);
  ArrayRef<Value> rest(values);
  attachLeaves(tuple, rest);
  return tuple;
}

Layout Algebra::layoutFromValue(Value value) {
  auto type = dyn_cast<LayoutType>(value.getType());
  if (type && type.isStatic())
    return fromAttr(type.getAttr());
  auto maker = value.getDefiningOp<MakeLayoutOp>();
  if (!maker) {
    fail("layout is not in normal form");
    return {};
  }
  return {fromValue(maker.getShape()), fromValue(maker.getStride())};
}

CoordMap Algebra::mapFromValue(Value value) {
  Type type = value.getType();
  if (auto swizzle = dyn_cast<SwizzleType>(type))
    return mapFromAttr(swizzle.getAttr());
  if (auto swizzle = dyn_cast<CoordSwizzleType>(type))
    return mapFromAttr(swizzle.getAttr());
  auto composed = dyn_cast<ComposedLayoutType>(type);
  if (!composed) {
    CoordMap map;
    map.layout = layoutFromValue(value);
    return map;
  }
  if (composed.isStatic())
    return mapFromAttr(composed.getAttr());
  auto maker = value.getDefiningOp<MakeComposedLayoutOp>();
  if (!maker) {
    fail("composed layout is not in normal form");
    return mapFromAttr(LayoutAttr::get(IntTupleAttr::getStatic(ctx, 1),
                                       IntTupleAttr::getStatic(ctx, 0)));
  }
  CoordMap map;
  map.inner = std::make_shared<CoordMap>(mapFromValue(maker.getInner()));
  map.offset = fromValue(maker.getOffset());
  map.outer = std::make_shared<CoordMap>(mapFromValue(maker.getOuter()));
  return map;
}

Value Algebra::toValue(const Tuple &tuple) {
  if (failed() || !builder)
    return {};
  SmallVector<Value> leaves;
  tuple.walk([&](const Tuple &leaf) {
    if (!leaf.num.isStatic)
      leaves.push_back(materialize(leaf.num, leaf.num.width));
  });
  return MakeIntTupleOp::create(*builder, *loc, IntTupleType::get(toAttr(tuple)), leaves);
}

Value Algebra::toValue(const Layout &layout) {
  if (failed() || !builder)
    return {};
  Value shape = toValue(layout.shape), stride = toValue(layout.stride);
  return MakeLayoutOp::create(*builder, *loc, LayoutType::get(toAttr(layout)), shape, stride);
}
