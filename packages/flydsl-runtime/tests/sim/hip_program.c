/* The HIP API from C, as a program that knows nothing of the simulator would use it.
 * Usage: hip_program CODE_OBJECT. Prints the line of every expectation that does not hold; exit status 1 if any.
 * The code object has kernel add(int *out, const int *in, int n, int by): out[i] = in[i] + by, and a global int `bias`. */
#include "hip_api.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;
#ifdef SCARCE
/* With scarce.c. Each call is made without an allocation that succeeds, then with one, and so on (in larger steps where
 * they are many) until it has all that it asks for: what failed for lack of memory must have left all as it was. Work that a queue's thread
 * does later has its memory: its failure would be the error of a later call. */
void scarce_begin_here(const long left[2]);
void scarce_end(long left[2]);
static long refused;
#define CALL(code, call)                                                                                               \
  for (long allocations_ = 0;; allocations_ += 1 + allocations_ / 16) {                                                \
    long left_[2] = {allocations_, 1 << 30};                                                                           \
    scarce_begin_here(left_);                                                                                          \
    code = (call);                                                                                                     \
    scarce_end(left_);                                                                                                 \
    refused += left_[0] < 0;                                                                                           \
    if (left_[0] >= 0 || code != hipErrorOutOfMemory)                                                                  \
      break;                                                                                                           \
    hipGetLastError();                                                                                                 \
  }
#else
#define CALL(code, call) code = (call)
#endif
#define EXPECT(condition)                                                                                              \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      printf("line %d: %s\n", __LINE__, #condition);                                                                   \
      ++failures;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#define RETURNS(code, call)                                                                                            \
  do {                                                                                                                 \
    hipError_t code_;                                                                                                  \
    CALL(code_, call);                                                                                                 \
    if (code_ != (code)) {                                                                                             \
      printf("line %d: %s returned %s\n", __LINE__, #call, hipGetErrorName(code_));                                    \
      ++failures;                                                                                                      \
    }                                                                                                                  \
  } while (0)
#define OK(call) RETURNS(hipSuccess, call)

enum { N = 256 };
static hipFunction_t add;
static int *in, *out, host[N], zero[N];

static hipKernelNodeParams addParams(void **arguments) {
  hipKernelNodeParams p;
  memset(&p, 0, sizeof p);
  p.blockDim = (dim3){64, 1, 1};
  p.gridDim = (dim3){N / 64, 1, 1};
  p.func = add;
  p.kernelParams = arguments;
  return p;
}

static int holds(int base, int by) {
  OK(hipMemcpy(host, out, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < N; ++i)
    if (host[i] != base + i + by)
      return 0;
  return 1;
}

static void increment(void *p) { ++*(int *)p; }

static void errors(void) {
  OK(hipGetLastError());
  RETURNS(hipErrorInvalidValue, hipMalloc(NULL, 4));
  OK(hipDeviceSynchronize());
  RETURNS(hipErrorInvalidValue, hipPeekAtLastError()); /* successful calls leave it */
  RETURNS(hipErrorInvalidValue, hipGetLastError());
  OK(hipGetLastError());
  EXPECT(!strcmp(hipGetErrorName(910), "hipErrorGraphExecUpdateFailure"));
  EXPECT(!strcmp(hipGetErrorName(704), "hipErrorPeerAccessAlreadyEnabled"));
  EXPECT(strlen(hipGetErrorString(700)) > 0);
  void *array;
  RETURNS(hipErrorNotSupported, hipMallocArray(&array, NULL, 4, 4, 0));
  RETURNS(hipErrorNotSupported, hipGetLastError());
  RETURNS(hipErrorInvalidMemcpyDirection, hipMemcpy(out, in, 4, 77));
  void *symbol = NULL;
  int status = -1;
  OK(hipGetProcAddress("hipGraphClone", &symbol, 0, 0, &status));
  EXPECT(symbol == (void *)hipGraphClone && status == 0);
  hipGetLastError();
}

static void graphs(void) {
  hipGraph_t graph, clone, child;
  hipGraphNode_t fill, kernel, copy, note, join, nodes[8], from[8], to[8];
  hipGraphExec_t exec;
  int by = 5, n = N, count = 0, type = -1, result[N];
  void *arguments[] = {&out, &in, &n, &by};
  size_t size = 8;
  OK(hipGraphCreate(&graph, 0));
  hipMemsetParams set = {out, 4, 1, 0, 0xffffffffu, N};
  OK(hipGraphAddMemsetNode(&fill, graph, NULL, 0, &set));
  hipKernelNodeParams p = addParams(arguments);
  OK(hipGraphAddKernelNode(&kernel, graph, &fill, 1, &p));
  OK(hipGraphAddMemcpyNode1D(&copy, graph, &kernel, 1, result, out, sizeof result, hipMemcpyDeviceToHost));
  hipHostNodeParams h = {increment, &count};
  OK(hipGraphAddHostNode(&note, graph, NULL, 0, &h));
  OK(hipGraphAddEmptyNode(&join, graph, NULL, 0));
  hipGraphNode_t ends[] = {copy, note}, twice[] = {join, join};
  OK(hipGraphAddDependencies(graph, ends, twice, 2));
  RETURNS(hipErrorInvalidValue, hipGraphAddDependencies(graph, ends, twice, 1));
  hipGraphNode_t more[] = {fill, note}; /* the second edge exists: the first one is not added either */
  RETURNS(hipErrorInvalidValue, hipGraphAddDependencies(graph, more, twice, 2));
  OK(hipGraphGetNodes(graph, NULL, &size));
  EXPECT(size == 5);
  size = 8;
  OK(hipGraphGetNodes(graph, nodes, &size));
  EXPECT(size == 5 && nodes[0] == fill && nodes[5] == NULL);
  size = 8;
  OK(hipGraphGetRootNodes(graph, nodes, &size));
  EXPECT(size == 2);
  size = 8;
  OK(hipGraphGetEdges(graph, from, to, &size));
  EXPECT(size == 4);
  size = 8;
  OK(hipGraphNodeGetDependencies(join, nodes, &size));
  EXPECT(size == 2 && nodes[0] == copy && nodes[1] == note);
  size = 8;
  OK(hipGraphNodeGetDependentNodes(fill, nodes, &size));
  EXPECT(size == 1 && nodes[0] == kernel);
  OK(hipGraphNodeGetType(copy, &type));
  EXPECT(type == hipGraphNodeTypeMemcpy);
  OK(hipGraphNodeGetType(join, &type));
  EXPECT(type == hipGraphNodeTypeEmpty);

  OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
  by = 1000; /* arguments were copied when the node was made */
  OK(hipGraphLaunch(exec, NULL));
  OK(hipDeviceSynchronize());
  EXPECT(holds(0, 5) && result[7] == 12 && count == 1);

  /* Changing the executable graph, and the graph. */
  by = 9;
  OK(hipGraphExecKernelNodeSetParams(exec, kernel, &p));
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(holds(0, 9));
  hipKernelNodeParams back;
  OK(hipGraphKernelNodeGetParams(kernel, &back));
  EXPECT(back.gridDim.x == N / 64 && *(int *)back.kernelParams[3] == 5 && back.func == (void *)add);
  RETURNS(hipErrorInvalidValue, hipGraphKernelNodeGetParams(fill, &back));
  by = 11;
  OK(hipGraphKernelNodeSetParams(kernel, &p));
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(holds(0, 9));
  int code = -1;
  hipGraphNode_t bad = fill;
  OK(hipGraphExecUpdate(exec, graph, &bad, &code));
  EXPECT(code == 0 && bad == NULL);
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(holds(0, 11));
  OK(hipGraphNodeSetEnabled(exec, kernel, 0));
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(result[3] == -1);
  set.value = 3;
  OK(hipGraphExecMemsetNodeSetParams(exec, fill, &set));
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(result[3] == 3);
  OK(hipGraphExecMemcpyNodeSetParams1D(exec, copy, result, in, sizeof result, hipMemcpyDeviceToHost));
  OK(hipGraphLaunch(exec, NULL));
  EXPECT(result[3] == 3 && result[200] == 200);

  /* A clone is independent; a child graph is a copy. */
  hipGraphNode_t found;
  OK(hipGraphClone(&clone, graph));
  OK(hipGraphNodeFindInClone(&found, kernel, clone));
  EXPECT(found != kernel);
  by = 21;
  OK(hipGraphKernelNodeSetParams(found, &p));
  OK(hipGraphCreate(&child, 0));
  OK(hipGraphAddChildGraphNode(&note, child, NULL, 0, clone));
  OK(hipGraphDestroy(clone));
  hipGraphExec_t outer;
  OK(hipGraphInstantiate(&outer, child, NULL, NULL, 0));
  OK(hipGraphDestroy(child));
  OK(hipGraphLaunch(outer, NULL));
  EXPECT(holds(0, 21));
  RETURNS(hipErrorGraphExecUpdateFailure, hipGraphExecUpdate(outer, graph, &bad, &code));
  EXPECT(code == 2);
  OK(hipGraphExecDestroy(outer));

  /* A cycle cannot be instantiated; removed nodes take their edges along. */
  OK(hipGraphAddDependencies(graph, &join, &fill, 1));
  RETURNS(hipErrorInvalidValue, hipGraphInstantiate(&outer, graph, NULL, NULL, 0));
  OK(hipGraphRemoveDependencies(graph, &join, &fill, 1));
  OK(hipGraphDestroyNode(kernel));
  RETURNS(hipErrorInvalidValue, hipGraphDestroyNode(kernel));
  size = 8;
  OK(hipGraphGetEdges(graph, from, to, &size));
  EXPECT(size == 2);
  int destroyed = 0;
  hipUserObject_t object;
  OK(hipUserObjectCreate(&object, &destroyed, increment, 1, 1));
  OK(hipGraphRetainUserObject(graph, object, 1, 1));
  EXPECT(destroyed == 0);
  OK(hipGraphDestroy(graph));
  EXPECT(destroyed == 1);
  RETURNS(hipErrorInvalidValue, hipGraphDestroy(graph));
  OK(hipGraphExecDestroy(exec));
  hipGetLastError();
}

static void capture(void) {
  hipStream_t a, b, c;
  hipEvent_t fork, join;
  hipGraph_t graph;
  hipGraphExec_t exec;
  int by = 2, n = N, status = -1, type = -1;
  void *arguments[] = {&out, &in, &n, &by};
  OK(hipStreamCreate(&a));
  OK(hipStreamCreateWithFlags(&b, hipStreamNonBlocking));
  OK(hipStreamCreate(&c));
  OK(hipEventCreate(&fork));
  OK(hipEventCreate(&join));
  OK(hipStreamBeginCapture(a, hipStreamCaptureModeGlobal));
  OK(hipMemsetAsync(out, 0, sizeof host, a));
  OK(hipEventRecord(fork, a));
  OK(hipStreamWaitEvent(b, fork, 0));
  OK(hipModuleLaunchKernel(add, N / 64, 1, 1, 64, 1, 1, 0, b, arguments, NULL));
  OK(hipStreamIsCapturing(b, &status));
  EXPECT(status == 1);
  void *p;
  RETURNS(hipErrorStreamCaptureUnsupported, hipMalloc(&p, 4)); /* in global mode */
  int mode = hipStreamCaptureModeRelaxed;
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  EXPECT(mode == hipStreamCaptureModeGlobal);
  OK(hipMalloc(&p, 4));
  OK(hipFree(p));
  OK(hipThreadExchangeStreamCaptureMode(&mode));
  RETURNS(hipErrorCapturedEvent, hipEventQuery(fork));
  unsigned long long id = 0;
  const hipGraphNode_t *last;
  size_t count = 0;
  OK(hipStreamGetCaptureInfo_v2(b, &status, &id, &graph, &last, &count));
  EXPECT(status == 1 && id && count == 1);
  OK(hipGraphNodeGetType(last[0], &type));
  EXPECT(type == hipGraphNodeTypeKernel);
  RETURNS(hipErrorStreamCaptureUnmatched, hipStreamEndCapture(b, &graph));
  OK(hipEventRecord(join, b));
  OK(hipStreamWaitEvent(a, join, 0));
  OK(hipStreamEndCapture(a, &graph));
  OK(hipStreamIsCapturing(b, &status));
  EXPECT(status == 0);
  count = 0;
  OK(hipGraphGetEdges(graph, NULL, NULL, &count));
  EXPECT(count == 1);
  OK(hipMemcpy(out, zero, sizeof host, hipMemcpyHostToDevice));
  OK(hipGraphInstantiate(&exec, graph, NULL, NULL, 0));
  OK(hipGraphLaunch(exec, c));
  OK(hipStreamSynchronize(c));
  EXPECT(holds(0, 2));
  OK(hipGraphExecDestroy(exec));
  OK(hipGraphDestroy(graph));

  /* What is not joined is an error; so is the null stream beside a blocking one. */
  OK(hipStreamBeginCapture(a, hipStreamCaptureModeRelaxed));
  OK(hipMemsetAsync(out, 0, 4, a));
  OK(hipEventRecord(fork, a));
  OK(hipStreamWaitEvent(b, fork, 0));
  OK(hipMemsetAsync(out, 0, 4, b));
  RETURNS(hipErrorStreamCaptureUnjoined, hipStreamEndCapture(a, &graph));
  EXPECT(graph == NULL);
  OK(hipStreamBeginCapture(a, hipStreamCaptureModeThreadLocal));
  RETURNS(hipErrorStreamCaptureImplicit, hipMemsetAsync(out, 0, 4, NULL));
  OK(hipStreamIsCapturing(a, &status));
  EXPECT(status == 2);
  RETURNS(hipErrorStreamCaptureInvalidated, hipMemsetAsync(out, 0, 4, a));
  RETURNS(hipErrorStreamCaptureInvalidated, hipStreamEndCapture(a, &graph));
  OK(hipEventRecord(join, c));
  OK(hipStreamBeginCapture(a, hipStreamCaptureModeRelaxed));
  RETURNS(hipErrorStreamCaptureIsolation, hipStreamWaitEvent(a, join, 0));
  OK(hipStreamEndCapture(a, &graph));
  OK(hipGraphDestroy(graph));
  OK(hipMemset(out, 0, 4));
  OK(hipEventDestroy(fork));
  OK(hipEventDestroy(join));
  OK(hipStreamDestroy(a));
  OK(hipStreamDestroy(b));
  OK(hipStreamDestroy(c));
  hipGetLastError();
}

static void memory(void) {
  /* Two-dimensional: a 3 x 5 box of bytes from (2, 1) of an 8 x 8 square to (1, 2) of a 16 x 8 one. */
  unsigned char square[64], wide[128], expected[128];
  void *device;
  size_t pitch;
  for (int i = 0; i < 64; ++i)
    square[i] = (unsigned char)i;
  memset(expected, 0xee, sizeof expected);
  for (int y = 0; y < 5; ++y)
    memcpy(expected + (y + 2) * 16 + 1, square + (y + 1) * 8 + 2, 3);
  OK(hipMalloc(&device, sizeof wide));
  OK(hipMemset2D(device, 16, 0xee, 16, 8));
  OK(hipMemcpy2D((char *)device + 2 * 16 + 1, 16, square + 8 + 2, 8, 3, 5, hipMemcpyHostToDevice));
  OK(hipMemcpy(wide, device, sizeof wide, hipMemcpyDeviceToHost));
  EXPECT(!memcmp(wide, expected, sizeof wide));
  OK(hipMemset(device, 0xee, sizeof wide));
  hip_Memcpy2D d;
  memset(&d, 0, sizeof d);
  d.srcXInBytes = 2, d.srcY = 1, d.srcMemoryType = 1, d.srcHost = square, d.srcPitch = 8;
  d.dstXInBytes = 1, d.dstY = 2, d.dstMemoryType = 2, d.dstDevice = device, d.dstPitch = 16;
  d.WidthInBytes = 3, d.Height = 5;
  OK(hipMemcpyParam2D(&d));
  OK(hipMemcpy(wide, device, sizeof wide, hipMemcpyDeviceToHost));
  EXPECT(!memcmp(wide, expected, sizeof wide));
  RETURNS(hipErrorInvalidPitchValue, hipMemcpy2D(device, 2, square, 8, 3, 5, hipMemcpyHostToDevice));
  OK(hipFree(device));

  /* Three-dimensional: the middle of a 4 x 4 x 4 cube into pitched memory. */
  unsigned char cube[64], middle[8];
  for (int i = 0; i < 64; ++i)
    cube[i] = (unsigned char)(i + 1);
  hipPitchedPtr box;
  OK(hipMalloc3D(&box, (hipExtent){4, 4, 4}));
  EXPECT(box.pitch >= 4);
  OK(hipMemset3D(box, 0, (hipExtent){4, 4, 4}));
  hipMemcpy3DParms p;
  memset(&p, 0, sizeof p);
  p.srcPtr = (hipPitchedPtr){cube, 4, 4, 4};
  p.srcPos = (hipPos){1, 1, 1};
  p.dstPtr = box;
  p.extent = (hipExtent){2, 2, 2};
  p.kind = hipMemcpyHostToDevice;
  OK(hipMemcpy3D(&p));
  p.srcPtr = box, p.srcPos = (hipPos){0, 0, 0}, p.dstPtr = (hipPitchedPtr){middle, 2, 2, 2};
  p.kind = hipMemcpyDeviceToHost;
  OK(hipMemcpy3D(&p));
  for (int i = 0; i < 8; ++i)
    EXPECT(middle[i] == 1 + 21 + (i & 1) + 4 * (i >> 1 & 1) + 16 * (i >> 2) );
  OK(hipFree(box.ptr));
  OK(hipMallocPitch(&device, &pitch, 100, 3));
  EXPECT(pitch >= 100);
  OK(hipFree(device));

  /* Pointers. */
  hipPointerAttribute_t a;
  OK(hipPointerGetAttributes(&a, in + 3));
  EXPECT(a.type == 2 && a.devicePointer == in + 3 && !a.isManaged);
  RETURNS(hipErrorInvalidValue, hipPointerGetAttributes(&a, host));
  void *start = NULL;
  size_t size = 0;
  OK(hipPointerGetAttribute(&start, 11, in + 3));
  OK(hipPointerGetAttribute(&size, 12, in + 3));
  EXPECT(start == in && size == sizeof host);
  void *pinned, *managed;
  unsigned flags = 0;
  OK(hipHostMalloc(&pinned, 64, 2));
  OK(hipHostGetFlags(&flags, pinned));
  EXPECT(flags == 2);
  OK(hipPointerGetAttributes(&a, pinned));
  EXPECT(a.type == 1 && a.hostPointer == pinned);
  OK(hipHostFree(pinned));
  OK(hipMallocManaged(&managed, 64, 1));
  OK(hipPointerGetAttributes(&a, managed));
  EXPECT(a.type == 3 && a.isManaged);
  OK(hipFree(managed));
  OK(hipHostRegister(host, sizeof host, 0));
  RETURNS(hipErrorHostMemoryAlreadyRegistered, hipHostRegister(host, sizeof host, 0));
  OK(hipHostUnregister(host));

  /* Pools. */
  hipMemPool_t pool;
  uint64_t used = 1, before = 1, threshold = 1 << 20;
  OK(hipDeviceGetDefaultMemPool(&pool, 0));
  OK(hipMemPoolGetAttribute(pool, 7, &before));
  OK(hipMemPoolSetAttribute(pool, 4, &threshold));
  threshold = 0;
  OK(hipMemPoolGetAttribute(pool, 4, &threshold));
  EXPECT(threshold == 1 << 20);
  OK(hipMallocAsync(&device, 4096, NULL));
  OK(hipMemPoolGetAttribute(pool, 7, &used));
  EXPECT(used == before + 4096);
  OK(hipFreeAsync(device, NULL));
  OK(hipMemPoolGetAttribute(pool, 7, &used));
  EXPECT(used == before);
  OK(hipMemPoolTrimTo(pool, 0));
  hipGetLastError();
}

static void streams(hipModule_t module) {
  hipStream_t s, t;
  hipEvent_t start, stop;
  float ms = -1;
  uint32_t *flag;
  int by = 4, n = N;
  void *arguments[] = {&out, &in, &n, &by};
  OK(hipStreamCreate(&s));
  OK(hipStreamCreate(&t));
  OK(hipEventCreate(&start));
  OK(hipEventCreate(&stop));
  OK(hipMalloc((void **)&flag, 64));
  OK(hipMemset(flag, 0, 64));
  OK(hipMemset(out, 0, sizeof host));
  OK(hipDeviceSynchronize());
  /* The stream waits for a value that the host writes through another stream later. */
  OK(hipEventRecord(start, s));
  OK(hipStreamWaitValue32(s, flag, 3, hipStreamWaitValueGte, ~0u));
  OK(hipModuleLaunchKernel(add, N / 64, 1, 1, 64, 1, 1, 0, s, arguments, NULL));
  OK(hipEventRecord(stop, s));
  RETURNS(hipErrorNotReady, hipStreamQuery(s));
  RETURNS(hipErrorNotReady, hipEventQuery(stop));
  OK(hipGetLastError()); /* not ready is no error to remember */
  OK(hipStreamWaitEvent(t, stop, 0));
  hipStream_t writer;
  OK(hipStreamCreateWithFlags(&writer, hipStreamNonBlocking));
  OK(hipStreamWriteValue32(writer, flag, 7, 0));
  OK(hipStreamWriteValue64(writer, flag + 2, 1ull << 40, 0));
  OK(hipStreamSynchronize(t));
  OK(hipEventSynchronize(stop));
  OK(hipStreamSynchronize(s));
  OK(hipStreamQuery(s));
  EXPECT(holds(0, 4));
  OK(hipEventElapsedTime(&ms, start, stop));
  EXPECT(ms >= 0);
  uint64_t wide;
  OK(hipMemcpy(&wide, flag + 2, 8, hipMemcpyDeviceToHost));
  EXPECT(wide == 1ull << 40);
  OK(hipFree(flag));
  OK(hipEventDestroy(start));
  OK(hipEventDestroy(stop));
  OK(hipStreamDestroy(s));
  OK(hipStreamDestroy(t));
  OK(hipStreamDestroy(writer));

  int blocks = 0, grid = 0, block = 0, value = -1;
  OK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 64, 0));
  EXPECT(blocks > 0);
  OK(hipOccupancyMaxPotentialBlockSize(&grid, &block, add, 0, 0));
  EXPECT(grid > 0 && block >= 64);
  RETURNS(hipErrorInvalidDeviceFunction, hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, host, 64, 0));
  OK(hipFuncSetAttribute(add, 8, 1024));
  RETURNS(hipErrorInvalidValue, hipFuncSetAttribute(add, 8, 1 << 30));
  hipDeviceptr_t bias;
  size_t size = 0;
  OK(hipModuleGetGlobal(&bias, &size, module, "bias"));
  EXPECT(size == 4);
  for (int attribute = 0; attribute <= 91; ++attribute)
    OK(hipDeviceGetAttribute(&value, attribute, 0));
  for (int attribute = 10000; attribute <= 10019; ++attribute)
    OK(hipDeviceGetAttribute(&value, attribute, 0));
  OK(hipDeviceGetAttribute(&value, 10013, 0));
  EXPECT(value == 1);
  hipGetLastError();
}

/* The child of a fork that has not touched HIP opens what the parent sends. */
static void child(int from, int to) {
  hipIpcEventHandle_t e;
  hipIpcMemHandle_t m;
  hipEvent_t event;
  hipStream_t stream;
  int *shared, got[N];
  char ready = 1;
  EXPECT(read(from, &e, sizeof e) == sizeof e && read(from, &m, sizeof m) == sizeof m);
  OK(hipInit(0));
  OK(hipIpcOpenEventHandle(&event, e));
  OK(hipIpcOpenMemHandle((void **)&shared, m, 1));
  OK(hipStreamCreate(&stream));
  RETURNS(hipErrorNotReady, hipEventQuery(event));
  OK(hipStreamWaitEvent(stream, event, 0));
  OK(hipMemcpyAsync(got, shared, sizeof got, hipMemcpyDeviceToHost, stream));
  RETURNS(hipErrorNotReady, hipStreamQuery(stream));
  EXPECT(write(to, &ready, 1) == 1); /* only now does the parent let its stream go on */
  OK(hipStreamSynchronize(stream));
  OK(hipEventQuery(event));
  EXPECT(got[7] == 7 + 33);
  OK(hipIpcCloseMemHandle(shared));
  _exit(failures != 0);
}

int main(int argc, char **argv) {
  int there[2], back[2], n = N, status = 0;
  hipModule_t module;
  if (argc != 2 || pipe(there) || pipe(back))
    return 2;
  pid_t pid = fork();
  if (pid == 0)
    child(there[0], back[1]);

  OK(hipInit(0));
  for (int i = 0; i < N; ++i)
    host[i] = i;
  OK(hipMalloc((void **)&in, sizeof host));
  OK(hipMalloc((void **)&out, sizeof host));
  OK(hipMemcpy(in, host, sizeof host, hipMemcpyHostToDevice));
  OK(hipModuleLoad(&module, argv[1]));
  OK(hipModuleGetFunction(&add, module, "add"));
  errors();
  graphs();
  capture();
  memory();
  streams(module);

  hipEvent_t event, plain;
  hipStream_t stream;
  hipIpcEventHandle_t e;
  hipIpcMemHandle_t m;
  uint32_t *gate;
  char ready;
  int by = 33;
  void *arguments[] = {&out, &in, &n, &by};
  OK(hipEventCreate(&plain));
  RETURNS(hipErrorInvalidValue, hipIpcGetEventHandle(&e, plain));
  RETURNS(hipErrorInvalidValue, hipEventCreateWithFlags(&event, hipEventInterprocess));
  OK(hipEventCreateWithFlags(&event, hipEventInterprocess | hipEventDisableTiming));
  OK(hipStreamCreate(&stream));
  OK(hipMalloc((void **)&gate, 64));
  OK(hipMemset(gate, 0, 64));
  OK(hipIpcGetEventHandle(&e, event));
  OK(hipIpcGetMemHandle(&m, out));
  OK(hipStreamWaitValue32(stream, gate, 1, hipStreamWaitValueEq, ~0u));
  OK(hipModuleLaunchKernel(add, N / 64, 1, 1, 64, 1, 1, 0, stream, arguments, NULL));
  OK(hipEventRecord(event, stream));
  EXPECT(write(there[1], &e, sizeof e) == sizeof e && write(there[1], &m, sizeof m) == sizeof m);
  EXPECT(read(back[0], &ready, 1) == 1);
  *gate = 1;
  OK(hipStreamSynchronize(stream));
  EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  OK(hipModuleUnload(module));
#ifdef SCARCE
  printf("%ld calls without memory\n", refused);
#endif
  printf(failures ? "%d failures\n" : "passed\n", failures);
  return failures != 0;
}
