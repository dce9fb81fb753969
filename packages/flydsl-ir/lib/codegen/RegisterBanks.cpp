//===- RegisterBanks.cpp - which bank of 256 registers a value is in ------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "RegisterBanks.h"
#include "BankSearch.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/CodeGen/LiveIntervals.h"
#include "llvm/CodeGen/LiveRegMatrix.h"
#include "llvm/CodeGen/MachineBlockFrequencyInfo.h"
#include "llvm/CodeGen/MachineFunctionPass.h"
#include "llvm/CodeGen/MachineRegisterInfo.h"
#include "llvm/CodeGen/TargetInstrInfo.h"
#include "llvm/CodeGen/TargetRegisterInfo.h"
#include "llvm/CodeGen/TargetSubtargetInfo.h"
#include "llvm/CodeGen/VirtRegMap.h"
#include "llvm/Support/MathExtras.h"

using namespace llvm;
using namespace mlir::fly;

namespace {

constexpr unsigned kGranule = 16; // of registers that a wave takes
constexpr unsigned kMostWaves = 16;
constexpr int32_t kPhysical = 0; // the group of registers that are named as such, and stay

/// What the search needs to know of a function, and what it finds put into effect.
class Banks {
public:
  Banks(MachineFunction &function, LiveIntervals &lives, VirtRegMap &map, LiveRegMatrix &matrix)
      : function(function), lives(lives), map(map), matrix(matrix), registers(function.getRegInfo()),
        info(*function.getSubtarget().getRegisterInfo()),
        code(*function.getSubtarget().getInstrInfo()) {}

  bool run(const MachineBlockFrequencyInfo &frequencies);

private:
  bool collect();
  void joinCopies();
  void allowBanks();
  void rankStretches();
  template <typename Visit> void forEachRange(Visit visit);
  void describeBlock(const MachineBasicBlock &block);
  bool apply(ArrayRef<uint16_t> found);

  unsigned numberOf(MCRegister reg) const { return info.getEncodingValue(reg) % kVectorRegisters; }
  bool isVector(MCRegister reg) const { return StringRef(info.getName(reg)).starts_with("VGPR"); }
  unsigned offsetOf(unsigned index) const { return index ? info.getSubRegIdxOffset(index) / 32 : 0; }
  unsigned sizeOf(Register reg) const {
    return info.getRegSizeInBits(*registers.getRegClass(reg)) / 32;
  }
  ModeOperand operandOf(const MachineOperand &operand) const;
  MCRegister physical(Register reg, unsigned number);

  MachineFunction &function;
  LiveIntervals &lives;
  VirtRegMap &map;
  LiveRegMatrix &matrix;
  const MachineRegisterInfo &registers;
  const TargetRegisterInfo &info;
  const TargetInstrInfo &code;

  BankModes modes;
  std::vector<Register> values; ///< virtual registers that are vector registers
  DenseMap<Register, ModeOperand> places; ///< group of each, and offset in it
  BitVector named; ///< units of registers that are named as such
  std::vector<RegisterGroup> groups;
  std::vector<uint16_t> homes;
  unsigned limit = 0, ranks = 0;
  DenseMap<unsigned, std::vector<MCRegister>> tuples; ///< by class and number
};

/// Whether registers of several banks are used. Sets the limit to which more may be, for as many waves.
bool Banks::collect() {
  unsigned used = 0;
  for (unsigned index = 0; index < registers.getNumVirtRegs(); ++index) {
    Register reg = Register::index2VirtReg(index);
    if (registers.reg_nodbg_empty(reg) || !map.hasPhys(reg) || !isVector(map.getPhys(reg)))
      continue;
    values.push_back(reg);
    used = std::max(used, numberOf(map.getPhys(reg)) + std::max(sizeOf(reg), 1u));
  }
  if (used <= kBankSize)
    return false;
  const unsigned waves = std::min<unsigned>(kMostWaves, kVectorRegisters / alignTo(used, kGranule));
  limit = alignDown(kVectorRegisters / waves, kGranule);
  named.resize(info.getNumRegUnits());
  for (const MachineBasicBlock &block : function)
    for (const MachineInstr &instruction : block.instrs())
      for (const MachineOperand &operand : instruction.operands())
        if (operand.isReg() && operand.getReg().isPhysical() && isVector(operand.getReg().asMCReg()))
          for (MCRegUnit unit : info.regunits(operand.getReg().asMCReg()))
            named.set(static_cast<unsigned>(unit));
  return true;
}

/// Makes the groups: what a copy that needs no instruction connects stays connected.
void Banks::joinCopies() {
  DenseMap<Register, unsigned> indices;
  for (auto [index, reg] : enumerate(values))
    indices[reg] = index;
  IntEqClasses joined(values.size());
  for (const MachineBasicBlock &block : function)
    for (const MachineInstr &copy : block) {
      if (!copy.isCopy())
        continue;
      const MachineOperand &to = copy.getOperand(0), &from = copy.getOperand(1);
      auto left = indices.find(to.getReg()), right = indices.find(from.getReg());
      if (left == indices.end() || right == indices.end())
        continue;
      auto number = [&](const MachineOperand &operand) {
        return numberOf(map.getPhys(operand.getReg())) + offsetOf(operand.getSubReg());
      };
      if (number(to) == number(from))
        joined.join(left->second, right->second);
    }
  joined.compress();
  groups.resize(1 + joined.getNumClasses());
  homes.assign(groups.size(), kVectorRegisters);
  homes[kPhysical] = 0;
  groups[kPhysical].lanes.resize(kVectorRegisters);
  for (auto [index, reg] : enumerate(values)) {
    uint16_t &home = homes[1 + joined[index]];
    home = std::min<uint16_t>(home, numberOf(map.getPhys(reg)));
  }
  for (auto [index, reg] : enumerate(values)) {
    const unsigned group = 1 + joined[index], offset = numberOf(map.getPhys(reg)) - homes[group];
    places[reg] = {int32_t(group), uint16_t(offset)};
    auto &lanes = groups[group].lanes;
    lanes.resize(std::max<size_t>(lanes.size(), offset + std::max(sizeOf(reg), 1u)));
  }
}

/// A group may lie where the classes of all its registers have any, from the first place of a bank to
/// the last: some classes have only half of the first bank. Halves of registers stay.
void Banks::allowBanks() {
  for (RegisterGroup &group : drop_begin(groups))
    group.banks = group.size() <= kBankSize ? (1u << divideCeil(limit, kBankSize)) - 1 : 0;
  for (Register reg : values) {
    const ModeOperand &place = places[reg];
    RegisterGroup &group = groups[place.group];
    const unsigned step = group.size() == 1 ? 1 : 2, odd = homes[place.group] % step;
    for (unsigned bank = 0; bank * kBankSize < limit; ++bank) {
      const unsigned first = bank * kBankSize + odd, end = std::min(limit, (bank + 1) * kBankSize);
      const bool fits = sizeOf(reg) != 0 && first + group.size() <= end;
      const unsigned last = fits ? first + (end - group.size() - first) / step * step : first;
      if (!fits || !physical(reg, first + place.offset) || !physical(reg, last + place.offset))
        group.banks &= ~(1u << bank);
    }
  }
}

/// Live ranges of 32 bits or less: group, register in it, and range.
template <typename Visit> void Banks::forEachRange(Visit visit) {
  auto root = [&](MCRegUnit unit) -> MCRegister { return *MCRegUnitRootIterator(unit, &info); };
  for (Register reg : values) {
    const ModeOperand &place = places[reg];
    const LiveInterval &interval = lives.getInterval(reg);
    const unsigned first = homes[place.group];
    for (MCRegUnitMaskIterator unit(map.getPhys(reg), &info); unit.isValid(); ++unit) {
      auto [number, mask] = *unit;
      const unsigned lane = numberOf(root(number)) - first;
      if (!interval.hasSubRanges())
        visit(place.group, lane, interval);
      for (const LiveInterval::SubRange &part : interval.subranges())
        if ((part.LaneMask & mask).any())
          visit(place.group, lane, part);
    }
  }
  for (unsigned index : named.set_bits()) {
    const MCRegUnit unit = static_cast<MCRegUnit>(index);
    visit(kPhysical, numberOf(root(unit)), lives.getRegUnit(unit));
  }
}

void Banks::rankStretches() {
  std::vector<SlotIndex> ends;
  forEachRange([&](int32_t, unsigned, const LiveRange &range) {
    for (const LiveRange::Segment &segment : range) {
      ends.push_back(segment.start);
      ends.push_back(segment.end);
    }
  });
  llvm::sort(ends);
  ends.erase(llvm::unique(ends), ends.end());
  ranks = ends.size();
  auto rank = [&](SlotIndex index) { return unsigned(llvm::lower_bound(ends, index) - ends.begin()); };
  forEachRange([&](int32_t group, unsigned lane, const LiveRange &range) {
    for (const LiveRange::Segment &segment : range)
      groups[group].lanes[lane].push_back({rank(segment.start), rank(segment.end)});
  });
  for (unsigned index = 0; index < info.getNumRegUnits(); ++index) {
    const MCRegUnit unit = static_cast<MCRegUnit>(index);
    const MCRegister reg = *MCRegUnitRootIterator(unit, &info);
    if (isVector(reg) && registers.isReservedRegUnit(unit))
      groups[kPhysical].lanes[numberOf(reg)] = {{0, ranks}};
  }
  // Halves of a register and members of a group overlap.
  for (RegisterGroup &group : groups)
    for (auto &stretches : group.lanes) {
      llvm::sort(stretches, [](const Stretch &a, const Stretch &b) { return a.begin < b.begin; });
      SmallVector<Stretch, 2> joined;
      for (const Stretch &stretch : stretches)
        if (!joined.empty() && joined.back().end >= stretch.begin)
          joined.back().end = std::max(joined.back().end, stretch.end);
        else
          joined.push_back(stretch);
      stretches = std::move(joined);
    }
}

ModeOperand Banks::operandOf(const MachineOperand &operand) const {
  if (!operand.isReg() || !operand.getReg())
    return {};
  if (operand.getReg().isPhysical()) {
    MCRegister reg = operand.getReg().asMCReg();
    return isVector(reg) ? ModeOperand{kPhysical, uint16_t(numberOf(reg))} : ModeOperand{};
  }
  auto found = places.find(operand.getReg());
  if (found == places.end())
    return {};
  ModeOperand place = found->second;
  place.offset += offsetOf(operand.getSubReg());
  return place;
}

/// The instructions of a block, and the return to the first bank before it is left.
void Banks::describeBlock(const MachineBasicBlock &block) {
  for (const MachineInstr &instruction : block.instrs()) {
    if (instruction.isMetaInstruction() || instruction.isBundle())
      continue;
    StringRef name = code.getName(instruction.getOpcode());
    if (name.starts_with("S_ENDPGM"))
      return;
    if (instruction.isTerminator())
      break;
    ModeOperands needed;
    forEachModeField(
        instruction, name,
        [&](unsigned i) { return operandOf(instruction.getOperand(i)).group >= 0; },
        [&](unsigned i, unsigned field) { needed[field] = operandOf(instruction.getOperand(i)); });
    const bool nothing = instruction.isCopy() && needed[0] == needed[kModeFields - 1];
    if (!nothing && llvm::any_of(needed, [](const ModeOperand &operand) { return operand.group >= 0; }))
      modes.add(needed);
  }
  ModeOperands first;
  first.fill({kPhysical, 0});
  modes.add(first);
}

/// The register or tuple of a virtual register's class that begins with a number; none if it has none.
MCRegister Banks::physical(Register reg, unsigned number) {
  const TargetRegisterClass *kind = registers.getRegClass(reg);
  std::vector<MCRegister> &all = tuples[kind->getID()];
  if (all.empty()) {
    all.resize(kVectorRegisters);
    for (MCPhysReg tuple : *kind)
      if (isVector(tuple))
        all[numberOf(tuple)] = tuple;
  }
  return number < all.size() ? all[number] : MCRegister();
}

/// False where something that this pass does not know of bears on a value: LLVM's choice then stays.
bool Banks::apply(ArrayRef<uint16_t> found) {
  SmallVector<std::pair<Register, MCRegister>> moved;
  for (Register reg : values)
    if (int32_t group = places[reg].group; found[group] != homes[group])
      moved.push_back({reg, map.getPhys(reg)});
  for (auto [reg, before] : moved)
    matrix.unassign(lives.getInterval(reg));
  size_t done = 0;
  for (; done < moved.size(); ++done) {
    Register reg = moved[done].first;
    const MCRegister tuple = physical(reg, found[places[reg].group] + places[reg].offset);
    if (!tuple || matrix.checkInterference(lives.getInterval(reg), tuple) != LiveRegMatrix::IK_Free)
      break;
    matrix.assign(lives.getInterval(reg), tuple);
  }
  if (done == moved.size())
    return true;
  for (auto [reg, before] : ArrayRef(moved).take_front(done))
    matrix.unassign(lives.getInterval(reg));
  for (auto [reg, before] : moved)
    matrix.assign(lives.getInterval(reg), before);
  return false;
}

bool Banks::run(const MachineBlockFrequencyInfo &frequencies) {
  // A kernel calls nothing: registers that calls clobber are not modelled.
  if (!lives.getRegMaskSlots().empty() || !collect())
    return false;
  joinCopies();
  allowBanks();
  rankStretches();
  uint64_t most = 1;
  for (const MachineBasicBlock &block : function)
    most = std::max(most, frequencies.getBlockFreq(&block).getFrequency());
  for (const MachineBasicBlock &block : function) {
    modes.beginBlock(double(frequencies.getBlockFreq(&block).getFrequency()) / most);
    describeBlock(block);
  }
  modes.finish(groups.size(), homes);
  BankSearch search(modes, groups, homes, ranks, limit);
  return search.run() && apply(search.getHomes());
}

class RegisterBanks : public MachineFunctionPass {
public:
  static char ID;
  RegisterBanks() : MachineFunctionPass(ID) {}

  StringRef getPassName() const override { return "Banks of registers"; }

  void getAnalysisUsage(AnalysisUsage &usage) const override {
    usage.addRequired<LiveIntervalsWrapperPass>();
    usage.addRequired<VirtRegMapWrapperLegacy>();
    usage.addRequired<LiveRegMatrixWrapperLegacy>();
    usage.addRequired<MachineBlockFrequencyInfoWrapperPass>();
    usage.setPreservesAll();
    MachineFunctionPass::getAnalysisUsage(usage);
  }

  bool runOnMachineFunction(MachineFunction &function) override {
    Banks banks(function, getAnalysis<LiveIntervalsWrapperPass>().getLIS(),
                getAnalysis<VirtRegMapWrapperLegacy>().getVRM(),
                getAnalysis<LiveRegMatrixWrapperLegacy>().getLRM());
    return banks.run(getAnalysis<MachineBlockFrequencyInfoWrapperPass>().getMBFI());
  }
};

char RegisterBanks::ID = 0;

} // namespace

MachineFunctionPass *mlir::fly::createRegisterBanksPass() { return new RegisterBanks(); }
