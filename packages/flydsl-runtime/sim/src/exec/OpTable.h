//===- OpTable.h - mnemonic to semantics -----------------------*- C++ -*-===//
#ifndef FLYSIM_EXEC_OPTABLE_H
#define FLYSIM_EXEC_OPTABLE_H

#include "exec/Inst.h"

#include <array>
#include <string>
#include <unordered_map>

namespace flysim {

/// Questions about a word of every lane of a wave of so many blocks of lanes, for those who watch a launch.
struct LaneTests {
  /// Whether each is as far from the first as `distances` says.
  bool (*follow)(const uint32_t *words, const uint32_t *distances, unsigned blocks) = nullptr;
  /// Whether all are the same.
  bool (*same)(const uint32_t *words, unsigned blocks) = nullptr;
};

/// The semantics of every implemented mnemonic, keyed by the assembler's name
/// without encoding suffix. Built once per process for the best CPU feature level.
class OpTable {
public:
  static const OpTable &instance();
  const OpDef *find(const std::string &mnemonic) const;
  /// Enters a mnemonic; its facts are those of its name.
  void add(const char *name, OpDef def);
  /// Makes `name` mean the same as the existing `target`, less the flags `without`.
  void alias(const char *name, const char *target, uint32_t without = 0);
  const std::unordered_map<std::string, OpDef> &all() const { return defs; }
  const char *level = "";
  /// How instructions with a lane loop run that have scalar operands (v_s_*); VOPD pairs.
  ExecFn scalarLoop = nullptr, dual = nullptr;
  /// How plain instructions with a lane loop run, by the number of their sources less one: those that write no lane
  /// mask, those of which nothing reads it (OpDef::laneResult), and comparisons.
  std::array<ExecFn, 3> plain{}, plainResult{};
  ExecFn plainCompare = nullptr;
  LaneTests lanes;

private:
  void put(const char *name, const OpDef &def);
  std::unordered_map<std::string, OpDef> defs;
};

} // namespace flysim

#endif
