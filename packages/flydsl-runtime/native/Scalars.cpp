//===- Scalars.cpp - Scalar, pointer and stream arguments --------------------===//

#include "Scalars.h"

#include <cmath>
#include <cstring>

namespace flydsl::runtime {

namespace {

struct IntegerRange {
  int64_t low;
  uint64_t high;
};

IntegerRange rangeOf(ScalarType type) {
  switch (type) {
  case ScalarType::I1: return {0, 1};
  case ScalarType::I8: return {INT8_MIN, INT8_MAX};
  case ScalarType::I16: return {INT16_MIN, INT16_MAX};
  case ScalarType::I32: return {INT32_MIN, INT32_MAX};
  case ScalarType::U8: return {0, UINT8_MAX};
  case ScalarType::U16: return {0, UINT16_MAX};
  case ScalarType::U32: return {0, UINT32_MAX};
  case ScalarType::U64: return {0, UINT64_MAX};
  default: return {INT64_MIN, INT64_MAX};
  }
}

bool isFloat(ScalarType type) {
  return type == ScalarType::F16 || type == ScalarType::BF16 || type == ScalarType::F32 ||
         type == ScalarType::F64;
}

bool typeMismatch(const char *expected, PyObject *found) {
  PyErr_Format(PyExc_TypeError, "expected %s, got %R of type '%s'", expected, found,
               Py_TYPE(found)->tp_name);
  return false;
}

bool outOfRange(const char *type, PyObject *found) {
  PyErr_Format(PyExc_OverflowError, "value %R does not fit in %s", found, type);
  return false;
}

/// Reads an exact int or an object with `__index__` as sign and magnitude in 64 bits.
bool readInteger(PyObject *object, ScalarType type, uint64_t &bits) {
  PyObject *number = PyNumber_Index(object);
  if (!number) { // never a ValueError: the object is no integer at all
    PyErr_Clear();
    return typeMismatch(scalarName(type), object);
  }
  IntegerRange range = rangeOf(type);
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number, &overflow);
  bool fits = overflow == 0 && value >= range.low &&
              (value < 0 || static_cast<uint64_t>(value) <= range.high);
  bits = static_cast<uint64_t>(value);
  if (overflow > 0 && type == ScalarType::U64) {
    bits = PyLong_AsUnsignedLongLong(number);
    fits = !PyErr_Occurred();
    PyErr_Clear();
  }
  Py_DECREF(number);
  return fits || outOfRange(scalarName(type), object);
}

/// Nearest binary16 of \p value, ties to even; false if a finite value is out of range.
bool toHalf(double value, uint64_t &bits) {
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) {
    bits = sign | 0x7e00;
  } else if (std::isinf(value)) {
    bits = sign | 0x7c00;
  } else if (magnitude >= 65520.0) { // halfway between the largest finite number and 2^16
    return false;
  } else if (magnitude < 0x1p-14) { // subnormal: a multiple of 2^-24
    bits = sign | static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, 24)));
  } else {
    const int exponent = std::ilogb(magnitude);
    const auto significand =
        static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
    // A significand rounded up to 2048 carries into the exponent by the addition.
    bits = sign | ((static_cast<uint64_t>(exponent + 15) << 10) + (significand - 1024));
  }
  return true;
}

bool readFloat(PyObject *object, ScalarType type, uint64_t &bits) {
  double value = PyFloat_AsDouble(object); // takes float, int, __float__ and __index__, no text
  if (value == -1.0 && PyErr_Occurred()) {
    bool tooBig = PyErr_ExceptionMatches(PyExc_OverflowError);
    PyErr_Clear();
    return tooBig ? outOfRange(scalarName(type), object) : typeMismatch(scalarName(type), object);
  }
  if (type == ScalarType::F64) {
    std::memcpy(&bits, &value, sizeof(bits));
    return true;
  }
  if (type == ScalarType::F16)
    return toHalf(value, bits) || outOfRange("f16", object);

  float single = static_cast<float>(value);
  if (std::isinf(single) && !std::isinf(value))
    return outOfRange(scalarName(type), object);
  uint32_t word;
  std::memcpy(&word, &single, sizeof(word));
  if (type == ScalarType::F32)
    bits = word;
  else
    bits = (word >> 16) | (std::isnan(single) ? 0x40 : 0); // truncation must not make NaN infinite
  return true;
}

/// Reads a handle: an int that fits 64 bits, negative ones as two's complement.
bool readHandle(PyObject *number, uint64_t &bits) {
  int overflow = 0;
  bits = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(number, &overflow));
  if (overflow == 0)
    return true;
  if (overflow > 0) {
    bits = PyLong_AsUnsignedLongLong(number);
    if (!PyErr_Occurred())
      return true;
    PyErr_Clear();
  }
  return outOfRange("64 bits", number);
}

/// An attribute without building an AttributeError, which takes a microsecond. 1 found, 0 not found,
/// -1 error set.
int lookUpAttribute(PyObject *object, PyObject *name, PyObject *&value) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyObject_GetOptionalAttr(object, name, &value);
#else
  return _PyObject_LookupAttr(object, name, &value);
#endif
}

/// Names of attributes, interned once.
template <size_t N> struct AttributeNames {
  explicit AttributeNames(const char *const (&texts)[N]) {
    for (size_t i = 0; i < N; ++i)
      names[i] = PyUnicode_InternFromString(texts[i]);
  }
  PyObject *names[N];
};

/// Looks for an integer (or None) under one of \p attributes. 1 found, 0 not found, -1 error set.
template <size_t N>
int readHandleAttribute(PyObject *object, const AttributeNames<N> &attributes, uint64_t &bits) {
  for (PyObject *name : attributes.names) {
    PyObject *value = nullptr;
    const int found = lookUpAttribute(object, name, value);
    if (found < 0)
      return -1;
    if (found == 0)
      continue;
    bool isNone = value == Py_None, isInt = PyLong_Check(value);
    bits = 0;
    bool ok = isNone || (isInt && readHandle(value, bits));
    Py_DECREF(value);
    if (ok)
      return 1;
    if (PyErr_Occurred())
      return -1;
  }
  return 0;
}

} // namespace

const char *scalarName(ScalarType type) {
  static constexpr const char *kNames[] = {"i1",  "i8",  "i16", "i32", "i64",  "u8", "u16",
                                           "u32", "u64", "f16", "bf16", "f32", "f64"};
  return kNames[static_cast<size_t>(type)];
}

bool readScalar(PyObject *object, ScalarType type, uint64_t &bits) {
  if (type == ScalarType::I1) {
    if (PyBool_Check(object)) {
      bits = object == Py_True;
      return true;
    }
    // numpy.bool is neither bool nor an index.
    const char *name = Py_TYPE(object)->tp_name;
    if (std::strcmp(name, "numpy.bool") == 0 || std::strcmp(name, "numpy.bool_") == 0) {
      bits = PyObject_IsTrue(object) == 1;
      return true;
    }
  }
  return isFloat(type) ? readFloat(object, type, bits) : readInteger(object, type, bits);
}

bool readPointer(PyObject *object, uint64_t &bits) {
  static const AttributeNames<1> kAttributes({"value"});
  bits = 0;
  if (object == Py_None)
    return true;
  if (PyLong_Check(object))
    return readHandle(object, bits);
  int found = readHandleAttribute(object, kAttributes, bits);
  if (found == 0)
    typeMismatch("a pointer (int, ctypes.c_void_p or None)", object);
  return found == 1;
}

bool readStream(PyObject *object, uint64_t &bits) {
  static const AttributeNames<4> kAttributes({"cuda_stream", "stream", "ptr", "value"});
  bits = 0;
  if (object == Py_None)
    return true;
  if (PyLong_Check(object))
    return readHandle(object, bits);
  int found = readHandleAttribute(object, kAttributes, bits);
  if (found == 0)
    typeMismatch("a stream (None, int, or an object with cuda_stream, stream or ptr)", object);
  return found == 1;
}

} // namespace flydsl::runtime
