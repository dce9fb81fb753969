"""Do two configurations compute the same? Results of a search's candidates against those of the first.

Configurations sum in other orders and round intermediate values at other places, so floats are not equal bit by bit.
How far two right results may be apart follows from their element types:

* the last rounding may go the other way: one unit in the last place of the element;
* what was rounded before may differ, by a part of what is typical of the tensor (its root mean square): of the least
  precise type in which the call's tensors hold values to compute with, 2 units in the last place for 16 bits, and 2^9
  for 32 and 64 bits, in which long sums are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Results", "difference", "results_of"]

#: Bytes of all tensors up to which results are compared without being asked for.
MAX_BYTES = 1 << 28

#: Element type -> (bits of the significand with the leading one, the smallest positive number).
_FLOATS = {
    "float64": (53, 2.0**-1074), "float32": (24, 2.0**-149), "float16": (11, 2.0**-24), "bfloat16": (8, 2.0**-133),
    "complex128": (53, 2.0**-1074), "complex64": (24, 2.0**-149), "float8_e4m3": (4, 2.0**-9),
    "float8_e4m3fn": (4, 2.0**-9), "float8_e4m3fnuz": (4, 2.0**-10), "float8_e4m3b11fnuz": (4, 2.0**-13),
    "float8_e5m2": (3, 2.0**-16), "float8_e5m2fnuz": (3, 2.0**-17),
}


@dataclass
class Results:
    """What a call left in its tensors.

    Attributes:
        values: by name, as NumPy arrays on the host.
        elements: by name the element type, as NumPy, ml_dtypes and torch spell it.
        spread: part of its root mean square by which an element of a right result may differ.
    """

    values: dict[str, Any] = field(default_factory=dict)
    elements: dict[str, str] = field(default_factory=dict)
    spread: float = 0.0


def _element(tensor: Any) -> str:
    return str(getattr(tensor, "dtype", "")).rpartition(".")[2]


def _spread(element: str) -> float:
    """To what part of 1 intermediate values are known. What has 8 bits is read and written, not computed with."""
    bits, _ = _FLOATS.get(element, (0, 0.0))
    return 0.0 if bits < 8 else 2.0 ** (2 - bits) if bits < 24 else 2.0 ** (10 - bits)


def results_of(tensors: Mapping[str, Any], others: Iterable[Any] = ()) -> Results:
    """Copies of the tensors on the host; those that NumPy cannot take are left out. `others` are tensors of the call
    that are not compared, whose precision counts as well."""
    import numpy as np

    found = Results()
    for tensor in (*tensors.values(), *others):
        found.spread = max(found.spread, _spread(_element(getattr(tensor, "tensor", tensor))))
    for name, value in tensors.items():
        tensor = getattr(value, "tensor", value)
        element = _element(tensor)
        try:
            if hasattr(tensor, "detach"):
                tensor = tensor.detach().cpu()
                tensor = (tensor.double() if tensor.is_floating_point() else tensor).numpy()
            found.values[name], found.elements[name] = np.array(tensor), element
        except (TypeError, ValueError, RuntimeError):
            continue
    return found


def difference(first: Results, now: Results) -> str:
    """What differs, "" if nothing does. Integers must be equal, floats as the module says."""
    for name, expected in first.values.items():
        found = now.values.get(name)
        if found is None or found.shape != expected.shape:
            continue
        told = _differ(expected, found, first.elements[name], max(first.spread, now.spread))
        if told:
            return f"{name}: {told}"
    return ""


def _differ(expected: Any, found: Any, element: str, spread: float) -> str:
    import numpy as np

    if expected.dtype.kind in "biu":
        wrong = int((expected != found).sum())
        return f"{wrong} of {expected.size} elements differ" if wrong else ""
    if element not in _FLOATS:
        return ""
    if expected.dtype.kind == "c":
        expected, found = (x.astype(np.complex128).view(np.float64) for x in (expected, found))
    a, b = expected.astype(np.float64), found.astype(np.float64)
    bits, smallest = _FLOATS[element]
    finite = np.isfinite(a) & np.isfinite(b)
    typical = float(np.sqrt(np.mean(np.square(a), where=finite))) if finite.any() else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        allowed = 2.0 ** (1 - bits) * np.maximum(np.abs(a), np.abs(b)) + smallest + spread * typical
        wrong_at = ~((np.abs(a - b) <= allowed) & finite | (a == b) | (np.isnan(a) & np.isnan(b)))
        apart = np.abs(a - b)[wrong_at]
    if not wrong_at.any():
        return ""
    worst = float(np.max(apart[np.isfinite(apart)], initial=0.0)) or float("nan")
    return (f"{int(wrong_at.sum())} of {expected.size} elements differ, by up to {worst:.3g}; {typical:.3g} is their "
            "root mean square")
