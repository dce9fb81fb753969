//===- OpDefinitions.cpp - generated code of the operations -----------------===//
//
// Apart from what is written by hand, because it takes a minute to compile.
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/FlyOps.h"

using namespace mlir;
using namespace mlir::fly;

//===------------------------------------------------------------------------===//
// Syntax
//===------------------------------------------------------------------------===//

// One operand is bare, several stand in brackets.
static ParseResult parseOperandGroup(OpAsmParser &parser,
                                     SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(parser.parseOperandList(operands) || parser.parseRSquare());
  return parser.parseOperand(operands.emplace_back());
}

static void printOperandGroup(OpAsmPrinter &printer, Operation *, OperandRange operands) {
  if (operands.size() == 1) {
    printer << operands.front();
    return;
  }
  printer << '[' << operands << ']';
}

// `traversalLayout = %l`, also accepted in brackets.
static ParseResult
parseTraversalLayout(OpAsmParser &parser, std::optional<OpAsmParser::UnresolvedOperand> &layout) {
  bool bracket = succeeded(parser.parseOptionalLSquare());
  if (failed(parser.parseOptionalKeyword("traversalLayout")))
    return bracket ? parser.emitError(parser.getCurrentLocation(), "expected 'traversalLayout'")
                   : ParseResult(success());
  OpAsmParser::UnresolvedOperand operand;
  if (parser.parseEqual() || parser.parseOperand(operand) || (bracket && parser.parseRSquare()))
    return failure();
  layout = operand;
  return success();
}

static void printTraversalLayout(OpAsmPrinter &printer, Operation *, Value layout) {
  if (layout)
    printer << " traversalLayout = " << layout;
}

static ParseResult parseStrippedMemRef(OpAsmParser &parser, Type &type) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult full = parser.parseOptionalType(type);
  if (!full.has_value())
    type = fly::MemRefType::parse(parser);
  else if (failed(*full))
    return failure();
  if (type && !isa<fly::MemRefType, fly::PointerType>(type))
    return parser.emitError(loc, "expected a memref or pointer type");
  return success(static_cast<bool>(type));
}

static void printStrippedMemRef(OpAsmPrinter &printer, Operation *, Type type) {
  if (auto memref = dyn_cast<fly::MemRefType>(type))
    memref.print(printer);
  else
    printer << type;
}

#define GET_OP_CLASSES
#include "fly/IR/FlyOps.cpp.inc"

void FlyDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "fly/IR/FlyOps.cpp.inc"
      >();
}
