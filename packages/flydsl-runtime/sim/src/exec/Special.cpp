//===- Special.cpp - execution functions the decoder refers to ------------===//

#include "exec/Special.h"

#include "support/Error.h"

namespace flysim {

void execUnsupported(Wave &, const Inst &) {
  raise(FaultKind::UnsupportedInstruction, "the simulator does not implement this instruction");
}

void execIllegal(Wave &, const Inst &) {
  raise(FaultKind::IllegalInstruction, "these bytes are no instruction");
}

void execBadBranch(Wave &, const Inst &) {
  raise(FaultKind::IllegalAddress, "branch to an address where there is no instruction");
}

} // namespace flysim
