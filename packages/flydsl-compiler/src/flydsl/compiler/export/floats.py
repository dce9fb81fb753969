"""Floats and text of a launch plan as C: what an exported object computes and prints on the host.

The exported object must link without the mathematical library, so that the functions of it cannot be exported.
"""

from __future__ import annotations

from typing import Any

__all__ = ["HELPERS", "INSTRUCTIONS", "lines"]

#: Instructions that :func:`lines` knows.
INSTRUCTIONS = frozenset(("fbin", "fun", "fcmp", "convert", "print", "print_text"))

HELPERS = """
static inline float f32_of(int64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float value;
  memcpy(&value, &low, sizeof value);
  return value;
}
static inline int64_t f32_bits(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline double f64_of(int64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline int64_t f64_bits(double value) {
  int64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline double min_number(double a, double b) { return a != a ? b : b != b ? a : a < b ? a : b; }
static inline double max_number(double a, double b) { return a != a ? b : b != b ? a : a > b ? a : b; }
static inline double minimum(double a, double b) {
  return a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b;
}
static inline double maximum(double a, double b) {
  return a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b;
}
/* The nearest integer towards zero that the type has; 0 for NaN. */
static inline int64_t integer_of(double value, unsigned width, int is_signed) {
  const double limit = (double)((uint64_t)1 << (width - 1)) * (is_signed ? 1 : 2);
  if (value != value)
    return 0;
  if (is_signed) {
    if (value >= limit)
      return (int64_t)(((uint64_t)1 << (width - 1)) - 1);
    return value <= -limit ? -(int64_t)(((uint64_t)1 << (width - 1)) - 1) - 1 : (int64_t)value;
  }
  if (value <= 0)
    return 0;
  return canonical((int64_t)(value >= limit ? ~(uint64_t)0 : (uint64_t)value), width);
}
"""

_ARITHMETIC = {
    "add": "A + B", "sub": "A - B", "mul": "A * B", "div": "A / B", "minimum": "minimum(A, B)",
    "maximum": "maximum(A, B)", "minnum": "min_number(A, B)", "maxnum": "max_number(A, B)", "neg": "-A",
    "abs": "__builtin_fabs(A)",
}
_ORDERED = {"eq": "A == B", "gt": "A > B", "ge": "A >= B", "lt": "A < B", "le": "A <= B", "ne": "A < B || A > B"}
# The comparison that is false exactly where the unordered one is true.
_OPPOSITE = {"eq": "ne", "ne": "eq", "gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}


def _fill(template: str, kind: str, a: int, b: int) -> str:
    return template.replace("A", f"{kind}_of(r[{a}])").replace("B", f"{kind}_of(r[{b}])")


def _compare(predicate: str) -> str:
    fixed = {"true": "1", "false": "0", "ord": "A == A && B == B", "uno": "A != A || B != B"}
    if predicate in fixed:
        return fixed[predicate]
    name = predicate[1:]
    return _ORDERED[name] if predicate[0] == "o" else f"!({_ORDERED[_OPPOSITE[name]]})"


def _literal(text: str) -> str:
    plain = frozenset(range(32, 127)) - frozenset(b'"\\?')
    return '"' + "".join(chr(c) if c in plain else f"\\{c:03o}" for c in text.encode()) + '"'


def _check_kind(instruction: list[Any], *kinds: str) -> None:
    for kind in kinds:
        if kind in ("f16", "bf16"):
            raise NotImplementedError(f"host code that computes with {kind} cannot be exported to C ({instruction[0]})")


def _convert(i: list[Any]) -> str:
    _, d, a, source, target = i
    _check_kind(i, source, target)
    if source[0] != "f":
        ctype = "float" if target == "f32" else "double"
        signed = source[0] == "i" and source != "i1"
        value = f"sign_extend(r[{a}], {source[1:]})" if signed else f"zero_extend(r[{a}], {source[1:]})"
        return f"r[{d}] = {target}_bits(({ctype}){value});"
    value = f"{source}_of(r[{a}])"
    if target[0] != "f":
        signed = target[0] == "i" and target != "i1"
        return f"r[{d}] = integer_of({value}, {target[1:]}, {int(signed)});"
    return f"r[{d}] = {target}_bits(({'float' if target == 'f32' else 'double'}){value});"


def lines(i: list[Any]) -> list[str]:
    """An instruction on floats or text as C statements. NotImplementedError for one that has no C form here."""
    op = i[0]
    if op == "print_text":
        return [f"fputs({_literal(i[1])}, stdout);"]
    if op == "print":
        _, register, kind = i
        _check_kind(i, kind)
        if kind[0] == "f":
            return [f'printf("%g", (double){kind}_of(r[{register}]));']
        if kind[0] == "i" and kind != "i1":
            return [f'printf("%lld", (long long)r[{register}]);']
        return [f'printf("%llu", (unsigned long long)zero_extend(r[{register}], {kind[1:]}));']
    if op == "convert":
        return [_convert(i)]
    if op == "fcmp":
        _, d, predicate, a, b, kind = i
        _check_kind(i, kind)
        return [f"r[{d}] = {_fill(_compare(predicate), kind, a, b)};"]
    _, d, function, a = i[:4]
    b, kind = (i[4], i[5]) if op == "fbin" else (a, i[4])
    _check_kind(i, kind)
    if function not in _ARITHMETIC:
        raise NotImplementedError(f"host code that calls {function!r} cannot be exported to C: the object has to link "
                                  "without the mathematical library")
    cast = "(float)" if kind == "f32" else ""
    return [f"r[{d}] = {kind}_bits({cast}({_fill(_ARITHMETIC[function], kind, a, b)}));"]
