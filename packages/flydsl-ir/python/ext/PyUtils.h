//===- PyUtils.h - Helpers of the type classes ------------------*- C++ -*-===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#ifndef FLY_PYTHON_EXT_PYUTILS_H
#define FLY_PYTHON_EXT_PYUTILS_H

#include "mlir-c/Diagnostics.h"
#include "mlir-c/IR.h"
// clang-format off: Nanobind.h must come before the other binding headers.
#include "mlir/Bindings/Python/Nanobind.h"
// clang-format on
#include "mlir/Bindings/Python/IRCore.h"
#include "mlir/Bindings/Python/NanobindAdaptors.h"
#include <initializer_list>
#include <string>

namespace nb = nanobind;

namespace flydsl {

using namespace mlir::python::MLIR_BINDINGS_PYTHON_DOMAIN;

/// While alive, collects the error diagnostics of a context; other diagnostics pass.
class ErrorCollector {
public:
  explicit ErrorCollector(MlirContext context)
      : context(context), id(mlirContextAttachDiagnosticHandler(context, handle, this, nullptr)) {}
  ~ErrorCollector() { mlirContextDetachDiagnosticHandler(context, id); }
  ErrorCollector(const ErrorCollector &) = delete;
  ErrorCollector &operator=(const ErrorCollector &) = delete;

  const std::string &message() const { return text; }

private:
  static void append(MlirStringRef part, void *self) {
    static_cast<ErrorCollector *>(self)->text.append(part.data, part.length);
  }
  static MlirLogicalResult handle(MlirDiagnostic diagnostic, void *self) {
    if (mlirDiagnosticGetSeverity(diagnostic) != MlirDiagnosticError)
      return mlirLogicalResultFailure();
    auto *collector = static_cast<ErrorCollector *>(self);
    if (!collector->text.empty())
      collector->text += '\n';
    mlirDiagnosticPrint(diagnostic, append, self);
    for (intptr_t i = 0, n = mlirDiagnosticGetNumNotes(diagnostic); i < n; ++i) {
      collector->text += "\nnote: ";
      mlirDiagnosticPrint(mlirDiagnosticGetNote(diagnostic, i), append, self);
    }
    return mlirLogicalResultSuccess();
  }

  MlirContext context;
  MlirDiagnosticHandlerID id;
  std::string text;
};

[[noreturn]] inline void raiseValueError(const std::string &message) {
  throw nb::value_error(message.c_str());
}

/// Calls `make()`, which returns an MlirType or an MlirAttribute; a null result becomes a
/// ValueError with the diagnostics that `make` emitted.
template <typename Make> auto orValueError(MlirContext context, Make make) {
  ErrorCollector errors(context);
  auto result = make();
  if (!result.ptr)
    raiseValueError(errors.message().empty() ? "invalid arguments" : errors.message());
  return result;
}

/// The type or attribute as an object of the most specific Python class.
inline nb::object downcast(PyMlirContextRef &context, MlirType type) {
  return PyType(context, type).maybeDownCast();
}
inline nb::object downcast(PyMlirContextRef &context, MlirAttribute attr) {
  return PyAttribute(context, attr).maybeDownCast();
}

/// Text of a type, for messages.
inline std::string toString(MlirType type) {
  std::string text;
  mlirTypePrint(
      type,
      [](MlirStringRef part, void *out) {
        static_cast<std::string *>(out)->append(part.data, part.length);
      },
      &text);
  return text;
}

/// The context that an argument brings along; none for anything but types, attributes and values.
struct ContextSource {
  ContextSource(PyType &type) : context(type.getContext().get()) {}
  ContextSource(nb::handle object);

  PyMlirContext *context = nullptr;
};

/// The context of a constructor call: `given` if not null, else that of the first argument that
/// brings one, else the current one. All of them must agree.
PyMlirContextRef resolveContext(PyMlirContext *given, std::initializer_list<ContextSource> args);

/// The keyword-only `context=None` that every constructor takes.
inline auto contextArg() { return nb::arg("context").none() = nb::none(); }

/// Adds a read-only property whose getter is a C function of the type.
template <typename Class, typename Result>
void defProperty(Class &cls, const char *name, Result (*getter)(MlirType), const char *doc) {
  using Self = typename Class::Type;
  if constexpr (std::is_same_v<Result, MlirType> || std::is_same_v<Result, MlirAttribute>)
    cls.def_prop_ro(
        name,
        [getter](Self &self) -> nb::object {
          return downcast(self.getContext(), orValueError(self.getContext()->get(),
                                                          [&] { return getter(self); }));
        },
        doc);
  else
    cls.def_prop_ro(name, [getter](Self &self) { return getter(self); }, doc);
}

/// Adds `isinstance(type)`, the spelling that precedes `isinstance(type, Class)`.
template <typename Class> void defIsInstance(Class &cls) {
  using Self = typename Class::Type;
  cls.def_static(
      "isinstance", [](PyType &type) { return Self::isaFunction(type); }, nb::arg("type"),
      "Whether the type is of this class.");
}

/// Declares the Python class of the C type NAME; bindDerived is defined by the user.
#define FLY_PY_TYPE(NAME)                                                                          \
  struct NAME##Type : PyConcreteType<NAME##Type> {                                                 \
    static constexpr IsAFunctionTy isaFunction = flyTypeIsA##NAME;                                 \
    static constexpr GetTypeIDFunctionTy getTypeIdFunction = fly##NAME##TypeGetTypeID;             \
    static constexpr const char *pyClassName = #NAME "Type";                                       \
    using Base::Base;                                                                              \
    static void bindDerived(ClassTy &cls);                                                         \
  }

/// Declares the Python class of the C attribute NAME.
#define FLY_PY_ATTR(NAME)                                                                          \
  struct NAME##Attr : PyConcreteAttribute<NAME##Attr> {                                            \
    static constexpr IsAFunctionTy isaFunction = flyAttributeIsA##NAME;                            \
    static constexpr GetTypeIDFunctionTy getTypeIdFunction = fly##NAME##AttrGetTypeID;             \
    static constexpr const char *pyClassName = #NAME "Attr";                                       \
    using Base::Base;                                                                              \
    static void bindDerived(ClassTy &cls);                                                         \
  }

} // namespace flydsl

#endif // FLY_PYTHON_EXT_PYUTILS_H
