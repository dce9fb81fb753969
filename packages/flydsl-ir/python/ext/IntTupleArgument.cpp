//===- IntTupleArgument.cpp - Python objects as int tuples ----------------===//
//
// Part of FlyDSL, under the Apache License v2.0.
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include "IntTupleArgument.h"

#include "fly-c/Attributes.h"
#include "fly-c/LayoutTypes.h"

#include "mlir-c/BuiltinTypes.h"
#include <cstdint>

namespace flydsl {

/// Class name of an object, for messages.
static std::string className(nb::handle object) {
  return nb::cast<std::string>(nb::str(object.type().attr("__name__")));
}

static std::string describe(nb::handle object) {
  return nb::cast<std::string>(nb::repr(object)) + " (" + className(object) + ")";
}

ContextSource::ContextSource(nb::handle object) {
  if (nb::isinstance<PyType>(object))
    context = nb::cast<PyType &>(object).getContext().get();
  else if (nb::isinstance<PyAttribute>(object))
    context = nb::cast<PyAttribute &>(object).getContext().get();
  else if (nb::isinstance<PyValue>(object))
    context = nb::cast<PyValue &>(object).getParentOperation()->getContext().get();
}

PyMlirContextRef resolveContext(PyMlirContext *given, std::initializer_list<ContextSource> args) {
  PyMlirContext *context = given;
  for (const ContextSource &arg : args) {
    if (!arg.context)
      continue;
    if (context && !mlirContextEqual(context->get(), arg.context->get()))
      raiseValueError("arguments belong to different contexts");
    context = arg.context;
  }
  return context ? context->getRef() : DefaultingPyMlirContext::resolve().getRef();
}

int32_t toInt32(nb::handle integer) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
  if (value == -1 && PyErr_Occurred())
    throw nb::python_error();
  if (overflow || value < INT32_MIN || value > INT32_MAX)
    raiseValueError("integer does not fit in 32 bits: " +
                    nb::cast<std::string>(nb::repr(integer)));
  return static_cast<int32_t>(value);
}

static bool isInt(nb::handle object) { return PyLong_Check(object.ptr()); }

/// Width of an i32 or i64 value; a ValueError for any other value.
static int32_t getIntegerWidth(nb::handle value) {
  MlirType type = mlirValueGetType(nb::cast<PyValue &>(value).get());
  if (mlirTypeIsAInteger(type) && mlirIntegerTypeIsSignless(type)) {
    unsigned width = mlirIntegerTypeGetWidth(type);
    if (width == 32 || width == 64)
      return width;
  }
  raiseValueError("a dynamic leaf must be an i32 or i64 value, got " + toString(type));
}

//===----------------------------------------------------------------------===//
// _Basis
//===----------------------------------------------------------------------===//

PyBasis::PyBasis(nb::object value, nb::handle modes) : value(std::move(value)) {
  if (nb::isinstance<PyValue>(this->value))
    getIntegerWidth(this->value);
  else if (isInt(this->value))
    toInt32(this->value);
  else
    raiseValueError("the value of a basis is an int or an i32/i64 value, got " +
                    describe(this->value));
  if (!nb::isinstance<nb::list>(modes) && !nb::isinstance<nb::tuple>(modes))
    raiseValueError("the modes of a basis are a list of ints, got " + describe(modes));
  for (nb::handle mode : modes) {
    if (!isInt(mode) || PyBool_Check(mode.ptr()) || toInt32(mode) < 0)
      raiseValueError("a mode of a basis is a non-negative int, got " + describe(mode));
    this->modes.push_back(toInt32(mode));
  }
  if (this->modes.empty())
    raiseValueError("a basis has at least one mode");
}

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// The integer attribute of an int or of an i32/i64 value; null for other objects.
MlirAttribute IntTupleArgument::convertScalar(nb::handle object) {
  if (isInt(object))
    return flyIntAttrGetStatic(context->get(), toInt32(object));
  if (!nb::isinstance<PyValue>(object))
    return {nullptr};
  int32_t width = getIntegerWidth(object);
  MlirContext own = nb::cast<PyValue &>(object).getParentOperation()->getContext()->get();
  if (!mlirContextEqual(own, context->get()))
    raiseValueError("a dynamic leaf belongs to another context");
  dynamicLeaves.append(object);
  return flyIntAttrGetDynamic(context->get(), width, /*divisibility=*/1);
}

MlirAttribute IntTupleArgument::convertBasis(const PyBasis &basis) {
  return flyIntTupleAttrGetLeaf(
      flyBasisAttrGet(convertScalar(basis.value), basis.modes.size(), basis.modes.data()));
}

MlirAttribute IntTupleArgument::convertNested(nb::handle object) {
  if (nb::isinstance<nb::tuple>(object)) {
    RecursionGuard guard;
    if (nb::len(object) == 0)
      raiseValueError("an int tuple must not be empty");
    std::vector<MlirAttribute> elements;
    for (nb::handle element : object)
      elements.push_back(convertNested(element));
    return flyIntTupleAttrGetTuple(context->get(), elements.size(), elements.data());
  }
  if (object.is_none())
    return flyIntTupleAttrGetLeaf(flyIntAttrGetNone(context->get()));
  if (nb::isinstance<PyBasis>(object))
    return convertBasis(nb::cast<PyBasis &>(object));
  if (nb::hasattr(object, "value") && nb::hasattr(object, "modes"))
    return convertBasis(PyBasis(object.attr("value"), object.attr("modes")));
  MlirAttribute scalar = convertScalar(object);
  if (mlirAttributeIsNull(scalar))
    raiseValueError("an int tuple consists of tuples, ints, None, _Basis and i32/i64 values, got " +
                    describe(object));
  return flyIntTupleAttrGetLeaf(scalar);
}

MlirAttribute IntTupleArgument::convert(nb::handle object) {
  if (object.is_none())
    raiseValueError("None is an int-tuple leaf only inside of a tuple");
  return convertNested(object);
}

MlirType IntTupleArgument::convertOrType(nb::handle object) {
  MlirType type = {nullptr};
  if (nb::isinstance<PyType>(object)) {
    type = nb::cast<PyType &>(object).get();
    if (!flyTypeIsAIntTuple(type))
      raiseValueError("expected an int tuple, got the type " + toString(type));
  } else if (nb::isinstance<PyValue>(object)) {
    MlirType valueType = mlirValueGetType(nb::cast<PyValue &>(object).get());
    if (flyTypeIsAIntTuple(valueType))
      type = valueType;
  }
  if (mlirTypeIsNull(type))
    return flyIntTupleTypeGet(convertNested(object));
  if (!mlirContextEqual(mlirTypeGetContext(type), context->get()))
    raiseValueError("an int tuple belongs to another context");
  return type;
}

} // namespace flydsl
