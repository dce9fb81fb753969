//===- SignatureCarriers.h - what carries a fly value over a boundary -*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_TRANSFORMS_SIGNATURECARRIERS_H
#define FLY_TRANSFORMS_SIGNATURECARRIERS_H

#include "fly/IR/FlyDialect.h"

#include "mlir/IR/Builders.h"

namespace mlir::fly {

/// The types that carry a value of `type` over a function, call, launch or scf boundary; nullopt
/// if the type carries itself. A static type has no carrier.
std::optional<SmallVector<Type>> getCarrierTypes(Type type);

/// The fly value of `type` that `carriers` carry.
Value unpackCarriers(OpBuilder &builder, Location loc, Type type, ValueRange carriers);

/// The carriers of `value`.
SmallVector<Value> packCarriers(OpBuilder &builder, Location loc, Value value);

} // namespace mlir::fly

#endif // FLY_TRANSFORMS_SIGNATURECARRIERS_H
