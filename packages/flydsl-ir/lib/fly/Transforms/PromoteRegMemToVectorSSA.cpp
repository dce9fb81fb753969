//===- PromoteRegMemToVectorSSA.cpp - register memory as vector values ------===//
//
// "mem2reg" for register allocations. An allocation is promoted if every access to it is a load
// or store at a static offset and every region between an access and the allocation is an
// scf.if, scf.for or scf.while; otherwise it stays memory. A wide one becomes several values.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "RegisterParts.h"
#include "RegisterState.h"
#include "fly/IR/FlyOps.h"
#include "fly/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::fly {
#define GEN_PASS_DEF_FLYPROMOTEREGMEMTOVECTORSSAPASS
#include "fly/Transforms/Passes.h.inc"
} // namespace mlir::fly

using namespace mlir;
using namespace mlir::fly;

namespace {

using Access = RegisterAccess;

std::optional<int64_t> staticOffset(AddOffsetOp op) {
  IntTupleAttr offset = cast<IntTupleType>(op.getOffset().getType()).getAttr();
  if (!offset.isLeafInt() || !offset.isStatic())
    return std::nullopt;
  return offset.extractIntFromLeaf().getValue();
}

/// Finds the allocations of a function that can be promoted, and their accesses.
class Analysis {
public:
  explicit Analysis(gpu::GPUFuncOp func) {
    func.walk([&](MakePtrOp op) {
      VectorType state = stateType(op);
      SmallVector<std::pair<Operation *, int64_t>> found;
      if (!state || !collect(op, op.getResult(), 0, state, found)) {
        if (cast<PointerType>(op.getResult().getType()).isInSpace(AddressSpace::Register))
          unknown.push_back(op);
        return;
      }
      roots[op] = state;
      for (auto [access, offset] : found)
        accesses[access] = {op, offset};
    });
  }

  /// Promotable allocations in program order, with the type of their state.
  llvm::MapVector<Operation *, VectorType> roots;
  DenseMap<Operation *, Access> accesses;
  /// Allocations of which no block reads what another one wrote: none of their state crosses regions.
  DenseSet<Operation *> local;
  /// Allocations of register memory that stay memory.
  SmallVector<Operation *> unknown;
  /// Accesses that leave their allocation: the operation, its first element, and what is allocated.
  SmallVector<std::tuple<Operation *, int64_t, VectorType>> outside;

  /// The allocations outside of `op` that are accessed inside, in allocation order.
  SmallVector<Operation *> touchedIn(Operation *op) const {
    SmallPtrSet<Operation *, 8> seen;
    op->walk([&](Operation *inner) {
      if (auto it = accesses.find(inner); it != accesses.end())
        if (!local.contains(it->second.root) && !op->isProperAncestor(it->second.root))
          seen.insert(it->second.root);
    });
    SmallVector<Operation *> touched;
    for (const auto &entry : roots)
      if (seen.contains(entry.first))
        touched.push_back(entry.first);
    return touched;
  }

private:
  static VectorType stateType(MakePtrOp op) {
    auto type = cast<PointerType>(op.getResult().getType());
    if (!type.isInSpace(AddressSpace::Register) || !op.getDictAttrsAttr())
      return {};
    auto size = op.getDictAttrsAttr().getAs<IntegerAttr>("allocSize");
    if (!size || size.getInt() <= 0)
      return {};
    return VectorType::get({size.getInt()}, getStorageType(type.getElemTy()));
  }

  /// True if all uses of `ptr`, which is `offset` elements into `root`, can be promoted.
  bool collect(Operation *root, Value ptr, int64_t offset, VectorType state,
               SmallVectorImpl<std::pair<Operation *, int64_t>> &found) {
    for (OpOperand &use : ptr.getUses()) {
      Operation *user = use.getOwner();
      if (auto add = dyn_cast<AddOffsetOp>(user)) {
        std::optional<int64_t> step = staticOffset(add);
        if (!step || !collect(root, add.getResult(), offset + *step, state, found))
          return false;
        continue;
      }
      if (isa<MakeViewOp>(user) && user->use_empty())
        continue;
      Type accessed;
      if (auto load = dyn_cast<PtrLoadOp>(user))
        accessed = load.getResult().getType();
      else if (auto store = dyn_cast<PtrStoreOp>(user); store && store.getPtr() == ptr)
        accessed = store.getValue().getType();
      if (!accessed || !hasElements(accessed, state) || !onlyStructuredBetween(root, user))
        return false;
      if (!isInside(accessed, offset, state)) {
        outside.push_back({user, offset, state});
        return false;
      }
      found.push_back({user, offset});
    }
    return true;
  }

  static bool hasElements(Type accessed, VectorType state) {
    auto vector = dyn_cast<VectorType>(accessed);
    Type element = getElementTypeOrSelf(accessed);
    return (!vector || vector.getRank() == 1) && element.isIntOrFloat() &&
           element.getIntOrFloatBitWidth() == state.getElementTypeBitWidth();
  }

  static bool isInside(Type accessed, int64_t offset, VectorType state) {
    auto vector = dyn_cast<VectorType>(accessed);
    int64_t count = vector ? vector.getNumElements() : 1;
    return offset >= 0 && offset + count <= state.getNumElements();
  }

  static bool onlyStructuredBetween(Operation *root, Operation *user) {
    Region *region = user->getParentRegion();
    for (; region != root->getParentRegion(); region = region->getParentRegion()) {
      if (!region || !region->hasOneBlock() ||
          !isa<scf::IfOp, scf::ForOp, scf::WhileOp>(region->getParentOp()))
        return false;
    }
    return region->hasOneBlock();
  }
};

/// Replaces the accesses of the analysed allocations block by block, in program order.
class Promoter {
public:
  Promoter(Analysis &analysis, MLIRContext *ctx) : analysis(analysis), builder(ctx) {}

  using State = DenseMap<Operation *, RegisterState>;

  void run(Block &block, State &state) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      builder.setInsertionPoint(&op);
      if (auto it = analysis.roots.find(&op); it != analysis.roots.end())
        state[&op] = RegisterState(ub::PoisonOp::create(builder, op.getLoc(), it->second,
                                                        builder.getAttr<ub::PoisonAttr>()));
      else if (auto access = analysis.accesses.find(&op); access != analysis.accesses.end())
        replaceAccess(&op, access->second, state);
      else if (op.getNumRegions() != 0)
        replaceRegions(&op, state);
    }
  }

private:
  void replaceAccess(Operation *op, Access access, State &state) {
    Location loc = op->getLoc();
    analysis.accesses.erase(op); // its address may be used again
    RegisterState &current = state[access.root];
    Type element = analysis.roots[access.root].getElementType();
    if (auto load = dyn_cast<PtrLoadOp>(op)) {
      Type type = load.getResult().getType();
      auto vector = dyn_cast<VectorType>(type);
      Value value = vector ? current.read(builder, loc, access.offset, vector.getNumElements())
                           : current.readElement(builder, loc, access.offset);
      load.getResult().replaceAllUsesWith(bitcast(loc, value, type));
    } else {
      Value value = cast<PtrStoreOp>(op).getValue();
      auto vector = dyn_cast<VectorType>(value.getType());
      value = bitcast(loc, value, vector ? Type(vector.clone(element)) : element);
      current.write(builder, loc, access.offset, value);
    }
    op->erase();
  }

  Value bitcast(Location loc, Value value, Type type) {
    if (value.getType() == type)
      return value;
    return arith::BitcastOp::create(builder, loc, type, value);
  }

  /// Carries the state that `op` touches through its regions.
  void replaceRegions(Operation *op, State &state) {
    SmallVector<Operation *> carried = analysis.touchedIn(op);
    if (!carried.empty())
      op = withExtraResults(op, carried, state);
    if (auto ifOp = dyn_cast<scf::IfOp>(op)) {
      if (!carried.empty() && ifOp.getElseRegion().empty()) {
        Block &block = ifOp.getElseRegion().emplaceBlock();
        builder.setInsertionPointToEnd(&block);
        scf::YieldOp::create(builder, op->getLoc());
      }
      for (Region *region : ifOp.getRegions())
        if (!region->empty())
          runRegion(region->front(), carried, state, /*asArguments=*/false);
    } else if (isa<scf::ForOp, scf::WhileOp>(op)) {
      for (Region &region : op->getRegions())
        runRegion(region.front(), carried, state, /*asArguments=*/true);
    } else {
      // Accesses to allocations outside were ruled out; those inside have their own state.
      for (Region &region : op->getRegions())
        for (Block &block : region) {
          State inner;
          run(block, inner);
        }
    }
    for (auto [root, result] : llvm::zip(carried, op->getResults().take_back(carried.size())))
      state[root] = RegisterState(result);
  }

  void runRegion(Block &block, ArrayRef<Operation *> carried, const State &outer,
                 bool asArguments) {
    State inner = outer;
    if (asArguments)
      for (Operation *root : carried)
        inner[root] = RegisterState(block.addArgument(analysis.roots[root], root->getLoc()));
    run(block, inner);
    Operation *terminator = block.getTerminator(); // scf.yield or scf.condition
    builder.setInsertionPoint(terminator);
    SmallVector<Value> yielded;
    for (Operation *root : carried)
      yielded.push_back(inner[root].whole(builder, root->getLoc()));
    terminator->insertOperands(terminator->getNumOperands(), yielded);
  }

  Operation *withExtraResults(Operation *op, ArrayRef<Operation *> carried, State &state) {
    OperationState fresh(op->getLoc(), op->getName());
    fresh.addOperands(op->getOperands());
    // Regions that do not write all of it share what is there before.
    builder.setInsertionPoint(op);
    for (Operation *root : carried)
      if (Value whole = state[root].whole(builder, root->getLoc()); !isa<scf::IfOp>(op))
        fresh.addOperands(whole);
    fresh.addTypes(op->getResultTypes());
    for (Operation *root : carried)
      fresh.addTypes(analysis.roots[root]);
    fresh.addAttributes(op->getAttrs());
    for (Region &region : op->getRegions())
      fresh.addRegion()->takeBody(region);
    Operation *result = builder.create(fresh);
    op->replaceAllUsesWith(result->getResults().take_front(op->getNumResults()));
    op->erase();
    return result;
  }

  Analysis &analysis;
  OpBuilder builder;
};

/// Erases what stood between an allocation and its accesses, and then the allocation.
void eraseAllocation(Operation *op) {
  for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
    eraseAllocation(user);
  if (op->use_empty())
    op->erase();
}

class PromoteRegMemToVectorSSA
    : public fly::impl::FlyPromoteRegMemToVectorSSAPassBase<PromoteRegMemToVectorSSA> {
  void runOnOperation() override {
    getOperation()->walk([this](gpu::GPUFuncOp func) {
      if (!func.getBody().hasOneBlock())
        return;
      Analysis analysis(func);
      if (failed(checkRegisterReads(func.getBody().front(), analysis.roots, analysis.accesses)))
        signalPassFailure();
      for (auto [access, offset, state] : analysis.outside) {
        access->emitOpError("is at element ")
            << offset << " of " << state.getNumElements() << " elements of register memory";
        signalPassFailure();
      }
      for (Operation *root : analysis.unknown)
        if (failed(checkNeverStored(root)))
          signalPassFailure();
      if (analysis.roots.empty())
        return;
      Block &body = func.getBody().front();
      SmallVector<Operation *> roots =
          cutWideRegisters(body, analysis.roots, analysis.accesses, analysis.local);
      for (const auto &entry : analysis.roots)
        roots.push_back(entry.first);
      Promoter::State state;
      Promoter(analysis, func.getContext()).run(body, state);
      for (Operation *root : roots)
        eraseAllocation(root);
    });
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
  }
};

} // namespace
