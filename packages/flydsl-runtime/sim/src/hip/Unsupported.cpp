//===- Unsupported.cpp - entry points that the simulator does not have ----===//
//
// A program that was linked against the HIP library finds every symbol; calling one of
// these says so instead of failing at load time.
//
//===----------------------------------------------------------------------===//

#include "hip/Runtime.h"

#define FLYSIM_UNSUPPORTED(X) \
  X(hipArray3DCreate) \
  X(hipArray3DGetDescriptor) \
  X(hipArrayCreate) \
  X(hipArrayDestroy) \
  X(hipArrayGetDescriptor) \
  X(hipArrayGetInfo) \
  X(hipBindTexture) \
  X(hipBindTexture2D) \
  X(hipBindTextureToArray) \
  X(hipBindTextureToMipmappedArray) \
  X(hipCreateSurfaceObject) \
  X(hipCreateTextureObject) \
  X(hipDestroyExternalMemory) \
  X(hipDestroyExternalSemaphore) \
  X(hipDestroySurfaceObject) \
  X(hipDestroyTextureObject) \
  X(hipDeviceGetTexture1DLinearMaxWidth) \
  X(hipDrvGraphAddMemFreeNode) \
  X(hipDrvGraphExecMemcpyNodeSetParams) \
  X(hipDrvGraphExecMemsetNodeSetParams) \
  X(hipDrvGraphMemcpyNodeGetParams) \
  X(hipDrvGraphMemcpyNodeSetParams) \
  X(hipExternalMemoryGetMappedBuffer) \
  X(hipExternalMemoryGetMappedMipmappedArray) \
  X(hipFreeArray) \
  X(hipFreeMipmappedArray) \
  X(hipGLGetDevices) \
  X(hipGetChannelDesc) \
  X(hipGetMipmappedArrayLevel) \
  X(hipGetTextureAlignmentOffset) \
  X(hipGetTextureObjectResourceDesc) \
  X(hipGetTextureReference) \
  X(hipGraphAddBatchMemOpNode) \
  X(hipGraphAddExternalSemaphoresSignalNode) \
  X(hipGraphAddExternalSemaphoresWaitNode) \
  X(hipGraphAddMemAllocNode) \
  X(hipGraphAddMemFreeNode) \
  X(hipGraphAddMemcpyNodeFromSymbol) \
  X(hipGraphAddMemcpyNodeToSymbol) \
  X(hipGraphAddNode) \
  X(hipGraphBatchMemOpNodeGetParams) \
  X(hipGraphBatchMemOpNodeSetParams) \
  X(hipGraphExecBatchMemOpNodeSetParams) \
  X(hipGraphExecMemcpyNodeSetParamsFromSymbol) \
  X(hipGraphExecMemcpyNodeSetParamsToSymbol) \
  X(hipGraphExecNodeSetParams) \
  X(hipGraphKernelNodeGetAttribute) \
  X(hipGraphKernelNodeSetAttribute) \
  X(hipGraphMemAllocNodeGetParams) \
  X(hipGraphMemFreeNodeGetParams) \
  X(hipGraphMemcpyNodeSetParamsFromSymbol) \
  X(hipGraphMemcpyNodeSetParamsToSymbol) \
  X(hipGraphNodeSetParams) \
  X(hipGraphicsGLRegisterBuffer) \
  X(hipGraphicsMapResources) \
  X(hipGraphicsUnmapResources) \
  X(hipGraphicsUnregisterResource) \
  X(hipImportExternalMemory) \
  X(hipImportExternalSemaphore) \
  X(hipLaunchByPtr) \
  X(hipLaunchCooperativeKernelMultiDevice) \
  X(hipLibraryGetKernel) \
  X(hipLibraryGetKernelCount) \
  X(hipLibraryLoadData) \
  X(hipLibraryLoadFromFile) \
  X(hipLibraryUnload) \
  X(hipLinkAddData) \
  X(hipLinkAddFile) \
  X(hipLinkComplete) \
  X(hipLinkCreate) \
  X(hipLinkDestroy) \
  X(hipMalloc3DArray) \
  X(hipMallocArray) \
  X(hipMallocMipmappedArray) \
  X(hipMemAddressFree) \
  X(hipMemAddressReserve) \
  X(hipMemCreate) \
  X(hipMemExportToShareableHandle) \
  X(hipMemGetAccess) \
  X(hipMemGetAllocationGranularity) \
  X(hipMemGetAllocationPropertiesFromHandle) \
  X(hipMemGetHandleForAddressRange) \
  X(hipMemImportFromShareableHandle) \
  X(hipMemMap) \
  X(hipMemMapArrayAsync) \
  X(hipMemPoolExportPointer) \
  X(hipMemPoolExportToShareableHandle) \
  X(hipMemPoolImportFromShareableHandle) \
  X(hipMemPoolImportPointer) \
  X(hipMemRangeGetAttributes) \
  X(hipMemRelease) \
  X(hipMemRetainAllocationHandle) \
  X(hipMemSetAccess) \
  X(hipMemUnmap) \
  X(hipMemcpy2DFromArray) \
  X(hipMemcpy2DFromArrayAsync) \
  X(hipMemcpy2DToArray) \
  X(hipMemcpy2DToArrayAsync) \
  X(hipMemcpy3DBatchAsync) \
  X(hipMemcpy3DPeer) \
  X(hipMemcpy3DPeerAsync) \
  X(hipMemcpyAtoA) \
  X(hipMemcpyAtoD) \
  X(hipMemcpyAtoH) \
  X(hipMemcpyBatchAsync) \
  X(hipMemcpyDtoA) \
  X(hipMemcpyFromArray) \
  X(hipMemcpyHtoA) \
  X(hipMemcpyToArray) \
  X(hipMipmappedArrayCreate) \
  X(hipMipmappedArrayDestroy) \
  X(hipMipmappedArrayGetLevel) \
  X(hipModuleGetTexRef) \
  X(hipModuleLaunchCooperativeKernelMultiDevice) \
  X(hipModuleLoadFatBinary) \
  X(hipSignalExternalSemaphoresAsync) \
  X(hipStreamBatchMemOp) \
  X(hipTexObjectCreate) \
  X(hipTexObjectDestroy) \
  X(hipTexRefGetAddress) \
  X(hipTexRefGetFormat) \
  X(hipTexRefSetAddress) \
  X(hipTexRefSetArray) \
  X(hipTexRefSetFormat) \
  X(hipUnbindTexture) \
  X(hipWaitExternalSemaphoresAsync)

using namespace flysim;

// The arguments are not looked at, so every parameter list fits.
#define FLYSIM_STUB(name)                                                                          \
  FLYSIM_API hipError_t name() {                                                                   \
    return fail(hipErrorNotSupported, #name " is not part of the simulator");                      \
  }
FLYSIM_UNSUPPORTED(FLYSIM_STUB)

/// Names of the entry points that return hipErrorNotSupported, separated by spaces.
FLYSIM_API const char *flysimUnsupported() {
#define FLYSIM_NAME(name) #name " "
  return FLYSIM_UNSUPPORTED(FLYSIM_NAME);
}
