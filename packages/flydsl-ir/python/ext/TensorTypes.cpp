//===- TensorTypes.cpp - Classes of pointer and tensor types --------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/TensorTypes.h"

#include "Bindings.h"
#include "IntTupleArgument.h"
#include "PyUtils.h"
#include "fly-c/Attributes.h"
#include "fly-c/LayoutTypes.h"
#include <optional>

namespace flydsl {
namespace {

FLY_PY_ATTR(AddressSpace);
FLY_PY_TYPE(Pointer);
FLY_PY_TYPE(MemRef);
FLY_PY_TYPE(CoordTensor);

enum : int32_t { Global = 1, Register = 3 };

//===----------------------------------------------------------------------===//
// Address spaces
//===----------------------------------------------------------------------===//

void AddressSpaceAttr::bindDerived(ClassTy &cls) {
  cls.def_static(
      "get",
      [](int32_t space, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return AddressSpaceAttr(ref, orValueError(ref->get(), [&] {
                                  return flyAddressSpaceAttrGet(ref->get(), space);
                                }));
      },
      nb::arg("space"), nb::kw_only(), contextArg(), "The attribute of an AddressSpace or int.");
  cls.def_prop_ro(
      "value", [](AddressSpaceAttr &self) { return flyAddressSpaceAttrGetValue(self); },
      "The address space as an int.");
}

/// The `address_space` argument: None for `fallback`, an int (or AddressSpace), or an attribute.
MlirAttribute getAddressSpace(PyMlirContextRef &context, nb::handle space, int32_t fallback) {
  if (nb::isinstance<PyAttribute>(space))
    return nb::cast<PyAttribute &>(space).get();
  if (!space.is_none() && !PyLong_Check(space.ptr()))
    raiseValueError("an address space is an int, an AddressSpace or an attribute, got " +
                    nb::cast<std::string>(nb::repr(space)));
  int32_t number = space.is_none() ? fallback : toInt32(space);
  return orValueError(context->get(), [&] { return flyAddressSpaceAttrGet(context->get(), number); });
}

//===----------------------------------------------------------------------===//
// Pointers
//===----------------------------------------------------------------------===//

void PointerType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](PyType &elementType, nb::handle addressSpace, std::optional<int32_t> alignment,
         PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elementType, addressSpace});
        MlirAttribute space = getAddressSpace(ref, addressSpace, Global);
        return PointerType(ref, orValueError(ref->get(), [&] {
                             return flyPointerTypeGet(elementType, space,
                                                      alignment.value_or(FLY_TRIVIAL_ALIGNMENT));
                           }));
      },
      nb::arg("elem_ty"), nb::arg("address_space").none() = nb::none(),
      nb::arg("alignment").none() = nb::none(), nb::kw_only(), contextArg(),
      "The pointer type. `address_space` is an AddressSpace, an int or an attribute (default "
      "global); `alignment` counts bytes (default: that of the element).");
  defProperty(cls, "element_type", flyPointerTypeGetElementType, "The type pointed to.");
  defProperty(cls, "address_space", flyPointerTypeGetAddressSpace, "The address space attribute.");
  defProperty(cls, "alignment", flyPointerTypeGetAlignment, "Alignment of the address in bytes.");
  defProperty(cls, "swizzle", flyPointerTypeGetSwizzle, "Swizzle of the byte address.");
}

//===----------------------------------------------------------------------===//
// Memrefs
//===----------------------------------------------------------------------===//

/// The int tuple of an encoded list: v >= 0 is static, v < 0 dynamic with divisibility -v. A
/// single entry gives a leaf.
MlirType decodeTuple(MlirContext context, const std::vector<int64_t> &entries, int32_t width) {
  std::vector<MlirAttribute> leaves;
  for (int64_t entry : entries) {
    if (entry > INT32_MAX || entry < -int64_t(INT32_MAX))
      raiseValueError("an encoded extent or stride does not fit in 32 bits: " +
                      std::to_string(entry));
    MlirAttribute leaf = entry >= 0 ? flyIntAttrGetStatic(context, static_cast<int32_t>(entry))
                                    : flyIntAttrGetDynamic(context, width,
                                                           static_cast<int32_t>(-entry));
    leaves.push_back(flyIntTupleAttrGetLeaf(leaf));
  }
  return flyIntTupleTypeGet(leaves.size() == 1 ? leaves[0]
                                               : flyIntTupleAttrGetTuple(context, leaves.size(),
                                                                         leaves.data()));
}

/// Appends the modes that lead to the first leaf of `stride` equal to 1; false if there is none.
bool findUnitStride(MlirType stride, std::vector<int32_t> &path) {
  if (flyTypeIsLeaf(stride)) {
    int32_t value = 0;
    return flyIntTupleTypeGetStaticLeafInt(stride, &value) && value == 1;
  }
  for (int32_t i = 0, rank = flyTypeGetRank(stride); i < rank; ++i) {
    path.push_back(i);
    if (findUnitStride(flyIntTupleTypeAt(stride, i), path))
      return true;
    path.pop_back();
  }
  return false;
}

nb::object getLeadingDim(MemRefType &self) {
  MlirType layout = flyMemRefTypeGetLayout(self);
  if (!flyTypeIsALayout(layout))
    raiseValueError("leading_dim is defined for plain layouts only, got " + toString(layout));
  MlirType stride = flyLayoutTypeGetStride(layout);
  std::vector<int32_t> path;
  if (!findUnitStride(stride, path))
    return nb::none();
  if (path.size() <= 1)
    return nb::int_(path.empty() ? 0 : path[0]);
  nb::list modes;
  for (int32_t mode : path)
    modes.append(mode);
  return nb::tuple(modes);
}

void MemRefType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](PyType &elementType, PyType &layout, nb::handle addressSpace,
         std::optional<int32_t> alignment, PyMlirContext *context) {
        PyMlirContextRef ref =
            resolveContext(context, {elementType, layout, addressSpace});
        MlirAttribute space = getAddressSpace(ref, addressSpace, Register);
        return MemRefType(ref, orValueError(ref->get(), [&] {
                            return flyMemRefTypeGet(elementType, layout, space,
                                                    alignment.value_or(FLY_TRIVIAL_ALIGNMENT));
                          }));
      },
      nb::arg("elem_ty"), nb::arg("layout"), nb::arg("address_space").none() = nb::none(),
      nb::arg("alignment").none() = nb::none(), nb::kw_only(), contextArg(),
      "The memref type of a (composed) layout type. `address_space` is an AddressSpace, an int or "
      "an attribute (default register); `alignment` counts bytes (default: that of the element).");
  cls.def_static(
      "get",
      [](PyType &elementType, const std::vector<int64_t> &shape,
         const std::vector<int64_t> &stride, bool use32BitStride, int32_t alignment,
         PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elementType});
        if (shape.empty() || shape.size() != stride.size())
          raiseValueError("shape and stride must have the same length of at least 1, got " +
                          std::to_string(shape.size()) + " and " + std::to_string(stride.size()));
        MlirType layout = flyLayoutTypeGet(decodeTuple(ref->get(), shape, 32),
                                           decodeTuple(ref->get(), stride,
                                                       use32BitStride ? 32 : 64));
        MlirAttribute space = flyAddressSpaceAttrGet(ref->get(), Global);
        return MemRefType(ref, orValueError(ref->get(), [&] {
                            return flyMemRefTypeGet(elementType, layout, space, alignment);
                          }));
      },
      nb::arg("elem_ty"), nb::arg("shape_enc"), nb::arg("stride_enc"),
      nb::arg("use_32bit_stride"), nb::arg("alignment"), nb::kw_only(), contextArg(),
      "The memref type in global memory of an encoded shape and stride: an entry v >= 0 is "
      "static, v < 0 dynamic with divisibility -v. Dynamic extents have 32 bits.");
  defProperty(cls, "element_type", flyMemRefTypeGetElementType, "The element type.");
  defProperty(cls, "layout", flyMemRefTypeGetLayout, "The layout type, in elements.");
  defProperty(cls, "address_space", flyMemRefTypeGetAddressSpace, "The address space attribute.");
  defProperty(cls, "alignment", flyMemRefTypeGetAlignment, "Alignment of the address in bytes.");
  defProperty(cls, "swizzle", flyMemRefTypeGetSwizzle, "Swizzle of the byte address.");
  defProperty(cls, "rank", flyTypeGetRank, "Number of top-level modes of the layout.");
  defProperty(cls, "depth", flyTypeGetDepth, "Nesting depth of the layout.");
  cls.def_prop_ro("leading_dim", getLeadingDim,
                  "Path of the first stride equal to 1: an int for a top-level mode, a tuple for "
                  "a nested one, 0 for a leaf layout, None if there is none. Raises ValueError "
                  "for a composed layout.");
}

//===----------------------------------------------------------------------===//
// Coordinate tensors
//===----------------------------------------------------------------------===//

void CoordTensorType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](nb::handle base, PyType &layout, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {base, layout});
        MlirType baseType = IntTupleArgument(ref).convertOrType(base);
        return CoordTensorType(ref, orValueError(ref->get(), [&] {
                                 return flyCoordTensorTypeGet(baseType, layout);
                               }));
      },
      nb::arg("base").none(), nb::arg("layout"), nb::kw_only(), contextArg(),
      "The coordinate tensor whose element at c is `base + layout(c)`.");
  defProperty(cls, "base", flyCoordTensorTypeGetBase, "The base, an IntTupleType.");
  defProperty(cls, "layout", flyCoordTensorTypeGetLayout, "The layout type.");
  defProperty(cls, "rank", flyTypeGetRank, "Number of top-level modes; 1 for a leaf.");
  defProperty(cls, "depth", flyTypeGetDepth, "Nesting depth; 0 for a leaf.");
  defProperty(cls, "is_leaf", flyTypeIsLeaf, "Whether the layout is not a tuple.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether no leaf is dynamic.");
}

} // namespace

void bindTensorTypes(nb::module_ &m) {
  AddressSpaceAttr::bind(m);
  PointerType::bind(m);
  MemRefType::bind(m);
  CoordTensorType::bind(m);
}

} // namespace flydsl
