"""Leaves of int tuples and their arithmetic.

A leaf is a Python ``int``, the hole ``None`` (printed ``*``, worth 0 in arithmetic), a dynamic integer :class:`Dyn`
(printed ``?``), or a scaled basis vector :class:`Basis` (printed ``3E1E0``).  The rules for width and divisibility are
those of the ``fly`` dialect's type inference, so a layout computed here carries the annotations the compiler infers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any, TypeAlias

from .errors import LayoutError

__all__ = ["Basis", "Dyn", "E", "IntTuple", "Leaf", "sym"]

#: A leaf: ``int | None | Dyn | Basis``.
Leaf: TypeAlias = Any
#: A leaf or a (nested, non-empty) tuple of int tuples.
IntTuple: TypeAlias = Any

_set = object.__setattr__


class Dyn:
    """A dynamic integer leaf: known only at run time, ``width`` bits wide and a multiple of ``div``.

    ``expr`` optionally names the value (see :func:`sym`); it is carried through arithmetic so that a symbolic result
    can be evaluated with :func:`flydsl.layout.substitute`.  It takes no part in equality and is not printed, because
    the textual form is that of the IR types.
    """

    __slots__ = ("div", "expr", "width")
    width: int
    div: int
    expr: tuple[Any, ...] | None

    def __init__(self, width: int = 32, div: int = 1, expr: tuple[Any, ...] | None = None) -> None:
        if width not in (32, 64):
            raise LayoutError(f"a dynamic integer is 32 or 64 bits wide, not {width!r}")
        if type(div) is not int:
            raise LayoutError(f"the divisibility of a dynamic integer must be an int, not {div!r}")
        _set(self, "width", width)
        _set(self, "div", div)
        _set(self, "expr", expr)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        return type(other) is Dyn and self.width == other.width and self.div == other.div

    def __hash__(self) -> int:
        return hash((Dyn, self.width, self.div))

    def __reduce__(self) -> tuple[Any, ...]:
        return Dyn, (self.width, self.div, self.expr)

    def __str__(self) -> str:
        parts = (["i64"] if self.width != 32 else []) + ([f"div={self.div}"] if self.div != 1 else [])
        return "?{" + " ".join(parts) + "}" if parts else "?"

    def __repr__(self) -> str:
        if self.expr is None:
            return f"Dyn({self.width}, {self.div})"
        if self.expr[0] == "sym":
            return f"sym({self.expr[1]!r}, {self.width}, {self.div})"
        return f"Dyn({self.width}, {self.div}, {self.expr!r})"


def sym(name: str, width: int = 32, div: int = 1) -> Dyn:
    """A named dynamic integer, for results that are to be evaluated later with ``substitute(x, name=value)``."""
    return Dyn(width, div, ("sym", name))


class Basis:
    """A scaled basis vector: ``value`` units along the path ``modes`` (``Basis(3, (1, 0))`` is ``3E1E0``)."""

    __slots__ = ("modes", "value")
    value: Leaf
    modes: tuple[int, ...]

    def __init__(self, value: Leaf, modes: tuple[int, ...]) -> None:
        value = 0 if value is None else value
        if type(value) is not Dyn and type(value) is not int:
            raise LayoutError(f"the coefficient of a basis vector must be an int or Dyn, not {value!r}")
        modes = tuple(modes)
        if not modes or any(type(m) is not int or m < 0 for m in modes):
            raise LayoutError(f"a basis vector needs at least one non-negative mode, got {modes!r}")
        _set(self, "value", value)
        _set(self, "modes", modes)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __mul__(self, other: Leaf) -> Basis:
        return Basis(mul(self.value, other), self.modes)

    __rmul__ = __mul__

    def __neg__(self) -> Basis:
        return self * -1

    def __eq__(self, other: object) -> bool:
        return type(other) is Basis and self.value == other.value and self.modes == other.modes

    def __hash__(self) -> int:
        return hash((Basis, self.value, self.modes))

    def __reduce__(self) -> tuple[Any, ...]:
        return Basis, (self.value, self.modes)

    def __str__(self) -> str:
        return str(self.value) + "".join(f"E{m}" for m in self.modes)

    def __repr__(self) -> str:
        return f"Basis({self.value!r}, {self.modes!r})"


def E(*modes: int) -> Leaf:  # noqa: N802  (the mathematical name)
    """The unit basis vector along a path: ``E(0)`` is ``1E0``, ``E(1, 0)`` is ``1E1E0``, ``E()`` is the integer 1."""
    path = modes[0] if len(modes) == 1 and isinstance(modes[0], (tuple, list)) else modes
    return Basis(1, tuple(path)) if path else 1


# --------------------------------------------------------------------------------------------------------------------
# Leaf predicates


def is_static(x: Leaf) -> bool:
    """Whether a leaf is known at compile time (holes are)."""
    if type(x) is Basis:
        x = x.value
    return type(x) is not Dyn


def is_zero(x: Leaf) -> bool:
    """Whether a leaf is statically zero (a hole counts as zero)."""
    return x is None or (type(x) is int and x == 0)


def is_one(x: Leaf) -> bool:
    return type(x) is int and x == 1


def width_of(x: Leaf) -> int:
    return 0 if x is None else x.width if type(x) is Dyn else 32


def div_of(x: Leaf) -> int:
    """Divisibility: the value itself for static leaves, the annotation for dynamic ones."""
    return x.div if type(x) is Dyn else (x or 0)


def _dyn(op: str, a: Leaf, b: Leaf, div: int) -> Dyn:
    named = (type(a) is not Dyn or a.expr is not None) and (type(b) is not Dyn or b.expr is not None)
    return Dyn(max(width_of(a), width_of(b)) if op not in _COMPARE else 32, div, (op, a, b) if named else None)


def _num(op: str, x: Leaf) -> Leaf:
    if x is None:
        return 0
    if type(x) is int or type(x) is Dyn:
        return x
    if type(x) is Basis:
        raise LayoutError(f"{op} does not accept the basis leaf {x}")
    raise LayoutError(f"{op}: not an integer leaf: {x!r}")


def tdiv(a: int, b: int) -> int:
    """Division truncating toward zero."""
    if b == 0:
        raise LayoutError(f"division by zero: {a} / 0")
    q = abs(a) // abs(b)
    return q if (a >= 0) == (b >= 0) else -q


def cdiv(a: int, b: int) -> int:
    """Division rounding up, for operands of either sign."""
    if b == 0:
        raise LayoutError(f"division by zero: {a} / 0")
    return -(-a // b)


def trem(a: int, b: int) -> int:
    """Remainder with the sign of the dividend."""
    return a - b * tdiv(a, b)


# --------------------------------------------------------------------------------------------------------------------
# Arithmetic (fly dialect, scalar table: both static, then short circuits left to right, then a dynamic result)


def add(a: Leaf, b: Leaf) -> Leaf:
    if type(a) is int and type(b) is int:
        return a + b
    if is_zero(a) and is_zero(b):
        return 0
    if is_zero(a):
        return _num("add", b)
    if is_zero(b):
        return _num("add", a)
    a, b = _num("add", a), _num("add", b)
    return a + b if type(a) is int and type(b) is int else _dyn("add", a, b, gcd(div_of(a), div_of(b)))


def sub(a: Leaf, b: Leaf) -> Leaf:
    a, b = _num("sub", a), _num("sub", b)
    if type(a) is int and type(b) is int:
        return a - b
    if is_zero(b):
        return a
    div = div_of(b) if is_zero(a) else gcd(div_of(a), div_of(b))
    return _dyn("sub", a, b, div)


def mul(a: Leaf, b: Leaf) -> Leaf:
    if type(a) is int and type(b) is int:
        return a * b
    if type(a) is Basis:
        if type(b) is Basis:
            raise LayoutError(f"two basis leaves cannot be multiplied: {a} * {b}")
        return Basis(mul(a.value, b), a.modes)
    if type(b) is Basis:
        return Basis(mul(a, b.value), b.modes)
    a, b = _num("mul", a), _num("mul", b)
    if is_zero(a) or is_zero(b):
        return 0
    return a * b if type(a) is int and type(b) is int else _dyn("mul", a, b, div_of(a) * div_of(b))


def div(a: Leaf, b: Leaf) -> Leaf:
    a, b = _num("div", a), _num("div", b)
    if type(a) is int and type(b) is int:
        return tdiv(a, b)
    _nonzero("div", a, b)
    return 0 if is_zero(a) else _dyn("div", a, b, 1)


def _nonzero(op: str, a: Leaf, b: Leaf) -> None:
    if type(b) is int and b == 0:
        raise LayoutError(f"{op}: division by zero: {a} / 0")


def mod(a: Leaf, b: Leaf) -> Leaf:
    a, b = _num("mod", a), _num("mod", b)
    if type(a) is int and type(b) is int:
        return trem(a, b)
    _nonzero("mod", a, b)
    return 0 if is_zero(a) or is_one(b) else _dyn("mod", a, b, gcd(div_of(a), div_of(b)))


def minimum(a: Leaf, b: Leaf) -> Leaf:
    a, b = _num("min", a), _num("min", b)
    return min(a, b) if type(a) is int and type(b) is int else _dyn("min", a, b, gcd(div_of(a), div_of(b)))


def maximum(a: Leaf, b: Leaf) -> Leaf:
    a, b = _num("max", a), _num("max", b)
    return max(a, b) if type(a) is int and type(b) is int else _dyn("max", a, b, gcd(div_of(a), div_of(b)))


def safe_div(a: Leaf, b: Leaf) -> Leaf:
    """Exact division; :class:`LayoutError` if ``b`` (static) does not divide the divisibility of ``a``."""
    if type(a) is Basis:
        return Basis(safe_div(a.value, b), a.modes)
    a, b = _num("safe_div", a), _num("safe_div", b)
    if type(b) is int and (b == 0 or div_of(a) % b):
        raise LayoutError(f"{a} is not known to be divisible by {b}")
    if type(a) is int and type(b) is int:
        return tdiv(a, b)
    return a if is_zero(a) else _dyn("div", a, b, 1)


def ceil_div(a: Leaf, b: Leaf) -> Leaf:
    if type(a) is Basis:
        return Basis(ceil_div(a.value, b), a.modes)
    hole = a is None
    a, b = _num("ceil_div", a), _num("ceil_div", b)
    if type(a) is int and type(b) is int:
        return cdiv(a, b)
    _nonzero("ceil_div", a, b)
    if hole:
        return None
    return a if is_zero(a) or is_one(a) else _dyn("ceil_div", a, b, 1)


def shape_div(a: Leaf, b: Leaf) -> Leaf:
    """``ceil_div`` that demands that one operand divides the other."""
    hole = a is None
    a, b = _num("shape_div", a), _num("shape_div", b)
    if type(a) is int and type(b) is int:
        if b == 0 or (a % b and (a == 0 or b % a)):
            raise LayoutError(f"shape_div({a}, {b}): neither divides the other")
        return cdiv(a, b)
    _nonzero("shape_div", a, b)
    if hole:
        return None
    return a if is_zero(a) or is_one(a) else _dyn("ceil_div", a, b, 1)


_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: bool(a and b),
}


def compare(op: str, a: Leaf, b: Leaf) -> Leaf:
    """``op`` in lt, le, gt, ge, eq, ne; 0, 1 or a dynamic truth value."""
    if op in ("eq", "ne") and (type(a) is Basis or type(b) is Basis):
        same = type(a) is Basis and type(b) is Basis and a.modes == b.modes
        return compare(op, a.value, b.value) if same else int(op == "ne")
    a, b = _num(op, a), _num(op, b)
    return int(_COMPARE[op](a, b)) if type(a) is int and type(b) is int else _dyn(op, a, b, 1)


def logical_and(a: Leaf, b: Leaf) -> Leaf:
    """Conjunction; static truths fold (the dialect types two true statics as dynamic, with the same value)."""
    if is_zero(a) or is_zero(b):
        return 0
    if type(a) is int:
        return b if type(b) is Dyn else 1
    return a if type(b) is int else _dyn("and", a, b, 1)


def swizzle_int(v: Leaf, mask: int, base: int, shift: int) -> Leaf:
    """``v XOR ((v AND (((1<<mask)-1) << (base+shift))) >> shift)``; a negative shift moves bits upward."""
    v = _num("swizzle", v)
    if mask == 0:
        return v
    if type(v) is int:
        if shift >= 0:
            return v ^ ((v & (((1 << mask) - 1) << (base + shift))) >> shift)
        return v ^ ((v & (((1 << mask) - 1) << base)) << -shift)
    expr = ("swizzle", v, (mask, base, shift)) if v.expr is not None else None
    return Dyn(v.width, gcd(v.div, 1 << base), expr)


def coord_swizzle_int(row: Leaf, col: Leaf, mask: int, base_row: int, base_col: int) -> Leaf:
    """``col XOR (((row >> base_row) AND ((1<<mask)-1)) << base_col)``."""
    row, col = _num("coord_swizzle", row), _num("coord_swizzle", col)
    if mask == 0:
        return col
    if type(row) is int and type(col) is int:
        return col ^ (((row >> base_row) & ((1 << mask) - 1)) << base_col)
    return Dyn(max(width_of(row), width_of(col)), gcd(div_of(col), 1 << base_col))


# --------------------------------------------------------------------------------------------------------------------
# Evaluation of named symbols

_EVAL: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": tdiv,
    "mod": trem,
    "min": min,
    "max": max,
    "ceil_div": cdiv,
    **_COMPARE,
}


#: Conditions that a symbolic result needs of its symbols: the test, and what it says.
_CONDITIONS: dict[str, tuple[Callable[..., bool], str]] = {
    "clears": (
        lambda d, n: d < n or (n > 0 and d % n == 0),
        "the stride {0} neither divides nor clears the extent {1}",
    ),
    "even": (
        lambda n, d, s: d >= n or (s - 1) * d < n or (d > 0 and n % d == 0),
        "the mode {2}:{1} crosses the extent {0} unevenly",
    ),
    "divides": (lambda s, n: n > 0 and s % n == 0, "{1} does not divide the extent {0}"),
    "fits": (lambda total, n: total < n, "the modes together reach {0} in a mode of extent {1} and carry"),
    "starts": (lambda d, n: n > 0 and d % n == 0, "the mode of stride {0} does not start at a multiple of {1}"),
    "nests": (lambda d, reach: d >= reach, "the stride {0} does not clear the modes before it, which reach {1}"),
    "wide": (lambda s, d: abs(d) != 1 or s == 1, "the mode {0}:{1} would run through the parts of an element"),
    "longer": (lambda s: s != 1, "the mode that runs through the parts of an element has the extent {0}, as others"),
    "inside": (
        lambda f, reach, *modes: (
            reach + sum(a * (min(s, n) - 1) for a, s, n in zip(*[iter(modes)] * 3, strict=True)) < f
        ),
        "modes of small stride carry into the next element of {0}",
    ),
    "alone": (lambda s, d: s == 1 or d == 0, "the mode {0}:{1} has a dynamic stride, which the dialect leaves out"),
}
#: (what was computed, name of the condition, its operands).
Condition: TypeAlias = tuple[str, str, tuple[Leaf, ...]]


def named(conditions: list[Condition]) -> list[Condition]:
    """The conditions on numbers and named symbols, which :func:`evaluate` can check."""
    return [c for c in conditions if all(type(v) is not Dyn or v.expr is not None for v in c[2])]


def under(conditions: list[Condition], x: IntTuple) -> IntTuple:
    """The int tuple whose first named dynamic leaf also carries conditions, which :func:`evaluate` checks.

    Only conditions on named symbols are kept; they take no part in equality or text.
    """
    kept = named(conditions)
    if not kept:
        return x
    if type(x) is tuple:
        for i, e in enumerate(x):
            new = under(kept, e)
            if new is not e:
                return (*x[:i], new, *x[i + 1 :])
        return x
    if type(x) is Basis:
        value = under(kept, x.value)
        return x if value is x.value else Basis(value, x.modes)
    return Dyn(x.width, x.div, ("under", x, tuple(kept))) if type(x) is Dyn and x.expr is not None else x


def conditions_of(x: IntTuple) -> list[Condition]:
    """The conditions that the leaves of an int tuple carry themselves."""
    if type(x) is tuple:
        return [c for e in x for c in conditions_of(e)]
    if type(x) is Basis:
        x = x.value
    return list(x.expr[2]) if type(x) is Dyn and x.expr is not None and x.expr[0] == "under" else []


def _check(condition: Condition, values: Mapping[str, int]) -> None:
    what, kind, operands = condition
    holds, why = _CONDITIONS[kind]
    numbers = [evaluate(v, values) for v in operands]
    if not holds(*numbers):
        raise LayoutError(f"{what} is not what the symbols gave at these values: {why.format(*numbers)}")


def evaluate(x: Leaf, values: Mapping[str, int]) -> Leaf:
    """Replace named symbols in a leaf by numbers.

    Raises :class:`LayoutError` if a value breaks a stated divisibility, or a condition under which the rules of the
    dialect give the right layout.
    """
    if type(x) is Basis:
        return Basis(evaluate(x.value, values), x.modes)
    if type(x) is not Dyn:
        return x
    if x.expr is None:
        raise LayoutError("an anonymous dynamic integer has no value; create it with sym(name)")
    op = x.expr[0]
    if op == "sym":
        name = x.expr[1]
        if name not in values:
            raise LayoutError(f"no value given for the symbol {name!r}")
        value = values[name]
        if x.div and value % x.div:
            raise LayoutError(f"{name}={value} is not a multiple of its declared divisibility {x.div}")
        return value
    if op == "under":
        for condition in x.expr[2]:
            _check(condition, values)
        return evaluate(x.expr[1], values)
    if op == "swizzle":
        return swizzle_int(evaluate(x.expr[1], values), *x.expr[2])
    return int(_EVAL[op](evaluate(x.expr[1], values), evaluate(x.expr[2], values)))
