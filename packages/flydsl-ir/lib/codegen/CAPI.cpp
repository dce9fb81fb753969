//===- CAPI.cpp - C interface of the code generator -----------------------===//
#include "fly_codegen/CodegenCAPI.h"

#include "fly_codegen/ArchTable.h"
#include "fly_codegen/Codegen.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "llvm/Config/llvm-config.h"

using namespace mlir;
using namespace mlir::fly;

namespace {

CodegenOptions unwrapOptions(const FlyCodegenOptions &options) {
  CodegenOptions result;
  result.arch = unwrap(options.arch).str();
  result.features = unwrap(options.features).str();
  result.optLevel = options.optLevel;
  result.output = static_cast<CodegenOutput>(options.output);
  result.wavesPerEU = unwrap(options.wavesPerEU).str();
  result.fastMath = options.fastMath;
  result.debugInfo = options.debugInfo;
  for (intptr_t i = 0; i < options.numLibraries; ++i)
    result.libraries.push_back(unwrap(options.libraries[i]).str());
  for (intptr_t i = 0; i < options.numLLVMOptions; ++i)
    result.llvmOptions.emplace_back(unwrap(options.llvmOptions[2 * i]).str(),
                                    unwrap(options.llvmOptions[2 * i + 1]).str());
  return result;
}

MlirLogicalResult fail(llvm::Error error, MlirStringCallback callback, void *data) {
  std::string message = llvm::toString(std::move(error));
  callback(mlirStringRefCreate(message.data(), message.size()), data);
  return mlirLogicalResultFailure();
}

MlirLogicalResult finish(llvm::Expected<CodegenResult> result, double *seconds,
                         MlirStringCallback output, void *outputData,
                         MlirStringCallback diagnostics, void *diagnosticsData) {
  if (!result)
    return fail(result.takeError(), diagnostics, diagnosticsData);
  if (seconds) {
    seconds[0] = result->compileSeconds;
    seconds[1] = result->linkSeconds;
  }
  if (!result->warnings.empty())
    diagnostics(wrap(StringRef(result->warnings)), diagnosticsData);
  output(mlirStringRefCreate(result->bytes.data(), result->bytes.size()), outputData);
  return mlirLogicalResultSuccess();
}

} // namespace

MlirLogicalResult flyCodegenCompileOperation(MlirOperation op, FlyCodegenOptions options,
                                             MlirStringCallback output, void *outputData,
                                             MlirStringCallback diagnostics,
                                             void *diagnosticsData) {
  return finish(compileOperation(unwrap(op), unwrapOptions(options)), options.seconds, output,
                outputData, diagnostics, diagnosticsData);
}

MlirLogicalResult flyCodegenCompileLLVMIR(MlirStringRef text, FlyCodegenOptions options,
                                          MlirStringCallback output, void *outputData,
                                          MlirStringCallback diagnostics,
                                          void *diagnosticsData) {
  return finish(compileLLVMIR(unwrap(text), unwrapOptions(options)), options.seconds, output,
                outputData, diagnostics, diagnosticsData);
}

MlirLogicalResult flyCodegenDisassemble(MlirStringRef object, MlirStringCallback output,
                                        void *outputData, MlirStringCallback diagnostics,
                                        void *diagnosticsData) {
  llvm::Expected<std::string> text = disassemble(unwrap(object));
  if (!text)
    return fail(text.takeError(), diagnostics, diagnosticsData);
  output(wrap(StringRef(*text)), outputData);
  return mlirLogicalResultSuccess();
}

MlirLogicalResult flyCheckAssembly(MlirStringRef text, int kind, MlirStringCallback diagnostics,
                                   void *diagnosticsData) {
  if (llvm::Error error = checkAssembly(unwrap(text), static_cast<AssemblyKind>(kind)))
    return fail(std::move(error), diagnostics, diagnosticsData);
  return mlirLogicalResultSuccess();
}

intptr_t flyArchCount(void) { return archTable().size(); }

FlyArchInfo flyArchGet(intptr_t index) {
  const ArchInfo &info = archTable()[index];
  return {wrap(StringRef(info.name)),
          wrap(StringRef(info.family)),
          info.waveSize,
          info.ldsBytes,
          info.ldsBanks,
          info.maxThreadsPerBlock,
          info.maxWavesPerSimd,
          info.simdsPerCU,
          info.vgprsPerWave,
          info.vgprsPerSimd,
          info.bufferRsrcFlags,
          info.bufferRsrcFlagsChecked,
          info.features};
}

MlirStringRef flyArchFeatureName(intptr_t index) {
  if (index < 0 || index >= static_cast<intptr_t>(ArchFeature::NumFeatures))
    return mlirStringRefCreate(nullptr, 0);
  return wrap(archFeatureName(static_cast<ArchFeature>(index)));
}

MlirStringRef flyLLVMVersion(void) { return wrap(StringRef(LLVM_VERSION_STRING)); }
