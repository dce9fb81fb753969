/* A program against the HIP module API, as any user of it would write one: loads a code object from a file,
 * runs kernel plus_one on 64 integers and prints the result. Declares what it uses, so that no ROCm header is needed. */
#include <stdio.h>
#include <stdlib.h>

typedef int hipError_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipStream_t *hipStream_t;
hipError_t hipInit(unsigned);
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipMemcpy(void *, const void *, size_t, int);
hipError_t hipMemset(void *, int, size_t);
hipError_t hipModuleLoad(hipModule_t *, const char *);
hipError_t hipModuleUnload(hipModule_t);
hipError_t hipModuleGetFunction(hipFunction_t *, hipModule_t, const char *);
hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 hipStream_t, void **, void **);
hipError_t hipDeviceSynchronize(void);
const char *hipGetErrorString(hipError_t);

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    hipError_t status = (call);                                                                                        \
    if (status) {                                                                                                      \
      fprintf(stderr, "%s: %s\n", #call, hipGetErrorString(status));                                                   \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

enum { N = 64, HostToDevice = 1, DeviceToHost = 2 };

int main(int argc, char **argv) {
  int host[N];
  void *in, *out;
  hipModule_t module;
  hipFunction_t function;
  if (argc != 2)
    return 2;
  for (int i = 0; i < N; ++i)
    host[i] = 3 * i;
  CHECK(hipInit(0));
  CHECK(hipMalloc(&in, sizeof host));
  CHECK(hipMalloc(&out, sizeof host));
  CHECK(hipMemcpy(in, host, sizeof host, HostToDevice));
  CHECK(hipMemset(out, 0xff, sizeof host));
  CHECK(hipModuleLoad(&module, argv[1]));
  CHECK(hipModuleGetFunction(&function, module, "plus_one"));
  void *arguments[] = {&in, &out};
  CHECK(hipModuleLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, arguments, NULL));
  CHECK(hipDeviceSynchronize());
  CHECK(hipMemcpy(host, out, sizeof host, DeviceToHost));
  for (int i = 0; i < N; ++i)
    printf("%d\n", host[i]);
  CHECK(hipModuleUnload(module));
  CHECK(hipFree(in));
  CHECK(hipFree(out));
  return 0;
}
