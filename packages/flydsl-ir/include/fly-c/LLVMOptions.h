//===- fly-c/LLVMOptions.h - LLVM command-line options ----------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
//
// LLVM options are process-wide: a change waits for the compilations that run
// in other threads, and holds for all that begin after it.
//
//===----------------------------------------------------------------------===//

#ifndef FLY_C_LLVMOPTIONS_H
#define FLY_C_LLVMOPTIONS_H

#include "fly-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum FlyLLVMOptionStatus {
  FlyLLVMOptionOk = 0,
  FlyLLVMOptionUnknown = 1,  ///< no option of that name
  FlyLLVMOptionWrongKind = 2 ///< the option holds another kind of value
} FlyLLVMOptionStatus;

/// Sets a Boolean option and stores its former value in `*previous`. Some options have a third
/// state besides false (0) and true (1): unset (-1), in which LLVM decides.
MLIR_CAPI_EXPORTED FlyLLVMOptionStatus flyLLVMOptionSetBool(MlirStringRef name, int value,
                                                            int *previous);

/// Sets an integer option (int, unsigned, or 64-bit). A value that the option's
/// type cannot hold gives FlyLLVMOptionWrongKind.
MLIR_CAPI_EXPORTED FlyLLVMOptionStatus flyLLVMOptionSetInt(MlirStringRef name, int64_t value,
                                                           int64_t *previous);

/// Sets a string option; `callback` receives the former value before the change.
MLIR_CAPI_EXPORTED FlyLLVMOptionStatus flyLLVMOptionSetString(MlirStringRef name,
                                                              MlirStringRef value,
                                                              MlirStringCallback callback,
                                                              void *userData);

#ifdef __cplusplus
}
#endif

#endif // FLY_C_LLVMOPTIONS_H
