// C[M, N] = A[M, K] B[N, K]^T for tools/bench/matrix.py: 128x128 tiles, four waves, 64 bytes of k at a time through LDS.
// -DKIND=0 f16, 1 bf16, 2 fp8, 3 i8. A and B are bytes with KB bytes a row; C is 32 bits wide.
typedef _Float16 half4 __attribute__((ext_vector_type(4)));
typedef short short4 __attribute__((ext_vector_type(4)));
typedef float float4 __attribute__((ext_vector_type(4)));
typedef int int4 __attribute__((ext_vector_type(4)));
#define GLOBAL __attribute__((address_space(1)))
#define LDS __attribute__((address_space(3)))
#define SHARED static LDS __attribute__((loader_uninitialized))

#if KIND == 3
typedef int4 acc_t;
#else
typedef float4 acc_t;
#endif

static inline acc_t multiply(long a, long b, acc_t c) {
#if KIND == 0
  return __builtin_amdgcn_mfma_f32_16x16x16f16(__builtin_bit_cast(half4, a), __builtin_bit_cast(half4, b), c, 0, 0, 0);
#elif KIND == 1
  return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(__builtin_bit_cast(short4, a), __builtin_bit_cast(short4, b), c, 0, 0,
                                                   0);
#elif KIND == 2
  return __builtin_amdgcn_mfma_f32_16x16x32_fp8_fp8(a, b, c, 0, 0, 0);
#else
  return __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, 0, 0, 0);
#endif
}

__attribute__((amdgpu_kernel, amdgpu_flat_work_group_size(256, 256))) void
gemm(GLOBAL const char *A, GLOBAL const char *B, GLOBAL acc_t *C, int N, int KB) {
  SHARED char la[128 * 64];
  SHARED char lb[128 * 64];
  int t = __builtin_amdgcn_workitem_id_x(), lane = t & 63, wave = t >> 6;
  int m0 = __builtin_amdgcn_workgroup_id_y() * 128, n0 = __builtin_amdgcn_workgroup_id_x() * 128;
  int wm = (wave & 1) * 64, wn = (wave >> 1) * 64, row = t >> 2, at = (t & 3) * 16;
  acc_t acc[4][4] = {};
  for (int k = 0; k < KB; k += 64) {
    int4 a[2], b[2];
    for (int h = 0; h < 2; ++h) {
      a[h] = *(GLOBAL const int4 *)(A + (long)(m0 + row + 64 * h) * KB + k + at);
      b[h] = *(GLOBAL const int4 *)(B + (long)(n0 + row + 64 * h) * KB + k + at);
    }
    __builtin_amdgcn_s_barrier();
    for (int h = 0; h < 2; ++h) {
      *(LDS int4 *)(la + (row + 64 * h) * 64 + at) = a[h];
      *(LDS int4 *)(lb + (row + 64 * h) * 64 + at) = b[h];
    }
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    for (int s = 0; s < 2; ++s) {
      long fa[4], fb[4];
      for (int i = 0; i < 4; ++i) {
        fa[i] = *(LDS long *)(la + (wm + i * 16 + lane % 16) * 64 + s * 32 + lane / 16 * 8);
        fb[i] = *(LDS long *)(lb + (wn + i * 16 + lane % 16) * 64 + s * 32 + lane / 16 * 8);
      }
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j)
          acc[i][j] = multiply(fa[i], fb[j], acc[i][j]);
    }
  }
  GLOBAL float *out = (GLOBAL float *)C;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      for (int q = 0; q < 4; ++q)
        out[(long)(m0 + wm + i * 16 + lane / 16 * 4 + q) * N + n0 + wn + j * 16 + lane % 16] =
            __builtin_bit_cast(float4, acc[i][j])[q];
}
