//===- AttrFormats.cpp - standalone text of the attributes ------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/Syntax.h"

using namespace mlir;
using namespace mlir::fly;

// The standalone text is `#fly.mnemonic<structure>`, so that it can be read back.
template <typename ParseFn>
static auto parseInAngles(AsmParser &parser, ParseFn parse) -> decltype(parse(parser)) {
  decltype(parse(parser)) result;
  if (parser.parseLess() || !(result = parse(parser)) || parser.parseGreater())
    return {};
  return result;
}

#define FLY_STRUCTURE_FORMAT(ATTR, PARSE)                                                          \
  Attribute ATTR::parse(AsmParser &parser, Type) { return parseInAngles(parser, PARSE); }          \
  void ATTR::print(AsmPrinter &printer) const {                                                    \
    printer << '<';                                                                                \
    syntax::print(printer.getStream(), *this);                                                     \
    printer << '>';                                                                                \
  }

FLY_STRUCTURE_FORMAT(IntAttr, syntax::parseScalar)
FLY_STRUCTURE_FORMAT(IntTupleAttr, syntax::parseIntTuple)
FLY_STRUCTURE_FORMAT(LayoutAttr, syntax::parseLayout)
FLY_STRUCTURE_FORMAT(SwizzleAttr, syntax::parseSwizzle)
FLY_STRUCTURE_FORMAT(CoordSwizzleAttr, syntax::parseCoordSwizzle)
FLY_STRUCTURE_FORMAT(TileAttr, syntax::parseTile)
#undef FLY_STRUCTURE_FORMAT

Attribute BasisAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  IntTupleAttr leaf = parseInAngles(parser, syntax::parseIntTuple);
  if (!leaf)
    return {};
  if (auto basis = dyn_cast<BasisAttr>(leaf.getValue()))
    return basis;
  parser.emitError(loc, "expected a basis such as 3E1E0");
  return {};
}

void BasisAttr::print(AsmPrinter &printer) const {
  printer << '<';
  syntax::print(printer.getStream(), *this);
  printer << '>';
}

Attribute ComposedLayoutAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  Attribute attr = parseInAngles(parser, syntax::parseComposed);
  if (attr && !isa<ComposedLayoutAttr>(attr)) {
    parser.emitError(loc, "expected at least one composition 'inner o offset o outer'");
    return {};
  }
  return attr;
}

void ComposedLayoutAttr::print(AsmPrinter &printer) const {
  printer << '<';
  syntax::printStructure(printer.getStream(), *this);
  printer << '>';
}

Attribute AlignAttr::parse(AsmParser &parser, Type) {
  int32_t bytes = 0;
  if (parser.parseLess() || parser.parseInteger(bytes) || parser.parseGreater())
    return {};
  return AlignAttr::get(parser.getContext(), bytes);
}

void AlignAttr::print(AsmPrinter &printer) const { printer << '<' << getAlignment() << '>'; }
