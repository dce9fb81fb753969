//===- InferMacros.h - shape of a type inference function ---------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_LIB_IR_INFERMACROS_H
#define FLY_LIB_IR_INFERMACROS_H

#include "fly/IR/FlyOps.h"
#include "fly/IR/Inference.h"

namespace mlir::fly {

/// Stores the inferred type, or reports the algebra's error.
inline LogicalResult finishInference(std::optional<Location> loc, Algebra &algebra, Type type,
                                     SmallVectorImpl<Type> &types) {
  if (algebra.failed())
    return emitOptionalError(loc, algebra.message());
  types.push_back(type);
  return success();
}

inline IntTupleAttr tupleAttr(Value value) { return cast<IntTupleType>(value.getType()).getAttr(); }

} // namespace mlir::fly

/// Body of OP's type inference; in scope: ctx, loc, adaptor, types and `alg`.
#define FLY_INFER_BODY(OP)                                                                         \
  static LogicalResult infer##OP(MLIRContext *ctx, std::optional<Location> loc,                    \
                                 OP::Adaptor adaptor, SmallVectorImpl<Type> &types, Algebra &alg); \
  LogicalResult OP::inferReturnTypes(MLIRContext *ctx, std::optional<Location> loc,                \
                                     Adaptor adaptor, SmallVectorImpl<Type> &types) {              \
    if (failed(adaptor.verify(loc.value_or(UnknownLoc::get(ctx)))) ||                              \
        failed(checkOperands(loc, OP::kArgumentKinds, adaptor.getOperands())))                     \
      return failure();                                                                            \
    Algebra alg(ctx);                                                                              \
    return infer##OP(ctx, loc, adaptor, types, alg);                                               \
  }                                                                                                \
  static LogicalResult infer##OP([[maybe_unused]] MLIRContext *ctx, std::optional<Location> loc,   \
                                 OP::Adaptor adaptor, SmallVectorImpl<Type> &types, Algebra &alg)

/// Inference given by one expression for the result type.
#define FLY_INFER(OP, ...)                                                                         \
  FLY_INFER_BODY(OP) { return finishInference(loc, alg, (__VA_ARGS__), types); }

#endif // FLY_LIB_IR_INFERMACROS_H
