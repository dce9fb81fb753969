/* The part of the HIP C API that hip_program.c uses: names, numbers and layouts of the published interface. */
#ifndef HIP_API_H
#define HIP_API_H
#include <stddef.h>
#include <stdint.h>

typedef int hipError_t;
enum {
  hipSuccess = 0, hipErrorInvalidValue = 1, hipErrorOutOfMemory = 2, hipErrorInvalidPitchValue = 12,
  hipErrorInvalidMemcpyDirection = 21,
  hipErrorInvalidDeviceFunction = 98, hipErrorInvalidHandle = 400, hipErrorNotReady = 600,
  hipErrorPeerAccessAlreadyEnabled = 704, hipErrorHostMemoryAlreadyRegistered = 712, hipErrorNotSupported = 801,
  hipErrorStreamCaptureUnsupported = 900, hipErrorStreamCaptureInvalidated = 901, hipErrorStreamCaptureUnmatched = 903,
  hipErrorStreamCaptureUnjoined = 904, hipErrorStreamCaptureIsolation = 905, hipErrorStreamCaptureImplicit = 906,
  hipErrorCapturedEvent = 907, hipErrorGraphExecUpdateFailure = 910
};
enum { hipMemcpyHostToHost, hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault };
enum { hipStreamCaptureModeGlobal, hipStreamCaptureModeThreadLocal, hipStreamCaptureModeRelaxed };
enum { hipGraphNodeTypeKernel, hipGraphNodeTypeMemcpy, hipGraphNodeTypeMemset, hipGraphNodeTypeHost,
       hipGraphNodeTypeGraph, hipGraphNodeTypeEmpty, hipGraphNodeTypeWaitEvent, hipGraphNodeTypeEventRecord };
enum { hipStreamNonBlocking = 1, hipEventDisableTiming = 2, hipEventInterprocess = 4 };
enum { hipStreamWaitValueGte, hipStreamWaitValueEq, hipStreamWaitValueAnd, hipStreamWaitValueNor };

typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef struct ihipModule_t *hipModule_t;
typedef struct ihipModuleSymbol_t *hipFunction_t;
typedef struct ihipGraph *hipGraph_t;
typedef struct hipGraphNode *hipGraphNode_t;
typedef struct hipGraphExec *hipGraphExec_t;
typedef struct ihipMemPoolHandle_t *hipMemPool_t;
typedef struct hipUserObject *hipUserObject_t;
typedef void *hipDeviceptr_t;
typedef struct { uint32_t x, y, z; } dim3;
typedef struct { char reserved[64]; } hipIpcEventHandle_t;
typedef struct { char reserved[64]; } hipIpcMemHandle_t;

typedef struct {
  dim3 blockDim; void **extra; void *func; dim3 gridDim; void **kernelParams; unsigned sharedMemBytes;
} hipKernelNodeParams;
typedef struct { void (*fn)(void *); void *userData; } hipHostNodeParams;
typedef struct {
  void *dst; unsigned elementSize; size_t height, pitch; unsigned value; size_t width;
} hipMemsetParams;
typedef struct { void *ptr; size_t pitch, xsize, ysize; } hipPitchedPtr;
typedef struct { size_t width, height, depth; } hipExtent;
typedef struct { size_t x, y, z; } hipPos;
typedef struct {
  void *srcArray; hipPos srcPos; hipPitchedPtr srcPtr; void *dstArray; hipPos dstPos; hipPitchedPtr dstPtr;
  hipExtent extent; int kind;
} hipMemcpy3DParms;
typedef struct {
  size_t srcXInBytes, srcY; int srcMemoryType; const void *srcHost; hipDeviceptr_t srcDevice; void *srcArray;
  size_t srcPitch, dstXInBytes, dstY; int dstMemoryType; void *dstHost; hipDeviceptr_t dstDevice; void *dstArray;
  size_t dstPitch, WidthInBytes, Height;
} hip_Memcpy2D;
typedef struct {
  int type, device; void *devicePointer, *hostPointer; int isManaged; unsigned allocationFlags;
} hipPointerAttribute_t;

hipError_t hipInit(unsigned);
hipError_t hipGetLastError(void);
hipError_t hipPeekAtLastError(void);
const char *hipGetErrorName(hipError_t);
const char *hipGetErrorString(hipError_t);
hipError_t hipMalloc(void **, size_t);
hipError_t hipFree(void *);
hipError_t hipHostMalloc(void **, size_t, unsigned);
hipError_t hipHostFree(void *);
hipError_t hipHostGetFlags(unsigned *, void *);
hipError_t hipHostRegister(void *, size_t, unsigned);
hipError_t hipHostUnregister(void *);
hipError_t hipMallocManaged(void **, size_t, unsigned);
hipError_t hipMallocPitch(void **, size_t *, size_t, size_t);
hipError_t hipMalloc3D(hipPitchedPtr *, hipExtent);
hipError_t hipMallocAsync(void **, size_t, hipStream_t);
hipError_t hipFreeAsync(void *, hipStream_t);
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t *, int);
hipError_t hipMemPoolSetAttribute(hipMemPool_t, int, void *);
hipError_t hipMemPoolGetAttribute(hipMemPool_t, int, void *);
hipError_t hipMemPoolTrimTo(hipMemPool_t, size_t);
hipError_t hipMemcpy(void *, const void *, size_t, int);
hipError_t hipMemcpyAsync(void *, const void *, size_t, int, hipStream_t);
hipError_t hipMemcpy2D(void *, size_t, const void *, size_t, size_t, size_t, int);
hipError_t hipMemcpyParam2D(const hip_Memcpy2D *);
hipError_t hipMemcpy3D(const hipMemcpy3DParms *);
hipError_t hipMemset(void *, int, size_t);
hipError_t hipMemsetAsync(void *, int, size_t, hipStream_t);
hipError_t hipMemset2D(void *, size_t, int, size_t, size_t);
hipError_t hipMemset3D(hipPitchedPtr, int, hipExtent);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *, const void *);
hipError_t hipPointerGetAttribute(void *, int, hipDeviceptr_t);
hipError_t hipStreamCreate(hipStream_t *);
hipError_t hipStreamCreateWithFlags(hipStream_t *, unsigned);
hipError_t hipStreamDestroy(hipStream_t);
hipError_t hipStreamSynchronize(hipStream_t);
hipError_t hipStreamQuery(hipStream_t);
hipError_t hipStreamWaitEvent(hipStream_t, hipEvent_t, unsigned);
hipError_t hipStreamWaitValue32(hipStream_t, void *, uint32_t, unsigned, uint32_t);
hipError_t hipStreamWriteValue32(hipStream_t, void *, uint32_t, unsigned);
hipError_t hipStreamWriteValue64(hipStream_t, void *, uint64_t, unsigned);
hipError_t hipStreamBeginCapture(hipStream_t, int);
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t *);
hipError_t hipStreamIsCapturing(hipStream_t, int *);
hipError_t hipStreamGetCaptureInfo_v2(hipStream_t, int *, unsigned long long *, hipGraph_t *, const hipGraphNode_t **,
                                      size_t *);
hipError_t hipThreadExchangeStreamCaptureMode(int *);
hipError_t hipEventCreate(hipEvent_t *);
hipError_t hipEventCreateWithFlags(hipEvent_t *, unsigned);
hipError_t hipEventDestroy(hipEvent_t);
hipError_t hipEventRecord(hipEvent_t, hipStream_t);
hipError_t hipEventSynchronize(hipEvent_t);
hipError_t hipEventQuery(hipEvent_t);
hipError_t hipEventElapsedTime(float *, hipEvent_t, hipEvent_t);
hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *, hipEvent_t);
hipError_t hipIpcOpenEventHandle(hipEvent_t *, hipIpcEventHandle_t);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *, void *);
hipError_t hipIpcOpenMemHandle(void **, hipIpcMemHandle_t, unsigned);
hipError_t hipIpcCloseMemHandle(void *);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceGetAttribute(int *, int, int);
hipError_t hipDeviceEnablePeerAccess(int, unsigned);
hipError_t hipModuleLoad(hipModule_t *, const char *);
hipError_t hipModuleUnload(hipModule_t);
hipError_t hipModuleGetFunction(hipFunction_t *, hipModule_t, const char *);
hipError_t hipModuleGetGlobal(hipDeviceptr_t *, size_t *, hipModule_t, const char *);
hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 hipStream_t, void **, void **);
hipError_t hipFuncSetAttribute(const void *, int, int);
hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *, const void *, int, size_t);
hipError_t hipOccupancyMaxPotentialBlockSize(int *, int *, const void *, size_t, int);
hipError_t hipGetProcAddress(const char *, void **, int, uint64_t, int *);
hipError_t hipGraphCreate(hipGraph_t *, unsigned);
hipError_t hipGraphDestroy(hipGraph_t);
hipError_t hipGraphClone(hipGraph_t *, hipGraph_t);
hipError_t hipGraphNodeFindInClone(hipGraphNode_t *, hipGraphNode_t, hipGraph_t);
hipError_t hipGraphAddKernelNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t,
                                 const hipKernelNodeParams *);
hipError_t hipGraphAddMemcpyNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, const hipMemcpy3DParms *);
hipError_t hipGraphAddMemcpyNode1D(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, void *, const void *,
                                   size_t, int);
hipError_t hipGraphAddMemsetNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, const hipMemsetParams *);
hipError_t hipGraphAddHostNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, const hipHostNodeParams *);
hipError_t hipGraphAddEmptyNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t);
hipError_t hipGraphAddChildGraphNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, hipGraph_t);
hipError_t hipGraphAddEventRecordNode(hipGraphNode_t *, hipGraph_t, const hipGraphNode_t *, size_t, hipEvent_t);
hipError_t hipGraphAddDependencies(hipGraph_t, const hipGraphNode_t *, const hipGraphNode_t *, size_t);
hipError_t hipGraphRemoveDependencies(hipGraph_t, const hipGraphNode_t *, const hipGraphNode_t *, size_t);
hipError_t hipGraphGetNodes(hipGraph_t, hipGraphNode_t *, size_t *);
hipError_t hipGraphGetRootNodes(hipGraph_t, hipGraphNode_t *, size_t *);
hipError_t hipGraphGetEdges(hipGraph_t, hipGraphNode_t *, hipGraphNode_t *, size_t *);
hipError_t hipGraphNodeGetType(hipGraphNode_t, int *);
hipError_t hipGraphNodeGetDependencies(hipGraphNode_t, hipGraphNode_t *, size_t *);
hipError_t hipGraphNodeGetDependentNodes(hipGraphNode_t, hipGraphNode_t *, size_t *);
hipError_t hipGraphDestroyNode(hipGraphNode_t);
hipError_t hipGraphKernelNodeGetParams(hipGraphNode_t, hipKernelNodeParams *);
hipError_t hipGraphKernelNodeSetParams(hipGraphNode_t, const hipKernelNodeParams *);
hipError_t hipGraphMemsetNodeGetParams(hipGraphNode_t, hipMemsetParams *);
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams *);
hipError_t hipGraphExecMemsetNodeSetParams(hipGraphExec_t, hipGraphNode_t, const hipMemsetParams *);
hipError_t hipGraphExecMemcpyNodeSetParams1D(hipGraphExec_t, hipGraphNode_t, void *, const void *, size_t, int);
hipError_t hipGraphNodeSetEnabled(hipGraphExec_t, hipGraphNode_t, unsigned);
hipError_t hipGraphInstantiate(hipGraphExec_t *, hipGraph_t, hipGraphNode_t *, char *, size_t);
hipError_t hipGraphExecUpdate(hipGraphExec_t, hipGraph_t, hipGraphNode_t *, int *);
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t);
hipError_t hipGraphExecDestroy(hipGraphExec_t);
hipError_t hipGraphDebugDotPrint(hipGraph_t, const char *, unsigned);
hipError_t hipUserObjectCreate(hipUserObject_t *, void *, void (*)(void *), unsigned, unsigned);
hipError_t hipGraphRetainUserObject(hipGraph_t, hipUserObject_t, unsigned, unsigned);
hipError_t hipMallocArray(void **, const void *, size_t, size_t, unsigned);
#endif
