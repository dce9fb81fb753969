"""What every number has besides arithmetic: the protocols of launches, control flow and storage, and older methods."""

from __future__ import annotations

import numbers
from typing import Any

from flydsl._mlir import ir

from ._abi import c_abi_entry
from ._functions import functions


def misfit(number: Any, value: Any) -> Exception | None:
    """Why a number of Python or NumPy would not keep its value as a `number`: an integer beyond its range, a float for
    an integer. None for every other value."""
    if not getattr(number, "is_integer", False):
        return None
    if isinstance(value, numbers.Integral):
        width, signed = number.width, number.signed and number.width > 1
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        if not low <= int(value) <= high:
            return OverflowError(f"{value} does not fit {number.__name__} ({low} .. {high})")
    elif isinstance(value, numbers.Real):
        return TypeError(f"{number.__name__} got the float {value!r}; convert it with int(...)")
    return None


class OlderMethods:
    """Methods of numbers that are functions now."""

    def _forward(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        return type(self)(getattr(self.ir_value(), name)(*args, **kwargs))

    def maximumf(self: Any, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: `fx.max`."""
        return self._forward("maximumf", self._same(other), fastmath=fastmath)

    def minimumf(self: Any, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: `fx.min`."""
        return self._forward("minimumf", self._same(other), fastmath=fastmath)

    def addf(self: Any, other: Any, fastmath: Any = None) -> Any:
        """Deprecated: ``x + y`` inside `fx.fastmath`."""
        return self._forward("addf", self._same(other), fastmath=fastmath)

    def exp2(self: Any, fastmath: Any = None) -> Any:
        """Deprecated: `fx.math.exp2`."""
        return self._forward("exp2", fastmath=fastmath)

    def shuffle_xor(self: Any, offset: Any, width: Any) -> Any:
        """Deprecated: `fx.gpu.shuffle_xor`."""
        return self._forward("shuffle_xor", offset, width)

    def shrui(self: Any, n: Any) -> Any:
        """Deprecated: `fx.arith.shrui`."""
        return self._forward("shrui", self._same(n))

    def _same(self: Any, other: Any) -> Any:
        return type(self)(other) if isinstance(other, (int, float)) else other


class NumberProtocol:
    """How a number becomes IR values and comes back, and how it lies in memory."""

    def __extract_to_ir_values__(self: Any) -> list[ir.Value]:
        return [self.ir_value()]

    @classmethod
    def __construct_from_ir_values__(cls: Any, values: list[ir.Value], exemplar: Any = None) -> Any:
        if len(values) != 1:
            raise ValueError(f"{cls.__name__}: expected 1 ir.Values, got {len(values)}")
        return cls(values[0])

    def __get_ir_types__(self: Any) -> list[ir.Type]:
        return [type(self).ir_type]

    def __cache_signature__(self: Any) -> Any:
        return (type(self),)

    def __c_abi_spec__(self: Any) -> list[Any]:
        return [c_abi_entry(type(self))]

    @classmethod
    def __coerce__(cls: Any, value: Any) -> Any:
        if isinstance(value, cls):
            return value
        error = misfit(cls, value) if cls.width > 1 else None  # a Boolean says whether a number is not zero
        if error is not None:
            raise TypeError(f"expects {cls.__name__}: {error}")
        try:
            return cls(value)
        except (ValueError, TypeError, OverflowError) as error:
            raise TypeError(f"expects {cls.__name__}, got {type(value).__name__}") from error

    @classmethod
    def __dsl_size_of__(cls: Any) -> int:
        if cls.width < 8:
            raise TypeError(f"{cls.__name__} is narrower than a byte and not Storable")
        return cls.width // 8

    @classmethod
    def __dsl_align_of__(cls: Any) -> int:
        return cls.__dsl_size_of__()

    @classmethod
    def __peek_from_ptr__(cls: Any, ptr: Any) -> Any:
        return functions.ptr_load(functions.recast_iter(cls, ptr), cls)

    @classmethod
    def __poke_into_ptr__(cls: Any, ptr: Any, value: Any) -> None:
        functions.ptr_store(cls(value), functions.recast_iter(cls, ptr))
