//===- BankModes.h - switches between banks of registers -------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_BANKMODES_H
#define FLY_LIB_CODEGEN_BANKMODES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <array>
#include <cstdint>
#include <vector>

namespace llvm {
class MachineInstr;
class StringRef;
} // namespace llvm

namespace mlir::fly {

constexpr unsigned kBankSize = 256;
constexpr unsigned kVectorRegisters = 1024; ///< of a SIMD, for all its waves
constexpr unsigned kModeFields = 4;

/// The field of the mode from which an operand takes the high bits of its register: 0 to 2 for
/// sources, 3 for the destination; none for operands that are not encoded with the mode's bits.
/// `isVector`: whether a register operand is a vector register.
using VectorOperand = llvm::function_ref<bool(unsigned operand)>;
using ModeField = llvm::function_ref<void(unsigned operand, unsigned field)>;
void forEachModeField(const llvm::MachineInstr &instruction, llvm::StringRef name,
                      VectorOperand isVector, ModeField use);

/// A register that an instruction names: register number `offset` of a group of registers.
struct ModeOperand {
  int32_t group = -1; ///< -1: the field is not used
  uint16_t offset = 0;

  bool operator==(const ModeOperand &other) const { return group == other.group && offset == other.offset; }
};
using ModeOperands = std::array<ModeOperand, kModeFields>;

/// The banks that the fields of the mode say, of an encoder that has come to some instruction.
struct BankMode {
  std::array<int8_t, kModeFields> fields = {}; ///< -1: not used since the last switch

  /// Whether the instruction can follow without a switch; uses the fields that it needs.
  bool serves(const ModeOperands &needed, llvm::ArrayRef<uint16_t> home);
};

/// The instructions of a function that name vector registers, block by block, and the switches that
/// LLVM's encoder places between them (AMDGPULowerVGPREncoding): a block begins with all fields zero,
/// a switch may set what no instruction since the last one has used, and before a branch all are zero
/// again. `home` has the first register of each group.
class BankModes {
public:
  void beginBlock(double weight);
  void add(const ModeOperands &operands);
  /// To be called when all instructions are known and `groups` is the number of groups.
  void finish(unsigned groups, llvm::ArrayRef<uint16_t> home);

  /// By how much the weighted switches become more when a group moves to where `home` says it is now.
  double change(int32_t group, llvm::ArrayRef<uint16_t> home) const;
  /// The same, and takes it over.
  double move(int32_t group, llvm::ArrayRef<uint16_t> home);
  /// The bank of an operand beside one of the group's, in the same field.
  unsigned neighbour(int32_t group, unsigned random, llvm::ArrayRef<uint16_t> home) const;
  /// Up to `most` groups, this one first, that instructions from one of its uses on name in the same field.
  llvm::SmallVector<unsigned, 16> row(int32_t group, unsigned random, unsigned most) const;
  /// The weight of the hottest block that names the group.
  double weight(int32_t group) const;
  /// Weighted switches of the function.
  double total() const;
  /// Whether the switches of some instruction depend on the group.
  bool uses(int32_t group) const { return firstUse[group] != firstUse[group + 1]; }

private:
  struct Block {
    unsigned begin, end; ///< of `operands`
    double weight;
  };

  /// An instruction that uses a group with uses, and a field in which it does.
  std::pair<unsigned, unsigned> someUse(int32_t group, unsigned &random) const;

  /// Counts anew from the switch before each use of the group to where the switches are the same.
  template <typename Visit> double recount(int32_t group, llvm::ArrayRef<uint16_t> home, Visit visit) const;

  std::vector<ModeOperands> operands;
  std::vector<uint8_t> switches; ///< whether there is one before each instruction
  std::vector<Block> blocks;
  std::vector<uint32_t> blockOf, firstUse, usesOfGroups;
};

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_BANKMODES_H
