//===- Dialect.cpp - the fly_rocdl dialect --------------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly_rocdl/IR/FlyROCDLDialect.h"

#include "AsmFormat.h"
#include "TiledTdm.h"
#include "fly/IR/Inlining.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

#include "fly_rocdl/IR/FlyROCDLDialect.cpp.inc"
#include "fly_rocdl/IR/FlyROCDLEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fly_rocdl/IR/FlyROCDLTypes.cpp.inc"

#define GET_OP_CLASSES
#include "fly_rocdl/IR/FlyROCDLOps.cpp.inc"

void FlyROCDLDialect::initialize() {
  addInterfaces<fly::InlinerInterface>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fly_rocdl/IR/FlyROCDLAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fly_rocdl/IR/FlyROCDLTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fly_rocdl/IR/FlyROCDLOps.cpp.inc"
      >();
}

void fly_rocdl::registerFlyROCDLDialect(DialectRegistry &registry) {
  registry.insert<FlyROCDLDialect>();
}

LogicalResult GetBufferRsrcOp::inferReturnTypes(MLIRContext *ctx, std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &results) {
  Type type = adaptor.getPtr().getType();
  auto pointer = dyn_cast<fly::PointerType>(type);
  if (!pointer || !isTargetAddressSpace<BufferDescAddressAttr>(pointer.getAddressSpace()))
    return emitOptionalError(loc, "expected a pointer in #fly_rocdl.buffer_desc, got ", type);
  results.push_back(LLVM::LLVMPointerType::get(ctx, 8));
  return success();
}

/// Types of a tiled copy's atom and coordinates.
template <typename OpT>
static LogicalResult inferTiledTdm(std::optional<Location> loc, typename OpT::Adaptor adaptor,
                                   bool isLoad, SmallVectorImpl<Type> &results) {
  auto tensor = dyn_cast<fly::MemRefType>(adaptor.getTensor().getType());
  auto smem = dyn_cast<fly::LayoutType>(adaptor.getSmemLayout().getType());
  auto tile = dyn_cast<fly::TileType>(adaptor.getTile().getType());
  if (!tensor || !smem || !tile)
    return emitOptionalError(loc, "a tiled tensor copy needs a memref, a layout and a tile");
  // The parser infers types while the attributes are still in a dictionary.
  DictionaryAttr parsed = adaptor.getAttributes();
  auto pick = [&](auto attr, StringRef name) {
    auto other = parsed ? parsed.getAs<decltype(attr)>(name) : decltype(attr)();
    return other ? other : attr;
  };
  TiledTdmOptions options =
      getTiledTdmOptions(pick(adaptor.getNumWarpsAttr(), "numWarps"),
                         pick(adaptor.getCacheModifierAttr(), "cacheModifier"),
                         pick(adaptor.getAtomicBarrierAttr(), "atomicBarrier"), isLoad);
  TiledTdm tdm = deriveTiledTdm(tensor, smem.getAttr(), tile.getAttr(), options);
  if (!tdm.error.empty())
    return emitOptionalError(loc, tdm.error);
  MLIRContext *ctx = tensor.getContext();
  auto layout = cast<fly::LayoutAttr>(tensor.getLayout());
  Type elemTy = tensor.getElemTy();
  results.push_back(fly::CopyAtomType::get(tdm.getOperation(elemTy, layout, options),
                                           fly::getElementBitWidth(elemTy)));
  SmallVector<fly::IntTupleAttr> zeros(tdm.axes.size(), fly::IntTupleAttr::getStatic(ctx, 0));
  results.push_back(fly::CoordTensorType::get(
      fly::IntTupleAttr::getTuple(ctx, zeros),
      fly::LayoutAttr::get(layout.getShape(), tdm.getTensor2Tdm(layout))));
  return success();
}

LogicalResult MakeTiledTdmLoadAtomOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                                       Adaptor adaptor,
                                                       SmallVectorImpl<Type> &results) {
  return inferTiledTdm<MakeTiledTdmLoadAtomOp>(loc, adaptor, /*isLoad=*/true, results);
}

LogicalResult MakeTiledTdmStoreAtomOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                                        Adaptor adaptor,
                                                        SmallVectorImpl<Type> &results) {
  return inferTiledTdm<MakeTiledTdmStoreAtomOp>(loc, adaptor, /*isLoad=*/false, results);
}
