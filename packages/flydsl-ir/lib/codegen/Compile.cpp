//===- Compile.cpp - LLVM IR to object code -------------------------------===//
#include "CompileModule.h"
#include "ForeignIntrinsics.h"
#include "HoldLanes.h"
#include "LaneByLane.h"
#include "LoadWords.h"
#include "LowerSwitches.h"
#include "MergeTraps.h"
#include "MixedHalves.h"
#include "PrintedDoubles.h"

#include "fly_codegen/ArchTable.h"
#include "fly_codegen/Codegen.h"
#include "fly_codegen/LLVMOptions.h"

#include "llvm/AsmParser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/DebugLoc.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/IR/Operator.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include <algorithm>
#include <chrono>
#include <shared_mutex>

using namespace llvm;
using namespace mlir::fly;

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

/// A call of an intrinsic of the target, for messages.
struct IntrinsicUse {
  std::string name, function, location;
};

std::vector<IntrinsicUse> collectIntrinsics(const llvm::Module &module) {
  std::vector<IntrinsicUse> uses;
  for (const Function &function : module)
    for (const Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallInst>(&instruction);
      const Function *callee = call ? call->getCalledFunction() : nullptr;
      if (!callee || !callee->getName().starts_with("llvm.amdgcn."))
        continue;
      std::string location;
      if (const DebugLoc &loc = instruction.getDebugLoc()) {
        raw_string_ostream os(location);
        loc.print(os);
      }
      uses.push_back({callee->getName().str(), function.getName().str(), location});
    }
  return uses;
}

std::string describe(const IntrinsicUse &use) {
  return use.name + " (kernel '" + use.function + "'" +
         (use.location.empty() ? ")" : ", " + use.location + ")");
}

/// Before selection, an intrinsic of buffers or of local memory whose operands have no instruction (the size
/// of a copy, the type of a load) is reported without its name. Says which ones come into question.
std::string describeIllegal(StringRef message, StringRef arch, ArrayRef<IntrinsicUse> uses) {
  std::string names;
  if (message.contains("Do not know how to"))
    for (const IntrinsicUse &use : uses)
      if (StringRef name = use.name;
          (name.contains(".buffer.") && !name.contains("make.buffer")) || name.contains(".lds"))
        names += (names.empty() ? "" : " or ") + describe(use);
  if (names.empty())
    return message.str();
  return (arch + " has no instruction for " + names + " with these operands").str();
}

/// Instruction selection reports what it cannot select by dumping its graph. Says instead which
/// intrinsic it was, and where; other messages stay as they are.
std::string describeFatal(StringRef message, StringRef arch, ArrayRef<IntrinsicUse> uses) {
  auto [before, what] = message.split("Cannot select: ");
  if (what.empty())
    return describeIllegal(message, arch, uses);
  what = what.split('\n').first;
  std::string name;
  if (size_t at = what.find("%llvm."); at != StringRef::npos) {
    name = what.substr(at + 1)
               .take_while([](char c) { return isAlnum(c) || c == '.' || c == '_'; })
               .str();
  } else if (size_t at = what.find(" = "); at != StringRef::npos) {
    StringRef node = what.substr(at + 3).take_until([](char c) { return c == '<' || c == ' '; });
    name = node.rsplit("::").second.empty() ? node.str() : node.rsplit("::").second.lower();
    std::replace(name.begin(), name.end(), '_', '.');
  }
  std::string result = (arch + " has no instruction for ").str();
  auto use = find_if(uses, [&](const IntrinsicUse &u) {
    return !name.empty() && StringRef(u.name).contains(name);
  });
  if (use == uses.end())
    return result + (name.empty() ? what.str() : name);
  return result + describe(*use);
}

/// What the module asks of another architecture and code generation would not refuse.
Error refuseForeign(const CodegenOptions &options, ArrayRef<IntrinsicUse> uses) {
  const ArchInfo *arch = lookupArch(options.arch);
  bool readable = options.output == CodegenOutput::LLVMIR || options.output == CodegenOutput::OptLLVMIR;
  if (!arch || readable)
    return Error::success();
  for (const IntrinsicUse &use : uses)
    if (isForeignIntrinsic(use.name, *arch))
      return createStringError(options.arch + " has no instruction for " + describe(use));
  return Error::success();
}

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
  Error linkLibraries(ArrayRef<std::string> libraries);
  Error applyAttributes(const CodegenOptions &options);
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
  if (Error error = linkLibraries(options.libraries))
    return error;
  if (Error error = applyAttributes(options))
    return error;
  std::string broken;
  raw_string_ostream os(broken);
  if (verifyModule(module, &os))
    return createStringError("invalid LLVM IR: " + StringRef(broken).trim().str());
  return Error::success();
}

/// Takes the definitions that the module lacks, and makes them private to it.
Error Compilation::linkLibraries(ArrayRef<std::string> libraries) {
  llvm::Module &module = *owned.module;
  Linker linker(module);
  for (auto [number, library] : enumerate(libraries)) {
    SMDiagnostic diagnostic;
    std::string name = "library " + std::to_string(number);
    auto part = parseIR(MemoryBufferRef(library, name), diagnostic, *owned.context);
    if (!part) {
      std::string message;
      raw_string_ostream os(message);
      diagnostic.print("", os, /*ShowColors=*/false);
      return createStringError("cannot read " + name + ": " + StringRef(message).trim().str());
    }
    if (!part->getTargetTriple().isAMDGCN())
      return createStringError(name + " is for '" + part->getTargetTriple().str() +
                               "', not for amdgcn");
    part->setDataLayout(module.getDataLayout());
    part->setTargetTriple(module.getTargetTriple());
    bool failed = linker.linkInModule(
        std::move(part), Linker::LinkOnlyNeeded, [](llvm::Module &linked, const StringSet<> &names) {
          internalizeModule(linked, [&](const GlobalValue &value) {
            return !value.hasName() || !names.contains(value.getName());
          });
        });
    if (failed)
      return createStringError("cannot link " + name + ": " + diagnostics.errors);
  }
  return Error::success();
}

/// Keeps a kernel of a target with banks of registers that does not say otherwise
/// ("amdgpu-waves-per-eu") to 256 vector registers: four waves a SIMD, and no switches between the
/// registers below and beyond. LLVM 22 would leave a wave as many as LDS and the workgroup allow. The
/// attribute "amdgpu-num-vgpr" is no bound, it yields to those. But a workgroup of 512 threads has
/// four waves a SIMD whatever LDS it takes, and fewer threads may be launched than were declared.
static void boundRegisters(Function &function) {
  if (function.hasFnAttribute("amdgpu-waves-per-eu"))
    return;
  constexpr unsigned threads = 512;
  StringRef name = "amdgpu-flat-work-group-size";
  auto [low, high] = function.getFnAttribute(name).getValueAsString().split(',');
  unsigned most = 0;
  if (high.getAsInteger(10, most) || most >= threads) // without the attribute there may be 1024
    return;
  function.addFnAttr(name, (low + "," + Twine(threads)).str());
}

Error Compilation::applyAttributes(const CodegenOptions &options) {
  if (!options.wavesPerEU.empty()) {
    auto [low, high] = StringRef(options.wavesPerEU).split(',');
    unsigned least = 0, most = 0;
    if (low.getAsInteger(10, least) || least == 0 ||
        (StringRef(options.wavesPerEU).contains(',') &&
         (high.getAsInteger(10, most) || most < least)))
      return createStringError("waves per EU must be \"min\" or \"min,max\", got '" +
                               options.wavesPerEU + "'");
  }
  const ArchInfo *arch = lookupArch(options.arch);
  const bool banks = arch && arch->has(ArchFeature::VGPRBanks);
  for (Function &function : *owned.module) {
    if (!options.wavesPerEU.empty() && function.getCallingConv() == CallingConv::AMDGPU_KERNEL)
      function.addFnAttr("amdgpu-waves-per-eu", options.wavesPerEU);
    if (banks && function.getCallingConv() == CallingConv::AMDGPU_KERNEL)
      boundRegisters(function);
    if (!options.fastMath)
      continue;
    for (Instruction &instruction : instructions(function))
      if (isa<FPMathOperator>(instruction))
        instruction.setFast(true);
  }
  return Error::success();
}

void Compilation::run(const CodegenOptions &options) {
  llvm::Module &module = *owned.module;
  if (options.output == CodegenOutput::LLVMIR)
    return printText(module, output);
  loadWords(module);
  keepPrintedDoubles(module);
  optimize(module, *machine, options.optLevel);
  if (options.output == CodegenOutput::OptLLVMIR)
    return printText(module, output);
  lowerSwitches(module);
  holdAllLanes(module);
  separateHalves(module, *machine);
  splitIntoLanes(module);
  if (const ArchInfo *arch = lookupArch(options.arch); arch && arch->has(ArchFeature::TrapIsLoop))
    mergeTraps(module);
  CodeGenFileType kind = options.output == CodegenOutput::Assembly ? CodeGenFileType::AssemblyFile
                                                                   : CodeGenFileType::ObjectFile;
  unsupportedKind = emit(module, *machine, kind, output);
}

Expected<CodegenResult> mlir::fly::compileModule(OwnedModule owned,
                                                 const CodegenOptions &options) {
  // Options of LLVM are process-wide: a compilation that sets some keeps all others out.
  std::shared_lock<std::shared_mutex> others(llvmOptionsMutex(), std::defer_lock);
  std::unique_lock<std::shared_mutex> alone(llvmOptionsMutex(), std::defer_lock);
  LLVMOptionScope scope;
  if (options.llvmOptions.empty()) {
    others.lock();
  } else {
    alone.lock();
    if (Error error = scope.set(options.llvmOptions))
      return std::move(error);
  }
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(start, now)).count();
  };
  auto compilation = std::make_unique<Compilation>(std::move(owned));
  if (Error error = compilation->prepare(options))
    return std::move(error);
  std::string what = "compiling for " + options.arch;
  std::vector<IntrinsicUse> intrinsics = collectIntrinsics(*compilation->owned.module);
  if (Error foreign = refuseForeign(options, intrinsics))
    return std::move(foreign);
  if (Error fatal = runGuarded(what, [&] { compilation->run(options); })) {
    Error crash = createStringError(describeFatal(toString(std::move(fatal)), options.arch, intrinsics));
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
  result.compileSeconds = seconds();
  if (options.output != CodegenOutput::HSACO)
    return std::move(result);
  auto linked = linkObject(StringRef(result.bytes.data(), result.bytes.size()));
  if (!linked)
    return linked.takeError();
  result.bytes = std::move(*linked);
  result.linkSeconds = seconds();
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
