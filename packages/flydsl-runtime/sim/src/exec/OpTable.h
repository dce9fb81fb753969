//===- OpTable.h - mnemonic to semantics -----------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_OPTABLE_H
#define FLYSIM_EXEC_OPTABLE_H

#include "exec/Inst.h"

#include <string>
#include <unordered_map>

namespace flysim {

/// The semantics of every implemented mnemonic, keyed by the assembler's name
/// without encoding suffix. Built once per process for the best CPU feature level.
class OpTable {
public:
  static const OpTable &instance();
  const OpDef *find(const std::string &mnemonic) const;
  void add(const char *name, OpDef def);
  /// Makes `name` mean the same as the existing `target`, less the flags `without`.
  void alias(const char *name, const char *target, uint32_t without = 0);
  const std::unordered_map<std::string, OpDef> &all() const { return defs; }
  const char *level = "";

private:
  std::unordered_map<std::string, OpDef> defs;
};

} // namespace flysim

#endif
