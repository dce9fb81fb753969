"""Copies that stop at the edge of a tensor: which access of a thread lies inside, and how wide it may be.

A view remembers how it was cut: its chain of operations leads back to the tensor. The same chain, applied to the
coordinates of that tensor, tells where every element of the view is. So a bounded copy needs no second partition of a
coordinate tensor and no predicate by hand.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import flydsl.layout as algebra
from flydsl._mlir import ir
from flydsl._mlir.dialects import fly

from .. import _emit
from .._lanes import numel
from ..numeric import Boolean, Int32, Int64
from ..values.ends import divisor as divisor_of
from ..values.ends import stored_bits
from ..values.int_tuple import Basis, IntTuple, to_int_tuple
from ..values.plain import plain
from ..values.tensor import Tensor, address_space_of
from .layouts import get_shape, make_layout, make_tile, zipped_divide
from .memory import make_view, memref_alloca, memref_load, memref_store
from .types import OP_BITS

#: Operations from a tensor to a view of it; the view has the elements of the tensor in other places.
_VIEWS = frozenset({
    "fly.slice", "fly.group", "fly.select", "fly.get", "fly.take", "fly.coalesce", "fly.composition",
    "fly.logical_divide", "fly.zipped_divide", "fly.tiled_divide", "fly.flat_divide", "fly.tiled_copy.partition_src",
    "fly.tiled_copy.partition_dst", "fly.tiled_mma.partition",
})

#: What makes a tensor: an argument of a function, a pointer with a layout, registers.
_TENSORS = frozenset({"gpu.func", "func.func", "fly.make_view", "fly.memref.alloca"})

#: Records of a buffer resource without a size: no offset lies outside of it.
_UNBOUNDED = 0xFFFFFFFF


def owner(value: ir.Value) -> Any:
    """The operation that made a value; None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else getattr(owner, "operation", owner)


def _tensor_operand(op: Any) -> int:
    """Position of the tensor that a view operation looks at."""
    return next(i for i, operand in enumerate(op.operands) if isinstance(operand.type, fly.MemRefType))


def chain(view: Tensor) -> tuple[Tensor, list[Any]]:
    """The tensor that a view was cut from, and the operations on the way, the first one first.

    ValueError for a view that comes out of a loop or branch: what it was cut from is not known.
    """
    value: Any = view
    operations: list[Any] = []
    while (op := owner(value)) is not None and op.name in _VIEWS:
        operations.append(op)
        value = op.operands[_tensor_operand(op)]
    maker = op.name if op is not None else value.owner.owner.operation.name
    if maker not in _TENSORS:
        raise ValueError(f"copy: bounds need a view that is cut from its tensor here, but {Tensor(value)} comes from "
                         f"{maker}: carry indices instead of views, and cut the view where it is copied")
    return Tensor(value), operations[::-1]


def _product(tree: Any) -> Any:
    return math.prod(map(_product, tree)) if isinstance(tree, tuple) else tree


def _mode_strides(shape: Any, mode: int, before: Any = 1) -> tuple[Any, Any]:
    """Strides under which a (nested) mode counts its elements along coordinate `mode`, and their number."""
    if not isinstance(shape, tuple):
        return Basis(before, [mode]), before * shape
    out = []
    for part in shape:
        stride, before = _mode_strides(part, mode, before)
        out.append(stride)
    return tuple(out), before


def coordinates(root: Tensor) -> Tensor:
    """Coordinate tensor of the shape of `root`: (linear position in mode 0, in mode 1, ...)."""
    shape = get_shape(root)
    tree = shape.to_py_value()
    if not isinstance(tree, tuple):
        return make_view(to_int_tuple((0,)), make_layout(shape, Basis(1, [0])))
    strides = tuple(_mode_strides(part, i)[0] for i, part in enumerate(tree))
    return make_view(to_int_tuple((0,) * len(tree)), make_layout(shape, strides))


def replay(operations: list[Any], tensor: Tensor) -> Tensor:
    """The same views of another tensor."""
    value: Any = tensor
    for op in operations:
        at = _tensor_operand(op)
        operands = [value if i == at else operand for i, operand in enumerate(op.operands)]
        attributes = {name: op.attributes[name] for name in op.attributes}
        value = ir.Operation.create(op.name, operands=operands, attributes=attributes, infer_type=True).results[0]
    return Tensor(value)


# --------------------------------------------------------------------------- limits


def extents(tensor: Tensor) -> list[IntTuple]:
    """The number of positions along every mode of a tensor."""
    shape = get_shape(tensor)
    parts = [shape] if shape.is_leaf else [shape[i] for i in range(tensor.rank)]
    return [part if part.is_leaf else to_int_tuple(_product(part.to_py_value())) for part in parts]


def _limits(bounds: Any, root: Tensor) -> list[Any]:
    """One limit for every mode of the tensor: an int, a dynamic leaf as IntTuple, or None."""
    modes = root.rank
    if bounds is True:
        return list(extents(root))
    entries = list(bounds) if isinstance(bounds, (tuple, list)) else None
    if isinstance(bounds, IntTuple):
        entries = [bounds] if bounds.is_leaf else [bounds[i] for i in range(bounds.rank)]
    elif entries is None:
        entries = [bounds]
    if len(entries) != modes:
        raise ValueError(f"copy: bounds has {len(entries)} entries, but the tensor {root} has {modes} modes")
    return [None if entry is None else entry if isinstance(entry, IntTuple) else to_int_tuple(entry)
            for entry in entries]


def divisor(leaf: Any) -> int:
    """A number that divides an integer leaf: the leaf itself where it is static (0 for zero)."""
    return divisor_of(leaf.type if isinstance(leaf, IntTuple) else leaf)


# --------------------------------------------------------------------------- widths


def _layout_leaves(ty: Any) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """(extent, coefficient, coordinate path) of every leaf of a static coordinate layout."""
    plain = algebra.parse(re.sub(r"^!fly\.layout<(.*)>$", r"\1", str(ty)))

    def walk(shape: Any, stride: Any) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        if isinstance(shape, tuple):
            for s, d in zip(shape, stride, strict=True):
                yield from walk(s, d)
        elif isinstance(stride, int):
            yield shape, stride, ()
        else:
            yield shape, stride.value, tuple(stride.modes)

    yield from walk(plain.shape, plain.stride)


def uniform(coords: Tensor, limits: list[Any], width: int) -> bool:
    """Whether `width` elements of the view that follow each other are all inside of the limits or all outside."""
    layout = coords.type.layout
    try:
        leaves = list(_layout_leaves(layout))
    except (algebra.LayoutError, ValueError, TypeError, AttributeError):
        return False  # a dynamic coefficient: element by element
    spans: dict[int, int] = {}  # how far the elements of one access reach along each coordinate
    steps: list[tuple[int, int]] = []  # (coordinate, step) from one access to another
    left = width
    for extent, coefficient, path in leaves:
        inside = math.gcd(left, extent)
        if inside not in (left, extent):
            return False
        left //= inside
        if extent == 1 or coefficient == 0:
            continue
        if len(path) != 1:
            return False
        if inside > 1:
            spans[path[0]] = spans.get(path[0], 0) + (inside - 1) * abs(coefficient)
        if extent > inside:
            steps.append((path[0], coefficient * inside))
    if left > 1:
        return False
    base = coords.type.base
    for mode, span in spans.items():
        if span == 0 or limits[mode] is None:
            continue
        divisors = [divisor(limits[mode]), divisor(base.at(mode) if base.rank > 1 or not base.is_leaf else base)]
        divisors += [step for where, step in steps if where == mode]
        if any(divisor % (span + 1) for divisor in divisors):
            return False
    return True


def narrowed(atom: Any, bits: int) -> Any:
    """The same copy atom, with its state, for values of `bits` bits. ValueError if there is none."""
    text = str(atom.type)
    found = OP_BITS.search(text)
    op = owner(atom)
    if found is not None and op is not None and op.name == "fly.atom.set_value":
        inner = narrowed(op.operands[0], bits)
        return fly.atom_set_value(inner, op.attributes["field"], op.operands[1])
    if op is not None and op.name == "fly.get_copy_atom" and (tiled := owner(op.operands[0])) is not None:
        return narrowed(tiled.operands[0], bits)
    known = op is not None and op.name == "fly.make_copy_atom" or found is not None and found[1] == "universal_copy"
    if found is None or not known or bits % 8:
        raise ValueError(f"copy: bounds need accesses of {bits} bits here, and {atom.type} cannot be made narrower")
    inner_type = re.match(r"!fly\.copy_atom<(.*), *\d+>$", text)
    assert inner_type is not None
    moved = ir.Type.parse(OP_BITS.sub(rf"\1<{bits}", inner_type[1]))
    return fly.make_copy_atom(fly.CopyAtomType.get(moved, bits), [], bits)


# --------------------------------------------------------------------------- the copy


def _is_register(tensor: Tensor) -> bool:
    return str(address_space_of(tensor.type)) == str(fly.AddressSpace.Register)


def _bounded_operand(src: Tensor, dst: Tensor) -> Tensor:
    """The operand in memory that the bounds are about: LDS only where there is no other."""
    memory = [t for t in (src, dst) if not t.is_coord_tensor and not _is_register(t)]
    shared = str(fly.AddressSpace.Shared)
    outer = [t for t in memory if str(address_space_of(t.type)) != shared]
    if not memory:
        raise ValueError(f"copy: bounds need an operand in memory, got {src} -> {dst}")
    return (outer or memory)[0]


def _moved_by_state(atom: Any) -> bool:
    """Whether a state field moves the accesses away from the coordinates of the view."""
    op = owner(atom)
    while op is not None and op.name == "fly.atom.set_value":
        if "soffset" in str(op.attributes["field"]) or "imm_offset" in str(op.attributes["field"]):
            return True
        op = owner(op.operands[0])
    return False


def _check_resource(root: Tensor) -> None:
    """ValueError for a buffer tensor whose resource has no size: nothing would be outside of it."""
    value: Any = root
    while (op := owner(value)) is not None:
        if op.name == "fly.make_ptr":
            records = owner(op.operands[2]) if len(op.operands) == 4 else None
            if records is not None and records.name == "arith.constant":
                if ir.IntegerAttr(records.attributes["value"]).value in (_UNBOUNDED, -1):
                    raise ValueError("copy: bounds need a buffer tensor that knows its size: make it with "
                                     "make_buffer_tensor(t), without max_size=True")
            return
        if op.name not in ("fly.make_view", "fly.get_iter", "fly.recast_iter", "fly.add_offset"):
            return
        value = op.operands[0]


def _leaf(value: Any) -> Any:
    return value.get_static_leaf_int if value.type.is_static else value.to_py_value()


def _inside(coordinate: Any, limits: list[Any]) -> Any:
    """Whether a coordinate is below every limit."""
    entries = coordinate if isinstance(coordinate, tuple) else (coordinate,)
    conditions = []
    for entry, limit in zip(entries, limits, strict=True):
        if limit is None:
            continue
        bound = _leaf(limit)
        wide = any(isinstance(x, Int64) for x in (entry, bound))
        kind = Int64 if wide else Int32
        conditions.append(kind(entry) < kind(bound))
    if not conditions:
        return Boolean(True)
    result = conditions[0]
    for condition in conditions[1:]:
        result = result & condition
    return Boolean(result)


def values_of(view: Tensor) -> int:
    """Elements of the first mode: the values of an access."""
    shape = get_shape(view)
    return _product((shape if view.rank == 1 else shape[0]).to_py_value())


def pieces(tensor: Tensor, width: int) -> Tensor:
    """``(values of one access, accesses)``."""
    return zipped_divide(tensor, make_tile(width))


def bounded_copy(atom: Any, src: Tensor, dst: Tensor, bounds: Any, bits: int | None) -> None:
    """`copy` of what lies below the bounds; an access beyond them loads zero and stores nothing.

    `bits` is what one call of the atom moves.
    """
    if bits is None:
        raise ValueError(f"copy: {atom.type} takes no bounds")
    memory = _bounded_operand(src, dst)
    root, operations = chain(memory)
    if address_space_of(root.type) not in list(fly.AddressSpace):
        _check_resource(root)
    limits = _limits(bounds, root)
    if all(limit is not None for limit in limits) and _moved_by_state(atom):
        raise ValueError("copy: an offset of the atom (soffset) moves its accesses, and bounds look at the coordinates "
                         "of the view: give None for the mode along which it moves, or slice the view")
    coords = replay(operations, coordinates(root))
    element = stored_bits(memory)
    width = max(bits // element, 1)
    while width > 1 and not uniform(coords, limits, width):
        width //= 2
    if width * element < bits:
        atom = narrowed(atom, width * element)
    src, dst, coords = (pieces(t, width) for t in (src, dst, coords))
    count = _product(get_shape(coords)[1].to_py_value())
    if not isinstance(count, int):
        raise ValueError(f"copy: bounds need a static number of accesses, got {memory}")
    layout = make_layout(count, 1)
    pred = memref_alloca(fly.MemRefType.get(Boolean.ir_type, layout.type, fly.AddressSpace.Register), layout)
    for i in range(count):
        coordinate = memref_load(coords, (0, i)).to_py_value()
        memref_store(_inside(coordinate, limits), pred, i)
    fly.copy(atom, src, dst, pred=pred, zero_fill=True)


def values_of_call(atom: Any, view: Tensor) -> int:
    """Elements of a view that one call of a copy atom moves."""
    bits, element = atom.type.val_bits, _emit.bit_width(view.type.element_type)
    moved = plain(atom.type.tv_layout_ref)[1].size() * bits
    return int(moved // (bits if element == 1 else element))


def each_piece(pred: Tensor, view: Tensor, call: int, width: int) -> Tensor:
    """The predicate of the pieces of `width` values that a view has, as ``(1, pieces)``.

    Args:
        pred: of a copy of the view. Its first mode has an entry for each call of the atom, or it lacks this mode and
            an entry holds for all values.
        view: what is copied.
        call: elements that one call of the atom moves.
        width: elements of a piece; it divides `call`.

    Raises:
        ValueError: the predicate does not fit the view.
    """
    layout, values = plain(pred.type.layout), values_of(view)
    calls, rest = max(values // call, 1), numel(get_shape(view).to_py_value()) // values
    modes = [layout[i] for i in range(layout.rank)]
    sizes = [mode.size() for mode in modes]
    if len(modes) == view.rank and sizes[0] in (1, calls) and math.prod(sizes[1:]) == rest:
        first, *modes = modes
    elif math.prod(sizes) == rest:
        first = algebra.Layout(1, 0)
    else:
        raise ValueError(f"copy: pred {pred} fits neither the {calls} calls of mode 0 of {view} nor its {rest} groups "
                         "of values")
    same = (values if first.size() == 1 else call) // width
    shape, stride = (tuple(getattr(mode, what) for mode in (first, *modes)) for what in ("shape", "stride"))
    return make_view(fly.get_iter(pred), make_layout((1, (same, *shape)), (0, (0, *stride))))


def split_copy(atom: Any, src: Tensor, dst: Tensor, pred: Tensor | None) -> None:
    """`copy` through a buffer tensor whose end may split a word: one element an access."""
    memory = src if not _is_register(src) else dst
    element = stored_bits(memory)
    if pred is not None:
        pred = each_piece(pred, memory, values_of_call(atom, memory), 1)
    fly.copy(narrowed(atom, element), pieces(src, 1), pieces(dst, 1), pred=pred)
