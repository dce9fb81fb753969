//===- AsmFormat.h - pieces of the text of types ------------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_ROCDL_LIB_IR_ASMFORMAT_H
#define FLY_ROCDL_LIB_IR_ASMFORMAT_H

#include "fly/IR/FlyDialect.h"

namespace mlir::fly_rocdl {

/// `true` or `false`.
ParseResult parseBool(AsmParser &parser, bool &value);
void printBool(AsmPrinter &printer, bool value);

/// `MxNxK`.
ParseResult parseDimsMNK(AsmParser &parser, int32_t &m, int32_t &n,
                         int32_t &k);
void printDimsMNK(AsmPrinter &printer, int32_t m, int32_t n, int32_t k);

/// A number of bits written with the unit: `16b`.
ParseResult parseTransGranularity(AsmParser &parser, int32_t &bits);
void printTransGranularity(AsmPrinter &printer, int32_t bits);

/// A keyword of fly::AtomicOp.
ParseResult parseAtomicOp(AsmParser &parser, fly::AtomicOpAttr &op);
void printAtomicOp(AsmPrinter &printer, fly::AtomicOpAttr op);

/// `[, modC = i] [, reuseA = b] [, reuseB = b]`, parts at their default left out.
ParseResult parseWmmaTail(AsmParser &parser, int32_t &modC, bool &reuseA,
                          bool &reuseB);
void printWmmaTail(AsmPrinter &printer, int32_t modC, bool reuseA, bool reuseB);

/// An int tuple without its type, `(1E0,1E1)`.
ParseResult parseBareIntTuple(AsmParser &parser, fly::IntTupleAttr &tuple);
void printBareIntTuple(AsmPrinter &printer, fly::IntTupleAttr tuple);

/// `[, atomicBarrier = true] [, cacheModifier = C] [, iterCount = N]`, parts at their default left
/// out; a load adds `[, padInterval = I, padAmount = A]`.
ParseResult parseTensorStoreTail(AsmParser &parser, bool &atomicBarrier, int32_t &cacheModifier,
                                 int32_t &iterCount);
void printTensorStoreTail(AsmPrinter &printer, bool atomicBarrier, int32_t cacheModifier,
                          int32_t iterCount);
ParseResult parseTensorLoadTail(AsmParser &parser, bool &atomicBarrier, int32_t &cacheModifier,
                                int32_t &iterCount, int32_t &padInterval, int32_t &padAmount);
void printTensorLoadTail(AsmPrinter &printer, bool atomicBarrier, int32_t cacheModifier,
                         int32_t iterCount, int32_t padInterval, int32_t padAmount);

} // namespace mlir::fly_rocdl

#endif // FLY_ROCDL_LIB_IR_ASMFORMAT_H
