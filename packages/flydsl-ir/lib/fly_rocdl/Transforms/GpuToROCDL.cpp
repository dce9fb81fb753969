//===- GpuToROCDL.cpp - convert-gpu-to-rocdl without device libraries -----===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//
//
// MLIR's pass leaves calls of ROCm's device libraries where the back end has no instruction
// (`__ocml_exp2_f32`, `__ockl_printf_begin`). Code generation here links none. Under the pass's
// name is registered a pipeline that expands math first and defines what printf needs, so that
// textual pipelines written for an installation with these libraries work unchanged. They do not
// lower the ub.poison that convert-vector-to-llvm starts reshaped vectors from either, so both are
// done here.
//
//===----------------------------------------------------------------------===//

#include "fly_rocdl/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_FLYROCDLPRINTFALLOCPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;

// The buffer starts with two words, the bytes used and the bytes available; records follow. Offset
// 72 of the implicit arguments is `hidden_printf_buffer` (code object v5 and later).
static constexpr StringLiteral kPrintfAlloc = R"(
llvm.func @__printf_alloc(%bytes: i32) -> !llvm.ptr<1> attributes {passthrough = ["noinline"]} {
  %c8 = llvm.mlir.constant(8 : i64) : i64
  %implicit = llvm.call_intrinsic "llvm.amdgcn.implicitarg.ptr"() : () -> !llvm.ptr<4>
  %slot = llvm.getelementptr %implicit[72] : (!llvm.ptr<4>) -> !llvm.ptr<4>, i8
  %buffer = llvm.load %slot {alignment = 8 : i64} : !llvm.ptr<4> -> !llvm.ptr<1>
  %limit_slot = llvm.getelementptr %buffer[4] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
  %limit = llvm.load %limit_slot {alignment = 4 : i64} : !llvm.ptr<1> -> i32
  %offset = llvm.atomicrmw add %buffer, %bytes syncscope("agent") monotonic : !llvm.ptr<1>, i32
  %end = llvm.add %offset, %bytes : i32
  %fits = llvm.icmp "ule" %end, %limit : i32
  %wide = llvm.zext %offset : i32 to i64
  %from = llvm.add %wide, %c8 : i64
  %place = llvm.getelementptr %buffer[%from] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, i8
  %null = llvm.mlir.zero : !llvm.ptr<1>
  %result = llvm.select %fits, %place, %null : i1, !llvm.ptr<1>
  llvm.return %result : !llvm.ptr<1>
}
)";

namespace {

struct FlyROCDLPrintfAlloc : fly_rocdl::impl::FlyROCDLPrintfAllocPassBase<FlyROCDLPrintfAlloc> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    if (!symbols.lookup("printf") || symbols.lookup("__printf_alloc"))
      return;
    auto parsed = parseSourceString<ModuleOp>(kPrintfAlloc, ParserConfig(&getContext()));
    Operation *function = &parsed->getBody()->front();
    function->remove();
    symbols.insert(function);
  }
};

/// The options of MLIR's pass, by the same names.
struct GpuToROCDLOptions : PassPipelineOptions<GpuToROCDLOptions> {
  Option<std::string> chipset{*this, "chipset", llvm::cl::desc("processor that the code runs on"),
                              llvm::cl::init("gfx000")};
  Option<unsigned> indexBitwidth{*this, "index-bitwidth",
                                 llvm::cl::desc("bits of an index; 0: of a machine word"),
                                 llvm::cl::init(0)};
  Option<bool> barePointers{*this, "use-bare-ptr-memref-call-conv",
                            llvm::cl::desc("pass memrefs of static shape as pointers"),
                            llvm::cl::init(false)};
  Option<gpu::amd::Runtime> runtime{
      *this, "runtime",
      llvm::cl::desc("who prints: HIP, which calls a device library, is served as OpenCL"),
      llvm::cl::init(gpu::amd::Runtime::Unknown),
      llvm::cl::values(clEnumValN(gpu::amd::Runtime::Unknown, "unknown", "nobody"),
                       clEnumValN(gpu::amd::Runtime::HIP, "HIP", "HIP"),
                       clEnumValN(gpu::amd::Runtime::OpenCL, "OpenCL", "OpenCL"))};
  ListOption<std::string> allowedDialects{
      *this, "allowed-dialects", llvm::cl::desc("convert operations of these dialects only")};
};

} // namespace

static void buildGpuToROCDL(OpPassManager &manager, const GpuToROCDLOptions &options) {
  bool isDevice = manager.getOpAnchorName() == gpu::GPUModuleOp::getOperationName();
  OpPassManager &device = isDevice ? manager : manager.nest<gpu::GPUModuleOp>();
  fly_rocdl::FlyExpandMathPassOptions expansions;
  expansions.chipset = options.chipset;
  device.addPass(fly_rocdl::createFlyExpandMathPass(expansions));
  device.addPass(createSCFToControlFlowPass()); // some expansions branch

  ConvertGpuOpsToROCDLOpsOptions chosen;
  chosen.chipset = options.chipset;
  chosen.indexBitwidth = options.indexBitwidth;
  chosen.useBarePtrCallConv = options.barePointers;
  chosen.runtime = options.runtime == gpu::amd::Runtime::HIP ? gpu::amd::Runtime::OpenCL
                                                             : options.runtime.getValue();
  chosen.allowedDialects.assign(options.allowedDialects.begin(), options.allowedDialects.end());
  device.addPass(createConvertGpuOpsToROCDLOps(chosen));
  device.addPass(createConvertVectorToLLVMPass());
  device.addPass(createUBToLLVMConversionPass());
  device.addPass(fly_rocdl::createFlyROCDLPrintfAllocPass());
  device.addPass(fly_rocdl::createFlyROCDLOddBitcastsPass());
}

void fly_rocdl::registerGpuToROCDLPipeline() {
  PassPipelineRegistration<GpuToROCDLOptions>(
      "convert-gpu-to-rocdl",
      "Generate ROCDL operations for gpu and math operations, without calls of device libraries",
      buildGpuToROCDL);
}
