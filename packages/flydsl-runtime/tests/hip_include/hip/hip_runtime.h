// The part of HIP's header that small programs need, for a clang without ROCm's headers.
#pragma once
#include <stddef.h>

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))

typedef int hipError_t;
typedef struct ihipStream_t *hipStream_t;
enum hipMemcpyKind { hipMemcpyHostToDevice = 1, hipMemcpyDeviceToHost = 2 };

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

extern "C" {
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipMemset(void *, int, size_t);
hipError_t hipMemcpy(void *, const void *, size_t, hipMemcpyKind);
hipError_t hipDeviceSynchronize(void);
hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, size_t, hipStream_t);
hipError_t __hipPushCallConfiguration(dim3, dim3, size_t = 0, hipStream_t = 0);
hipError_t __hipPopCallConfiguration(dim3 *, dim3 *, size_t *, hipStream_t *);
}
template <class T> hipError_t hipMalloc(T **pointer, size_t bytes) {
  return hipMalloc((void **)pointer, bytes);
}

struct FlyThreadIndex {
  __declspec(property(get = getX)) unsigned x;
  __device__ unsigned getX() const { return __builtin_amdgcn_workitem_id_x(); }
};
struct FlyBlockIndex {
  __declspec(property(get = getX)) unsigned x;
  __device__ unsigned getX() const { return __builtin_amdgcn_workgroup_id_x(); }
};
extern const __device__ __attribute__((weak)) FlyThreadIndex threadIdx;
extern const __device__ __attribute__((weak)) FlyBlockIndex blockIdx;

static __device__ inline void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
