//===- FlyTypes.cpp - structural and tensor types of the fly dialect --------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyDialect.h"
#include "fly/IR/Syntax.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fly;

// Used by the generated builders.
static AlignAttr alignOrTrivial(AlignAttr align, Type elemTy) {
  return align ? align : AlignAttr::getTrivialAlignment(elemTy);
}

static SwizzleAttr swizzleOrTrivial(SwizzleAttr swizzle, Type elemTy) {
  return swizzle ? swizzle : SwizzleAttr::getTrivial(elemTy.getContext());
}

static TileType trivialPermutation(MLIRContext *ctx) {
  return TileType::get(TileAttr::getNones(ctx, 3));
}

#include "fly/IR/FlyTypeInterfaces.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fly/IR/FlyTypes.cpp.inc"

void FlyDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "fly/IR/FlyTypes.cpp.inc"
      >();
}

using EmitError = function_ref<InFlightDiagnostic()>;

//===------------------------------------------------------------------------===//
// Types that wrap one attribute
//===------------------------------------------------------------------------===//

#define FLY_WRAPPER_FORMAT(TYPE)                                                                   \
  Type TYPE::parse(AsmParser &parser) {                                                            \
    auto attr = decltype(std::declval<TYPE>().getAttr())::parse(parser, Type());                   \
    using AttrT = decltype(std::declval<TYPE>().getAttr());                                        \
    return attr ? Type(get(cast<AttrT>(attr))) : Type();                                           \
  }                                                                                                \
  void TYPE::print(AsmPrinter &printer) const { getAttr().print(printer); }

FLY_WRAPPER_FORMAT(BasisType)
FLY_WRAPPER_FORMAT(IntTupleType)
FLY_WRAPPER_FORMAT(LayoutType)
FLY_WRAPPER_FORMAT(SwizzleType)
FLY_WRAPPER_FORMAT(CoordSwizzleType)
FLY_WRAPPER_FORMAT(ComposedLayoutType)
FLY_WRAPPER_FORMAT(TileType)
#undef FLY_WRAPPER_FORMAT

#define FLY_WRAPPER_NESTED(TYPE)                                                                   \
  bool TYPE::isLeaf() const { return getAttr().isLeaf(); }                                         \
  int32_t TYPE::rank() const { return getAttr().rank(); }                                          \
  int32_t TYPE::depth() const { return getAttr().depth(); }                                        \
  bool TYPE::isStatic() const { return getAttr().isStatic(); }                                     \
  TYPE TYPE::at(int32_t index) const {                                                             \
    auto mode = getAttr().at(index);                                                               \
    return mode ? get(mode) : TYPE();                                                              \
  }                                                                                                \
  Type TYPE::getMode(int32_t index) const { return at(index); }

FLY_WRAPPER_NESTED(IntTupleType)
FLY_WRAPPER_NESTED(LayoutType)
FLY_WRAPPER_NESTED(ComposedLayoutType)
#undef FLY_WRAPPER_NESTED

bool BasisType::isStatic() const { return getAttr().isStatic(); }
bool SwizzleType::isStatic() const { return true; }
bool CoordSwizzleType::isStatic() const { return true; }
bool TileType::isStatic() const { return true; }

//===------------------------------------------------------------------------===//
// Pointers
//===------------------------------------------------------------------------===//

static LogicalResult verifyPointerParts(EmitError emitError, Type elemTy, AlignAttr align) {
  unsigned bits = getElementBitWidth(elemTy);
  if (bits == 0)
    return emitError() << "element type must be an integer or float, got " << elemTy;
  int32_t elemBytes = (bits + 7) / 8;
  if (align.getAlignment() <= 0 || align.getAlignment() % elemBytes != 0)
    return emitError() << "alignment must be a positive multiple of the element size of "
                       << elemBytes << " bytes, got " << align.getAlignment();
  return success();
}

LogicalResult PointerType::verify(EmitError emitError, Type elemTy, Attribute, AlignAttr align,
                                  SwizzleAttr) {
  return verifyPointerParts(emitError, elemTy, align);
}

Type PointerType::parse(AsmParser &parser) {
  Type elemTy;
  Attribute space;
  AlignAttr align;
  SwizzleAttr swizzle;
  if (parser.parseLess() || parser.parseType(elemTy) || parser.parseComma() ||
      !(space = syntax::parseAddressSpace(parser)) ||
      syntax::parseAlignSwizzle(parser, elemTy, align, swizzle) || parser.parseGreater())
    return {};
  return get(elemTy, space, align, swizzle);
}

void PointerType::print(AsmPrinter &printer) const {
  printer << '<' << getElemTy() << ", ";
  syntax::printAddressSpace(printer, getAddressSpace());
  syntax::printAlignSwizzle(printer, getElemTy(), getAlignment(), getSwizzle());
  printer << '>';
}

int64_t PointerType::getValueDivisibility() const {
  return std::max<int64_t>(int64_t(getAlignment().getAlignment()) * 8 /
                               getElementBitWidth(getElemTy()), 1);
}

bool PointerType::isInSpace(AddressSpace space) const {
  auto known = dyn_cast<AddressSpaceAttr>(getAddressSpace());
  return known && known.getValue() == space;
}

//===------------------------------------------------------------------------===//
// Tensors
//===------------------------------------------------------------------------===//

static LogicalResult verifyTensorLayout(EmitError emitError, Attribute layout) {
  if (isa<LayoutAttr, ComposedLayoutAttr>(layout))
    return success();
  return emitError() << "the layout of a tensor must be a layout or a composed layout, got "
                     << layout;
}

LogicalResult fly::MemRefType::verify(EmitError emitError, Type elemTy, Attribute, Attribute layout,
                                 AlignAttr align, SwizzleAttr) {
  if (failed(verifyTensorLayout(emitError, layout)))
    return failure();
  return verifyPointerParts(emitError, elemTy, align);
}

static Attribute parseTensorLayout(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  Attribute layout = syntax::parseComposed(parser);
  if (layout && !isa<LayoutAttr, ComposedLayoutAttr>(layout)) {
    parser.emitError(loc, "the layout of a tensor must be a layout or a composed layout");
    return {};
  }
  return layout;
}

Type fly::MemRefType::parse(AsmParser &parser) {
  Type elemTy;
  Attribute space, layout;
  AlignAttr align;
  SwizzleAttr swizzle;
  if (parser.parseLess() || parser.parseType(elemTy) || parser.parseComma() ||
      !(space = syntax::parseAddressSpace(parser)) || parser.parseComma() ||
      !(layout = parseTensorLayout(parser)) ||
      syntax::parseAlignSwizzle(parser, elemTy, align, swizzle) || parser.parseGreater())
    return {};
  return get(elemTy, space, layout, align, swizzle);
}

void fly::MemRefType::print(AsmPrinter &printer) const {
  printer << '<' << getElemTy() << ", ";
  syntax::printAddressSpace(printer, getAddressSpace());
  printer << ", ";
  syntax::printStructure(printer.getStream(), getLayout());
  syntax::printAlignSwizzle(printer, getElemTy(), getAlignment(), getSwizzle());
  printer << '>';
}

PointerType fly::MemRefType::getPointerType() const {
  return PointerType::get(getElemTy(), getAddressSpace(), getAlignment(), getSwizzle());
}

int64_t fly::MemRefType::getValueDivisibility() const {
  return getPointerType().getValueDivisibility();
}

LayoutAttr fly::MemRefType::getLinearLayout() const { return fly::getLinearLayout(getLayout()); }

bool fly::MemRefType::isConsecutive(int64_t *count) const {
  if (!hasPlainLayout() || !getLinearLayout().isStatic() || !getSwizzle().isTrivial())
    return false;
  Algebra algebra(getContext());
  Layout flat = algebra.coalesce(algebra.fromAttr(getLinearLayout()));
  Tuple shape = algebra.unwrap(flat.shape), stride = algebra.unwrap(flat.stride);
  if (algebra.failed() || !shape.isInt() || shape.num.value < 1 || !stride.isInt() ||
      !(shape.is(1) || stride.is(1)))
    return false;
  if (count)
    *count = shape.num.value;
  return true;
}

fly::MemRefType fly::MemRefType::at(int32_t index) const {
  Attribute mode = cast<NestedAttrInterface>(getLayout()).getMode(index);
  return mode ? get(getPointerType(), mode) : fly::MemRefType();
}

fly::MemRefType fly::MemRefType::at(ArrayRef<int32_t> path) const {
  fly::MemRefType type = *this;
  for (int32_t index : path)
    if (type)
      type = type.at(index);
  return type;
}

LogicalResult CoordTensorType::verify(EmitError emitError, IntTupleAttr, Attribute layout) {
  return verifyTensorLayout(emitError, layout);
}

Type CoordTensorType::parse(AsmParser &parser) {
  IntTupleAttr base;
  Attribute layout;
  if (parser.parseLess() || !(base = syntax::parseIntTuple(parser)) || parser.parseComma() ||
      !(layout = parseTensorLayout(parser)) || parser.parseGreater())
    return {};
  return get(base, layout);
}

void CoordTensorType::print(AsmPrinter &printer) const {
  printer << '<';
  syntax::print(printer.getStream(), getBase());
  printer << ", ";
  syntax::printStructure(printer.getStream(), getLayout());
  printer << '>';
}

LayoutAttr CoordTensorType::getLinearLayout() const { return fly::getLinearLayout(getLayout()); }
bool CoordTensorType::isLeaf() const { return getLinearLayout().isLeaf(); }
int32_t CoordTensorType::rank() const { return getLinearLayout().rank(); }
int32_t CoordTensorType::depth() const { return getLinearLayout().depth(); }

bool CoordTensorType::isStatic() const {
  return getBase().isStatic() && cast<MayStaticAttrInterface>(getLayout()).isStatic();
}

CoordTensorType CoordTensorType::at(int32_t index) const {
  IntTupleAttr base = getBase().at(index);
  Attribute mode = cast<NestedAttrInterface>(getLayout()).getMode(index);
  return base && mode ? get(base, mode) : CoordTensorType();
}

Type CoordTensorType::getMode(int32_t index) const { return at(index); }

//===------------------------------------------------------------------------===//
// Layout-like types
//===------------------------------------------------------------------------===//

Attribute mlir::fly::getLayoutAttr(Type type) {
  return llvm::TypeSwitch<Type, Attribute>(type)
      .Case<LayoutType, ComposedLayoutType>([](auto t) { return t.getAttr(); })
      .Case<fly::MemRefType, CoordTensorType>([](auto t) { return t.getLayout(); })
      .Default(Attribute());
}

LayoutAttr mlir::fly::getLinearLayout(Type type) { return getLinearLayout(getLayoutAttr(type)); }
