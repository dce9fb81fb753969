//===- ExplicitModule.cpp - #fly.explicit_module to LLVM IR ---------------===//
//
// A gpu.binary becomes a constant and two functions with which the host program loads the code
// object itself; a gpu.launch_func launches from the module that was loaded.
//
//===----------------------------------------------------------------------===//
#include "fly/IR/FlyDialect.h"
#include "fly_codegen/InitAll.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

using namespace mlir;

static constexpr StringLiteral kInit = "flydsl_gpu_module_init";
static constexpr StringLiteral kLoad = "flydsl_gpu_module_load_to_device";

static std::string binaryName(StringRef name) { return (name + "_binary").str(); }
static std::string moduleName(StringRef name) { return (name + "_module").str(); }

namespace {

/// Calls of the host runtime in one LLVM module.
class HostBuilder {
public:
  HostBuilder(llvm::Module &module, llvm::IRBuilderBase &b)
      : module(module), b(b), ptr(b.getPtrTy()), i32(b.getInt32Ty()),
        size(module.getDataLayout().getIntPtrType(module.getContext())) {}

  llvm::FunctionCallee callee(StringRef name, llvm::Type *result,
                              ArrayRef<llvm::Type *> parameters) {
    return module.getOrInsertFunction(name,
                                      llvm::FunctionType::get(result, parameters, false));
  }
  /// An external function `void name(void **moduleOut, int32_t *err)`, positioned at its entry.
  llvm::Function *beginFunction(StringRef name) {
    auto *type = llvm::FunctionType::get(b.getVoidTy(), {ptr, ptr}, false);
    auto *function =
        llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
    b.SetInsertPoint(llvm::BasicBlock::Create(module.getContext(), "entry", function));
    return function;
  }

  llvm::Module &module;
  llvm::IRBuilderBase &b;
  llvm::PointerType *ptr;
  llvm::IntegerType *i32;
  llvm::IntegerType *size;
};

struct ExplicitModuleModel
    : gpu::OffloadingLLVMTranslationAttrInterface::FallbackModel<ExplicitModuleModel> {
  LogicalResult embedBinary(Attribute attribute, Operation *op, llvm::IRBuilderBase &builder,
                            LLVM::ModuleTranslation &translation) const;
  LogicalResult launchKernel(Attribute attribute, Operation *launch, Operation *binary,
                             llvm::IRBuilderBase &builder,
                             LLVM::ModuleTranslation &translation) const;
};

} // namespace

LogicalResult ExplicitModuleModel::embedBinary(Attribute, Operation *op,
                                               llvm::IRBuilderBase &builder,
                                               LLVM::ModuleTranslation &translation) const {
  auto binary = dyn_cast<gpu::BinaryOp>(op);
  if (!binary)
    return op->emitError("expected a gpu.binary");
  if (binary.getObjectsAttr().empty())
    return op->emitError("the binary holds no object");
  auto object = dyn_cast<gpu::ObjectAttr>(binary.getObjectsAttr()[0]);
  if (!object)
    return op->emitError("expected a gpu.object");
  llvm::Module &module = *translation.getLLVMModule();
  if (module.getFunction(kLoad))
    return op->emitError("a module can hold one binary with an explicit module only");

  llvm::IRBuilderBase::InsertPointGuard guard(builder);
  HostBuilder host(module, builder);
  StringRef bytes = object.getObject().getValue();
  bool isAssembly = object.getFormat() == gpu::CompilationTarget::Assembly;
  // The runtime reads assembly as a C string.
  auto *data = llvm::ConstantDataArray::getString(module.getContext(), bytes,
                                                  /*AddNull=*/isAssembly);
  auto *constant =
      new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                               llvm::GlobalValue::InternalLinkage, data,
                               binaryName(binary.getName()));
  constant->setAlignment(llvm::MaybeAlign(8));
  auto *null = llvm::ConstantPointerNull::get(host.ptr);
  auto *handle = new llvm::GlobalVariable(module, host.ptr, /*isConstant=*/false,
                                          llvm::GlobalValue::InternalLinkage, null,
                                          moduleName(binary.getName()));

  llvm::Function *init = host.beginFunction(kInit);
  builder.CreateStore(null, init->getArg(0));
  builder.CreateStore(llvm::ConstantInt::get(host.i32, 0), init->getArg(1));
  builder.CreateRetVoid();

  llvm::Function *load = host.beginFunction(kLoad);
  llvm::Value *loaded;
  if (isAssembly) {
    int32_t level = 2;
    if (DictionaryAttr properties = object.getProperties())
      if (auto attr = properties.getAs<IntegerAttr>("O"))
        level = attr.getInt();
    loaded = builder.CreateCall(host.callee("mgpuModuleLoadJIT", host.ptr, {host.ptr, host.i32}),
                                {constant, llvm::ConstantInt::get(host.i32, level)});
  } else {
    loaded = builder.CreateCall(host.callee("mgpuModuleLoad", host.ptr, {host.ptr, host.size}),
                                {constant, llvm::ConstantInt::get(host.size, bytes.size())});
  }
  builder.CreateStore(loaded, handle);
  builder.CreateStore(loaded, load->getArg(0));
  builder.CreateStore(builder.CreateSelect(builder.CreateIsNull(loaded),
                                           llvm::ConstantInt::getSigned(host.i32, -1),
                                           llvm::ConstantInt::get(host.i32, 0)),
                      load->getArg(1));
  builder.CreateRetVoid();
  return success();
}

LogicalResult ExplicitModuleModel::launchKernel(Attribute, Operation *launchOp, Operation *binaryOp,
                                                llvm::IRBuilderBase &builder,
                                                LLVM::ModuleTranslation &translation) const {
  auto launch = dyn_cast<gpu::LaunchFuncOp>(launchOp);
  auto binary = dyn_cast<gpu::BinaryOp>(binaryOp);
  if (!launch || !binary)
    return launchOp->emitError("expected a gpu.launch_func of a gpu.binary");
  llvm::Module &module = *translation.getLLVMModule();
  HostBuilder host(module, builder);
  llvm::GlobalVariable *handle =
      module.getGlobalVariable(moduleName(binary.getName()), /*AllowInternal=*/true);
  if (!handle)
    return launchOp->emitError("the binary of this launch was not embedded");

  // Arguments: an array of pointers to stack slots.
  SmallVector<llvm::Value *> arguments;
  for (Value operand : launch.getKernelOperands())
    arguments.push_back(translation.lookupValue(operand));
  auto *arrayType = llvm::ArrayType::get(host.ptr, arguments.size());
  llvm::Value *array = builder.CreateAlloca(arrayType);
  for (auto [number, argument] : llvm::enumerate(arguments)) {
    llvm::Value *slot = builder.CreateAlloca(argument->getType());
    builder.CreateStore(argument, slot);
    builder.CreateStore(slot, builder.CreateConstGEP2_32(arrayType, array, 0, number));
  }

  llvm::Value *null = llvm::ConstantPointerNull::get(host.ptr);
  llvm::Value *stream = null;
  if (Value object = launch.getAsyncObject())
    stream = translation.lookupValue(object);
  else if (!launch.getAsyncDependencies().empty())
    stream = translation.lookupValue(launch.getAsyncDependencies().front());
  llvm::Value *sharedBytes = launch.getDynamicSharedMemorySize()
                                 ? translation.lookupValue(launch.getDynamicSharedMemorySize())
                                 : llvm::ConstantInt::get(host.i32, 0);
  auto toSize = [&](Value value) {
    return builder.CreateIntCast(translation.lookupValue(value), host.size, /*isSigned=*/true);
  };

  llvm::Value *loaded = builder.CreateLoad(host.ptr, handle);
  llvm::Value *kernelName = builder.CreateGlobalString(launch.getKernelName().getValue(),
                                                       launch.getKernelName().getValue() + "_name");
  llvm::Value *function =
      builder.CreateCall(host.callee("mgpuModuleGetFunction", host.ptr, {host.ptr, host.ptr}),
                         {loaded, kernelName});
  SmallVector<llvm::Value *> operands{function};
  StringRef runtime = "mgpuLaunchKernel";
  gpu::KernelDim3 grid = launch.getGridSizeOperandValues();
  gpu::KernelDim3 block = launch.getBlockSizeOperandValues();
  if (launch.hasClusterSize()) {
    gpu::KernelDim3 cluster = launch.getClusterSizeOperandValues();
    operands.append({toSize(cluster.x), toSize(cluster.y), toSize(cluster.z)});
    runtime = "mgpuLaunchClusterKernel";
  }
  operands.append({toSize(grid.x), toSize(grid.y), toSize(grid.z), toSize(block.x),
                   toSize(block.y), toSize(block.z), sharedBytes, stream, array, null,
                   llvm::ConstantInt::get(host.size, arguments.size())});
  SmallVector<llvm::Type *> types;
  for (llvm::Value *operand : operands)
    types.push_back(operand->getType());
  builder.CreateCall(host.callee(runtime, builder.getVoidTy(), types), operands);
  return success();
}

void mlir::fly::registerExplicitModuleTranslation(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, FlyDialect *) {
    ExplicitModuleAttr::attachInterface<ExplicitModuleModel>(*context);
  });
}
