//===- InitAll.h - Registration of everything in this library ---*- C++ -*-===//
#ifndef FLY_CODEGEN_INITALL_H
#define FLY_CODEGEN_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace mlir::fly {

/// Makes `#rocdl.target` compile in process; see ROCDLTarget.cpp.
void registerROCDLTargetModel(DialectRegistry &registry);

/// Makes `#fly.explicit_module` translate gpu.binary and gpu.launch_func; see ExplicitModule.cpp.
void registerExplicitModuleTranslation(DialectRegistry &registry);

/// Registers fly, fly_rocdl, the upstream dialects that kernels use, their conversion and
/// translation interfaces, and the in-process target model.
void registerAllDialects(DialectRegistry &registry);

/// Registers every pass of this library and the upstream passes of the pipeline. May be called
/// more than once.
void registerAllPasses();


} // namespace mlir::fly

#endif // FLY_CODEGEN_INITALL_H
