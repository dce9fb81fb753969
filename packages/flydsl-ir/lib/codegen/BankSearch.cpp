//===- BankSearch.cpp - homes of registers with few switches --------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "BankSearch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace llvm;
using namespace mlir::fly;

constexpr unsigned kSamples = 512;
constexpr int kSlack = 48; // registers of a bank that are left to what does not fit without gaps
constexpr unsigned kSweeps = 200;
constexpr unsigned kMostTogether = 12; // groups that move at once
constexpr unsigned kTogetherEvery = 5; // one of so many moves is of several groups
constexpr unsigned kRounds = 4;          // of moves at the end
constexpr double kHot = 0.05;            // least weight of a block whose groups are annealed
constexpr double kHeat = 2;              // of the first sweep, in switches
constexpr double kFirstPrice = 0.02, kLastPrice = 0.3; // of a register too many at a sample, in switches

BankSearch::BankSearch(BankModes &modes, std::vector<RegisterGroup> groups, std::vector<uint16_t> homes,
                       unsigned ranks, unsigned limit)
    : modes(modes), groups(std::move(groups)), homes(std::move(homes)), before(this->homes),
      ranks(ranks), limit(limit), banks(divideCeil(limit, kBankSize)), words(divideCeil(ranks, 64)) {
  std::vector<unsigned> life(this->groups.size());
  for (auto [number, group] : enumerate(this->groups)) {
    for (const auto &stretches : group.lanes)
      for (const Stretch &stretch : stretches)
        life[number] += stretch.end - stretch.begin;
    if (group.moves()) {
      life[number] /= group.size();
      order.push_back(number);
    }
  }
  llvm::stable_sort(order, [&](unsigned a, unsigned b) {
    return std::pair(life[a], this->groups[a].size()) > std::pair(life[b], this->groups[b].size());
  });
}

bool BankSearch::run() {
  const double was = modes.total();
  samplePressure();
  choose();
  if (!place())
    restore();
  settle();
  return modes.total() < was;
}

void BankSearch::samplePressure() {
  const unsigned step = std::max(1u, ranks / kSamples);
  for (unsigned bank = 0; bank < banks; ++bank)
    capacity.push_back(int(std::min(kBankSize, limit - bank * kBankSize)) - kSlack);
  pressure.assign(banks, std::vector<int>(ranks / step + 1));
  pieces.resize(groups.size());
  for (auto [number, group] : enumerate(groups)) {
    std::map<std::pair<unsigned, unsigned>, int> counts;
    for (auto [lane, stretches] : enumerate(group.lanes))
      for (const Stretch &stretch : stretches) {
        unsigned begin = divideCeil(stretch.begin, step), end = divideCeil(stretch.end, step);
        if (group.moves() && begin < end)
          ++counts[{begin, end}];
        else if (unsigned bank = (homes[number] + lane) / kBankSize; bank < banks)
          for (unsigned sample = begin; sample < end; ++sample)
            ++pressure[bank][sample];
      }
    if (!group.moves())
      continue;
    for (auto [range, count] : counts)
      pieces[number].push_back({range.first, range.second, count});
    changePressure(number, bankOf(number), 1);
  }
}

void BankSearch::changePressure(unsigned group, unsigned bank, int sign) {
  for (const Piece &piece : pieces[group])
    for (unsigned sample = piece.begin; sample < piece.end; ++sample)
      pressure[bank][sample] += sign * piece.count;
}

int BankSearch::overflowChange(unsigned group, unsigned from, unsigned to) const {
  int change = 0;
  const int *left = pressure[from].data(), *right = pressure[to].data();
  for (const Piece &piece : pieces[group])
    for (unsigned sample = piece.begin; sample < piece.end; ++sample) {
      int less = left[sample] - capacity[from], more = right[sample] - capacity[to];
      change += std::max(0, more + piece.count) - std::max(0, more);
      change -= std::max(0, less) - std::max(0, less - piece.count);
    }
  return change;
}

/// By how much the switches become more, and the price of overflow.
double BankSearch::moveTo(unsigned group, unsigned bank, double price) {
  const unsigned from = bankOf(group);
  homes[group] = bank * kBankSize;
  double cost = modes.move(group, homes);
  if (price > 0)
    cost += price * overflowChange(group, from, bank);
  changePressure(group, from, -1);
  changePressure(group, bank, 1);
  return cost;
}

bool BankSearch::mayMove(unsigned group, unsigned to) const {
  return bankOf(group) != to && groups[group].banks >> to & 1;
}

/// By how much the switches would become more, and the price of overflow.
double BankSearch::costOf(unsigned group, unsigned to, double price) {
  const unsigned from = bankOf(group);
  homes[group] = to * kBankSize;
  const double cost = modes.change(group, homes) + price * overflowChange(group, from, to);
  homes[group] = from * kBankSize;
  return cost;
}

/// Moves groups to a bank unless all together it costs more than `most`.
void BankSearch::tryMove(ArrayRef<unsigned> together, unsigned to, double price, double most) {
  if (together.size() == 1) { // as most, and most are not made: looked at before
    const unsigned group = together[0];
    if (mayMove(group, to) && costOf(group, to, price) <= most)
      moveTo(group, to, 0);
    return;
  }
  SmallVector<std::pair<unsigned, unsigned>, 16> moved; // groups, and where they were
  double cost = 0;
  for (unsigned group : together)
    if (mayMove(group, to)) {
      moved.push_back({group, bankOf(group)});
      cost += moveTo(group, to, price);
    }
  if (cost > most)
    for (auto [group, from] : llvm::reverse(moved))
      moveTo(group, from, 0);
}

/// Leaves the first register of a bank as the home of each group.
void BankSearch::choose() {
  for (unsigned group : order)
    homes[group] = bankOf(group) * kBankSize;
  modes.finish(groups.size(), homes);
  uint64_t state = 1;
  auto random = [&] { // Knuth's MMIX generator
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return unsigned(state >> 33);
  };
  std::vector<unsigned> hot;
  for (unsigned group = 0; group < groups.size(); ++group)
    if (groups[group].moves() && modes.weight(group) > kHot)
      hot.push_back(group);
  for (unsigned sweep = 0; sweep < kSweeps; ++sweep) {
    const double late = double(sweep) / (kSweeps - 1);
    const double heat = kHeat * (1 - late) * (1 - late);
    const double price = kFirstPrice + (kLastPrice - kFirstPrice) * late * late;
    for (unsigned group : hot) {
      const unsigned to = random() % 8 ? modes.neighbour(group, random(), homes) : random() % banks;
      const unsigned count = random() % kTogetherEvery ? 1 : 2 + random() % (kMostTogether - 1);
      if (to < banks)
        tryMove(modes.row(group, random(), count), to, price, heat * (random() % 65536) / 65536);
    }
  }
}

/// The bits of a word of ranks that belong to a stretch.
static uint64_t bitsOf(const Stretch &stretch, unsigned word) {
  const unsigned first = word * 64;
  uint64_t bits = ~uint64_t(0);
  if (stretch.begin > first)
    bits &= ~uint64_t(0) << (stretch.begin - first);
  if (stretch.end < first + 64)
    bits &= ~uint64_t(0) >> (first + 64 - stretch.end);
  return bits;
}

bool BankSearch::isFree(unsigned group, unsigned first) const {
  for (auto [lane, stretches] : enumerate(groups[group].lanes))
    for (const Stretch &stretch : stretches)
      for (unsigned word = stretch.begin / 64; word * 64 < stretch.end; ++word)
        if (taken[(first + lane) * words + word] & bitsOf(stretch, word))
          return false;
  return true;
}

/// Takes the registers of a group, or gives them back. Groups that stay may share one, a half each.
void BankSearch::flip(unsigned group) {
  for (auto [lane, stretches] : enumerate(groups[group].lanes))
    for (const Stretch &stretch : stretches)
      for (unsigned word = stretch.begin / 64; word * 64 < stretch.end; ++word) {
        uint64_t &bits = taken[(homes[group] + lane) * words + word];
        bits = groups[group].moves() ? bits ^ bitsOf(stretch, word) : bits | bitsOf(stretch, word);
      }
}

/// Gives a group the first registers of a bank that are free all its life. Tuples begin at even
/// registers if they did.
bool BankSearch::putInto(unsigned group, unsigned bank) {
  const unsigned size = groups[group].size(), end = std::min(limit, (bank + 1) * kBankSize);
  const unsigned step = size == 1 ? 1 : 2, odd = before[group] % step;
  for (unsigned first = bank * kBankSize + odd; first + size <= end; first += step)
    if (isFree(group, first)) {
      homes[group] = first;
      flip(group);
      return true;
    }
  return false;
}

/// The banks that a group could move to, and what it would cost; those that cost least first.
SmallVector<std::pair<double, unsigned>, 4> BankSearch::otherBanks(unsigned group) {
  SmallVector<std::pair<double, unsigned>, 4> found;
  const unsigned home = homes[group], here = bankOf(group);
  for (unsigned bank = 0; bank < banks; ++bank)
    if (bank != here && groups[group].banks >> bank & 1) {
      homes[group] = bank * kBankSize;
      found.push_back({modes.change(group, homes), bank});
    }
  homes[group] = home;
  llvm::sort(found);
  return found;
}

bool BankSearch::place() {
  taken.assign(size_t(kVectorRegisters) * words, 0);
  for (unsigned group = 0; group < groups.size(); ++group)
    if (!groups[group].moves())
      flip(group);
  for (unsigned group : order) {
    if (putInto(group, bankOf(group)))
      continue;
    auto others = otherBanks(group);
    if (llvm::none_of(others, [&](auto &other) { return putInto(group, other.second); }))
      return false;
    modes.move(group, homes);
  }
  return true;
}

/// Everything is where it was: what has no room when all begin anew may still be bettered.
void BankSearch::restore() {
  homes = before;
  modes.finish(groups.size(), homes);
  taken.assign(taken.size(), 0);
  for (unsigned group = 0; group < groups.size(); ++group)
    flip(group);
}

void BankSearch::settle() {
  for (unsigned round = 0; round < kRounds; ++round)
    for (unsigned group : order)
      for (auto [cost, bank] : otherBanks(group)) {
        if (cost > 0 || !modes.uses(group))
          break;
        const unsigned home = homes[group];
        flip(group);
        if (putInto(group, bank)) {
          modes.move(group, homes);
          break;
        }
        homes[group] = home;
        flip(group);
      }
}
