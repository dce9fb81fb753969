"""Swizzles: :class:`Swizzle` of integers, :class:`CoordSwizzle` of coordinates."""

from __future__ import annotations

from typing import Any

from . import inttuple as it, scalar as sc
from .errors import LayoutError
from .scalar import IntTuple
from .values import immutable, picture

_set = object.__setattr__


class Swizzle:
    """``S<mask, base, shift>``: XOR ``mask`` bits, ``shift`` above ``base``, into the bits at ``base``.

    A function on integers, a bijection for ``shift != 0``; its period is ``1 << (mask + base + shift)``.
    """

    __slots__ = ("base", "mask", "shift")
    mask: int
    base: int
    shift: int

    def __init__(self, mask: int, base: int, shift: int) -> None:
        for name, v in (("mask", mask), ("base", base)):
            if type(v) is not int or not 0 <= v <= 63:
                raise LayoutError(f"swizzle {name} must be an int from 0 to 63, got {v!r}")
        if type(shift) is not int or not -63 <= shift <= 63:
            raise LayoutError(f"swizzle shift must be an int from -63 to 63, got {shift!r}")
        _set(self, "mask", mask)
        _set(self, "base", base)
        _set(self, "shift", shift)

    __setattr__ = immutable

    def __eq__(self, other: object) -> bool:
        return type(other) is Swizzle and _swz(self) == _swz(other)

    def __hash__(self) -> int:
        return hash((Swizzle, *_swz(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Swizzle, _swz(self)

    def __str__(self) -> str:
        return f"S<{self.mask},{self.base},{self.shift}>"

    def __repr__(self) -> str:
        return f"Swizzle({self.mask}, {self.base}, {self.shift})"

    @property
    def period(self) -> int:
        """The swizzle commutes with adding multiples of this."""
        return 1 << (self.mask + self.base + abs(self.shift))

    @property
    def is_bijective(self) -> bool:
        """Whether the source and the target bits do not meet."""
        return self.mask == 0 or self.shift != 0

    def _repr_svg_(self) -> str | None:
        return picture(self)

    def __call__(self, index: Any) -> Any:
        return sc.swizzle_int(it.normalize(index), self.mask, self.base, self.shift)


def _swz(s: Swizzle) -> tuple[int, int, int]:
    return s.mask, s.base, s.shift


class CoordSwizzle:
    """``CS<mask, base_row, mode_row, base_col, mode_col>``: a swizzle between two leaves of a coordinate tuple."""

    __slots__ = ("base_col", "base_row", "mask", "mode_col", "mode_row")
    mask: int
    base_row: int
    mode_row: tuple[int, ...]
    base_col: int
    mode_col: tuple[int, ...]

    def __init__(
        self, mask: int, base_row: int, mode_row: tuple[int, ...], base_col: int, mode_col: tuple[int, ...]
    ) -> None:
        mode_row, mode_col = tuple(mode_row), tuple(mode_col)
        for v in (mask, base_row, base_col):
            if type(v) is not int or not 0 <= v <= 63:
                raise LayoutError(f"coordinate swizzle parameters must be ints from 0 to 63, got {v!r}")
        if any(type(m) is not int or m < 0 for m in (*mode_row, *mode_col)):
            raise LayoutError(f"coordinate swizzle paths must be non-negative ints: {mode_row}, {mode_col}")
        _set(self, "mask", mask)
        _set(self, "base_row", base_row)
        _set(self, "mode_row", mode_row)
        _set(self, "base_col", base_col)
        _set(self, "mode_col", mode_col)

    __setattr__ = immutable

    def _key(self) -> tuple[Any, ...]:
        return self.mask, self.base_row, self.mode_row, self.base_col, self.mode_col

    def __eq__(self, other: object) -> bool:
        return type(other) is CoordSwizzle and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((CoordSwizzle, *self._key()))

    def __reduce__(self) -> tuple[Any, ...]:
        return CoordSwizzle, self._key()

    def __str__(self) -> str:
        return f"CS<{self.mask},{self.base_row},{list(self.mode_row)},{self.base_col},{list(self.mode_col)}>"

    def __repr__(self) -> str:
        return f"CoordSwizzle({', '.join(map(repr, self._key()))})"

    def __call__(self, coord: Any) -> Any:
        coord = it.normalize(coord)
        row, col = it.get(coord, *self.mode_row), it.get(coord, *self.mode_col)
        if type(row) is tuple or type(col) is tuple:
            raise LayoutError(f"{self} needs integer leaves at its paths, got {it.to_text(coord)}")
        new = sc.coord_swizzle_int(row, col, self.mask, self.base_row, self.base_col)

        def put(x: IntTuple, path: tuple[int, ...]) -> IntTuple:
            if not path or type(x) is not tuple:
                return new
            return (*x[: path[0]], put(x[path[0]], path[1:]), *x[path[0] + 1 :])

        return put(coord, self.mode_col)
