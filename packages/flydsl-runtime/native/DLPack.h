//===- DLPack.h - The DLPack ABI --------------------------------*- C++ -*-===//
//
// The C structures of DLPack 1.x (https://dmlc.github.io/dlpack), restated:
// only their binary layout matters here.
//
//===----------------------------------------------------------------------===//

#ifndef FLYDSL_RUNTIME_DLPACK_H
#define FLYDSL_RUNTIME_DLPACK_H

#include <cstdint>

namespace flydsl::runtime::dlpack {

enum DeviceType : int32_t {
  kCPU = 1,
  kCUDA = 2,
  kCUDAHost = 3,
  kROCM = 10,
  kROCMHost = 11,
  kCUDAManaged = 13,
};

struct Device {
  int32_t type;
  int32_t id;
};

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct Tensor {
  void *data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape;
  int64_t *strides; ///< in elements; null means compact row-major
  uint64_t byteOffset;
};

struct ManagedTensor {
  Tensor tensor;
  void *managerContext;
  void (*deleter)(ManagedTensor *);
};

struct Version {
  uint32_t major;
  uint32_t minor;
};

struct ManagedTensorVersioned {
  Version version;
  void *managerContext;
  void (*deleter)(ManagedTensorVersioned *);
  uint64_t flags;
  Tensor tensor;
};

inline constexpr const char *kCapsuleName = "dltensor";
inline constexpr const char *kVersionedCapsuleName = "dltensor_versioned";
inline constexpr uint64_t kReadOnlyFlag = 1; ///< bit of ManagedTensorVersioned::flags

struct ExchangeApiHeader {
  Version version;
  ExchangeApiHeader *previous;
};

/// The C exchange API that a tensor type offers as the capsule `__dlpack_c_exchange_api__`.
/// Functions return 0, or -1 with a Python error set.
struct ExchangeApi {
  ExchangeApiHeader header;
  void *managedTensorAllocator;
  int (*managedTensorFromPyObject)(void *object, ManagedTensorVersioned **out);
  void *managedTensorToPyObject;
  /// Fills a view that borrows from the object; may be null.
  int (*tensorFromPyObject)(void *object, Tensor *out);
  int (*currentWorkStream)(DeviceType type, int32_t id, void **stream);
};

inline constexpr const char *kExchangeApiAttribute = "__dlpack_c_exchange_api__";
inline constexpr const char *kExchangeApiCapsuleName = "dlpack_exchange_api";

} // namespace flydsl::runtime::dlpack

#endif // FLYDSL_RUNTIME_DLPACK_H
