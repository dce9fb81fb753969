//===- Atoms.cpp - atoms and their calls ----------------------------------===//
//
// Instructions are emitted by the operation types through their interfaces.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "Patterns.h"

#include "../IR/EmitUtils.h"
#include "../IR/TensorCopy.h"
#include "fly/Algebra/Algebra.h"
#include "fly/IR/Address.h"
#include "fly/IR/Booleans.h"

#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mlir::fly_rocdl;

/// The copy or MMA operation inside an atom type.
static Type getAtomOperation(Type atom) {
  if (auto copy = dyn_cast<fly::CopyAtomType>(atom))
    return copy.getCopyOp();
  if (auto mma = dyn_cast<fly::MmaAtomType>(atom))
    return mma.getMmaOp();
  return {};
}

/// Names the atom of a call that failed; the operation type has said why.
static LogicalResult failCall(Operation *op, Type operation) {
  return op->emitOpError() << "cannot emit " << operation;
}

/// Bits that one thread of a copy moves; 0 if that depends on the operands.
static int64_t getAtomBits(fly::CopyOpTypeInterface copy) {
  if (cast<Type>(copy).hasTrait<fly::WholeTileCopy>() || TensorCopy::isTensorCopy(copy))
    return 0;
  auto layout = dyn_cast_or_null<fly::LayoutAttr>(copy.getThrBitLayoutRef());
  if (!layout || layout.rank() != 2)
    return 0;
  fly::Algebra algebra(layout.getContext());
  fly::Int bits = algebra.size(algebra.fromAttr(layout.getShape().at(1)));
  return algebra.failed() || !bits.isStatic ? 0 : bits.value;
}

/// A view of one element in memory is an address: it has no layout that could say which elements an
/// instruction moves, so the atom alone does. One element of a fragment is no address: registers have
/// no neighbours.
static bool isAddressView(fly::MemRefType memref) {
  if (isGenericAddressSpace<fly::AddressSpace::Register>(memref.getAddressSpace()))
    return false;
  fly::LayoutAttr linear = memref.getLinearLayout();
  if (!linear || linear.rank() != 1 || !linear.getShape().isStatic())
    return false;
  fly::Algebra algebra(linear.getContext());
  fly::Int size = algebra.size(algebra.fromAttr(linear));
  return !algebra.failed() && size.is(1);
}

/// Bits that an element takes in the count of the atom. A boolean takes a byte; only the plain copies
/// count booleans as they are counted by the atom.
static FailureOr<int64_t> getCountedBits(Operation *op, fly::CopyAtomType atom, Type element) {
  if (!element.isInteger(1))
    return int64_t(fly::getElementBitWidth(element));
  int64_t bits = atom.getValBits();
  bool isPlain = isa<fly::CopyOpUniversalCopyType, CopyOpCDNA3BufferCopyType>(atom.getCopyOp());
  if (bits != 8 && !isPlain)
    return op->emitOpError() << "copies booleans, which take a byte each, as values of " << bits
                             << " bits; its atom needs valBits = 8";
  return bits;
}

/// Whether a static shape holds `bits` consecutive bits, in elements of `element` bits.
static LogicalResult checkConsecutive(Operation *op, fly::MemRefType memref, int64_t element,
                                      int64_t bits) {
  fly::LayoutAttr linear = memref.getLinearLayout();
  fly::Algebra algebra(linear.getContext());
  fly::Layout flat = algebra.coalesce(algebra.fromAttr(linear));
  fly::Int size = algebra.size(flat);
  if (algebra.failed() || !size.isStatic)
    return success();
  // One element in memory is an address: the atom says how much it moves from there.
  if (size.value == 1 && !isGenericAddressSpace<fly::AddressSpace::Register>(memref.getAddressSpace()))
    return success();
  if (size.value * element < bits)
    return op->emitOpError() << "moves " << bits << " bits, but " << memref << " holds only "
                             << size.value * element;
  fly::Tuple extent = algebra.at(flat.shape, 0), stride = algebra.at(flat.stride, 0);
  if (!stride.isInt())
    return success();
  if (!stride.num.isStatic)
    return op->emitOpError() << "moves " << bits << " consecutive bits, but the step between the "
                             << "elements of " << memref << " is known only at launch";
  if (!stride.is(1) || int64_t(extent.num.value) * element < bits)
    return op->emitOpError() << "moves " << bits << " consecutive bits, but the elements of " << memref
                             << " are not consecutive";
  return success();
}

/// The swizzle of a pointer permutes chunks of bytes, so one access has to stay inside of a chunk.
static LogicalResult checkSwizzle(Operation *op, fly::MemRefType memref, int64_t bits) {
  fly::SwizzleAttr swizzle = memref.getSwizzle();
  if (!swizzle || swizzle.isTrivial())
    return success();
  int64_t chunk = int64_t(8) << swizzle.getBase();
  if (chunk < bits)
    return op->emitOpError() << "moves " << bits << " consecutive bits, but the swizzle of " << memref
                             << " permutes chunks of " << chunk;
  // Accesses are aligned to their size, which keeps those that divide a chunk inside of it.
  int64_t known = std::gcd(chunk, 8 * int64_t(memref.getAlignment().getAlignment()));
  if (chunk % bits != 0 && known < bits)
    return op->emitOpError() << "moves " << bits << " consecutive bits, which may lie in two of the "
                             << "chunks of " << chunk << " that the swizzle of " << memref
                             << " permutes: align them to " << llvm::PowerOf2Ceil(bits) / 8 << " bytes";
  return success();
}

/// An instruction moves consecutive elements, whatever the layout of its operand says. So a layout that
/// is known to say otherwise is an error.
static LogicalResult checkOperand(Operation *op, fly::CopyAtomType atom, Type type, int64_t bits) {
  auto memref = dyn_cast_or_null<fly::MemRefType>(type);
  if (!memref || bits == 0)
    return success();
  if (bits > int64_t(fly::getElementBitWidth(memref.getElemTy())) &&
      failed(checkSwizzle(op, memref, bits)))
    return failure();
  if (isAddressView(memref))
    return success();
  FailureOr<int64_t> element = getCountedBits(op, atom, memref.getElemTy());
  if (failed(element))
    return failure();
  if (*element == 0 || bits <= *element)
    return success();
  fly::LayoutAttr linear = memref.getLinearLayout();
  if (!linear || !linear.getShape().isStatic())
    return success();
  return checkConsecutive(op, memref, *element, bits);
}

static Type typeOf(Value value) { return value ? value.getType() : Type(); }

namespace {

/// make_copy_atom and make_mma_atom: the initial state.
template <typename OpT>
struct MakeAtomPattern : OpConversionPattern<OpT> {
  using OpConversionPattern<OpT>::OpConversionPattern;
  LogicalResult matchAndRewrite(OpT op, typename OpT::Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getType());
    if (op->getNumOperands() != 0) {
      if (!TensorCopy::isTensorCopy(operation))
        return op.emitOpError() << operation << " takes no construction operands";
      FailureOr<Value> state =
          buildTensorState(rewriter, op.getLoc(), operation, adaptor.getOperands());
      if (failed(state))
        return failure();
      rewriter.replaceOp(op, *state);
      return success();
    }
    if (auto stateful = dyn_cast<fly::StatefulOpTypeInterface>(operation)) {
      rewriter.replaceOp(op, stateful.getDefaultState(rewriter, op.getLoc()));
      return success();
    }
    rewriter.replaceOpWithNewOp<LLVM::UndefOp>(op,
                                               this->getTypeConverter()->convertType(op.getType()));
    return success();
  }
};

/// Operations whose result is their first operand, which is the atom.
template <typename OpT>
struct ForwardAtomPattern : OpConversionPattern<OpT> {
  using OpConversionPattern<OpT>::OpConversionPattern;
  LogicalResult matchAndRewrite(OpT op, typename OpT::Adaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    rewriter.replaceOp(op, adaptor.getOperands().front());
    return success();
  }
};

struct AtomSetValuePattern : OpConversionPattern<fly::AtomSetValueOp> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::AtomSetValueOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getAtom().getType());
    auto stateful = cast<fly::StatefulOpTypeInterface>(operation); // type inference looked
    Value state = stateful.setAtomState(rewriter, op.getLoc(), adaptor.getAtom(),
                                        op.getFieldAttr(), adaptor.getValue());
    if (!state)
      return op.emitOpError() << "cannot set " << op.getFieldAttr() << " of " << operation;
    rewriter.replaceOp(op, state);
    return success();
  }
};

/// A buffer access that is left out goes to the end of the 32-bit offsets, outside of any resource that
/// has a size: the hardware loads zero there and stores nothing.
constexpr int64_t kOutsideBytes = 0xfffffff0;

/// `pointer`, a resource with an element offset, or an offset outside of the resource.
static Value maskedPointer(OpBuilder &builder, Location loc, Value pointer, Value pred,
                           fly::MemRefType type) {
  int64_t bits = std::max(fly::getStorageBitWidth(type.getElemTy()), 1u);
  // Elements of less than a byte reach less far.
  int64_t outside = bits < 8 ? int64_t(0xffffffff) : kOutsideBytes * 8 / bits;
  Value offset = LLVM::ExtractValueOp::create(builder, loc, pointer, ArrayRef<int64_t>{1});
  Value away = createI32(builder, loc, static_cast<int32_t>(outside));
  Value chosen = arith::SelectOp::create(builder, loc, pred, offset, away);
  return LLVM::InsertValueOp::create(builder, loc, pointer, chosen, ArrayRef<int64_t>{1});
}

/// The predicate of a call as an i1, loaded from `pred` if it is in memory; null without one.
template <typename CallOp>
static FailureOr<Value> getPredicate(CallOp op, OpBuilder &builder, Value pred) {
  auto memref = pred ? dyn_cast<fly::MemRefType>(op.getPred().getType()) : fly::MemRefType();
  if (!memref)
    return pred;
  if (!isa<LLVM::LLVMPointerType>(pred.getType()))
    return op.emitOpError("a predicate cannot be in a buffer, got ") << memref;
  pred = fly::applySwizzleToPointer(builder, op.getLoc(), pred, memref.getSwizzle());
  return LLVM::LoadOp::create(builder, op.getLoc(), builder.getI1Type(), pred).getResult();
}

/// True if the hardware can leave out an access to this operand without a branch.
static bool canMask(fly::MemRefType type) {
  return type && isBufferSpace(type.getAddressSpace()) && type.getSwizzle().isTrivial() &&
         fly::getStorageBitWidth(type.getElemTy()) >= 8;
}

struct CopyAtomCallPattern : OpConversionPattern<fly::CopyAtomCall> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::CopyAtomCall op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getCopyAtom().getType());
    auto copy = dyn_cast<fly::CopyOpTypeInterface>(operation);
    Type src = op.getSrc().getType(), dst = op.getDst().getType();
    auto srcMemRef = dyn_cast<fly::MemRefType>(src), dstMemRef = dyn_cast<fly::MemRefType>(dst);
    if ((!srcMemRef || !dstMemRef) && !TensorCopy::isTensorCopy(operation))
      return op.emitOpError() << "copies coordinates, which " << operation << " does not take";
    fly::CopyAtomType atomTy = op.getCopyAtom().getType();
    if (copy && (failed(checkOperand(op, atomTy, src, getAtomBits(copy))) ||
                 failed(checkOperand(op, atomTy, dst, getAtomBits(copy)))))
      return failure();
    if (srcMemRef && dstMemRef && srcMemRef.getElemTy() != dstMemRef.getElemTy())
      return op.emitOpError() << "src/dst element types mismatch: " << srcMemRef.getElemTy()
                              << " and " << dstMemRef.getElemTy();
    Value source = adaptor.getSrc();
    FailureOr<Value> pred = getPredicate(op, rewriter, adaptor.getPred());
    if (failed(pred))
      return failure();
    if (op.getZeroFill() && *pred) {
      if (!canMask(srcMemRef))
        return op.emitOpError() << "cannot fill " << dst << " with zero where the bounds leave out an "
                                << "element of " << src
                                << ": copy through registers, or from a buffer tensor";
      source = maskedPointer(rewriter, op.getLoc(), source, *pred, srcMemRef);
      pred = Value();
    }
    if (!copy || failed(copy.emitAtomCall(rewriter, op.getLoc(), op.getCopyAtom().getType(), src,
                                          dst, typeOf(*pred), adaptor.getCopyAtom(), source,
                                          adaptor.getDst(), *pred)))
      return failCall(op, operation);
    rewriter.eraseOp(op);
    return success();
  }
};

struct CopyAtomCallSSAPattern : OpConversionPattern<fly::CopyAtomCallSSA> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::CopyAtomCallSSA op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getCopyAtom().getType());
    auto copy = dyn_cast<fly::CopyOpTypeInterface>(operation);
    if (!copy)
      return failCall(op, operation);
    fly::CopyAtomType atomTy = op.getCopyAtom().getType();
    int64_t bits = getAtomBits(copy);
    if (failed(checkOperand(op, atomTy, op.getSrc().getType(), bits)) ||
        failed(checkOperand(op, atomTy, typeOf(op.getDst()), bits)))
      return failure();
    bool hasResult = op->getNumResults() != 0;
    Type resultTy =
        hasResult ? getTypeConverter()->convertType(op->getResult(0).getType()) : Type();
    Value source = adaptor.getSrc(), target = adaptor.getDst();
    FailureOr<Value> pred = getPredicate(op, rewriter, adaptor.getPred());
    if (failed(pred))
      return failure();
    if (op.getZeroFill() && *pred) {
      auto from = dyn_cast<fly::MemRefType>(op.getSrc().getType());
      auto to = dyn_cast_or_null<fly::MemRefType>(hasResult ? Type() : typeOf(op.getDst()));
      bool fromBuffer = canMask(from), toBuffer = canMask(to);
      if (fromBuffer)
        source = maskedPointer(rewriter, op.getLoc(), source, *pred, from);
      if (toBuffer)
        target = maskedPointer(rewriter, op.getLoc(), target, *pred, to);
      if (fromBuffer || toBuffer)
        pred = Value();
      if (fromBuffer && hasResult)
        target = Value();
    }
    FailureOr<Value> result = copy.emitAtomCallSSA(
        rewriter, op.getLoc(), resultTy, op.getCopyAtom().getType(), op.getSrc().getType(),
        typeOf(op.getDst()), typeOf(*pred), adaptor.getCopyAtom(), source, target, *pred);
    if (failed(result))
      return failCall(op, operation);
    if (hasResult && (!*result || result->getType() != resultTy))
      return op.emitOpError() << operation << " has no result of type " << op->getResult(0).getType();
    if (hasResult)
      rewriter.replaceOp(op, *result);
    else
      rewriter.eraseOp(op);
    return success();
  }
};

struct MmaAtomCallPattern : OpConversionPattern<fly::MmaAtomCall> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::MmaAtomCall op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getMmaAtom().getType());
    auto mma = dyn_cast<fly::MmaOpTypeInterface>(operation);
    if (!mma || failed(mma.emitAtomCall(rewriter, op.getLoc(), op.getMmaAtom().getType(),
                                        op.getD().getType(), op.getA().getTypes(),
                                        op.getB().getTypes(), op.getC().getType(),
                                        adaptor.getMmaAtom(), adaptor.getD(), adaptor.getA(),
                                        adaptor.getB(), adaptor.getC())))
      return failCall(op, operation);
    rewriter.eraseOp(op);
    return success();
  }
};

struct MmaAtomCallSSAPattern : OpConversionPattern<fly::MmaAtomCallSSA> {
  using OpConversionPattern::OpConversionPattern;
  LogicalResult matchAndRewrite(fly::MmaAtomCallSSA op, OpAdaptor adaptor,
                                ConversionPatternRewriter &rewriter) const override {
    Type operation = getAtomOperation(op.getMmaAtom().getType());
    auto mma = dyn_cast<fly::MmaOpTypeInterface>(operation);
    if (!mma)
      return failCall(op, operation);
    bool hasResult = op->getNumResults() != 0;
    Type resultTy =
        hasResult ? getTypeConverter()->convertType(op->getResult(0).getType()) : Type();
    FailureOr<Value> result = mma.emitAtomCallSSA(
        rewriter, op.getLoc(), resultTy, op.getMmaAtom().getType(), typeOf(op.getD()),
        op.getA().getTypes(), op.getB().getTypes(), op.getC().getType(), adaptor.getMmaAtom(),
        adaptor.getD(), adaptor.getA(), adaptor.getB(), adaptor.getC());
    if (failed(result))
      return failCall(op, operation);
    if (hasResult)
      rewriter.replaceOp(op, *result);
    else
      rewriter.eraseOp(op);
    return success();
  }
};

} // namespace

void fly_rocdl::populateAtomPatterns(const TypeConverter &converter, RewritePatternSet &patterns) {
  patterns.add<MakeAtomPattern<fly::MakeCopyAtomOp>, MakeAtomPattern<fly::MakeMmaAtomOp>,
               ForwardAtomPattern<fly::MakeTiledCopyOp>, ForwardAtomPattern<fly::MakeTiledMmaOp>,
               ForwardAtomPattern<fly::GetCopyAtomOp>, ForwardAtomPattern<fly::GetMmaAtomOp>,
               AtomSetValuePattern, CopyAtomCallPattern, CopyAtomCallSSAPattern,
               MmaAtomCallPattern, MmaAtomCallSSAPattern>(converter, patterns.getContext());
}
