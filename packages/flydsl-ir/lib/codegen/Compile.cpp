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

Expected<CodegenResult> mlir::fly::compileModule(std::unique_ptr<LLVMContext> context,
                                                 std::unique_ptr<llvm::Module> module,
                                                 const CodegenOptions &options) {
  auto machine = makeTargetMachine(options);
  if (!machine)
    return machine.takeError();
  auto diagnostics = std::make_unique<Diagnostics>();
  context->setDiagnosticHandlerCallBack(Diagnostics::handle, diagnostics.get());
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  if (!module->getModuleFlag("amdhsa_code_object_version"))
    module->addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", kCodeObjectVersion);

  std::string broken;
  raw_string_ostream brokenStream(broken);
  if (verifyModule(*module, &brokenStream))
    return createStringError("invalid LLVM IR: " + StringRef(broken).trim().str());

  CodegenResult result;
  bool unsupportedKind = false;
  // A crash leaves the objects in an unknown state: they are given up, not destroyed.
  LLVMContext *ctx = context.release();
  llvm::Module *mod = module.release();
  TargetMachine *tm = machine->release();
  Diagnostics *diags = diagnostics.release();
  auto buffer = std::make_unique<SmallVector<char, 0>>();
  SmallVector<char, 0> *out = buffer.release();
  Error crash = runGuarded("compiling for " + options.arch, [&] {
    if (options.output == CodegenOutput::LLVMIR)
      return printText(*mod, *out);
    optimize(*mod, *tm, options.optLevel);
    if (options.output == CodegenOutput::OptLLVMIR)
      return printText(*mod, *out);
    CodeGenFileType kind = options.output == CodegenOutput::Assembly
                               ? CodeGenFileType::AssemblyFile
                               : CodeGenFileType::ObjectFile;
    unsupportedKind = emit(*mod, *tm, kind, *out);
  });
  if (crash) {
    if (!diags->errors.empty())
      return joinErrors(std::move(crash), createStringError(diags->errors));
    return std::move(crash);
  }
  buffer.reset(out);
  diagnostics.reset(diags);
  module.reset(mod);
  machine->reset(tm);
  context.reset(ctx);
  result.bytes = std::move(*buffer);
  result.warnings = diagnostics->warnings;
  std::string errors = diagnostics->errors;
  // The context is the owner of everything in the module, so it goes last.
  module.reset();
  context.reset();

  if (unsupportedKind)
    return createStringError("the AMDGPU target cannot emit this kind of output");
  if (!errors.empty())
    return createStringError("compiling for " + options.arch + ": " + errors);
  if (options.output != CodegenOutput::HSACO)
    return std::move(result);
  auto linked = linkObject(StringRef(result.bytes.data(), result.bytes.size()));
  if (!linked)
    return linked.takeError();
  result.bytes = std::move(*linked);
  return std::move(result);
}

Expected<CodegenResult> mlir::fly::compileLLVMIR(StringRef text, const CodegenOptions &options) {
  auto context = std::make_unique<LLVMContext>();
  SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = parseAssemblyString(text, diagnostic, *context);
  if (!module) {
    std::string message;
    raw_string_ostream os(message);
    diagnostic.print("LLVM IR", os, /*ShowColors=*/false);
    return createStringError(StringRef(message).trim().str());
  }
  return compileModule(std::move(context), std::move(module), options);
}
