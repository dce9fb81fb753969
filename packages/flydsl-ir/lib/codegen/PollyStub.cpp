//===- PollyStub.cpp - Satisfies a reference of libLLVMLTO ----------------===//
//
// The distribution builds LTO with Polly; lld needs LTO; nothing here needs Polly.
//
//===----------------------------------------------------------------------===//
#include "llvm/Plugins/PassPlugin.h"

llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "Polly", "0", [](llvm::PassBuilder &) {}};
}
