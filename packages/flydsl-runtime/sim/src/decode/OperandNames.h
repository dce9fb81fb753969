//===- OperandNames.h - LLVM's named operand ids ---------------*- C++ -*-===//
//
// LLVM generates AMDGPU::OpName but does not install the header. These are the ids
// of LLVM 22; Disassembler's constructor probes known opcodes and refuses to run
// with a library whose ids differ.
//
//===----------------------------------------------------------------------===//
#ifndef FLYSIM_DECODE_OPERANDNAMES_H
#define FLYSIM_DECODE_OPERANDNAMES_H

#include <cstdint>

namespace llvm::AMDGPU {
enum class OpName : uint8_t {
  vdst = 0,
  src0 = 1,
  vdata = 2,
  vaddr = 3,
  srsrc = 4,
  soffset = 5,
  offset = 6,
  cpol = 7,
  vdata_in = 8,
  swz = 9,
  saddr = 10,
  addr = 11,
  data0 = 12,
  gds = 13,
  data1 = 15,
  offset0 = 20,
  offset1 = 21,
  vdst_in = 22,
  src1 = 24,
  src2 = 25,
  src0_modifiers = 30,
  clamp = 31,
  omod = 32,
  op_sel = 33,
  idx = 44,
  sdst = 48,
  simm16 = 49,
  sdata = 50,
  sbase = 51,
  imm = 53,
  format = 54,
  old = 60,
  dpp_ctrl = 61,
  row_mask = 62,
  bank_mask = 63,
  bound_ctrl = 64,
  src1_modifiers = 65,
  dst_sel = 66,
  dst_unused = 67,
  src0_sel = 68,
  src1_sel = 69,
  src2_modifiers = 70,
  bitop3 = 71,
  byte_sel = 72,
  scale_sel = 73,
  op_sel_hi = 74,
  neg_lo = 75,
  neg_hi = 76,
  cbsz = 79,
  blgp = 80,
  abid = 81,
  scale_src0 = 82,
  scale_src1 = 83,
  vdst1 = 84,
  fi = 85,
  index_key_16bit = 88,
  index_key_32bit = 92,
  matrix_a_reuse = 89,
  matrix_b_reuse = 90,
  index_key_8bit = 91,
  matrix_a_fmt = 93,
  matrix_b_fmt = 94,
  matrix_a_scale = 95,
  matrix_b_scale = 96,
  matrix_a_scale_fmt = 97,
  matrix_b_scale_fmt = 98,
  dpp8 = 120,
  vdstX = 121,
  vdstY = 122,
  src0X_modifiers = 123,
  src0X = 124,
  vsrc1X_modifiers = 125,
  vsrc1X = 126,
  src0Y_modifiers = 127,
  src0Y = 128,
  vsrc1Y_modifiers = 129,
  vsrc1Y = 130,
};
int16_t getNamedOperandIdx(uint16_t opcode, OpName name);
} // namespace llvm::AMDGPU

#endif
