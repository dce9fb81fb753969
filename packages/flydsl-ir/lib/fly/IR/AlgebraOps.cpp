//===- AlgebraOps.cpp - structure, coordinates, layout algebra --------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "InferMacros.h"

using namespace mlir;
using namespace mlir::fly;

static Type tupleType(Algebra &alg, const Tuple &t) { return IntTupleType::get(alg.toAttr(t)); }
static Tuple read(Algebra &alg, Value v) { return alg.fromAttr(tupleAttr(v)); }

// Applies `fn` to the linear layout and keeps everything around it.
static Type mapLinear(Algebra &alg, Type type, function_ref<Layout(const Layout &)> fn) {
  Attribute layout = getLayoutAttr(type);
  Layout mapped = fn(alg.fromAttr(getLinearLayout(layout)));
  return alg.failed() ? type : withLayout(type, replaceLinear(layout, alg.toAttr(mapped)));
}

// Applies a tuple operation to an int tuple, or to shape and stride of the linear layout.
static Type mapTuples(Algebra &alg, Type type, function_ref<Tuple(const Tuple &)> fn) {
  if (auto tuple = dyn_cast<IntTupleType>(type))
    return tupleType(alg, fn(alg.fromAttr(tuple.getAttr())));
  return mapLinear(alg, type, [&](const Layout &l) { return Layout{fn(l.shape), fn(l.stride)}; });
}

//===------------------------------------------------------------------------===//
// Structure
//===------------------------------------------------------------------------===//

// A coordinate tensor keeps its whole base, as its lowering does.
FLY_INFER(GetOp, mapTuples(alg, adaptor.getInput().getType(), [&](const Tuple &t) {
            Tuple mode = t;
            for (auto [i, index] : llvm::enumerate(adaptor.getMode())) {
              if (mode.isLeaf && !alg.failed())
                return alg.fail("get: the path is longer than the tuple is deep: mode " +
                                Twine(index) + " of a leaf at position " + Twine(i));
              mode = alg.at(mode, index);
            }
            return mode;
          }))

FLY_INFER(TakeOp, mapTuples(alg, adaptor.getTuple().getType(), [&](const Tuple &t) {
            return alg.take(t, adaptor.getBegin(), adaptor.getEnd());
          }))

FLY_INFER(SelectOp, mapTuples(alg, adaptor.getTuple().getType(), [&](const Tuple &t) {
            return alg.select(t, adaptor.getIndices());
          }))

FLY_INFER(GroupOp, mapTuples(alg, adaptor.getTuple().getType(), [&](const Tuple &t) {
            return alg.group(t, adaptor.getBegin(), adaptor.getEnd());
          }))

using ExtendFn = Tuple (Algebra::*)(const Tuple &, const Tuple &, std::optional<int32_t>);

static Type inferExtend(Algebra &alg, Type type, Type elem, std::optional<int32_t> n,
                        ExtendFn fn) {
  auto tuple = dyn_cast<IntTupleType>(type);
  auto elemTuple = dyn_cast<IntTupleType>(elem);
  if (static_cast<bool>(tuple) != static_cast<bool>(elemTuple)) {
    alg.fail("tuple and elem must both be int tuples or both be layouts");
    return type;
  }
  if (tuple)
    return tupleType(alg, (alg.*fn)(alg.fromAttr(tuple.getAttr()),
                                    alg.fromAttr(elemTuple.getAttr()), n));
  Layout extra = alg.fromAttr(cast<LayoutType>(elem).getAttr());
  return mapLinear(alg, type, [&](const Layout &l) -> Layout {
    return {(alg.*fn)(l.shape, extra.shape, n), (alg.*fn)(l.stride, extra.stride, n)};
  });
}

FLY_INFER(AppendOp, inferExtend(alg, adaptor.getTuple().getType(), adaptor.getElem().getType(),
                                adaptor.getN(), &Algebra::append))
FLY_INFER(PrependOp, inferExtend(alg, adaptor.getTuple().getType(), adaptor.getElem().getType(),
                                 adaptor.getN(), &Algebra::prepend))

FLY_INFER(SliceOp, inferSlice(alg, adaptor.getSrc().getType(), tupleAttr(adaptor.getCoord())))

FLY_INFER(DiceOp, mapTuples(alg, adaptor.getSrc().getType(), [&](const Tuple &t) {
            return alg.dice(t, read(alg, adaptor.getCoord()));
          }))

//===------------------------------------------------------------------------===//
// Coordinates and sizes
//===------------------------------------------------------------------------===//

static Layout linearOf(Algebra &alg, Value layout) {
  return alg.fromAttr(getLinearLayout(layout.getType()));
}

FLY_INFER_BODY(SizeOp) {
  auto tuple = dyn_cast<IntTupleType>(adaptor.getIntTuple().getType());
  Tuple shape = tuple ? alg.fromAttr(tuple.getAttr()) : linearOf(alg, adaptor.getIntTuple()).shape;
  return finishInference(loc, alg, tupleType(alg, alg.product(shape)), types);
}

FLY_INFER(CoprofileOp, tupleType(alg, alg.coprofile(linearOf(alg, adaptor.getLayout()))))
FLY_INFER(CoshapeOp, tupleType(alg, alg.coshape(linearOf(alg, adaptor.getLayout()))))
FLY_INFER(CosizeOp, tupleType(alg, alg.cosize(linearOf(alg, adaptor.getLayout()))))

FLY_INFER_BODY(Crd2IdxOp) {
  Type type = adaptor.getLayout().getType();
  Attribute map = getLayoutAttr(type);
  if (auto swizzle = dyn_cast<SwizzleType>(type))
    map = swizzle.getAttr();
  else if (auto swizzle = dyn_cast<CoordSwizzleType>(type))
    map = swizzle.getAttr();
  Tuple index = alg.crd2idx(read(alg, adaptor.getCoord()), alg.mapFromAttr(map));
  return finishInference(loc, alg, tupleType(alg, index), types);
}

FLY_INFER(Idx2CrdOp, tupleType(alg, alg.idx2crd(read(alg, adaptor.getCoord()),
                                                linearOf(alg, adaptor.getLayout()))))
FLY_INFER(GetFlatCoordOp, tupleType(alg, alg.flatCoord(read(alg, adaptor.getIndex()),
                                                       linearOf(alg, adaptor.getLayout()))))
FLY_INFER(Get1DCoordOp, tupleType(alg, alg.coord1D(read(alg, adaptor.getIndex()),
                                                   linearOf(alg, adaptor.getLayout()))))

//===------------------------------------------------------------------------===//
// Layout algebra
//===------------------------------------------------------------------------===//

FLY_INFER(CoalesceOp, mapLinear(alg, adaptor.getLayout().getType(), [&](const Layout &l) {
            if (!adaptor.getPattern())
              return alg.coalesce(l);
            return alg.coalesce(l, read(alg, adaptor.getPattern()));
          }))

// A LayoutAttr or a TileAttr.
static Attribute tilerOf(Value value) {
  if (auto tile = dyn_cast<TileType>(value.getType()))
    return tile.getAttr();
  return getLayoutAttr(value.getType());
}

FLY_INFER(CompositionOp, mapLinear(alg, adaptor.getOuter().getType(), [&](const Layout &l) {
            Attribute inner = tilerOf(adaptor.getInner());
            if (auto tile = dyn_cast<TileAttr>(inner))
              return alg.composition(l, tile);
            return alg.composition(l, alg.fromAttr(cast<LayoutAttr>(inner)));
          }))

FLY_INFER(ComplementOp, mapLinear(alg, adaptor.getLayout().getType(), [&](const Layout &l) {
            if (!adaptor.getCodomainSize())
              return alg.complement(l);
            return alg.complement(l, read(alg, adaptor.getCodomainSize()));
          }))

FLY_INFER(RightInverseOp, mapLinear(alg, adaptor.getLayout().getType(),
                                    [&](const Layout &l) { return alg.rightInverse(l); }))
FLY_INFER(LeftInverseOp, mapLinear(alg, adaptor.getLayout().getType(),
                                   [&](const Layout &l) { return alg.leftInverse(l); }))

#define FLY_INFER_DIVIDE(OP, FN)                                                                   \
  FLY_INFER(OP, mapLinear(alg, adaptor.getLayout().getType(), [&](const Layout &l) {               \
              return alg.FN(l, tilerOf(adaptor.getDivisor()));                                     \
            }))
FLY_INFER_DIVIDE(LogicalDivideOp, logicalDivide)
FLY_INFER_DIVIDE(ZippedDivideOp, zippedDivide)
FLY_INFER_DIVIDE(TiledDivideOp, tiledDivide)
FLY_INFER_DIVIDE(FlatDivideOp, flatDivide)
#undef FLY_INFER_DIVIDE

#define FLY_INFER_PRODUCT(OP, ...)                                                                 \
  FLY_INFER(OP, mapLinear(alg, adaptor.getLayout().getType(), [&](const Layout &l) {               \
              Layout t = linearOf(alg, adaptor.getTile());                                         \
              return __VA_ARGS__;                                                                  \
            }))
FLY_INFER_PRODUCT(LogicalProductOp, alg.logicalProduct(l, t))
FLY_INFER_PRODUCT(ZippedProductOp, alg.logicalProduct(l, t))
FLY_INFER_PRODUCT(TiledProductOp, alg.tiledProduct(l, t))
FLY_INFER_PRODUCT(FlatProductOp, alg.flatProduct(l, t))
FLY_INFER_PRODUCT(BlockedProductOp, alg.blockedProduct(l, t))
FLY_INFER_PRODUCT(RakedProductOp, alg.blockedProduct(l, t, /*raked=*/true))
#undef FLY_INFER_PRODUCT

FLY_INFER(RecastLayoutOp, getTypeFor(alg.recast(getLayoutAttr(adaptor.getSrc().getType()),
                                                adaptor.getOldTypeBits(),
                                                adaptor.getNewTypeBits())))

FLY_INFER(TileToShapeOp, mapLinear(alg, adaptor.getBlock().getType(), [&](const Layout &l) {
            return alg.tileToShape(l, read(alg, adaptor.getTrgShape()),
                                   read(alg, adaptor.getOrdShape()));
          }))
