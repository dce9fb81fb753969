//===- RegisterSwitches.h - more than 256 registers of gfx1250 -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_REGISTERSWITCHES_H
#define FLY_LIB_CODEGEN_REGISTERSWITCHES_H

namespace mlir::fly {

/// Adds what registers beyond 256 need to the pipelines of all machines that have them. To be called
/// before the first of these is made.
///
/// - A pass that chooses the banks of registers (RegisterBanks.h).
/// - A pass that lets LLVM place the switches between them (`s_set_vgpr_msb`) behind barriers and
///   waits. LLVM 22 moves a switch in front of instructions that only change the state of the wave,
///   so that it issues beside a vector instruction, and ends one instruction too far: the last
///   instruction before them reads and writes the registers that were meant for the one behind
///   (AMDGPULowerVGPREncoding). What it stops at is an instruction without code behind each of them.
void manageRegisterBanks();

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_REGISTERSWITCHES_H
