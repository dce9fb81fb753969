//===- PerThread.cpp - the null stream as a stream of each thread ---------===//
//
// What programs call that were compiled with -fgpu-default-stream=per-thread: to them, the
// null stream is hipStreamPerThread.
//
//===----------------------------------------------------------------------===//

#include "hip/Runtime.h"

using namespace flysim;

namespace {
void *own(void *stream) { return stream ? stream : reinterpret_cast<void *>(2); }
} // namespace

FLYSIM_API hipError_t hipMemcpy_spt(void *dst, const void *src, size_t size, int kind) {
  return hipMemcpy(dst, src, size, kind);
}
FLYSIM_API hipError_t hipMemcpyAsync_spt(void *dst, const void *src, size_t size, int kind,
                                        void *stream) {
  return hipMemcpyAsync(dst, src, size, kind, own(stream));
}
FLYSIM_API hipError_t hipMemcpyToSymbol_spt(const void *symbol, const void *src, size_t size,
                                        size_t offset, int kind) {
  return hipMemcpyToSymbol(symbol, src, size, offset, kind);
}
FLYSIM_API hipError_t hipMemcpyToSymbolAsync_spt(const void *symbol, const void *src,
                                        size_t size, size_t offset, int kind, void *stream) {
  return hipMemcpyToSymbolAsync(symbol, src, size, offset, kind, own(stream));
}
FLYSIM_API hipError_t hipMemcpyFromSymbol_spt(void *dst, const void *symbol, size_t size,
                                        size_t offset, int kind) {
  return hipMemcpyFromSymbol(dst, symbol, size, offset, kind);
}
FLYSIM_API hipError_t hipMemcpyFromSymbolAsync_spt(void *dst, const void *symbol, size_t size,
                                        size_t offset, int kind, void *stream) {
  return hipMemcpyFromSymbolAsync(dst, symbol, size, offset, kind, own(stream));
}
FLYSIM_API hipError_t hipMemcpy2D_spt(void *dst, size_t dpitch, const void *src, size_t spitch,
                                      size_t width, size_t height, int kind) {
  return hipMemcpy2D(dst, dpitch, src, spitch, width, height, kind);
}
FLYSIM_API hipError_t hipMemcpy2DAsync_spt(void *dst, size_t dpitch, const void *src,
                                        size_t spitch, size_t width, size_t height, int kind, void *stream) {
  return hipMemcpy2DAsync(dst, dpitch, src, spitch, width, height, kind, own(stream));
}
FLYSIM_API hipError_t hipMemcpy3D_spt(const hipMemcpy3DParms *params) {
  return hipMemcpy3D(params);
}
FLYSIM_API hipError_t hipMemcpy3DAsync_spt(const hipMemcpy3DParms *params, void *stream) {
  return hipMemcpy3DAsync(params, own(stream));
}
FLYSIM_API hipError_t hipMemset_spt(void *dst, int value, size_t size) {
  return hipMemset(dst, value, size);
}
FLYSIM_API hipError_t hipMemsetAsync_spt(void *dst, int value, size_t size, void *stream) {
  return hipMemsetAsync(dst, value, size, own(stream));
}
FLYSIM_API hipError_t hipMemset2D_spt(void *dst, size_t pitch, int value, size_t width,
                                      size_t height) {
  return hipMemset2D(dst, pitch, value, width, height);
}
FLYSIM_API hipError_t hipMemset2DAsync_spt(void *dst, size_t pitch, int value, size_t width,
                                        size_t height, void *stream) {
  return hipMemset2DAsync(dst, pitch, value, width, height, own(stream));
}
FLYSIM_API hipError_t hipMemset3D_spt(hipPitchedPtr memory, int value, hipExtent extent) {
  return hipMemset3D(memory, value, extent);
}
FLYSIM_API hipError_t hipMemset3DAsync_spt(hipPitchedPtr memory, int value, hipExtent extent,
                                        void *stream) {
  return hipMemset3DAsync(memory, value, extent, own(stream));
}
FLYSIM_API hipError_t hipStreamQuery_spt(void *stream) {
  return hipStreamQuery(own(stream));
}
FLYSIM_API hipError_t hipStreamSynchronize_spt(void *stream) {
  return hipStreamSynchronize(own(stream));
}
FLYSIM_API hipError_t hipStreamGetPriority_spt(void *stream, int *priority) {
  return hipStreamGetPriority(own(stream), priority);
}
FLYSIM_API hipError_t hipStreamGetFlags_spt(void *stream, unsigned *flags) {
  return hipStreamGetFlags(own(stream), flags);
}
FLYSIM_API hipError_t hipStreamWaitEvent_spt(void *stream, void *event, unsigned flags) {
  return hipStreamWaitEvent(own(stream), event, flags);
}
FLYSIM_API hipError_t hipStreamAddCallback_spt(void *stream, void (*callback)(void *, int,
                                        void *), void *data, unsigned flags) {
  return hipStreamAddCallback(own(stream), callback, data, flags);
}
FLYSIM_API hipError_t hipLaunchHostFunc_spt(void *stream, void (*function)(void *), void *data) {
  return hipLaunchHostFunc(own(stream), function, data);
}
FLYSIM_API hipError_t hipEventRecord_spt(void *event, void *stream) {
  return hipEventRecord(event, own(stream));
}
FLYSIM_API hipError_t hipLaunchKernel_spt(const void *host, dim3 grid, dim3 block, void **params,
                                        size_t lds, void *stream) {
  return hipLaunchKernel(host, grid, block, params, lds, own(stream));
}
FLYSIM_API hipError_t hipLaunchCooperativeKernel_spt(const void *host, dim3 grid, dim3 block,
                                        void **params, unsigned lds, void *stream) {
  return hipLaunchCooperativeKernel(host, grid, block, params, lds, own(stream));
}
FLYSIM_API hipError_t hipGraphLaunch_spt(void *exec, void *stream) {
  return hipGraphLaunch(exec, own(stream));
}
FLYSIM_API hipError_t hipStreamBeginCapture_spt(void *stream, int mode) {
  return hipStreamBeginCapture(own(stream), mode);
}
FLYSIM_API hipError_t hipStreamEndCapture_spt(void *stream, void **graph) {
  return hipStreamEndCapture(own(stream), graph);
}
FLYSIM_API hipError_t hipStreamIsCapturing_spt(void *stream, int *status) {
  return hipStreamIsCapturing(own(stream), status);
}
FLYSIM_API hipError_t hipStreamGetCaptureInfo_spt(void *stream, int *status,
                                        unsigned long long *id) {
  return hipStreamGetCaptureInfo(own(stream), status, id);
}
FLYSIM_API hipError_t hipStreamGetCaptureInfo_v2_spt(void *stream, int *status,
                                        unsigned long long *id, void **graph, void ***deps,
                                        size_t *count) {
  return hipStreamGetCaptureInfo_v2(own(stream), status, id, graph, deps, count);
}
FLYSIM_API hipError_t hipGetProcAddress_spt(const char *name, void **out, int version,
                                        uint64_t flags,
                                            int *status) try {
  if (name && out)
    if (hipGetProcAddress((std::string(name) + "_spt").c_str(), out, version, flags,
        status) == hipSuccess)
      return hipSuccess;
  return hipGetProcAddress(name, out, version, flags, status);
} FLYSIM_GUARDED
