//===- OpTable.cpp - mnemonic to semantics --------------------------------===//

#include "exec/OpTable.h"

namespace flysim {

const OpDef *OpTable::find(const std::string &mnemonic) const {
  auto it = defs.find(mnemonic);
  return it == defs.end() ? nullptr : &it->second;
}

void OpTable::add(const char *name, OpDef def) {
  def.facts = factsOf(name);
  put(name, def);
}

void OpTable::put(const char *name, const OpDef &def) {
  auto it = defs.emplace(name, def).first;
  it->second = def;
  it->second.name = it->first.c_str();
}

void OpTable::alias(const char *name, const char *target, uint32_t without) {
  auto it = defs.find(target);
  if (it == defs.end())
    return;
  OpDef def = it->second;
  def.flags &= ~without;
  put(name, def); // with the facts of the target
}

} // namespace flysim
