"""What callers give with caches and fp8 arrays, checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..host.arrays import array_dtype, flat_of, is_torch
from ..host.config import require
from ..host.dtypes import dtype_name
from ..target import Target

__all__ = ["as_scale", "both_scales", "kind_of", "one_scale", "require_native"]


def require_native(where: str, target: Target, arrays: Iterable[tuple[str, Any, str]]) -> None:
    """ValueError if an array of fp8 (name, array, dtype) has not that of the target."""
    for name, array, kind in arrays:
        if kind == "fp8":
            target.require_fp8(where)
            native = array_dtype(target, array, "fp8")
            require(where, array.dtype == native, f"{target.name} has {native}, {name} is {array.dtype}")


def kind_of(where: str, target: Target, dtype: str, k_cache: Any, v_cache: Any) -> str:
    """The dtype that both caches have: `dtype`, or fp8 of the target."""
    caches = (("k_cache", k_cache), ("v_cache", v_cache))
    kinds = {dtype_name(cache, f"{where}: {name}", (dtype, "fp8")) for name, cache in caches}
    require(where, len(kinds) == 1, f"the caches must have one dtype, got {k_cache.dtype} and {v_cache.dtype}")
    (kind,) = kinds
    require_native(where, target, ((name, cache, kind) for name, cache in caches))
    return kind


def one_scale(where: str, name: str, scale: Any, kind: str, absent: Any) -> Any:
    """A scale of a whole array of fp8 as a vector of one f32, or what stands for it where there is none."""
    if scale is None:
        return absent
    require(where, kind == "fp8", f"{name} is of fp8 caches or queries, and these are {kind}")
    found = flat_of(scale, f"{where}: {name}", "f32")
    require(where, len(found) == 1, f"{name} must have one element, got {tuple(scale.shape)}")
    return found


def both_scales(where: str, k_scale: Any, v_scale: Any, kind: str, absent: Any) -> list[Any]:
    """Those of both caches, see :func:`one_scale`."""
    require(where, (k_scale is None) == (v_scale is None), "k_scale and v_scale are given both or neither")
    require(where, k_scale is None or kind == "fp8", f"scales are of fp8 caches, and these are {kind}")
    return [one_scale(where, name, given, kind, absent) for name, given in (("k_scale", k_scale), ("v_scale", v_scale))]


def as_scale(like: Any, scale: Any) -> Any:
    """A number as an array of one f32 of the kind of `like`."""
    if not isinstance(scale, (int, float)):
        return scale
    if is_torch(like):
        import torch

        return like.new_full((1,), scale, dtype=torch.float32)
    import numpy as np

    return np.full(1, scale, np.float32)
