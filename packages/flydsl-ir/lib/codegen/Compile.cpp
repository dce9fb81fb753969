//===- Compile.cpp - LLVM IR to object code -------------------------------===//
#include "CompileModule.h"

#include "fly_codegen/ArchTable.h"
#include "fly_codegen/Codegen.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include <mutex>

using namespace llvm;
using namespace mlir::fly;

void mlir::fly::initializeAMDGPUTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    LLVMInitializeAMDGPUAsmParser();
    LLVMInitializeAMDGPUDisassembler();
  });
}

namespace {

constexpr StringLiteral kTriple = "amdgcn-amd-amdhsa";
constexpr uint32_t kCodeObjectVersion = 600;

/// Splits "gfx942:sramecc+:xnack-" into the processor and "+sramecc,-xnack".
Expected<std::pair<std::string, std::string>> parseTargetId(StringRef arch) {
  SmallVector<StringRef> parts;
  arch.split(parts, ':');
  std::string features;
  for (StringRef part : ArrayRef(parts).drop_front()) {
    bool on = part.consume_back("+"), off = !on && part.consume_back("-");
    if ((!on && !off) || (part != "sramecc" && part != "xnack"))
      return createStringError("bad target id '" + arch.str() +
                               "': features are sramecc and xnack, each followed by + or -");
    features += (features.empty() ? "" : ",") + std::string(on ? "+" : "-") + part.str();
  }
  return std::make_pair(parts.front().str(), features);
}

CodeGenOptLevel codegenLevel(int level) {
  return static_cast<CodeGenOptLevel>(std::clamp(level, 0, 3));
}

OptimizationLevel pipelineLevel(int level) {
  switch (level) {
  case 0:
    return OptimizationLevel::O0;
  case 1:
    return OptimizationLevel::O1;
  case 2:
    return OptimizationLevel::O2;
  default:
    return OptimizationLevel::O3;
  }
}

Expected<std::unique_ptr<TargetMachine>> makeTargetMachine(const CodegenOptions &options) {
  initializeAMDGPUTarget();
  if (options.optLevel < 0 || options.optLevel > 3)
    return createStringError("optimisation level " + Twine(options.optLevel) +
                             " is not in 0..3");
  auto id = parseTargetId(options.arch);
  if (!id)
    return id.takeError();
  auto [chip, features] = *id;
  if (!options.features.empty())
    features += (features.empty() ? "" : ",") + options.features;

  Triple triple(kTriple);
  std::string reason;
  const Target *target = TargetRegistry::lookupTarget(triple, reason);
  if (!target)
    return createStringError("the AMDGPU target is missing: " + reason);
  // An unknown processor is only a warning on stderr for the back end, which then picks another.
  std::unique_ptr<MCSubtargetInfo> generic(target->createMCSubtargetInfo(triple, "", ""));
  if (!StringRef(chip).starts_with("gfx") || !generic->isCPUStringValid(chip))
    return createStringError("unknown architecture '" + options.arch +
                             "'; known: " + knownArchNames());
  for (StringRef feature : split(features, ",")) {
    StringRef name = feature;
    if (feature.empty())
      continue;
    if (!(name.consume_front("+") || name.consume_front("-")) ||
        none_of(generic->getAllProcessorFeatures(),
                [&](const SubtargetFeatureKV &known) { return name == known.Key; }))
      return createStringError("unknown subtarget feature '" + feature.str() + "'");
  }
  std::unique_ptr<TargetMachine> machine(
      target->createTargetMachine(triple, chip, features, TargetOptions(), Reloc::PIC_,
                                  std::nullopt, codegenLevel(options.optLevel)));
  if (!machine)
    return createStringError("cannot create a code generator for '" + options.arch + "'");
  return std::move(machine);
}

/// Diagnostics of one LLVMContext. Without a handler an error of the back end ends the process.
struct Diagnostics {
  std::string errors, warnings;

  static void handle(const DiagnosticInfo *info, void *self) {
    auto &diagnostics = *static_cast<Diagnostics *>(self);
    std::string *text = info->getSeverity() == DS_Error     ? &diagnostics.errors
                        : info->getSeverity() == DS_Warning ? &diagnostics.warnings
                                                            : nullptr;
    if (!text)
      return;
    raw_string_ostream os(*text);
    if (!text->empty())
      os << '\n';
    DiagnosticPrinterRawOStream printer(os);
    info->print(printer);
  }
};

void optimize(llvm::Module &module, TargetMachine &machine, int level) {
  PassBuilder builder(&machine);
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager sccs;
  ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  ModulePassManager passes = level == 0
                                 ? builder.buildO0DefaultPipeline(OptimizationLevel::O0)
                                 : builder.buildPerModuleDefaultPipeline(pipelineLevel(level));
  passes.run(module, modules);
}

/// True if the target cannot emit files of this kind.
bool emit(llvm::Module &module, TargetMachine &machine, CodeGenFileType kind,
          SmallVectorImpl<char> &out) {
  raw_svector_ostream os(out);
  legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return true;
  passes.run(module);
  return false;
}

void printText(const llvm::Module &module, SmallVectorImpl<char> &out) {
  raw_svector_ostream os(out);
  module.print(os, nullptr);
}

} // namespace

OwnedModule::OwnedModule() : context(std::make_unique<LLVMContext>()) {}
OwnedModule::~OwnedModule() = default;

namespace {

/// Everything one compilation works on. A crash leaves it in an unknown state: then it is given up,
/// not destroyed.
struct Compilation {
  Diagnostics diagnostics;
  OwnedModule owned;
  std::unique_ptr<TargetMachine> machine;
  SmallVector<char, 0> output;
  bool unsupportedKind = false;

  explicit Compilation(OwnedModule owned) : owned(std::move(owned)) {}

  Error prepare(const CodegenOptions &options);
  void run(const CodegenOptions &options);
};

} // namespace

Error Compilation::prepare(const CodegenOptions &options) {
  auto made = makeTargetMachine(options);
  if (!made)
    return made.takeError();
  machine = std::move(*made);
  llvm::Module &module = *owned.module;
  owned.context->setDiagnosticHandlerCallBack(Diagnostics::handle, &diagnostics);
  module.setTargetTriple(machine->getTargetTriple());
  module.setDataLayout(machine->createDataLayout());
  if (!module.getModuleFlag("amdhsa_code_object_version"))
    module.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);
  std::string broken;
  raw_string_ostream os(broken);
  if (verifyModule(module, &os))
    return createStringError("invalid LLVM IR: " + StringRef(broken).trim().str());
  return Error::success();
}

void Compilation::run(const CodegenOptions &options) {
  llvm::Module &module = *owned.module;
  if (options.output == CodegenOutput::LLVMIR)
    return printText(module, output);
  optimize(module, *machine, options.optLevel);
  if (options.output == CodegenOutput::OptLLVMIR)
    return printText(module, output);
  CodeGenFileType kind = options.output == CodegenOutput::Assembly ? CodeGenFileType::AssemblyFile
                                                                   : CodeGenFileType::ObjectFile;
  unsupportedKind = emit(module, *machine, kind, output);
}

Expected<CodegenResult> mlir::fly::compileModule(OwnedModule owned,
                                                 const CodegenOptions &options) {
  auto compilation = std::make_unique<Compilation>(std::move(owned));
  if (Error error = compilation->prepare(options))
    return std::move(error);
  std::string what = "compiling for " + options.arch;
  if (Error crash = runGuarded(what, [&] { compilation->run(options); })) {
    std::string errors = compilation.release()->diagnostics.errors;
    if (errors.empty())
      return std::move(crash);
    return joinErrors(std::move(crash), createStringError(errors));
  }
  if (compilation->unsupportedKind)
    return createStringError("the AMDGPU target cannot emit this kind of output");
  if (!compilation->diagnostics.errors.empty())
    return createStringError(what + ": " + compilation->diagnostics.errors);

  CodegenResult result;
  result.warnings = std::move(compilation->diagnostics.warnings);
  result.bytes = std::move(compilation->output);
  compilation.reset();
  if (options.output != CodegenOutput::HSACO)
    return std::move(result);
  auto linked = linkObject(StringRef(result.bytes.data(), result.bytes.size()));
  if (!linked)
    return linked.takeError();
  result.bytes = std::move(*linked);
  return std::move(result);
}

Expected<CodegenResult> mlir::fly::compileLLVMIR(StringRef text, const CodegenOptions &options) {
  OwnedModule owned;
  SMDiagnostic diagnostic;
  // The lexer wants a terminated buffer.
  std::unique_ptr<MemoryBuffer> buffer = MemoryBuffer::getMemBufferCopy(text, "LLVM IR");
  owned.module = parseAssembly(*buffer, diagnostic, *owned.context);
  if (!owned.module) {
    std::string message;
    raw_string_ostream os(message);
    diagnostic.print("", os, /*ShowColors=*/false);
    return createStringError(StringRef(message).trim().str());
  }
  return compileModule(std::move(owned), options);
}
