//===- TdmEmit.cpp - whole-tile copies by the tensor data mover -----------===//
//
// Every wave of the workgroup issues the copy and moves its share of the tile.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"
#include "State.h"
#include "Tdm.h"
#include "fly/Algebra/Algebra.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

namespace {

/// The tile that a copy moves, in tensor order (outermost axis first).
struct TdmTile {
  fly::MemRefType global, lds;
  bool isLoad;
  SmallVector<int32_t> extents;
  SmallVector<std::optional<int32_t>> strides; ///< of the memref; nullopt if dynamic
  SmallVector<int32_t> warps, blocks;          ///< warps and elements a warp, by axis
  int32_t storedGap = 0; ///< elements of LDS that a row of a store takes along

  /// Elements between neighbours of axis `i` in the tile without padding.
  int64_t getDenseStride(int32_t i) const {
    int64_t stride = 1;
    for (int32_t extent : ArrayRef(extents).drop_front(i + 1))
      stride *= extent;
    return stride;
  }
  int64_t size() const { return extents.front() * getDenseStride(0); }
};

/// What the engine leaves out in LDS after every `interval` elements.
struct Gaps {
  int64_t interval, amount; ///< 0 without padding

  explicit Gaps(CopyOpGFX1250TDMType op) : interval(op.getPadInterval()), amount(op.getPadAmount()) {}
  /// Where the element stands that has this index without padding.
  int64_t place(int64_t index) const { return interval ? index + index / interval * amount : index; }
  /// True if a step of so many elements is the same from everywhere.
  bool isRegular(int64_t step) const { return !interval || step % interval == 0; }
};

} // namespace

/// The tensor in LDS has to be where the engine writes, which takes no notice of its layout.
static LogicalResult checkLds(Location loc, const TdmTile &tile, Gaps gaps) {
  int64_t needed = gaps.place(tile.size() - 1) + 1;
  auto layout = dyn_cast<fly::LayoutAttr>(tile.lds.getLayout());
  if (!layout)
    return emitError(loc) << "gfx1250 TDM needs a plain layout in LDS, got " << tile.lds;
  int64_t count = 0;
  if (!layout.isStatic() || (tile.lds.isConsecutive(&count) && count == 1))
    return success(); // an address
  int32_t rank = tile.extents.size();
  bool isFlat = layout.rank() == rank && layout.getStride().rank() == rank;
  for (int32_t i = 0; isFlat && i < rank; ++i)
    isFlat = layout.getShape().at(i).isLeafInt() && layout.getStride().at(i).isLeafInt();
  if (!isFlat) {
    fly::Algebra algebra(layout.getContext());
    fly::Int cosize = algebra.cosize(algebra.fromAttr(layout));
    if (!algebra.failed() && cosize.isStatic && cosize.value < needed)
      return emitError(loc) << "gfx1250 TDM moves " << tile.size() << " elements, which take " << needed
                            << " in LDS, but it is given " << tile.lds;
    return success();
  }
  for (int32_t i = 0; i < rank; ++i) {
    int32_t extent = layout.getShape().at(i).extractIntFromLeaf().getValue();
    int32_t stride = layout.getStride().at(i).extractIntFromLeaf().getValue();
    int64_t dense = tile.getDenseStride(i);
    bool isKnown = gaps.isRegular(dense) || dense * extent <= gaps.interval;
    if (extent != tile.extents[i] || (extent > 1 && isKnown && stride != gaps.place(dense)))
      return emitError(loc) << "gfx1250 TDM places mode " << i << " of the tile in LDS as "
                            << tile.extents[i] << ":" << gaps.place(dense) << ", but LDS has " << tile.lds;
  }
  return success();
}

/// Which way the copy goes, and that the engine can move these elements.
static FailureOr<TdmTile> getDirection(Location loc, Type srcTy, Type dstTy) {
  auto src = dyn_cast<fly::MemRefType>(srcTy), dst = dyn_cast<fly::MemRefType>(dstTy);
  auto isIn = [](fly::MemRefType type, fly::AddressSpace space) {
    auto attr = type ? dyn_cast<fly::AddressSpaceAttr>(type.getAddressSpace())
                     : fly::AddressSpaceAttr();
    return attr && attr.getValue() == space;
  };
  TdmTile tile;
  tile.isLoad = isIn(src, fly::AddressSpace::Global) && isIn(dst, fly::AddressSpace::Shared);
  bool isStore = isIn(src, fly::AddressSpace::Shared) && isIn(dst, fly::AddressSpace::Global);
  if (!tile.isLoad && !isStore)
    return emitError(loc) << "gfx1250 TDM copies between global and shared memory, got " << srcTy
                          << " to " << dstTy;
  tile.global = tile.isLoad ? src : dst;
  tile.lds = tile.isLoad ? dst : src;
  if (src.getElemTy() != dst.getElemTy())
    return emitError(loc) << "src/dst element types mismatch: " << src.getElemTy() << " and "
                          << dst.getElemTy();
  unsigned bits = fly::getElementBitWidth(src.getElemTy());
  if (bits < 8 || !llvm::isPowerOf2_32(bits) || bits > 64)
    return emitError(loc) << "gfx1250 TDM moves elements of 1, 2, 4 or 8 bytes, got "
                          << src.getElemTy();
  for (fly::MemRefType type : {src, dst})
    if (!type.getSwizzle().isTrivial())
      return emitError(loc) << "gfx1250 TDM cannot apply the swizzle of " << type;
  return tile;
}

/// Extents and strides of the tensor in global memory.
static LogicalResult readAxes(Location loc, int32_t rank, TdmTile &tile) {
  auto layout = dyn_cast<fly::LayoutAttr>(tile.global.getLayout());
  auto reject = [&]() {
    return emitError(loc) << "gfx1250 TDM of rank " << rank << " needs a global tensor with " << rank
                          << " flat modes of static extent, got " << tile.global;
  };
  if (!layout || layout.rank() != rank || layout.getStride().rank() != rank)
    return reject();
  for (int32_t i = 0; i < rank; ++i) {
    fly::IntTupleAttr extent = layout.getShape().at(i), stride = layout.getStride().at(i);
    if (!extent.isLeafInt() || !extent.isStatic() || !stride.isLeafInt())
      return reject();
    int32_t size = extent.extractIntFromLeaf().getValue();
    if (size < 1 || size > 0xFFFF)
      return emitError(loc) << "gfx1250 TDM: extent " << size << " of mode " << i
                            << " is not in 1..65535";
    std::optional<int32_t> step;
    if (stride.isStatic())
      step = stride.extractIntFromLeaf().getValue();
    if (step.value_or(0) < 0)
      return emitError(loc) << "gfx1250 TDM: stride " << *step << " of mode " << i << " is negative";
    tile.extents.push_back(size);
    tile.strides.push_back(step);
  }
  if (tile.strides.back().value_or(1) != 1 && tile.extents.back() != 1)
    return emitError(loc) << "gfx1250 TDM: the last mode of the global tensor must have stride 1, "
                          << "got " << tile.global;
  return success();
}

/// Divides the tile among warps: they go to the outermost axes first, each getting at least one element.
static LogicalResult divideTile(Location loc, int32_t numWarps, TdmTile &tile) {
  int32_t left = numWarps;
  tile.warps.assign(tile.extents.size(), 1);
  for (auto [warps, extent] : llvm::zip_equal(tile.warps, tile.extents))
    for (; left > 1 && 2 * warps <= extent; left /= 2)
      warps *= 2;
  tile.warps.back() *= left;
  for (auto [i, warps] : llvm::enumerate(tile.warps)) {
    // A share that is no block of consecutive elements would be written over those of other warps.
    if (tile.extents[i] % warps != 0)
      return emitError(loc) << "gfx1250 TDM: " << numWarps << " warps cannot share the tile of "
                            << tile.global << ": " << warps << " do not divide mode " << i;
    tile.blocks.push_back(tile.extents[i] / warps);
  }
  return success();
}

/// The engine leaves out nothing in LDS when it stores. So a row takes the gap behind it along, to where
/// the tensor has ended.
static LogicalResult takeGapsAlong(Location loc, TdmTile &tile, Gaps gaps, int64_t share) {
  if (tile.isLoad || gaps.interval == 0 || gaps.interval >= share)
    return success();
  if (gaps.interval != tile.blocks.back())
    return emitError(loc) << "gfx1250 TDM: a store can leave out the gaps between its rows of "
                          << tile.blocks.back() << " elements only, got padding after every "
                          << gaps.interval;
  tile.storedGap = gaps.amount;
  return success();
}

static FailureOr<TdmTile> getTile(Location loc, CopyOpGFX1250TDMType op, Type srcTy, Type dstTy) {
  FailureOr<TdmTile> tile = getDirection(loc, srcTy, dstTy);
  if (failed(tile) || failed(readAxes(loc, op.getRank(), *tile)) ||
      failed(divideTile(loc, op.getNumWarps(), *tile)))
    return failure();
  unsigned bits = fly::getElementBitWidth(tile->global.getElemTy());
  if (op.getPadInterval() && !encodeTdmPadding(op.getPadInterval(), op.getPadAmount(), bits))
    return tile; // the descriptor's maker says why not
  int64_t share = tile->size() / op.getNumWarps();
  if (op.getNumWarps() > 1 && !Gaps(op).isRegular(share))
    return emitError(loc) << "gfx1250 TDM: the share of one of " << op.getNumWarps() << " warps, " << share
                          << " elements, is no multiple of the padding interval " << op.getPadInterval();
  if (failed(checkLds(loc, *tile, Gaps(op))) || failed(takeGapsAlong(loc, *tile, Gaps(op), share)))
    return failure();
  return tile;
}

/// What this wave moves, along one axis; null where that is all.
struct Share {
  Value number, start;
};

static SmallVector<Share> getShares(OpBuilder &b, Location loc, const TdmTile &tile,
                                    int32_t numWarps) {
  SmallVector<Share> shares(tile.extents.size());
  if (numWarps == 1)
    return shares;
  Value wave = callIntrinsic(b, loc, "llvm.amdgcn.wave.id", b.getI32Type(), {});
  int32_t left = numWarps;
  for (auto [i, warps] : llvm::enumerate(tile.warps)) {
    if (warps == 1)
      continue;
    Value number = arith::RemUIOp::create(b, loc, wave, createI32(b, loc, warps));
    left /= warps;
    if (left > 1)
      wave = arith::DivUIOp::create(b, loc, wave, createI32(b, loc, warps));
    shares[i] = {number,
                 arith::MulIOp::create(b, loc, number, createI32(b, loc, tile.blocks[i]))};
  }
  return shares;
}

/// Stride of tensor axis `i` in elements, as an i64.
static FailureOr<Value> getStride(OpBuilder &b, Location loc, CopyOpGFX1250TDMType op,
                                  const TdmTile &tile, Value atom, int32_t i) {
  StateFields fields = getStateFields(op);
  std::string name = "stride_" + std::to_string(i);
  auto fromMemRef = [&]() -> FailureOr<Value> {
    if (tile.strides[i])
      return createI64(b, loc, *tile.strides[i]);
    return emitError(loc) << "gfx1250 TDM: stride " << i << " of " << tile.global
                          << " is dynamic, so the atom's field '" << name << "' must be set";
  };
  Value known = traceStateField(atom, *fields.indexOf(name));
  APInt constant;
  if (known && matchPattern(known, m_ConstantInt(&constant)) &&
      constant.getSExtValue() == kStaticStride)
    return fromMemRef();
  Value state = known ? known : fields.get(b, loc, atom, name);
  if (known || !tile.strides[i])
    return state;
  Value isUnset = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, state,
                                        createI64(b, loc, kStaticStride));
  return arith::SelectOp::create(b, loc, isUnset, createI64(b, loc, *tile.strides[i]), state)
      .getResult();
}

static LogicalResult emitTile(OpBuilder &b, Location loc, CopyOpGFX1250TDMType op,
                              const TdmTile &tile, Value atom, Value global, Value lds) {
  StateFields fields = getStateFields(op);
  int32_t rank = op.getRank();
  SmallVector<Share> shares = getShares(b, loc, tile, op.getNumWarps());
  SmallVector<Value> strides(rank);
  for (int32_t i = 0; i + 1 < rank; ++i) {
    FailureOr<Value> stride = getStride(b, loc, op, tile, atom, i);
    if (failed(stride))
      return failure();
    strides[i] = *stride;
  }
  TdmDescriptor d;
  d.isLoad = tile.isLoad;
  d.elemBits = fly::getElementBitWidth(tile.global.getElemTy());
  d.cachePolicy = op.getCacheModifier();
  d.padInterval = op.getPadInterval();
  d.padAmount = op.getPadAmount();
  d.barrier = op.getAtomicBarrier();
  d.workgroupMask = fields.get(b, loc, atom, "workgroup_mask");
  if (op.getEarlyTimeout())
    d.earlyTimeout = createI32(b, loc, 1);

  int32_t elemBytes = d.elemBits / 8;
  Value address = LLVM::PtrToIntOp::create(b, loc, b.getI64Type(), global);
  address = arith::AddIOp::create(b, loc, address, fields.get(b, loc, atom, "imm_offset"));
  Value ldsAddress = LLVM::PtrToIntOp::create(b, loc, b.getI32Type(), lds);
  for (int32_t i = rank - 1; i >= 0; --i) {
    Value extent = fields.get(b, loc, atom, "extent_" + std::to_string(i));
    if (auto [number, start] = shares[i]; start) {
      Value step = arith::ExtSIOp::create(b, loc, b.getI64Type(), start);
      if (strides[i])
        step = arith::MulIOp::create(b, loc, step, strides[i]);
      step = arith::MulIOp::create(b, loc, step, createI64(b, loc, elemBytes));
      address = arith::AddIOp::create(b, loc, address, step);
      int64_t ldsStep = Gaps(op).place(tile.blocks[i] * tile.getDenseStride(i)) * elemBytes;
      ldsAddress = arith::AddIOp::create(
          b, loc, ldsAddress,
          arith::MulIOp::create(b, loc, number, createI32(b, loc, ldsStep)));
      extent = arith::SubIOp::create(b, loc, extent, start);
    }
    extent = arith::MaxSIOp::create(b, loc, extent, createI32(b, loc, 0));
    int32_t taken = tile.blocks[i];
    if (i == rank - 1 && tile.storedGap != 0) {
      extent = arith::MinSIOp::create(b, loc, extent, createI32(b, loc, taken));
      taken += tile.storedGap;
    }
    d.axes.push_back({extent, taken, strides[i]});
  }
  d.globalAddress = address;
  d.ldsAddress = ldsAddress;
  return emitTdm(b, loc, d);
}

static LogicalResult emitCopy(OpBuilder &builder, Location loc, CopyOpGFX1250TDMType op, Type srcTy,
                              Type dstTy, Value atom, Value src, Value dst, Value pred) {
  FailureOr<TdmTile> tile = getTile(loc, op, srcTy, dstTy);
  if (failed(tile))
    return failure();
  return emitPredicated(builder, loc, pred, [&](OpBuilder &b) {
    return emitTile(b, loc, op, *tile, atom, tile->isLoad ? src : dst, tile->isLoad ? dst : src);
  });
}

LogicalResult CopyOpGFX1250TDMType::emitAtomCall(OpBuilder &builder, Location loc, Type copyAtomTy,
                                                 Type srcTy, Type dstTy, Type predTy,
                                                 Value atomVal, Value src, Value dst,
                                                 Value pred) const {
  return emitCopy(builder, loc, *this, srcTy, dstTy, atomVal, src, dst, pred);
}

FailureOr<Value> CopyOpGFX1250TDMType::emitAtomCallSSA(OpBuilder &builder, Location loc,
                                                       Type resultTy, Type copyAtomTy, Type srcTy,
                                                       Type dstTy, Type predTy, Value atomVal,
                                                       Value src, Value dst, Value pred) const {
  if (resultTy || !dst)
    return emitError(loc) << "gfx1250 TDM copies between global and shared memory only";
  if (failed(emitCopy(builder, loc, *this, srcTy, dstTy, atomVal, src, dst, pred)))
    return failure();
  return Value();
}
