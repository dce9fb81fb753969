//===- RegisterParts.cpp - register memory in parts --------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "RegisterParts.h"
#include "RegisterState.h"
#include "fly/IR/FlyOps.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mlir::fly;
using llvm::BitVector;

static constexpr int64_t kUnit = 128; // bits of the widest access of memory, the least of a part

static int64_t countOf(Operation *access) {
  auto load = dyn_cast<PtrLoadOp>(access);
  Type type = load ? load.getResult().getType() : cast<PtrStoreOp>(access).getValue().getType();
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

namespace {

/// What is known of the elements of an allocation.
struct Elements {
  BitVector inside;  ///< an access has the element before as well
  BitVector exposed; ///< some block reads it where it did not write it last
};

/// The elements of all allocations.
class Uses {
public:
  Uses(Block &body, const llvm::MapVector<Operation *, VectorType> &roots,
       const DenseMap<Operation *, RegisterAccess> &accesses)
      : accesses(accesses) {
    for (auto [root, state] : roots) {
      BitVector none(state.getNumElements());
      elements[root] = {none, none};
    }
    visit(body);
  }

  /// Where the parts of an allocation begin, and where the last one ends.
  SmallVector<int64_t> borders(Operation *root, VectorType state) const {
    const Elements &of = elements.find(root)->second;
    int64_t size = state.getNumElements(), bits = state.getElementTypeBitWidth();
    SmallVector<int64_t> places{0};
    if (isWide(state))
      for (int64_t i : llvm::seq<int64_t>(1, size))
        if (i * bits % kUnit == 0 && !of.inside[i] && of.exposed[i - 1] != of.exposed[i])
          places.push_back(i);
    places.push_back(size);
    return places;
  }

  bool isExposed(Operation *root, int64_t begin, int64_t end) const {
    return elements.find(root)->second.exposed.find_first_in(begin, end) >= 0;
  }

private:
  using Sets = DenseMap<Operation *, BitVector>;

  BitVector &at(Sets &sets, Operation *root) {
    return sets.try_emplace(root, elements[root].inside.size()).first->second;
  }

  // Returns what the block writes, in its regions too. `known` is what the block itself wrote last: where
  // a region wrote it since, the block reads what another one wrote.
  Sets visit(Block &block) {
    Sets known, changed;
    for (Operation &op : block) {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          for (const auto &[root, written] : visit(inner)) {
            at(changed, root) |= written;
            at(known, root).reset(written);
          }
      auto access = accesses.find(&op);
      if (access == accesses.end())
        continue;
      auto [root, begin] = access->second;
      Elements &of = elements[root];
      int64_t end = begin + countOf(&op);
      of.inside.set(begin + 1, end);
      BitVector &here = at(known, root);
      if (isa<PtrStoreOp>(op)) {
        here.set(begin, end);
        at(changed, root).set(begin, end);
      } else {
        for (int64_t i : llvm::seq(begin, end))
          if (!here[i])
            of.exposed.set(i);
      }
    }
    return changed;
  }

  const DenseMap<Operation *, RegisterAccess> &accesses;
  DenseMap<Operation *, Elements> elements;
};

} // namespace

SmallVector<Operation *> fly::cutWideRegisters(Block &body,
                                               llvm::MapVector<Operation *, VectorType> &roots,
                                               DenseMap<Operation *, RegisterAccess> &accesses,
                                               DenseSet<Operation *> &local) {
  Uses uses(body, roots, accesses);
  SmallVector<Operation *> cut;
  llvm::MapVector<Operation *, VectorType> parts;
  DenseMap<Operation *, std::pair<SmallVector<int64_t>, SmallVector<Operation *>>> partsOf;
  for (auto [root, state] : roots) {
    SmallVector<int64_t> borders = uses.borders(root, state);
    SmallVector<Operation *> allocated;
    OpBuilder builder(root);
    for (auto [begin, end] : llvm::zip(borders, ArrayRef(borders).drop_front())) {
      Operation *part = root;
      if (borders.size() > 2) {
        auto clone = cast<MakePtrOp>(builder.clone(*root));
        NamedAttribute size("allocSize", builder.getI64IntegerAttr(end - begin));
        clone.setDictAttrsAttr(builder.getDictionaryAttr(size));
        part = clone;
      }
      parts[part] = VectorType::get({end - begin}, state.getElementType());
      if (isWide(state) && !uses.isExposed(root, begin, end))
        local.insert(part);
      allocated.push_back(part);
    }
    if (allocated.size() == 1)
      continue;
    cut.push_back(root);
    partsOf[root] = {std::move(borders), std::move(allocated)};
  }
  for (auto &[access, place] : accesses)
    if (auto it = partsOf.find(place.root); it != partsOf.end()) {
      const auto &[borders, allocated] = it->second;
      size_t part = llvm::upper_bound(borders, place.offset) - borders.begin() - 1;
      place = {allocated[part], place.offset - borders[part]};
    }
  roots = std::move(parts);
  return cut;
}
