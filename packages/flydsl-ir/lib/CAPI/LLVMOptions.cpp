//===- LLVMOptions.cpp - C access to LLVM command-line options ------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "fly-c/LLVMOptions.h"

#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include "llvm/Support/CommandLine.h"
#include <limits>
#include <string>

using namespace llvm;

/// The registered option `name`, or null.
static cl::Option *findOption(MlirStringRef name) {
  auto &options = cl::getRegisteredOptions();
  auto it = options.find(unwrap(name));
  return it == options.end() ? nullptr : it->second;
}

/// Calls `fn` with the option if it stores a `T`, whether inside or outside of the option object.
template <typename T, typename Fn> static bool visitOption(cl::Option *option, Fn fn) {
  if (auto *internal = dynamic_cast<cl::opt<T> *>(option)) {
    fn(*internal);
    return true;
  }
  if (auto *external = dynamic_cast<cl::opt<T, /*ExternalStorage=*/true> *>(option)) {
    fn(*external);
    return true;
  }
  return false;
}

FlyLLVMOptionStatus flyLLVMOptionSetBool(MlirStringRef name, int value, int *previous) {
  cl::Option *option = findOption(name);
  if (!option)
    return FlyLLVMOptionUnknown;
  bool found = value >= 0 && visitOption<bool>(option, [&](auto &opt) {
    *previous = opt.getValue();
    opt.setValue(value != 0);
  });
  if (!found) // for example lsr-drop-solution
    found = visitOption<cl::boolOrDefault>(option, [&](auto &opt) {
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
  return visitOption<T>(option, [&](auto &opt) {
    *previous = static_cast<int64_t>(opt.getValue());
    opt.setValue(static_cast<T>(value));
  });
}

FlyLLVMOptionStatus flyLLVMOptionSetInt(MlirStringRef name, int64_t value, int64_t *previous) {
  cl::Option *option = findOption(name);
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
  cl::Option *option = findOption(name);
  if (!option)
    return FlyLLVMOptionUnknown;
  bool found = visitOption<std::string>(option, [&](auto &opt) {
    std::string previous = opt.getValue();
    callback(mlirStringRefCreate(previous.data(), previous.size()), userData);
    opt.setValue(unwrap(value).str());
  });
  return found ? FlyLLVMOptionOk : FlyLLVMOptionWrongKind;
}
