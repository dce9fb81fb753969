//===- RegisterBanks.h - which bank of 256 registers a value is in -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_REGISTERBANKS_H
#define FLY_LIB_CODEGEN_REGISTERBANKS_H

namespace llvm {
class MachineFunctionPass;
} // namespace llvm

namespace mlir::fly {

/// A pass between allocation and rewriting that gives virtual registers other physical ones, so that
/// hot blocks have few switches between the banks of gfx1250 (`s_set_vgpr_msb`). Functions whose
/// registers are in one bank are left as they are, and so is the number of waves a SIMD holds.
llvm::MachineFunctionPass *createRegisterBanksPass();

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_REGISTERBANKS_H
