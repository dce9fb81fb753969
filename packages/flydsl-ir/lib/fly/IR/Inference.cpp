//===- Inference.cpp - building blocks of result type inference -------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/Inference.h"

#include <functional>
#include <numeric>

using namespace mlir;
using namespace mlir::fly;

Attribute mlir::fly::replaceLinear(Attribute layout, LayoutAttr linear) {
  auto composed = dyn_cast<ComposedLayoutAttr>(layout);
  if (!composed)
    return linear;
  return ComposedLayoutAttr::get(composed.getInner(), composed.getOffset(),
                                 replaceLinear(composed.getOuter(), linear));
}

Type mlir::fly::withLayout(Type type, Attribute layout) {
  if (auto memref = dyn_cast<fly::MemRefType>(type))
    return fly::MemRefType::get(memref.getPointerType(), layout);
  if (auto tensor = dyn_cast<CoordTensorType>(type))
    return CoordTensorType::get(tensor.getBase(), layout);
  return getTypeFor(layout);
}

PointerType mlir::fly::offsetPointer(PointerType ptr, const Int &offset) {
  int64_t known = std::abs(int64_t(offset.isStatic ? offset.value : offset.div));
  int64_t div = ptr.getValueDivisibility();
  if (known != 0)
    div = std::gcd(div, known);
  return PointerType::get(ptr.getElemTy(), ptr.getAddressSpace(),
                          AlignAttr::get(ptr.getElemTy(), div), ptr.getSwizzle());
}

Type mlir::fly::offsetTensor(Algebra &algebra, Type tensor, const Tuple &offset,
                             const Layout &linear) {
  Attribute layout = getLayoutAttr(tensor);
  LayoutAttr plain = algebra.toAttr(linear);
  if (auto composed = dyn_cast<ComposedLayoutAttr>(layout)) {
    Tuple moved = algebra.addTuples(algebra.fromAttr(composed.getOffset()), offset);
    return withLayout(tensor, ComposedLayoutAttr::get(composed.getInner(), algebra.toAttr(moved),
                                                      replaceLinear(composed.getOuter(), plain)));
  }
  if (auto memref = dyn_cast<fly::MemRefType>(tensor)) {
    if (!offset.isInt()) {
      algebra.fail("the offset of a pointer must be an integer, not a coordinate");
      return tensor;
    }
    return fly::MemRefType::get(offsetPointer(memref.getPointerType(), offset.num), plain);
  }
  auto coords = cast<CoordTensorType>(tensor);
  Tuple base = algebra.coordAdd(algebra.fromAttr(coords.getBase()), offset);
  return CoordTensorType::get(algebra.toAttr(base), plain);
}

Attribute mlir::fly::sliceLayout(Algebra &algebra, Attribute layout, const Tuple &coord) {
  if (auto plain = dyn_cast<LayoutAttr>(layout))
    return algebra.toAttr(algebra.slice(algebra.fromAttr(plain), coord));
  auto composed = cast<ComposedLayoutAttr>(layout);
  Attribute outer = sliceLayout(algebra, composed.getOuter(), coord);
  IntTupleAttr offset = composed.getOffset();
  if (auto plain = dyn_cast<LayoutAttr>(composed.getOuter()))
    offset = algebra.toAttr(algebra.addTuples(algebra.fromAttr(offset),
                                              algebra.crd2idx(coord, algebra.fromAttr(plain))));
  return ComposedLayoutAttr::get(composed.getInner(), offset, outer);
}

void mlir::fly::checkInside(Algebra &algebra, Type tensor, const Tuple &coord) {
  auto memref = dyn_cast<fly::MemRefType>(tensor);
  if (!memref)
    return;
  Tuple shape = algebra.fromAttr(memref.getLinearLayout().getShape());
  Int size = algebra.size(shape);
  // One element in memory is an address, which has no extent.
  if (size.is(1) && !memref.isInSpace(AddressSpace::Register))
    return;
  std::function<void(const Tuple &, const Tuple &)> check = [&](const Tuple &c, const Tuple &s) {
    if (!c.isLeaf) {
      if (!s.isLeaf && s.rank() == c.rank())
        for (auto [part, extent] : llvm::zip(c.kids, s.kids))
          check(part, extent);
      return;
    }
    Int extent = algebra.size(s);
    if (!c.isInt() || c.isNone() || !c.num.isStatic)
      return;
    if (c.num.value < 0 || (extent.isStatic && c.num.value >= extent.value)) {
      std::string text, type;
      llvm::raw_string_ostream(type) << tensor;
      if (extent.isStatic)
        text = ", whose extent is " + std::to_string(extent.value);
      algebra.fail("index " + Twine(c.num.value) + " is outside of a mode of " + type + text);
    }
  };
  check(coord, shape);
}

Type mlir::fly::inferSlice(Algebra &algebra, Type src, IntTupleAttr coordAttr) {
  Tuple coord = algebra.fromAttr(coordAttr);
  if (auto tuple = dyn_cast<IntTupleType>(src))
    return IntTupleType::get(algebra.toAttr(algebra.slice(algebra.fromAttr(tuple.getAttr()), coord)));
  checkInside(algebra, src, coord);
  Attribute layout = getLayoutAttr(src);
  auto plain = dyn_cast<LayoutAttr>(layout);
  if (!plain || isa<LayoutType>(src))
    return withLayout(src, sliceLayout(algebra, layout, coord));
  Layout linear = algebra.fromAttr(plain);
  return offsetTensor(algebra, src, algebra.crd2idx(coord, linear), algebra.slice(linear, coord));
}

Tuple mlir::fly::firstModeCoord(const Tuple &coord, int32_t rank) {
  std::vector<Tuple> kids(rank, Tuple(Int::none()));
  kids.front() = coord;
  return Tuple(std::move(kids));
}

//===------------------------------------------------------------------------===//
// Operands
//===------------------------------------------------------------------------===//

namespace {
struct OperandKind {
  const char *name;
  const char *description;
  bool (*accepts)(Type);
  bool isOptional = false;
};
} // namespace

template <typename... Ts>
static bool isAny(Type type) {
  return isa<Ts...>(type);
}

static const OperandKind *lookupKind(StringRef name) {
  static const OperandKind kinds[] = {
      {"Fly_IntTupleType", "int_tuple", isAny<IntTupleType>},
      {"Fly_OptionalIntTuple", "int_tuple", isAny<IntTupleType>, true},
      {"Fly_LayoutType", "layout", isAny<LayoutType>},
      {"Fly_SwizzleType", "swizzle", isAny<SwizzleType>},
      {"Fly_TileType", "tile", isAny<TileType>},
      {"Fly_OptionalTile", "tile", isAny<TileType>, true},
      {"Fly_PointerType", "ptr", isAny<PointerType>},
      {"Fly_MemRefType", "memref", isAny<fly::MemRefType>},
      {"Fly_ComposedLayoutType", "composed_layout", isAny<ComposedLayoutType>},
      {"Fly_CopyAtomType", "copy_atom", isAny<CopyAtomType>},
      {"Fly_TiledCopyType", "tiled_copy", isAny<TiledCopyType>},
      {"Fly_TiledMmaType", "tiled_mma", isAny<TiledMmaType>},
      {"Fly_IteratorLike", "int_tuple or ptr", isAny<IntTupleType, PointerType>},
      {"Fly_TensorLike", "coord_tensor or memref", isAny<CoordTensorType, fly::MemRefType>},
      {"Fly_NarrowLayout", "layout or composed_layout", isAny<LayoutType, ComposedLayoutType>},
      {"Fly_LayoutLike", "layout, composed_layout, coord_tensor or memref",
       isAny<LayoutType, ComposedLayoutType, CoordTensorType, fly::MemRefType>},
      {"Fly_IntTupleLike", "int_tuple, layout, composed_layout, coord_tensor or memref",
       isAny<IntTupleType, LayoutType, ComposedLayoutType, CoordTensorType, fly::MemRefType>},
      {"Fly_IntTupleOrNarrowLayout", "int_tuple, layout or composed_layout",
       isAny<IntTupleType, LayoutType, ComposedLayoutType>},
      {"Fly_IntTupleOrLayout", "int_tuple or layout", isAny<IntTupleType, LayoutType>},
      {"Fly_LayoutOrMemRef", "layout or memref", isAny<LayoutType, fly::MemRefType>},
      {"Fly_LayoutOrTensor", "layout, memref or coord_tensor",
       isAny<LayoutType, fly::MemRefType, CoordTensorType>},
      {"Fly_LayoutOrTile", "layout or tile", isAny<LayoutType, TileType>},
      {"Fly_ComposedInner", "layout, swizzle, coord_swizzle or composed_layout",
       isAny<LayoutType, SwizzleType, CoordSwizzleType, ComposedLayoutType>},
      {"Fly_CoordMap", "layout, composed_layout, swizzle or coord_swizzle",
       isAny<LayoutType, ComposedLayoutType, SwizzleType, CoordSwizzleType>},
      {"AnyType", "any type", [](Type) { return true; }},
  };
  for (const OperandKind &kind : kinds)
    if (name == kind.name)
      return &kind;
  return nullptr;
}

LogicalResult mlir::fly::checkOperands(std::optional<Location> loc, ArrayRef<const char *> kinds,
                                       ValueRange operands) {
  size_t next = 0;
  for (StringRef name : kinds) {
    const OperandKind *kind = lookupKind(name);
    if (!kind || (kind->isOptional && next == operands.size()))
      continue;
    if (next == operands.size())
      return emitOptionalError(loc, "operand #", next, " is missing: ", kind->description,
                               " expected");
    Type type = operands[next].getType();
    if (!kind->accepts(type))
      return emitOptionalError(loc, "operand #", next, " must be ", kind->description,
                               ", but got ", type);
    ++next;
  }
  if (next != operands.size())
    return emitOptionalError(loc, "expected ", next, " operands, but found ", operands.size());
  return success();
}
