//===- Passes.td - passes for AMD GPUs --------------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_PASSES_TD
#define FLY_ROCDL_PASSES_TD

include "mlir/Pass/PassBase.td"

def ConvertFlyToROCDLPass : Pass<"convert-fly-to-rocdl"> {
  let summary = "lowers what the layout lowering leaves of fly to the LLVM and ROCDL dialects";
  let description = [{
    Pointers and memrefs become bare LLVM pointers (a buffer pointer: resource and element offset),
    atoms become the struct of their state, atom calls become instructions.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::scf::SCFDialect",
                           "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::ROCDL::ROCDLDialect"];
}

def FlyROCDLExpandOpsPass : Pass<"fly-rocdl-expand-ops"> {
  let summary = "expands operations of fly_rocdl that stand for layout operations";
  let description = [{
    `make_tiled_tdm_load_atom` and `make_tiled_tdm_store_atom` become `fly.make_copy_atom` on the
    address, strides and extents of the tensor, with a view of its coordinates; the field
    `boundary_check` of such an atom is translated to its descriptor axes. Runs after
    fly-canonicalize and before fly-layout-lowering.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::fly::FlyDialect"];
}

def FlyROCDLClusterAttrPass : Pass<"fly-rocdl-cluster-attr", "::mlir::gpu::GPUModuleOp"> {
  let summary = "turns rocdl.cluster_dims into the function attribute the back end reads";
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def ConvertROCDLFastmathOpsPass
    : Pass<"convert-rocdl-fastmath-ops", "::mlir::gpu::GPUModuleOp"> {
  let summary = "math.exp2 on f32 with the afn flag becomes rocdl.exp2";
  let dependentDialects = ["::mlir::ROCDL::ROCDLDialect", "::mlir::ub::UBDialect",
                           "::mlir::vector::VectorDialect"];
}

def FlyExpandMathPass : Pass<"fly-expand-math"> {
  let summary = "expands math operations so that no device library is needed";
  let description = [{
    Operations that the AMDGPU back end does not lower are written in terms of those it does; then
    the rest of the math dialect becomes LLVM intrinsics. An operation without an expansion is an
    error that names it. Device code only: functions inside gpu.module. Conversions of small floats become
    instructions of the given processor where it has them.
  }];
  let options = [Option<"chipset", "chipset", "std::string", /*default=*/"\"gfx000\"",
                        "processor that the code runs on; unknown: any">];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::LLVM::LLVMDialect", "::mlir::ROCDL::ROCDLDialect"];
}

def FlyROCDLPrintfAllocPass : Pass<"fly-rocdl-printf-alloc", "::mlir::gpu::GPUModuleOp"> {
  let summary = "defines the allocator behind the device's printf";
  let description = [{
    The AMDGPU back end turns a call of `printf` into stores to a buffer that the runtime passes as a
    hidden kernel argument; the format goes into the code object's metadata (`amdhsa.printf`), and the
    runtime prints the records when the kernel has finished. Space in the buffer comes from
    `__printf_alloc`, which other compilers link from the device library. Here it is defined in the
    module that prints.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def FlyROCDLOddBitcastsPass : Pass<"fly-rocdl-odd-bitcasts", "::mlir::gpu::GPUModuleOp"> {
  let summary = "expands bitcasts of vectors whose elements do not divide each other";
  let description = [{
    `llvm.bitcast` of twelve bytes to sixteen numbers of six bits (and back) becomes one integer and shifts. LLVM
    22 folds such a bitcast of a constant to another value.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // FLY_ROCDL_PASSES_TD
