//===- CompileModule.h - Shared by the entry points of the code generator -===//
#ifndef FLY_LIB_CODEGEN_COMPILEMODULE_H
#define FLY_LIB_CODEGEN_COMPILEMODULE_H

#include "fly_codegen/Codegen.h"

namespace mlir::fly {

/// Optimises, compiles and links a module that the caller made; both arguments are consumed.
llvm::Expected<CodegenResult> compileModule(std::unique_ptr<llvm::LLVMContext> context,
                                            std::unique_ptr<llvm::Module> module,
                                            const CodegenOptions &options);

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_COMPILEMODULE_H
