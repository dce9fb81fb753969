"""What lanes are combined by: `ReductionOp` and the kinds of the vector dialect."""

from __future__ import annotations

from typing import Any

from .numeric import Boolean

_KINDS = {
    "add": ("add", "add", "add"), "mul": ("mul", "mul", "mul"),
    "max": ("maxnumf", "maxsi", "maxui"), "min": ("minimumf", "minsi", "minui"),
}
_EXACT_KINDS = ("maxnumf", "minnumf", "maximumf", "minimumf", "maxsi", "maxui", "minsi", "minui")
# Combining kind, float -> lane-wise operation, where the name is another one.
ELEMENTWISE = {
    ("add", True): "addf", ("add", False): "addi", ("mul", True): "mulf", ("mul", False): "muli",
    ("and", False): "andi", ("or", False): "ori", ("xor", False): "xori",
}


def combining_kind(op: Any, dtype: Any) -> str:
    """Text of the combining kind for a reduction of lanes of `dtype`."""
    name = op if isinstance(op, str) else getattr(op, "value", None) if isinstance(op, ReductionOp) else None
    if name is None:
        if type(op).__name__ == "CombiningKind":
            return str(op)
        raise TypeError(f"reduction op must be an fx.ReductionOp or its name, got {type(op).__name__}")
    if name in _EXACT_KINDS:
        return name
    if name.lower() not in _KINDS:
        raise ValueError(f"unknown reduction {name!r}; expected one of {', '.join(_KINDS)}")
    if dtype is Boolean and name.lower() == "add":
        raise TypeError("a sum of booleans would be one bit, the parity of their number: count them with "
                        ".to(fx.Int32) first; max tells whether any is true, min whether all are")
    flt, signed, unsigned = _KINDS[name.lower()]
    return flt if dtype.is_float else signed if dtype.signed and dtype is not Boolean else unsigned


class ReductionOp:
    """Reductions of `Vector.reduce`."""

    ADD: ReductionOp
    MUL: ReductionOp
    MAX: ReductionOp
    MIN: ReductionOp

    def __init__(self, value: str) -> None:
        self.value = value

    @property
    def name(self) -> str:
        """The name in upper case, such as ``ADD``."""
        return self.value.upper()

    def __repr__(self) -> str:
        return f"ReductionOp.{self.name}"

    def __str__(self) -> str:
        return self.value


for _name in _KINDS:
    setattr(ReductionOp, _name.upper(), ReductionOp(_name))
