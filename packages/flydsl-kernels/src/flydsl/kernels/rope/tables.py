"""Tables of cosines and sines for rotary embedding, with the scaled angles by which models reach longer contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..host.config import require

__all__ = ["rotary_tables"]

_KINDS: dict[str, tuple[frozenset[str], frozenset[str]]] = {  # the keys that each must have, and may have
    "default": (frozenset(), frozenset()),
    "linear": (frozenset({"factor"}), frozenset()),
    "llama3": (frozenset({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}),
               frozenset()),
    "yarn": (frozenset({"factor", "original_max_position_embeddings"}),
             frozenset({"beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"})),
}
_OTHERS = frozenset({"rope_type", "type", "rope_theta", "partial_rotary_factor"})  # of the model, or read elsewhere


def _llama3(speeds: Any, s: Mapping[str, Any]) -> Any:
    """Slow angles are divided by the factor, fast ones are kept; what lies between is mixed by its turns."""
    turns = s["original_max_position_embeddings"] * speeds / (2 * math.pi)
    kept = (turns - s["low_freq_factor"]) / (s["high_freq_factor"] - s["low_freq_factor"])
    kept = np.clip(kept, 0, 1)
    return speeds * (kept + (1 - kept) / s["factor"])


def _yarn(speeds: Any, base: float, s: Mapping[str, Any]) -> tuple[Any, float]:
    """Angles, and what both tables are multiplied by (Peng et al. 2023, "YaRN", section 3)."""
    pairs = len(speeds)

    def place(turns: float) -> float:
        """The pair that turns so often over the original context."""
        return pairs * math.log(s["original_max_position_embeddings"] / (turns * 2 * math.pi)) / math.log(base)

    low, high = place(s.get("beta_fast") or 32), place(s.get("beta_slow") or 1)
    if s.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, 2 * pairs - 1)
    kept = 1 - np.clip((np.arange(pairs) - low) / (high - low or 0.001), 0, 1)

    def magnitude(weight: float = 1.0) -> float:
        return 0.1 * weight * math.log(s["factor"]) + 1 if s["factor"] > 1 else 1.0

    given = s.get("attention_factor")
    if given is None and s.get("mscale") and s.get("mscale_all_dim"):
        given = magnitude(s["mscale"]) / magnitude(s["mscale_all_dim"])
    return speeds * (kept + (1 - kept) / s["factor"]), magnitude() if given is None else given


def rotary_tables(positions: int, rotary_dim: int, *, base: float = 10000.0, scaling: Mapping[str, Any] | None = None,
                  device: Any = None) -> tuple[Any, Any]:
    """Cosine and sine of ``position * base ** (-2 i / rotary_dim)`` for each pair i of features.

    Args:
        positions: rows of the tables.
        rotary_dim: features that are rotated, an even number.
        base: of the geometric progression of speeds (`rope_theta`).
        scaling: how longer contexts are reached, as the `rope_scaling` or `rope_parameters` of a model's
            configuration: `rope_type` ``"linear"``, ``"llama3"`` or ``"yarn"`` with their numbers.
        device: of torch tensors (``"cpu"``, ``"cuda"``); NumPy arrays if None.

    Returns:
        ``(cos, sin)``, f32 (positions, rotary_dim / 2), computed in f64: what :func:`~flydsl.kernels.ops.rope` and
        :func:`~flydsl.kernels.ops.rope_cache` take.

    Raises:
        ValueError: a number is not positive, `rotary_dim` is odd, or the scaling is not known or not complete.
    """
    where = "rotary_tables"
    require(where, positions > 0 and base > 0, f"positions and base must be positive, got {positions} and {base}")
    require(where, rotary_dim > 0 and rotary_dim % 2 == 0, f"rotary_dim must be even and positive, got {rotary_dim}")
    s = {name: value for name, value in (scaling or {}).items() if value is not None}
    kind = s.get("rope_type", s.get("type", "default"))
    require(where, kind in _KINDS, f"rope_type must be one of {', '.join(_KINDS)}, got {kind!r}")
    needed, more = _KINDS[kind]
    missing, unknown = needed - s.keys(), s.keys() - needed - more - _OTHERS
    require(where, not missing and not unknown, f"{kind} scaling needs {', '.join(sorted(needed)) or 'nothing'}"
            f"{' and takes ' + ', '.join(sorted(more)) if more else ''}, got {', '.join(sorted(s))}")
    require(where, s.get("factor", 1) >= 1, f"factor must be at least 1, got {s.get('factor')}")
    if "rope_theta" in s:
        require(where, s["rope_theta"] == base, f"the scaling has rope_theta {s['rope_theta']}, base is {base}")
    speeds, magnitude = base ** -(np.arange(rotary_dim // 2) / (rotary_dim // 2)), 1.0
    if kind == "linear":
        speeds = speeds / s["factor"]
    elif kind == "llama3":
        speeds = _llama3(speeds, s)
    elif kind == "yarn":
        speeds, magnitude = _yarn(speeds, base, s)
    angles = np.arange(positions)[:, None] * speeds
    cos, sin = ((f(angles) * magnitude).astype(np.float32) for f in (np.cos, np.sin))
    if device is None:
        return cos, sin
    import torch

    return torch.from_numpy(cos).to(device), torch.from_numpy(sin).to(device)
