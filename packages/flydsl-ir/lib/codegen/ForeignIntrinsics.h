//===- ForeignIntrinsics.h - Intrinsics of other architectures --*- C++ -*-===//
#ifndef FLY_CODEGEN_FOREIGNINTRINSICS_H
#define FLY_CODEGEN_FOREIGNINTRINSICS_H

#include "fly_codegen/ArchTable.h"

namespace mlir::fly {

/// Whether `arch` has no instruction for the intrinsic `name` and code generation would not find out.
bool isForeignIntrinsic(llvm::StringRef name, const ArchInfo &arch);

} // namespace mlir::fly

#endif // FLY_CODEGEN_FOREIGNINTRINSICS_H
