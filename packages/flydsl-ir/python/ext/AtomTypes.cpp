//===- AtomTypes.cpp - Classes of atoms and tiled operations --------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/AtomTypes.h"

#include "Bindings.h"
#include "PyUtils.h"
#include "fly-c/LayoutTypes.h"

namespace flydsl {
namespace {

FLY_PY_TYPE(CopyAtom);
FLY_PY_TYPE(MmaAtom);
FLY_PY_TYPE(TiledCopy);
FLY_PY_TYPE(TiledMma);
FLY_PY_TYPE(CopyOpUniversalCopy);
FLY_PY_TYPE(CopyOpUniversalAtomic);
FLY_PY_TYPE(MmaOpUniversalFMA);

//===----------------------------------------------------------------------===//
// Atoms
//===----------------------------------------------------------------------===//

template <FlyCopySide Side> MlirType getAtomTVLayout(MlirType type) {
  return flyCopyAtomTypeGetTVLayout(type, Side);
}

void CopyAtomType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](PyType &copyOp, int32_t valBits, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {copyOp});
        return CopyAtomType(
            ref, orValueError(ref->get(), [&] { return flyCopyAtomTypeGet(copyOp, valBits); }));
      },
      nb::arg("copy_op"), nb::arg("val_bits"), nb::kw_only(), contextArg(),
      "The atom of a copy operation, with layouts in values of `val_bits` bits.");
  defProperty(cls, "copy_op", flyCopyAtomTypeGetCopyOp, "The copy operation type.");
  defProperty(cls, "val_bits", flyCopyAtomTypeGetValBits, "Width of a value in bits.");
  defProperty(cls, "thr_layout", flyCopyAtomTypeGetThrLayout, "Layout of the threads.");
  defProperty(cls, "tv_layout_src", getAtomTVLayout<FlyCopySideSrc>,
              "Thread-value layout of the source.");
  defProperty(cls, "tv_layout_dst", getAtomTVLayout<FlyCopySideDst>,
              "Thread-value layout of the destination.");
  defProperty(cls, "tv_layout_ref", getAtomTVLayout<FlyCopySideRef>,
              "Thread-value layout that tilings refer to.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether the operation has no run-time state.");
}

template <FlyMmaOperand Operand> MlirType getMmaTVLayout(MlirType type) {
  return flyMmaAtomTypeGetTVLayout(type, Operand);
}

void MmaAtomType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](PyType &mmaOp, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {mmaOp});
        return MmaAtomType(ref, orValueError(ref->get(), [&] { return flyMmaAtomTypeGet(mmaOp); }));
      },
      nb::arg("mma_op"), nb::kw_only(), contextArg(), "The atom of an MMA operation.");
  defProperty(cls, "mma_op", flyMmaAtomTypeGetMmaOp, "The MMA operation type.");
  defProperty(cls, "thr_layout", flyMmaAtomTypeGetThrLayout, "Layout of the threads.");
  defProperty(cls, "shape_mnk", flyMmaAtomTypeGetShapeMNK, "The shape (M, N, K).");
  defProperty(cls, "tv_layout_a", getMmaTVLayout<FlyMmaOperandA>,
              "Thread-value layout of A over (M, K).");
  defProperty(cls, "tv_layout_b", getMmaTVLayout<FlyMmaOperandB>,
              "Thread-value layout of B over (N, K).");
  defProperty(cls, "tv_layout_c", getMmaTVLayout<FlyMmaOperandC>,
              "Thread-value layout of C and D over (M, N).");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether the operation has no run-time state.");
}

//===----------------------------------------------------------------------===//
// Tiled operations
//===----------------------------------------------------------------------===//

template <FlyCopySide Side> MlirType getTiledCopyTVLayout(MlirType type) {
  return flyTiledCopyTypeGetTiledTVLayout(type, Side);
}

void TiledCopyType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  defProperty(cls, "copy_atom", flyTiledCopyTypeGetCopyAtom, "The CopyAtomType.");
  defProperty(cls, "layout_thr_val", flyTiledCopyTypeGetLayoutThrVal,
              "Layout (thread, value) -> index in the tile.");
  defProperty(cls, "tile_mn", flyTiledCopyTypeGetTileMN, "The tile, a TileType.");
  defProperty(cls, "tiled_tv_layout_src", getTiledCopyTVLayout<FlyCopySideSrc>,
              "Thread-value layout of the source tile.");
  defProperty(cls, "tiled_tv_layout_dst", getTiledCopyTVLayout<FlyCopySideDst>,
              "Thread-value layout of the destination tile.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether the atom has no run-time state.");
}

template <FlyMmaOperand Operand> MlirType getTiledMmaTVLayout(MlirType type) {
  return flyTiledMmaTypeGetTiledTVLayout(type, Operand);
}

void TiledMmaType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  defProperty(cls, "mma_atom", flyTiledMmaTypeGetMmaAtom, "The MmaAtomType.");
  defProperty(cls, "atom_layout", flyTiledMmaTypeGetAtomLayout,
              "Layout of the atoms over (M, N, K).");
  defProperty(cls, "permutation", flyTiledMmaTypeGetPermutation,
              "Permutation of (M, N, K), a TileType.");
  defProperty(cls, "tile_size_mnk", flyTiledMmaTypeGetTileSizeMNK, "The tile size (M, N, K).");
  defProperty(cls, "thr_layout_vmnk", flyTiledMmaTypeGetThrLayoutVMNK,
              "Layout of the threads over (V, M, N, K).");
  defProperty(cls, "tiled_tv_layout_a", getTiledMmaTVLayout<FlyMmaOperandA>,
              "Thread-value layout of the tile of A.");
  defProperty(cls, "tiled_tv_layout_b", getTiledMmaTVLayout<FlyMmaOperandB>,
              "Thread-value layout of the tile of B.");
  defProperty(cls, "tiled_tv_layout_c", getTiledMmaTVLayout<FlyMmaOperandC>,
              "Thread-value layout of the tile of C.");
  defProperty(cls, "is_static", flyTypeIsStatic, "Whether the atom has no run-time state.");
}

//===----------------------------------------------------------------------===//
// Universal operations
//===----------------------------------------------------------------------===//

void CopyOpUniversalCopyType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](int32_t bitSize, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return CopyOpUniversalCopyType(ref, orValueError(ref->get(), [&] {
                                         return flyCopyOpUniversalCopyTypeGet(ref->get(), bitSize);
                                       }));
      },
      nb::arg("bitSize"), nb::kw_only(), contextArg(), "The copy of `bitSize` bits.");
  defProperty(cls, "bit_size", flyCopyOpUniversalCopyTypeGetBitSize, "Width of the copy in bits.");
}

void CopyOpUniversalAtomicType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](int32_t atomicOp, PyType &valueType, const std::string &syncScope,
         PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {valueType});
        MlirStringRef scope = mlirStringRefCreate(syncScope.data(), syncScope.size());
        return CopyOpUniversalAtomicType(ref, orValueError(ref->get(), [&] {
                                           return flyCopyOpUniversalAtomicTypeGet(
                                               atomicOp, valueType, scope);
                                         }));
      },
      nb::arg("atomic_op"), nb::arg("val_type"), nb::arg("syncscope") = "", nb::kw_only(),
      contextArg(), "The atomic operation `atomic_op` (an AtomicOp or int) on one value.");
}

void MmaOpUniversalFMAType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](PyType &elementType, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elementType});
        return MmaOpUniversalFMAType(ref, orValueError(ref->get(), [&] {
                                       return flyMmaOpUniversalFMATypeGet(elementType);
                                     }));
      },
      nb::arg("elem_ty"), nb::kw_only(), contextArg(), "The scalar multiply-add of a type.");
  defProperty(cls, "elem_ty", flyMmaOpUniversalFMATypeGetElementType, "The element type.");
}

} // namespace

void bindAtomTypes(nb::module_ &m) {
  CopyAtomType::bind(m);
  MmaAtomType::bind(m);
  TiledCopyType::bind(m);
  TiledMmaType::bind(m);
  CopyOpUniversalCopyType::bind(m);
  CopyOpUniversalAtomicType::bind(m);
  MmaOpUniversalFMAType::bind(m);
}

} // namespace flydsl
