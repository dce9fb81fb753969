//===- AtomTypes.cpp - atoms, tiled operations, universal operations --------===//
//
// Text, verification and layouts. How universal operations are emitted is in
// UniversalAtoms.cpp.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/Algebra/Algebra.h"
#include "fly/IR/FlyDialect.h"
#include "fly/IR/Syntax.h"

using namespace mlir;
using namespace mlir::fly;

using EmitError = function_ref<InFlightDiagnostic()>;

static bool isStaticOp(Type type) {
  auto mayStatic = dyn_cast<MayStaticTypeInterface>(type);
  return mayStatic && mayStatic.isStatic();
}

bool CopyAtomType::isStatic() const { return isStaticOp(getCopyOp()); }
bool MmaAtomType::isStatic() const { return isStaticOp(getMmaOp()); }
bool TiledCopyType::isStatic() const { return isStaticOp(getCopyAtom()); }
bool TiledMmaType::isStatic() const { return isStaticOp(getMmaAtom()); }
bool CopyOpUniversalCopyType::isStatic() const { return true; }
bool CopyOpUniversalAtomicType::isStatic() const { return true; }
bool MmaOpUniversalFMAType::isStatic() const { return true; }

//===------------------------------------------------------------------------===//
// Atoms
//===------------------------------------------------------------------------===//

LogicalResult CopyAtomType::verify(EmitError emitError, Type copyOp, int32_t valBits) {
  bool mayBeZero = copyOp && copyOp.hasTrait<TensorMove>();
  if (valBits < 0 || (valBits == 0 && !mayBeZero))
    return emitError() << "valBits of a copy atom must be positive, got " << valBits;
  return success();
}

LayoutAttr CopyAtomType::getThrLayout() const {
  auto op = dyn_cast<CopyOpTypeInterface>(getCopyOp());
  return op ? dyn_cast_or_null<LayoutAttr>(op.getThrLayout()) : LayoutAttr();
}

static LayoutAttr toValueLayout(Attribute bitLayout, int32_t valBits, EmitError emitError) {
  auto layout = dyn_cast_or_null<LayoutAttr>(bitLayout);
  if (!layout) {
    if (emitError)
      emitError() << "the copy operation gives no thread-value layout";
    return {};
  }
  Algebra algebra(layout.getContext());
  // Without a width the values are bits.
  LayoutAttr result = algebra.toAttr(
      algebra.recast(algebra.fromAttr(layout), 1, std::max<int32_t>(valBits, 1)));
  if (!algebra.failed())
    return result;
  if (emitError)
    emitError() << "the thread-value layout of the copy atom cannot be expressed in values of "
                << valBits << " bits: " << algebra.message();
  return {};
}

#define FLY_COPY_ATOM_LAYOUT(WHICH)                                                                \
  LayoutAttr CopyAtomType::getThrValLayout##WHICH(EmitError emitError) const {                     \
    auto op = dyn_cast<CopyOpTypeInterface>(getCopyOp());                                          \
    if (op)                                                                                        \
      return toValueLayout(op.getThrBitLayout##WHICH(), getValBits(), emitError);                  \
    if (emitError)                                                                                 \
      emitError() << getCopyOp() << " is not a copy operation";                                    \
    return {};                                                                                     \
  }

FLY_COPY_ATOM_LAYOUT(Src)
FLY_COPY_ATOM_LAYOUT(Dst)
FLY_COPY_ATOM_LAYOUT(Ref)
#undef FLY_COPY_ATOM_LAYOUT

LayoutAttr MmaAtomType::getThrLayout() const {
  auto op = dyn_cast<MmaOpTypeInterface>(getMmaOp());
  return op ? dyn_cast_or_null<LayoutAttr>(op.getThrLayout()) : LayoutAttr();
}

IntTupleAttr MmaAtomType::getShapeMNK() const {
  auto op = dyn_cast<MmaOpTypeInterface>(getMmaOp());
  return op ? dyn_cast_or_null<IntTupleAttr>(op.getShapeMNK()) : IntTupleAttr();
}

LayoutAttr MmaAtomType::getThrValLayout(MmaOperand operand) const {
  auto op = dyn_cast<MmaOpTypeInterface>(getMmaOp());
  if (!op)
    return {};
  Attribute layout = operand == MmaOperand::A   ? op.getThrValLayoutA()
                     : operand == MmaOperand::B ? op.getThrValLayoutB()
                                                : op.getThrValLayoutC();
  return dyn_cast_or_null<LayoutAttr>(layout);
}

Type MmaAtomType::getValType(MmaOperand operand) const {
  auto op = dyn_cast<MmaOpTypeInterface>(getMmaOp());
  if (!op)
    return {};
  switch (operand) {
  case MmaOperand::A:
    return op.getValTypeA();
  case MmaOperand::B:
    return op.getValTypeB();
  case MmaOperand::C:
    return op.getValTypeC();
  case MmaOperand::D:
    return op.getValTypeD();
  }
  return {};
}

//===------------------------------------------------------------------------===//
// Tiled operations
//===------------------------------------------------------------------------===//

// A nested type is written in full or stripped of its mnemonic; it always prints in full.
template <typename T>
static T parseNestedType(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  Type type;
  OptionalParseResult full = parser.parseOptionalType(type);
  if (!full.has_value())
    return dyn_cast_or_null<T>(T::parse(parser));
  if (failed(*full))
    return {};
  auto result = dyn_cast<T>(type);
  if (!result)
    parser.emitError(loc, "expected a type !fly.") << T::getMnemonic() << ", got " << type;
  return result;
}

static LogicalResult verifyStaticLayout(EmitError emitError, LayoutType layout, StringRef name) {
  if (layout.isStatic())
    return success();
  return emitError() << name << " must be static, got " << layout;
}

LogicalResult TiledCopyType::verify(EmitError emitError, Type copyAtom, LayoutType layoutThrVal,
                                    TileType) {
  if (!isa<CopyAtomType>(copyAtom))
    return emitError() << "copyAtom must be a copy atom, got " << copyAtom;
  return verifyStaticLayout(emitError, layoutThrVal, "layoutThrVal");
}

Type TiledCopyType::parse(AsmParser &parser) {
  Type atom;
  LayoutType layout;
  TileType tile;
  if (parser.parseLess() || parser.parseType(atom) || parser.parseComma() ||
      !(layout = parseNestedType<LayoutType>(parser)) || parser.parseComma() ||
      !(tile = parseNestedType<TileType>(parser)) || parser.parseGreater())
    return {};
  return parser.getChecked<TiledCopyType>(parser.getContext(), atom, layout, tile);
}

void TiledCopyType::print(AsmPrinter &printer) const {
  printer << '<' << getCopyAtom() << ", " << getLayoutThrVal() << ", " << getTileMN() << '>';
}

static TileType trivialPermutation(MLIRContext *ctx) {
  return TileType::get(TileAttr::getNones(ctx, 3));
}

LogicalResult TiledMmaType::verify(EmitError emitError, Type mmaAtom, LayoutType atomLayout,
                                   TileType) {
  if (!isa<MmaAtomType>(mmaAtom))
    return emitError() << "mmaAtom must be an MMA atom, got " << mmaAtom;
  return verifyStaticLayout(emitError, atomLayout, "atomLayout");
}

Type TiledMmaType::parse(AsmParser &parser) {
  Type atom;
  LayoutType layout;
  TileType permutation = trivialPermutation(parser.getContext());
  if (parser.parseLess() || parser.parseType(atom) || parser.parseComma() ||
      !(layout = parseNestedType<LayoutType>(parser)))
    return {};
  if (succeeded(parser.parseOptionalComma()) &&
      !(permutation = parseNestedType<TileType>(parser)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TiledMmaType>(parser.getContext(), atom, layout, permutation);
}

void TiledMmaType::print(AsmPrinter &printer) const {
  printer << '<' << getMmaAtom() << ", " << getAtomLayout();
  if (getPermutation() != trivialPermutation(getContext()))
    printer << ", " << getPermutation();
  printer << '>';
}

//===------------------------------------------------------------------------===//
// Universal operations
//===------------------------------------------------------------------------===//

static LayoutAttr makeFlatLayout(MLIRContext *ctx, ArrayRef<int32_t> shape,
                                 ArrayRef<int32_t> stride) {
  auto tuple = [&](ArrayRef<int32_t> values) {
    SmallVector<IntTupleAttr> leaves;
    for (int32_t value : values)
      leaves.push_back(IntTupleAttr::getStatic(ctx, value));
    return IntTupleAttr::getTuple(ctx, leaves);
  };
  return LayoutAttr::get(tuple(shape), tuple(stride));
}

static LayoutAttr oneThread(MLIRContext *ctx) {
  IntTupleAttr one = IntTupleAttr::getStatic(ctx, 1);
  return LayoutAttr::get(one, one);
}

LogicalResult CopyOpUniversalCopyType::verify(EmitError emitError, int32_t bitSize) {
  if (bitSize <= 0)
    return emitError() << "bitSize of a universal copy must be positive, got " << bitSize;
  return success();
}

#define FLY_UNIVERSAL_COPY_LAYOUTS(TYPE, BITS)                                                     \
  Attribute TYPE::getThrLayout() const { return oneThread(getContext()); }                         \
  Attribute TYPE::getThrBitLayoutSrc() const {                                                     \
    return makeFlatLayout(getContext(), {1, int32_t(BITS)}, {1, 1});                               \
  }                                                                                                \
  Attribute TYPE::getThrBitLayoutDst() const { return getThrBitLayoutSrc(); }                      \
  Attribute TYPE::getThrBitLayoutRef() const { return getThrBitLayoutSrc(); }

FLY_UNIVERSAL_COPY_LAYOUTS(CopyOpUniversalCopyType, getBitSize())
FLY_UNIVERSAL_COPY_LAYOUTS(CopyOpUniversalAtomicType, getElementBitWidth(getValType()))
#undef FLY_UNIVERSAL_COPY_LAYOUTS

LogicalResult CopyOpUniversalAtomicType::verify(EmitError emitError, AtomicOpAttr, Type valType,
                                                StringRef) {
  if (getElementBitWidth(valType) == 0)
    return emitError() << "valType of a universal atomic must be an integer or float, got "
                       << valType;
  return success();
}

Type CopyOpUniversalAtomicType::parse(AsmParser &parser) {
  StringRef keyword;
  Type valType;
  std::string scope;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return {};
  std::optional<AtomicOp> op = symbolizeAtomicOp(keyword);
  if (!op) {
    parser.emitError(loc, "expected an atomic operation: add, max, min, and, or, inc or dec");
    return {};
  }
  if (parser.parseComma() || parser.parseType(valType))
    return {};
  if (succeeded(parser.parseOptionalComma()) && parser.parseString(&scope))
    return {};
  if (parser.parseGreater())
    return {};
  MLIRContext *ctx = parser.getContext();
  return parser.getChecked<CopyOpUniversalAtomicType>(ctx, AtomicOpAttr::get(ctx, *op), valType,
                                                      StringRef(scope));
}

void CopyOpUniversalAtomicType::print(AsmPrinter &printer) const {
  printer << '<' << stringifyAtomicOp(getAtomicOp().getValue()) << ", " << getValType();
  if (!getSyncscope().empty()) {
    printer << ", ";
    printer.printString(getSyncscope());
  }
  printer << '>';
}

LogicalResult MmaOpUniversalFMAType::verify(EmitError emitError, Type elemTy) {
  if (getElementBitWidth(elemTy) == 0)
    return emitError() << "elemTy of a universal FMA must be an integer or float, got " << elemTy;
  return success();
}

Type MmaOpUniversalFMAType::parse(AsmParser &parser) {
  SmallVector<int64_t, 3> dims;
  Type a, b, c;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(dims, /*allowDynamic=*/false, /*withTrailingX=*/false) ||
      parser.parseComma() || parser.parseLParen() || parser.parseType(a) || parser.parseComma() ||
      parser.parseType(b) || parser.parseRParen() || parser.parseArrow() || parser.parseType(c) ||
      parser.parseGreater())
    return {};
  if (dims.size() != 3 || llvm::any_of(dims, [](int64_t dim) { return dim != 1; })) {
    parser.emitError(loc, "a universal FMA has the dimensions 1x1x1");
    return {};
  }
  if (a != b || a != c) {
    parser.emitError(loc, "a universal FMA has one element type, got ") << a << ", " << b << ", "
                                                                       << c;
    return {};
  }
  return parser.getChecked<MmaOpUniversalFMAType>(parser.getContext(), a);
}

void MmaOpUniversalFMAType::print(AsmPrinter &printer) const {
  printer << "<1x1x1, (" << getElemTy() << ", " << getElemTy() << ") -> " << getElemTy() << '>';
}

Attribute MmaOpUniversalFMAType::getThrLayout() const { return oneThread(getContext()); }

Attribute MmaOpUniversalFMAType::getShapeMNK() const {
  IntTupleAttr one = IntTupleAttr::getStatic(getContext(), 1);
  return IntTupleAttr::getTuple(getContext(), {one, one, one});
}

Attribute MmaOpUniversalFMAType::getThrValLayoutA() const {
  return makeFlatLayout(getContext(), {1, 1}, {1, 1});
}
Attribute MmaOpUniversalFMAType::getThrValLayoutB() const { return getThrValLayoutA(); }
Attribute MmaOpUniversalFMAType::getThrValLayoutC() const { return getThrValLayoutA(); }
Type MmaOpUniversalFMAType::getValTypeA() const { return getElemTy(); }
Type MmaOpUniversalFMAType::getValTypeB() const { return getElemTy(); }
Type MmaOpUniversalFMAType::getValTypeC() const { return getElemTy(); }
Type MmaOpUniversalFMAType::getValTypeD() const { return getElemTy(); }
