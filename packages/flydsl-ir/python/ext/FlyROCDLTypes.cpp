//===- FlyROCDLTypes.cpp - Classes of AMD copy and MMA operations ---------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/FlyROCDLTypes.h"

#include "Bindings.h"
#include "IntTupleArgument.h"
#include "PyUtils.h"
#include "fly-c/Attributes.h"
#include "fly-c/LayoutTypes.h"

namespace flydsl {
namespace {

FLY_PY_ATTR(BufferDescAddress);
FLY_PY_TYPE(CopyOpCDNA3BufferCopy);
FLY_PY_TYPE(CopyOpCDNA3BufferCopyLDS);
FLY_PY_TYPE(CopyOpCDNA3BufferAtomic);
FLY_PY_TYPE(CopyOpCDNA4LdsReadTranspose);
FLY_PY_TYPE(CopyOpGFX1250LdsReadTranspose);
FLY_PY_TYPE(CopyOpCDNA4BufferLoadAsyncLDS);
FLY_PY_TYPE(CopyOpCDNA4GlobalLoadAsyncLDS);
FLY_PY_TYPE(CopyOpGFX1250TDM);
FLY_PY_TYPE(CopyOpCDNA5TensorLoad);
FLY_PY_TYPE(CopyOpCDNA5TensorStore);
FLY_PY_TYPE(MmaOpCDNA3_MFMA);
FLY_PY_TYPE(MmaOpCDNA4_MFMAScale);
FLY_PY_TYPE(MmaOpGFX11_WMMA);
FLY_PY_TYPE(MmaOpGFX120X_WMMA);
FLY_PY_TYPE(MmaOpGFX1250_WMMA);
FLY_PY_TYPE(MmaOpGFX1250_WMMAScale);

void BufferDescAddressAttr::bindDerived(ClassTy &cls) {
  cls.def_static(
      "get",
      [](PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return BufferDescAddressAttr(ref, flyBufferDescAddressAttrGet(ref->get()));
      },
      nb::kw_only(), contextArg(), "The address space of buffer descriptors.");
}

//===----------------------------------------------------------------------===//
// Copy operations
//===----------------------------------------------------------------------===//

/// Defines `get` for an operation whose parameters after the context are integers and flags.
template <typename Self, typename... Params, typename... Extra>
void defGet(typename Self::ClassTy &cls, MlirType (*make)(MlirContext, Params...),
            const char *doc, const Extra &...extra) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [make](Params... params, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {});
        return Self(ref, orValueError(ref->get(), [&] { return make(ref->get(), params...); }));
      },
      extra..., nb::kw_only(), contextArg(), doc);
}

void CopyOpCDNA3BufferCopyType::bindDerived(ClassTy &cls) {
  defGet<CopyOpCDNA3BufferCopyType>(cls, flyCopyOpCDNA3BufferCopyTypeGet,
                                    "Buffer load or store of `bit_size` bits.",
                                    nb::arg("bit_size"), nb::arg("cache_modifier") = 0);
}

void CopyOpCDNA3BufferCopyLDSType::bindDerived(ClassTy &cls) {
  defGet<CopyOpCDNA3BufferCopyLDSType>(cls, flyCopyOpCDNA3BufferCopyLDSTypeGet,
                                       "Buffer load of `bit_size` bits a lane into LDS.",
                                       nb::arg("bit_size"));
}

void CopyOpCDNA3BufferAtomicType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](int32_t atomicOp, PyType &valueType, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {valueType});
        return CopyOpCDNA3BufferAtomicType(ref, orValueError(ref->get(), [&] {
                                             return flyCopyOpCDNA3BufferAtomicTypeGet(atomicOp,
                                                                                      valueType);
                                           }));
      },
      nb::arg("atomic_op"), nb::arg("val_type"), nb::kw_only(), contextArg(),
      "The atomic operation `atomic_op` (an AtomicOp or int) on buffer memory.");
}

void CopyOpCDNA4LdsReadTransposeType::bindDerived(ClassTy &cls) {
  defGet<CopyOpCDNA4LdsReadTransposeType>(
      cls, flyCopyOpCDNA4LdsReadTransposeTypeGet,
      "LDS read of `bit_size` bits a lane that transposes elements of `trans_granularity` bits.",
      nb::arg("trans_granularity"), nb::arg("bit_size"));
}

void CopyOpGFX1250LdsReadTransposeType::bindDerived(ClassTy &cls) {
  defGet<CopyOpGFX1250LdsReadTransposeType>(
      cls, flyCopyOpGFX1250LdsReadTransposeTypeGet,
      "LDS read of `bit_size` bits a lane that transposes elements of `trans_granularity` bits.",
      nb::arg("trans_granularity"), nb::arg("bit_size"));
}

void CopyOpCDNA4BufferLoadAsyncLDSType::bindDerived(ClassTy &cls) {
  defGet<CopyOpCDNA4BufferLoadAsyncLDSType>(
      cls, flyCopyOpCDNA4BufferLoadAsyncLDSTypeGet,
      "Asynchronous buffer load of `bit_size` bits a lane into LDS.", nb::arg("bit_size"));
}

void CopyOpCDNA4GlobalLoadAsyncLDSType::bindDerived(ClassTy &cls) {
  defGet<CopyOpCDNA4GlobalLoadAsyncLDSType>(
      cls, flyCopyOpCDNA4GlobalLoadAsyncLDSTypeGet,
      "Asynchronous global load of `bit_size` bits a lane into LDS.", nb::arg("bit_size"));
}

void CopyOpGFX1250TDMType::bindDerived(ClassTy &cls) {
  defGet<CopyOpGFX1250TDMType>(
      cls, flyCopyOpGFX1250TDMTypeGet,
      "Copy of a tile of `rank` dimensions by the tensor data mover; padding counts elements.",
      nb::arg("rank"), nb::arg("num_warps"), nb::arg("pad_interval") = 0,
      nb::arg("pad_amount") = 0, nb::arg("cache_modifier") = 0, nb::arg("atomic_barrier") = false,
      nb::arg("early_timeout") = false);
}

/// An int-tuple attribute from a Python int tuple, an int_tuple type or a value of one.
static MlirAttribute toIntTuple(const PyMlirContextRef &ref, nb::handle object) {
  return flyIntTupleTypeGetAttr(IntTupleArgument(ref).convertOrType(object));
}

void CopyOpCDNA5TensorLoadType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](std::vector<int32_t> shape, PyType &elemTy, nb::object tensor2tdm, bool atomicBarrier,
         int32_t cacheModifier, int32_t iterCount, int32_t padInterval, int32_t padAmount,
         PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elemTy});
        MlirAttribute tuple = toIntTuple(ref, tensor2tdm);
        return CopyOpCDNA5TensorLoadType(ref, orValueError(ref->get(), [&] {
                                           return flyCopyOpCDNA5TensorLoadTypeGet(
                                               shape.size(), shape.data(), elemTy, tuple,
                                               atomicBarrier, cacheModifier, iterCount,
                                               padInterval, padAmount);
                                         }));
      },
      nb::arg("tile_shape"), nb::arg("data_type"), nb::arg("tensor2tdm"),
      nb::arg("atomic_barrier") = false, nb::arg("cache_modifier") = 0, nb::arg("iter_count") = 1,
      nb::arg("pad_interval") = 0, nb::arg("pad_amount") = 0, nb::kw_only(), contextArg(),
      "Tile load into LDS by the tensor data mover; `tile_shape` has the outermost axis first.");
}

void CopyOpCDNA5TensorStoreType::bindDerived(ClassTy &cls) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [](std::vector<int32_t> shape, PyType &elemTy, nb::object tensor2tdm, bool atomicBarrier,
         int32_t cacheModifier, int32_t iterCount, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elemTy});
        MlirAttribute tuple = toIntTuple(ref, tensor2tdm);
        return CopyOpCDNA5TensorStoreType(ref, orValueError(ref->get(), [&] {
                                            return flyCopyOpCDNA5TensorStoreTypeGet(
                                                shape.size(), shape.data(), elemTy, tuple,
                                                atomicBarrier, cacheModifier, iterCount);
                                          }));
      },
      nb::arg("tile_shape"), nb::arg("data_type"), nb::arg("tensor2tdm"),
      nb::arg("atomic_barrier") = false, nb::arg("cache_modifier") = 0, nb::arg("iter_count") = 1,
      nb::kw_only(), contextArg(),
      "Tile store from LDS by the tensor data mover; `tile_shape` has the outermost axis first.");
}

//===----------------------------------------------------------------------===//
// MMA operations
//===----------------------------------------------------------------------===//

/// Defines `get(m, n, k, elem_ty_a, elem_ty_b, elem_ty_acc, *extra)`; `make(signature, params...)`
/// builds the type.
template <typename Self, typename... Params, typename Make, typename... Extra>
void defMmaGet(typename Self::ClassTy &cls, Make make, const char *doc, const Extra &...extra) {
  defIsInstance(cls);
  cls.def_static(
      "get",
      [make](int32_t m, int32_t n, int32_t k, PyType &elemTyA, PyType &elemTyB, PyType &elemTyAcc,
             Params... params, PyMlirContext *context) {
        PyMlirContextRef ref = resolveContext(context, {elemTyA, elemTyB, elemTyAcc});
        FlyMmaSignature signature{m, n, k, elemTyA, elemTyB, elemTyAcc};
        return Self(ref, orValueError(ref->get(), [&] { return make(signature, params...); }));
      },
      nb::arg("m"), nb::arg("n"), nb::arg("k"), nb::arg("elem_ty_a"), nb::arg("elem_ty_b"),
      nb::arg("elem_ty_acc"), extra..., contextArg(), doc);
}

void MmaOpCDNA3_MFMAType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpCDNA3_MFMAType>(cls, flyMmaOpCDNA3_MFMATypeGet, "The MFMA of CDNA3.",
                                 nb::kw_only());
}

void MmaOpCDNA4_MFMAScaleType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpCDNA4_MFMAScaleType, int32_t, int32_t>(
      cls, flyMmaOpCDNA4_MFMAScaleTypeGet,
      "The MFMA of CDNA4 with block scales; `opsel_a` and `opsel_b` select the scale's byte.",
      nb::arg("opsel_a") = 0, nb::arg("opsel_b") = 0, nb::kw_only());
}

void MmaOpGFX11_WMMAType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpGFX11_WMMAType, bool, bool, bool>(
      cls,
      [](FlyMmaSignature signature, bool signA, bool signB, bool clamp) {
        return flyMmaOpGFX11_WMMATypeGet(signature, {signA, signB, clamp});
      },
      "The WMMA of RDNA3; the flags are for integer operands.", nb::kw_only(),
      nb::arg("sign_a") = false, nb::arg("sign_b") = false, nb::arg("clamp") = false);
}

void MmaOpGFX120X_WMMAType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpGFX120X_WMMAType, bool, bool, bool>(
      cls,
      [](FlyMmaSignature signature, bool signA, bool signB, bool clamp) {
        return flyMmaOpGFX120X_WMMATypeGet(signature, {signA, signB, clamp});
      },
      "The WMMA of RDNA4; the flags are for integer operands.", nb::kw_only(),
      nb::arg("sign_a") = false, nb::arg("sign_b") = false, nb::arg("clamp") = false);
}

void MmaOpGFX1250_WMMAType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpGFX1250_WMMAType, bool, bool, bool, int32_t, bool, bool>(
      cls,
      [](FlyMmaSignature signature, bool signA, bool signB, bool clamp, int32_t modC, bool reuseA,
         bool reuseB) {
        return flyMmaOpGFX1250_WMMATypeGet(signature, {signA, signB, clamp}, modC, reuseA, reuseB);
      },
      "The WMMA of gfx1250; `mod_c` is 0 none, 1 neg, 2 abs, 3 neg of abs.",
      nb::arg("sign_a") = false, nb::arg("sign_b") = false, nb::arg("clamp") = false,
      nb::arg("mod_c") = 0, nb::arg("reuse_a") = false, nb::arg("reuse_b") = false,
      nb::kw_only());
}

void MmaOpGFX1250_WMMAScaleType::bindDerived(ClassTy &cls) {
  defMmaGet<MmaOpGFX1250_WMMAScaleType, int32_t, int32_t, int32_t, bool, bool, int32_t>(
      cls, flyMmaOpGFX1250_WMMAScaleTypeGet,
      "The WMMA of gfx1250 with one scale for each block of `block_size` elements along K.",
      nb::arg("opsel_a") = 0, nb::arg("opsel_b") = 0, nb::arg("mod_c") = 0,
      nb::arg("reuse_a") = false, nb::arg("reuse_b") = false, nb::arg("block_size") = 32,
      nb::kw_only());
}

} // namespace

void bindFlyROCDLTypes(nb::module_ &m) {
  BufferDescAddressAttr::bind(m);
  CopyOpCDNA3BufferCopyType::bind(m);
  CopyOpCDNA3BufferCopyLDSType::bind(m);
  CopyOpCDNA3BufferAtomicType::bind(m);
  CopyOpCDNA4LdsReadTransposeType::bind(m);
  CopyOpGFX1250LdsReadTransposeType::bind(m);
  CopyOpCDNA4BufferLoadAsyncLDSType::bind(m);
  CopyOpCDNA4GlobalLoadAsyncLDSType::bind(m);
  CopyOpGFX1250TDMType::bind(m);
  CopyOpCDNA5TensorLoadType::bind(m);
  CopyOpCDNA5TensorStoreType::bind(m);
  m.def(
      "tdm_partition_layout",
      [](PyType &atomTy, PyType &smemTy, nb::handle, int32_t numWarps) {
        PyMlirContextRef ref = atomTy.getContext();
        return orValueError(ref->get(),
                            [&] { return flyTdmPartitionLayout(atomTy, smemTy, numWarps); });
      },
      nb::arg("atom_ty"), nb::arg("stensor_ty"), nb::arg("tensor_ty"), nb::arg("num_warps"),
      "The layout ((ATOM, ITER), WARP) -> index in the tile of a tensor copy that warps share.");
  MmaOpCDNA3_MFMAType::bind(m);
  MmaOpCDNA4_MFMAScaleType::bind(m);
  MmaOpGFX11_WMMAType::bind(m);
  MmaOpGFX120X_WMMAType::bind(m);
  MmaOpGFX1250_WMMAType::bind(m);
  MmaOpGFX1250_WMMAScaleType::bind(m);
}

} // namespace flydsl
