//===- LLVMOptions.cpp - C access to LLVM command-line options ------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/LLVMOptions.h"

#include "fly_codegen/LLVMOptions.h"

#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include <limits>
#include <string>

using namespace llvm;
using namespace mlir::fly;

using Alone = std::unique_lock<std::shared_mutex>; // no compilation runs meanwhile

FlyLLVMOptionStatus flyLLVMOptionSetBool(MlirStringRef name, int value, int *previous) {
  Alone lock(llvmOptionsMutex());
  cl::Option *option = findLLVMOption(unwrap(name));
  if (!option)
    return FlyLLVMOptionUnknown;
  bool found = value >= 0 && visitLLVMOption<bool>(option, [&](auto &opt) {
    *previous = opt.getValue();
    opt.setValue(value != 0);
  });
  if (!found) // for example lsr-drop-solution
    found = visitLLVMOption<cl::boolOrDefault>(option, [&](auto &opt) {
      cl::boolOrDefault old = opt.getValue();
      *previous = old == cl::BOU_UNSET ? -1 : old == cl::BOU_TRUE;
      opt.setValue(value < 0 ? cl::BOU_UNSET : value ? cl::BOU_TRUE : cl::BOU_FALSE);
    });
  return found ? FlyLLVMOptionOk : FlyLLVMOptionWrongKind;
}

/// Sets an integer option of type `T`; false if the option is of another type or `value` does not
/// fit.
template <typename T> static bool setInt(cl::Option *option, int64_t value, int64_t *previous) {
  if (static_cast<int64_t>(static_cast<T>(value)) != value ||
      (std::is_unsigned_v<T> && value < 0))
    return false;
  return visitLLVMOption<T>(option, [&](auto &opt) {
    *previous = static_cast<int64_t>(opt.getValue());
    opt.setValue(static_cast<T>(value));
  });
}

FlyLLVMOptionStatus flyLLVMOptionSetInt(MlirStringRef name, int64_t value, int64_t *previous) {
  Alone lock(llvmOptionsMutex());
  cl::Option *option = findLLVMOption(unwrap(name));
  if (!option)
    return FlyLLVMOptionUnknown;
  bool done = setInt<int>(option, value, previous) || setInt<unsigned>(option, value, previous) ||
              setInt<long>(option, value, previous) ||
              setInt<unsigned long>(option, value, previous) ||
              setInt<unsigned long long>(option, value, previous);
  return done ? FlyLLVMOptionOk : FlyLLVMOptionWrongKind;
}

FlyLLVMOptionStatus flyLLVMOptionSetString(MlirStringRef name, MlirStringRef value,
                                           MlirStringCallback callback, void *userData) {
  Alone lock(llvmOptionsMutex());
  cl::Option *option = findLLVMOption(unwrap(name));
  if (!option)
    return FlyLLVMOptionUnknown;
  bool found = visitLLVMOption<std::string>(option, [&](auto &opt) {
    std::string previous = opt.getValue();
    callback(mlirStringRefCreate(previous.data(), previous.size()), userData);
    opt.setValue(unwrap(value).str());
  });
  return found ? FlyLLVMOptionOk : FlyLLVMOptionWrongKind;
}
