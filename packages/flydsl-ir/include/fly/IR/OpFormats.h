//===- OpFormats.h - custom directives of assembly formats --------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_OPFORMATS_H
#define FLY_IR_OPFORMATS_H

#include "fly/IR/FlyOps.h"

namespace mlir::fly {

/// One operand is bare, several stand in brackets.
ParseResult parseOperandGroup(OpAsmParser &parser,
                              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands);
void printOperandGroup(OpAsmPrinter &printer, Operation *op, OperandRange operands);

/// `traversalLayout = %l`, also accepted in brackets; nothing for no layout.
ParseResult parseTraversalLayout(OpAsmParser &parser,
                                 std::optional<OpAsmParser::UnresolvedOperand> &layout);
void printTraversalLayout(OpAsmPrinter &printer, Operation *op, Value layout);

/// The keyword of an operand of a matrix instruction, with no space before it.
ParseResult parseMmaOperand(OpAsmParser &parser, MmaOperandAttr &operand);
void printMmaOperand(OpAsmPrinter &printer, Operation *op, MmaOperandAttr operand);

/// A memref type without its `!fly.memref`, or the full text of a memref or pointer type.
ParseResult parseStrippedMemRef(OpAsmParser &parser, Type &type);
void printStrippedMemRef(OpAsmPrinter &printer, Operation *op, Type type);

} // namespace mlir::fly

#endif // FLY_IR_OPFORMATS_H
