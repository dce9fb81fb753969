//===- State.cpp - run-time state of operations ---------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "State.h"

#include "EmitUtils.h"
#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

Type StateFields::getType(MLIRContext *ctx) const {
  SmallVector<Type> types;
  for (const StateField &field : fields)
    types.push_back(IntegerType::get(ctx, field.width));
  return LLVM::LLVMStructType::getLiteral(ctx, types);
}

Value StateFields::getDefault(OpBuilder &builder, Location loc) const {
  Value state = LLVM::UndefOp::create(builder, loc, getType(builder.getContext()));
  for (auto [index, field] : llvm::enumerate(fields)) {
    Value value = LLVM::ConstantOp::create(builder, loc, builder.getIntegerType(field.width),
                                           builder.getIntegerAttr(
                                               builder.getIntegerType(field.width), field.initial));
    state = LLVM::InsertValueOp::create(builder, loc, state, value,
                                        ArrayRef<int64_t>{static_cast<int64_t>(index)});
  }
  return state;
}

std::optional<int32_t> StateFields::indexOf(StringRef name) const {
  for (auto [index, field] : llvm::enumerate(fields))
    if (name == field.name)
      return index;
  return std::nullopt;
}

/// A scale may be given as anything made of integers or small floats with the field's total width.
static bool isScaleLike(Type type, unsigned width) {
  if (getTotalBits(type) != width)
    return false;
  if (isa<IntegerType>(type))
    return true;
  auto vector = dyn_cast<VectorType>(type);
  return vector && isa<IntegerType, FloatType>(vector.getElementType());
}

Value StateFields::set(OpBuilder &builder, Location loc, Value state, Attribute fieldAttr,
                       Value value) const {
  auto name = dyn_cast_or_null<StringAttr>(fieldAttr);
  std::optional<int32_t> index = name ? indexOf(name.getValue()) : std::nullopt;
  if (!index) {
    InFlightDiagnostic diagnostic = emitError(loc) << "this atom has no state field " << fieldAttr
                                                   << "; it has ";
    llvm::interleave(
        fields, [&](const StateField &field) { diagnostic << '\'' << field.name << '\''; },
        [&] { diagnostic << ", "; });
    return {};
  }
  const StateField &field = fields[*index];
  Type wanted = builder.getIntegerType(field.width);
  if (value.getType() != wanted && field.bitcast && isScaleLike(value.getType(), field.width))
    value = LLVM::BitcastOp::create(builder, loc, wanted, value);
  if (value.getType() != wanted) {
    emitError(loc) << "state field " << fieldAttr << " takes a value of type " << wanted
                   << ", got " << value.getType();
    return {};
  }
  return LLVM::InsertValueOp::create(builder, loc, state, value, ArrayRef<int64_t>{*index});
}

Value StateFields::get(OpBuilder &builder, Location loc, Value state, StringRef name) const {
  return LLVM::ExtractValueOp::create(builder, loc, state, ArrayRef<int64_t>{*indexOf(name)});
}

//===------------------------------------------------------------------------===//
// Fields by operation
//===------------------------------------------------------------------------===//

static constexpr StateField kSoffset[] = {{"soffset", 32}};
static constexpr StateField kLdsCopy[] = {{"soffset", 32}, {"imm_offset", 32}};
static constexpr StateField kScales32[] = {{"scale_a", 32, 0, true}, {"scale_b", 32, 0, true}};
static constexpr StateField kScales64[] = {{"scale_a", 64, 0, true}, {"scale_b", 64, 0, true}};

// Extents default to "not clamped", strides to "that of the memref".
static constexpr int64_t kNoClamp = 0x7FFFFFFF;
static constexpr StateField kTdm[] = {
    {"workgroup_mask", 32},      {"extent_0", 32, kNoClamp},       {"extent_1", 32, kNoClamp},
    {"extent_2", 32, kNoClamp},  {"extent_3", 32, kNoClamp},       {"extent_4", 32, kNoClamp},
    {"stride_0", 64, kStaticStride}, {"stride_1", 64, kStaticStride},
    {"stride_2", 64, kStaticStride}, {"stride_3", 64, kStaticStride},
    {"imm_offset", 64}};

StateFields fly_rocdl::getStateFields(Type op) {
  if (isa<CopyOpCDNA3BufferCopyType, CopyOpCDNA3BufferAtomicType>(op))
    return {kSoffset};
  if (isa<CopyOpCDNA3BufferCopyLDSType, CopyOpCDNA4BufferLoadAsyncLDSType>(op))
    return {kLdsCopy};
  if (isa<MmaOpCDNA4_MFMAScaleType>(op))
    return {kScales32};
  if (auto scale = dyn_cast<MmaOpGFX1250_WMMAScaleType>(op))
    return {scale.getBlockSize() == 16 ? ArrayRef(kScales64) : ArrayRef(kScales32)};
  if (isa<CopyOpGFX1250TDMType>(op))
    return {kTdm};
  return {};
}

#define FLY_ROCDL_STATE(TYPE)                                                                      \
  Type TYPE::getConvertedType(MLIRContext *ctx) const {                                            \
    return getStateFields(*this).getType(ctx);                                                     \
  }                                                                                                \
  Value TYPE::getDefaultState(OpBuilder &builder, Location loc) const {                            \
    return getStateFields(*this).getDefault(builder, loc);                                         \
  }                                                                                                \
  Value TYPE::setAtomState(OpBuilder &builder, Location loc, Value state, Attribute field,         \
                           Value value) const {                                                    \
    return getStateFields(*this).set(builder, loc, state, field, value);                           \
  }

FLY_ROCDL_STATE(CopyOpCDNA3BufferCopyType)
FLY_ROCDL_STATE(CopyOpCDNA3BufferCopyLDSType)
FLY_ROCDL_STATE(CopyOpCDNA3BufferAtomicType)
FLY_ROCDL_STATE(CopyOpCDNA4BufferLoadAsyncLDSType)
FLY_ROCDL_STATE(CopyOpGFX1250TDMType)
FLY_ROCDL_STATE(MmaOpCDNA4_MFMAScaleType)
FLY_ROCDL_STATE(MmaOpGFX1250_WMMAScaleType)
#undef FLY_ROCDL_STATE

#define FLY_ROCDL_FIELD_INDEX(TYPE, FIELDS)                                                        \
  std::optional<int32_t> TYPE::getFieldIndex(AtomStateField field) {                               \
    return StateFields{FIELDS}.indexOf(stringifyAtomStateField(field));                            \
  }

FLY_ROCDL_FIELD_INDEX(CopyOpCDNA3BufferCopyType, kSoffset)
FLY_ROCDL_FIELD_INDEX(CopyOpCDNA3BufferAtomicType, kSoffset)
FLY_ROCDL_FIELD_INDEX(CopyOpCDNA3BufferCopyLDSType, kLdsCopy)
FLY_ROCDL_FIELD_INDEX(CopyOpCDNA4BufferLoadAsyncLDSType, kLdsCopy)
#undef FLY_ROCDL_FIELD_INDEX
