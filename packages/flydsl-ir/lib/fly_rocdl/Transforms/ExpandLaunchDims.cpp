//===- ExpandLaunchDims.cpp - sizes of blocks and of the grid -------------===//
//
// The conversion of upstream calls a device library for them.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "../IR/EmitUtils.h"
#include "Expand.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

/// Size along `dimension` that the kernel states in `attribute`; 0 if it does not.
static int64_t getKnownSize(Operation *op, StringRef attribute, gpu::Dimension dimension) {
  auto func = op->getParentOfType<FunctionOpInterface>();
  auto sizes = func ? func->getAttrOfType<DenseI32ArrayAttr>(attribute) : DenseI32ArrayAttr();
  auto index = static_cast<size_t>(dimension);
  return sizes && index < static_cast<size_t>(sizes.size()) ? sizes[index] : 0;
}

/// An implicit kernel argument of `width` bits. Source: LLVM's "User Guide for AMDGPU Backend", code
/// object V5, hidden_block_count_* at 0, 4, 8 and hidden_group_size_* at 12, 14, 16.
static Value loadImplicitArgument(OpBuilder &b, Location loc, int64_t offset, unsigned width) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 4);
  Value base = callIntrinsic(b, loc, "llvm.amdgcn.implicitarg.ptr", pointer, {});
  Value address = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                                      ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(offset)});
  Value loaded = LLVM::LoadOp::create(b, loc, b.getIntegerType(width), address, width / 8,
                                      /*isVolatile=*/false, /*isNonTemporal=*/false,
                                      /*isInvariant=*/true);
  return arith::IndexCastUIOp::create(b, loc, b.getIndexType(), loaded);
}

template <typename OpT>
static void expand(OpT op, StringRef attribute, int64_t offset, unsigned width) {
  OpBuilder b(op);
  int64_t known = getKnownSize(op, attribute, op.getDimension());
  auto dimension = static_cast<int64_t>(op.getDimension());
  Value size = known > 0
                   ? arith::ConstantIndexOp::create(b, op.getLoc(), known).getResult()
                   : loadImplicitArgument(b, op.getLoc(), offset + dimension * width / 8, width);
  op.replaceAllUsesWith(size);
  op.erase();
}

void fly_rocdl::expandLaunchDims(Operation *func) {
  func->walk([](Operation *op) {
    if (auto block = dyn_cast<gpu::BlockDimOp>(op))
      expand(block, "known_block_size", 12, 16);
    else if (auto grid = dyn_cast<gpu::GridDimOp>(op))
      expand(grid, "known_grid_size", 0, 32);
  });
}
