//===- Helpers.cpp - Functions of the fly module --------------------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "IntTupleArgument.h"
#include "PyUtils.h"
#include "fly-c/LLVMOptions.h"
#include "fly-c/LayoutTypes.h"

#include <algorithm>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>
#include <optional>
#include <string_view>

namespace flydsl {
namespace {

//===----------------------------------------------------------------------===//
// Int tuples and values
//===----------------------------------------------------------------------===//

nb::tuple inferIntTupleType(nb::handle value, PyMlirContext *context) {
  PyMlirContextRef ref = resolveContext(context, {});
  IntTupleArgument argument(ref);
  MlirType type = flyIntTupleTypeGet(argument.convert(value));
  return nb::make_tuple(downcast(ref, type), argument.dynamicLeaves);
}

/// Rank or depth of the type of a value; a ValueError for types that have none.
template <int32_t (*Query)(MlirType)> int32_t queryValue(PyValue &value) {
  MlirType type = mlirValueGetType(value.get());
  int32_t result = Query(type);
  if (result < 0)
    raiseValueError("expected an int_tuple, layout, composed_layout, coord_tensor or memref "
                    "value, got " +
                    toString(type));
  return result;
}

bool hasNone(PyValue &value) {
  MlirType type = mlirValueGetType(value.get());
  if (!flyTypeIsAIntTuple(type))
    raiseValueError("expected an int_tuple value, got " + toString(type));
  return flyIntTupleTypeHasNone(type);
}

/// The int tuple type that stands for the profile of a value.
MlirType getProfile(PyValue &value) {
  MlirType type = mlirValueGetType(value.get());
  MlirType profile = flyTypeGetProfile(type);
  if (mlirTypeIsNull(profile))
    raiseValueError("expected an int tuple or a layout-like value, got " + toString(type));
  return profile;
}

/// (key, spelling of its type): what a walk needs of a value, without an object of MLIR's class of
/// values: making one imports the Python module of the dialect of its type.
nb::tuple plainValue(MlirValue value) {
  return nb::make_tuple(reinterpret_cast<uintptr_t>(value.ptr), toString(mlirValueGetType(value)));
}

template <auto Count, auto Get, class Owner> nb::list plainValues(Owner owner) {
  nb::list values;
  for (intptr_t i = 0, end = Count(owner); i < end; ++i)
    values.append(plainValue(Get(owner, i)));
  return values;
}

template <auto Count, auto Get> nb::list plainValuesOf(PyOperationBase &op) {
  return plainValues<Count, Get>(op.getOperation().get());
}

nb::list plainArguments(PyBlock &block) {
  return plainValues<mlirBlockGetNumArguments, mlirBlockGetArgument>(block.get());
}

/// The operations of a block from the `start`-th on. A list of MLIR's class finds each by counting from the
/// first one.
nb::list plainOperations(PyBlock &block, intptr_t start) {
  if (start < 0)
    raiseValueError("start must not be negative, got " + std::to_string(start));
  block.checkValid();
  PyOperationRef parent = block.getParentOperation();
  nb::list operations;
  MlirOperation op = mlirBlockGetFirstOperation(block.get());
  for (; !mlirOperationIsNull(op); op = mlirOperationGetNextInBlock(op))
    if (start-- <= 0)
      operations.append(
          PyOperation::forOperation(parent->getContext(), op, parent.getObject()).getObject());
  return operations;
}

/// The operations inside of `op` that have one of the names, outer before inner.
nb::list operationsNamed(PyOperationBase &op, const std::vector<std::string> &names) {
  struct Search {
    PyOperation &root;
    const std::vector<std::string> &names;
    nb::list found;
  } search{op.getOperation(), names, {}};
  auto visit = [](MlirOperation inner, void *self) {
    auto &[root, names, found] = *static_cast<Search *>(self);
    MlirStringRef name = mlirIdentifierStr(mlirOperationGetName(inner));
    std::string_view text(name.data, name.length);
    if (!mlirOperationEqual(inner, root.get()) &&
        std::find(names.begin(), names.end(), text) != names.end())
      found.append(PyOperation::forOperation(root.getContext(), inner, root.getRef().getObject())
                       .getObject());
    return MlirWalkResultAdvance;
  };
  search.root.checkValid();
  mlirOperationWalk(search.root.get(), visit, &search, MlirWalkPreOrder);
  return search.found;
}

//===----------------------------------------------------------------------===//
// LLVM options
//===----------------------------------------------------------------------===//

void checkOption(FlyLLVMOptionStatus status, const std::string &name, const char *kind) {
  if (status == FlyLLVMOptionUnknown)
    throw std::runtime_error("Unknown LLVM option: " + name);
  if (status == FlyLLVMOptionWrongKind)
    throw std::runtime_error("LLVM option " + name + " does not hold such " + kind + " value");
}

MlirStringRef toRef(const std::string &text) {
  return mlirStringRefCreate(text.data(), text.size());
}

/// None stands for the third state that some options have.
std::optional<bool> setOptionBool(const std::string &name, std::optional<bool> value) {
  int previous = 0;
  checkOption(flyLLVMOptionSetBool(toRef(name), value ? *value : -1, &previous), name, "a bool");
  return previous < 0 ? std::nullopt : std::optional<bool>(previous != 0);
}

int64_t setOptionInt(const std::string &name, int64_t value) {
  int64_t previous = 0;
  checkOption(flyLLVMOptionSetInt(toRef(name), value, &previous), name, "an int");
  return previous;
}

std::string setOptionString(const std::string &name, const std::string &value) {
  std::string previous;
  auto keep = [](MlirStringRef text, void *out) {
    static_cast<std::string *>(out)->assign(text.data, text.length);
  };
  checkOption(flyLLVMOptionSetString(toRef(name), toRef(value), keep, &previous), name, "a str");
  return previous;
}

} // namespace

void bindHelpers(nb::module_ &m) {
  nb::class_<PyBasis>(m, "_Basis", "A basis leaf of an int tuple: `value` along `modes`.")
      .def(nb::init<nb::object, nb::handle>(), nb::arg("value").none(),
           nb::arg("modes").none())
      .def_ro("value", &PyBasis::value, "The coefficient, an int or an i32/i64 value.")
      .def_ro("modes", &PyBasis::modes, "The path, outermost mode first.")
      .def("__repr__", [](nb::handle self) {
        return nb::str("_Basis({!r}, {!r})").format(self.attr("value"), self.attr("modes"));
      });

  m.def("infer_int_tuple_type", inferIntTupleType, nb::arg("int_or_tuple").none(), contextArg(),
        nb::sig("def infer_int_tuple_type(int_or_tuple: object, context: object | None = None) -> "
                "tuple[IntTupleType, list]"),
        "The type of an int tuple (see IntTupleType.get) and its dynamic leaves in depth-first "
        "order.");
  m.def("rank", queryValue<flyTypeGetRank>, nb::arg("value"),
        "Number of top-level modes of an int tuple, layout or tensor value.");
  m.def("depth", queryValue<flyTypeGetDepth>, nb::arg("value"),
        "Nesting depth of an int tuple, layout or tensor value.");
  m.def("has_none", hasNone, nb::arg("value"), "Whether an int tuple value has a leaf `*`.");
  m.def(
      "is_profile_congruent",
      [](PyValue &lhs, PyValue &rhs) {
        return flyIntTupleTypeIsCongruent(getProfile(lhs), getProfile(rhs));
      },
      nb::arg("lhs"), nb::arg("rhs"), "Whether two int tuples or layouts have the same nesting.");
  m.def(
      "is_profile_weakly_congruent",
      [](PyValue &lhs, PyValue &rhs) {
        return flyIntTupleTypeIsWeaklyCongruent(getProfile(lhs), getProfile(rhs));
      },
      nb::arg("lhs"), nb::arg("rhs"),
      "Whether `rhs` has at least the nesting of `lhs`: a leaf of `lhs` matches anything.");

  m.def("plain_operands", plainValuesOf<mlirOperationGetNumOperands, mlirOperationGetOperand>,
        nb::arg("operation"), "(key, spelling of its type) of each operand.");
  m.def("plain_results", plainValuesOf<mlirOperationGetNumResults, mlirOperationGetResult>,
        nb::arg("operation"), "(key, spelling of its type) of each result.");
  m.def("plain_arguments", plainArguments, nb::arg("block"),
        "(key, spelling of its type) of each argument of a block.");
  m.def("plain_operations", plainOperations, nb::arg("block"), nb::arg("start") = 0,
        "The operations of a block from the start-th on, not as objects of their own classes.");
  m.def("operations_named", operationsNamed, nb::arg("operation"), nb::arg("names"),
        "The operations at any depth inside of one that have one of the names, outer before inner, "
        "not as objects of their own classes.");

  m.def("set_llvm_option_bool", setOptionBool, nb::arg("name"), nb::arg("value").none(),
        "Sets an LLVM option and returns its former value; None is the state of being unset that "
        "some options have. RuntimeError if there is no such option.");
  m.def("set_llvm_option_int", setOptionInt, nb::arg("name"), nb::arg("value"),
        "Sets an LLVM option and returns its former value. RuntimeError if there is no such "
        "option.");
  m.def("set_llvm_option_str", setOptionString, nb::arg("name"), nb::arg("value"),
        "Sets an LLVM option and returns its former value. RuntimeError if there is no such "
        "option.");
}

} // namespace flydsl
