//===- CAPIUtils.h - Helpers of the C interface -----------------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_LIB_CAPI_CAPIUTILS_H
#define FLY_LIB_CAPI_CAPIUTILS_H

#include "fly/IR/FlyDialect.h"

#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Support.h"
#include "llvm/ADT/TypeSwitch.h"

/// Defines what FLY_DECLARE_CAPI_TYPE(NAME) declares.
#define FLY_DEFINE_CAPI_TYPE(NAME, CLASS)                                                          \
  bool flyTypeIsA##NAME(MlirType type) { return llvm::isa<CLASS>(unwrap(type)); }                  \
  MlirTypeID fly##NAME##TypeGetTypeID(void) { return wrap(CLASS::getTypeID()); }

/// Defines what FLY_DECLARE_CAPI_ATTR(NAME) declares.
#define FLY_DEFINE_CAPI_ATTR(NAME, CLASS)                                                          \
  bool flyAttributeIsA##NAME(MlirAttribute attr) { return llvm::isa<CLASS>(unwrap(attr)); }        \
  MlirTypeID fly##NAME##AttrGetTypeID(void) { return wrap(CLASS::getTypeID()); }

namespace mlir::fly::capi {

/// Where constructors report errors: the unknown location of the context.
inline auto errorsIn(MLIRContext *context) {
  return [context] { return emitError(UnknownLoc::get(context)); };
}

/// The attribute as a fly type; null stays null.
inline MlirType wrapAsType(Attribute attr) { return wrap(attr ? getTypeFor(attr) : Type()); }

/// The structural attribute inside a fly type that wraps one; null for other types.
inline Attribute unwrapStructure(MlirType type) {
  return llvm::TypeSwitch<Type, Attribute>(unwrap(type))
      .Case<BasisType, IntTupleType, LayoutType, ComposedLayoutType, SwizzleType,
            CoordSwizzleType, TileType>([](auto wrapper) { return wrapper.getAttr(); })
      .Default([](Type) { return Attribute(); });
}

/// The attribute of an AtomicOp case; null after an error.
inline AtomicOpAttr makeAtomicOp(MLIRContext *context, int32_t value) {
  if (std::optional<AtomicOp> op = symbolizeAtomicOp(value))
    return AtomicOpAttr::get(context, *op);
  errorsIn(context)() << "unknown atomic operation " << value;
  return {};
}

} // namespace mlir::fly::capi

#endif // FLY_LIB_CAPI_CAPIUTILS_H
