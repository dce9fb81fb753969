//===- SignatureCarriers.cpp - the ABI of structural fly values -------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "SignatureCarriers.h"

#include "fly/IR/FlyOps.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::fly;

static bool isStaticAttr(Attribute attr) {
  auto iface = dyn_cast<MayStaticAttrInterface>(attr);
  return !iface || iface.isStatic(); // swizzles have no dynamic part
}

//===------------------------------------------------------------------------===//
// Carrier types
//===------------------------------------------------------------------------===//

static Type packedStruct(MLIRContext *ctx, ArrayRef<Type> fields) {
  return LLVM::LLVMStructType::getLiteral(ctx, fields, /*isPacked=*/true);
}

static Type carrierStruct(IntTupleAttr tuple) {
  SmallVector<Type> fields;
  tuple.walkLeaves([&](IntTupleAttr leaf) {
    IntAttr num = leaf.extractIntFromLeaf();
    if (!num.getStaticFlag())
      fields.push_back(IntegerType::get(tuple.getContext(), num.getWidth()));
  });
  return packedStruct(tuple.getContext(), fields);
}

static Type carrierStruct(LayoutAttr layout) {
  SmallVector<Type> fields;
  for (IntTupleAttr part : {layout.getShape(), layout.getStride()})
    if (!part.isStatic())
      fields.push_back(carrierStruct(part));
  return packedStruct(layout.getContext(), fields);
}

/// `map` is a dynamic LayoutAttr or ComposedLayoutAttr.
static Type carrierStruct(Attribute map) {
  if (auto layout = dyn_cast<LayoutAttr>(map))
    return carrierStruct(layout);
  auto composed = cast<ComposedLayoutAttr>(map);
  SmallVector<Type> fields;
  if (!isStaticAttr(composed.getOuter()))
    fields.push_back(carrierStruct(composed.getOuter()));
  if (!composed.getOffset().isStatic())
    fields.push_back(carrierStruct(composed.getOffset()));
  if (!isStaticAttr(composed.getInner()))
    fields.push_back(carrierStruct(composed.getInner()));
  return packedStruct(map.getContext(), fields);
}

std::optional<SmallVector<Type>> mlir::fly::getCarrierTypes(Type type) {
  if (auto iface = dyn_cast<MayStaticTypeInterface>(type); iface && iface.isStatic())
    return SmallVector<Type>{};
  if (auto tuple = dyn_cast<IntTupleType>(type))
    return SmallVector<Type>{carrierStruct(tuple.getAttr())};
  if (isa<LayoutType, ComposedLayoutType>(type))
    return SmallVector<Type>{carrierStruct(getLayoutAttr(type))};
  if (auto tensor = dyn_cast<CoordTensorType>(type)) {
    SmallVector<Type> fields;
    if (!tensor.getBase().isStatic())
      fields.push_back(carrierStruct(tensor.getBase()));
    if (!isStaticAttr(tensor.getLayout()))
      fields.push_back(carrierStruct(tensor.getLayout()));
    return SmallVector<Type>{packedStruct(type.getContext(), fields)};
  }
  if (auto memref = dyn_cast<fly::MemRefType>(type)) {
    SmallVector<Type> carriers{memref.getPointerType()};
    if (!isStaticAttr(memref.getLayout()))
      carriers.push_back(carrierStruct(memref.getLayout()));
    return carriers;
  }
  return std::nullopt;
}

//===------------------------------------------------------------------------===//
// Unpacking
//===------------------------------------------------------------------------===//

namespace {

/// Takes the fields of a struct one after the other.
class Fields {
public:
  Fields(OpBuilder &builder, Location loc, Value structure)
      : builder(builder), loc(loc), structure(structure) {}
  Value next() {
    return LLVM::ExtractValueOp::create(builder, loc, structure, ArrayRef<int64_t>{index++});
  }
  /// The next field if the part is dynamic, else null.
  Value nextIf(bool isDynamic) { return isDynamic ? next() : Value(); }

private:
  OpBuilder &builder;
  Location loc;
  Value structure;
  int64_t index = 0;
};

/// Rebuilds values from structs. A null struct stands for a static value.
class Unpacker {
public:
  Unpacker(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  Value tuple(IntTupleAttr attr, Value structure) {
    SmallVector<Value> leaves;
    Fields fields(builder, loc, structure);
    for (int32_t i = 0, n = attr.numDynamicLeaves(); i < n; ++i)
      leaves.push_back(fields.next());
    return MakeIntTupleOp::create(builder, loc, getTypeFor(attr), leaves);
  }

  Value layout(LayoutAttr attr, Value structure) {
    Fields fields(builder, loc, structure);
    Value shape = tuple(attr.getShape(), fields.nextIf(!attr.getShape().isStatic()));
    Value stride = tuple(attr.getStride(), fields.nextIf(!attr.getStride().isStatic()));
    return MakeLayoutOp::create(builder, loc, getTypeFor(attr), shape, stride);
  }

  Value map(Attribute attr, Value structure) {
    if (auto plain = dyn_cast<LayoutAttr>(attr))
      return layout(plain, structure);
    auto composed = dyn_cast<ComposedLayoutAttr>(attr);
    if (!composed)
      return StaticOp::create(builder, loc, getTypeFor(attr)); // a swizzle
    Fields fields(builder, loc, structure);
    Value outerFields = fields.nextIf(!isStaticAttr(composed.getOuter()));
    Value offsetFields = fields.nextIf(!composed.getOffset().isStatic());
    bool dynamicInner = !isStaticAttr(composed.getInner());
    Value innerFields = fields.nextIf(dynamicInner);
    Value outer = map(composed.getOuter(), outerFields);
    Value offset = tuple(composed.getOffset(), offsetFields);
    Value inner = dynamicInner ? map(composed.getInner(), innerFields)
                               : StaticOp::create(builder, loc, getTypeFor(composed.getInner()));
    return MakeComposedLayoutOp::create(builder, loc, getTypeFor(attr), inner, offset, outer);
  }

private:
  OpBuilder &builder;
  Location loc;
};

} // namespace

Value mlir::fly::unpackCarriers(OpBuilder &builder, Location loc, Type type,
                                ValueRange carriers) {
  if (carriers.empty())
    return StaticOp::create(builder, loc, type);
  Unpacker unpacker(builder, loc);
  if (auto memref = dyn_cast<fly::MemRefType>(type)) {
    Value layout = carriers.size() > 1
                       ? unpacker.map(memref.getLayout(), carriers[1])
                       : StaticOp::create(builder, loc, getTypeFor(memref.getLayout()));
    return MakeViewOp::create(builder, loc, type, carriers[0], layout);
  }
  if (auto tensor = dyn_cast<CoordTensorType>(type)) {
    Fields fields(builder, loc, carriers[0]);
    Value base = unpacker.tuple(tensor.getBase(), fields.nextIf(!tensor.getBase().isStatic()));
    Value layout =
        unpacker.map(tensor.getLayout(), fields.nextIf(!isStaticAttr(tensor.getLayout())));
    return MakeViewOp::create(builder, loc, type, base, layout);
  }
  if (auto tuple = dyn_cast<IntTupleType>(type))
    return unpacker.tuple(tuple.getAttr(), carriers[0]);
  return unpacker.map(getLayoutAttr(type), carriers[0]);
}

//===------------------------------------------------------------------------===//
// Packing
//===------------------------------------------------------------------------===//

namespace {

/// Builds a carrier struct field by field.
class StructBuilder {
public:
  StructBuilder(OpBuilder &builder, Location loc, Type type)
      : builder(builder), loc(loc), result(LLVM::UndefOp::create(builder, loc, type)) {}
  void append(Value field) {
    result = LLVM::InsertValueOp::create(builder, loc, result, field, ArrayRef<int64_t>{index++});
  }
  Value get() const { return result; }

private:
  OpBuilder &builder;
  Location loc;
  Value result;
  int64_t index = 0;
};

/// Takes values apart and stores their dynamic parts in structs.
class Packer {
public:
  Packer(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  Value tuple(Value value, IntTupleAttr attr) {
    StructBuilder fields(builder, loc, carrierStruct(attr));
    appendLeaves(value, attr, fields);
    return fields.get();
  }

  Value map(Value value, Attribute attr) {
    StructBuilder fields(builder, loc, carrierStruct(attr));
    if (auto layout = dyn_cast<LayoutAttr>(attr)) {
      if (IntTupleAttr shape = layout.getShape(); !shape.isStatic())
        fields.append(
            tuple(GetShapeOp::create(builder, loc, IntTupleType::get(shape), value), shape));
      if (IntTupleAttr stride = layout.getStride(); !stride.isStatic())
        fields.append(
            tuple(GetStrideOp::create(builder, loc, IntTupleType::get(stride), value), stride));
      return fields.get();
    }
    auto composed = cast<ComposedLayoutAttr>(attr);
    if (Attribute outer = composed.getOuter(); !isStaticAttr(outer))
      fields.append(map(ComposedGetOuterOp::create(builder, loc, getTypeFor(outer), value), outer));
    if (IntTupleAttr offset = composed.getOffset(); !offset.isStatic())
      fields.append(tuple(
          ComposedGetOffsetOp::create(builder, loc, IntTupleType::get(offset), value), offset));
    if (Attribute inner = composed.getInner(); !isStaticAttr(inner))
      fields.append(map(ComposedGetInnerOp::create(builder, loc, getTypeFor(inner), value), inner));
    return fields.get();
  }

  Value tensor(Value value, CoordTensorType type) {
    StructBuilder fields(builder, loc, getCarrierTypes(type)->front());
    if (IntTupleAttr base = type.getBase(); !base.isStatic())
      fields.append(tuple(GetIterOp::create(builder, loc, IntTupleType::get(base), value), base));
    if (Attribute layout = type.getLayout(); !isStaticAttr(layout))
      fields.append(map(GetLayoutOp::create(builder, loc, getTypeFor(layout), value), layout));
    return fields.get();
  }

private:
  void appendLeaves(Value value, IntTupleAttr attr, StructBuilder &fields) {
    if (attr.isStatic())
      return;
    if (attr.isLeaf()) {
      Type type = IntegerType::get(attr.getContext(), attr.extractIntFromLeaf().getWidth());
      fields.append(GetScalarOp::create(builder, loc, type, value));
      return;
    }
    for (int32_t i = 0; i < attr.rank(); ++i) {
      IntTupleAttr child = attr.at(i);
      if (child.isStatic())
        continue;
      Value mode = GetOp::create(builder, loc, IntTupleType::get(child), value,
                                 builder.getDenseI32ArrayAttr({i}));
      appendLeaves(mode, child, fields);
    }
  }

  OpBuilder &builder;
  Location loc;
};

} // namespace

SmallVector<Value> mlir::fly::packCarriers(OpBuilder &builder, Location loc, Value value) {
  Type type = value.getType();
  if (auto iface = dyn_cast<MayStaticTypeInterface>(type); iface && iface.isStatic())
    return {};
  Packer packer(builder, loc);
  if (auto tuple = dyn_cast<IntTupleType>(type))
    return {packer.tuple(value, tuple.getAttr())};
  if (auto tensor = dyn_cast<CoordTensorType>(type))
    return {packer.tensor(value, tensor)};
  if (auto memref = dyn_cast<fly::MemRefType>(type)) {
    SmallVector<Value> carriers{
        GetIterOp::create(builder, loc, memref.getPointerType(), value)};
    if (Attribute layout = memref.getLayout(); !isStaticAttr(layout))
      carriers.push_back(
          packer.map(GetLayoutOp::create(builder, loc, getTypeFor(layout), value), layout));
    return carriers;
  }
  return {packer.map(value, getLayoutAttr(type))};
}
