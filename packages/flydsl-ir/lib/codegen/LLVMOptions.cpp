//===- LLVMOptions.cpp - LLVM command-line options ------------------------===//
#include "fly_codegen/LLVMOptions.h"

#include "fly_codegen/Codegen.h"

#include "llvm/ADT/StringExtras.h"
#include <optional>

using namespace llvm;
using namespace mlir::fly;

std::shared_mutex &mlir::fly::llvmOptionsMutex() {
  static std::shared_mutex mutex;
  return mutex;
}

cl::Option *mlir::fly::findLLVMOption(StringRef name) {
  initializeAMDGPUTarget();
  auto &registered = cl::getRegisteredOptions();
  auto it = registered.find(name);
  return it == registered.end() ? nullptr : it->second;
}

/// The value of type `T` that `text` is, if it is one.
template <typename T> static std::optional<T> parse(StringRef text) {
  if constexpr (std::is_same_v<T, bool>) {
    if (text == "1" || text.equals_insensitive("true"))
      return true;
    if (text == "0" || text.equals_insensitive("false"))
      return false;
    return std::nullopt;
  } else if constexpr (std::is_same_v<T, cl::boolOrDefault>) { // for example lsr-drop-solution
    std::optional<bool> value = parse<bool>(text);
    return value ? std::optional(*value ? cl::BOU_TRUE : cl::BOU_FALSE) : std::nullopt;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return text.str();
  } else {
    T value;
    return to_integer(text, value) ? std::optional(value) : std::nullopt;
  }
}

/// Sets an option that holds a `T`; false if it holds another type or `text` is no such value.
template <typename T>
static bool trySet(cl::Option *option, StringRef text, std::function<void()> &restore) {
  std::optional<T> value = parse<T>(text);
  return value && visitLLVMOption<T>(option, [&](auto &opt) {
           restore = [&opt, old = T(opt.getValue())] { opt.setValue(old); };
           opt.setValue(*value);
         });
}

template <typename... Ts>
static bool trySetAny(cl::Option *option, StringRef text, std::function<void()> &restore) {
  return (trySet<Ts>(option, text, restore) || ...);
}

LLVMOptionScope::~LLVMOptionScope() {
  for (size_t i = restore.size(); i-- > 0;)
    restore[i]();
}

Error LLVMOptionScope::set(ArrayRef<std::pair<std::string, std::string>> options) {
  for (const auto &[name, text] : options) {
    cl::Option *option = findLLVMOption(name);
    if (!option)
      return createStringError("Unknown LLVM option '" + name + "'");
    std::function<void()> undo;
    if (!trySetAny<bool, cl::boolOrDefault, int, unsigned, long, unsigned long, unsigned long long,
                   std::string>(option, text, undo))
      return createStringError("LLVM option '" + name + "' cannot take the value '" + text + "'");
    restore.push_back(std::move(undo));
  }
  return Error::success();
}
