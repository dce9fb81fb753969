//===- Register.h - the parts of the instruction table ---------*- C++ -*-===//
#ifndef FLYSIM_EXEC_REGISTER_H
#define FLYSIM_EXEC_REGISTER_H

namespace flysim {
class OpTable;

// Compiled once.
namespace scalar {
void registerFlow(OpTable &);
void registerSalu(OpTable &);
void registerSaluHalf(OpTable &);
void registerSmem(OpTable &);
} // namespace scalar

// Compiled once per CPU feature level.
namespace FLYSIM_LEVEL {
void registerValuFloat(OpTable &);
void registerValuHalf(OpTable &);
void registerValuInt(OpTable &);
void registerValuCompare(OpTable &);
void registerValuConvert(OpTable &);
void registerConvertSmall(OpTable &);
void registerConvertScaled(OpTable &);
void registerValuDot(OpTable &);
void registerValuSpecial(OpTable &);
void registerValuExtra(OpTable &);
void registerMoveRel(OpTable &);
void registerBufferFormat(OpTable &);
void registerLdsExtra(OpTable &);
void registerAsync(OpTable &);
void registerLoops(OpTable &);
void registerGlobal(OpTable &);
void registerBuffer(OpTable &);
void registerLds(OpTable &);
void registerMatrix(OpTable &);
void registerLaneTests(OpTable &);
/// Several of the above (Wide.cpp).
void registerWide(OpTable &);
} // namespace FLYSIM_LEVEL
} // namespace flysim

#endif
