//===- Special.h - execution functions the decoder refers to ---*- C++ -*-===//
#ifndef FLYSIM_EXEC_SPECIAL_H
#define FLYSIM_EXEC_SPECIAL_H

#include "exec/Inst.h"

namespace flysim {

void execUnsupported(Wave &, const Inst &);
void execIllegal(Wave &, const Inst &);
void execBadBranch(Wave &, const Inst &);

} // namespace flysim

#endif
