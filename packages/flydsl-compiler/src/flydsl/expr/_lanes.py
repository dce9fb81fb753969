"""Shapes of register vectors and the order of their lanes; plain Python.

A vector is a row of lanes under a nested shape. Its *order* says which coordinate a lane is: ``colex`` (the first
mode runs fastest) for what was loaded from a tensor, as in the tensor; ``row`` (the last mode runs fastest) for a
shape that was given by `reshape` or a constructor, as in NumPy; None where it does not matter (equal lanes).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

Shape = tuple[Any, ...]


def flatten_shape(shape: Any) -> tuple[int, ...]:
    """The extents of a static (nested) shape."""
    if not isinstance(shape, (tuple, list)):
        return (int(shape),)
    return tuple(leaf for mode in shape for leaf in flatten_shape(mode))


def numel(shape: Any) -> int:
    """The number of elements of a static (nested) shape."""
    return math.prod(flatten_shape(shape))


# --------------------------------------------------------------------------- order


class FragmentLanes(str):
    """``"colex"``, the order of a tensor's lanes: of a fragment, which may know which element of a tile each is."""

    fragment: Any

    def __new__(cls, fragment: Any) -> FragmentLanes:
        order = super().__new__(cls, "colex")
        order.fragment = fragment
        return order


def is_ordered(shape: Any) -> bool:
    """Whether the order matters: more than one leaf has more than one element."""
    return sum(extent != 1 for extent in flatten_shape(shape)) > 1


def common_order(a: tuple[Any, str | None], b: tuple[Any, str | None]) -> str | None:
    """The order of the result of two operands, (shape, order) each. ValueError when they contradict each other."""
    orders = [order for shape, order in (a, b) if order is not None and is_ordered(shape)]
    if len(orders) == 2 and orders[0] != orders[1] and flatten_shape(a[0]) != flatten_shape(b[0]):
        raise ValueError(
            f"vectors of shapes {a[0]} and {b[0]} do not broadcast: one has the lanes of a tensor (the first mode runs "
            "fastest), the other those of a reshape (the last mode runs fastest). Store one to a fragment and load it, "
            "or broadcast before the reshape"
        )
    return orders[0] if orders else None


def coordinates(extents: tuple[int, ...], order: str | None) -> list[tuple[int, ...]]:
    """The coordinate of every lane."""
    if order == "colex":
        return [c[::-1] for c in itertools.product(*(range(n) for n in reversed(extents)))]
    return list(itertools.product(*(range(n) for n in extents)))


def lane_of(coordinate: tuple[int, ...], extents: tuple[int, ...], order: str | None) -> int:
    """The lane at a flat coordinate."""
    pairs = list(zip(coordinate, extents, strict=True))
    lane = 0
    for c, n in reversed(pairs) if order == "colex" else pairs:
        lane = lane * n + c
    return lane


# --------------------------------------------------------------------------- broadcasting


def _pad(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _common_mode(a: Any, b: Any) -> Any:
    """The common extent of two modes; None when they have none."""
    if a == b or numel(b) == 1:
        return a
    if numel(a) == 1:
        return b
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        inner = tuple(_common_mode(x, y) for x, y in zip(a, b, strict=True))
        return None if None in inner else inner
    return a if flatten_shape(a) == flatten_shape(b) else None


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """The common shape of two operands: modes are matched from the last one, a mode of one element is repeated.

    ValueError when the shapes do not broadcast.
    """
    if a == b or numel(b) == 1:
        return a
    if numel(a) == 1:
        return b
    if flatten_shape(a) == flatten_shape(b):
        return a
    rank = max(len(a), len(b))
    modes = [_common_mode(x, y) for x, y in zip(_pad(a, rank), _pad(b, rank), strict=True)]
    if None in modes:
        raise ValueError(f"vector shapes {a} and {b} do not broadcast")
    return tuple(modes)


def _aligned(source: Any, target: Any) -> tuple[int, ...]:
    """Extents of `source` at the leaves of `target`, to which it broadcasts."""
    if numel(source) == 1:
        return (1,) * len(flatten_shape(target))
    if flatten_shape(source) == flatten_shape(target):
        return flatten_shape(target)
    if isinstance(source, int) or isinstance(target, int) or len(source) > len(target):
        raise ValueError(f"cannot broadcast a vector of shape {source} to {target}")
    pairs = zip(_pad(source, len(target)), target, strict=True)
    return tuple(extent for s, t in pairs for extent in _aligned(s, t))


def broadcast_mask(source: Shape, target: Shape, order: str | None) -> list[int]:
    """The lane of `source` that every lane of `target` takes, both in `order`."""
    extents = _aligned(source, target)
    return [
        lane_of(tuple(0 if n == 1 else c for c, n in zip(coordinate, extents, strict=True)), extents, order)
        for coordinate in coordinates(flatten_shape(target), order)
    ]


# --------------------------------------------------------------------------- reduction along modes


def _kept_leaves(profile: Any, shape: Any) -> list[bool]:
    """For every leaf of `shape` whether the profile keeps it (its entry is None)."""
    if profile is None:
        return [True] * len(flatten_shape(shape))
    if isinstance(profile, int):
        return [False] * len(flatten_shape(shape))
    if not isinstance(profile, (tuple, list)) or isinstance(shape, int) or len(profile) != len(shape):
        raise ValueError(f"the reduction profile {profile!r} does not match the mode {shape}: one entry per mode, None "
                         "to keep it, an int to reduce it")
    return [kept for p, s in zip(profile, shape, strict=True) for kept in _kept_leaves(p, s)]


def _kept_shape(profile: Any, shape: Any) -> Any:
    """The modes that the profile keeps; None for none."""
    if profile is None:
        return shape
    if isinstance(profile, int):
        return None
    modes = [_kept_shape(p, s) for p, s in zip(profile, shape, strict=True)]
    modes = [mode for mode in modes if mode is not None]
    return tuple(modes) if modes else None


def reduction_masks(profile: Any, shape: Shape, order: str | None) -> tuple[Shape | None, list[list[int]]]:
    """The kept shape (None: everything is reduced), and for every step of the reduction the lanes it takes.

    ValueError for a profile that does not match the shape.
    """
    kept = _kept_leaves(profile, shape)
    extents = flatten_shape(shape)
    kept_extents = tuple(n for n, keep in zip(extents, kept, strict=True) if keep)
    steps: dict[tuple[int, ...], list[int]] = {}
    for lane, coordinate in enumerate(coordinates(extents, order)):
        step = tuple(c for c, keep in zip(coordinate, kept, strict=True) if not keep)
        steps.setdefault(step, [0] * math.prod(kept_extents))
        place = tuple(c for c, keep in zip(coordinate, kept, strict=True) if keep)
        steps[step][lane_of(place, kept_extents, order)] = lane
    return _kept_shape(profile, shape), list(steps.values())
