//===- BankSearch.h - homes of registers with few switches -----*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_CODEGEN_BANKSEARCH_H
#define FLY_LIB_CODEGEN_BANKSEARCH_H

#include "BankModes.h"

namespace mlir::fly {

/// A stretch of a function, [begin, end), in ranks of the ends of its live ranges.
struct Stretch {
  unsigned begin, end;
};

/// Registers that keep their distances, as a tuple does.
struct RegisterGroup {
  std::vector<llvm::SmallVector<Stretch, 2>> lanes; ///< where each of its registers holds a value, in order
  unsigned banks = 0; ///< in which it may lie, a bit for each; none: it stays where it is

  bool moves() const { return banks != 0; }
  unsigned size() const { return lanes.size(); }
};

/// Looks for homes of groups (the first register of each) with fewer switches. Annealing (with fixed
/// random numbers) finds the bank of each group of the hot blocks, first against a small price for
/// more values than a bank has registers, then against a high one. Groups also move together with
/// those of the next instructions: one by one, each would add switches. The groups are then given
/// registers, those that live longest first (where they were if there is no room for all), and at last
/// each that would be better elsewhere is moved if there is room.
class BankSearch {
public:
  /// `ranks` is the number of ends of live ranges, `limit` that of registers that may be used.
  BankSearch(BankModes &modes, std::vector<RegisterGroup> groups, std::vector<uint16_t> homes,
             unsigned ranks, unsigned limit);

  /// False if nothing better was found.
  bool run();
  llvm::ArrayRef<uint16_t> getHomes() const { return homes; }

private:
  /// How many registers of a group hold values at samples `begin` to `end`.
  struct Piece {
    unsigned begin, end;
    int count;
  };

  void samplePressure();
  void choose();
  int overflowChange(unsigned group, unsigned from, unsigned to) const;
  void changePressure(unsigned group, unsigned bank, int sign);
  bool mayMove(unsigned group, unsigned to) const;
  double costOf(unsigned group, unsigned to, double price);
  double moveTo(unsigned group, unsigned bank, double price);
  void tryMove(llvm::ArrayRef<unsigned> together, unsigned to, double price, double most);
  bool place();
  void restore();
  void settle();
  bool putInto(unsigned group, unsigned bank);
  llvm::SmallVector<std::pair<double, unsigned>, 4> otherBanks(unsigned group);
  bool isFree(unsigned group, unsigned first) const;
  void flip(unsigned group);
  unsigned bankOf(unsigned group) const { return homes[group] / kBankSize; }

  BankModes &modes;
  std::vector<RegisterGroup> groups;
  std::vector<uint16_t> homes;
  const std::vector<uint16_t> before;
  unsigned ranks, limit, banks;
  std::vector<std::vector<Piece>> pieces;         ///< of each group
  std::vector<std::vector<int>> pressure;         ///< by bank and sample
  std::vector<int> capacity;                      ///< of each bank
  std::vector<unsigned> order;                    ///< of groups that move, those that live longest first
  size_t words;
  std::vector<uint64_t> taken; ///< a row of bits, one for each rank, for each register
};

} // namespace mlir::fly

#endif // FLY_LIB_CODEGEN_BANKSEARCH_H
