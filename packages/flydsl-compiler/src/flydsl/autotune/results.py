"""Do two configurations compute the same? Results of a search's candidates against those of the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["difference", "results_of"]

#: Bytes of all tensors up to which results are compared without being asked for.
MAX_BYTES = 1 << 28


def results_of(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of the tensors on the host, as NumPy arrays; those that NumPy cannot take are left out."""
    import numpy as np

    found = {}
    for name, value in tensors.items():
        tensor = getattr(value, "tensor", value)
        try:
            if hasattr(tensor, "detach"):
                tensor = tensor.detach().cpu()
                tensor = tensor.double() if tensor.is_floating_point() else tensor
            found[name] = np.array(tensor)
        except (TypeError, ValueError, RuntimeError):
            continue
    return found


def difference(first: Mapping[str, Any], now: Mapping[str, Any], tolerance: float = 1e-2) -> str:
    """What differs, "" if nothing does. Integers must be equal; floats may differ by ``tolerance`` of the largest
    magnitude, which other orders of summation and 16-bit results need."""
    import numpy as np

    for name, expected in first.items():
        found = now.get(name)
        if found is None or found.shape != expected.shape:
            continue
        if expected.dtype.kind not in "fcV" and expected.dtype.kind in "biu":
            wrong = int((expected != found).sum())
            if wrong:
                return f"{name}: {wrong} of {expected.size} elements differ"
            continue
        try:
            a, b = expected.astype(np.float64), found.astype(np.float64)
        except (TypeError, ValueError):
            continue
        scale = float(np.max(np.abs(a), where=np.isfinite(a), initial=0.0)) or 1.0
        with np.errstate(invalid="ignore"):
            wrong_at = ~((np.abs(a - b) <= tolerance * scale) | (a == b) | (np.isnan(a) & np.isnan(b)))
        wrong = int(wrong_at.sum())
        if wrong:
            worst = float(np.nanmax(np.abs(a - b)[wrong_at])) if np.isfinite((a - b)[wrong_at]).any() else float("nan")
            return f"{name}: {wrong} of {expected.size} elements differ, by up to {worst:.3g} of {scale:.3g}"
    return ""
