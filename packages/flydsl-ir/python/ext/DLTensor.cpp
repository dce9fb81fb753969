//===- DLTensor.cpp - DLPack tensors as seen by the compiler --------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "PyUtils.h"

#include "mlir-c/BuiltinTypes.h"
#include <cstdint>

namespace flydsl {
namespace {

//===----------------------------------------------------------------------===//
// The structures of dlpack.h
//===----------------------------------------------------------------------===//

/// What launches take at most.
constexpr int32_t kMaxRank = 32;

struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void *managerContext;
  void (*deleter)(ManagedTensor *);
};

enum DeviceType : int32_t {
  CUDA = 2,
  CUDAHost = 3,
  ROCM = 10,
  ROCMHost = 11,
  CUDAManaged = 13,
};

enum TypeCode : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  BFloat = 4,
  Complex = 5,
  Bool = 6,
  Float8E3M4 = 7,
  Float8E4M3 = 8,
  Float8E4M3B11FNUZ = 9,
  Float8E4M3FN = 10,
  Float8E4M3FNUZ = 11,
  Float8E5M2 = 12,
  Float8E5M2FNUZ = 13,
  Float8E8M0FNU = 14,
  Float6E2M3FN = 15,
  Float6E3M2FN = 16,
  Float4E2M1FN = 17,
};

MlirType getFloat(MlirContext context, unsigned bits) {
  switch (bits) {
  case 16:
    return mlirF16TypeGet(context);
  case 32:
    return mlirF32TypeGet(context);
  case 64:
    return mlirF64TypeGet(context);
  }
  return {nullptr};
}

/// The element type of one lane; null if MLIR has none.
MlirType getElementType(MlirContext context, uint8_t code, unsigned bits) {
  switch (code) {
  case Int:
  case UInt:
    return mlirIntegerTypeGet(context, bits);
  case Float:
    return getFloat(context, bits);
  case BFloat:
    return bits == 16 ? mlirBF16TypeGet(context) : MlirType{nullptr};
  case Complex: {
    MlirType part = getFloat(context, bits / 2);
    return mlirTypeIsNull(part) ? part : mlirComplexTypeGet(part);
  }
  case Bool:
    return mlirIntegerTypeGet(context, 1);
  case Float8E3M4:
    return mlirFloat8E3M4TypeGet(context);
  case Float8E4M3:
    return mlirFloat8E4M3TypeGet(context);
  case Float8E4M3B11FNUZ:
    return mlirFloat8E4M3B11FNUZTypeGet(context);
  case Float8E4M3FN:
    return mlirFloat8E4M3FNTypeGet(context);
  case Float8E4M3FNUZ:
    return mlirFloat8E4M3FNUZTypeGet(context);
  case Float8E5M2:
    return mlirFloat8E5M2TypeGet(context);
  case Float8E5M2FNUZ:
    return mlirFloat8E5M2FNUZTypeGet(context);
  case Float8E8M0FNU:
    return mlirFloat8E8M0FNUTypeGet(context);
  case Float6E2M3FN:
    return mlirFloat6E2M3FNTypeGet(context);
  case Float6E3M2FN:
    return mlirFloat6E3M2FNTypeGet(context);
  case Float4E2M1FN:
    return mlirFloat4E2M1FNTypeGet(context);
  }
  return {nullptr};
}

//===----------------------------------------------------------------------===//
// DLTensorAdaptor
//===----------------------------------------------------------------------===//

/// Owns the tensor of a DLPack capsule and answers the compiler's questions about it.
class DLTensorAdaptor {
public:
  explicit DLTensorAdaptor(nb::handle capsule) {
    if (!PyCapsule_IsValid(capsule.ptr(), "dltensor"))
      raiseValueError("expected an unused DLPack capsule named 'dltensor'");
    auto *candidate =
        static_cast<ManagedTensor *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    check(candidate->tensor);
    if (PyCapsule_SetName(capsule.ptr(), "used_dltensor"))
      throw nb::python_error();
    managed = candidate;
  }
  ~DLTensorAdaptor() {
    if (managed && managed->deleter)
      managed->deleter(managed);
  }
  DLTensorAdaptor(const DLTensorAdaptor &) = delete;
  DLTensorAdaptor &operator=(const DLTensorAdaptor &) = delete;

  nb::tuple shape() const { return toTuple(tensor().shape); }

  nb::tuple stride() const {
    if (tensor().strides)
      return toTuple(tensor().strides);
    std::vector<int64_t> rowMajor(tensor().ndim);
    int64_t extent = 1;
    for (int32_t i = tensor().ndim - 1; i >= 0; --i) {
      rowMajor[i] = extent;
      extent *= tensor().shape[i];
    }
    return toTuple(rowMajor.data());
  }

  uintptr_t dataPtr() const {
    return reinterpret_cast<uintptr_t>(tensor().data) + tensor().byte_offset;
  }

  int32_t addressSpace() const {
    switch (tensor().device.device_type) {
    case CUDA:
    case CUDAHost:
    case ROCM:
    case ROCMHost:
    case CUDAManaged:
      return 1;
    }
    return 0;
  }

  nb::object dtype() const {
    PyMlirContextRef context = DefaultingPyMlirContext::resolve().getRef();
    const auto &type = tensor().dtype;
    MlirType element = getElementType(context->get(), type.code, type.bits);
    if (mlirTypeIsNull(element))
      raiseValueError("no MLIR type for the DLPack type code " + std::to_string(type.code) +
                      " with " + std::to_string(type.bits) + " bits");
    if (type.lanes == 1)
      return downcast(context, element);
    int64_t lanes = type.lanes;
    return downcast(context, mlirVectorTypeGet(1, &lanes, element));
  }

  nb::tuple dtypeId() const {
    const auto &type = tensor().dtype;
    return nb::make_tuple(static_cast<int>(type.code), static_cast<int>(type.bits),
                          static_cast<int>(type.lanes));
  }

  int64_t elementBits() const { return int64_t(tensor().dtype.bits) * tensor().dtype.lanes; }

  int64_t sizeInBytes() const {
    int64_t elements = 1;
    for (int32_t i = 0; i < tensor().ndim; ++i)
      elements *= tensor().shape[i];
    return (elements * elementBits() + 7) / 8;
  }

private:
  /// Refuses a description that cannot be true, or that no launch takes.
  static void check(const nb::dlpack::dltensor &tensor) {
    if (tensor.ndim == 0)
      raiseValueError("a tensor of rank 0 is not supported");
    if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
      raiseValueError("expected a DLPack tensor of rank 1 to " + std::to_string(kMaxRank) +
                      ", got rank " + std::to_string(tensor.ndim));
    if (!tensor.shape)
      raiseValueError("the DLPack tensor has no shape (null pointer)");
    int64_t bits = int64_t(tensor.dtype.bits) * tensor.dtype.lanes;
    for (int32_t i = 0; i < tensor.ndim; ++i) {
      const int64_t extent = tensor.shape[i];
      if (extent < 0)
        raiseValueError("the extent of dimension " + std::to_string(i) + " is negative (" +
                        std::to_string(extent) + ")");
      if (extent != 0 && __builtin_mul_overflow(bits, extent, &bits))
        raiseValueError("extent " + std::to_string(extent) + " of dimension " +
                        std::to_string(i) + " makes the tensor larger than the address space");
    }
  }

  const nb::dlpack::dltensor &tensor() const { return managed->tensor; }

  nb::tuple toTuple(const int64_t *values) const {
    nb::list list;
    for (int32_t i = 0; i < tensor().ndim; ++i)
      list.append(values[i]);
    return nb::tuple(list);
  }

  ManagedTensor *managed = nullptr;
};

} // namespace

void bindDLTensor(nb::module_ &m) {
  nb::class_<DLTensorAdaptor>(
      m, "DLTensorAdaptor",
      "A tensor from a DLPack capsule. Takes over the capsule; the tensor stays alive as long as "
      "this object.")
      .def(nb::init<nb::handle>(), nb::arg("dlpack_capsule").none())
      .def_prop_ro("shape", &DLTensorAdaptor::shape, "Extents.")
      .def_prop_ro("stride", &DLTensorAdaptor::stride,
                   "Strides in elements; row-major if the capsule has none.")
      .def_prop_ro("data_ptr", &DLTensorAdaptor::dataPtr, "Address of the first element.")
      .def_prop_ro("address_space", &DLTensorAdaptor::addressSpace,
                   "0 for host memory, 1 for memory that a device can access.")
      .def_prop_ro("dtype", &DLTensorAdaptor::dtype,
                   "MLIR type of an element; needs a current context.")
      .def_prop_ro("dtype_id", &DLTensorAdaptor::dtypeId, "DLPack's (code, bits, lanes).")
      .def_prop_ro("element_bits", &DLTensorAdaptor::elementBits, "bits * lanes.")
      .def("size_in_bytes", &DLTensorAdaptor::sizeInBytes, "Bytes of all elements, packed.");
}

} // namespace flydsl
