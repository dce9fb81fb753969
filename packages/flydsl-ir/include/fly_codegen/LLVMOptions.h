//===- fly_codegen/LLVMOptions.h - LLVM command-line options ----*- C++ -*-===//
//
// Options of LLVM are process-wide. Whoever changes one holds llvmOptionsMutex() alone, and whoever
// compiles holds it with others, so that no compilation sees an option change.
//
//===----------------------------------------------------------------------===//
#ifndef FLY_CODEGEN_LLVMOPTIONS_H
#define FLY_CODEGEN_LLVMOPTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

namespace mlir::fly {

std::shared_mutex &llvmOptionsMutex();

/// The registered option `name`, or null. Those of the target are registered with it.
llvm::cl::Option *findLLVMOption(llvm::StringRef name);

/// Calls `fn` with the option if it stores a `T`, whether inside or outside of the option object.
template <typename T, typename Fn> bool visitLLVMOption(llvm::cl::Option *option, Fn fn) {
  if (auto *internal = dynamic_cast<llvm::cl::opt<T> *>(option)) {
    fn(*internal);
    return true;
  }
  if (auto *external = dynamic_cast<llvm::cl::opt<T, /*ExternalStorage=*/true> *>(option)) {
    fn(*external);
    return true;
  }
  return false;
}

/// Sets options and restores their values when it goes away; the mutex is held by the caller.
class LLVMOptionScope {
public:
  LLVMOptionScope() = default;
  LLVMOptionScope(const LLVMOptionScope &) = delete;
  ~LLVMOptionScope();
  /// Sets (name, value) pairs; an error names the option that is unknown or cannot take the value.
  llvm::Error set(llvm::ArrayRef<std::pair<std::string, std::string>> options);

private:
  std::vector<std::function<void()>> restore;
};

} // namespace mlir::fly

#endif // FLY_CODEGEN_LLVMOPTIONS_H
