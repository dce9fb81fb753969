//===- CheckAssembly.cpp - Text that MLIR's parser survives ----------------===//
//
// MLIR's parser and verifiers end the process on some inputs: nesting takes the stack, some
// literals reach unreachable code, some verifiers read outside of what they look at. Text from
// elsewhere is parsed once in a context of its own, under a guard. What gets through, errors of
// the text among it, does no harm when it is parsed again for good.
//
//===----------------------------------------------------------------------===//
#include "fly_codegen/Codegen.h"
#include "fly_codegen/InitAll.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include <mutex>

using namespace llvm;
using namespace mlir;

namespace {

/// Brackets of `text` that are open at a time. Far more than any program has, and a few hundred
/// KiB of stack.
constexpr unsigned kMostNesting = 256;

/// The deepest nesting of brackets outside of strings and comments.
unsigned nesting(StringRef text) {
  unsigned depth = 0, deepest = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i)
        i += text[i] == '\\';
    } else if (c == '/' && i + 1 < text.size() && text[i + 1] == '/') {
      while (i < text.size() && text[i] != '\n')
        ++i;
    } else if (StringRef("({[<").contains(c)) {
      deepest = std::max(deepest, ++depth);
    } else if (StringRef(")}]").contains(c) || (c == '>' && (i == 0 || text[i - 1] != '-'))) {
      depth -= depth != 0;
    }
  }
  return deepest;
}

/// Contexts are kept between checks: making one takes longer than parsing most texts. What texts
/// make of types and attributes stays in them, so that they are not kept forever.
class Contexts {
public:
  std::unique_ptr<MLIRContext> take() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (kept)
        return std::move(kept);
    }
    DialectRegistry registry;
    fly::registerAllDialects(registry);
    auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
    context->allowUnregisteredDialects();
    return context;
  }
  void give(std::unique_ptr<MLIRContext> context) {
    std::lock_guard<std::mutex> lock(mutex);
    if (++uses % kMostUses)
      kept = std::move(context);
  }

private:
  static constexpr unsigned kMostUses = 64;
  std::mutex mutex;
  std::unique_ptr<MLIRContext> kept;
  unsigned uses = 0;
};

Contexts &contexts() {
  static auto *instance = new Contexts;
  return *instance;
}

} // namespace

Error mlir::fly::checkAssembly(StringRef text, AssemblyKind kind) {
  if (nesting(text) > kMostNesting)
    return createStringError("the text nests brackets " + Twine(nesting(text)) +
                             " deep; the limit is " + Twine(kMostNesting));
  std::unique_ptr<MLIRContext> owned = contexts().take();
  MLIRContext *context = owned.get();
  Error crash = runGuarded("parsing the text", [&] {
    // Errors of the text are told when it is parsed for good.
    ScopedDiagnosticHandler quiet(context, [](Diagnostic &) { return success(); });
    if (kind == AssemblyKind::Attribute)
      (void)parseAttribute(text, context);
    else if (kind == AssemblyKind::Type)
      (void)parseType(text, context);
    else
      (void)parseSourceString<Operation *>(text, ParserConfig(context));
  });
  if (crash) {
    (void)owned.release(); // its state, locks among it, is unknown
    return crash;
  }
  contexts().give(std::move(owned));
  return Error::success();
}
