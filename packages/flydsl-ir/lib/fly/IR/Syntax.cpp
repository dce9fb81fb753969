//===- Syntax.cpp - text of the structural attributes -----------------------===//
//
// SPDX-License-Identifier: Apache-2.0
//
//===------------------------------------------------------------------------===//

#include "fly/IR/Syntax.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::fly;

//===------------------------------------------------------------------------===//
// Parsing
//===------------------------------------------------------------------------===//

// Decimal hook: `0x10` must not be taken as a hexadecimal literal.
static OptionalParseResult parseOptionalInt32(AsmParser &parser, int32_t &value) {
  SMLoc loc = parser.getCurrentLocation();
  APInt wide;
  OptionalParseResult result = parser.parseOptionalDecimalInteger(wide);
  if (!result.has_value() || failed(*result))
    return result;
  if (wide.getSignificantBits() > 32)
    return OptionalParseResult(parser.emitError(loc, "integer does not fit in 32 bits: ")
                               << llvm::toString(wide, 10, /*Signed=*/true));
  value = static_cast<int32_t>(wide.getSExtValue());
  return result;
}

static ParseResult parseInt32(AsmParser &parser, int32_t &value) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult result = parseOptionalInt32(parser, value);
  if (!result.has_value())
    return parser.emitError(loc, "expected an integer");
  return *result;
}

static ParseResult parseInt32List(AsmParser &parser, SmallVectorImpl<int32_t> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&]() -> ParseResult {
    return parseInt32(parser, values.emplace_back());
  });
}

// Null without an error if there is no scalar; `failed` tells the two nulls apart.
static IntAttr parseOptionalScalar(AsmParser &parser, bool &failed_) {
  MLIRContext *ctx = parser.getContext();
  failed_ = false;
  if (succeeded(parser.parseOptionalStar()))
    return IntAttr::getNone(ctx);
  if (succeeded(parser.parseOptionalQuestion())) {
    int32_t width = 32, div = 1;
    if (failed(parser.parseOptionalLBrace()))
      return IntAttr::getDynamic(ctx);
    if (succeeded(parser.parseOptionalKeyword("i64")))
      width = 64;
    else
      (void)parser.parseOptionalKeyword("i32");
    if (succeeded(parser.parseOptionalKeyword("div")))
      failed_ = failed(parser.parseEqual()) || failed(parseInt32(parser, div));
    failed_ = failed_ || failed(parser.parseRBrace());
    return failed_ ? IntAttr() : IntAttr::getDynamic(ctx, width, div);
  }
  int32_t value = 0;
  OptionalParseResult result = parseOptionalInt32(parser, value);
  if (!result.has_value())
    return {};
  failed_ = failed(*result);
  return failed_ ? IntAttr() : IntAttr::getStatic(ctx, value);
}

IntAttr syntax::parseScalar(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  bool failed_ = false;
  IntAttr attr = parseOptionalScalar(parser, failed_);
  if (!attr && !failed_)
    parser.emitError(loc, "expected an integer, '?' or '*'");
  return attr;
}

// `modes` stays empty if there is no suffix.
static ParseResult parseOptionalBasisSuffix(AsmParser &parser, SmallVectorImpl<int32_t> &modes) {
  SMLoc loc = parser.getCurrentLocation();
  const char *text = loc.getPointer();
  if (!text || text[0] != 'E' || !llvm::isDigit(text[1]))
    return success();
  StringRef suffix;
  if (parser.parseKeyword(&suffix))
    return failure();
  while (!suffix.empty()) {
    int32_t mode = 0;
    if (!suffix.consume_front("E") || suffix.consumeInteger(10, mode) || mode < 0)
      return parser.emitError(loc, "expected a basis suffix of the form E0E1...");
    modes.push_back(mode);
  }
  return success();
}

// Nesting is bounded, as it is handled by recursion everywhere.
static constexpr int maxDepth = 64;

static ParseResult checkDepth(AsmParser &parser, int depth) {
  if (depth < maxDepth)
    return success();
  return parser.emitError(parser.getCurrentLocation(), "nested deeper than ")
         << maxDepth << " levels";
}

static IntTupleAttr parseIntTupleAt(AsmParser &parser, int depth) {
  if (succeeded(parser.parseOptionalLParen())) {
    SmallVector<Attribute> children;
    if (checkDepth(parser, depth))
      return {};
    do {
      IntTupleAttr child = parseIntTupleAt(parser, depth + 1);
      if (!child)
        return {};
      children.push_back(child);
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRParen())
      return {};
    return IntTupleAttr::get(ArrayAttr::get(parser.getContext(), children));
  }
  IntAttr value = syntax::parseScalar(parser);
  SmallVector<int32_t, 4> modes;
  if (!value || parseOptionalBasisSuffix(parser, modes))
    return {};
  if (modes.empty())
    return IntTupleAttr::get(value);
  return IntTupleAttr::get(BasisAttr::get(parser.getContext(), value, modes));
}

IntTupleAttr syntax::parseIntTuple(AsmParser &parser) { return parseIntTupleAt(parser, 0); }

LayoutAttr syntax::parseLayout(AsmParser &parser) {
  IntTupleAttr shape = parseIntTuple(parser);
  if (!shape || parser.parseColon())
    return {};
  IntTupleAttr stride = parseIntTuple(parser);
  return stride ? LayoutAttr::get(shape, stride) : LayoutAttr();
}

static SwizzleAttr parseSwizzleBody(AsmParser &parser) {
  int32_t mask, base, shift;
  if (parser.parseLess() || parseInt32(parser, mask) || parser.parseComma() ||
      parseInt32(parser, base) || parser.parseComma() || parseInt32(parser, shift) ||
      parser.parseGreater())
    return {};
  return SwizzleAttr::getChecked([&] { return parser.emitError(parser.getNameLoc()); },
                                 parser.getContext(), mask, base, shift);
}

static CoordSwizzleAttr parseCoordSwizzleBody(AsmParser &parser) {
  int32_t mask, baseRow, baseCol;
  SmallVector<int32_t, 4> modeRow, modeCol;
  if (parser.parseLess() || parseInt32(parser, mask) || parser.parseComma() ||
      parseInt32(parser, baseRow) || parser.parseComma() || parseInt32List(parser, modeRow) ||
      parser.parseComma() || parseInt32(parser, baseCol) || parser.parseComma() ||
      parseInt32List(parser, modeCol) || parser.parseGreater())
    return {};
  return CoordSwizzleAttr::getChecked([&] { return parser.emitError(parser.getNameLoc()); },
                                      parser.getContext(), mask, baseRow, ArrayRef<int32_t>(modeRow),
                                      baseCol, ArrayRef<int32_t>(modeCol));
}

SwizzleAttr syntax::parseSwizzle(AsmParser &parser) {
  return parser.parseKeyword("S") ? SwizzleAttr() : parseSwizzleBody(parser);
}

CoordSwizzleAttr syntax::parseCoordSwizzle(AsmParser &parser) {
  return parser.parseKeyword("CS") ? CoordSwizzleAttr() : parseCoordSwizzleBody(parser);
}

static Attribute parseComposedInner(AsmParser &parser) {
  if (succeeded(parser.parseOptionalKeyword("S")))
    return parseSwizzleBody(parser);
  if (succeeded(parser.parseOptionalKeyword("CS")))
    return parseCoordSwizzleBody(parser);
  return syntax::parseLayout(parser);
}

static Attribute parseComposedAt(AsmParser &parser, int depth);

static Attribute parseComposedOuter(AsmParser &parser, int depth) {
  if (failed(parser.parseOptionalLSquare()))
    return syntax::parseLayout(parser);
  SMLoc loc = parser.getCurrentLocation();
  Attribute outer;
  if (checkDepth(parser, depth) || !(outer = parseComposedAt(parser, depth + 1)) ||
      parser.parseRSquare())
    return {};
  if (!isa<LayoutAttr, ComposedLayoutAttr>(outer)) {
    parser.emitError(loc, "the outer part of a composition must be a layout");
    return {};
  }
  return outer;
}

static Attribute parseComposedAt(AsmParser &parser, int depth) {
  Attribute result = parseComposedInner(parser);
  for (int chain = depth; result && succeeded(parser.parseOptionalKeyword("o")); ++chain) {
    if (checkDepth(parser, chain))
      return {};
    IntTupleAttr offset = syntax::parseIntTuple(parser);
    if (!offset || parser.parseKeyword("o"))
      return {};
    Attribute outer = parseComposedOuter(parser, depth);
    if (!outer)
      return {};
    result = ComposedLayoutAttr::get(result, offset, outer);
  }
  return result;
}

Attribute syntax::parseComposed(AsmParser &parser) { return parseComposedAt(parser, 0); }

// An element of a tile: TileAttr for a bracketed list, LayoutAttr or IntAttr.
static Attribute parseTileElement(AsmParser &parser, int depth) {
  MLIRContext *ctx = parser.getContext();
  if (succeeded(parser.parseOptionalLSquare())) {
    SmallVector<Attribute> elements;
    if (checkDepth(parser, depth))
      return {};
    do {
      Attribute element = parseTileElement(parser, depth + 1);
      if (!element)
        return {};
      elements.push_back(element);
    } while (succeeded(parser.parseOptionalVerticalBar()));
    if (parser.parseRSquare())
      return {};
    return TileAttr::get(ArrayAttr::get(ctx, elements));
  }
  SMLoc loc = parser.getCurrentLocation();
  IntTupleAttr first = syntax::parseIntTuple(parser);
  if (!first)
    return {};
  if (succeeded(parser.parseOptionalColon())) {
    IntTupleAttr stride = syntax::parseIntTuple(parser);
    return stride ? LayoutAttr::get(first, stride) : LayoutAttr();
  }
  if (!first.isLeafInt()) {
    parser.emitError(loc, "a tile element is '*', an integer, a layout or a bracketed tile");
    return {};
  }
  return first.getValue();
}

TileAttr syntax::parseTile(AsmParser &parser) {
  Attribute element = parseTileElement(parser, 0);
  if (!element)
    return {};
  if (auto tile = dyn_cast<TileAttr>(element))
    return tile;
  return TileAttr::get(element);
}

Attribute syntax::parseAddressSpace(AsmParser &parser) {
  Attribute attr;
  OptionalParseResult generic = parser.parseOptionalAttribute(attr);
  if (generic.has_value())
    return succeeded(*generic) ? attr : Attribute();
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (succeeded(parser.parseOptionalKeyword(&keyword)))
    if (std::optional<AddressSpace> space = symbolizeAddressSpace(keyword))
      return AddressSpaceAttr::get(parser.getContext(), *space);
  parser.emitError(loc, "expected an address space: generic, global, shared or register");
  return {};
}

ParseResult syntax::parseAlignSwizzle(AsmParser &parser, Type elemTy, AlignAttr &align,
                                      SwizzleAttr &swizzle) {
  MLIRContext *ctx = parser.getContext();
  unsigned bits = getElementBitWidth(elemTy);
  if (bits == 0)
    return parser.emitError(parser.getNameLoc(), "element type must be an integer or float, got ")
           << elemTy;
  align = AlignAttr::getTrivialAlignment(elemTy);
  swizzle = SwizzleAttr::getTrivial(ctx);
  if (failed(parser.parseOptionalComma()))
    return success();
  if (succeeded(parser.parseOptionalKeyword("align"))) {
    int32_t bytes = 0, elemBytes = (bits + 7) / 8;
    if (parser.parseLess())
      return failure();
    SMLoc loc = parser.getCurrentLocation();
    if (parseInt32(parser, bytes))
      return failure();
    if (bytes <= 0 || bytes % elemBytes != 0)
      return parser.emitError(loc, "alignment must be a positive multiple of the element size of ")
             << elemBytes << " bytes, got " << bytes;
    if (parser.parseGreater())
      return failure();
    align = AlignAttr::get(ctx, bytes);
    if (failed(parser.parseOptionalComma()))
      return success();
  }
  swizzle = parseSwizzle(parser);
  return success(static_cast<bool>(swizzle));
}

//===------------------------------------------------------------------------===//
// Printing
//===------------------------------------------------------------------------===//

void syntax::print(raw_ostream &os, IntAttr attr) {
  if (attr.isNone()) {
    os << '*';
    return;
  }
  if (attr.getStaticFlag()) {
    os << attr.getValue();
    return;
  }
  os << '?';
  bool wide = attr.getWidth() != 32, divides = attr.getDivisibility() != 1;
  if (!wide && !divides)
    return;
  os << '{';
  if (wide)
    os << 'i' << attr.getWidth() << (divides ? " " : "");
  if (divides)
    os << "div=" << attr.getDivisibility();
  os << '}';
}

void syntax::print(raw_ostream &os, BasisAttr attr) {
  if (attr.getValue().isNone())
    os << '0';
  else
    print(os, attr.getValue());
  for (int32_t mode : attr.getModes())
    os << 'E' << mode;
}

void syntax::print(raw_ostream &os, IntTupleAttr attr) {
  if (auto leaf = dyn_cast<IntAttr>(attr.getValue()))
    return print(os, leaf);
  if (auto basis = dyn_cast<BasisAttr>(attr.getValue()))
    return print(os, basis);
  os << '(';
  llvm::interleave(
      cast<ArrayAttr>(attr.getValue()), os,
      [&](Attribute child) { print(os, cast<IntTupleAttr>(child)); }, ",");
  os << ')';
}

void syntax::print(raw_ostream &os, LayoutAttr attr) {
  print(os, attr.getShape());
  os << ':';
  print(os, attr.getStride());
}

void syntax::print(raw_ostream &os, SwizzleAttr attr) {
  os << "S<" << attr.getMask() << ',' << attr.getBase() << ',' << attr.getShift() << '>';
}

void syntax::print(raw_ostream &os, CoordSwizzleAttr attr) {
  os << "CS<" << attr.getMask() << ',' << attr.getBaseRow() << ",[";
  llvm::interleaveComma(attr.getModeRow(), os);
  os << "]," << attr.getBaseCol() << ",[";
  llvm::interleaveComma(attr.getModeCol(), os);
  os << "]>";
}

void syntax::print(raw_ostream &os, TileAttr attr) {
  auto list = dyn_cast<ArrayAttr>(attr.getValue());
  if (!list)
    return printStructure(os, attr.getValue());
  os << '[';
  llvm::interleave(list, os, [&](Attribute element) { printStructure(os, element); }, "|");
  os << ']';
}

void syntax::printStructure(raw_ostream &os, Attribute attr) {
  llvm::TypeSwitch<Attribute>(attr)
      .Case<IntAttr, BasisAttr, IntTupleAttr, LayoutAttr, SwizzleAttr, CoordSwizzleAttr, TileAttr>(
          [&](auto structure) { print(os, structure); })
      .Case<ComposedLayoutAttr>([&](ComposedLayoutAttr composed) {
        printStructure(os, composed.getInner());
        os << " o ";
        print(os, composed.getOffset());
        os << " o ";
        bool nested = isa<ComposedLayoutAttr>(composed.getOuter());
        os << (nested ? "[" : "");
        printStructure(os, composed.getOuter());
        os << (nested ? "]" : "");
      })
      .Default([&](Attribute other) { os << other; });
}

void syntax::printAddressSpace(AsmPrinter &printer, Attribute space) {
  if (auto known = dyn_cast<AddressSpaceAttr>(space))
    printer << stringifyAddressSpace(known.getValue());
  else
    printer << space;
}

void syntax::printAlignSwizzle(AsmPrinter &printer, Type elemTy, AlignAttr align,
                               SwizzleAttr swizzle) {
  if (align != AlignAttr::getTrivialAlignment(elemTy))
    printer << ", align<" << align.getAlignment() << '>';
  if (swizzle != SwizzleAttr::getTrivial(swizzle.getContext())) {
    printer << ", ";
    print(printer.getStream(), swizzle);
  }
}
