//===- Wide.cpp - what wide vectors help most -----------------------------===//
//
// These parts of the instruction table are compiled for one CPU feature level more than the rest.
//
//===----------------------------------------------------------------------===//

#include "exec/Register.h"

namespace flysim {

void FLYSIM_LEVEL::registerWide(OpTable &table) {
  registerValuFloat(table);
  registerValuInt(table);
  registerValuCompare(table);
  registerLoops(table);
  registerGlobal(table);
  registerMatrix(table);
  registerLaneTests(table);
}

} // namespace flysim
