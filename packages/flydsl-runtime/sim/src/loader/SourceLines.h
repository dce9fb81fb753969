//===- SourceLines.h - DWARF line information ------------------*- C++ -*-===//
#ifndef FLYSIM_LOADER_SOURCELINES_H
#define FLYSIM_LOADER_SOURCELINES_H

#include "loader/CodeObject.h"

namespace flysim {

/// "file:line" of the instruction at ELF address `address`, or "" without debug
/// information.
std::string sourceLine(const CodeObject &object, uint64_t address);
/// The same for many addresses of one code object at once, which is much faster.
std::vector<std::string> sourceLines(const CodeObject &object, const std::vector<uint64_t> &addresses);

} // namespace flysim

#endif
