//===- FlyAttrs.cpp - attributes of the fly dialect -------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/Booleans.h"
#include "fly/IR/FlyDialect.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly;

#include "fly/IR/FlyEnums.cpp.inc"

#include "fly/IR/FlyAttrInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fly/IR/FlyAttrs.cpp.inc"

void FlyDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fly/IR/FlyAttrs.cpp.inc"
      >();
}

//===------------------------------------------------------------------------===//
// Verification
//===------------------------------------------------------------------------===//

using EmitError = function_ref<InFlightDiagnostic()>;

LogicalResult SwizzleAttr::verify(EmitError emitError, int32_t mask, int32_t base, int32_t shift) {
  if (mask < 0 || base < 0 || shift < 0)
    return emitError() << "swizzle parameters must not be negative: S<" << mask << ',' << base
                       << ',' << shift << '>';
  if (int64_t(mask) + base + shift > 31)
    return emitError() << "swizzle reaches beyond bit 30: S<" << mask << ',' << base << ',' << shift
                       << '>';
  return success();
}

LogicalResult CoordSwizzleAttr::verify(EmitError emitError, int32_t mask, int32_t baseRow,
                                       ArrayRef<int32_t> modeRow, int32_t baseCol,
                                       ArrayRef<int32_t> modeCol) {
  if (mask < 0 || baseRow < 0 || baseCol < 0)
    return emitError() << "coordinate swizzle parameters must not be negative: mask " << mask
                       << ", baseRow " << baseRow << ", baseCol " << baseCol;
  if (int64_t(mask) + std::max(baseRow, baseCol) > 31)
    return emitError() << "coordinate swizzle reaches beyond bit 30: mask " << mask << ", baseRow "
                       << baseRow << ", baseCol " << baseCol;
  if (llvm::any_of(modeRow, [](int32_t m) { return m < 0; }) ||
      llvm::any_of(modeCol, [](int32_t m) { return m < 0; }))
    return emitError() << "coordinate swizzle paths must not be negative";
  return success();
}

LogicalResult IntTupleAttr::verify(EmitError emitError, Attribute value) {
  if (isa<IntAttr, BasisAttr>(value))
    return success();
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.empty() || !llvm::all_of(list, llvm::IsaPred<IntTupleAttr>))
    return emitError() << "an int tuple is an integer, a basis or a non-empty list of int tuples";
  return success();
}

/// True if both tuples have one profile: leaf faces leaf, and ranks agree.
static bool isCongruent(IntTupleAttr a, IntTupleAttr b) {
  if (a.isLeaf() || b.isLeaf())
    return a.isLeaf() && b.isLeaf();
  if (a.rank() != b.rank())
    return false;
  for (int32_t i = 0; i < a.rank(); ++i)
    if (!isCongruent(a.at(i), b.at(i)))
      return false;
  return true;
}

bool LayoutAttr::isCongruent() const { return ::isCongruent(getShape(), getStride()); }

LogicalResult ComposedLayoutAttr::verify(EmitError emitError, Attribute inner, IntTupleAttr,
                                         Attribute outer) {
  if (!isa<SwizzleAttr, CoordSwizzleAttr, LayoutAttr, ComposedLayoutAttr>(inner))
    return emitError() << "the inner part of a composition is a layout or a swizzle, got " << inner;
  if (!isa<LayoutAttr, ComposedLayoutAttr>(outer))
    return emitError() << "the outer part of a composition is a layout, got " << outer;
  return success();
}

LogicalResult TileAttr::verify(EmitError emitError, Attribute value) {
  auto isElement = llvm::IsaPred<IntAttr, LayoutAttr, TileAttr>;
  if (isElement(value))
    return success();
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.empty() || !llvm::all_of(list, isElement))
    return emitError() << "a tile is '*', an integer, a layout or a non-empty list of these";
  return success();
}

//===------------------------------------------------------------------------===//
// Queries
//===------------------------------------------------------------------------===//

unsigned mlir::fly::getElementBitWidth(Type type) {
  return type && type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 0;
}

Type mlir::fly::getStorageType(Type elemTy) {
  bool isSmallFloat = isa<FloatType>(elemTy) && getElementBitWidth(elemTy) < 16;
  if (isSmallFloat || isa<IntegerType>(elemTy))
    return IntegerType::get(elemTy.getContext(), getElementBitWidth(elemTy));
  return elemTy;
}

unsigned mlir::fly::getStorageBitWidth(Type elemTy) {
  return elemTy && elemTy.isInteger(1) ? 8 : getElementBitWidth(elemTy);
}

AlignAttr AlignAttr::get(Type elemTy, int64_t divisibility) {
  int64_t bits = getElementBitWidth(elemTy) * std::max<int64_t>(divisibility, 1);
  return get(elemTy.getContext(), llvm::divideCeil(bits, 8));
}

AlignAttr AlignAttr::getTrivialAlignment(Type elemTy) { return get(elemTy, 1); }

bool IntAttr::isStatic() const { return getStaticFlag(); }

bool BasisAttr::isStatic() const { return getValue().isStatic(); }

IntTupleAttr IntTupleAttr::getTuple(MLIRContext *ctx, ArrayRef<IntTupleAttr> children) {
  return get(ArrayAttr::get(ctx, SmallVector<Attribute>(children.begin(), children.end())));
}

bool IntTupleAttr::isLeaf() const { return !isa<ArrayAttr>(getValue()); }

int32_t IntTupleAttr::rank() const {
  auto list = dyn_cast<ArrayAttr>(getValue());
  return list ? list.size() : 1;
}

int32_t IntTupleAttr::depth() const {
  auto list = dyn_cast<ArrayAttr>(getValue());
  if (!list)
    return 0;
  int32_t deepest = 0;
  for (Attribute child : list)
    deepest = std::max(deepest, cast<IntTupleAttr>(child).depth());
  return deepest + 1;
}

IntTupleAttr IntTupleAttr::at(int32_t index) const {
  if (index < 0 || index >= rank())
    return {};
  auto list = dyn_cast<ArrayAttr>(getValue());
  return list ? cast<IntTupleAttr>(list[index]) : *this;
}

Attribute IntTupleAttr::getMode(int32_t index) const { return at(index); }

IntAttr IntTupleAttr::extractIntFromLeaf() const {
  if (auto basis = dyn_cast<BasisAttr>(getValue()))
    return basis.getValue();
  return dyn_cast<IntAttr>(getValue());
}

void IntTupleAttr::walkLeaves(function_ref<void(IntTupleAttr)> fn) const {
  auto list = dyn_cast<ArrayAttr>(getValue());
  if (!list)
    return fn(*this);
  for (Attribute child : list)
    cast<IntTupleAttr>(child).walkLeaves(fn);
}

int32_t IntTupleAttr::numDynamicLeaves() const {
  int32_t count = 0;
  walkLeaves([&](IntTupleAttr leaf) { count += !leaf.extractIntFromLeaf().isStatic(); });
  return count;
}

bool IntTupleAttr::isStatic() const { return numDynamicLeaves() == 0; }

bool LayoutAttr::isLeaf() const { return getShape().isLeaf(); }
int32_t LayoutAttr::rank() const { return getShape().rank(); }
int32_t LayoutAttr::depth() const { return getShape().depth(); }
bool LayoutAttr::isStatic() const { return getShape().isStatic() && getStride().isStatic(); }

LayoutAttr LayoutAttr::at(int32_t index) const {
  IntTupleAttr shape = getShape().at(index), stride = getStride().at(index);
  return shape && stride ? get(shape, stride) : LayoutAttr();
}

Attribute LayoutAttr::getMode(int32_t index) const { return at(index); }

LayoutAttr ComposedLayoutAttr::getLinear() const { return getLinearLayout(getOuter()); }
bool ComposedLayoutAttr::isLeaf() const { return getLinear().isLeaf(); }
int32_t ComposedLayoutAttr::rank() const { return getLinear().rank(); }
int32_t ComposedLayoutAttr::depth() const { return getLinear().depth(); }

bool ComposedLayoutAttr::isStatic() const {
  auto partIsStatic = [](Attribute part) {
    auto mayStatic = dyn_cast<MayStaticAttrInterface>(part);
    return !mayStatic || mayStatic.isStatic();
  };
  return partIsStatic(getInner()) && getOffset().isStatic() && partIsStatic(getOuter());
}

ComposedLayoutAttr ComposedLayoutAttr::at(int32_t index) const {
  auto mode = cast<NestedAttrInterface>(getOuter()).getMode(index);
  return mode ? get(getInner(), getOffset(), mode) : ComposedLayoutAttr();
}

Attribute ComposedLayoutAttr::getMode(int32_t index) const { return at(index); }

int32_t TileAttr::rank() const {
  auto list = dyn_cast<ArrayAttr>(getValue());
  return list ? list.size() : 1;
}

Attribute TileAttr::at(int32_t index) const {
  if (index < 0 || index >= rank())
    return {};
  auto list = dyn_cast<ArrayAttr>(getValue());
  return list ? list[index] : getValue();
}

TileAttr TileAttr::getNones(MLIRContext *ctx, int32_t rank) {
  return get(ArrayAttr::get(ctx, SmallVector<Attribute>(rank, IntAttr::getNone(ctx))));
}

LayoutAttr mlir::fly::getLinearLayout(Attribute layout) {
  while (auto composed = dyn_cast_or_null<ComposedLayoutAttr>(layout))
    layout = composed.getOuter();
  return dyn_cast_or_null<LayoutAttr>(layout);
}

Type mlir::fly::getTypeFor(Attribute attr) {
  return llvm::TypeSwitch<Attribute, Type>(attr)
      .Case([](BasisAttr a) { return BasisType::get(a); })
      .Case([](IntTupleAttr a) { return IntTupleType::get(a); })
      .Case([](LayoutAttr a) { return LayoutType::get(a); })
      .Case([](SwizzleAttr a) { return SwizzleType::get(a); })
      .Case([](CoordSwizzleAttr a) { return CoordSwizzleType::get(a); })
      .Case([](ComposedLayoutAttr a) { return ComposedLayoutType::get(a); })
      .Case([](TileAttr a) { return TileType::get(a); })
      .Default(Type());
}
