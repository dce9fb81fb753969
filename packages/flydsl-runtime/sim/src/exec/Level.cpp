//===- Level.cpp - the instruction table of one CPU feature level ---------===//

#include "exec/Register.h"

namespace flysim {
class OpTable;
namespace FLYSIM_LEVEL {

void buildTable(OpTable &table, void (*registerWideParts)(OpTable &));
void buildTable(OpTable &table, void (*registerWideParts)(OpTable &)) {
  scalar::registerSalu(table);
  scalar::registerSaluHalf(table);
  scalar::registerFlow(table);
  scalar::registerSmem(table);
  registerWideParts(table);
  registerValuHalf(table);
  registerValuConvert(table);
  registerConvertSmall(table);
  registerConvertScaled(table);
  registerValuDot(table);
  registerValuSpecial(table);
  registerValuExtra(table);
  registerMoveRel(table);
  registerBuffer(table);
  registerLds(table);
  registerBufferFormat(table);
  registerLdsExtra(table);
  registerAsync(table);
}

} // namespace FLYSIM_LEVEL
} // namespace flysim
