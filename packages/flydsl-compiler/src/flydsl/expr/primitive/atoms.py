"""Copy and MMA atoms, tiled operations, and the ops that execute them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly
from flydsl.tracing.diagnostics import warn_here
from flydsl.tracing.locations import dsl_loc_tracing

from .. import _emit
from .._functions import functions
from .._lanes import numel
from .._matrix_arch import require_matrix_arch
from .._vector import Vector
from ..numeric import Numeric, as_numeric
from ..utils.convert import as_ir_value, bit_width
from ..values.atoms import CopyAtom, MmaAtom, TiledCopy, TiledMma, check_state_field
from ..values.base import require
from ..values.element import linear_layout, note_stored
from ..values.ends import SPLIT, WHOLE, end_of, stored_bits
from ..values.int_tuple import to_int_tuple
from ..values.layout import Layout, Tile, static_layout
from ..values.plain import plain
from ..values.tensor import Tensor, address_space_of
from .layouts import group, make_layout, make_tile
from .memory import announce_copy
from .types import OP_BITS, GemmTraversalOrder, MmaOperand


@dsl_loc_tracing
def make_copy_atom(op: ir.Type, elem: Any) -> CopyAtom:
    """Atom of a copy op; `elem` (Numeric class, MLIR type or bit count) gives the width of one value."""
    if not isinstance(op, ir.Type):
        raise TypeError(f"make_copy_atom expects a copy operation, e.g. fx.UniversalCopy32b(), got {op!r}")
    bits = bit_width(elem)
    moved = OP_BITS.search(str(op))
    if moved is not None and int(moved[2]) % bits:
        why = "less than one value" if bits > int(moved[2]) else "no whole number of values"
        raise ValueError(f"make_copy_atom: {op} moves {moved[2]} bits, {why} of {bits}")
    ty = fly.CopyAtomType.get(op, bits)
    return fly.make_copy_atom(ty, [], bits)


@dsl_loc_tracing
def make_mma_atom(op: ir.Type) -> MmaAtom:
    """Atom of an MMA op."""
    if not isinstance(op, ir.Type):
        raise TypeError(f"make_mma_atom expects a matrix operation, e.g. fx.UniversalFMA(fx.Float32), got {op!r}")
    return fly.make_mma_atom(fly.MmaAtomType.get(op))


def _field_name(field: Any) -> str:
    return field if isinstance(field, str) else str(field)


@functions.announce
@dsl_loc_tracing
def atom_set_value(atom: Any, field: Any, value: Any) -> Any:
    """A new atom with a state field set. ValueError when the atom has no such field."""
    require(atom, (CopyAtom, MmaAtom, TiledCopy, TiledMma), "atom_set_value's operand")
    name = _field_name(field)
    check_state_field(atom.type, name)
    if isinstance(value, (bool, int, float)):
        value = as_numeric(value)
    raw = value.ir_value() if isinstance(value, Numeric) else as_ir_value(value)
    return fly.atom_set_value(atom, name, raw)


def _with_state(atom: Any, state: dict[str, Any]) -> Any:
    for field, value in state.items():
        atom = atom_set_value(atom, field, value)
    return atom


# --------------------------------------------------------------------------- tiled objects


def _tile(tile: Any) -> Tile:
    if isinstance(tile, Tile):
        return tile
    if not hasattr(tile, "__iter__"):
        raise TypeError(f"a tile is an fx.Tile or one entry a mode, e.g. (8, 16), got {tile!r}")
    return make_tile(*tile)


@dsl_loc_tracing
def make_tiled_copy(copy_atom: CopyAtom, layout_tv: Any, tile_mn: Any) -> TiledCopy:
    """Tiled copy from a static layout (thread, value) -> colexicographic position in the tile.

    Raises:
        ValueError: the layout is not static or leaves the tile, or a thread has no multiple of the values of the atom.
    """
    if not isinstance(copy_atom, CopyAtom):
        raise TypeError("make_tiled_copy expects a CopyAtom, fx.make_copy_atom(op, elem), got "
                        f"{type(copy_atom).__name__}")
    layout, tile = static_layout(layout_tv, "layout_tv"), _tile(tile_mn)
    _check_tiling(copy_atom, layout, tile)
    return fly.make_tiled_copy(copy_atom, layout, tile)


def _check_tiling(atom: CopyAtom, layout_tv: Layout, tile: Tile) -> None:
    """ValueError unless the layout stays in its tile and consists of whole calls of the atom."""
    tv, cover = plain(layout_tv.type), plain(tile.type)
    items = [item.size() if isinstance(item, algebra.Layout) else item for item in getattr(cover, "items", ())]
    if items and all(isinstance(item, int) for item in items) and tv.cosize() > math.prod(items):
        raise ValueError(f"make_tiled_copy: layout_tv {tv} reaches position {tv.cosize() - 1}, but its tile {cover} "
                         f"has {math.prod(items)} elements")
    reference = getattr(atom.type, "tv_layout_ref", None) if atom.type.val_bits else None
    if reference is None or tv.rank != 2:
        return
    calls = plain(reference)
    for side, what in enumerate(("threads", "values a thread")):
        need, have = calls[side].size(), tv[side].size()
        if have % need:
            raise ValueError(f"make_tiled_copy: a call of {atom} takes {need} {what}, but layout_tv {tv} has {have}: "
                             "a multiple is needed")


@dsl_loc_tracing
def make_tiled_mma(mma_atom: MmaAtom, atom_layout: Any, permutation: Any = None) -> TiledMma:
    """Tiled MMA from a static (M, N, K) arrangement of atoms; `permutation` reorders the modes of the tile.

    Raises:
        ValueError: the arrangement is not static, or a mode of the permutation holds no whole number of its atoms.
    """
    if not isinstance(mma_atom, MmaAtom):
        raise TypeError(f"make_tiled_mma expects an MmaAtom, fx.make_mma_atom(op), got {type(mma_atom).__name__}")
    perm, layout = None if permutation is None else _tile(permutation), static_layout(atom_layout, "atom_layout")
    if perm is not None:
        _check_permutation(mma_atom, layout, perm)
    return fly.make_tiled_mma(mma_atom, layout, permutation=perm)


def _check_permutation(atom: MmaAtom, atom_layout: Layout, permutation: Tile) -> None:
    """ValueError unless the atoms of each mode, side by side, fill what the permutation takes of it."""
    atoms = [mode.size() for mode in plain(atom_layout.type)] if plain(atom_layout.type).rank > 1 else []
    for letter, extent, count, item in zip("MNK", plain(atom.type.shape_mnk), atoms, plain(permutation.type).items,
                                           strict=False):
        size = item.size() if isinstance(item, algebra.Layout) else item
        if isinstance(size, int) and size % (extent * count):
            raise ValueError(f"make_tiled_mma: the permutation takes {size} of {letter}, but {count} atoms of {extent} "
                             f"side by side take {extent * count}: a multiple is needed")


def _tensor(value: Any, what: str) -> Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{what} must be a Tensor, got {type(value).__name__}")
    return value


def _partitioned(value: Any, what: str, modes: int) -> Tensor:
    """The tensor, which has to have at least the modes of the tile that it is partitioned by."""
    tensor = _tensor(value, what)
    if tensor.rank < modes:
        raise ValueError(f"the {what} has rank {tensor.rank}, {tensor}, but is partitioned by a tile of {modes} modes: "
                         "fx.make_view(fx.get_iter(t), layout) gives it as many")
    return tensor


@dsl_loc_tracing
def tiled_copy_partition_src(tiled_copy: TiledCopy, tensor: Any, thr: Any) -> Tensor:
    """Source elements of thread `thr`: ``((AtomV, TV), Rest...)``."""
    source = _partitioned(tensor, "source", tiled_copy.type.tile_mn.rank)
    return fly.tiled_copy_partition_src(tiled_copy, source, to_int_tuple(thr))


@dsl_loc_tracing
def tiled_copy_partition_dst(tiled_copy: TiledCopy, tensor: Any, thr: Any) -> Tensor:
    """Destination elements of thread `thr`: ``((AtomV, TV), Rest...)``."""
    destination = _partitioned(tensor, "destination", tiled_copy.type.tile_mn.rank)
    return fly.tiled_copy_partition_dst(tiled_copy, destination, to_int_tuple(thr))


@dsl_loc_tracing
def tiled_copy_retile(tiled_copy: TiledCopy, tensor: Any) -> Tensor:
    """The same fragment in the copy's value order; storage is shared."""
    return fly.tiled_copy_retile(tiled_copy, _tensor(tensor, "fragment"))


@dsl_loc_tracing
def tiled_mma_partition(operand: Any, tiled_mma: TiledMma, tensor: Any, thr: Any) -> Tensor:
    """Elements of an operand that thread `thr` holds."""
    return fly.tiled_mma_partition(_mma_operand(operand), tiled_mma, _partitioned(tensor, "operand", 2),
                                   to_int_tuple(thr))


@dsl_loc_tracing
def tiled_mma_partition_shape(operand: Any, tiled_mma: TiledMma, shape: Any) -> Any:
    """Shape of `tiled_mma_partition` for a tensor of `shape`."""
    return fly.tiled_mma_partition_shape(_mma_operand(operand), tiled_mma, to_int_tuple(shape))


@functions.announce
@dsl_loc_tracing
def mma_make_fragment(operand: Any, tiled_mma: TiledMma, tensor: Any, *, stages: int | None = None) -> Tensor:
    """Register fragment for an operand, in the atom's element type; `stages` appends a slowest mode.

    `tensor` is the operand's tile or its static shape: two multiples of the tile of the MMA. The registers are in the
    order of the tile's strides; of a shape, along K for A and B. The fragment of a static tile (without stages) knows
    its thread-value layout.
    """
    require(tiled_mma, TiledMma, "tiled_mma")
    if stages is not None and (not isinstance(stages, int) or stages < 1):
        raise ValueError(f"stages must be a positive int, got {stages!r}")
    if isinstance(tensor, (tuple, list)):
        tensor = _stand_in(tuple(tensor), MmaOperand(int(operand)), tiled_mma)
    return fly.mma_make_fragment(_mma_operand(operand), tiled_mma, _partitioned(tensor, "operand", 2), stages=stages)


def _stand_in(shape: tuple[Any, ...], operand: Any, tiled_mma: TiledMma) -> Tensor:
    """A tensor of a shape, of which only the layout is used: registers follow K for operands, M for the accumulator."""
    if len(shape) != 2 or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in shape):
        raise ValueError(f"the shape of a fragment is two positive ints, got {shape!r}")
    sizes = tiled_mma.tile_size_mnk.to_py_value()
    tile = tuple(sizes[i] for i in {"A": (0, 2), "B": (1, 2), "C": (0, 1)}[operand.name])
    if any(n % t for n, t in zip(shape, tile, strict=True)):
        raise ValueError(f"a fragment of {operand.name} of shape {shape} is no repetition of the MMA's tile {tile}")
    pointer = fly.PointerType.get(ir.IntegerType.get_signless(8), fly.AddressSpace.Global, 1)
    nowhere = fly.inttoptr(pointer, _emit.constant(ir.IntegerType.get_signless(64), 0))
    return fly.make_view(nowhere, make_layout(shape, (1, shape[0]) if operand == MmaOperand.C else (shape[1], 1)))


def _mma_operand(operand: Any) -> Any:
    return fly.MmaOperand(int(operand))


# --------------------------------------------------------------------------- execution


def copy_atom_of(atom: Any) -> CopyAtom:
    """The atom of a tiled copy or of a thread's slice of one; an atom as it is."""
    if isinstance(atom, TiledCopy):
        return atom.copy_atom
    if not isinstance(atom, CopyAtom):
        raise TypeError(f"copy expects a CopyAtom, TiledCopy or ThrCopy, got {type(atom).__name__}")
    return atom


def _check_predicate(pred: Any) -> Any:
    if pred is None:
        return None
    _tensor(pred, "pred")
    if str(pred.type.element_type) != "i1":
        raise TypeError(f"pred must be a register tensor of Boolean, got {pred}")
    return pred


_MOVED_BITS = re.compile(r"(?:universal_copy|cdna3\.buffer_copy)<(\d+)")
#: Copies that can be bounded: those above and direct loads into LDS.
_BOUNDED_BITS = re.compile(r"(?:universal_copy|cdna3\.buffer_copy|buffer_copy_lds|_load_async_lds)<(\d+)")


def _mode0_size(layout: Any) -> int:
    """Elements in the first mode of a static layout type."""
    layout = linear_layout(layout)

    def product(shape: Any) -> int:
        if shape.is_leaf:
            return int(shape.get_static_leaf_int)
        return math.prod(product(shape.at(i)) for i in range(shape.rank))

    return product(layout.shape if layout.shape.is_leaf else layout.shape.at(0))


def _check_capacity(atom: Any, *operands: Tensor) -> None:
    """ValueError for a register operand that is smaller than what one call of the atom moves."""
    found = _MOVED_BITS.search(str(atom.type))
    if found is None:
        return
    for tensor in operands:
        if tensor.is_coord_tensor or str(address_space_of(tensor.type)) != str(fly.AddressSpace.Register):
            continue
        width = _emit.bit_width(tensor.type.element_type)
        # A boolean counts as what the atom takes for a value: the byte in memory, or one bit.
        value = atom.type.val_bits if width == 1 else width
        bits = _mode0_size(tensor.type.layout) * value
        if bits < int(found.group(1)):
            hint = "; make_copy_atom(op, 8) counts a boolean as the byte that it takes in memory" if value == 1 else ""
            raise ValueError(f"the atom moves {found.group(1)} bits, but mode 0 of {tensor} holds only {bits}{hint}")


@dsl_loc_tracing
def copy(copy_atom: Any, src: Any, dst: Any, *, pred: Any = None, bounds: Any = None, **state: Any) -> None:
    """Copy a tensor with one atom call per piece; `state` sets atom fields first.

    `src` and `dst` have equal rank: mode 0 holds the values of an atom, the others are iterated. A false
    entry of `pred` (Boolean register tensor) skips its access: a register destination keeps its contents.

    `bounds` stops the copy at the edge of the tensor that the view in memory was cut from: one limit per mode of that
    tensor (an int, a run-time integer, or None for a mode that is never left), or True for its shape. What lies
    beyond is loaded as zero and not stored. An access that a limit may split is narrowed, down to one element; through
    a buffer tensor none of them takes a branch. The view must come from its tensor by slices, divides and partitions.

    A copy converts nothing: both sides have one element type. An integer of the same width copies the bits.
    """
    atom = _with_state(copy_atom_of(copy_atom), state)
    src, dst = _tensor(src, "src"), _tensor(dst, "dst")
    note_stored(dst)
    if src.rank != dst.rank:
        raise ValueError(f"copy: src has rank {src.rank} and dst has rank {dst.rank} ({src} -> {dst})")
    if "fly_rocdl.cdna5.tensor_" in str(atom.type):
        if bounds is not None:
            raise ValueError("tensor copies take no bounds: theirs are in the atom (boundary_check)")
        _tensor_copy(atom, _tensor(src, "src"), _tensor(dst, "dst"), pred)
        return
    _check_capacity(atom, src, dst)
    if bounds is not None and bounds is not False:
        if pred is not None:
            raise ValueError("copy takes pred= or bounds=, not both")
        from .bounds import bounded_copy

        moved = _BOUNDED_BITS.search(str(atom.type))
        bounded_copy(atom, src, dst, bounds, int(moved.group(1)) if moved else None)
        return
    _checked_copy(fly.copy, atom, src, dst, pred)


def _checked_copy(emit: Any, atom: Any, src: Tensor, dst: Tensor, pred: Any) -> None:
    """What copies and single atom calls share: `emit` after the checks, by smaller atoms where `pred` splits words."""
    pred = _check_predicate(pred)
    announce_copy(dst, pred, atom)
    _check_lanes(atom, dst)
    if _splits_words(atom, src, dst):
        from .bounds import split_copy

        split_copy(atom, src, dst, pred)
        return
    emit(atom, src, dst, pred=pred)


_DIRECT_BITS = re.compile(r"(?:buffer_copy_lds|_load_async_lds)<(\d+)")


def _check_lanes(atom: Any, dst: Tensor) -> None:
    """ValueError for a direct load into LDS whose lanes have destinations that the hardware does not write."""
    direct = _DIRECT_BITS.search(str(atom.type))
    if direct is not None and str(address_space_of(dst.type)) == str(fly.AddressSpace.Shared):
        functions.check_lane_order(dst, int(direct[1]))


_BUFFER_BITS = re.compile(r"cdna3\.buffer_copy<(\d+)")


def _splits_words(atom: Any, *operands: Tensor) -> bool:
    """Whether a copy may lose elements in a word that the end of a buffer resource splits, and can be narrowed."""
    text = str(atom.type)
    found, is_direct = _BUFFER_BITS.search(text), "buffer_copy_lds" in text
    if found is None and not is_direct:
        return False
    views = [t for t in operands if not t.is_coord_tensor and address_space_of(t.type) not in list(fly.AddressSpace)]
    ends = [end_of(view) for view in views if is_direct or int(found[1]) > stored_bits(view)]  # type: ignore[index]
    if is_direct and ends and min(ends) < WHOLE:
        what = "a direct load into LDS moves whole words of 32 bits, and the buffer tensor {} inside of one, which "\
               "is loaded as zero: copy through registers, or pad the rows"
        if SPLIT in ends:
            raise ValueError(what.format("ends"))
        warn_here(what.format("may end"))
        return False
    return any(end != WHOLE for end in ends)


def _tensor_copy(atom: Any, src: Tensor, dst: Tensor, pred: Any) -> None:
    """Tensor data mover copies: one call moves a whole tile, whatever the nesting of its modes."""
    if pred is not None:
        raise ValueError("tensor copies take no predicate: their bounds are in the atom (boundary_check)")
    text = str(atom.type)
    shape = re.search(r"shape = \[([0-9, ]+)\]", text)
    count = re.search(r"iterCount = (\d+)", text)
    assert shape is not None
    values = int(count.group(1)) if count else 1
    for extent in shape.group(1).split(","):
        values *= int(extent)

    def whole(view: Tensor) -> Tensor:
        return view if view.rank == 1 else group(view, 0, view.rank)

    shared = dst if ".tensor_load" in text else src
    extents = _extents(shared)
    total = numel(extents)
    if total == values:
        fly.copy_atom_call(atom, whole(src), whole(dst))
        return
    if extents[0] != values:
        raise ValueError(f"mode 0 of a tensor copy has {extents[0]} elements, the atom moves {values}")
    for linear in range(total // values):
        at, rest = [], linear
        for extent in extents[1:]:
            at.append(rest % extent)
            rest //= extent
        place = (None, *at)
        fly.copy_atom_call(atom, whole(src[place]), whole(dst[place]))


@dsl_loc_tracing
def copy_atom_call(copy_atom: Any, src: Any, dst: Any, *, pred: Any = None, **state: Any) -> None:
    """Exactly one atom call between rank-1 views of contiguous elements."""
    atom = _with_state(copy_atom_of(copy_atom), state)
    src, dst = _tensor(src, "src"), _tensor(dst, "dst")
    note_stored(dst)
    _check_capacity(atom, src, dst)
    _checked_copy(fly.copy_atom_call, atom, src, dst, pred)


def _mma_atom_of(mma: Any, state: dict[str, Any]) -> Any:
    if not isinstance(mma, (MmaAtom, TiledMma)):
        raise TypeError(f"an MmaAtom, TiledMma or ThrMma expected, got {type(mma).__name__}")
    require_matrix_arch(mma)
    if isinstance(mma, TiledMma) and state:
        return _with_state(fly.get_mma_atom(mma), state)
    return _with_state(mma, state)


@dsl_loc_tracing
def gemm(
    mma: Any,
    d: Any,
    a: Any,
    b: Any,
    c: Any,
    *,
    traversal_order: Any = None,
    traversal_layout: Any = None,
    atom_callback: Callable[[Any, tuple[int, int, int]], Any] | None = None,
    **state: Any,
) -> None:
    """``d = a * b + c`` over fragments: D, C ``(V,M,N)`` with A ``(V,M[,K])``, B ``(V,N[,K])``, or all rank 1.

    `traversal_order` is a GemmTraversalOrder or its name in any case, for example ``"kmn_serpentine"`` (default NMK:
    N innermost, K outermost), `traversal_layout` a
    static layout step -> linear (m, n, k) index; giving both is a ValueError. `atom_callback(atom, (m, n, k))`
    returns the atom of each step. A and B may be ``[fragment, scales]`` for block-scaled MMA.
    """
    if traversal_order is not None and traversal_layout is not None:
        raise ValueError("gemm takes traversal_order or traversal_layout, not both")
    traversal_order = _traversal_order(traversal_order)
    d, c = _tensor(d, "d"), _tensor(c, "c")
    groups = [_operand_group(a, "a"), _operand_group(b, "b")]
    _check_gemm_ranks(d, groups[0][0], groups[1][0], c)
    order = None if traversal_order is None else fly.GemmTraversalOrder(int(traversal_order))
    layout = None if traversal_layout is None else static_layout(traversal_layout, "traversal_layout")
    atom = _mma_atom_of(mma, state)
    if atom_callback is not None:
        _gemm_steps(atom, d, groups, c, traversal_order, layout, atom_callback)
        return
    fly.gemm(atom, d, *groups, c, traversal_order=order, traversal_layout=layout)


def _traversal_order(order: Any) -> Any:
    """A `GemmTraversalOrder` from itself, its number or its name; ValueError names the known ones."""
    if not isinstance(order, str):
        return order
    names = {str(o.name).lower(): o for o in GemmTraversalOrder}
    if order.lower() not in names:
        raise ValueError(f"unknown traversal_order {order!r}; known: {', '.join(names)}")
    return names[order.lower()]


def _extents(fragment: Tensor) -> tuple[int, ...]:
    """Sizes of the top-level modes of a fragment."""
    shape = fragment.shape
    return tuple(numel(shape[i].to_py_value()) for i in range(fragment.rank))


def _steps(extents: tuple[int, int, int], order: Any, layout: Any) -> list[tuple[int, int, int]]:
    """The (m, n, k) of every step. An order lists its modes from fastest to slowest."""
    m, n, k = extents
    if layout is not None:
        body = re.match(r"!fly\.layout<(.*)>$", str(layout.type))
        assert body is not None
        mapping = algebra.parse(body.group(1))
        linear = [int(mapping(i)) for i in range(m * n * k)]
        if mapping.size() != len(linear) or sorted(linear) != list(range(len(linear))):
            raise ValueError(f"gemm: traversal_layout must be a permutation of the {len(linear)} steps, got {mapping}")
        return [(i % m, i // m % n, i // (m * n)) for i in linear]
    name = GemmTraversalOrder(int(order)).name if order is not None else "NMK"
    letters, serpentine = name.split("_")[0], name.endswith("Serpentine")
    fast, middle, slow = letters[0], letters[1], letters[2]
    size = dict(zip("MNK", extents, strict=True))
    out = []
    for s in range(size[slow]):
        middles = range(size[middle])
        for i, q in enumerate(reversed(middles) if serpentine and s % 2 else middles):
            fasts = range(size[fast])
            for f in reversed(fasts) if serpentine and (s * size[middle] + i) % 2 else fasts:
                at = {fast: f, middle: q, slow: s}
                out.append((at["M"], at["N"], at["K"]))
    return out


def _gemm_steps(atom: Any, d: Tensor, groups: list[list[Tensor]], c: Tensor, order: Any, layout: Any,
                callback: Callable[[Any, tuple[int, int, int]], Any]) -> None:
    """The atom calls of a gemm, one by one; the first visit of each (m, n) reads `c`, later ones `d`."""
    if isinstance(atom, TiledMma):
        atom = fly.get_mma_atom(atom)

    def chosen(step: tuple[int, int, int]) -> MmaAtom:
        found = callback(atom, step)
        if not isinstance(found, MmaAtom):
            raise TypeError(f"gemm: atom_callback must return an MmaAtom, got {found!r} for the step {step}")
        return found

    if d.rank == 1:
        fly.mma_atom_call(chosen((0, 0, 0)), d, *groups, c)
        return
    a, b = groups[0][0], groups[1][0]
    has_k = a.rank == 3
    size_a, size_b, size_d = _extents(a), _extents(b), _extents(d)
    extents = (size_d[1], size_d[2], size_a[2] if has_k else 1)
    if size_a[1] != extents[0] or size_b[1] != extents[1] or (has_k and size_b[2] != extents[2]):
        raise ValueError(f"gemm: extents of d {size_d}, a {size_a} and b {size_b} do not agree")
    visited: set[tuple[int, int]] = set()
    for m, n, k in _steps(extents, order, layout):
        side_a = [x[(None, m, k) if has_k else (None, m)] for x in groups[0]]
        side_b = [x[(None, n, k) if has_k else (None, n)] for x in groups[1]]
        source = d if (m, n) in visited else c
        visited.add((m, n))
        fly.mma_atom_call(chosen((m, n, k)), d[None, m, n], side_a, side_b, source[None, m, n])


def _operand_group(operand: Any, what: str) -> list[Tensor]:
    """The fragment and, for block-scaled MMA, its scale fragment."""
    group = list(operand) if isinstance(operand, (list, tuple)) else [operand]
    if len(group) not in (1, 2):
        raise ValueError(f"gemm: operand {what} is a fragment or [fragment, scales], got {len(group)} entries")
    return [_tensor(x, what) for x in group]


def _check_gemm_ranks(d: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
    ranks = (d.rank, a.rank, b.rank, c.rank)
    if ranks not in ((1, 1, 1, 1), (3, 2, 2, 3), (3, 3, 3, 3)):
        raise ValueError(
            f"gemm: ranks of d, a, b, c are {ranks}; expected (1,1,1,1), or d, c (V,M,N) with a (V,M[,K]), b (V,N[,K])"
        )
    for name, fragment in (("d", d), ("a", a), ("b", b), ("c", c)):
        if not linear_layout(fragment.type.layout).is_static_shape:
            raise ValueError(f"gemm: the extents of {name} must be static, got {fragment}")


@dsl_loc_tracing
def mma_atom_call(atom: Any, d: Any, a: Any, b: Any, c: Any, **state: Any) -> Any:
    """One MMA atom: ``d = a * b + c``. With None as d, a, b and c are vectors of the instruction's sizes (of any
    elements, such as words), and the result is one like c: values need no fragments."""
    if d is None:
        if not all(isinstance(x, Vector) for x in (a, b, c)):
            raise TypeError("mma_atom_call: without d, a, b and c must be vectors")
        operands = [x.ir_value() for x in (a, b, c)]
        result = fly.mma_atom_call_ssa([operands[2].type], _mma_atom_of(atom, state), *operands)
        return type(c)(result, c.shape, c.dtype)
    groups = [_operand_group(a, "a"), _operand_group(b, "b")]
    fly.mma_atom_call(_mma_atom_of(atom, state), _tensor(d, "d"), *groups, _tensor(c, "c"))
