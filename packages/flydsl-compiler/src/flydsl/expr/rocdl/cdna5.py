"""gfx1250: tensor data mover copies and transposing LDS reads. Unstable.

A TDM copy moves a whole tile between global memory and LDS; every wave of the workgroup executes it and moves
its share. It is asynchronous: wait with `s_wait_tensorcnt`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import fly_rocdl
from flydsl.tracing.locations import dsl_loc_tracing, needs_trace

from .. import _emit
from .._target import require_feature
from ..primitive import composition, cosize, crd2idx, group, make_copy_atom, make_tile, size, static
from ..values.layout import Tile, static_layout
from .atoms import WMMAScale

__all__ = [
    "LDSReadTrans", "TDM", "TensorLoad", "TensorStore", "make_tdm_atom", "make_tiled_tdm_atom", "tdm_partition",
    "WMMAScale",
]
# ruff: noqa: N802 - op descriptors are spelled like types


@needs_trace
def LDSReadTrans(trans_granularity: int, bit_size: int) -> ir.Type:
    """Transposing LDS read: granularity and bits of (16, 128), in groups of 8 lanes, or (8, 64), in groups of 16.

    All lanes of the wave take part, each at a multiple of its bits: neither is checked.
    """
    if (trans_granularity, bit_size) not in ((16, 128), (8, 64)):
        raise ValueError(f"LDSReadTrans has no form ({trans_granularity}, {bit_size}) on gfx1250, it has (16, 128) and "
                         "(8, 64)")
    require_feature("LDSReadTrans", "lds_load_transpose")
    return fly_rocdl.CopyOpGFX1250LdsReadTransposeType.get(trans_granularity, bit_size)


@needs_trace
def TDM(rank: int, num_warps: int, pad_interval: int = 0, pad_amount: int = 0, cache_modifier: int = 0,
        atomic_barrier: bool = False, early_timeout: bool = False) -> ir.Type:
    """Copy of a tile of `rank` modes (1 to 5), shared by `num_warps` waves.

    Args:
        pad_interval, pad_amount: `pad_amount` unused LDS elements after every `pad_interval` elements.
    """
    require_feature("TDM", "tensor_data_mover")
    return fly_rocdl.CopyOpGFX1250TDMType.get(
        rank, num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout
    )


def _integer(value: Any, bits: int, what: str) -> ir.Value:
    ty = ir.IntegerType.get_signless(bits)
    if isinstance(value, bool):
        raise TypeError(f"{what} must be an integer, got a bool")
    if isinstance(value, int):
        return _emit.constant(ty, value)
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    return _emit.int_resize(raw, ty, getattr(raw, "signed", True) is not False)


@dsl_loc_tracing
def make_tdm_atom(tensor: Any, tensor_extents: Any, strides: Any = None, *, num_warps: int, pad_interval: int = 0,
                  pad_amount: int = 0, cache_modifier: int = 0, atomic_barrier: bool = False,
                  early_timeout: bool = False) -> Any:
    """A TDM copy atom for `tensor`, with the bounds and strides of its modes set.

    Args:
        tensor_extents: one a mode, outermost first: int, i32 value, or None (no clamp).
        strides: of all modes but the innermost, in elements: int, i64 value, or None (the tensor's own). An entry for
            the innermost mode, whose elements are consecutive, may be there and is not used.
        pad_interval, pad_amount: a gap of so many elements in LDS after every so many; stores leave out the gaps of
            whole rows only.

    Raises:
        ValueError: 1 to 5 extents are needed, and as many strides or one fewer.
    """
    extents = list(tensor_extents)
    if not 1 <= len(extents) <= 5:
        raise ValueError(f"a TDM copy has 1 to 5 modes, got {len(extents)} extents")
    outer = len(extents) - 1
    if strides is not None and len(strides) not in (outer, outer + 1):
        raise ValueError(f"{len(extents)} extents need {outer} strides (or {outer + 1}), got {len(strides)}")
    op = TDM(len(extents), num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout)
    atom = make_copy_atom(op, tensor.element_type)
    for i, extent in enumerate(extents):
        if extent is not None:
            atom = atom.set_value(f"extent_{i}", _integer(extent, 32, f"extent {i}"))
    for i, stride in enumerate(list(strides or ())[:outer]):
        if stride is not None:
            atom = atom.set_value(f"stride_{i}", _integer(stride, 64, f"stride {i}"))
    return atom


@dataclass(frozen=True)
class _TensorCopy:
    """Descriptor of a tiled tensor copy; `make_tiled_tdm_atom` makes the atom."""

    store: bool
    cache_modifier: int = 0


def TensorLoad(cache_modifier: int = 0) -> _TensorCopy:
    """Tiled copy from global memory to LDS by the tensor data mover."""
    require_feature("TensorLoad", "tensor_data_mover")
    return _TensorCopy(False, cache_modifier)


def TensorStore(cache_modifier: int = 0) -> _TensorCopy:
    """Tiled copy from LDS to global memory by the tensor data mover."""
    require_feature("TensorStore", "tensor_data_mover")
    return _TensorCopy(True, cache_modifier)


@dsl_loc_tracing
def make_tiled_tdm_atom(op: Any, tensor: Any, smem_layout: Any, tdm_tile: Any, num_warps: int = 1, *,
                        init_boundary_check: bool = True, atomic_barrier: bool = False,
                        internal_type: Any = None) -> tuple[Any, Any]:
    """The copy atom of a tile of `tensor` and the coordinate tensor to partition.

    Args:
        op: `TensorLoad()` or `TensorStore()`.
        smem_layout: static layout of the tile in LDS; gaps become padding (of loads) or iterations. With iterations, a
            tile in which the tensor ends takes an instruction for each. tdm_tile: the tiler.
        num_warps: waves that share the copy.

    Raises:
        TypeError: `op` is neither. ValueError: `internal_type` is reserved.
    """
    if not isinstance(op, _TensorCopy):
        raise TypeError(f"op must be TensorLoad() or TensorStore(), got {type(op).__name__}")
    if internal_type is not None:
        raise ValueError("internal_type is reserved and must be None")
    build = fly_rocdl.make_tiled_tdm_store_atom if op.store else fly_rocdl.make_tiled_tdm_load_atom
    tile = tdm_tile if isinstance(tdm_tile, Tile) else make_tile(*tdm_tile)
    atom, coordinates = build(
        tensor, static_layout(smem_layout, "smem_layout"), tile, num_warps=num_warps,
        init_boundary_check=init_boundary_check, atomic_barrier=atomic_barrier, cache_modifier=op.cache_modifier,
    )
    return atom, coordinates


@dsl_loc_tracing
def tdm_partition(atom: Any, warp_coord: Any, warp_layout: Any, stensor: Any, gtensor: Any) -> tuple[Any, Any]:
    """The parts of a shared and a (coordinate) tensor that the wave at `warp_coord` of `warp_layout` copies.

    Both tensors have the tile as their mode 0; the results have the shape ``((ATOM, ITER), rest...)``.
    `fx.copy(atom, source, target)` issues one tensor copy for each element of the rest.
    """
    layout = static_layout(warp_layout, "warp_layout")
    count = size(layout).to_py_value()
    if size(cosize(layout)).to_py_value() != count:
        raise ValueError(f"warp_layout must be a bijection onto 0..{count - 1}, got {layout}")
    ty = fly_rocdl.tdm_partition_layout(atom.type, stensor.type, gtensor.type, count)
    parts = static(ty)
    index = crd2idx(warp_coord, layout)

    def mine(tensor: Any) -> Any:
        rest = [None] * (tensor.rank - 1)
        split = composition(tensor, make_tile(parts, *rest)) if rest else composition(tensor, parts)
        where = ((None, index), *rest) if rest else (None, index)
        part = split[where]
        return part if rest else group(part, 0, part.rank)

    return mine(stensor), mine(gtensor)
