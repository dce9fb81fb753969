//===- Special.h - what decoder and checks know of single instructions -*- C++ -*-===//
#ifndef FLYSIM_EXEC_SPECIAL_H
#define FLYSIM_EXEC_SPECIAL_H

#include "exec/Inst.h"

namespace flysim {

void execUnsupported(Wave &, const Inst &);
void execIllegal(Wave &, const Inst &);
void execBadBranch(Wave &, const Inst &);

/// Whether `i` reads a hardware register that the machine keeps for its wave (MODE, STATUS, the size of LDS, the
/// base of private memory, the place in the cluster): its value is the hardware's, unlike that of clocks and ids.
bool readsKeptRegister(const Inst &i);

} // namespace flysim

#endif
