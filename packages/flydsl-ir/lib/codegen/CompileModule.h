//===- CompileModule.h - Shared by the entry points of the code generator -===//
#ifndef FLY_LIB_CODEGEN_COMPILEMODULE_H
#define FLY_LIB_CODEGEN_COMPILEMODULE_H

#include "fly_codegen/Codegen.h"

namespace mlir::fly {

/// An LLVM module and the context that owns its types; the module goes first.
struct OwnedModule {
  OwnedModule();
  ~OwnedModule();
  OwnedModule(OwnedModule &&) = default;

  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
};

/// Optimises, compiles and links a module that the caller made.
llvm::Expected<CodegenResult> compileModule(OwnedModule owned, const CodegenOptions &options);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_COMPILEMODULE_H
