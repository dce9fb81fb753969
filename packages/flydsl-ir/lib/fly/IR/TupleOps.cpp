//===- TupleOps.cpp - constructors, extractors, tuple arithmetic ------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "InferMacros.h"

using namespace mlir;
using namespace mlir::fly;

static Type tupleType(Algebra &alg, const Tuple &t) { return IntTupleType::get(alg.toAttr(t)); }
static Type layoutType(Algebra &alg, const Layout &l) { return LayoutType::get(alg.toAttr(l)); }
static Tuple read(Algebra &alg, Value v) { return alg.fromAttr(tupleAttr(v)); }

//===------------------------------------------------------------------------===//
// Constructors
//===------------------------------------------------------------------------===//

LogicalResult StaticOp::verify() {
  auto mayStatic = dyn_cast<MayStaticTypeInterface>(getType());
  if (!mayStatic)
    return emitOpError("needs a type that describes its value, got ") << getType();
  if (!mayStatic.isStatic())
    return emitOpError("needs a static type, but ") << getType() << " has dynamic parts";
  return success();
}

template <typename OpT>
static LogicalResult verifyMakeTuple(OpT op) {
  SmallVector<int32_t> widths;
  op.getType().getAttr().walkLeaves([&](IntTupleAttr leaf) {
    IntAttr number = leaf.extractIntFromLeaf();
    if (!number.isStatic())
      widths.push_back(number.getWidth());
  });
  OperandRange operands = op.getDyncElems();
  if (operands.size() != widths.size())
    return op.emitOpError("has ") << operands.size() << " operands but its result type has "
                                  << widths.size() << " dynamic leaves";
  // A 64-bit value may fill a leaf of 32 bits: what the leaf stands for fits it.
  for (auto [i, operand] : llvm::enumerate(operands))
    if (operand.getType().getIntOrFloatBitWidth() < static_cast<unsigned>(widths[i]))
      return op.emitOpError("operand ")
             << i << " has type " << operand.getType() << " but its leaf is " << widths[i]
             << " bits wide";
  return success();
}

LogicalResult MakeIntTupleOp::verify() { return verifyMakeTuple(*this); }
LogicalResult MakeShapeOp::verify() { return verifyMakeTuple(*this); }
LogicalResult MakeStrideOp::verify() { return verifyMakeTuple(*this); }
LogicalResult MakeCoordOp::verify() { return verifyMakeTuple(*this); }

FLY_INFER_BODY(MakeLayoutOp) {
  LayoutAttr layout =
      LayoutAttr::get(tupleAttr(adaptor.getShape()), tupleAttr(adaptor.getStride()));
  if (!layout.isCongruent())
    return emitOptionalError(loc, "the shape ", layout.getShape(), " and the stride ",
                             layout.getStride(),
                             " of a layout differ in their profiles: every extent needs one stride");
  types.push_back(LayoutType::get(layout));
  return success();
}

FLY_INFER(MakeLayoutLikeOp,
          layoutType(alg, alg.layoutLike(alg.fromAttr(getLinearLayout(adaptor.getRef().getType())))))

FLY_INFER_BODY(MakeOrderedLayoutOp) {
  Tuple shape = read(alg, adaptor.getShape());
  Tuple stride = alg.ordered(shape, read(alg, adaptor.getOrder()));
  return finishInference(loc, alg, layoutType(alg, {shape, stride}), types);
}

static Attribute structureOf(Type type) {
  if (auto swizzle = dyn_cast<SwizzleType>(type))
    return swizzle.getAttr();
  if (auto swizzle = dyn_cast<CoordSwizzleType>(type))
    return swizzle.getAttr();
  return getLayoutAttr(type);
}

FLY_INFER(MakeComposedLayoutOp,
          getTypeFor(ComposedLayoutAttr::get(structureOf(adaptor.getInner().getType()),
                                             tupleAttr(adaptor.getOffset()),
                                             structureOf(adaptor.getOuter().getType()))))

FLY_INFER_BODY(MakeIdentityLayoutOp) {
  Tuple shape = read(alg, adaptor.getShape());
  return finishInference(loc, alg, layoutType(alg, {shape, alg.identityStride(shape)}), types);
}

FLY_INFER_BODY(MakeViewOp) {
  Attribute layout = getLayoutAttr(adaptor.getLayout().getType());
  if (auto ptr = dyn_cast<PointerType>(adaptor.getIter().getType()))
    return finishInference(loc, alg, fly::MemRefType::get(ptr, layout), types);
  return finishInference(loc, alg, CoordTensorType::get(tupleAttr(adaptor.getIter()), layout),
                         types);
}

static Layout staticFragment(Algebra &alg, Type src) {
  Layout layout = alg.fromAttr(getLinearLayout(src));
  if (!layout.shape.isStatic())
    alg.fail("a fragment needs a static shape");
  return alg.failed() ? layout : alg.fragment(layout);
}

FLY_INFER_BODY(MakeFragmentLikeOp) {
  Type src = adaptor.getSrc().getType(), elemTy;
  if (auto memref = dyn_cast<fly::MemRefType>(src))
    elemTy = memref.getElemTy();
  if (adaptor.getDtype())
    elemTy = *adaptor.getDtype();
  if (!elemTy)
    return emitOptionalError(loc, "make_fragment_like needs a dtype unless its source is a memref");
  if (getElementBitWidth(elemTy) == 0)
    return emitOptionalError(loc, "dtype must be an integer or float type");
  LayoutAttr layout = alg.toAttr(staticFragment(alg, src));
  return finishInference(loc, alg, fly::MemRefType::get(elemTy, AddressSpace::Register, layout),
                         types);
}

FLY_INFER(MakeFragmentLayoutLikeOp,
          layoutType(alg, staticFragment(alg, adaptor.getSrc().getType())))

//===------------------------------------------------------------------------===//
// Extractors
//===------------------------------------------------------------------------===//

FLY_INFER_BODY(GetScalarOp) {
  Tuple leaf = alg.unwrap(read(alg, adaptor.getIntTuple()));
  if (!leaf.isLeaf)
    return emitOptionalError(loc, "get_scalar needs a leaf, got a tuple of rank ", leaf.rank());
  types.push_back(IntegerType::get(ctx, leaf.num.width));
  return success();
}

FLY_INFER_BODY(GetLeavesOp) {
  // Inference may run before the default value of the attribute is filled in.
  BoolAttr flag = adaptor.getDynamicOnlyAttr();
  bool dynamicOnly = flag && flag.getValue();
  read(alg, adaptor.getInput()).walk([&](const Tuple &leaf) {
    if (!dynamicOnly || !leaf.num.isStatic)
      types.push_back(IntegerType::get(ctx, std::max(32, leaf.num.width)));
  });
  return success();
}

FLY_INFER(GetShapeOp,
          IntTupleType::get(getLinearLayout(adaptor.getLayout().getType()).getShape()))

FLY_INFER_BODY(GetStrideOp) {
  auto layout = dyn_cast<LayoutAttr>(getLayoutAttr(adaptor.getLayout().getType()));
  if (!layout)
    return emitOptionalError(loc, "get_stride needs a plain layout: a composed one has no stride");
  types.push_back(IntTupleType::get(layout.getStride()));
  return success();
}

FLY_INFER(GetLayoutOp, getTypeFor(getLayoutAttr(adaptor.getMemref().getType())))

FLY_INFER_BODY(GetIterOp) {
  Type tensor = adaptor.getMemref().getType();
  if (auto memref = dyn_cast<fly::MemRefType>(tensor))
    types.push_back(memref.getPointerType());
  else
    types.push_back(IntTupleType::get(cast<CoordTensorType>(tensor).getBase()));
  return success();
}

static ComposedLayoutAttr composedAttr(Value value) {
  return cast<ComposedLayoutType>(value.getType()).getAttr();
}

FLY_INFER(ComposedGetInnerOp, getTypeFor(composedAttr(adaptor.getInput()).getInner()))
FLY_INFER(ComposedGetOffsetOp, getTypeFor(composedAttr(adaptor.getInput()).getOffset()))
FLY_INFER(ComposedGetOuterOp, getTypeFor(composedAttr(adaptor.getInput()).getOuter()))

//===------------------------------------------------------------------------===//
// Arithmetic
//===------------------------------------------------------------------------===//

#define FLY_INFER_BINARY(OP, ...)                                                                  \
  FLY_INFER_BODY(OP) {                                                                             \
    Tuple lhs = read(alg, adaptor.getLhs()), rhs = read(alg, adaptor.getRhs());                    \
    return finishInference(loc, alg, tupleType(alg, __VA_ARGS__), types);                          \
  }

FLY_INFER_BINARY(IntTupleAddOp, alg.addTuples(lhs, rhs))
FLY_INFER_BINARY(IntTupleSubOp, alg.zipWith(&Algebra::sub, lhs, rhs))
FLY_INFER_BINARY(IntTupleMulOp, alg.zipWith(&Algebra::mul, lhs, rhs))
FLY_INFER_BINARY(IntTupleDivOp, alg.zipWith(&Algebra::div, lhs, rhs))
FLY_INFER_BINARY(IntTupleModOp, alg.zipWith(&Algebra::mod, lhs, rhs))
FLY_INFER_BINARY(IntTupleProductLikeOp, alg.productLike(lhs, rhs))
FLY_INFER_BINARY(ShapeDivOp, alg.tupleDiv(&Algebra::shapeDiv, lhs, rhs))
FLY_INFER_BINARY(CeilDivOp, alg.tupleDiv(&Algebra::ceilDiv, lhs, rhs))

FLY_INFER(IntTupleProductOp, tupleType(alg, alg.product(read(alg, adaptor.getInput()))))
FLY_INFER(IntTupleProductEachOp, tupleType(alg, alg.productEach(read(alg, adaptor.getInput()))))
