//===- ROCDLTarget.cpp - #rocdl.target compiled in process ----------------===//
//
// Upstream's model of the attribute executes ld.lld of a ROCm installation. This one links in
// process, so that the stock gpu-module-to-binary pass works anywhere.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/InitAll.h"

#include "fly_codegen/Codegen.h"
#include "llvm/Support/MemoryBuffer.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/ROCDLDialect.h"
#include "mlir/Target/LLVM/ROCDL/Utils.h"

using namespace mlir;
using namespace mlir::fly;

namespace {

CodegenOutput outputFor(gpu::CompilationTarget format) {
  switch (format) {
  case gpu::CompilationTarget::Offload:
    return CodegenOutput::OptLLVMIR;
  case gpu::CompilationTarget::Assembly:
    return CodegenOutput::Assembly;
  default:
    return CodegenOutput::HSACO;
  }
}

struct ROCDLTargetModel : gpu::TargetAttrInterface::FallbackModel<ROCDLTargetModel> {
  std::optional<SmallVector<char, 0>> serializeToObject(Attribute attribute, Operation *module,
                                                        const gpu::TargetOptions &options) const {
    auto target = cast<ROCDL::ROCDLTargetAttr>(attribute);
    CodegenOptions codegen;
    for (Attribute path : target.getLink() ? target.getLink().getValue() : ArrayRef<Attribute>()) {
      auto name = dyn_cast<StringAttr>(path);
      auto buffer = llvm::MemoryBuffer::getFile(name ? name.getValue() : StringRef());
      if (!buffer) {
        module->emitError("cannot read the bitcode library ") << path;
        return std::nullopt;
      }
      codegen.libraries.push_back((*buffer)->getBuffer().str());
    }
    codegen.fastMath = target.hasFastMath();
    codegen.arch = target.getChip().str();
    codegen.features = target.getFeatures().str();
    codegen.optLevel = target.getO();
    codegen.output = outputFor(options.getCompilationTarget());
    auto result = compileOperation(module, codegen);
    if (!result) {
      module->emitError(llvm::toString(result.takeError()));
      return std::nullopt;
    }
    if (!result->warnings.empty())
      module->emitWarning(result->warnings);
    return std::move(result->bytes);
  }

  Attribute createObject(Attribute attribute, Operation *module,
                         const SmallVector<char, 0> &object,
                         const gpu::TargetOptions &options) const {
    Builder builder(attribute.getContext());
    gpu::CompilationTarget format = options.getCompilationTarget();
    gpu::KernelTableAttr kernels;
    // A fat binary and a plain binary are the same thing here: one linked code object.
    if (format > gpu::CompilationTarget::Assembly)
      kernels = ROCDL::getKernelMetadata(module, object);
    auto target = cast<ROCDL::ROCDLTargetAttr>(attribute);
    DictionaryAttr properties = builder.getDictionaryAttr(
        {builder.getNamedAttr("O", builder.getI32IntegerAttr(target.getO()))});
    StringRef bytes(object.data(), object.size());
    return builder.getAttr<gpu::ObjectAttr>(attribute, format, builder.getStringAttr(bytes),
                                            properties, kernels);
  }
};

} // namespace

void mlir::fly::registerROCDLTargetModel(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, ROCDL::ROCDLDialect *) {
    ROCDL::ROCDLTargetAttr::attachInterface<ROCDLTargetModel>(*context);
  });
}
