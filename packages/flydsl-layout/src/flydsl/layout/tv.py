"""Thread-value layouts: copy atoms, MMA atoms, tiled copies and tiled MMAs as pure layout functions.

A thread-value (TV) layout maps ``(thread, value)`` to the linear (colexicographic) position in a tile.  The views below
are those that the ``fly`` dialect infers for ``tiled_copy.partition_*``, ``tiled_copy.retile`` and
``tiled_mma.partition``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import coords, inttuple as it
from .algebra import coalesce, complement, linear_of, rewrap
from .compose import composition
from .construct import cosize, make_fragment_layout_like, recast_layout, upcast
from .core import ComposedLayout, Layout, Tile, make_pair
from .divide import logical_divide, logical_product, raked_product, tiled_product, zipped_divide
from .errors import LayoutError
from .inverses import right_inverse
from .scalar import IntTuple, Leaf
from .values import picture

_UNIT = Layout(1, 1)


@dataclass(frozen=True)
class CopyAtom:
    """A copy instruction: how its threads and values cover the elements it moves, in elements of ``val_bits`` bits.

    ``src`` and ``dst`` map (thread, value) to a position; ``ref`` is the common numbering both are relative to.
    """

    thr: Layout
    src: Layout
    dst: Layout
    ref: Layout
    val_bits: int

    @classmethod
    def universal(cls, bits: int, val_bits: int) -> CopyAtom:
        """A copy of ``bits`` contiguous bits by one thread."""
        return cls.from_bits(_UNIT, Layout((1, bits), (1, 1)), val_bits)

    @classmethod
    def from_bits(cls, thr: Layout, src: Layout, val_bits: int, dst: Layout | None = None) -> CopyAtom:
        """From bit-granular layouts; ``dst`` (also the reference) defaults to ``src``."""
        s = recast_layout(src, 1, val_bits)
        d = s if dst is None else recast_layout(dst, 1, val_bits)
        return cls(thr, s, d, d, val_bits)


@dataclass(frozen=True)
class MmaAtom:
    """A matrix instruction: who holds which element of its operands.

    ``shape_mnk`` are the extents of the tile in elements, ``thr`` is the layout of the threads that take part, and
    ``a``, ``b`` and ``c`` map (thread, value) to offsets in column-major tiles (M,K), (N,K) and (M,N).
    """

    shape_mnk: tuple[int, int, int]
    thr: Layout
    a: Layout
    b: Layout
    c: Layout
    name: str = ""

    @classmethod
    def universal_fma(cls) -> MmaAtom:
        """The scalar 1x1x1 multiply-add."""
        one = Layout((1, 1), (1, 1))
        return cls((1, 1, 1), _UNIT, one, one, one, "universal_fma")

    def _repr_svg_(self) -> str | None:
        return picture(self)

    def operand(self, name: str) -> Layout:
        """The TV layout of operand a, b, c or d (= c); LayoutError for any other name."""
        return {"a": self.a, "b": self.b, "c": self.c, "d": self.c}[_operand(name)]


def _operand(name: str) -> str:
    name = name.lower()
    if name not in ("a", "b", "c", "d"):
        raise LayoutError(f"an MMA operand is a, b, c or d, not {name!r}")
    return name


def make_layout_tv(thr_layout: Layout, val_layout: Layout) -> tuple[IntTuple, Layout]:
    """Tile shape and TV layout in which every thread owns a ``val_layout`` block, arranged by ``thr_layout``.

    >>> make_layout_tv(Layout((8, 16), (16, 1)), Layout((1, 4), (0, 1)))
    ((8, 64), Layout(((16, 8), 4), ((32, 1), 8)))

    :raises LayoutError: a layout is not static, or does not number its elements from 0 on, each once
    """
    for x in (thr_layout, val_layout):
        if not x.is_static:
            raise LayoutError(f"make_layout_tv needs static layouts, got {x}")
        if right_inverse(x).size() != x.size():
            raise LayoutError(f"make_layout_tv needs layouts that number their elements from 0 on, each once, got {x}")
    mn = raked_product(thr_layout, val_layout)
    tv = composition(right_inverse(mn), Layout((thr_layout.size(), val_layout.size())))
    return it.product_each(mn.shape), tv


def _tile_extents(tile: Tile) -> tuple[Leaf, ...]:
    def extent(e: Any) -> Leaf:
        if isinstance(e, Layout):
            return e.size()
        if isinstance(e, Tile):
            return it.product(tuple(extent(x) for x in e.items))
        if e is None:
            raise LayoutError(f"the tile {tile} of a tiled copy must give every extent")
        return e

    return tuple(extent(e) for e in tile.items)


@dataclass(frozen=True)
class TiledCopy:
    """A copy atom repeated over the threads and values of ``layout_tv`` to move a tile of shape ``tile``."""

    atom: CopyAtom
    layout_tv: Layout
    tile: Tile

    def _repr_svg_(self) -> str | None:
        return picture(self)

    def _map(self, x: Layout, tensor: Layout, rest: Layout) -> Layout:
        """(thr, (val, rest val), rest...) of a tile layout and the layout of its repetitions."""
        ref = self.atom.ref
        inner = composition(right_inverse(ref), x)
        q = zipped_divide(self.layout_tv, Tile(it.product(ref.shape[0]), it.product(ref.shape[1])))
        q0 = composition(q[0], inner)
        w = make_pair(it.zip_((q0.shape, q[1].shape)), it.zip_((q0.stride, q[1].stride)))
        r = composition(tensor, coalesce(w, (1, (1, 1))))
        return make_pair((*r.shape, rest.shape), (*r.stride, rest.stride))

    def view(self, layout: Any, side: str = "src") -> Layout:
        """``(thr, (val, rest val), rest of the tensor)`` of a layout; ``side`` is ``src`` or ``dst``."""
        x = _side(self.atom, side)
        z = zipped_divide(linear_of(layout), self.tile)
        return self._map(x, z[0], z[1])

    def partition(self, layout: Any, thr: Any, side: str = "src") -> tuple[Any, IntTuple]:
        """The part that thread ``thr`` moves: ``((val, rest val), rest0, rest1, ...)`` and its offset.

        For a composed layout the offset goes into the layout and the returned offset is 0.
        """
        v = self.view(layout, side)
        return _take_thread(layout, v, it.normalize(thr), 2)

    def partition_src(self, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
        """`partition` of the source."""
        return self.partition(layout, thr, "src")

    def partition_dst(self, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
        """`partition` of the destination."""
        return self.partition(layout, thr, "dst")

    def tv_layout(self, side: str = "src", shape: Any = None) -> Layout:
        """(thread, (value, rest)) to the position in the tile.

        ``shape`` is that of a larger tile, which this one divides: its values are those of a partition of it, with one
        mode for the values in this tile and one for the repetitions along each mode.
        """
        extents = _tile_extents(self.tile)
        if shape is None:
            r = self._map(_side(self.atom, side), Layout(extents), Layout(1, 0))
            return make_pair(r.shape[:2], r.stride[:2])
        _check_divides(extents, shape)
        v = self.view(Layout(tuple(shape)), side)
        rest = it.modes_of(v.shape[2]), it.modes_of(v.stride[2])
        return make_pair((v.shape[0], (v.shape[1], *rest[0])), (v.stride[0], (v.stride[1], *rest[1])))

    def retile(self, layout: Layout) -> Layout:
        """View a per-thread fragment (mode 0 = values of one instruction) in the value order of this copy."""
        tv = self.layout_tv
        v = it.product(it.get(layout.shape, 0))
        f = it.product(it.get(tv.shape, 0)) * v
        frg = upcast(composition(right_inverse(tv), Layout(_tile_extents(self.tile))), f)
        p = logical_product(Layout(v), right_inverse(frg))
        k = zipped_divide(p, Layout(it.product(self.atom.ref.shape[1])))
        z = zipped_divide(layout, Tile(v, *it.modes_of(it.product_each(frg.shape))))
        first = composition(z[0], k)
        return make_pair((first.shape, *z.shape[1][1:]), (first.stride, *z.stride[1][1:]))


def _side(atom: CopyAtom, side: str) -> Layout:
    if side not in ("src", "dst"):
        raise LayoutError(f"the side of a copy is src or dst, not {side!r}")
    return atom.src if side == "src" else atom.dst


def _take_thread(layout: Any, view: Layout, coord: IntTuple, spread: int) -> tuple[Any, IntTuple]:
    """Slice the thread mode of a view away and spread the mode at ``spread``."""
    offset = coords.crd2idx(coord, view.shape[0], view.stride[0])
    e = make_pair(it.expand(view.shape, (spread,)), it.expand(view.stride, (spread,)))
    part = make_pair(tuple(e.shape[1:]), tuple(e.stride[1:]))
    if isinstance(layout, ComposedLayout):
        return _shift(rewrap(layout, part), offset), 0
    return part, offset


def _shift(x: ComposedLayout, offset: IntTuple) -> ComposedLayout:
    if isinstance(x.outer, ComposedLayout):
        return ComposedLayout(x.inner, x.offset, _shift(x.outer, offset))
    return ComposedLayout(x.inner, it.add(x.offset, offset), x.outer)


@dataclass(frozen=True)
class TiledMma:
    """An MMA atom repeated over the (M,N,K) arrangement ``atom_layout``, with an optional permutation of M, N and K.

    :raises LayoutError: an operand of the atom is not one dense block
    """

    atom: MmaAtom
    atom_layout: Layout
    permutation: Tile = field(default_factory=lambda: Tile(None, None, None))

    def __post_init__(self) -> None:
        m, n, k = self.atom.shape_mnk
        for name, layout, size in (("a", self.atom.a, m * k), ("b", self.atom.b, n * k), ("c", self.atom.c, m * n)):
            if cosize(layout) != size:
                raise LayoutError(
                    f"a tiled MMA needs an instruction of one dense block: {name} of {self.atom.name or 'the atom'}"
                    f" covers {cosize(layout)} positions, its tile has {size}"
                )

    def _repr_svg_(self) -> str | None:
        return picture(self)

    @property
    def thr_layout_vmnk(self) -> Layout:
        """(atom thread, M, N, K) to the thread index."""
        return tiled_product(self.atom.thr, self.atom_layout)  # type: ignore[no-any-return]

    def _perm(self, i: int) -> Any:
        items = self.permutation.items
        entry = items[i] if i < len(items) else None
        if entry is not None:
            return entry
        return self.atom.shape_mnk[i] * it.product(it.get(self.atom_layout.shape, i))

    @property
    def tile_size_mnk(self) -> tuple[Leaf, Leaf, Leaf]:
        """Extent of the tile in M, N and K."""
        m, n, k = (_tile_extents(Tile(self._perm(i)))[0] for i in range(3))
        return m, n, k

    def view(self, operand: str, layout: Any) -> Layout:
        """``((V, (i, j)), (frag, (rest i, rest j, ...)))`` of an operand's layout: threads, then values."""
        operand = _operand(operand)
        i, j = {"a": (0, 2), "b": (1, 2), "c": (0, 1), "d": (0, 1)}[operand]
        shape = self.atom.shape_mnk
        divided = logical_divide(linear_of(layout), Tile(self._perm(i), self._perm(j)))
        a = zipped_divide(divided, Tile(shape[i], shape[j]))
        c = composition(a[0], self.atom.operand(operand))
        n = [it.product(it.get(self.atom_layout.shape, m)) for m in (i, j)]
        t = zipped_divide(a[1], Tile(*n))
        return make_pair(
            ((c.shape[0], t.shape[0]), (c.shape[1], t.shape[1])),
            ((c.stride[0], t.stride[0]), (c.stride[1], t.stride[1])),
        )

    def thread_coord(self, operand: str, thr: Any) -> IntTuple:
        """Coordinate of a thread in the thread mode of :meth:`view`."""
        vmnk = self.thr_layout_vmnk
        crd = coords.idx2crd(it.normalize(thr), vmnk.shape, vmnk.stride)
        i, j = {"a": (1, 3), "b": (2, 3), "c": (1, 2), "d": (1, 2)}[_operand(operand)]
        return crd[0], (crd[i], crd[j])

    def partition(self, operand: str, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
        """The part of an operand that thread ``thr`` holds, ``(V, rest0, rest1, ...)``, and its offset."""
        v = self.view(operand, layout)
        frag = make_pair(
            (v.shape[0], v.shape[1][0], v.shape[1][1]),
            (v.stride[0], v.stride[1][0], v.stride[1][1]),
        )
        thr = it.normalize(thr)
        coord = thr if type(thr) is tuple else self.thread_coord(operand, thr)
        return _take_thread(layout, frag, coord, 2)

    def partition_shape(self, operand: str, shape: Any) -> IntTuple:
        """The shape of one thread's part of an operand of the given shape."""
        v = self.view(operand, Layout(shape)).shape[1]
        return it.expand(v, (1,))

    def make_fragment(self, operand: str, layout: Layout, stages: int | None = None) -> Layout:
        """Register layout of one thread's part; ``stages`` keeps the first two modes and appends a slowest mode."""
        if stages is not None:
            layout = make_pair(it.take(layout.shape, 0, 2), it.take(layout.stride, 0, 2))
        v = self.view(operand, layout)
        part = make_pair(it.expand(v.shape[1], (1,)), it.expand(v.stride[1], (1,)))
        frag = make_fragment_layout_like(part)
        if stages is None:
            return frag
        room = it.product(it.filter_zero(frag.stride, frag.shape))
        return make_pair((*frag.shape, stages), (*frag.stride, room))

    def tv_layout(self, operand: str, shape: Any = None) -> Layout:
        """(thread, value) of all threads to the position in the operand's tile.

        ``shape`` is that of a larger tile, which this one divides: its values are those of a fragment of it, with one
        mode for the instruction and one for the repetitions along each mode of the tile.
        """
        operand = _operand(operand)
        sizes = self.tile_size_mnk
        i, j = {"a": (0, 2), "b": (1, 2), "c": (0, 1), "d": (0, 1)}[operand]
        if shape is not None:
            _check_divides((sizes[i], sizes[j]), shape)
        f = self.view(operand, Layout((sizes[i], sizes[j]) if shape is None else tuple(shape)))
        t = f[0]
        vmnk = self.thr_layout_vmnk
        if operand in ("a", "b"):
            mn = Layout((vmnk.shape[1], vmnk.shape[2]), (1, 0) if operand == "a" else (0, 1))
            t = composition(t, Tile(None, Tile(mn, None)))
        g = _pair_layout(vmnk, complement(vmnk))
        n = vmnk.size()
        j_map = composition(Layout((n, 1), (1, 0)), right_inverse(g))
        thr = composition(t, j_map)
        if shape is None:
            return make_pair((thr.shape, f.shape[1]), (thr.stride, f.stride[1]))
        return make_pair((thr.shape, it.expand(f.shape[1], (1,))), (thr.stride, it.expand(f.stride[1], (1,))))


def _check_divides(tile: tuple[Any, ...], shape: Any) -> None:
    shape = tuple(shape)
    if len(shape) != len(tile) or any(s % t for s, t in zip(shape, tile, strict=True)):
        raise LayoutError(f"a tile of shape {shape} is not a repetition of {tile}")


def _pair_layout(a: Layout, b: Layout) -> Layout:
    return make_pair((a.shape, b.shape), (a.stride, b.stride))


def make_tiled_copy_tv(atom: CopyAtom, thr_layout: Layout, val_layout: Layout) -> TiledCopy:
    """A tiled copy in which every thread owns a ``val_layout`` block (see :func:`make_layout_tv`)."""
    tile, tv = make_layout_tv(thr_layout, val_layout)
    return TiledCopy(atom, tv, Tile(*it.modes_of(tile)))


def make_tiled_copy_for(operand: str, atom: CopyAtom, mma: TiledMma) -> TiledCopy:
    """A tiled copy whose threads and values are those of an operand of a tiled MMA."""
    i, j = {"a": (0, 2), "b": (1, 2), "c": (0, 1), "d": (0, 1)}[_operand(operand)]
    sizes = mma.tile_size_mnk
    return TiledCopy(atom, mma.tv_layout(operand), Tile(Layout(sizes[i]), Layout(sizes[j])))


def make_tiled_copy(atom: CopyAtom, layout_tv: Layout, tile: Any) -> TiledCopy:
    """A copy atom repeated over a static (thread, value) layout of a tile (a Tile, or its entries)."""
    if not layout_tv.is_static:
        raise LayoutError(f"a tiled copy needs a static thread-value layout, got {layout_tv}")
    return TiledCopy(atom, layout_tv, tile if isinstance(tile, Tile) else Tile(*it.modes_of(tile)))


def make_tiled_mma(atom: Any, atom_layout: Layout | None = None, permutation: Any = None) -> TiledMma:
    """An MMA atom (or an entry of :func:`flydsl.layout.mma_atom`) repeated over an (M,N,K) arrangement."""
    atom = getattr(atom, "atom", atom)
    layout = Layout((1, 1, 1), (0, 0, 0)) if atom_layout is None else atom_layout
    if not layout.is_static or layout.rank != 3:
        raise LayoutError(f"the arrangement of atoms must be a static layout of the modes M, N and K, got {layout}")
    if permutation is None:
        return TiledMma(atom, layout)
    return TiledMma(atom, layout, permutation if isinstance(permutation, Tile) else Tile(*permutation))


def make_tiled_copy_A(atom: CopyAtom, mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The tiled copy whose threads and values are those of operand A."""
    return make_tiled_copy_for("a", atom, mma)


def make_tiled_copy_B(atom: CopyAtom, mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The tiled copy whose threads and values are those of operand B."""
    return make_tiled_copy_for("b", atom, mma)


def make_tiled_copy_C(atom: CopyAtom, mma: TiledMma) -> TiledCopy:  # noqa: N802
    """The tiled copy whose threads and values are those of C."""
    return make_tiled_copy_for("c", atom, mma)


def tiled_copy_partition_src(copy: TiledCopy, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
    """What thread ``thr`` reads: ``((val, rest val), rest...)`` and its offset."""
    return copy.partition(layout, thr, "src")


def tiled_copy_partition_dst(copy: TiledCopy, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
    """What thread ``thr`` writes: ``((val, rest val), rest...)`` and its offset."""
    return copy.partition(layout, thr, "dst")


def tiled_copy_retile(copy: TiledCopy, layout: Layout) -> Layout:
    """A thread's fragment (mode 0 = values of one instruction) in the value order of the copy."""
    return copy.retile(layout)


def tiled_mma_partition(operand: str, mma: TiledMma, layout: Any, thr: Any) -> tuple[Any, IntTuple]:
    """What thread ``thr`` holds of an operand: ``(V, rest0, rest1, ...)`` and its offset."""
    return mma.partition(operand, layout, thr)


def tiled_mma_partition_shape(operand: str, mma: TiledMma, shape: Any) -> IntTuple:
    """The shape of one thread's part of an operand of the given shape."""
    return mma.partition_shape(operand, shape)


def mma_make_fragment(operand: str, mma: TiledMma, layout: Layout, stages: int | None = None) -> Layout:
    """Register layout of one thread's part of an operand."""
    return mma.make_fragment(operand, layout, stages)
