"""Thread slices of tiled operations, and constructions on top of the primitives."""

from __future__ import annotations

import itertools
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.locations import dsl_loc_tracing

from . import primitive as p
from ._functions import functions
from .numeric import NumericMeta
from .primitive import make_tiled_copy
from .primitive.atoms import copy_atom_of
from .values.atoms import CopyAtom, TiledCopy, TiledMma
from .values.base import require
from .values.element import note_element_class
from .values.layout import Layout, static_layout
from .values.plain import plain
from .values.tensor import Tensor

__all__ = [
    "ThrCopy", "ThrMma", "make_layout_tv", "make_tiled_copy", "make_tiled_copy_tv", "make_tiled_copy_A",
    "make_tiled_copy_B", "make_tiled_copy_C", "make_rmem_tensor", "gather", "scatter",
]


def _thread_slice(cls: type) -> Any:
    """Class decorator: a tiled object with a thread index. Binding classes allow no mixin bases."""
    base = cls.__mro__[1]

    def __init__(self: Any, tiled: Any, thr: Any) -> None:
        base.__init__(self, tiled)  # type: ignore[misc]
        self.thr_idx = thr

    def construct(owner: Any, values: list[ir.Value], exemplar: Any = None) -> Any:
        if exemplar is None or len(values) != 1:
            raise ValueError(f"{owner.__name__} cannot be rebuilt from {len(values)} ir.Values without an exemplar")
        # The thread index is fixed when the slice is made: it dominates every region that carries the slice.
        return owner(values[0], exemplar.thr_idx)

    cls.__init__ = __init__  # type: ignore[misc]
    cls.__construct_from_ir_values__ = classmethod(construct)  # type: ignore[attr-defined]
    return cls


@functions.announce
@_thread_slice
class ThrCopy(TiledCopy):
    """The part of one thread in a tiled copy."""

    thr_idx: Any

    @property
    def tiled_copy(self) -> TiledCopy:
        """The copy of all threads."""
        return TiledCopy(self)

    def partition_S(self, tensor: Any) -> Tensor:  # noqa: N802
        """Source view of this thread: ``((AtomV, TV), Rest...)``."""
        return p.tiled_copy_partition_src(self, tensor, self.thr_idx)

    def partition_D(self, tensor: Any) -> Tensor:  # noqa: N802
        """Destination view of this thread: ``((AtomV, TV), Rest...)``."""
        return p.tiled_copy_partition_dst(self, tensor, self.thr_idx)

    def retile(self, fragment: Any) -> Tensor:
        """An MMA-ordered fragment in this copy's value order; storage is shared."""
        return p.tiled_copy_retile(self, fragment)


@functions.announce
@_thread_slice
class ThrMma(TiledMma):
    """The part of one thread in a tiled MMA."""

    thr_idx: Any

    @property
    def tiled_mma(self) -> TiledMma:
        """The product of all threads."""
        return TiledMma(self)

    def partition_A(self, tensor: Any) -> Tensor:  # noqa: N802
        """Elements of A held by this thread: ``(V, M, K, ...)``."""
        return p.tiled_mma_partition(p.MmaOperand.A, self, tensor, self.thr_idx)

    def partition_B(self, tensor: Any) -> Tensor:  # noqa: N802
        """Elements of B held by this thread: ``(V, N, K, ...)``."""
        return p.tiled_mma_partition(p.MmaOperand.B, self, tensor, self.thr_idx)

    def partition_C(self, tensor: Any) -> Tensor:  # noqa: N802
        """Elements of C held by this thread: ``(V, M, N, ...)``."""
        return p.tiled_mma_partition(p.MmaOperand.C, self, tensor, self.thr_idx)


# --------------------------------------------------------------------------- tiled copies


@dsl_loc_tracing
def make_layout_tv(thr_layout: Any, val_layout: Any) -> tuple[Any, Layout]:
    """``(tile_shape, layout_tv)`` of threads that each own a block shaped like `val_layout`.

    Both layouts are static and number the threads and the values of a thread without gaps (ValueError otherwise);
    thread blocks are arranged by `thr_layout`.
    """
    thr = static_layout(thr_layout, "thr_layout")
    val = static_layout(val_layout, "val_layout")
    for layout, what in ((thr, "thr_layout"), (val, "val_layout")):
        numbers = plain(layout.type)
        if algebra.right_inverse(numbers).size() != numbers.size():
            raise ValueError(f"make_layout_tv: {what} {layout} must number its elements from 0 on, each once: use "
                             "strides without gaps and repeats")
    layout_mn = p.raked_product(thr, val)
    counts = p.make_layout(
        (p.size(thr).get_static_leaf_int, p.size(val).get_static_leaf_int), (1, p.size(thr).get_static_leaf_int)
    )
    layout_tv = p.composition(p.right_inverse(layout_mn), counts)
    tile = p.int_tuple_product_each(p.get_shape(layout_mn)).to_py_value()
    return tile, layout_tv


def make_tiled_copy_tv(copy_atom: CopyAtom, thr_layout: Any, val_layout: Any) -> TiledCopy:
    """`make_tiled_copy` of `make_layout_tv`."""
    tile, layout_tv = make_layout_tv(thr_layout, val_layout)
    return make_tiled_copy(copy_atom, layout_tv, tile)


@dsl_loc_tracing
def _make_tiled_copy_for(copy_atom: CopyAtom, tiled_mma: TiledMma, operand: str, modes: tuple[int, int]) -> TiledCopy:
    sizes = require(tiled_mma, TiledMma, "tiled_mma").tile_size_mnk.to_py_value()
    layout_tv = getattr(tiled_mma, f"tv_layout_{operand}_tiled")
    return make_tiled_copy(copy_atom, layout_tv, p.make_tile(*(p.make_layout(sizes[m], 1) for m in modes)))


def make_tiled_copy_A(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """Copy in the thread-value order of operand A; tile (M, K)."""
    return _make_tiled_copy_for(copy_atom, tiled_mma, "A", (0, 2))


def make_tiled_copy_B(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """Copy in the thread-value order of operand B; tile (N, K)."""
    return _make_tiled_copy_for(copy_atom, tiled_mma, "B", (1, 2))


def make_tiled_copy_C(copy_atom: CopyAtom, tiled_mma: TiledMma) -> TiledCopy:  # noqa: N802
    """Copy in the thread-value order of operand C; tile (M, N)."""
    return _make_tiled_copy_for(copy_atom, tiled_mma, "C", (0, 1))


# --------------------------------------------------------------------------- registers


@dsl_loc_tracing
def make_rmem_tensor(shape_or_layout: Any, dtype: Any) -> Tensor:
    """Uninitialised register tensor; a shape gives a colexicographic layout."""
    if not isinstance(dtype, NumericMeta):
        raise TypeError(f"make_rmem_tensor needs a Numeric class, got {dtype!r}")
    layout = shape_or_layout
    if not isinstance(layout, Layout):
        layout = p.make_ordered_layout(shape_or_layout, 0)
    plain(static_layout(layout, "the layout of a register tensor").type)  # ValueError for an extent of 0
    ty = fly.MemRefType.get(dtype.ir_type, layout.type, fly.AddressSpace.Register)
    return note_element_class(p.memref_alloca(ty, layout), dtype)


# --------------------------------------------------------------------------- gather and scatter


def _extents(tensor: Any) -> tuple[int, ...]:
    """Number of elements of each top-level mode of a static tensor."""
    sizes = p.int_tuple_product_each(p.get_shape(tensor)).to_py_value()
    return sizes if isinstance(sizes, tuple) else (sizes,)


def _pieces(offsets: Any) -> Any:
    if not isinstance(offsets, Tensor) or offsets.rank < 1:
        raise ValueError("offsets must be a register Tensor of rank 1 or more")
    return itertools.product(*(range(n) for n in reversed(_extents(offsets))))


def _piece(data: Any, index: tuple[int, ...]) -> Any:
    """Atom-sized slice of ``((AtomV, TV), Rest...)`` at (v, rest...)."""
    return p.slice(data, ((None, index[0]), *index[1:]))


def _memory_view(base: Any, offset: Any, tv_layout: Any) -> Any:
    return p.make_view(p.add_offset(base, offset), p.get_(tv_layout, 1))


@dsl_loc_tracing
def gather(copy_atom: CopyAtom, base_iter: Any, offset_tensor: Any, dst: Any, *, pred: Any = None) -> None:
    """One copy per offset from ``base_iter + offset[v, rest]`` into ``((AtomV, TV), Rest...)``."""
    copy_atom = copy_atom_of(copy_atom)
    for reverse in _pieces(offset_tensor):
        index = tuple(reversed(reverse))
        view = _memory_view(base_iter, offset_tensor[_coordinate(index)], copy_atom.layout_src_tv)
        p.copy(copy_atom, view, _piece(dst, index), pred=_one_predicate(pred, index))


@dsl_loc_tracing
def scatter(copy_atom: CopyAtom, src: Any, base_iter: Any, offset_tensor: Any, *, pred: Any = None) -> None:
    """One copy per offset from ``((AtomV, TV), Rest...)`` to ``base_iter + offset[v, rest]``."""
    copy_atom = copy_atom_of(copy_atom)
    for reverse in _pieces(offset_tensor):
        index = tuple(reversed(reverse))
        view = _memory_view(base_iter, offset_tensor[_coordinate(index)], copy_atom.layout_dst_tv)
        p.copy(copy_atom, _piece(src, index), view, pred=_one_predicate(pred, index))


def _coordinate(index: tuple[int, ...]) -> Any:
    """The coordinate in a tensor of that rank; an integer is one of a leaf, too."""
    return index if len(index) > 1 else index[0]


def _one_predicate(pred: Any, index: tuple[int, ...]) -> Any:
    if pred is None:
        return None
    offset = p.crd2idx(_coordinate(index), p.get_layout(pred))
    return p.make_view(p.add_offset(p.get_iter(pred), offset), p.make_layout(1, 1))
