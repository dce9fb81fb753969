//===- Module.cpp - modules and their functions ---------------------------===//

#include "hip/Runtime.h"

#include "hip/Queues.h"

#include "llvm/Support/MemoryBuffer.h"

namespace flysim {

const Program *Module::programFor(const KernelInfo &kernel) {
  std::lock_guard<std::mutex> lock(mutex);
  for (const CodeRange &range : object->code) {
    if (kernel.entryAddr < range.addr || kernel.entryAddr >= range.addr + range.size)
      continue;
    auto &slot = programs[{range.addr, kernel.wave32}];
    if (!slot)
      slot = decodeProgram(*object, range, *findArch(object->arch), kernel.wave32);
    return slot.get();
  }
  raise(FaultKind::InvalidImage, "kernel " + kernel.name + " has its entry outside the code");
}

Function *checkedFunction(const void *handle) {
  Runtime &r = Runtime::instance();
  std::lock_guard<std::mutex> lock(r.functionMutex);
  auto *f = static_cast<const Function *>(handle);
  return r.functions.count(f) ? const_cast<Function *>(f) : nullptr;
}

namespace {

hipError_t loadImage(void **out, const void *image, size_t size) {
  if (!out || !image)
    return fail(hipErrorInvalidValue, "hipModuleLoadData: null pointer");
  *out = nullptr;
  return guarded([&]() -> hipError_t {
    Runtime &r = Runtime::instance();
    std::unique_ptr<CodeObject> object;
    std::string why;
    auto load = [&] {
      std::string arch = r.arch().name;
      std::vector<uint8_t> found = selectImage(image, size, arch, why);
      if (found.empty())
        return false;
      object = CodeObject::load(found.data(), found.size());
      why = "the code object is for " + object->arch + ", the simulated device is " + arch;
      return object->arch == arch;
    };
    if (!load()) {
      r.adoptArchOf(image, size); // unless the program chose the device by name
      if (!load())
        return fail(hipErrorNoBinaryForGpu, why);
    }
    auto module = std::make_unique<Module>();
    module->object = std::move(object);
    for (const auto &k : module->object->kernels)
      module->functions[k.first] = Function{module.get(), &k.second};
    {
      std::lock_guard<std::mutex> lock(r.functionMutex);
      for (const auto &f : module->functions)
        r.functions.insert(&f.second);
    }
    *out = r.modules.add(std::move(module));
    return hipSuccess;
  });
}

} // namespace

} // namespace flysim

using namespace flysim;

FLYSIM_API hipError_t hipModuleLoadData(void **module, const void *image) try {
  return loadImage(module, image, 0);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleLoadDataEx(void **module, const void *image, unsigned, int *,
                                          void **) try {
  return loadImage(module, image, 0);
} FLYSIM_GUARDED
/// As hipModuleLoadData with the size of the image, so that a truncated file is
/// detected instead of read past its end.
FLYSIM_API hipError_t flysimModuleLoadSized(void **module, const void *image, size_t size) try {
  return loadImage(module, image, size);
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleLoad(void **module, const char *path) try {
  if (!module || !path)
    return fail(hipErrorInvalidValue, "hipModuleLoad: null pointer");
  // Read, not mapped: the file may change. (Streams of C++ would bring all of its locales.)
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file)
    return fail(hipErrorFileNotFound, std::string("cannot open ") + path);
  return loadImage(module, (*file)->getBufferStart(), (*file)->getBufferSize());
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleUnload(void *module) try {
  if (!Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleUnload: invalid module");
  finishAll(); // what uses globals of the module may still run
  return flysimModuleRelease(module);
} FLYSIM_GUARDED
/// Unloads the module when the last launch of it has ended and no graph has one, without waiting
/// for that.
FLYSIM_API hipError_t flysimModuleRelease(void *handle) try {
  Runtime &r = Runtime::instance();
  std::shared_ptr<Module> module = r.modules.share(handle);
  if (!module || !r.modules.destroy(handle))
    return fail(hipErrorInvalidHandle, "flysimModuleRelease: invalid module");
  std::lock_guard<std::mutex> lock(r.functionMutex);
  for (const auto &f : module->functions)
    r.functions.erase(&f.second);
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleGetFunction(void **function, void *module, const char *name) try {
  if (!function || !name)
    return fail(hipErrorInvalidValue, "hipModuleGetFunction: null pointer");
  if (!Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetFunction: invalid module");
  auto *m = static_cast<Module *>(module);
  auto it = m->functions.find(name);
  if (it == m->functions.end()) {
    std::string names;
    for (const auto &f : m->functions)
      names += (names.empty() ? "" : ", ") + f.first;
    return fail(hipErrorNotFound,
                std::string("no kernel '") + name + "' in the module (it has " + names + ")");
  }
  *function = &it->second;
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleGetFunctionCount(unsigned *count, void *module) try {
  if (!count)
    return fail(hipErrorInvalidValue, "hipModuleGetFunctionCount: null pointer");
  if (!Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetFunctionCount: invalid module");
  *count = static_cast<unsigned>(static_cast<Module *>(module)->functions.size());
  return hipSuccess;
} FLYSIM_GUARDED
FLYSIM_API hipError_t hipModuleGetGlobal(void **address, size_t *bytes, void *module,
                                         const char *name) try {
  if (!name)
    return fail(hipErrorInvalidValue, "hipModuleGetGlobal: null pointer");
  if (!Runtime::instance().modules.contains(module))
    return fail(hipErrorInvalidHandle, "hipModuleGetGlobal: invalid module");
  auto &globals = static_cast<Module *>(module)->object->globals;
  auto it = globals.find(name);
  if (it == globals.end())
    return fail(hipErrorNotFound, std::string("no global '") + name + "' in the module");
  if (address)
    *address = reinterpret_cast<void *>(it->second.addr);
  if (bytes)
    *bytes = it->second.size;
  return hipSuccess;
} FLYSIM_GUARDED
