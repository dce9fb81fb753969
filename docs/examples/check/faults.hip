// Three faults that a GPU usually does not tell, for the page "Check your AMD kernels without a GPU".
//
//   hipcc -g -O2 --offload-arch=gfx950 faults.hip -o faults        (on any machine with ROCm's compiler)
//   python -m flydsl.runtime check -- ./faults
#include <hip/hip_runtime.h>

// Race: the neighbour's cell may not be written yet.
__global__ void reverse(const float *in, float *out) {
  __shared__ float cells[256];
  unsigned i = threadIdx.x;
  cells[i] = in[i];
  out[i] = cells[255 - i]; // __syncthreads() is missing
}

// Overrun: the last work-group has work-items beyond n.
__global__ void scale(float *x, unsigned n) {
  unsigned i = blockIdx.x * 256 + threadIdx.x;
  x[i] *= 2.0f; // "if (i < n)" is missing
}

// Uninitialised read: only the first half of the cells is written.
__global__ void halves(const float *in, float *out) {
  __shared__ float cells[256];
  unsigned i = threadIdx.x;
  if (i < 128)
    cells[i] = in[i];
  __syncthreads();
  out[i] = cells[i];
}

int main() {
  float *in, *out, host[1000];
  for (int i = 0; i < 1000; ++i)
    host[i] = i;
  hipMalloc(&in, 1000 * sizeof(float));
  hipMalloc(&out, 256 * sizeof(float));
  hipMemcpy(in, host, sizeof host, hipMemcpyHostToDevice);
  reverse<<<1, 256>>>(in, out);
  halves<<<1, 256>>>(in, out);
  scale<<<4, 256>>>(in, 1000);
  hipDeviceSynchronize();
  return 0;
}
