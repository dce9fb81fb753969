"""A plain Python reading of the kernel language: the same source, one thread at a time, on NumPy scalars.

`fx` here stands in for `flydsl.expr` in generated programs. Control flow is Python's own, so a program that
gives the same result on the device was rewritten faithfully.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import flydsl.layout as algebra

_RANK = {"Int32": 0, "Uint32": 1, "Float32": 2}


def _wrap(value: int, signed: bool) -> int:
    value &= 0xFFFFFFFF
    return value - 2**32 if signed and value >= 2**31 else value


class Number:
    """A 32-bit scalar with the promotion rules of the language."""

    kind = ""

    def __init__(self, value: Any) -> None:
        raw = value.value if isinstance(value, (Number, Flag)) else value
        self.value = self._convert(raw)

    @classmethod
    def _convert(cls, raw: Any) -> Any:
        raise NotImplementedError

    def _binary(self, other: Any, operation: Any, flip: bool = False) -> Any:
        if isinstance(other, Vec):
            return NotImplemented
        other = lift(other)
        kind = max(self.kind, other.kind, key=_RANK.__getitem__)
        cls = KINDS[kind]
        a, b = cls(self), cls(other)
        return cls(operation(*((b, a) if flip else (a, b))))

    def _compare(self, other: Any, operation: Any) -> Any:
        other = lift(other)
        cls = KINDS[max(self.kind, other.kind, key=_RANK.__getitem__)]
        return Flag(bool(operation(cls(self).value, cls(other).value)))

    def __add__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value + b.value)

    def __sub__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value - b.value)

    def __mul__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value * b.value)

    def __radd__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value + b.value, True)

    def __rsub__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value - b.value, True)

    def __rmul__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value * b.value, True)

    def __floordiv__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value // b.value)

    def __mod__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: int(np.fmod(a.value, b.value)))

    def __truediv__(self, o: Any) -> Any:
        return Float32(np.float32(float(self.value)) / np.float32(float(lift(o).value)))

    def __and__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value & b.value)

    def __or__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value | b.value)

    def __xor__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value ^ b.value)

    def __lshift__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value << b.value)

    def __rshift__(self, o: Any) -> Any:
        return self._binary(o, lambda a, b: a.value >> b.value)

    def __invert__(self) -> Any:
        return type(self)(~self.value)

    def __neg__(self) -> Any:
        return type(self)(-self.value)

    def __abs__(self) -> Any:
        return type(self)(abs(self.value))

    def __lt__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a < b)

    def __le__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a <= b)

    def __gt__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a > b)

    def __ge__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a >= b)

    def __eq__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a == b)

    def __ne__(self, o: Any) -> Any:
        return self._compare(o, lambda a, b: a != b)

    __hash__ = None  # type: ignore[assignment]

    def __index__(self) -> int:
        return int(self.value)

    def to(self, cls: Any) -> Any:
        return cls(self)


class Int32(Number):
    kind = "Int32"

    @classmethod
    def _convert(cls, raw: Any) -> int:
        return _wrap(int(np.trunc(raw)) if isinstance(raw, (float, np.floating)) else int(raw), True)


class Uint32(Number):
    kind = "Uint32"

    @classmethod
    def _convert(cls, raw: Any) -> int:
        return _wrap(int(raw), False)


class Float32(Number):
    kind = "Float32"

    @classmethod
    def _convert(cls, raw: Any) -> np.float32:
        return np.float32(raw)


KINDS: dict[str, type[Number]] = {"Int32": Int32, "Uint32": Uint32, "Float32": Float32}


class Flag:
    """A Boolean."""

    def __init__(self, value: Any) -> None:
        self.value = bool(value)

    def __bool__(self) -> bool:
        return self.value

    def __and__(self, o: Any) -> Any:
        return Flag(self.value and o.value)

    def __or__(self, o: Any) -> Any:
        return Flag(self.value or o.value)

    def __xor__(self, o: Any) -> Any:
        return Flag(self.value != o.value)

    def __invert__(self) -> Any:
        return Flag(not self.value)

    def select(self, a: Any, b: Any) -> Any:
        a, b = (x if isinstance(x, Vec) else lift(x) for x in (a, b))
        if isinstance(a, Vec) or isinstance(b, Vec):
            return a if self.value else b
        cls = KINDS[max(a.kind, b.kind, key=_RANK.__getitem__)]
        return cls(a if self.value else b)


def lift(value: Any) -> Any:
    """A literal as a number; Booleans count as Int32."""
    if isinstance(value, Number):
        return value
    if isinstance(value, Flag):
        return Int32(int(value.value))
    return Float32(value) if isinstance(value, (float, np.floating)) else Int32(value)


class Vec:
    """A vector of numbers of one class."""

    def __init__(self, items: list[Any]) -> None:
        self.items = list(items)

    def _zip(self, o: Any, operation: Any) -> Any:
        others = o.items if isinstance(o, Vec) else [o] * len(self.items)
        return Vec([operation(a, b) for a, b in zip(self.items, others, strict=True)])

    def __add__(self, o: Any) -> Any:
        return self._zip(o, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, o: Any) -> Any:
        return self._zip(o, lambda a, b: a - b)

    def __mul__(self, o: Any) -> Any:
        return self._zip(o, lambda a, b: a * b)

    __rmul__ = __mul__

    def __getitem__(self, i: Any) -> Any:
        return self.items[int(i)]

    def shuffle(self, o: Any, mask: list[int]) -> Any:
        return Vec([(self.items + o.items)[m] for m in mask])

    def reduce(self, op: str) -> Any:
        result = self.items[0]
        for item in self.items[1:]:
            result = {"add": lambda a, b: a + b, "max": maximum, "min": minimum}[op](result, item)
        return result


def _vector(cls: type[Number], lanes: int) -> Any:
    def make(value: Any) -> Vec:
        if isinstance(value, list):
            assert len(value) == lanes
            return Vec([cls(v) for v in value])
        return Vec([cls(value)] * lanes)

    return make


def maximum(a: Any, b: Any) -> Any:
    a, b = lift(a), lift(b)
    cls = KINDS[max(a.kind, b.kind, key=_RANK.__getitem__)]
    return cls(a if cls(a).value >= cls(b).value else b)


def minimum(a: Any, b: Any) -> Any:
    a, b = lift(a), lift(b)
    cls = KINDS[max(a.kind, b.kind, key=_RANK.__getitem__)]
    return cls(a if cls(a).value <= cls(b).value else b)


class View:
    """A layout over an array."""

    def __init__(self, array: Any, layout: Any, cls: type[Number]) -> None:
        self.array, self.layout, self.cls = array, layout, cls

    def _index(self, c: Any) -> int:
        def plain(x: Any) -> Any:
            return tuple(plain(y) for y in x) if isinstance(x, tuple) else int(x)

        return int(self.layout(plain(c)))

    def __getitem__(self, c: Any) -> Any:
        return self.cls(self.array[self._index(c)])

    def __setitem__(self, c: Any, value: Any) -> None:
        self.array[self._index(c)] = self.cls(value).value


def namespace(thread: int) -> SimpleNamespace:
    """The stand-in for `flydsl.expr` that thread `thread` sees."""
    fx = SimpleNamespace(Int32=Int32, Uint32=Uint32, Float32=Float32, max=maximum, min=minimum)
    fx.Float32x4, fx.Int32x4 = _vector(Float32, 4), _vector(Int32, 4)
    fx.range_constexpr, fx.const_expr = range, lambda c: c
    fx.thread_idx = SimpleNamespace(x=Int32(thread))
    fx.floor = lambda v: Float32(np.floor(v.value))
    for name in ("make_layout", "composition", "logical_divide", "raked_product", "right_inverse", "coalesce",
                 "logical_product", "zipped_divide"):
        setattr(fx, name, getattr(algebra, name))
    fx.get_iter = lambda tensor: tensor
    fx.make_view = lambda tensor, layout: View(tensor.array, layout, tensor.cls)
    return fx


def tensor(array: np.ndarray) -> View:
    """A one-dimensional kernel argument."""
    cls = Float32 if array.dtype == np.float32 else Int32
    return View(array, algebra.make_layout(len(array), 1), cls)
