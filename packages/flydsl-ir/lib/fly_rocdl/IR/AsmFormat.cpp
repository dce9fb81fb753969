//===- AsmFormat.cpp - pieces of the text of types ------------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "AsmFormat.h"

#include "fly/IR/Syntax.h"

using namespace mlir;
using namespace mlir::fly_rocdl;

ParseResult fly_rocdl::parseBool(AsmParser &parser, bool &value) {
  if (succeeded(parser.parseOptionalKeyword("true")))
    value = true;
  else if (succeeded(parser.parseOptionalKeyword("false")))
    value = false;
  else
    return parser.emitError(parser.getCurrentLocation(), "expected true or false");
  return success();
}

void fly_rocdl::printBool(AsmPrinter &printer, bool value) {
  printer << (value ? "true" : "false");
}

ParseResult fly_rocdl::parseDimsMNK(AsmParser &parser, int32_t &m,
                                    int32_t &n, int32_t &k) {
  SmallVector<int64_t, 3> dims;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(dims, /*allowDynamic=*/false, /*withTrailingX=*/false))
    return failure();
  if (dims.size() != 3)
    return parser.emitError(loc, "expected the three dimensions MxNxK");
  for (int64_t dim : dims)
    if (!llvm::isInt<32>(dim))
      return parser.emitError(loc, "a dimension has at most 32 bits, got ") << dim;
  m = static_cast<int32_t>(dims[0]);
  n = static_cast<int32_t>(dims[1]);
  k = static_cast<int32_t>(dims[2]);
  return success();
}

void fly_rocdl::printDimsMNK(AsmPrinter &printer, int32_t m, int32_t n, int32_t k) {
  printer << m << 'x' << n << 'x' << k;
}

ParseResult fly_rocdl::parseTransGranularity(AsmParser &parser, int32_t &bits) {
  return failure(parser.parseInteger(bits) || parser.parseKeyword("b"));
}

void fly_rocdl::printTransGranularity(AsmPrinter &printer, int32_t bits) {
  printer << bits << 'b';
}

ParseResult fly_rocdl::parseAtomicOp(AsmParser &parser, fly::AtomicOpAttr &op) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<fly::AtomicOp> value = fly::symbolizeAtomicOp(keyword);
  if (!value)
    return parser.emitError(loc,
                            "expected an atomic operation: add, max, min, and, or, inc or dec");
  op = fly::AtomicOpAttr::get(parser.getContext(), *value);
  return success();
}

void fly_rocdl::printAtomicOp(AsmPrinter &printer, fly::AtomicOpAttr op) {
  printer << fly::stringifyAtomicOp(op.getValue());
}

ParseResult fly_rocdl::parseWmmaTail(AsmParser &parser, int32_t &modC,
                                     bool &reuseA, bool &reuseB) {
  modC = 0;
  reuseA = reuseB = false;
  while (succeeded(parser.parseOptionalComma())) {
    ParseResult part = success();
    if (succeeded(parser.parseOptionalKeyword("modC")))
      part = failure(parser.parseEqual() || parser.parseInteger(modC));
    else if (succeeded(parser.parseOptionalKeyword("reuseA")))
      part = failure(parser.parseEqual() || parseBool(parser, reuseA));
    else if (succeeded(parser.parseOptionalKeyword("reuseB")))
      part = failure(parser.parseEqual() || parseBool(parser, reuseB));
    else
      part = parser.emitError(parser.getCurrentLocation(), "expected modC, reuseA or reuseB");
    if (part)
      return failure();
  }
  return success();
}

void fly_rocdl::printWmmaTail(AsmPrinter &printer, int32_t modC, bool reuseA, bool reuseB) {
  if (modC)
    printer << ", modC = " << modC;
  if (reuseA)
    printer << ", reuseA = true";
  if (reuseB)
    printer << ", reuseB = true";
}

ParseResult fly_rocdl::parseBareIntTuple(AsmParser &parser, fly::IntTupleAttr &tuple) {
  tuple = fly::syntax::parseIntTuple(parser);
  return success(static_cast<bool>(tuple));
}

void fly_rocdl::printBareIntTuple(AsmPrinter &printer, fly::IntTupleAttr tuple) {
  fly::syntax::print(printer.getStream(), tuple);
}

/// Parses `, name = value` parts in any order; `padding` is null for a store.
static ParseResult parseTensorTail(AsmParser &parser, bool &atomicBarrier, int32_t &cacheModifier,
                                   int32_t &iterCount, int32_t *padInterval, int32_t *padAmount) {
  atomicBarrier = false;
  cacheModifier = 0;
  iterCount = 1;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    ParseResult value = success();
    if (name == "atomicBarrier")
      value = parseBool(parser, atomicBarrier);
    else if (name == "cacheModifier")
      value = parser.parseInteger(cacheModifier);
    else if (name == "iterCount")
      value = parser.parseInteger(iterCount);
    else if (padInterval && name == "padInterval")
      value = parser.parseInteger(*padInterval);
    else if (padAmount && name == "padAmount")
      value = parser.parseInteger(*padAmount);
    else
      return parser.emitError(loc, "unknown parameter '") << name << "'";
    if (value)
      return failure();
  }
  return success();
}

ParseResult fly_rocdl::parseTensorStoreTail(AsmParser &parser, bool &atomicBarrier,
                                            int32_t &cacheModifier, int32_t &iterCount) {
  return parseTensorTail(parser, atomicBarrier, cacheModifier, iterCount, nullptr, nullptr);
}

void fly_rocdl::printTensorStoreTail(AsmPrinter &printer, bool atomicBarrier,
                                     int32_t cacheModifier, int32_t iterCount) {
  if (atomicBarrier)
    printer << ", atomicBarrier = true";
  if (cacheModifier != 0)
    printer << ", cacheModifier = " << cacheModifier;
  if (iterCount != 1)
    printer << ", iterCount = " << iterCount;
}

ParseResult fly_rocdl::parseTensorLoadTail(AsmParser &parser, bool &atomicBarrier,
                                           int32_t &cacheModifier, int32_t &iterCount,
                                           int32_t &padInterval, int32_t &padAmount) {
  padInterval = padAmount = 0;
  return parseTensorTail(parser, atomicBarrier, cacheModifier, iterCount, &padInterval, &padAmount);
}

void fly_rocdl::printTensorLoadTail(AsmPrinter &printer, bool atomicBarrier, int32_t cacheModifier,
                                    int32_t iterCount, int32_t padInterval, int32_t padAmount) {
  printTensorStoreTail(printer, atomicBarrier, cacheModifier, iterCount);
  if (padInterval != 0 || padAmount != 0)
    printer << ", padInterval = " << padInterval << ", padAmount = " << padAmount;
}
