//===- BankModes.cpp - switches between banks of registers ----------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "BankModes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/CodeGen/MachineInstr.h"
#include <algorithm>

using namespace llvm;
using namespace mlir::fly;

constexpr unsigned kDestination = kModeFields - 1;

/// Sources of a vector instruction are numbered as they stand, constants and scalars included.
static void sourceFields(const MachineInstr &instruction, StringRef name, VectorOperand isVector,
                         ModeField use) {
  const bool folded = name.starts_with("V_FMAMK"); // its constant stands where the second source does
  const bool matrix = name.starts_with("V_WMMA") || name.starts_with("V_SWMMAC");
  const MCInstrDesc &desc = instruction.getDesc();
  unsigned field = 0;
  for (unsigned i = desc.getNumDefs(); i < desc.getNumOperands() && field < kDestination; ++i) {
    if (desc.operands()[i].RegClass < 0) // a modifier
      continue;
    // A tied source takes the bits of its destination, except in matrix instructions.
    if (isVector(i) && (matrix || !instruction.getOperand(i).isTied()))
      use(i, field);
    field += folded ? 2 : 1;
  }
}

/// Vector operands of a memory instruction are numbered without the scalars between them.
static void addressFields(const MachineInstr &instruction, StringRef name, VectorOperand isVector,
                          ModeField use) {
  // The data of a buffer store and the LDS address of an asynchronous load stand where results do.
  const unsigned defs = instruction.getDesc().getNumDefs();
  const bool dataFirst = defs == 0 && (name.contains("BUFFER_") || name.contains("LOAD_ASYNC"));
  SmallVector<unsigned, 4> fields = {0, 1, 2};
  if (dataFirst)
    fields.insert(fields.begin(), kDestination);
  unsigned next = 0;
  for (unsigned i = defs; i < instruction.getDesc().getNumOperands(); ++i)
    if (isVector(i) && !instruction.getOperand(i).isTied() && next < fields.size())
      use(i, fields[next++]);
}

void mlir::fly::forEachModeField(const MachineInstr &instruction, StringRef name,
                                 VectorOperand isVector, ModeField use) {
  const bool isCopy = instruction.isCopy(), vector = isCopy || name.starts_with("V_");
  const bool memory = any_of(ArrayRef<StringRef>{"BUFFER_", "TBUFFER_", "DS_", "FLAT_", "GLOBAL_", "SCRATCH_"},
                             [&](StringRef prefix) { return name.starts_with(prefix); });
  if (!vector && !memory)
    return;
  for (unsigned i = 0; i < instruction.getDesc().getNumDefs(); ++i)
    if (isVector(i))
      use(i, kDestination);
  if (isCopy) {
    if (isVector(1))
      use(1, 0);
  } else {
    (vector ? sourceFields : addressFields)(instruction, name, isVector, use);
  }
}

void BankModes::beginBlock(double weight) {
  unsigned at = operands.size();
  blocks.push_back({at, at, weight});
}

void BankModes::add(const ModeOperands &needed) {
  operands.push_back(needed);
  blockOf.push_back(blocks.size() - 1);
  blocks.back().end = operands.size();
}

void BankModes::finish(unsigned groups, ArrayRef<uint16_t> home) {
  firstUse.assign(groups + 1, 0);
  auto forEachGroup = [&](auto visit) {
    for (auto [at, needed] : enumerate(operands))
      for (unsigned field = 0; field < kModeFields; ++field) {
        int32_t group = needed[field].group;
        bool seen = group < 0;
        for (unsigned before = 0; before < field; ++before)
          seen |= needed[before].group == group;
        if (!seen)
          visit(group, at);
      }
  };
  forEachGroup([&](int32_t group, uint32_t) { ++firstUse[group + 1]; });
  for (unsigned group = 0; group < groups; ++group)
    firstUse[group + 1] += firstUse[group];
  usesOfGroups.resize(firstUse.back());
  std::vector<uint32_t> next(firstUse.begin(), firstUse.end());
  forEachGroup([&](int32_t group, uint32_t at) { usesOfGroups[next[group]++] = at; });

  switches.assign(operands.size(), 0);
  for (const Block &block : blocks) {
    BankMode mode;
    for (unsigned at = block.begin; at < block.end; ++at)
      switches[at] = !mode.serves(operands[at], home);
  }
}

bool BankMode::serves(const ModeOperands &needed, ArrayRef<uint16_t> home) {
  std::array<int8_t, kModeFields> banks;
  bool fits = true;
  for (unsigned field = 0; field < kModeFields; ++field) {
    const ModeOperand &operand = needed[field];
    banks[field] = operand.group < 0 ? -1 : (home[operand.group] + operand.offset) / kBankSize;
    fits &= banks[field] < 0 || fields[field] < 0 || fields[field] == banks[field];
  }
  for (unsigned field = 0; field < kModeFields; ++field)
    if (banks[field] >= 0 || !fits)
      fields[field] = banks[field];
  return fits;
}

template <typename Visit>
double BankModes::recount(int32_t group, ArrayRef<uint16_t> home, Visit visit) const {
  double change = 0;
  for (unsigned use = firstUse[group], last = firstUse[group + 1]; use < last;) {
    const unsigned next = usesOfGroups[use];
    unsigned at = next;
    const Block &block = blocks[blockOf[at]];
    // Begins with the switch before, which the group does not bear on, or with the block.
    for (bool switched = false; at > block.begin && !switched;)
      switched = switches[--at];
    BankMode mode;
    if (at > block.begin) {
      mode.fields.fill(-1);
      mode.serves(operands[at++], home);
    }
    for (bool same = false; at < block.end && !same; ++at) {
      const bool before = switches[at], now = !mode.serves(operands[at], home);
      change += (int(now) - int(before)) * block.weight;
      visit(at, now);
      const bool used = use < last && usesOfGroups[use] == at;
      use += used;
      // What follows a switch where one was before is as it was, up to the next use.
      same = before && now && !used && at > next;
    }
  }
  return change;
}

double BankModes::change(int32_t group, ArrayRef<uint16_t> home) const {
  return recount(group, home, [](unsigned, bool) {});
}

double BankModes::move(int32_t group, ArrayRef<uint16_t> home) {
  return recount(group, home, [this](unsigned at, bool now) { switches[at] = now; });
}

std::pair<unsigned, unsigned> BankModes::someUse(int32_t group, unsigned &random) const {
  const unsigned uses = firstUse[group + 1] - firstUse[group];
  const unsigned at = usesOfGroups[firstUse[group] + random % uses];
  random /= uses;
  unsigned field = random % kModeFields;
  while (operands[at][field].group != group)
    field = (field + 1) % kModeFields;
  return {at, field};
}

unsigned BankModes::neighbour(int32_t group, unsigned random, ArrayRef<uint16_t> home) const {
  if (!uses(group))
    return ~0u;
  const bool forward = random & 1;
  random /= 2;
  auto [at, field] = someUse(group, random);
  const Block &block = blocks[blockOf[at]];
  for (unsigned i = at; forward ? ++i < block.end : i-- > block.begin;)
    if (const ModeOperand &o = operands[i][field]; o.group >= 0 && o.group != group)
      return (home[o.group] + o.offset) / kBankSize;
  return ~0u;
}

SmallVector<unsigned, 16> BankModes::row(int32_t group, unsigned random, unsigned most) const {
  SmallVector<unsigned, 16> found = {unsigned(group)};
  if (!uses(group))
    return found;
  auto [at, field] = someUse(group, random);
  for (const unsigned end = blocks[blockOf[at]].end; ++at < end && found.size() < most;)
    if (int32_t other = operands[at][field].group; other >= 0 && !is_contained(found, unsigned(other)))
      found.push_back(other);
  return found;
}

double BankModes::weight(int32_t group) const {
  double most = 0;
  for (unsigned use = firstUse[group]; use < firstUse[group + 1]; ++use)
    most = std::max(most, blocks[blockOf[usesOfGroups[use]]].weight);
  return most;
}

double BankModes::total() const {
  double sum = 0;
  for (const Block &block : blocks)
    sum += block.weight * std::count(&switches[0] + block.begin, &switches[0] + block.end, 1);
  return sum;
}
