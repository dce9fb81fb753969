//===- AtomOps.cpp - copy and MMA atoms, tiled operations -------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "InferMacros.h"

using namespace mlir;
using namespace mlir::fly;

//===------------------------------------------------------------------------===//
// Atoms
//===------------------------------------------------------------------------===//

// The type says what the atom is; the attribute repeats it and is not compared.
LogicalResult MakeCopyAtomOp::verify() {
  auto valBits = static_cast<int32_t>(getValBits());
  auto type = dyn_cast<CopyAtomType>(getType());
  bool mayBeZero = type && type.getCopyOp().hasTrait<TensorMove>();
  if (valBits < 0 || (valBits == 0 && !mayBeZero))
    return emitOpError("valBits must be positive, got ") << valBits;
  return success();
}

// A value for an atom without state would be lost when the atom is made again from its type.
FLY_INFER_BODY(AtomSetValueOp) {
  Type atom = adaptor.getAtom().getType(), operation;
  if (auto copy = dyn_cast<CopyAtomType>(atom))
    operation = copy.getCopyOp();
  else if (auto mma = dyn_cast<MmaAtomType>(atom))
    operation = mma.getMmaOp();
  if (!isa_and_nonnull<StatefulOpTypeInterface>(operation))
    return emitOptionalError(loc, "the atom of ", atom, " has no state");
  return finishInference(loc, alg, atom, types);
}
FLY_INFER(GetCopyAtomOp, cast<TiledCopyType>(adaptor.getTiledCopy().getType()).getCopyAtom())
FLY_INFER(GetMmaAtomOp, cast<TiledMmaType>(adaptor.getTiledMma().getType()).getMmaAtom())

FLY_INFER_BODY(MakeTiledCopyOp) {
  auto layout = cast<LayoutType>(adaptor.getLayoutThrVal().getType());
  if (!layout.isStatic())
    return emitOptionalError(loc, "layoutThrVal of a tiled copy must be static, got ", layout);
  types.push_back(TiledCopyType::get(adaptor.getCopyAtom().getType(), layout,
                                     cast<TileType>(adaptor.getTileMN().getType())));
  return success();
}

FLY_INFER_BODY(MakeTiledMmaOp) {
  auto layout = cast<LayoutType>(adaptor.getAtomLayout().getType());
  if (!isa<MmaAtomType>(adaptor.getMmaAtom().getType()))
    return emitOptionalError(loc, "make_tiled_mma needs an MMA atom, got ",
                             adaptor.getMmaAtom().getType());
  if (!layout.isStatic())
    return emitOptionalError(loc, "atomLayout of a tiled MMA must be static, got ", layout);
  TileType permutation;
  if (adaptor.getPermutation())
    permutation = cast<TileType>(adaptor.getPermutation().getType());
  types.push_back(TiledMmaType::get(adaptor.getMmaAtom().getType(), layout, permutation));
  return success();
}

//===------------------------------------------------------------------------===//
// Tiled copies
//===------------------------------------------------------------------------===//

static Type inferCopyPartition(Algebra &alg, TiledCopyType tiled, Type tensor, Tuple coord,
                               Algebra::CopySide side) {
  Layout view = alg.copyView(tiled, side, alg.fromAttr(getLinearLayout(tensor)));
  Layout expanded = alg.expand(view, {2});
  if (alg.failed())
    return tensor;
  Layout part = alg.slice(expanded, firstModeCoord(coord, expanded.rank()));
  Tuple offset = alg.crd2idx(coord, alg.at(view, 0));
  return alg.failed() ? tensor : offsetTensor(alg, tensor, offset, part);
}

FLY_INFER(TiledCopyPartitionSrcOp,
          inferCopyPartition(alg, cast<TiledCopyType>(adaptor.getTiledCopy().getType()),
                             adaptor.getSrc().getType(), alg.fromAttr(tupleAttr(adaptor.getCoord())),
                             Algebra::CopySide::Src))
FLY_INFER(TiledCopyPartitionDstOp,
          inferCopyPartition(alg, cast<TiledCopyType>(adaptor.getTiledCopy().getType()),
                             adaptor.getDst().getType(), alg.fromAttr(tupleAttr(adaptor.getCoord())),
                             Algebra::CopySide::Dst))

FLY_INFER_BODY(TiledCopyRetileOp) {
  auto memref = cast<fly::MemRefType>(adaptor.getInput().getType());
  if (!memref.hasPlainLayout())
    return emitOptionalError(loc, "retile needs a plain layout, got ", memref);
  Layout layout = alg.retile(cast<TiledCopyType>(adaptor.getTiledCopy().getType()),
                             alg.fromAttr(memref.getLinearLayout()));
  return finishInference(loc, alg, withLayout(memref, alg.toAttr(layout)), types);
}

//===------------------------------------------------------------------------===//
// Tiled MMAs
//===------------------------------------------------------------------------===//

// The value part of an operand's view after the thread coordinate is fixed.
static Layout mmaPart(Algebra &alg, const Layout &view, const Tuple &coord) {
  Layout part = alg.slice(view, Tuple::of({coord, Tuple(Int::none())}));
  return alg.failed() ? view : alg.expand(part, {1});
}

FLY_INFER_BODY(TiledMmaPartitionOp) {
  Type tensor = adaptor.getInput().getType();
  Tuple coord = alg.fromAttr(tupleAttr(adaptor.getCoord()));
  Layout view = alg.mmaView(cast<TiledMmaType>(adaptor.getTiledMma().getType()),
                            adaptor.getOperandId(), alg.fromAttr(getLinearLayout(tensor)));
  if (alg.failed())
    return emitOptionalError(loc, alg.message());
  Layout part = mmaPart(alg, view, coord);
  Tuple offset = alg.crd2idx(coord, alg.at(view, 0));
  Type type = alg.failed() ? tensor : offsetTensor(alg, tensor, offset, part);
  return finishInference(loc, alg, type, types);
}

FLY_INFER_BODY(TiledMmaPartitionShapeOp) {
  Tuple shape = alg.fromAttr(tupleAttr(adaptor.getShape()));
  Layout view = alg.mmaView(cast<TiledMmaType>(adaptor.getTiledMma().getType()),
                            adaptor.getOperandId(), {shape, alg.compact(shape)});
  if (alg.failed())
    return emitOptionalError(loc, alg.message());
  Tuple part = alg.expand(alg.at(view.shape, 1), {1});
  return finishInference(loc, alg, IntTupleType::get(alg.toAttr(part)), types);
}

FLY_INFER_BODY(MmaMakeFragmentOp) {
  auto tiled = cast<TiledMmaType>(adaptor.getTiledMma().getType());
  Layout layout = alg.fromAttr(getLinearLayout(adaptor.getInput().getType()));
  if (std::optional<uint32_t> stages = adaptor.getStages()) {
    if (static_cast<int32_t>(*stages) <= 0)
      return emitOptionalError(loc, "stages must be positive, got ", static_cast<int32_t>(*stages));
    if (layout.rank() < 2)
      return emitOptionalError(loc, "stages needs an input of rank 2 or more");
    // The unknown stride puts the stage mode last.
    layout = alg.makeTuple({alg.at(layout, 0), alg.at(layout, 1),
                            {Tuple(static_cast<int32_t>(*stages)), Tuple(Int::dynamic(32, 1))}});
  }
  Layout view = alg.mmaView(tiled, adaptor.getOperandId(), layout);
  if (alg.failed())
    return emitOptionalError(loc, alg.message());
  Layout part = mmaPart(alg, view, Tuple(0));
  if (!alg.failed() && !part.shape.isStatic())
    alg.fail("a fragment needs a static shape");
  Type elemTy = cast<MmaAtomType>(tiled.getMmaAtom()).getValType(adaptor.getOperandId());
  if (alg.failed() || !elemTy)
    return emitOptionalError(loc, alg.failed() ? alg.message() : "the atom has no value type");
  LayoutAttr fragment = alg.toAttr(alg.fragment(part));
  return finishInference(loc, alg, fly::MemRefType::get(elemTy, AddressSpace::Register, fragment),
                         types);
}

//===------------------------------------------------------------------------===//
// Copy and gemm
//===------------------------------------------------------------------------===//

// True if the bits of one type are taken for the other's: integers stand for any type of their width.
static bool isBitCopy(Type a, Type b) {
  if (a == b)
    return true;
  unsigned width = getElementBitWidth(a);
  return width != 0 && width == getElementBitWidth(b) &&
         (isa<IntegerType>(a) || isa<IntegerType>(b));
}

// A view of one element in memory is an address: its element is the unit of offsets, and what moves is
// said by the atom and the registers.
static bool isAddress(fly::MemRefType type) {
  if (type.isInSpace(AddressSpace::Register))
    return false;
  IntTupleAttr shape = type.getLinearLayout().getShape();
  bool single = true;
  shape.walkLeaves([&](IntTupleAttr leaf) { single &= leaf.isLeafStaticValue(1); });
  return single;
}

// Source and destination of a copy have one element type, or bits are copied as integers.
static LogicalResult verifyElements(Operation *op, Type srcTy, Type dstTy) {
  auto src = dyn_cast<fly::MemRefType>(srcTy), dst = dyn_cast<fly::MemRefType>(dstTy);
  if (!src || !dst || isAddress(src) || isAddress(dst))
    return success();
  Type from = src.getElemTy(), to = dst.getElemTy();
  // Bytes are raw memory; the atom call counts them.
  if (isBitCopy(from, to) || from.isInteger(8) || to.isInteger(8))
    return success();
  return op->emitOpError("src/dst element types mismatch: ")
         << from << " and " << to << " (" << srcTy << " to " << dstTy
         << "). A copy converts nothing: convert the values in registers, or recast one side to an "
            "integer of the same width to copy bits";
}

// Without a predicate nothing is left out.
static LogicalResult verifyPredicate(Operation *op, TypedValue<fly::MemRefType> pred, bool zeroFill) {
  if (zeroFill && !pred)
    return op->emitOpError("fills with zero where a predicate is false, and has no predicate");
  if (pred && !pred.getType().getElemTy().isInteger(1))
    return op->emitOpError("a predicate holds i1, got ") << pred.getType();
  return success();
}

LogicalResult CopyOp::verify() {
  if (!isa<CopyAtomType, TiledCopyType>(getCopyAtom().getType()))
    return emitOpError("needs a copy atom or a tiled copy, got ") << getCopyAtom().getType();
  if (failed(verifyPredicate(*this, getPred(), getZeroFill())))
    return failure();
  return verifyElements(*this, getSrc().getType(), getDst().getType());
}

LogicalResult CopyAtomCall::verify() {
  if (failed(verifyPredicate(*this, getPred(), getZeroFill())))
    return failure();
  return verifyElements(*this, getSrc().getType(), getDst().getType());
}

// The fragments of a product have the types of the instruction's operands. Integers may hold the bits
// of several values, as the instruction takes registers.
static LogicalResult verifyProduct(Operation *op, Type atom, Type dTy, TypeRange a, TypeRange b,
                                   Type cTy) {
  if (auto tiled = dyn_cast<TiledMmaType>(atom))
    atom = tiled.getMmaAtom();
  auto mma = dyn_cast<MmaAtomType>(atom);
  if (!mma)
    return success();
  auto check = [&](StringRef name, Type operand, MmaOperand id) -> LogicalResult {
    auto memref = dyn_cast<fly::MemRefType>(operand);
    Type wanted = mma.getValType(id);
    if (!memref || !wanted || memref.getElemTy() == wanted || isa<IntegerType>(memref.getElemTy()) ||
        isa<VectorType>(memref.getElemTy()) || isBitCopy(memref.getElemTy(), wanted))
      return success();
    return op->emitOpError("operand ")
           << name << " is a fragment of " << memref.getElemTy() << ", but " << mma.getMmaOp()
           << " takes " << wanted
           << "; convert the values, or make the fragment with the tiled MMA";
  };
  return success(succeeded(check("d", dTy, MmaOperand::D)) &&
                 succeeded(check("a", a.front(), MmaOperand::A)) &&
                 succeeded(check("b", b.front(), MmaOperand::B)) &&
                 succeeded(check("c", cTy, MmaOperand::C)));
}

LogicalResult GemmOp::verify() {
  if (!isa<MmaAtomType, TiledMmaType>(getMmaAtom().getType()))
    return emitOpError("needs an MMA atom or a tiled MMA, got ") << getMmaAtom().getType();
  if (getA().empty() || getB().empty())
    return emitOpError("needs at least one A and one B operand");
  return verifyProduct(*this, getMmaAtom().getType(), getD().getType(), getA().getTypes(),
                       getB().getTypes(), getC().getType());
}

LogicalResult MmaAtomCall::verify() {
  if (getA().empty() || getB().empty())
    return emitOpError("needs at least one A and one B operand");
  return verifyProduct(*this, getMmaAtom().getType(), getD().getType(), getA().getTypes(),
                       getB().getTypes(), getC().getType());
}

// A tensor, or what registers hold: a scalar or a vector of one dimension.
static bool isValue(Type type) {
  if (auto vector = dyn_cast<VectorType>(type))
    return vector.getRank() == 1 && !vector.isScalable() &&
           getElementBitWidth(vector.getElementType()) != 0;
  return getElementBitWidth(type) != 0;
}

// A register operand is a value, one in memory a tensor. An atomic has the tensor as its destination
// also where it has a result.
LogicalResult CopyAtomCallSSA::verify() {
  if (getNumResults() > 1)
    return emitOpError("has at most one result");
  Type src = getSrc().getType(), dst = getDst() ? getDst().getType() : Type();
  Type result = getNumResults() == 1 ? getResult(0).getType() : Type();
  bool toMemory = isa_and_nonnull<fly::MemRefType, CoordTensorType>(dst);
  if (!isa<fly::MemRefType, CoordTensorType>(src) && !isValue(src))
    return emitOpError("source must be a tensor, a scalar or a vector of one dimension, got ") << src;
  if (result && !isValue(result))
    return emitOpError("result must be a scalar or a vector of one dimension, got ") << result;
  if (!result && !dst)
    return emitOpError("needs a destination or a result");
  if (!result && !toMemory)
    return emitOpError("without a result needs a tensor as its destination, got ") << dst;
  if (getZeroFill() && !getPred())
    return emitOpError("fills with zero where a predicate is false, and has no predicate");
  if (Value pred = getPred(); pred && !pred.getType().isInteger(1)) {
    auto memref = dyn_cast<fly::MemRefType>(pred.getType());
    if (!memref || !memref.getElemTy().isInteger(1))
      return emitOpError("a predicate is an i1 or a memref of i1, got ") << pred.getType();
  }
  if (!result || toMemory)
    return success();
  if (dst && !getPred())
    return emitOpError("takes the old destination only together with a predicate");
  if (getPred() && !dst)
    return emitOpError("needs the old destination, which a false predicate keeps");
  if (dst && dst != result)
    return emitOpError("has a result of type ") << result << ", but the old destination is " << dst;
  return success();
}

LogicalResult MmaAtomCallSSA::verify() {
  if (getNumResults() > 1)
    return emitOpError("has at most one result");
  if ((getNumResults() == 1) == static_cast<bool>(getD()))
    return emitOpError("has either a result or a destination");
  if (getA().empty() || getB().empty())
    return emitOpError("needs at least one A and one B operand");
  return success();
}
