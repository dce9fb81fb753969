/* A HIP library for tests and benchmarks: executes nothing.
 *
 * Compiled as is it records every launch and copy as one line of text and can be told to fail a
 * call. -DFAKE_HIP_NULL leaves recording out (launch overhead), -DFAKE_HIP_SIMULATOR exports the
 * simulator's extension symbols so that host memory counts as device memory,
 * -DFAKE_HIP_NO_LAUNCH leaves a required symbol out, -DFAKE_HIP_CLUSTER adds cluster launches.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { kDevices = 2, kSuccess = 0, kInvalidValue = 1, kInvalidDevice = 101, kNotFound = 500 };

static __thread int current_device = 0;
static __thread char last_message[512];
static char arch[64] = "gfx942";

#ifdef FAKE_HIP_NULL
#define RECORD(...) ((void)0)
static int failing(const char *name) { (void)name; return 0; }
#else
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 20];
static size_t log_used;
static char fail_name[128];
static int fail_code;

static void record(const char *format, ...) {
  va_list list;
  va_start(list, format);
  pthread_mutex_lock(&lock);
  if (log_used + 8192 < sizeof(log_text))
    log_used += (size_t)vsnprintf(log_text + log_used, sizeof(log_text) - log_used, format, list);
  pthread_mutex_unlock(&lock);
  va_end(list);
}
#define RECORD(...) record(__VA_ARGS__)

static int failing(const char *name) {
  if (strcmp(name, fail_name) != 0)
    return 0;
  snprintf(last_message, sizeof(last_message), "simulated failure of %s", name);
  return fail_code;
}

EXPORT const char *fakehip_log(void) { return log_text; }
EXPORT void fakehip_clear(void) {
  log_used = 0;
  log_text[0] = 0;
  fail_name[0] = 0;
}
EXPORT void fakehip_fail(const char *name, int code) {
  snprintf(fail_name, sizeof(fail_name), "%s", name);
  fail_code = code;
}
#endif

#define CALL(name)                                                                                 \
  do {                                                                                             \
    int status_ = failing(name);                                                                   \
    if (status_)                                                                                   \
      return status_;                                                                              \
  } while (0)

typedef struct {
  int device;
  char name[120];
} Function;

EXPORT int hipInit(unsigned flags) { (void)flags; CALL("hipInit"); return kSuccess; }
EXPORT int hipGetDeviceCount(int *count) { *count = kDevices; return kSuccess; }
EXPORT int hipGetDevice(int *device) { *device = current_device; return kSuccess; }
EXPORT int hipSetDevice(int device) {
  if (device < 0 || device >= kDevices)
    return kInvalidDevice;
  current_device = device;
  return kSuccess;
}
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  switch (attribute) {
  case 26: case 27: case 28: case 56: *value = 1024; return kSuccess;
  case 29: *value = 2147483647; return kSuccess;
  case 30: case 31: *value = 65536; return kSuccess;
  case 63: *value = 304; return kSuccess;
  case 74: *value = 65536; return kSuccess;
  case 87: *value = 64; return kSuccess;
  default: return kInvalidValue;
  }
}
EXPORT int hipDeviceGetName(char *name, int size, int device) {
  snprintf(name, (size_t)size, "fake device %d", device);
  return kSuccess;
}
EXPORT int hipDeviceTotalMem(size_t *bytes, int device) { (void)device; *bytes = 1u << 30; return kSuccess; }
EXPORT int hipGetDevicePropertiesR0600(void *properties, int device) {
  (void)device;
  memset(properties, 0, 1472);
  strcpy((char *)properties, "gfxless marketing name");
  sprintf((char *)properties + 1160, "%s:sramecc+:xnack-", arch);
  return kSuccess;
}
EXPORT int hipRuntimeGetVersion(int *version) { *version = 70000000; return kSuccess; }
EXPORT int hipDeviceSynchronize(void) { CALL("hipDeviceSynchronize"); return kSuccess; }

EXPORT int hipModuleLoadData(void **module, const void *image) {
  CALL("hipModuleLoadData");
  RECORD("load device=%d image=%.8s\n", current_device, (const char *)image);
  *module = malloc(1);
  return kSuccess;
}
EXPORT int hipModuleUnload(void *module) { free(module); return kSuccess; }
EXPORT int hipModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  CALL("hipModuleGetFunction");
  if (strncmp(name, "missing", 7) == 0)
    return kNotFound;
  Function *result = malloc(sizeof(Function));
  result->device = current_device;
  snprintf(result->name, sizeof(result->name), "%s", name);
  *function = result;
  return kSuccess;
}

static int do_launch(const Function *function, const unsigned *grid, const unsigned *block,
                     unsigned smem, void *stream, void **extra, const unsigned *cluster) {
  CALL("hipModuleLaunchKernel");
  if (function->device != current_device)
    return kInvalidValue;
#ifdef FAKE_HIP_NULL
  (void)grid, (void)block, (void)smem, (void)stream, (void)extra, (void)cluster;
#else
  const unsigned char *bytes = extra[1];
  size_t size = *(size_t *)extra[3];
  char hex[4096] = "";
  for (size_t i = 0; i < size && i < 2000; ++i)
    sprintf(hex + 2 * i, "%02x", bytes[i]);
  RECORD("launch %s grid=%u,%u,%u block=%u,%u,%u smem=%u stream=%llu device=%d cluster=%u,%u,%u args=%s\n",
         function->name, grid[0], grid[1], grid[2], block[0], block[1], block[2], smem,
         (unsigned long long)(uintptr_t)stream, current_device, cluster[0], cluster[1], cluster[2],
         hex);
#endif
  return kSuccess;
}

#ifndef FAKE_HIP_NO_LAUNCH
EXPORT int hipModuleLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned smem, void *stream,
                                 void **params, void **extra) {
  (void)params;
  unsigned grid[] = {gx, gy, gz}, block[] = {bx, by, bz}, cluster[] = {1, 1, 1};
  return do_launch(function, grid, block, smem, stream, extra, cluster);
}
#endif

#ifdef FAKE_HIP_CLUSTER
typedef struct { int id; char pad[4]; unsigned value[16]; } Attribute;
typedef struct {
  unsigned grid[3], block[3], smem;
  void *stream;
  Attribute *attributes;
  unsigned count;
} Config;
EXPORT int hipDrvLaunchKernelEx(const Config *config, void *function, void **params, void **extra) {
  (void)params;
  if (config->count != 1 || config->attributes[0].id != 4)
    return kInvalidValue;
  return do_launch(function, config->grid, config->block, config->smem, config->stream, extra,
                   config->attributes[0].value);
}
#endif

EXPORT int hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t smem) {
  (void)function;
  *blocks = smem ? 1 : 2048 / threads;
  return kSuccess;
}
EXPORT int hipFuncGetAttribute(int *value, int attribute, void *function) {
  (void)function;
  *value = 10 * (attribute + 1);
  return kSuccess;
}

EXPORT int hipMalloc(void **pointer, size_t bytes) {
  CALL("hipMalloc");
  *pointer = malloc(bytes);
  return *pointer ? kSuccess : 2;
}
EXPORT int hipFree(void *pointer) { free(pointer); return kSuccess; }
EXPORT int hipMemcpy(void *dst, const void *src, size_t bytes, int kind) {
  (void)kind;
  memcpy(dst, src, bytes);
  return kSuccess;
}
EXPORT int hipMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream) {
  RECORD("memcpy_async bytes=%zu stream=%llu\n", bytes, (unsigned long long)(uintptr_t)stream);
  return hipMemcpy(dst, src, bytes, kind);
}
EXPORT int hipMemset(void *dst, int value, size_t bytes) { memset(dst, value, bytes); return kSuccess; }
EXPORT int hipMemsetAsync(void *dst, int value, size_t bytes, void *stream) {
  (void)stream;
  return hipMemset(dst, value, bytes);
}

EXPORT int hipStreamCreateWithFlags(void **stream, unsigned flags) { (void)flags; *stream = malloc(1); return kSuccess; }
EXPORT int hipStreamDestroy(void *stream) { free(stream); RECORD("stream_destroy\n"); return kSuccess; }
EXPORT int hipStreamSynchronize(void *stream) { (void)stream; CALL("hipStreamSynchronize"); return kSuccess; }
EXPORT int hipStreamQuery(void *stream) { (void)stream; CALL("hipStreamQuery"); return kSuccess; }
EXPORT int hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)stream, (void)event, (void)flags;
  return kSuccess;
}
EXPORT int hipEventCreateWithFlags(void **event, unsigned flags) { (void)flags; *event = malloc(1); return kSuccess; }
EXPORT int hipEventDestroy(void *event) { free(event); return kSuccess; }
EXPORT int hipEventRecord(void *event, void *stream) { (void)event, (void)stream; return kSuccess; }
EXPORT int hipEventSynchronize(void *event) { (void)event; return kSuccess; }
EXPORT int hipEventQuery(void *event) { (void)event; CALL("hipEventQuery"); return kSuccess; }
EXPORT int hipEventElapsedTime(float *ms, void *start, void *stop) {
  (void)start, (void)stop;
  *ms = 1.5f;
  return kSuccess;
}

EXPORT int hipGetLastError(void) { last_message[0] = 0; return kSuccess; }
EXPORT const char *hipGetErrorName(int code) {
  switch (code) {
  case kInvalidValue: return "hipErrorInvalidValue";
  case kInvalidDevice: return "hipErrorInvalidDevice";
  case kNotFound: return "hipErrorNotFound";
  case 719: return "hipErrorLaunchFailure";
  default: return "hipErrorUnknown";
  }
}
EXPORT const char *hipGetErrorString(int code) { return code == 719 ? "unspecified launch failure" : "some error"; }

#ifdef FAKE_HIP_SIMULATOR
EXPORT const char *flysimVersion(void) { return "fake"; }
EXPORT const char *flysimLastErrorMessage(void) { return last_message; }
EXPORT void flysimLaunchRanges(const void *const *bases, const size_t *bytes, unsigned count) {
  (void)bases;
  (void)bytes;
  for (unsigned i = 0; i < count; ++i)
    RECORD("range base=%p bytes=%zu\n", bases[i], bytes[i]);
}
EXPORT int flysimSetArch(const char *name) {
  if (strncmp(name, "gfx", 3) != 0 || strcmp(name, "gfx000") == 0) {
    snprintf(last_message, sizeof(last_message), "architecture '%s' is not simulated", name);
    return kInvalidValue;
  }
  snprintf(arch, sizeof(arch), "%s", name);
  return kSuccess;
}
#endif
