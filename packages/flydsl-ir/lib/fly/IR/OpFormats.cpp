//===- OpFormats.cpp - text of operands that several operations share ----------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/OpFormats.h"

using namespace mlir;
using namespace mlir::fly;

ParseResult mlir::fly::parseOperandGroup(OpAsmParser &parser,
                                         SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(parser.parseOperandList(operands) || parser.parseRSquare());
  return parser.parseOperand(operands.emplace_back());
}

void mlir::fly::printOperandGroup(OpAsmPrinter &printer, Operation *, OperandRange operands) {
  if (operands.size() == 1) {
    printer << operands.front();
    return;
  }
  printer << '[' << operands << ']';
}

ParseResult mlir::fly::parseTraversalLayout(OpAsmParser &parser,
                                            std::optional<OpAsmParser::UnresolvedOperand> &layout) {
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

void mlir::fly::printTraversalLayout(OpAsmPrinter &printer, Operation *, Value layout) {
  if (layout)
    printer << " traversalLayout = " << layout;
}

ParseResult mlir::fly::parseMmaOperand(OpAsmParser &parser, MmaOperandAttr &operand) {
  FailureOr<MmaOperand> parsed = FieldParser<MmaOperand>::parse(parser);
  if (failed(parsed))
    return failure();
  operand = MmaOperandAttr::get(parser.getContext(), *parsed);
  return success();
}

void mlir::fly::printMmaOperand(OpAsmPrinter &printer, Operation *, MmaOperandAttr operand) {
  printer << stringifyMmaOperand(operand.getValue());
}

ParseResult mlir::fly::parseStrippedMemRef(OpAsmParser &parser, Type &type) {
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

void mlir::fly::printStrippedMemRef(OpAsmPrinter &printer, Operation *, Type type) {
  if (auto memref = dyn_cast<fly::MemRefType>(type))
    memref.print(printer);
  else
    printer << type;
}
