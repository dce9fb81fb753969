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
  X(hipExternalMemoryGetMappedBuffer) \
  X(hipExternalMemoryGetMappedMipmappedArray) \
  X(hipFreeArray) \
  X(hipFreeMipmappedArray) \
  X(hipGLGetDevices) \
  X(hipGetChannelDesc) \
  X(hipGetMipmappedArrayLevel) \
  X(hipGetTextureAlignmentOffset) \
  X(hipGetTextureObjectResourceDesc) \
  X(hipGetTextureObjectResourceViewDesc) \
  X(hipGetTextureObjectTextureDesc) \
  X(hipGetTextureReference) \
  X(hipGraphAddBatchMemOpNode) \
  X(hipGraphAddExternalSemaphoresSignalNode) \
  X(hipGraphAddExternalSemaphoresWaitNode) \
  X(hipGraphBatchMemOpNodeGetParams) \
  X(hipGraphBatchMemOpNodeSetParams) \
  X(hipGraphExecBatchMemOpNodeSetParams) \
  X(hipGraphicsGLRegisterBuffer) \
  X(hipGraphicsGLRegisterImage) \
  X(hipGraphicsMapResources) \
  X(hipGraphicsResourceGetMappedPointer) \
  X(hipGraphicsSubResourceGetMappedArray) \
  X(hipGraphicsUnmapResources) \
  X(hipGraphicsUnregisterResource) \
  X(hipImportExternalMemory) \
  X(hipImportExternalSemaphore) \
  X(hipLinkAddData) \
  X(hipLinkAddFile) \
  X(hipLinkComplete) \
  X(hipLinkCreate) \
  X(hipLinkDestroy) \
  X(hipMalloc3DArray) \
  X(hipMallocArray) \
  X(hipMallocMipmappedArray) \
  X(hipMemGetHandleForAddressRange) \
  X(hipMemMapArrayAsync) \
  X(hipMemPoolExportPointer) \
  X(hipMemPoolExportToShareableHandle) \
  X(hipMemPoolImportFromShareableHandle) \
  X(hipMemPoolImportPointer) \
  X(hipMemcpy2DArrayToArray) \
  X(hipMemcpy2DFromArray) \
  X(hipMemcpy2DFromArrayAsync) \
  X(hipMemcpy2DFromArrayAsync_spt) \
  X(hipMemcpy2DFromArray_spt) \
  X(hipMemcpy2DToArray) \
  X(hipMemcpy2DToArrayAsync) \
  X(hipMemcpy2DToArrayAsync_spt) \
  X(hipMemcpy2DToArray_spt) \
  X(hipMemcpy3DBatchAsync) \
  X(hipMemcpyAtoA) \
  X(hipMemcpyAtoD) \
  X(hipMemcpyAtoH) \
  X(hipMemcpyAtoHAsync) \
  X(hipMemcpyDtoA) \
  X(hipMemcpyFromArray) \
  X(hipMemcpyFromArray_spt) \
  X(hipMemcpyHtoA) \
  X(hipMemcpyHtoAAsync) \
  X(hipMemcpyToArray) \
  X(hipMemcpyToArray_spt) \
  X(hipMipmappedArrayCreate) \
  X(hipMipmappedArrayDestroy) \
  X(hipMipmappedArrayGetLevel) \
  X(hipModuleGetTexRef) \
  X(hipSignalExternalSemaphoresAsync) \
  X(hipTexObjectCreate) \
  X(hipTexObjectDestroy) \
  X(hipTexObjectGetResourceDesc) \
  X(hipTexObjectGetResourceViewDesc) \
  X(hipTexObjectGetTextureDesc) \
  X(hipTexRefGetAddress) \
  X(hipTexRefGetAddressMode) \
  X(hipTexRefGetArray) \
  X(hipTexRefGetBorderColor) \
  X(hipTexRefGetFilterMode) \
  X(hipTexRefGetFlags) \
  X(hipTexRefGetFormat) \
  X(hipTexRefGetMaxAnisotropy) \
  X(hipTexRefGetMipMappedArray) \
  X(hipTexRefGetMipmapFilterMode) \
  X(hipTexRefGetMipmapLevelBias) \
  X(hipTexRefGetMipmapLevelClamp) \
  X(hipTexRefGetMipmappedArray) \
  X(hipTexRefSetAddress) \
  X(hipTexRefSetAddress2D) \
  X(hipTexRefSetAddressMode) \
  X(hipTexRefSetArray) \
  X(hipTexRefSetBorderColor) \
  X(hipTexRefSetFilterMode) \
  X(hipTexRefSetFlags) \
  X(hipTexRefSetFormat) \
  X(hipTexRefSetMaxAnisotropy) \
  X(hipTexRefSetMipmapFilterMode) \
  X(hipTexRefSetMipmapLevelBias) \
  X(hipTexRefSetMipmapLevelClamp) \
  X(hipTexRefSetMipmappedArray) \
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
