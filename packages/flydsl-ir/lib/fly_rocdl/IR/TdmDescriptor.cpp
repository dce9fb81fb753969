//===- TdmDescriptor.cpp - descriptors of the tensor data mover -----------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Tdm.h"

#include "EmitUtils.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

std::optional<TdmPadding> fly_rocdl::encodeTdmPadding(int32_t interval, int32_t amount,
                                                      int32_t elemBits) {
  int64_t intervalBits = int64_t(interval) * elemBits, amountBits = int64_t(amount) * elemBits;
  if (intervalBits <= 0 || amountBits <= 0 || intervalBits % 32 != 0 || amountBits % 32 != 0)
    return std::nullopt;
  int64_t intervalWords = intervalBits / 32, amountWords = amountBits / 32;
  if (!llvm::isPowerOf2_64(intervalWords) || intervalWords < 2 || intervalWords > 256 ||
      amountWords > 128)
    return std::nullopt;
  return TdmPadding{static_cast<int32_t>(llvm::Log2_64(intervalWords)) - 1,
                    static_cast<int32_t>(amountWords) - 1};
}

Value fly_rocdl::traceStateField(Value state, int64_t index) {
  while (auto insert = state.getDefiningOp<LLVM::InsertValueOp>()) {
    if (insert.getPosition().size() == 1 && insert.getPosition()[0] == index)
      return insert.getValue();
    state = insert.getContainer();
  }
  return {};
}

namespace {

/// 32-bit words made of bit fields.
struct WordBuilder {
  OpBuilder &b;
  Location loc;

  Value word(int64_t value) { return createI32(b, loc, static_cast<int32_t>(value)); }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); }
  Value mask(Value x, int64_t bits) { return arith::AndIOp::create(b, loc, x, word(bits)); }
  Value left(Value x, int bits) { return arith::ShLIOp::create(b, loc, x, word(bits)); }
  Value right(Value x, int bits) { return arith::ShRUIOp::create(b, loc, x, word(bits)); }
  /// Bits [begin, begin + 32) of an i64.
  Value part(Value wide, int begin) {
    if (begin != 0)
      wide = arith::ShRUIOp::create(b, loc, wide, createI64(b, loc, begin));
    return arith::TruncIOp::create(b, loc, b.getI32Type(), wide);
  }
  Value vector(ArrayRef<Value> words) {
    auto type = VectorType::get({static_cast<int64_t>(words.size())}, b.getI32Type());
    return vector::FromElementsOp::create(b, loc, type, words);
  }
};

} // namespace

static Value makeFlags(WordBuilder &w, const TdmDescriptor &d, std::optional<TdmPadding> padding) {
  int64_t fixed = int64_t(llvm::Log2_32(d.elemBits / 8)) << 16 | int64_t(d.barrier) << 18 |
                  int64_t(d.iterations > 1) << 19;
  if (padding)
    fixed |= int64_t(1) << 20 | int64_t(padding->interval) << 22 | int64_t(padding->amount) << 25;
  Value flags = w.word(fixed);
  if (d.workgroupMask)
    flags = w.either(flags, w.mask(d.workgroupMask, 0xFFFF));
  if (d.earlyTimeout)
    flags = w.either(flags, w.left(w.mask(d.earlyTimeout, 1), 21));
  return flags;
}

LogicalResult fly_rocdl::emitTdm(OpBuilder &builder, Location loc, const TdmDescriptor &d) {
  WordBuilder w{builder, loc};
  std::optional<TdmPadding> padding;
  if (d.padInterval != 0) {
    padding = encodeTdmPadding(d.padInterval, d.padAmount, d.elemBits);
    if (!padding)
      return emitError(loc) << "gfx1250 TDM: padding (interval=" << d.padInterval
                            << ", amount=" << d.padAmount << " elements at " << d.elemBits
                            << "-bit) is not encodable";
  }
  Value zero = w.word(0);
  size_t rank = d.axes.size();
  auto extent = [&](size_t axis) { return axis < rank ? d.axes[axis].extent : zero; };
  auto tile = [&](size_t axis) { return axis < rank ? int64_t(d.axes[axis].tile) : 0; };
  // Word `n` (0 or 1) of the stride of axis `axis`, 48 bits in all.
  auto strideLow = [&](size_t axis) {
    return axis < rank ? w.part(d.axes[axis].stride, 0) : zero;
  };
  auto strideHigh = [&](size_t axis) {
    return axis < rank ? w.mask(w.part(d.axes[axis].stride, 32), 0xFFFF) : zero;
  };
  auto high16 = [&](Value x) { return w.right(x, 16); };
  auto toHigh16 = [&](Value x) { return w.left(x, 16); };

  Value addressHigh = w.part(d.globalAddress, 32);
  Value group0 = w.vector({w.word(1), d.ldsAddress, w.part(d.globalAddress, 0),
                           w.either(addressHigh, w.word(int64_t(1) << 31))});
  Value barrier = d.barrierAddress ? w.mask(w.right(d.barrierAddress, 3), 0xFFFF) : zero;
  Value stride1 = strideLow(2); // word 5 holds the stride of axis 1, words 6 and 7 that of axis 2
  Value group1 = w.vector({
      makeFlags(w, d, d.isLoad ? padding : std::nullopt), // a store takes no notice of it
      w.either(barrier, toHigh16(extent(0))),
      w.either(high16(extent(0)), toHigh16(extent(1))),
      w.either(high16(extent(1)), w.word(tile(0) << 16)),
      w.word(tile(1) | tile(2) << 16),
      strideLow(1),
      w.either(strideHigh(1), toHigh16(stride1)),
      w.either(high16(stride1), toHigh16(strideHigh(2))),
  });
  Value group2, group3;
  if (d.iterations > 1)
    group2 = w.vector({zero, w.word(d.ldsStep), w.part(d.globalStep, 0),
                       w.either(w.mask(w.part(d.globalStep, 32), 0xFFFF),
                                w.word(int64_t(d.iterations - 1) << 16))});
  else
    group2 = w.vector({extent(2), extent(3), strideLow(3),
                       w.either(strideHigh(3), w.word(tile(3) << 16))});
  group3 = w.vector({strideLow(4), w.either(strideHigh(4), toHigh16(extent(4))),
                     w.either(high16(extent(4)), w.word(tile(4) << 16)), zero});
  auto issue = [&](auto op) {
    using OpT = decltype(op);
    OpT::create(builder, loc, group0, group1, group2, group3,
                static_cast<uint32_t>(d.cachePolicy), ArrayAttr(), ArrayAttr(), ArrayAttr());
  };
  if (d.isLoad)
    issue(ROCDL::TensorLoadToLDSOp());
  else
    issue(ROCDL::TensorStoreFromLDSOp());
  return success();
}
