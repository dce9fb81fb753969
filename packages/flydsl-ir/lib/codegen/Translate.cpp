//===- Translate.cpp - LLVM dialect to LLVM IR ----------------------------===//
#include "CompileModule.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace mlir::fly;

namespace {

/// The operation to translate: the gpu.module in `op`, or `op` itself.
llvm::Expected<Operation *> findTranslatable(Operation *op) {
  if (isa<gpu::GPUModuleOp>(op))
    return op;
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    return llvm::createStringError("expected a gpu.module or a builtin.module, got '" +
                                   op->getName().getStringRef().str() + "'");
  auto gpuModules = llvm::to_vector(module.getOps<gpu::GPUModuleOp>());
  if (gpuModules.size() > 1)
    return llvm::createStringError("the module holds " + llvm::Twine(gpuModules.size()) +
                                   " gpu.module ops; pass the one to compile");
  return gpuModules.empty() ? op : gpuModules.front().getOperation();
}

/// The first operation that has no translation, which usually names the lowering that is missing.
llvm::Error checkLowered(Operation *op) {
  Operation *bad = nullptr;
  op->walk([&](Operation *inner) {
    if (isa<ModuleOp, gpu::GPUModuleOp>(inner))
      return WalkResult::advance();
    StringRef dialect = inner->getName().getDialectNamespace();
    if (dialect == "llvm" || dialect == "rocdl")
      return WalkResult::advance();
    bad = inner;
    return WalkResult::interrupt();
  });
  if (!bad)
    return llvm::Error::success();
  std::string message;
  llvm::raw_string_ostream os(message);
  os << "cannot generate code for '" << bad->getName() << "' at " << bad->getLoc()
     << ": it was not lowered to the LLVM dialect";
  return llvm::createStringError(message);
}

/// A copy of `op`, owned by `owner`, whose functions have debug scopes: without them the translation
/// drops the locations of operations.
llvm::Expected<Operation *> addDebugScopes(Operation *op, OwningOpRef<ModuleOp> &owner) {
  if (auto module = dyn_cast<ModuleOp>(op)) {
    owner = cast<ModuleOp>(module->clone());
  } else {
    owner = ModuleOp::create(op->getLoc());
    owner->push_back(op->clone());
  }
  // The pass takes whatever has a call-site location for an operation of a function's body. A module
  // and a function have one too where a kernel is launched from a helper: theirs is where they stand.
  owner->walk<WalkOrder::PreOrder>([](Operation *outside) {
    Location loc = outside->getLoc();
    while (auto site = dyn_cast<CallSiteLoc>(loc))
      loc = site.getCallee();
    outside->setLoc(loc);
    return isa<LLVM::LLVMFuncOp>(outside) ? WalkResult::skip() : WalkResult::advance();
  });
  PassManager passes(op->getContext());
  passes.addPass(LLVM::createDIScopeForLLVMFuncOpPass());
  if (failed(passes.run(*owner)))
    return llvm::createStringError("cannot attach debug information");
  return findTranslatable(*owner);
}

} // namespace

llvm::Expected<CodegenResult> mlir::fly::compileOperation(Operation *op,
                                                          const CodegenOptions &options) {
  auto target = findTranslatable(op);
  if (!target)
    return target.takeError();
  if (llvm::Error error = checkLowered(*target))
    return std::move(error);

  std::string messages;
  llvm::raw_string_ostream os(messages);
  OwnedModule owned;
  OwningOpRef<ModuleOp> scoped;
  if (options.debugInfo) {
    auto withScopes = addDebugScopes(*target, scoped);
    if (!withScopes)
      return withScopes.takeError();
    target = *withScopes;
  }
  {
    ScopedDiagnosticHandler collect(op->getContext(), [&](Diagnostic &diagnostic) {
      os << (messages.empty() ? "" : "\n") << diagnostic.getLocation() << ": " << diagnostic;
      return success();
    });
    owned.module = translateModuleToLLVMIR(*target, *owned.context);
  }
  if (!owned.module)
    return llvm::createStringError("translation to LLVM IR failed: " + messages);
  return compileModule(std::move(owned), options);
}
