//===- Entries.h - functions of the API that others of them call -*- C++ -*-===//
//
// Every file of this folder includes it, the ones that define these functions among them, so that
// the compiler compares each definition with what its callers see.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_HIP_ENTRIES_H
#define FLYSIM_HIP_ENTRIES_H

#include "hip/HipTypes.h"

#define FLYSIM_API extern "C" __attribute__((visibility("default")))

namespace flysim {
struct MemAllocParams;
}

// Capture.cpp
FLYSIM_API hipError_t hipStreamBeginCapture(void *stream, int mode);
FLYSIM_API hipError_t hipStreamEndCapture(void *stream, void **graph);
FLYSIM_API hipError_t hipStreamIsCapturing(void *stream, int *status);
FLYSIM_API hipError_t hipStreamGetCaptureInfo(void *stream, int *status, unsigned long long *id);
FLYSIM_API hipError_t hipStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id,
                                                 void **graph, void ***deps, size_t *count);

// Copies.cpp
FLYSIM_API hipError_t hipMemcpy(void *dst, const void *src, size_t size, int kind);
FLYSIM_API hipError_t hipMemcpyAsync(void *dst, const void *src, size_t size, int kind,
                                     void *stream);
FLYSIM_API hipError_t hipMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch,
                                  size_t width, size_t height, int kind);
FLYSIM_API hipError_t hipMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                                       size_t width, size_t height, int kind, void *stream);
FLYSIM_API hipError_t hipMemcpy3D(const hipMemcpy3DParms *p);
FLYSIM_API hipError_t hipMemcpy3DAsync(const hipMemcpy3DParms *p, void *stream);
FLYSIM_API hipError_t hipMemset(void *dst, int value, size_t size);
FLYSIM_API hipError_t hipMemsetAsync(void *dst, int value, size_t size, void *stream);
FLYSIM_API hipError_t hipMemset2D(void *dst, size_t pitch, int value, size_t width, size_t height);
FLYSIM_API hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width,
                                       size_t height, void *stream);
FLYSIM_API hipError_t hipMemset3D(hipPitchedPtr p, int value, hipExtent extent);
FLYSIM_API hipError_t hipMemset3DAsync(hipPitchedPtr p, int value, hipExtent extent, void *stream);

// Device.cpp
FLYSIM_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device);

// DeviceExtras.cpp
FLYSIM_API hipError_t hipGetProcAddress(const char *name, void **out, int, uint64_t, int *status);

// Events.cpp
FLYSIM_API hipError_t hipEventDestroy(void *event);
FLYSIM_API hipError_t hipEventRecord(void *event, void *stream);

// GraphApi.cpp
FLYSIM_API hipError_t hipGraphLaunch(void *exec, void *stream);

// GraphNodes.cpp
FLYSIM_API hipError_t hipGraphAddEmptyNode(void **node, void *graph, void *const *deps,
                                           size_t count);
FLYSIM_API hipError_t hipGraphAddKernelNode(void **node, void *graph, void *const *deps,
                                            size_t count, const hipKernelNodeParams *p);
FLYSIM_API hipError_t hipGraphKernelNodeSetParams(void *node, const hipKernelNodeParams *p);
FLYSIM_API hipError_t hipGraphExecKernelNodeSetParams(void *exec, void *node,
                                                      const hipKernelNodeParams *p);
FLYSIM_API hipError_t hipGraphAddMemcpyNode(void **node, void *graph, void *const *deps,
                                            size_t count, const hipMemcpy3DParms *p);
FLYSIM_API hipError_t hipGraphAddMemcpyNode1D(void **node, void *graph, void *const *deps,
                                              size_t count, void *dst, const void *src,
                                              size_t bytes, int kind);
FLYSIM_API hipError_t hipGraphMemcpyNodeGetParams(void *node, hipMemcpy3DParms *p);
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParams(void *node, const hipMemcpy3DParms *p);
FLYSIM_API hipError_t hipGraphMemcpyNodeSetParams1D(void *node, void *dst, const void *src,
                                                    size_t bytes, int kind);
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParams(void *exec, void *node, hipMemcpy3DParms *p);
FLYSIM_API hipError_t hipGraphExecMemcpyNodeSetParams1D(void *exec, void *node, void *dst,
                                                        const void *src, size_t bytes, int kind);
FLYSIM_API hipError_t hipGraphAddMemsetNode(void **node, void *graph, void *const *deps,
                                            size_t count, const hipMemsetParams *p);
FLYSIM_API hipError_t hipGraphMemsetNodeSetParams(void *node, const hipMemsetParams *p);
FLYSIM_API hipError_t hipGraphExecMemsetNodeSetParams(void *exec, void *node,
                                                      const hipMemsetParams *p);
FLYSIM_API hipError_t hipGraphAddHostNode(void **node, void *graph, void *const *deps, size_t count,
                                          const hipHostNodeParams *p);
FLYSIM_API hipError_t hipGraphHostNodeSetParams(void *node, const hipHostNodeParams *p);
FLYSIM_API hipError_t hipGraphExecHostNodeSetParams(void *exec, void *node,
                                                    const hipHostNodeParams *p);
FLYSIM_API hipError_t hipGraphAddEventRecordNode(void **node, void *graph, void *const *deps,
                                                 size_t count, void *event);
FLYSIM_API hipError_t hipGraphAddEventWaitNode(void **node, void *graph, void *const *deps,
                                               size_t count, void *event);
FLYSIM_API hipError_t hipGraphEventRecordNodeSetEvent(void *node, void *event);
FLYSIM_API hipError_t hipGraphEventWaitNodeSetEvent(void *node, void *event);
FLYSIM_API hipError_t hipGraphExecEventRecordNodeSetEvent(void *exec, void *node, void *event);
FLYSIM_API hipError_t hipGraphExecEventWaitNodeSetEvent(void *exec, void *node, void *event);
FLYSIM_API hipError_t hipGraphAddChildGraphNode(void **node, void *graph, void *const *deps,
                                                size_t count, void *child);
FLYSIM_API hipError_t hipGraphExecChildGraphNodeSetParams(void *exec, void *node, void *child);
FLYSIM_API hipError_t hipGraphAddMemAllocNode(void **node, void *graph, void *const *deps,
                                              size_t count, flysim::MemAllocParams *p);
FLYSIM_API hipError_t hipGraphAddMemFreeNode(void **node, void *graph, void *const *deps,
                                             size_t count, void *p);

// Launch.cpp
FLYSIM_API hipError_t hipDrvLaunchKernelEx(const HIP_LAUNCH_CONFIG *c, void *f, void **params,
                                           void **extra);
FLYSIM_API hipError_t hipModuleLaunchCooperativeKernel(void *f, unsigned gx, unsigned gy,
                                                       unsigned gz, unsigned bx, unsigned by,
                                                       unsigned bz, unsigned lds, void *stream,
                                                       void **params);

// MemoryApi.cpp
FLYSIM_API hipError_t hipMallocManaged(void **p, size_t size, unsigned flags);

// Module.cpp
FLYSIM_API hipError_t hipModuleLoadData(void **module, const void *image);
FLYSIM_API hipError_t hipModuleLoad(void **module, const char *path);
FLYSIM_API hipError_t hipModuleUnload(void *module);
FLYSIM_API hipError_t flysimModuleRelease(void *handle);
FLYSIM_API hipError_t hipModuleGetFunction(void **function, void *module, const char *name);
FLYSIM_API hipError_t hipModuleGetFunctionCount(unsigned *count, void *module);
FLYSIM_API hipError_t hipModuleGetGlobal(void **address, size_t *bytes, void *module,
                                         const char *name);

// Register.cpp
FLYSIM_API hipError_t hipGetFuncBySymbol(void **function, const void *host);
FLYSIM_API hipError_t hipGetSymbolAddress(void **address, const void *host);
FLYSIM_API hipError_t hipGetSymbolSize(size_t *bytes, const void *host);
FLYSIM_API hipError_t hipMemcpyToSymbol(const void *host, const void *src, size_t size,
                                        size_t offset, int kind);
FLYSIM_API hipError_t hipMemcpyToSymbolAsync(const void *host, const void *src, size_t size,
                                             size_t offset, int kind, void *stream);
FLYSIM_API hipError_t hipMemcpyFromSymbol(void *dst, const void *host, size_t size, size_t offset,
                                          int kind);
FLYSIM_API hipError_t hipMemcpyFromSymbolAsync(void *dst, const void *host, size_t size,
                                               size_t offset, int kind, void *stream);

// Streams.cpp
FLYSIM_API hipError_t hipStreamDestroy(void *stream);
FLYSIM_API hipError_t hipStreamSynchronize(void *stream);
FLYSIM_API hipError_t hipStreamQuery(void *stream);
FLYSIM_API hipError_t hipStreamWaitEvent(void *stream, void *event, unsigned flags);
FLYSIM_API hipError_t hipStreamGetFlags(void *stream, unsigned *flags);
FLYSIM_API hipError_t hipStreamGetPriority(void *stream, int *priority);
FLYSIM_API hipError_t hipStreamAddCallback(void *stream, void (*callback)(void *, int, void *),
                                           void *data, unsigned flags);
FLYSIM_API hipError_t hipLaunchHostFunc(void *stream, void (*fn)(void *), void *data);

// SymbolLaunch.cpp
FLYSIM_API hipError_t hipLaunchKernel(const void *host, dim3 grid, dim3 block, void **params,
                                      size_t lds, void *stream);
FLYSIM_API hipError_t hipLaunchCooperativeKernel(const void *host, dim3 grid, dim3 block,
                                                 void **params, unsigned lds, void *stream);

#endif
