//===- Passes.td - passes of the fly dialect --------------------*- tablegen -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===--------------------------------------------------------------------------===//

#ifndef FLY_TRANSFORMS_PASSES_TD
#define FLY_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def FlyRewriteFuncSignaturePass : Pass<"fly-rewrite-func-signature"> {
  let summary = "Remove fly structural types from function, launch and loop boundaries";
  let description = [{
    Static types disappear, dynamic ones become packed LLVM structs of their dynamic leaves, and a
    memref becomes a pointer followed by the struct of its layout if that is dynamic.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect",
                           "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
                           "::mlir::scf::SCFDialect", "::mlir::fly::FlyDialect"];
}

def FlyCanonicalizePass : Pass<"fly-canonicalize"> {
  let summary = "Bring static values into normal form and remove synonyms";
  let dependentDialects = ["::mlir::fly::FlyDialect"];
}

def FlyLayoutLoweringPass : Pass<"fly-layout-lowering"> {
  let summary = "Lower layout algebra to integer arithmetic, pointer offsets and atom calls";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::vector::VectorDialect", "::mlir::fly::FlyDialect"];
}

def FlyIntSwizzleSimplifyPass : Pass<"fly-int-swizzle-simplify"> {
  let summary = "Move addends that are multiples of a swizzle's period out of the swizzle";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect"];
}

def FlyConvertAtomCallToSSAFormPass : Pass<"fly-convert-atom-call-to-ssa-form"> {
  let summary = "Pass register operands of atom calls as values";
  let dependentDialects = ["::mlir::vector::VectorDialect", "::mlir::fly::FlyDialect"];
}

def FlyPromoteRegMemToVectorSSAPass : Pass<"fly-promote-regmem-to-vectorssa"> {
  let summary = "Turn register allocations of kernels into vector values";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect",
                           "::mlir::ub::UBDialect", "::mlir::fly::FlyDialect"];
}

#endif // FLY_TRANSFORMS_PASSES_TD
