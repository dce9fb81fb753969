//===- MmaEmit.cpp - emission of matrix instructions ----------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "EmitUtils.h"
#include "Layouts.h"
#include "Mma.h"
#include "State.h"
#include "Tdm.h"

#include "fly/IR/FlyOps.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

//===------------------------------------------------------------------------===//
// One instruction
//===------------------------------------------------------------------------===//

std::optional<MmaInstruction> fly_rocdl::getMmaInstruction(Type op) {
  if (isa<MmaOpCDNA3_MFMAType, MmaOpCDNA4_MFMAScaleType>(op))
    return getMfmaInstruction(op);
  return getWmmaInstruction(op);
}

/// Attributes of a WMMA operation; `has` tells which ones the operation takes.
static SmallVector<NamedAttribute> getWmmaAttributes(OpBuilder &builder, Type op,
                                                     const MmaInstruction &instruction) {
  SmallVector<NamedAttribute> attrs;
  auto add = [&](StringRef name, Attribute value) {
    attrs.push_back(builder.getNamedAttr(name, value));
  };
  auto addBool = [&](StringRef name, bool value) { add(name, builder.getBoolAttr(value)); };
  auto addInt = [&](StringRef name, int32_t value) { add(name, builder.getI32IntegerAttr(value)); };
  auto addSigns = [&](auto wmma) {
    addBool("signA", wmma.getSignA());
    addBool("signB", wmma.getSignB());
    addBool("clamp", wmma.getClamp());
  };
  if (auto wmma = dyn_cast<MmaOpGFX11_WMMAType>(op)) {
    if (isa<IntegerType>(wmma.getElemTyA()))
      addSigns(wmma);
  } else if (auto wmma = dyn_cast<MmaOpGFX120X_WMMAType>(op)) {
    if (isa<IntegerType>(wmma.getElemTyA()))
      addSigns(wmma);
  } else if (auto wmma = dyn_cast<MmaOpGFX1250_WMMAType>(op)) {
    if (isa<IntegerType>(wmma.getElemTyA()))
      addSigns(wmma);
    else
      add("modC", builder.getI16IntegerAttr(wmma.getModC()));
    // The 4-bit form, shared with gfx120x, has no reuse flags.
    if (!wmma.getElemTyA().isInteger(4)) {
      addBool("reuseA", wmma.getReuseA());
      addBool("reuseB", wmma.getReuseB());
    }
  } else if (auto scale = dyn_cast<MmaOpGFX1250_WMMAScaleType>(op)) {
    if (scale.getM() == 16) {
      addInt("fmtA", *getF8F6F4Format(scale.getElemTyA()));
      addInt("fmtB", *getF8F6F4Format(scale.getElemTyB()));
    }
    add("modC", builder.getI16IntegerAttr(scale.getModC()));
    addInt("scaleAType", scale.getOpselA());
    addInt("scaleBType", scale.getOpselB());
    addInt("fmtScaleA", 0);
    addInt("fmtScaleB", 0);
    addBool("reuseA", scale.getReuseA());
    addBool("reuseB", scale.getReuseB());
  }
  return attrs;
}

Value fly_rocdl::createMmaInstruction(OpBuilder &builder, Location loc, Type op,
                                      const MmaInstruction &instruction,
                                      const MmaOperands &operands) {
  SmallVector<Value> values{operands.a, operands.b, operands.c};
  SmallVector<NamedAttribute> attrs;
  if (isa<MmaOpCDNA3_MFMAType>(op)) {
    Value zero = createI32(builder, loc, 0);
    values.append({zero, zero, zero}); // cbsz, abid, blgp
  } else if (auto scale = dyn_cast<MmaOpCDNA4_MFMAScaleType>(op)) {
    auto constant = [&](int32_t value) { return createI32(builder, loc, value); };
    values.append({constant(*getF8F6F4Format(scale.getElemTyA())),
                   constant(*getF8F6F4Format(scale.getElemTyB())), constant(scale.getOpselA()),
                   operands.scaleA, constant(scale.getOpselB()), operands.scaleB});
  } else {
    if (operands.scaleA)
      values.append({operands.scaleA, operands.scaleB});
    attrs = getWmmaAttributes(builder, op, instruction);
  }
  OperationState state(loc, "rocdl." + instruction.name, values, instruction.acc, attrs);
  return builder.create(state)->getResult(0);
}

//===------------------------------------------------------------------------===//
// Calls
//===------------------------------------------------------------------------===//

/// True if a scale certainly has its initial value, 0, which as E8M0 means 2^-127.
static bool isUnsetScale(Value atom, Value group, const StateFields &fields, StringRef name) {
  if (group)
    return false;
  Value value = traceStateField(atom, *fields.indexOf(name));
  return value && matchPattern(value, m_Zero());
}

/// With both scales unset, the MFMA instruction is selected without scales (1.0), whichever bytes are
/// chosen. Any other unset scale makes the product vanish.
static void warnUnsetScales(Location loc, Type op, bool unsetA, bool unsetB) {
  bool unscaled = isa<MmaOpCDNA4_MFMAScaleType>(op) && unsetA && unsetB;
  if (unscaled || (!unsetA && !unsetB))
    return;
  emitWarning(loc) << (unsetA && unsetB ? "both scales" : unsetA ? "scale_a" : "scale_b") << " of "
                   << op << " left at the initial value 0, which means 2^-127";
}

/// Scales of a call: those of the operand groups, else those of the state.
static LogicalResult getScales(OpBuilder &builder, Location loc, Type op, Value atom,
                               Value groupA, Value groupB, MmaOperands &operands) {
  StateFields fields = getStateFields(op);
  if (fields.fields.empty()) {
    if (groupA || groupB)
      return emitError(loc) << op << " takes no scales";
    return success();
  }
  Type scaleTy = builder.getIntegerType(fields.fields.front().width);
  auto pick = [&](Value group, StringRef name) -> Value {
    if (!group)
      return fields.get(builder, loc, atom, name);
    Value scale = bitcastTo(builder, loc, group, scaleTy);
    if (!scale)
      emitError(loc) << "a scale of " << op << " must have the width of " << scaleTy << ", got "
                     << group.getType();
    return scale;
  };
  operands.scaleA = pick(groupA, "scale_a");
  operands.scaleB = pick(groupB, "scale_b");
  warnUnsetScales(loc, op, isUnsetScale(atom, groupA, fields, "scale_a"),
                  isUnsetScale(atom, groupB, fields, "scale_b"));
  return success(operands.scaleA && operands.scaleB);
}

static LogicalResult checkGroups(Location loc, ValueRange a, ValueRange b) {
  if (a.empty() || a.size() > 2 || b.empty() || b.size() > 2)
    return emitError(loc) << "operands A and B are one value, or a value and its scale";
  return success();
}

static FailureOr<MmaInstruction> requireInstruction(Location loc, Type op) {
  if (std::optional<MmaInstruction> instruction = getMmaInstruction(op))
    return *instruction;
  return emitError(loc) << "no instruction implements " << op;
}

/// An operand in memory is a fragment whose elements are those of the instruction, in its order.
static LogicalResult checkFragment(Location loc, StringRef name, Type operandTy, Type type) {
  auto memref = dyn_cast<fly::MemRefType>(operandTy);
  Type held = memref && memref.isInSpace(fly::AddressSpace::Register) && memref.isConsecutive()
                  ? getRegisterValueType(memref)
                  : Type();
  if (held && getTotalBits(held) == getTotalBits(type))
    return success();
  return emitError(loc) << "operand " << name << " must be a register memref of "
                        << getTotalBits(type) << " bits with consecutive elements, got " << operandTy;
}

/// A register operand, loaded as the instruction wants it.
static Value loadOperand(OpBuilder &builder, Location loc, StringRef name, Type memrefTy,
                         Value pointer, Type type) {
  if (failed(checkFragment(loc, name, memrefTy, type)))
    return {};
  return LLVM::LoadOp::create(builder, loc, type, pointer);
}

/// The scale of a group in memory; null if the group has none. Its width is checked when it is used.
static FailureOr<Value> loadScale(OpBuilder &builder, Location loc, StringRef name,
                                  ValueRange group, TypeRange types) {
  if (group.size() < 2)
    return Value();
  auto memref = dyn_cast<fly::MemRefType>(types[1]);
  Type held = memref && memref.isConsecutive() ? getRegisterValueType(memref) : Type();
  if (!held || !memref.isInSpace(fly::AddressSpace::Register))
    return emitError(loc) << "the scale of operand " << name
                          << " must be a register memref with consecutive elements, got " << types[1];
  return LLVM::LoadOp::create(builder, loc, held, group[1]).getResult();
}

static LogicalResult emitMmaCall(OpBuilder &builder, Location loc, Type op, Type dTy,
                                 TypeRange aTys, TypeRange bTys, Type cTy, Value atom, Value d,
                                 ValueRange a, ValueRange b, Value c) {
  FailureOr<MmaInstruction> instruction = requireInstruction(loc, op);
  if (failed(instruction) || failed(checkGroups(loc, a, b)))
    return failure();
  MmaOperands operands;
  operands.a = loadOperand(builder, loc, "A", aTys[0], a[0], instruction->a);
  operands.b = loadOperand(builder, loc, "B", bTys[0], b[0], instruction->b);
  operands.c = loadOperand(builder, loc, "C", cTy, c, instruction->acc);
  if (!operands.a || !operands.b || !operands.c ||
      failed(checkFragment(loc, "D", dTy, instruction->acc)))
    return failure();
  FailureOr<Value> scaleA = loadScale(builder, loc, "A", a, aTys);
  FailureOr<Value> scaleB = loadScale(builder, loc, "B", b, bTys);
  if (failed(scaleA) || failed(scaleB) ||
      failed(getScales(builder, loc, op, atom, *scaleA, *scaleB, operands)))
    return failure();
  Value result = createMmaInstruction(builder, loc, op, *instruction, operands);
  LLVM::StoreOp::create(builder, loc, result, d);
  return success();
}

static FailureOr<Value> emitMmaCallSSA(OpBuilder &builder, Location loc, Type op, Type resultTy,
                                       Type dTy, Value atom, Value d, ValueRange a, ValueRange b, Value c) {
  FailureOr<MmaInstruction> instruction = requireInstruction(loc, op);
  if (failed(instruction) || failed(checkGroups(loc, a, b)))
    return failure();
  auto cast = [&](StringRef name, Value value, Type type) {
    Value result = bitcastTo(builder, loc, value, type);
    if (!result)
      emitError(loc) << "operand " << name << " of " << op << " must have the width of " << type
                     << ", got " << value.getType();
    return result;
  };
  MmaOperands operands;
  operands.a = cast("A", a[0], instruction->a);
  operands.b = cast("B", b[0], instruction->b);
  operands.c = cast("C", c, instruction->acc);
  if (!operands.a || !operands.b || !operands.c)
    return failure();
  if (failed(getScales(builder, loc, op, atom, a.size() > 1 ? a[1] : Value(),
                       b.size() > 1 ? b[1] : Value(), operands)))
    return failure();
  Value result = createMmaInstruction(builder, loc, op, *instruction, operands);
  if (resultTy) {
    Value value = cast("D", result, resultTy);
    if (!value)
      return failure();
    return value;
  }
  if (failed(checkFragment(loc, "D", dTy, instruction->acc)))
    return failure();
  LLVM::StoreOp::create(builder, loc, result, d);
  return Value();
}

//===------------------------------------------------------------------------===//
// Interface methods
//===------------------------------------------------------------------------===//

static Attribute makeShapeMNK(MLIRContext *ctx, int32_t m, int32_t n, int32_t k) {
  return Ints{m, n, k}.toAttr(ctx);
}

#define FLY_ROCDL_MMA(TYPE)                                                                        \
  Attribute TYPE::getShapeMNK() const {                                                            \
    return makeShapeMNK(getContext(), getM(), getN(), getK());                                     \
  }                                                                                                \
  Type TYPE::getValTypeA() const { return getElemTyA(); }                                          \
  Type TYPE::getValTypeB() const { return getElemTyB(); }                                          \
  Type TYPE::getValTypeC() const { return getElemTyAcc(); }                                        \
  Type TYPE::getValTypeD() const { return getElemTyAcc(); }                                        \
  LogicalResult TYPE::emitAtomCall(OpBuilder &builder, Location loc, Type mmaAtomTy, Type dTy,     \
                                   TypeRange aTys, TypeRange bTys, Type cTy, Value atomVal,        \
                                   Value d, ValueRange a, ValueRange b, Value c) const {           \
    return emitMmaCall(builder, loc, *this, dTy, aTys, bTys, cTy, atomVal, d, a, b, c);            \
  }                                                                                                \
  FailureOr<Value> TYPE::emitAtomCallSSA(                                                          \
      OpBuilder &builder, Location loc, Type resultTy, Type mmaAtomTy, Type dTy, TypeRange aTys,   \
      TypeRange bTys, Type cTy, Value atomVal, Value d, ValueRange a, ValueRange b, Value c)       \
      const {                                                                                      \
    return emitMmaCallSSA(builder, loc, *this, resultTy, dTy, atomVal, d, a, b, c);                \
  }

FLY_ROCDL_MMA(MmaOpCDNA3_MFMAType)
FLY_ROCDL_MMA(MmaOpCDNA4_MFMAScaleType)
FLY_ROCDL_MMA(MmaOpGFX11_WMMAType)
FLY_ROCDL_MMA(MmaOpGFX120X_WMMAType)
FLY_ROCDL_MMA(MmaOpGFX1250_WMMAType)
FLY_ROCDL_MMA(MmaOpGFX1250_WMMAScaleType)
#undef FLY_ROCDL_MMA

// A stateless operation is known from its type; a stateful one carries run-time data.
#define FLY_ROCDL_STATELESS_MMA(TYPE)                                                              \
  bool TYPE::isStatic() const { return true; }                                                     \
  Value TYPE::rebuildStaticValue(OpBuilder &builder, Location loc, Value current) const {          \
    if (current && current.getDefiningOp<fly::MakeMmaAtomOp>())                                    \
      return {};                                                                                   \
    return fly::MakeMmaAtomOp::create(builder, loc, fly::MmaAtomType::get(*this));                 \
  }
#define FLY_ROCDL_STATEFUL_MMA(TYPE)                                                               \
  bool TYPE::isStatic() const { return false; }                                                    \
  Value TYPE::rebuildStaticValue(OpBuilder &, Location, Value) const { return {}; }

FLY_ROCDL_STATELESS_MMA(MmaOpCDNA3_MFMAType)
FLY_ROCDL_STATEFUL_MMA(MmaOpCDNA4_MFMAScaleType)
FLY_ROCDL_STATELESS_MMA(MmaOpGFX11_WMMAType)
FLY_ROCDL_STATELESS_MMA(MmaOpGFX120X_WMMAType)
FLY_ROCDL_STATELESS_MMA(MmaOpGFX1250_WMMAType)
FLY_ROCDL_STATEFUL_MMA(MmaOpGFX1250_WMMAScaleType)
#undef FLY_ROCDL_STATELESS_MMA
#undef FLY_ROCDL_STATEFUL_MMA
