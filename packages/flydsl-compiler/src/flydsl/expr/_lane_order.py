"""Direct loads into LDS: the hardware writes the lanes of a wave one behind the other, wherever their views are.

The destination of a wave is that of its first lane. A view that is cut for each thread (``lds[None, t]``) is written
where it is only if the views of a wave follow each other, or if they are all one: then it names the place of the wave.
An addend that all threads share (a stage, a loop variable) changes nothing of that. What else only the device knows (an
index from memory) cannot be judged, and is warned of. Partitions of tiled copies are checked with their layouts when
the kernel is lowered.
"""

from __future__ import annotations

import math
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir.dialects import fly
from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.diagnostics import warn_here

from . import gpu
from ._functions import functions
from ._participation import Shifted, integers_of_threads
from ._target import target_warp_size
from .primitive import bounds
from .values.ends import stored_bits
from .values.plain import plain
from .values.tensor import Tensor

_PARTITIONS = ("fly.tiled_copy.partition_src", "fly.tiled_copy.partition_dst", "fly.tiled_mma.partition")


def _parts(layout: Any) -> tuple[list[Any], Any]:
    """The swizzles of a layout type, the last one first, and what is under them. ValueError if that is not static."""
    swizzles = []
    while isinstance(layout, fly.ComposedLayoutType):
        swizzles.append(layout.inner)
        layout = layout.outer
    if not layout.is_static or not all(isinstance(s, fly.SwizzleType) for s in swizzles):
        raise ValueError("not static")
    return swizzles, plain(layout)


def _swizzled(offset: int, swizzles: list[Any]) -> int:
    for s in reversed(swizzles):
        offset ^= (offset & ((1 << s.mask) - 1) << s.base + s.shift) >> s.shift
    return offset


class _Unknown(ValueError):
    """Where the views of the threads are does not follow from their indices; with a text if that is the kernel's
    doing."""


def _coordinate(value: Any, numbers: Any, thread: int) -> Any:
    """A coordinate of a slice for one thread; what the slice keeps is 0."""
    if not value.is_leaf:
        return tuple(_coordinate(value.at(i), numbers, thread) for i in range(value.rank))
    if not value.is_leaf_int:
        return 0
    return int(value.get_static_leaf_int) if value.is_static else next(numbers)[thread]


def _offsets(op: Any, threads: int, swizzled: bool) -> list[int]:
    """How far a slice moves the view of each thread, in elements before swizzles; one number if it is one of all."""
    given = []
    layout = _parts(op.operands[0].type.layout)[1]
    flat = all(not isinstance(extent, tuple) for extent in layout.shape) if layout.rank > 1 else layout.depth == 0
    for operand in bounds.owner(op.operands[1]).operands:
        known = integers_of_threads(operand)
        if known is None:
            raise _Unknown("it depends on their indices and on run-time values")
        if isinstance(known, Shifted):
            if swizzled or not flat:
                raise _Unknown  # the addend may carry from mode to mode, or into what is swizzled
            known = known.numbers
        if swizzled and known == "common":
            raise _Unknown
        given.append((0,) if known == "common" else known)
    if all(len(known) == 1 for known in given):
        threads = 1
    columns = [known * (threads // len(known)) for known in given]
    return [int(layout(_coordinate(op.operands[1].type, iter(columns), thread))) for thread in range(threads)]


@functions.announce
def check_lane_order(destination: Tensor, bits: int) -> None:
    """ValueError where threads give a direct load of `bits` a destination each that the hardware does not write."""
    if tracing_option("known_block_size") is None:
        return
    try:
        root, operations = bounds.chain(destination)
        if any(op.name in _PARTITIONS for op in operations):
            return
        swizzles, _ = _parts(root.type.layout)
        threads = math.prod(gpu.known_block_size())
        places = [0]
        for op in operations:
            if op.name == "fly.slice":
                moved = _offsets(op, threads, bool(swizzles))
                count = max(len(places), len(moved))
                places = [a + b for a, b in zip(places * (count // len(places)), moved * (count // len(moved)),
                                                strict=True)]
        _, rest = _parts(destination.type.layout)
    except _Unknown as error:
        if error.args:
            warn_here("copy: a direct load into LDS writes the lanes of a wave one behind the other from the place of "
                      f"the first one; that the views of the threads follow each other is not known: {error}. Where "
                      "they do not, copy through registers")
        return
    except (algebra.LayoutError, ValueError, AttributeError):
        return
    if len(places) == 1:
        return
    step = bits // stored_bits(destination)
    calls = rest.rank if destination.rank > 1 else 1
    inner = [int(rest[i](k)) for i in range(1, calls) for k in range(rest[i].size())] or [0]
    for behind in dict.fromkeys([0, *inner]):
        _check_waves([_swizzled(place + behind, swizzles) for place in places], step, destination)


def _check_waves(places: list[int], step: int, destination: Tensor) -> None:
    lanes = target_warp_size()
    for first in range(0, len(places), lanes):
        wave = places[first : first + lanes]
        wrong = next((n for n, place in enumerate(wave) if place != wave[0] + n * step), None)
        if wrong is None or len(set(wave)) == 1:
            continue
        raise ValueError(
            f"copy: a direct load into LDS writes the lanes of a wave one behind the other, {step} elements each, but "
            f"the view of thread {first + wrong} begins at element {wave[wrong]} of {destination}, and that of thread "
            f"{first} at {wave[0]}. Give the destination the order of the threads and permute (swizzle) the source "
            "instead, or copy through registers")
