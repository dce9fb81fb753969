//===- LLVMOptionScope.cpp - LLVM command-line options for a while --------===//
#include "LLVMOptionScope.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include <optional>

using namespace llvm;
using namespace mlir::fly;

static std::optional<bool> parseBool(StringRef text) {
  if (text == "1" || text.equals_insensitive("true"))
    return true;
  if (text == "0" || text.equals_insensitive("false"))
    return false;
  return std::nullopt;
}

/// Sets an option that holds a `T`, inside or outside of the option object; false if it holds
/// another type or `text` is no such value.
template <typename T>
static bool trySet(cl::Option *option, StringRef text, std::function<void()> &restore) {
  T value{};
  if constexpr (std::is_same_v<T, bool>) {
    std::optional<bool> parsed = parseBool(text);
    if (!parsed)
      return false;
    value = *parsed;
  } else if constexpr (std::is_same_v<T, std::string>) {
    value = text.str();
  } else if (!to_integer(text, value)) {
    return false;
  }
  auto apply = [&](auto *opt) {
    if (!opt)
      return false;
    restore = [opt, old = T(opt->getValue())] { opt->setValue(old); };
    opt->setValue(value);
    return true;
  };
  return apply(dynamic_cast<cl::opt<T> *>(option)) ||
         apply(dynamic_cast<cl::opt<T, /*ExternalStorage=*/true> *>(option));
}

LLVMOptionScope::~LLVMOptionScope() {
  for (size_t i = restore.size(); i-- > 0;)
    restore[i]();
}

Error LLVMOptionScope::set(ArrayRef<std::pair<std::string, std::string>> options) {
  auto &registered = cl::getRegisteredOptions();
  for (const auto &[name, text] : options) {
    auto it = registered.find(name);
    if (it == registered.end())
      return createStringError("unknown LLVM option '" + name + "'");
    cl::Option *option = it->second;
    std::function<void()> undo;
    if (!trySet<bool>(option, text, undo) && !trySet<int>(option, text, undo) &&
        !trySet<unsigned>(option, text, undo) && !trySet<long>(option, text, undo) &&
        !trySet<unsigned long>(option, text, undo) &&
        !trySet<unsigned long long>(option, text, undo) &&
        !trySet<std::string>(option, text, undo))
      return createStringError("LLVM option '" + name + "' cannot take the value '" + text + "'");
    restore.push_back(std::move(undo));
  }
  return Error::success();
}
