"""Which element of a tile each value of a fragment is: the thread-value layout that a fragment carries.

A *thread-value layout* maps (thread, value) to the colexicographic position in a tile; value `k` is the lane `k` of
the vector that ``fragment.load()`` gives. It is asked of the op that makes the fragment (which has operands or an
attribute that say it), so it follows the value through helpers and loops, and costs nothing until it is used.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly

from .._functions import functions
from .._lanes import flatten_shape
from ..primitive.layouts import make_layout
from ..values.carried import carried_from, fact_of
from ..values.layout import Layout
from ..values.plain import plain
from ..values.tensor import Tensor

_LAYOUT, _TILE = "fly.thread_values", "fly.tile_shape"
Leaves = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Digit:
    """A mode of a thread-value layout that moves along one mode of the tile.

    Args:
        extent: number of steps. where: 'value', 'lane', 'wave'. unit: distance of neighbours in the index of `where`
            (values, lanes, waves). mode: of the tile, None where all steps hold the same element. step: distance along
            that mode.
    """

    extent: int
    where: str
    unit: int
    mode: int | None
    step: int

    def of(self, index: int) -> int:
        """This digit of an index."""
        return index // self.unit % self.extent


@dataclass(frozen=True)
class ThreadValues:
    """A static thread-value layout ``(thread, value) -> position`` of a tile.

    Args:
        layout: of `flydsl.layout` or of the language. tile: extents of the tile, whose first mode runs fastest.

    Raises:
        ValueError: a layout that is dynamic, has another rank than two, or leaves the tile.
    """

    layout: algebra.Layout
    tile: tuple[int, ...]

    def __post_init__(self) -> None:
        if isinstance(self.layout, Layout):
            if not self.layout.is_static:
                raise ValueError(f"a thread-value layout must be static, got {self.layout}")
            object.__setattr__(self, "layout", plain(self.layout.type))
        if isinstance(self.tile, int):
            object.__setattr__(self, "tile", (self.tile,))
        if not self.layout.is_static or self.layout.rank != 2:
            raise ValueError(f"a thread-value layout is a static layout of (thread, value), got {self.layout}")
        last = sum((extent - 1) * stride for side in (0, 1) for extent, stride in self.leaves(side))
        if last >= math.prod(self.tile):
            raise ValueError(f"the thread-value layout {self.layout} leaves the tile {self.tile}")

    def __str__(self) -> str:
        return f"{self.layout} of a tile {self.tile}"

    def leaves(self, side: int) -> Leaves:
        """(extent, stride) of the leaf modes of the threads (0) or values (1), fastest first."""
        extents, strides = flatten_shape(self.layout.shape[side]), flatten_shape(self.layout.stride[side])
        return tuple(zip(extents, strides, strict=True))

    @property
    def threads(self) -> int:
        """Number of threads."""
        return math.prod(extent for extent, _ in self.leaves(0))

    @property
    def values(self) -> int:
        """Values of a thread."""
        return math.prod(extent for extent, _ in self.leaves(1))

    @property
    def value_shape(self) -> Any:
        """Shape of a fragment with these values."""
        return self.layout.shape[1]

    def positions(self, side: int) -> tuple[int, ...]:
        """Contribution of every thread (0) or value (1) to the position; the two add up."""
        return _positions(self.leaves(side))

    def digits(self, wave: int) -> tuple[Digit, ...]:
        """The layout as digits, those of values first; `wave` is the number of lanes.

        Raises:
            ValueError: modes that do not move along one mode of the tile each.
        """
        return _digits(self, wave)

    def permuted(self, modes: tuple[int, ...]) -> ThreadValues:
        """The same values in the tile whose mode i is mode ``modes[i]`` of this one."""
        if sorted(modes) != list(range(len(self.tile))):
            raise ValueError(f"modes must be a permutation of {tuple(range(len(self.tile)))}, got {modes}")
        tile = tuple(self.tile[m] for m in modes)
        factor, room = {}, 1
        for m in modes:
            factor[m], room = room, room * self.tile[m]
        sides = []
        for side in (0, 1):
            shape: list[int] = []
            stride: list[int] = []
            for extent, at in self.leaves(side):
                for mode, count, step in _along(extent, at, self.tile):
                    shape.append(count)
                    stride.append(0 if mode is None else step * factor[mode])
            sides.append((tuple(shape) or (1,), tuple(stride) or (0,)))
        flat = algebra.Layout((sides[0][0], sides[1][0]), (sides[0][1], sides[1][1]))
        return ThreadValues(flat, tile)

    def as_layout(self) -> Layout:
        """The layout as a value of the language."""
        return make_layout(self.layout.shape, self.layout.stride)


@functools.lru_cache(maxsize=256)
def _positions(leaves: Leaves) -> tuple[int, ...]:
    out = [0]
    for extent, stride in leaves:
        out = [base + i * stride for i in range(extent) for base in out]
    return tuple(out)


def _along(extent: int, stride: int, tile: tuple[int, ...]) -> list[tuple[int | None, int, int]]:
    """A mode of positions as (mode of the tile, extent, step along it), split where it passes from mode to mode."""
    if extent == 1:
        return []
    if stride == 0:
        return [(None, extent, 0)]
    room = 1
    for mode, size in enumerate(tile):
        if stride < room * size:
            if stride % room:
                break
            step = stride // room
            if (extent - 1) * step < size:
                return [(mode, extent, step)]
            if size % step or extent % (size // step):
                break
            here = size // step
            return [(mode, here, step), *_along(extent // here, room * size, tile)]
        room *= size
    raise ValueError(f"the mode {extent}:{stride} of a thread-value layout does not move along the modes of {tile}")


@functools.lru_cache(maxsize=256)
def _digits(tv: ThreadValues, wave: int) -> tuple[Digit, ...]:
    out: list[Digit] = []
    unit = 1
    for extent, stride in tv.leaves(1):
        inner = unit
        for mode, count, step in _along(extent, stride, tv.tile):
            out.append(Digit(count, "value", inner, mode, step))
            inner *= count
        unit *= extent
    unit = 1
    for extent, stride in tv.leaves(0):
        inner = unit
        for mode, count, step in _along(extent, stride, tv.tile):
            lanes = 1 if inner >= wave else min(count, wave // inner)
            if inner < wave and (wave % inner or count % lanes):
                raise ValueError(f"the threads of {tv} do not divide into waves of {wave}")
            if lanes > 1:
                out.append(Digit(lanes, "lane", inner, mode, step))
            if count > lanes:
                out.append(Digit(count // lanes, "wave", max(inner // wave, 1), mode, step * lanes))
            inner *= count
        unit *= extent
    for mode, size in enumerate(tv.tile):
        if sum((d.extent - 1) * d.step for d in out if d.mode == mode) >= size:
            raise ValueError(f"the modes of {tv} carry from one mode of the tile into the next")
    return tuple(out)


# --------------------------------------------------------------------------- fragments


def attach(fragment: Tensor, tv: ThreadValues) -> Tensor:
    """Let a fragment know its thread-value layout."""
    attributes = fragment.owner.attributes
    attributes[_LAYOUT] = ir.StringAttr.get(str(tv.layout))
    attributes[_TILE] = ir.DenseI64ArrayAttr.get(list(tv.tile))
    return fragment


def known_thread_values(fragment: Any) -> ThreadValues | None:
    """The thread-value layout of a fragment, from the op that made it; None if that does not say.

    A fragment that control flow carries has the layout of all that it may be.
    """
    if not isinstance(fragment, ir.Value):
        return None
    if carried_from(fragment) is not None:
        return fact_of(fragment, known_thread_values, _require_the_same)
    if isinstance(fragment.owner, ir.Block):
        return None
    op = fragment.owner.operation
    if _LAYOUT in op.attributes:
        layout = _parse_layout(ir.StringAttr(op.attributes[_LAYOUT]).value)
        return ThreadValues(layout, tuple(ir.DenseI64ArrayAttr(op.attributes[_TILE])))
    if op.name == "fly.make_fragment_like":
        return known_thread_values(op.operands[0])  # the same elements in the same order
    if op.name == "fly.mma.make_fragment" and "stages" not in op.attributes:
        return _of_operand(op.operands[0].type, op.attributes["operand_id"], op.operands[1].type.layout)
    return None


def _require_the_same(tv: ThreadValues, later: Any) -> None:
    """ValueError if a fragment that the body of a loop hands on has another layout than the body relied on."""
    found = known_thread_values(later)
    if found != tv:
        raise ValueError(f"the fragment has the thread-value layout {tv} before the loop, which its body relies on, "
                         f"but the one that the body assigns has {found or 'none that is known'}: convert it "
                         "(fx.convert_layout), or store its values to the fragment: f.store(g.load())")


def _of_operand(mma: Any, operand: Any, tile: Any) -> ThreadValues | None:
    """Of a fragment of an operand of a tile, if that is static and has one mode a dimension."""
    while isinstance(tile, fly.ComposedLayoutType):
        tile = tile.outer
    if not tile.is_static_shape or tile.rank != 2:
        return None
    shape = tuple(int(algebra.size(mode)) for mode in plain(tile.shape))
    try:
        return mma_thread_values(mma, str(operand).split()[-1].rstrip(">").upper(), shape)
    except ValueError:
        return None  # what asks for one says that it is not known


def thread_values(fragment: Tensor) -> ThreadValues:
    """The thread-value layout of a fragment.

    Known of fragments from ``make_fragment_A/B/C``, of what `convert_layout` and `reduce` return, and of
    ``make_fragment_like`` of any of them, through branches and loops; not of views. ValueError where it is not known.
    """
    found = known_thread_values(fragment)
    if found is None:
        raise ValueError(f"the thread-value layout of {fragment} is not known: make the fragment with make_fragment_A, "
                         "_B or _C of a static tile (views, make_rmem_tensor and fragments that branches assign "
                         "differently do not have one), or give it with thread_values=")
    return found


def source_thread_values(fragment: Any, given: Any) -> ThreadValues:
    """That of a fragment, or what the argument ``thread_values=`` gives instead. TypeError for another object."""
    if given is None:
        return thread_values(fragment)
    if isinstance(given, Tensor):
        return thread_values(given)
    if not isinstance(given, ThreadValues):
        raise TypeError("thread_values= is an fx.ThreadValues(layout, tile) or a fragment that has one, got "
                        f"{type(given).__name__}")
    return given


@functools.lru_cache(maxsize=256)
def _parse_layout(text: str) -> algebra.Layout:
    return algebra.parse_layout(text)


@functions.announce
def mma_thread_values(ty: Any, operand: str, shape: tuple[int, ...]) -> ThreadValues:
    """Of a fragment of operand 'A', 'B' or 'C' of a tiled MMA type, for a tile of `shape`."""
    atom = ty.mma_atom
    layouts = [plain(x) for x in (atom.thr_layout, atom.tv_layout_a, atom.tv_layout_b, atom.tv_layout_c)]
    mma = algebra.TiledMma(algebra.MmaAtom(plain(atom.shape_mnk), *layouts), plain(ty.atom_layout),
                           plain(ty.permutation))
    return ThreadValues(mma.tv_layout(operand, shape), shape)


@functions.announce
def copy_thread_values(ty: Any, side: str, shape: tuple[int, ...], atom: Any) -> ThreadValues:
    """Of the partition of a tile of `shape` by a tiled copy type; `side` is 'src' or 'dst'."""
    moves = algebra.CopyAtom(plain(atom.thr_layout), plain(atom.tv_layout_src), plain(atom.tv_layout_dst),
                             plain(atom.tv_layout_ref), atom.val_bits)
    copy = algebra.TiledCopy(moves, plain(ty.layout_thr_val), plain(ty.tile_mn))
    return ThreadValues(copy.tv_layout(side, shape), shape)
