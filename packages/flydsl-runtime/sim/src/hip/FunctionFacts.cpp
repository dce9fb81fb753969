//===- FunctionFacts.cpp - attributes and occupancy of functions ----------===//

#include "hip/Runtime.h"
#include "observe/Profile.h"
#include "observe/TimingTable.h"

#include <algorithm>

using namespace flysim;

/// What a function's code is for: the simulated device may be another one by now.
static const ArchInfo &archOf(const Function &f) { return *findArch(f.module->object->arch); }

//===--- attributes ---------------------------------------------------------===//

FLYSIM_API hipError_t hipFuncGetAttribute(int *value, int attribute, void *function) try {
  Function *f = checkedFunction(function);
  if (!f || !value)
    return fail(hipErrorInvalidHandle, "hipFuncGetAttribute: invalid function");
  const KernelInfo &k = *f->kernel;
  switch (attribute) {
  case 0:
    *value = static_cast<int>(k.maxWorkgroup);
    return hipSuccess;
  case 1:
    *value = static_cast<int>(k.ldsBytes);
    return hipSuccess;
  case 2:
    *value = 0;
    return hipSuccess;
  case 3:
    *value = static_cast<int>(k.scratchBytes);
    return hipSuccess;
  case 4:
    *value = static_cast<int>(k.vgprs);
    return hipSuccess;
  case 8:
    *value = static_cast<int>(archOf(*f).ldsPerWorkgroup - k.ldsBytes);
    return hipSuccess;
  default:
    *value = 0;
    return attribute >= 0 && attribute < 10
               ? hipSuccess
               : fail(hipErrorInvalidValue, format("function attribute %d", attribute));
  }
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipFuncSetAttribute(const void *function, int attribute, int value) try {
  const Function *f = nullptr;
  if (hipError_t e = resolveKernel(function, &f))
    return fail(hipErrorInvalidDeviceFunction, e ? lastErrorMessage() : "");
  return guarded([&]() -> hipError_t {
    int most = static_cast<int>(archOf(*f).ldsPerWorkgroup - f->kernel->ldsBytes);
    if (attribute == 8) // dynamic LDS: every launch may use all there is
      return value >= 0 && value <= most
                 ? hipSuccess
                 : fail(hipErrorInvalidValue,
                        format("hipFuncSetAttribute: %d bytes of dynamic LDS, at most %d", value, most));
    if (attribute == 9) // preferred carve-out in percent, -1: default
      return value >= -1 && value <= 100 ? hipSuccess
                                         : fail(hipErrorInvalidValue, "hipFuncSetAttribute: no percentage");
    return fail(hipErrorInvalidValue, format("function attribute %d cannot be set", attribute));
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipFuncSetCacheConfig(const void *, int) { return hipSuccess; }
FLYSIM_API hipError_t hipFuncSetSharedMemConfig(const void *, int) { return hipSuccess; }

//===--- occupancy ----------------------------------------------------------===//

static unsigned workgroupsPerCu(const Function &f, unsigned block, size_t lds) {
  const ArchInfo &a = archOf(f);
  const KernelInfo &k = *f.kernel;
  const TimingTable &t = timingTable(a);
  size_t total = k.ldsBytes + lds;
  if (lds > a.ldsPerWorkgroup || total > a.ldsPerWorkgroup)
    return 0;
  unsigned waves = (block + k.waveSize() - 1) / k.waveSize();
  Occupancy o = occupancy(a, k.vgprs, k.sgprs, static_cast<unsigned>(total), waves, k.waveSize());
  return std::max(1u, o.groupsPerCu * t.simdsPerCu / t.simdsPerLds);
}
uint64_t flysim::residentGroups(const Function &f, unsigned block, size_t lds) {
  return uint64_t(workgroupsPerCu(f, block, lds)) * archOf(f).computeUnits;
}
FLYSIM_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *f,
                                                                         int block, size_t lds) try {
  Function *fn = checkedFunction(f);
  if (!fn || !blocks || block <= 0)
    return fail(hipErrorInvalidValue, "occupancy: invalid function or block size");
  return guarded([&] {
    *blocks = static_cast<int>(workgroupsPerCu(*fn, static_cast<unsigned>(block), lds));
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, void *f, int block, size_t lds, unsigned) {
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, f, block, lds);
}
FLYSIM_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int *grid, int *block, void *f,
                                                              size_t lds, int limit) try {
  Function *fn = checkedFunction(f);
  if (!fn || !grid || !block)
    return fail(hipErrorInvalidValue, "occupancy: invalid function");
  return guarded([&] {
    unsigned best = fn->kernel->maxWorkgroup;
    if (limit > 0)
      best = std::min(best, static_cast<unsigned>(limit));
    *block = static_cast<int>(best);
    *grid = static_cast<int>(residentGroups(*fn, best, lds));
    return hipSuccess;
  });
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, void *f,
                                                                       size_t lds, int limit, unsigned) {
  return hipModuleOccupancyMaxPotentialBlockSize(grid, block, f, lds, limit);
}
FLYSIM_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host,
                                                                   int block, size_t lds) try {
  const Function *f = nullptr;
  if (resolveKernel(host, &f))
    return fail(hipErrorInvalidDeviceFunction, "occupancy: invalid function");
  return hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks, const_cast<Function *>(f), block, lds);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *host,
                                                                            int block, size_t lds, unsigned) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, host, block, lds);
}
FLYSIM_API hipError_t hipOccupancyMaxPotentialBlockSize(int *grid, int *block, const void *host,
                                                        size_t lds, int limit) try {
  const Function *f = nullptr;
  if (resolveKernel(host, &f))
    return fail(hipErrorInvalidDeviceFunction, "occupancy: invalid function");
  return hipModuleOccupancyMaxPotentialBlockSize(grid, block, const_cast<Function *>(f), lds, limit);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, const void *host,
                                                               int blocks, int) try {
  const Function *f = nullptr;
  if (!bytes || blocks <= 0 || resolveKernel(host, &f))
    return fail(hipErrorInvalidValue, "occupancy: invalid function or number of blocks");
  return guarded([&] {
    const ArchInfo &a = archOf(*f);
    size_t share = std::min<size_t>(a.ldsPerCu / static_cast<unsigned>(blocks), a.ldsPerWorkgroup);
    *bytes = share > f->kernel->ldsBytes ? share - f->kernel->ldsBytes : 0;
    return hipSuccess;
  });
} FLYSIM_GUARDED
