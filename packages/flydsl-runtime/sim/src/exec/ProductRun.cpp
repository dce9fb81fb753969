//===- ProductRun.cpp - products that run together, as sums ---------------===//

#include "exec/ProductRun.h"

#include "decode/Program.h"

#include <algorithm>

namespace flysim {

namespace {

class Builder {
public:
  Builder(const MatrixPlan &plan, const uint32_t *msb) : plan(plan), msb(msb) {}

  void add(const Inst &i) {
    if (!fits(i))
      finish();
    const uint32_t d = place(i.dst);
    if (!accumulates(i))
      part.starts.push_back(&i);
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum &s) { return s.d == d; });
    if (sum == sums.end())
      sum = sums.insert(sum, Sum{d, {}});
    sum->factors.push_back({operand(0, place(i.src[0])), operand(1, place(i.src[1]))});
    std::fill_n(written.begin() + d, plan.dRegs(), true);
  }

  std::vector<ProductPart> take() {
    finish();
    return std::move(parts);
  }

private:
  /// A tile, and the numbers of the operands of its products.
  struct Sum {
    uint32_t d;
    std::vector<std::pair<uint32_t, uint32_t>> factors;
    bool taken = false;
    bool sharesA(const Sum &o) const {
      return factors.size() == o.factors.size() &&
             std::equal(factors.begin(), factors.end(), o.factors.begin(),
                        [](auto x, auto y) { return x.first == y.first; });
    }
  };

  uint32_t place(const Operand &o) const { return o.reg + msb[o.msb]; }
  bool accumulates(const Inst &i) const {
    return i.src[2].kind == OperandKind::Vgpr && place(i.src[2]) == place(i.dst);
  }
  bool isWritten(uint32_t from, unsigned count) const {
    return std::find(written.begin() + from, written.begin() + from + count, true) != written.begin() + from + count;
  }

  /// Whether the product may be computed from what the registers hold before the part.
  bool fits(const Inst &i) const {
    if ((part.operands[0].size() + 1) * plan.aSlots > ProductPart::kMostPlanes ||
        (part.operands[1].size() + 1) * plan.bSlots > ProductPart::kMostPlanes ||
        isWritten(place(i.src[0]), plan.aRegs()) || isWritten(place(i.src[1]), plan.bRegs()))
      return false;
    if (accumulates(i) &&
        std::any_of(sums.begin(), sums.end(), [&](const Sum &s) { return s.d == place(i.dst); }))
      return true;
    const bool startsElsewhere = i.src[2].kind == OperandKind::Vgpr && !accumulates(i);
    return !isWritten(place(i.dst), plan.dRegs()) &&
           !(startsElsewhere && isWritten(place(i.src[2]), plan.cRegs()));
  }

  /// The number of an operand among those of its side.
  uint32_t operand(unsigned side, uint32_t first) {
    std::vector<uint32_t> &all = part.operands[side];
    auto found = std::find(all.begin(), all.end(), first);
    if (found == all.end())
      found = all.insert(found, first);
    return static_cast<uint32_t>(found - all.begin());
  }

  /// The tile of `first` and of later sums that share its A.
  void addTile(size_t first) {
    const unsigned perSum = plan.desc->n / 16;
    std::vector<Sum *> chosen;
    for (size_t n = first; n < sums.size() && (chosen.size() + 1) * perSum <= ProductPart::kMostColumns; ++n)
      if (!sums[n].taken && sums[n].sharesA(sums[first])) {
        sums[n].taken = true;
        chosen.push_back(&sums[n]);
      }
    ProductPart::Tile tile;
    tile.first = static_cast<uint32_t>(part.factors.size());
    tile.count = static_cast<uint32_t>(chosen[0]->factors.size());
    for (Sum *s : chosen)
      for (unsigned k = 0; k < perSum; ++k)
        tile.d[tile.columns++] = s->d * kRow + 16 * k;
    for (size_t f = 0; f < tile.count; ++f) {
      ProductPart::Factor factor{chosen[0]->factors[f].first * plan.aSlots * kRow, {}};
      for (unsigned column = 0; column < tile.columns; ++column)
        factor.b[column] = chosen[column / perSum]->factors[f].second * plan.bSlots * kRow + column % perSum * 16;
      part.factors.push_back(factor);
    }
    part.tiles.push_back(tile);
  }

  void finish() {
    for (size_t n = 0; n < sums.size(); ++n)
      if (!sums[n].taken)
        addTile(n);
    if (!part.tiles.empty())
      parts.push_back(std::move(part));
    part = ProductPart();
    sums.clear();
    written.assign(written.size(), false);
  }

  const MatrixPlan &plan;
  const uint32_t *msb;
  /// Registers: vectors and accumulators, or four banks of 256, and what an operand at the end may have beyond.
  std::vector<bool> written = std::vector<bool>(1024 + 64);
  std::vector<Sum> sums; ///< of the part
  ProductPart part;
  std::vector<ProductPart> parts;
};

} // namespace

bool isSum(const MatrixDesc &d) {
  return !d.sparse() && !d.mixed() && !d.replicated() && d.c == Elem::F32 && d.d == Elem::F32 && d.blocks == 1 &&
         d.m % 16 == 0 && d.n % 16 == 0;
}

const std::vector<ProductPart> &ProductRuns::of(const Wave &w, const Inst &first) {
  const std::vector<Inst> &code = w.program->insts;
  known.resize(code.size());
  std::unique_ptr<Run> &slot = known[static_cast<size_t>(&first - code.data())];
  if (!slot)
    slot = std::make_unique<Run>();
  Run &run = *slot;
  if (!run.parts.empty() && std::equal(w.msb, w.msb + 4, run.msb))
    return run.parts;
  std::copy(w.msb, w.msb + 4, run.msb);
  Builder builder(static_cast<const MatrixInst *>(first.def->table)->plan(w.lanes), w.msb);
  for (const Inst *i = &first; i <= &first + first.joined; ++i)
    if (i->def == first.def) // the others are waits, which do nothing here
      builder.add(*i);
  return (run.parts = builder.take());
}

} // namespace flysim
