"""The class of the numeric classes, and the classes by name for what lies below them (promotion, payloads)."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.locations import needs_trace

_MLIR_FLOAT = {
    "Float16": "F16Type", "BFloat16": "BF16Type", "Float": "F32Type", "Float32": "F32Type", "Float64": "F64Type",
}


class NumericMeta(type):
    """Metaclass of the numeric types: type-level facts (width, signedness, MLIR and NumPy types).

    ``class Int8(Integer, width=8, signed=True, numpy="int8"): ...`` is a whole type; one without `signed` is a float.
    """

    _width: int
    _signed: bool | None
    _numpy_name: str | None
    _wrap: Any

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, width: int = 0,
                signed: bool | None = None, numpy: str | None = None) -> Any:
        if width:
            kind = "float" if signed is None else "signed integer" if signed else "unsigned integer"
            namespace = {"__doc__": f"{width}-bit {kind}.", "__slots__": (), **namespace, "_width": width,
                         "_signed": signed, "_numpy_name": numpy}
        return super().__new__(mcs, name, bases, namespace)

    def __str__(cls) -> str:
        return cls.__name__

    @property
    def width(cls) -> int:
        """Width in bits."""
        return cls._width

    @property
    def log_width(cls) -> int:
        """Base-2 logarithm of the width, rounded up."""
        return (cls._width - 1).bit_length()

    @property
    def signed(cls) -> bool | None:
        """True or False for integers, None for floats."""
        return cls._signed

    @property
    def is_integer(cls) -> bool:
        """Whether values are integers, truth values included."""
        return cls._signed is not None

    @property
    def is_float(cls) -> bool:
        """Whether values are floats."""
        return cls._signed is None

    @property
    def zero(cls) -> int | float:
        """Zero as a Python number."""
        return 0 if cls.is_integer else 0.0

    @property
    @needs_trace
    def ir_type(cls) -> ir.Type:
        """The MLIR type, built afresh in the current context."""
        if cls.__name__ == "Index":
            return ir.IndexType.get()
        if cls.is_integer:
            return ir.IntegerType.get_signless(cls._width)
        return getattr(ir, _MLIR_FLOAT.get(cls.__name__, cls.__name__ + "Type")).get()

    @property
    def numpy_dtype(cls) -> Any:
        """The NumPy scalar type (``np.int8``), or None where NumPy has none."""
        import numpy as np

        name = cls._numpy_name
        return None if name is None else np.dtype(name).type


#: The numeric classes by name; `flydsl.expr.numeric` enters those that it makes.
CLASSES: dict[str, Any] = {}


def is_numeric(x: Any) -> bool:
    """Whether `x` is a scalar of a numeric class."""
    return isinstance(type(x), NumericMeta)
