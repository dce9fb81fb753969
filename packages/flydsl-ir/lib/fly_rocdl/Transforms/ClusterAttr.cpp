//===- ClusterAttr.cpp - the pass fly-rocdl-cluster-attr ------------------===//
//
// The translation to LLVM IR does not know rocdl.cluster_dims; the back end reads a function
// attribute.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/Passes.h"

namespace mlir::fly_rocdl {
#define GEN_PASS_DEF_FLYROCDLCLUSTERATTRPASS
#include "fly_rocdl/Passes.h.inc"
} // namespace mlir::fly_rocdl

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

struct FlyROCDLClusterAttr : fly_rocdl::impl::FlyROCDLClusterAttrPassBase<FlyROCDLClusterAttr> {
  void runOnOperation() override {
    Builder builder(&getContext());
    getOperation().walk([&](LLVM::LLVMFuncOp func) {
      auto dims = func->getAttrOfType<StringAttr>("rocdl.cluster_dims");
      if (!dims)
        return;
      SmallVector<Attribute> passthrough;
      if (ArrayAttr old = func.getPassthroughAttr())
        llvm::append_range(passthrough, old);
      passthrough.push_back(
          builder.getArrayAttr({builder.getStringAttr("amdgpu-cluster-dims"), dims}));
      func.setPassthroughAttr(builder.getArrayAttr(passthrough));
      func->removeAttr("rocdl.cluster_dims");
    });
  }
};

} // namespace
