"""gfx1250: tensor data mover copies. Unstable.

A TDM copy moves a whole tile between global memory and LDS; every wave of the workgroup executes it and moves
its share. It is asynchronous: wait with `s_wait_tensorcnt`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from flydsl._mlir import ir

from .. import _emit
from .._lazy import fly_rocdl
from ..meta import dsl_loc_tracing
from ..primitive import make_copy_atom
from .utils import require_arch

__all__ = ["TDM", "TensorLoad", "TensorStore", "make_tdm_atom", "make_tiled_tdm_atom", "tdm_partition"]
# ruff: noqa: N802 - op descriptors are spelled like types


def TDM(rank: int, num_warps: int, pad_interval: int = 0, pad_amount: int = 0, cache_modifier: int = 0,
        atomic_barrier: bool = False, early_timeout: bool = False) -> ir.Type:  # fmt: skip
    """Copy of a tile of `rank` modes (1 to 5), shared by `num_warps` waves.

    Args:
        pad_interval, pad_amount: `pad_amount` unused LDS elements after every `pad_interval` elements.
    """
    require_arch("TDM", "gfx1250")
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
                  early_timeout: bool = False) -> Any:  # fmt: skip
    """A TDM copy atom for `tensor`, with the bounds and strides of its modes set.

    Args:
        tensor_extents: one a mode, outermost first: int, i32 value, or None (no clamp).
        strides: of all modes but the innermost, in elements: int, i64 value, or None (the tensor's own).

    Raises:
        ValueError: 1 to 5 extents are needed, and one stride fewer than extents.
    """
    extents = list(tensor_extents)
    if not 1 <= len(extents) <= 5:
        raise ValueError(f"a TDM copy has 1 to 5 modes, got {len(extents)} extents")
    if strides is not None and len(strides) != len(extents) - 1:
        raise ValueError(f"{len(extents)} extents need {len(extents) - 1} strides, got {len(strides)}")
    op = TDM(len(extents), num_warps, pad_interval, pad_amount, cache_modifier, atomic_barrier, early_timeout)
    atom = make_copy_atom(op, tensor.element_type)
    for i, extent in enumerate(extents):
        if extent is not None:
            atom = atom.set_value(f"extent_{i}", _integer(extent, 32, f"extent {i}"))
    for i, stride in enumerate(strides or ()):
        if stride is not None:
            atom = atom.set_value(f"stride_{i}", _integer(stride, 64, f"stride {i}"))
    return atom


def _missing(what: str) -> NoReturn:
    raise NotImplementedError(f"{what}: the tiled tensor copies (cdna5.tensor_load, cdna5.tensor_store) are not "
                              "implemented; use make_tdm_atom")  # fmt: skip


def TensorLoad(cache_modifier: int = 0) -> ir.Type:
    """Tiled tensor load (not implemented)."""
    _missing("TensorLoad")


def TensorStore(cache_modifier: int = 0) -> ir.Type:
    """Tiled tensor store (not implemented)."""
    _missing("TensorStore")


def make_tiled_tdm_atom(op: Any, tensor: Any, smem_layout: Any, tdm_tile: Any, num_warps: int = 1, *,
                        init_boundary_check: bool = True, atomic_barrier: bool = False,
                        internal_type: Any = None) -> Any:  # fmt: skip
    """Tiled tensor copy atom and coordinate tensor (not implemented)."""
    _missing("make_tiled_tdm_atom")


def tdm_partition(atom: Any, warp_coord: Any, warp_layout: Any, stensor: Any, gtensor: Any) -> Any:
    """Partition of a tiled tensor copy over waves (not implemented)."""
    _missing("tdm_partition")
