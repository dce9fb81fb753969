//===- LayoutTypes.cpp - Classes of tuple, layout and tile types ----------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/LayoutTypes.h"

#include "Bindings.h"
#include "IntTupleArgument.h"
#include "PyUtils.h"
#include "fly-c/Attributes.h"

namespace flydsl {
namespace {

FLY_PY_TYPE(Basis);
FLY_PY_TYPE(IntTuple);
FLY_PY_TYPE(Layout);
FLY_PY_TYPE(Swizzle);
FLY_PY_TYPE(CoordSwizzle);
FLY_PY_TYPE(ComposedLayout);
FLY_PY_TYPE(Tile);

/// The properties of every type with a nesting structure.
template <typename Class> void defNested(Class &cls) {
  defIsInstance(cls);
  defProperty(cls, "rank", flyTypeGetRank, "Number of top-level modes; 1 for a leaf.");
  defProperty(cls, "depth", flyTypeGetDepth, "Nesting depth; 0 for a leaf.");
  defProperty(cls, "is_leaf", flyTypeIsLeaf, "Whether this is not a tuple.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether no leaf is dynamic.");
}

/// Mode `index` of a type; a ValueError if there is none.
template <typename Self> nb::object getMode(Self &self, int32_t index, int32_t rank,
                                            MlirType (*at)(MlirType, int32_t)) {
  MlirType mode = index < 0 ? MlirType{nullptr} : at(self, index);
  if (mlirTypeIsNull(mode))
    raiseValueError("mode " + std::to_string(index) + " is out of range for rank " +
                    std::to_string(rank));
  return downcast(self.getContext(), mode);
}

template <MlirType (*Get)(MlirType)> bool isStaticPart(MlirType type) {
  return flyTypeIsStatic(Get(type));
}

//===----------------------------------------------------------------------===//
// Int tuples
//===----------------------------------------------------------------------===//

void IntTupleType::bindDerived(ClassTy &cls) {
  defNested(cls);
  cls.def_static(
      "get",
      [](nb::handle value, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        IntTupleArgument argument(ref);
        return IntTupleType(ref, flyIntTupleTypeGet(argument.convert(value)));
      },
      nb::arg("int_or_tuple").none(), nb::kw_only(), contextArg(),
      "The int_tuple type of nested tuples of ints, None, _Basis and i32/i64 values.");
  defProperty(cls, "is_leaf_int", flyIntTupleTypeIsLeafInt,
              "Whether this is an integer leaf; `*` counts.");
  defProperty(cls, "is_leaf_basis", flyIntTupleTypeIsLeafBasis, "Whether this is a basis leaf.");
  cls.def_prop_ro(
      "get_static_leaf_int",
      [](IntTupleType &self) {
        int32_t value = 0;
        if (!flyIntTupleTypeGetStaticLeafInt(self, &value))
          raiseValueError("not a static integer leaf: " + toString(self));
        return value;
      },
      "Value of a static integer leaf; raises ValueError for anything else.");
  cls.def_prop_ro(
      "get_leaf_as_basis",
      [](IntTupleType &self) {
        MlirType basis = flyIntTupleTypeGetLeafAsBasis(self);
        if (mlirTypeIsNull(basis))
          raiseValueError("not a basis leaf: " + toString(self));
        return BasisType(self.getContext(), basis);
      },
      "The basis of a basis leaf; raises ValueError for anything else.");
  cls.def(
      "at",
      [](IntTupleType &self, int32_t index) {
        return getMode(self, index, flyTypeGetRank(self), flyIntTupleTypeAt);
      },
      nb::arg("idx"), "Mode `idx`; a leaf is its own mode 0. Raises ValueError if out of range.");
}

void BasisType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether the coefficient is static.");
  cls.def_prop_ro(
      "value",
      [](BasisType &self) {
        int32_t value = 0;
        if (!flyBasisTypeGetStaticValue(self, &value))
          raiseValueError("the coefficient is dynamic: " + toString(self));
        return value;
      },
      "The coefficient; raises ValueError if it is dynamic.");
  cls.def_prop_ro(
      "modes",
      [](BasisType &self) {
        nb::typed<nb::list, int> modes;
        for (intptr_t i = 0, n = flyBasisTypeGetNumModes(self); i < n; ++i)
          modes.append(flyBasisTypeGetMode(self, i));
        return modes;
      },
      "The path of the basis vector, outermost mode first.");
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

void LayoutType::bindDerived(ClassTy &cls) {
  defNested(cls);
  cls.def_static(
      "get",
      [](nb::handle shape, nb::handle stride, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {shape, stride});
        IntTupleArgument argument(ref);
        MlirType shapeType = argument.convertOrType(shape);
        MlirType strideType = argument.convertOrType(stride);
        return LayoutType(ref, orValueError(ref->get(), [&] {
                            return flyLayoutTypeGet(shapeType, strideType);
                          }));
      },
      nb::arg("shape").none(), nb::arg("stride").none(), nb::kw_only(), contextArg(),
      "The layout type `shape:stride`; each is an int tuple (see IntTupleType.get) or the type "
      "of one.");
  defProperty(cls, "shape", flyLayoutTypeGetShape, "The shape, an IntTupleType.");
  defProperty(cls, "stride", flyLayoutTypeGetStride, "The stride, an IntTupleType.");
  defProperty(cls, "is_static_shape", isStaticPart<flyLayoutTypeGetShape>,
              "Whether no leaf of the shape is dynamic.");
  defProperty(cls, "is_static_stride", isStaticPart<flyLayoutTypeGetStride>,
              "Whether no leaf of the stride is dynamic.");
}

void ComposedLayoutType::bindDerived(ClassTy &cls) {
  defNested(cls);
  cls.def_static(
      "get",
      [](PyType &inner, nb::handle offset, PyType &outer, PyMlirContext *context) {
        PyMlirContextRef ref =
            resolveContext(context, {inner, offset, outer});
        MlirType offsetType = IntTupleArgument(ref).convertOrType(offset);
        return ComposedLayoutType(ref, orValueError(ref->get(), [&] {
                                    return flyComposedLayoutTypeGet(inner, offsetType, outer);
                                  }));
      },
      nb::arg("inner"), nb::arg("offset").none(), nb::arg("outer"), nb::kw_only(), contextArg(),
      "The type `inner o offset o outer`. `inner` is a (composed) layout or a swizzle type, "
      "`outer` a (composed) layout type.");
  defProperty(cls, "inner", flyComposedLayoutTypeGetInner, "The function applied last.");
  defProperty(cls, "offset", flyComposedLayoutTypeGetOffset, "The offset, an IntTupleType.");
  defProperty(cls, "outer", flyComposedLayoutTypeGetOuter, "The layout applied first.");
  defProperty(cls, "is_static_inner", isStaticPart<flyComposedLayoutTypeGetInner>,
              "Whether the inner function is static.");
  defProperty(cls, "is_static_offset", isStaticPart<flyComposedLayoutTypeGetOffset>,
              "Whether the offset is static.");
  defProperty(cls, "is_static_outer", isStaticPart<flyComposedLayoutTypeGetOuter>,
              "Whether the outer layout is static.");
}

//===----------------------------------------------------------------------===//
// Swizzles
//===----------------------------------------------------------------------===//

void SwizzleType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](int32_t mask, int32_t base, int32_t shift, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return SwizzleType(ref, orValueError(ref->get(), [&] {
                             return flySwizzleTypeGet(ref->get(), mask, base, shift);
                           }));
      },
      nb::arg("mask"), nb::arg("base"), nb::arg("shift"), nb::kw_only(), contextArg(),
      "The swizzle that xors `mask` bits at `base` with the bits `shift` above them.");
  defProperty(cls, "mask", flySwizzleTypeGetMask, "Number of bits that are changed.");
  defProperty(cls, "base", flySwizzleTypeGetBase, "Number of low bits that are kept.");
  defProperty(cls, "shift", flySwizzleTypeGetShift, "Distance to the bits that are xored in.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Always true.");
}

template <intptr_t (*Count)(MlirType), int32_t (*At)(MlirType, intptr_t)>
nb::typed<nb::list, int> getPath(CoordSwizzleType &self) {
  nb::typed<nb::list, int> path;
  for (intptr_t i = 0, n = Count(self); i < n; ++i)
    path.append(At(self, i));
  return path;
}

void CoordSwizzleType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](int32_t mask, int32_t baseRow, const std::vector<int32_t> &modeRow, int32_t baseCol,
         const std::vector<int32_t> &modeCol, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return CoordSwizzleType(ref, orValueError(ref->get(), [&] {
                                  return flyCoordSwizzleTypeGet(
                                      ref->get(), mask, baseRow, modeRow.size(), modeRow.data(),
                                      baseCol, modeCol.size(), modeCol.data());
                                }));
      },
      nb::arg("mask"), nb::arg("base_row"), nb::arg("mode_row"), nb::arg("base_col"),
      nb::arg("mode_col"), nb::kw_only(), contextArg(),
      "The coordinate swizzle that xors `mask` bits at `base_row` of the leaf at path `mode_row` "
      "into the bits at `base_col` of the leaf at path `mode_col`.");
  defProperty(cls, "mask", flyCoordSwizzleTypeGetMask, "Number of bits that are changed.");
  defProperty(cls, "base_row", flyCoordSwizzleTypeGetBaseRow, "First bit that is read.");
  defProperty(cls, "base_col", flyCoordSwizzleTypeGetBaseCol, "First bit that is changed.");
  cls.def_prop_ro("mode_row",
                  getPath<flyCoordSwizzleTypeGetNumModeRow, flyCoordSwizzleTypeGetModeRow>,
                  "Path of the leaf that is read.");
  cls.def_prop_ro("mode_col",
                  getPath<flyCoordSwizzleTypeGetNumModeCol, flyCoordSwizzleTypeGetModeCol>,
                  "Path of the leaf that is changed.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Always true.");
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

MlirAttribute makeTile(PyMlirContextRef &context, nb::handle modes);

/// An entry of a tile: None, an int, a layout or tile type, or nested modes.
MlirAttribute makeTileElement(PyMlirContextRef &context, nb::handle element) {
  if (element.is_none())
    return flyIntAttrGetNone(context->get());
  if (PyLong_Check(element.ptr()))
    return flyIntAttrGetStatic(context->get(), toInt32(element));
  if (nb::isinstance<nb::list>(element) || nb::isinstance<nb::tuple>(element))
    return makeTile(context, element);
  if (nb::isinstance<PyType>(element)) {
    MlirType type = nb::cast<PyType &>(element).get();
    if (!mlirContextEqual(mlirTypeGetContext(type), context->get()))
      raiseValueError("an entry of a tile belongs to another context");
    if (flyTypeIsALayout(type))
      return flyLayoutTypeGetAttr(type);
    if (flyTypeIsATile(type))
      return flyTileTypeGetAttr(type);
  }
  raiseValueError("an entry of a tile is None, an int, a layout type, a tile type or a tuple of "
                  "these, got " +
                  nb::cast<std::string>(nb::repr(element)));
}

/// The tile `[e0|e1|...]` of a list or tuple.
MlirAttribute makeTile(PyMlirContextRef &context, nb::handle modes) {
  RecursionGuard guard;
  std::vector<MlirAttribute> elements;
  for (nb::handle mode : modes)
    elements.push_back(makeTileElement(context, mode));
  return orValueError(context->get(), [&] {
    return flyTileAttrGetModes(context->get(), elements.size(), elements.data());
  });
}

void TileType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](nb::handle modes, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {modes});
        MlirAttribute tile =
            nb::isinstance<nb::list>(modes)
                ? makeTile(ref, modes)
                : flyTileAttrGetLeaf(makeTileElement(ref, modes));
        return TileType(ref, flyTileTypeGet(tile));
      },
      nb::arg("modes").none(), nb::kw_only(), contextArg(),
      "The tile with one entry for each element of a list; any other object gives a leaf tile "
      "around that one entry. An entry is None, an int, a layout type, or a tuple for a nested "
      "tile.");
  defProperty(cls, "rank", flyTileTypeGetRank, "Number of entries; 1 for a leaf.");
  defProperty(cls, "is_leaf", flyTileTypeIsLeaf, "Whether this is a single entry.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Always true.");
  cls.def(
      "at",
      [](TileType &self, int32_t index) {
        return getMode(self, index, flyTileTypeGetRank(self), flyTileTypeAt);
      },
      nb::arg("idx"),
      "Entry `idx` as a LayoutType, TileType or IntTupleType. Raises ValueError if out of range.");
}

} // namespace

void bindLayoutTypes(nb::module_ &m) {
  BasisType::bind(m);
  IntTupleType::bind(m);
  LayoutType::bind(m);
  SwizzleType::bind(m);
  CoordSwizzleType::bind(m);
  ComposedLayoutType::bind(m);
  TileType::bind(m);
}

} // namespace flydsl
