//===- Syntax.h - text of the structural attributes ---------------*- C++ -*-===//
//
// Parsing and printing of int tuples, layouts, swizzles and tiles as they appear
// inside type text. Parse functions return null after reporting an error.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#ifndef FLY_IR_SYNTAX_H
#define FLY_IR_SYNTAX_H

#include "fly/IR/FlyDialect.h"

namespace mlir::fly::syntax {

/// `*`, `?{i64 div=N}` or an integer.
IntAttr parseScalar(AsmParser &parser);
/// A scalar with an optional basis suffix `E0E1`, or a parenthesised tuple.
IntTupleAttr parseIntTuple(AsmParser &parser);
LayoutAttr parseLayout(AsmParser &parser);
SwizzleAttr parseSwizzle(AsmParser &parser);
CoordSwizzleAttr parseCoordSwizzle(AsmParser &parser);
/// A plain layout, or a chain `inner o offset o outer`; the result is a LayoutAttr, a
/// ComposedLayoutAttr or, without any `o`, possibly a swizzle.
Attribute parseComposed(AsmParser &parser);
TileAttr parseTile(AsmParser &parser);
Attribute parseAddressSpace(AsmParser &parser);
/// `[, align<N>] [, S<m,b,s>]`; absent parts become the trivial ones of `elemTy`.
ParseResult parseAlignSwizzle(AsmParser &parser, Type elemTy, AlignAttr &align,
                              SwizzleAttr &swizzle);

void print(raw_ostream &os, IntAttr attr);
void print(raw_ostream &os, BasisAttr attr);
void print(raw_ostream &os, IntTupleAttr attr);
void print(raw_ostream &os, LayoutAttr attr);
void print(raw_ostream &os, SwizzleAttr attr);
void print(raw_ostream &os, CoordSwizzleAttr attr);
void print(raw_ostream &os, TileAttr attr);
/// Any of the above, or a composed layout.
void printStructure(raw_ostream &os, Attribute attr);
void printAddressSpace(AsmPrinter &printer, Attribute space);
void printAlignSwizzle(AsmPrinter &printer, Type elemTy, AlignAttr align, SwizzleAttr swizzle);

} // namespace mlir::fly::syntax

#endif // FLY_IR_SYNTAX_H
