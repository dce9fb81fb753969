//===- Codegen.h - LLVM IR to AMDGPU code objects, in process ---*- C++ -*-===//
//
// No function here starts a process, reads the environment or needs a ROCm installation. All are
// safe to call from several threads at once.
//
//===----------------------------------------------------------------------===//
#ifndef FLY_CODEGEN_CODEGEN_H
#define FLY_CODEGEN_CODEGEN_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llvm {
class LLVMContext;
class Module;
class TargetMachine;
} // namespace llvm

namespace mlir {
class Operation;
} // namespace mlir

namespace mlir::fly {

/// What `compile...` returns.
enum class CodegenOutput {
  LLVMIR = 0,    ///< text, before optimisation
  OptLLVMIR = 1, ///< text, after optimisation
  Assembly = 2,  ///< AMDGPU assembly text
  Object = 3,    ///< relocatable ELF
  HSACO = 4,     ///< linked code object
};

struct CodegenOptions {
  /// Architecture, optionally with target-id features: "gfx942", "gfx942:sramecc+:xnack-".
  std::string arch;
  /// Additional LLVM subtarget features, e.g. "+cumode,-xnack".
  std::string features;
  /// 0..3; the optimisation level of both the IR pipeline and the code generator.
  int optLevel = 3;
  CodegenOutput output = CodegenOutput::HSACO;
  /// "min" or "min,max" waves on a SIMD, for every kernel; empty leaves it to the back end.
  std::string wavesPerEU;
  /// All fast-math flags on every floating-point instruction.
  bool fastMath = false;
  /// Line tables from the locations of MLIR operations.
  bool debugInfo = false;
  /// LLVM bitcode or IR text to take missing definitions from.
  std::vector<std::string> libraries;
  /// LLVM command-line options for this compilation, (name, value). They are process-wide, so such a
  /// compilation runs alone.
  std::vector<std::pair<std::string, std::string>> llvmOptions;
};

/// Bytes (or text) that a compilation produced, and the warnings that came with it.
struct CodegenResult {
  llvm::SmallVector<char, 0> bytes;
  std::string warnings;
  double compileSeconds = 0; ///< optimisation and code generation
  double linkSeconds = 0;
};

/// Registers LLVM's AMDGPU target once.
void initializeAMDGPUTarget();

/// Compiles LLVM IR text. Errors carry every diagnostic of the parser, back end and linker.
llvm::Expected<CodegenResult> compileLLVMIR(llvm::StringRef text, const CodegenOptions &options);

/// Compiles a `gpu.module`, or a `builtin.module` that holds exactly one, or a `builtin.module` of
/// LLVM dialect functions. The operation must be in the LLVM dialect already and is not changed.
llvm::Expected<CodegenResult> compileOperation(Operation *op, const CodegenOptions &options);

/// Links one relocatable object into a code object with lld.
llvm::Expected<llvm::SmallVector<char, 0>> linkObject(llvm::StringRef object);

/// Disassembles the executable sections of an AMDGPU ELF with LLVM's disassembler. The processor is
/// read from the ELF header.
llvm::Expected<std::string> disassemble(llvm::StringRef object);

/// Runs `fn` so that an abort, a fatal error or a fault of LLVM inside it becomes an error whose
/// text starts with `what`. Objects that `fn` was changing must not be used, nor destroyed, after
/// a failure. With `stackBytes` it runs on a thread with a stack of that size.
llvm::Error runGuarded(llvm::StringRef what, llvm::function_ref<void()> fn,
                       unsigned stackBytes = 0);

/// What a text is to be parsed as.
enum class AssemblyKind { Operation, Attribute, Type };

/// An error if parsing or verifying `text` would end the process. Errors of the text itself are
/// none here.
llvm::Error checkAssembly(llvm::StringRef text, AssemblyKind kind);

} // namespace mlir::fly

#endif // FLY_CODEGEN_CODEGEN_H
