//===- LLVMOptionScope.h - LLVM command-line options for a while ----------===//
#ifndef FLY_LIB_CODEGEN_LLVMOPTIONSCOPE_H
#define FLY_LIB_CODEGEN_LLVMOPTIONSCOPE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace mlir::fly {

/// Sets options of LLVM and restores their values when it goes away. Not thread-safe: the options
/// are process-wide.
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

#endif // FLY_LIB_CODEGEN_LLVMOPTIONSCOPE_H
