"""The value types: :class:`Layout`, :class:`ComposedLayout`, :class:`Tile`, and those of :mod:`.swizzles`.

All are immutable, hashable and print as the text of the corresponding IR type (``str``) or as a Python expression
(``repr``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from . import coords, inttuple as it, scalar as sc
from .errors import LayoutError
from .scalar import Dyn, IntTuple
from .swizzles import CoordSwizzle, Swizzle
from .values import immutable, picture

_set = object.__setattr__


def check_extents(shape: IntTuple) -> None:
    for s in it.leaves(shape):
        if type(s) is int:
            if s <= 0:
                raise LayoutError(f"extents must be positive: {s} in the shape {it.to_text(shape)}")
        elif type(s) is sc.Basis:
            raise LayoutError(f"an extent cannot be a basis vector: {s} in the shape {it.to_text(shape)}")


def check_profiles(shape: IntTuple, stride: IntTuple) -> None:
    """Demand one stride for every extent."""
    if type(shape) is int and type(stride) is int:
        return
    if not it.congruent(shape, stride):
        raise LayoutError(
            f"shape {it.to_text(shape)} and stride {it.to_text(stride)} are not congruent: their profiles differ, and "
            "every extent needs one stride"
        )


class _Fields:
    """What a layout holds, not yet guarded: :func:`make_pair` fills one of these and makes it a Layout."""

    __slots__ = ("_calls", "_cx", "_flat", "_fn", "_hash", "shape", "stride")
    shape: IntTuple
    stride: IntTuple
    # Derived data; False if not static.  The flat leaves (None: not yet computed), and, once composition needs them
    # (no attribute before), its modes.
    _flat: tuple[Sequence[int], Sequence[int]] | bool | None
    _cx: tuple[list[tuple[int, int]], int] | bool
    _fn: Any
    _calls: int
    _hash: int


class Layout(_Fields):
    """A function from coordinates to indices, given by a shape and a stride of the same profile.

    ``Layout(shape)`` is column-major; a stride of another profile than the shape is a :class:`LayoutError`.
    ``layout(c)`` or ``layout(c0, c1, ...)`` is the index of a coordinate; with a hole (``None``) in the coordinate it
    is the sliced layout.  ``layout[i]`` is mode ``i``.

    >>> Layout((4, (2, 8)), (2, (1, 8)))(3, 5)
    23
    """

    __slots__ = ()

    def __init__(self, shape: Any, stride: Any = None) -> None:
        if type(shape) is tuple is type(stride) and len(shape) == len(stride):
            # The usual case in one pass and without calls: plain ints, in tuples nested at most once.
            s: tuple[Any, ...] = ()
            d: tuple[Any, ...] = ()
            for a, b in zip(shape, stride):  # noqa: B905  (lengths are equal; the keyword would cost a tenth)
                if type(a) is type(b) is tuple and a and len(a) == len(b):
                    s += a
                    d += b
                else:
                    s += (a,)
                    d += (b,)
            for n in s:
                if type(n) is not int or n <= 0:
                    break
            else:
                for n in d:
                    if type(n) is not int:
                        break
                else:
                    if s:
                        set_shape(self, shape)
                        set_stride(self, stride)
                        set_flat(self, (s, d))
                        return
        shape = it.normalize(shape)
        check_extents(shape)
        if stride is None:
            stride = coords.compact(shape)
        else:
            stride = it.normalize(stride)
            check_profiles(shape, stride)
        set_shape(self, shape)
        set_stride(self, stride)
        set_flat(self, None)

    __setattr__ = immutable
    __delattr__ = immutable

    def __eq__(self, other: object) -> bool:
        return type(other) is Layout and self.shape == other.shape and self.stride == other.stride

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            _set(self, "_hash", hash((self.shape, self.stride)))
            return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return make_pair, (self.shape, self.stride)

    def __str__(self) -> str:
        return f"{it.to_text(self.shape)}:{it.to_text(self.stride)}"

    def __repr__(self) -> str:
        return f"Layout({self.shape!r}, {self.stride!r})"

    @property
    def rank(self) -> int:
        """Number of modes at the top level; 1 for a leaf."""
        return it.rank(self.shape)

    @property
    def depth(self) -> int:
        """Deepest nesting of the shape: 0 for a leaf."""
        return it.depth(self.shape)

    @property
    def is_leaf(self) -> bool:
        """Whether the shape is a single extent."""
        return type(self.shape) is not tuple

    @property
    def is_static_shape(self) -> bool:
        """Whether all extents are numbers."""
        return it.is_static(self.shape)

    @property
    def is_static_stride(self) -> bool:
        """Whether all strides are numbers."""
        return it.is_static(self.stride)

    @property
    def is_static(self) -> bool:
        """Whether all extents and strides are numbers."""
        return it.is_static(self.shape) and it.is_static(self.stride)

    def size(self) -> Any:
        """Number of coordinates."""
        return it.product(self.shape)

    def cosize(self) -> Any:
        """One more than the index of the last coordinate (per codomain mode, multiplied)."""
        return it.product(coords.coshape(self.shape, self.stride))

    def __len__(self) -> int:
        return it.rank(self.shape)

    def __getitem__(self, mode: int | tuple[int, ...] | list[int]) -> Layout:
        path = (mode,) if isinstance(mode, int) else tuple(mode)
        return make_pair(it.get(self.shape, *path), it.get(self.stride, *path))

    def __iter__(self) -> Iterator[Layout]:
        return (self[i] for i in range(it.rank(self.shape)))

    def __call__(self, coord: Any, *more: Any) -> Any:
        if type(coord) is int and not more and coord >= 0:
            try:
                return self._fn(coord)
            except AttributeError:
                return self._call_int(coord)
        crd = it.normalize((coord, *more) if more else coord)
        if it.has_none(crd):
            return make_pair(it.slice_(self.shape, crd), it.slice_(self.stride, crd))
        return coords.crd2idx(crd, self.shape, self.stride)

    def get_hier_coord(self, index: Any) -> IntTuple:
        """Hierarchical coordinate of an index (:func:`flydsl.layout.idx2crd`)."""
        return coords.idx2crd(it.normalize(index), self.shape, self.stride)

    def get_flat_coord(self, index: Any) -> IntTuple:
        """Coordinate of an index with one integer per top-level mode."""
        crd = self.get_hier_coord(index)
        return coords.crd2crd(crd, self.shape, (1,) * self.rank) if type(self.shape) is tuple else crd

    def get_1d_coord(self, index: Any) -> Any:
        """Linear (colexicographic) coordinate of an index."""
        return coords.colex_index(self.get_hier_coord(index), self.shape)

    def _repr_svg_(self) -> str | None:
        return picture(self)

    def _call_int(self, coord: int) -> Any:
        """First calls interpret; after a few, a compiled index function is kept (worth its cost only then)."""
        try:
            n = self._calls + 1
        except AttributeError:
            n = 1
        _set(self, "_calls", n)
        flat = static_flat(self)
        if flat is not None and n > 4:
            _set(self, "_fn", coords.compile_index(*flat))
        return coords.crd2idx(coord, self.shape, self.stride)


# Slot descriptors: the quickest way past the immutability guard for a Layout that exists.
set_shape = vars(_Fields)["shape"].__set__
set_stride = vars(_Fields)["stride"].__set__
set_flat = vars(_Fields)["_flat"].__set__
set_cx = vars(_Fields)["_cx"].__set__


def make_pair(shape: IntTuple, stride: IntTuple) -> Layout:
    """A layout from already normalised parts, without checks (internal fast path).

    Plain assignments and one change of class: half the time of getting past the guard for every field.
    """
    r: Any = _Fields()
    r.shape = shape
    r.stride = stride
    r._flat = None
    r.__class__ = Layout
    return r  # type: ignore[no-any-return]


def _flat_into(shape: IntTuple, stride: IntTuple, s: list[int], d: list[int]) -> bool:
    for a, b in zip(shape, stride, strict=True):
        if type(a) is int:
            if type(b) is not int:
                return _flat_refuse(a, b)
            s.append(a)
            d.append(b)
        elif type(a) is tuple:
            if type(b) is not tuple or len(a) != len(b):
                return _flat_refuse(a, b)
            if not _flat_into(a, b, s, d):
                return False
        else:
            return False
    return True


def _flat_refuse(a: IntTuple, b: IntTuple) -> bool:
    if (type(a) is tuple) != (type(b) is tuple) or (type(a) is tuple and len(a) != len(b)):
        raise LayoutError(f"shape and stride are not congruent: {it.to_text(a)} faces {it.to_text(b)}")
    return False


_INTS = {int}


def static_flat(layout: Layout) -> tuple[Sequence[int], Sequence[int]] | None:
    """The flat (shapes, strides) if every leaf is an int, else None; :class:`LayoutError` if not congruent.

    The sequences are shared: callers must not change them.
    """
    flat: Any = layout._flat
    if flat is None:
        flat = _flatten(layout.shape, layout.stride)
        set_flat(layout, flat)
    return flat or None


def _flatten(shape: IntTuple, stride: IntTuple) -> tuple[Sequence[int], Sequence[int]] | bool:
    if type(shape) is not tuple or type(stride) is not tuple or len(shape) != len(stride):
        if type(shape) is int and type(stride) is int:
            return [shape], [stride]
        return _flat_refuse(shape, stride)
    s: list[int] = []
    d: list[int] = []
    for a, b in zip(shape, stride):  # noqa: B905  (lengths are equal; the keyword would cost a tenth of the whole)
        if type(a) is tuple:
            if type(b) is not tuple or len(a) != len(b):
                _flat_refuse(a, b)
            s += a
            d += b
        else:
            s.append(a)
            d.append(b)
    if {*map(type, s), *map(type, d)} == _INTS:
        return s, d
    s, d = [], []  # deeper than two levels, or not all ints
    return (s, d) if _flat_into(shape, stride, s, d) else False


class ComposedLayout:
    """``inner o offset o outer``: the map ``c -> inner(offset + outer(c))``.

    ``inner`` is a Layout, ComposedLayout, Swizzle or CoordSwizzle; ``outer`` a Layout or ComposedLayout.  Shape, rank
    and depth are those of ``outer``.
    """

    __slots__ = ("inner", "offset", "outer")
    inner: Layout | ComposedLayout | Swizzle | CoordSwizzle
    offset: IntTuple
    outer: Layout | ComposedLayout

    def __init__(self, inner: Any, offset: Any, outer: Any) -> None:
        if not isinstance(inner, (Layout, ComposedLayout, Swizzle, CoordSwizzle)):
            raise LayoutError(f"the inner part of a composed layout must be a layout or a swizzle, got {inner!r}")
        if not isinstance(outer, (Layout, ComposedLayout)):
            raise LayoutError(f"the outer part of a composed layout must be a layout, got {outer!r}")
        _set(self, "inner", inner)
        _set(self, "offset", it.normalize(offset))
        _set(self, "outer", outer)

    __setattr__ = immutable

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is ComposedLayout
            and self.inner == other.inner
            and self.offset == other.offset
            and self.outer == other.outer
        )

    def __hash__(self) -> int:
        return hash((ComposedLayout, self.inner, self.offset, self.outer))

    def __reduce__(self) -> tuple[Any, ...]:
        return ComposedLayout, (self.inner, self.offset, self.outer)

    def __str__(self) -> str:
        outer = f"[{self.outer}]" if isinstance(self.outer, ComposedLayout) else str(self.outer)
        return f"{self.inner} o {it.to_text(self.offset)} o {outer}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self.inner!r}, {self.offset!r}, {self.outer!r})"

    @property
    def linear(self) -> Layout:
        """The plain layout at the end of the chain of outers."""
        o = self.outer
        while isinstance(o, ComposedLayout):
            o = o.outer
        return o

    @property
    def shape(self) -> IntTuple:
        """Extents of the plain layout at the end."""
        return self.linear.shape

    @property
    def stride(self) -> NoReturn:
        """TypeError: a composition has no strides."""
        raise TypeError(f"a composed layout has no stride: {self}")

    @property
    def rank(self) -> int:
        """Number of modes at the top level."""
        return self.linear.rank

    @property
    def depth(self) -> int:
        """Deepest nesting of the shape."""
        return self.linear.depth

    @property
    def is_leaf(self) -> bool:
        """Whether the shape is a single extent."""
        return self.linear.is_leaf

    @property
    def is_static(self) -> bool:
        """Whether inner, offset and outer are known as numbers."""
        inner_ok = not isinstance(self.inner, (Layout, ComposedLayout)) or self.inner.is_static
        return inner_ok and it.is_static(self.offset) and self.outer.is_static

    def size(self) -> Any:
        """Number of coordinates."""
        return self.linear.size()

    def with_linear(self, new: Layout) -> ComposedLayout:
        """The same chain around another plain layout."""
        outer = self.outer.with_linear(new) if isinstance(self.outer, ComposedLayout) else new
        return ComposedLayout(self.inner, self.offset, outer)

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, mode: int | tuple[int, ...] | list[int]) -> ComposedLayout:
        return self.with_linear(self.linear[mode])

    def __iter__(self) -> Iterator[ComposedLayout]:
        return (self[i] for i in range(self.rank))

    def __call__(self, coord: Any, *more: Any) -> Any:
        crd = it.normalize((coord, *more) if more else coord)
        if it.has_none(crd):
            return self.sliced(crd)
        return self.inner(it.add(self.offset, self.outer(crd)))

    def _repr_svg_(self) -> str | None:
        return picture(self)

    def sliced(self, crd: IntTuple) -> ComposedLayout:
        """Slice by a coordinate with holes: the fixed part moves into the offset of the last composition."""
        if isinstance(self.outer, ComposedLayout):
            return ComposedLayout(self.inner, self.offset, self.outer.sliced(crd))
        o = self.outer
        offset = it.add(self.offset, coords.crd2idx(crd, o.shape, o.stride))
        return ComposedLayout(self.inner, offset, make_pair(it.slice_(o.shape, crd), it.slice_(o.stride, crd)))


class Tile:
    """A by-mode tiler.  Entries are ``None`` (leave the mode), an int ``n`` (short for ``n:1``), a Layout or a Tile.

    ``Tile(4, 8)`` is the bracketed tile ``[4|8]``; ``Tile.leaf(4)`` is the unbracketed leaf tile ``4``.
    Nested tuples and lists become nested tiles.
    """

    __slots__ = ("is_leaf", "items")
    items: tuple[Any, ...]
    is_leaf: bool

    def __init__(self, *items: Any) -> None:
        if not items:
            raise LayoutError("a tile needs at least one entry")
        _set(self, "items", tuple(_tile_item(i) for i in items))
        _set(self, "is_leaf", False)

    @classmethod
    def leaf(cls, item: Any) -> Tile:
        """A tile that is a single entry, without brackets."""
        r = cls(item)
        if not isinstance(r.items[0], Tile):
            _set(r, "is_leaf", True)
            return r
        return r.items[0]

    __setattr__ = immutable

    def __eq__(self, other: object) -> bool:
        return type(other) is Tile and self.is_leaf == other.is_leaf and self.items == other.items

    def __hash__(self) -> int:
        return hash((Tile, self.is_leaf, self.items))

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tile.leaf if self.is_leaf else Tile), self.items

    def __str__(self) -> str:
        text = "|".join("*" if i is None else str(i) for i in self.items)
        return text if self.is_leaf else f"[{text}]"

    def __repr__(self) -> str:
        return f"Tile{'.leaf' if self.is_leaf else ''}({', '.join(map(repr, self.items))})"

    @property
    def rank(self) -> int:
        """Number of modes that it tiles."""
        return len(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        return self.items[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

    def guide(self) -> IntTuple:
        """An int tuple with the profile of the tile (a terminal for every entry that is not a nested tile)."""
        if self.is_leaf:
            return 0
        return tuple(i.guide() if isinstance(i, Tile) else 0 for i in self.items)


def _tile_item(x: Any) -> Any:
    if x is None or isinstance(x, (Layout, Tile, Dyn)):
        return x
    if isinstance(x, (tuple, list)):
        return Tile(*x)
    x = it.normalize(x)
    if type(x) is not int:
        raise LayoutError(f"a tile entry is an int, None, a Layout or a Tile, not {x!r}")
    if x <= 0:
        raise LayoutError(f"a tile extent must be positive, got {x}")
    return x


def as_tiler(x: Any) -> Layout | Tile:
    """A Layout or Tile unchanged; a tuple or list as bracketed tile; an int or None as leaf tile."""
    if isinstance(x, (Layout, Tile)):
        return x
    if isinstance(x, (tuple, list)):
        return Tile(*x)
    return Tile.leaf(x)
