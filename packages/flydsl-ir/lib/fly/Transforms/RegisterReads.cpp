//===- RegisterReads.cpp - reads of register memory before it is written ----===//
//
// A forward analysis over structured control flow. For each element of an allocation it knows whether every
// path to a place stores to it, any path does, and any path on which all loops are in their first iteration.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "RegisterReads.h"

#include "fly/IR/FlyOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::fly;
using llvm::SmallBitVector;

static constexpr StringLiteral kAdvice =
    "; clear it first (.fill(0)), or copy or store to it before this line";

namespace {

/// The elements of an allocation that all paths, that some path, and that some path through first iterations of
/// the loops around stored to.
struct Written {
  SmallBitVector always, maybe, first;
};

class Checker {
public:
  using State = DenseMap<Operation *, Written>;

  Checker(const llvm::MapVector<Operation *, VectorType> &roots,
          const DenseMap<Operation *, RegisterAccess> &accesses)
      : roots(roots), accesses(accesses) {}

  bool hasErrors = false;

  void run(Block &block, State &state) {
    for (Operation &op : block) {
      if (auto it = roots.find(&op); it != roots.end()) {
        unsigned size = it->second.getNumElements();
        state[&op] = {SmallBitVector(size), SmallBitVector(size), SmallBitVector(size)};
      } else if (auto access = accesses.find(&op); access != accesses.end()) {
        visit(&op, access->second, state);
      } else if (op.getNumRegions() != 0) {
        enter(&op, state);
      }
    }
  }

private:
  static std::pair<unsigned, unsigned> range(RegisterAccess access, Type type) {
    auto vector = dyn_cast<VectorType>(type);
    unsigned begin = access.offset;
    return {begin, begin + (vector ? vector.getNumElements() : 1)};
  }

  void visit(Operation *op, RegisterAccess access, State &state) {
    Written &written = state[access.root];
    if (auto store = dyn_cast<PtrStoreOp>(op)) {
      auto [begin, end] = range(access, store.getValue().getType());
      written.always.set(begin, end);
      written.maybe.set(begin, end);
      written.first.set(begin, end);
      return;
    }
    auto load = cast<PtrLoadOp>(op);
    if (onlyKept(load))
      return;
    auto [begin, end] = range(access, load.getResult().getType());
    SmallBitVector read(written.always.size());
    read.set(begin, end);
    SmallBitVector unsure = read, never = read, notAtFirst = read;
    unsure.reset(written.always);
    never.reset(written.maybe);
    notAtFirst.reset(written.first);
    if (never == read) {
      hasErrors = true;
      emitError(op->getLoc(), "a fragment is read before anything is written to it") << kAdvice;
    } else if (notAtFirst == read && !isHidden && !mayBeDropped(load)) {
      hasErrors = true;
      emitError(op->getLoc(), "a fragment is read in the first iteration of a loop before anything is "
                              "written to it")
          << "; clear it before the loop (.fill(0)), or copy or store to it before this line";
    } else if (unsure.any() && warned.insert(access.root).second) {
      emitWarning(op->getLoc(), never.any() ? "some elements of a fragment are read here that nothing wrote"
                                  : "a fragment is read here that is not written on every path")
          << kAdvice;
    }
  }

  /// True if the value goes only where a predicated copy leaves the elements as they are.
  static bool onlyKept(PtrLoadOp load) {
    return llvm::all_of(load->getUses(), [](OpOperand &use) {
      auto copy = dyn_cast<CopyAtomCallSSA>(use.getOwner());
      return copy && copy.getPred() && copy.getDst() == use.get() && copy.getSrc() != use.get() &&
             copy.getPred() != use.get();
    });
  }

  /// True if a selection may leave the value out.
  static bool mayBeDropped(PtrLoadOp load) {
    return llvm::any_of(load->getUsers(), [](Operation *user) { return isa<arith::SelectOp>(user); });
  }

  /// Adds what is stored anywhere in `op` to what may be written.
  void addStoresIn(Operation *op, State &state) {
    op->walk([&](PtrStoreOp store) {
      auto access = accesses.find(store);
      if (access == accesses.end() || op->isProperAncestor(access->second.root))
        return;
      auto [begin, end] = range(access->second, store.getValue().getType());
      state[access->second.root].maybe.set(begin, end);
    });
  }

  void enter(Operation *op, State &state) {
    if (auto ifOp = dyn_cast<scf::IfOp>(op)) {
      State taken = state, other = state;
      // In a loop it may be taken from the second iteration on only.
      llvm::SaveAndRestore hidden(isHidden, isHidden || outermost);
      run(ifOp.getThenRegion().front(), taken);
      if (!ifOp.getElseRegion().empty())
        run(ifOp.getElseRegion().front(), other);
      for (auto &[root, written] : state) {
        written.always = taken[root].always;
        written.always &= other[root].always;
        written.maybe = taken[root].maybe;
        written.maybe |= other[root].maybe;
        written.first = taken[root].first;
        written.first |= other[root].first;
      }
    } else if (auto forOp = dyn_cast<scf::ForOp>(op)) {
      llvm::SaveAndRestore hidden(isHidden, isHidden || !startsAtFirst(forOp));
      addStoresIn(op, state); // by earlier iterations
      State body = state;
      runLoop(op, *forOp.getBody(), body);
      if (runsAtLeastOnce(forOp))
        state = std::move(body);
      else
        addFirst(body, state);
    } else if (auto whileOp = dyn_cast<scf::WhileOp>(op)) {
      addStoresIn(op, state);
      runLoop(op, whileOp.getBefore().front(), state);
      llvm::SaveAndRestore hidden(isHidden, isHidden || outermost);
      State body = state;
      runLoop(op, whileOp.getAfter().front(), body);
      addFirst(body, state);
    } else {
      // Accesses of allocations outside are none; those inside have their own state.
      for (Region &region : op->getRegions())
        for (Block &block : region) {
          State inner;
          run(block, inner);
        }
    }
  }

  void runLoop(Operation *loop, Block &block, State &state) {
    llvm::SaveAndRestore around(outermost, outermost ? outermost : loop);
    run(block, state);
  }

  /// After a loop that may not have run: what its body may have stored.
  static void addFirst(State &body, State &state) {
    for (auto &[root, written] : state)
      written.first |= body[root].first;
  }

  /// True if the loop runs in the first iteration of those around it, where it runs at all.
  bool startsAtFirst(scf::ForOp op) const {
    return !outermost || runsAtLeastOnce(op) ||
           llvm::all_of(ValueRange{op.getLowerBound(), op.getUpperBound()}, [&](Value bound) {
             return !outermost->isAncestor(bound.getParentBlock()->getParentOp());
           });
  }

  static bool runsAtLeastOnce(scf::ForOp op) {
    std::optional<int64_t> low = getConstantIntValue(op.getLowerBound());
    std::optional<int64_t> high = getConstantIntValue(op.getUpperBound());
    return low && high && *low < *high;
  }

  const llvm::MapVector<Operation *, VectorType> &roots;
  const DenseMap<Operation *, RegisterAccess> &accesses;
  DenseSet<Operation *> warned;
  Operation *outermost = nullptr; // of the loops around the place
  bool isHidden = false;          // whether the first iterations of these may leave it out
};

} // namespace

LogicalResult fly::checkRegisterReads(Block &body,
                                      const llvm::MapVector<Operation *, VectorType> &roots,
                                      const DenseMap<Operation *, RegisterAccess> &accesses) {
  Checker checker(roots, accesses);
  Checker::State state;
  checker.run(body, state);
  return failure(checker.hasErrors);
}

/// The first load through `ptr`; failure if it may be written to.
static FailureOr<Operation *> firstLoad(Value ptr) {
  Operation *first = nullptr;
  for (Operation *user : ptr.getUsers()) {
    Operation *found = nullptr;
    if (isa<PtrLoadOp>(user)) {
      found = user;
    } else if (isa<AddOffsetOp, MakeViewOp, RecastIterOp>(user)) {
      FailureOr<Operation *> inner = firstLoad(user->getResult(0));
      if (failed(inner))
        return failure();
      found = *inner;
    } else {
      return failure();
    }
    // Uses are listed last to first.
    if (found)
      first = found;
  }
  return first;
}

LogicalResult fly::checkNeverStored(Operation *root) {
  FailureOr<Operation *> load = firstLoad(root->getResult(0));
  if (failed(load) || !*load)
    return success();
  emitError((*load)->getLoc(), "a fragment is read before anything is written to it") << kAdvice;
  return failure();
}
