//===- CodegenCAPI.h - C interface of the code generator ----------*- C -*-===//
#ifndef FLY_CODEGEN_CODEGENCAPI_H
#define FLY_CODEGEN_CODEGENCAPI_H

#include "mlir-c/IR.h"
#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Kinds of output; the values equal mlir::fly::CodegenOutput.
typedef enum FlyCodegenOutput {
  FlyCodegenLLVMIR = 0,
  FlyCodegenOptLLVMIR = 1,
  FlyCodegenAssembly = 2,
  FlyCodegenObject = 3,
  FlyCodegenHSACO = 4,
} FlyCodegenOutput;

typedef struct FlyCodegenOptions {
  MlirStringRef arch;     ///< "gfx942" or a target id such as "gfx942:xnack-"
  MlirStringRef features; ///< more subtarget features, "+cumode,-xnack"
  int32_t optLevel;       ///< 0..3
  FlyCodegenOutput output;
  MlirStringRef wavesPerEU; ///< "min" or "min,max"; may be empty
  bool fastMath;
  bool debugInfo;
  intptr_t numLibraries; ///< LLVM bitcode or IR text that definitions are taken from
  const MlirStringRef *libraries;
  intptr_t numLLVMOptions; ///< names and values in turn: 2 * numLLVMOptions strings
  const MlirStringRef *llvmOptions;
  double *seconds; ///< null, or receives the seconds of compiling and of linking
} FlyCodegenOptions;

/// One row of the architecture table. The strings live as long as the library.
typedef struct FlyArchInfo {
  MlirStringRef name;
  MlirStringRef family;
  uint32_t waveSize;
  uint32_t ldsBytes;
  uint32_t ldsBanks;
  uint32_t maxThreadsPerBlock;
  uint32_t maxWavesPerSimd;
  uint32_t simdsPerCU;
  uint32_t vgprsPerWave;
  uint32_t vgprsPerSimd;
  uint32_t bufferRsrcFlags;
  uint32_t bufferRsrcFlagsChecked;
  uint64_t features;
} FlyArchInfo;

/// Compiles a gpu.module, or a builtin.module with one, or one of LLVM functions. `output` receives
/// the bytes on success; `diagnostics` the error text on failure, the warnings (if any) on success.
MLIR_CAPI_EXPORTED MlirLogicalResult flyCodegenCompileOperation(
    MlirOperation op, FlyCodegenOptions options, MlirStringCallback output, void *outputData,
    MlirStringCallback diagnostics, void *diagnosticsData);

/// The same for LLVM IR text.
MLIR_CAPI_EXPORTED MlirLogicalResult flyCodegenCompileLLVMIR(
    MlirStringRef text, FlyCodegenOptions options, MlirStringCallback output, void *outputData,
    MlirStringCallback diagnostics, void *diagnosticsData);

/// Disassembles an AMDGPU ELF file to text.
MLIR_CAPI_EXPORTED MlirLogicalResult flyCodegenDisassemble(
    MlirStringRef object, MlirStringCallback output, void *outputData,
    MlirStringCallback diagnostics, void *diagnosticsData);

/// Fails, with the reason, if parsing `text` as an operation (0), attribute (1) or type (2) would
/// end the process. Errors of the text itself do not count.
MLIR_CAPI_EXPORTED MlirLogicalResult flyCheckAssembly(MlirStringRef text, int kind,
                                                      MlirStringCallback diagnostics,
                                                      void *diagnosticsData);

MLIR_CAPI_EXPORTED intptr_t flyArchCount(void);
MLIR_CAPI_EXPORTED FlyArchInfo flyArchGet(intptr_t index);
/// Name of bit `index` of FlyArchInfo.features; a null string past the last.
MLIR_CAPI_EXPORTED MlirStringRef flyArchFeatureName(intptr_t index);

/// Version of the LLVM that is linked in, e.g. "22.1.8".
MLIR_CAPI_EXPORTED MlirStringRef flyLLVMVersion(void);

/// The body of the fly-opt tool.
MLIR_CAPI_EXPORTED int flyOptMain(int argc, char **argv);
/// The body of the fly-lsp-server tool.
MLIR_CAPI_EXPORTED int flyLspMain(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif // FLY_CODEGEN_CODEGENCAPI_H
