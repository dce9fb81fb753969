"""Thread and block indices, barrier, shuffles, and the shared-memory allocator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from flydsl._mlir import ir
from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.lazy import arith, vector
from flydsl.tracing.lazy import gpu as _gpu
from flydsl.tracing.locations import dsl_loc_tracing
from flydsl.tracing.numbers import number_of

from . import _emit
from ._shared import SharedAllocator
from ._vector import Vector
from .numeric import Int32, Numeric, as_numeric
from .utils.arith import gpu_shuffle_mode, i32_operand

__all__ = [
    "thread_idx", "block_idx", "block_dim", "grid_dim", "lane_id", "barrier", "shuffle_xor", "shuffle_up",
    "shuffle_down", "shuffle_idx", "known_block_size", "num_warp_threads", "SharedAllocator",
]


def _dimension(axis: str) -> ir.Attribute:
    return ir.Attribute.parse(f"#gpu<dim {axis}>")


class Tuple3D:
    """Three Int32 values `.x`, `.y`, `.z`, each emitted when read; iterable."""

    def __init__(self, read: Callable[[str], Any]) -> None:
        object.__setattr__(self, "_read", read)

    if TYPE_CHECKING:
        x: Int32
        y: Int32
        z: Int32

    def __getattr__(self, axis: str) -> Any:
        if axis not in ("x", "y", "z"):
            raise AttributeError(f"a 3-D index has the attributes x, y and z, not {axis!r}")
        return self._read(axis)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("GPU indices cannot be assigned")

    def __iter__(self) -> Iterator[Any]:
        return (self._read(axis) for axis in ("x", "y", "z"))

    def __repr__(self) -> str:
        return "Tuple3D(x, y, z)"


def _reader(op: str) -> Tuple3D:
    @dsl_loc_tracing
    def read(axis: str) -> Any:
        return Int32(getattr(_gpu, op)(_dimension(axis)))

    return Tuple3D(read)


thread_idx = _reader("thread_id")
block_idx = _reader("block_id")
block_dim = _reader("block_dim")
grid_dim = _reader("grid_dim")


@dsl_loc_tracing
def thread_id(axis: str) -> Any:
    """Index-typed raw thread id."""
    return _gpu.thread_id(_dimension(axis))


@dsl_loc_tracing
def block_id(axis: str) -> Any:
    """Index-typed raw block id."""
    return _gpu.block_id(_dimension(axis))


@dsl_loc_tracing
def lane_id() -> Any:
    """Lane in the wave: Int32 in ``[0, num_warp_threads())``."""
    return Int32(_gpu.lane_id())


@dsl_loc_tracing
def barrier() -> None:
    """Workgroup barrier with memory fence."""
    _gpu.barrier()


def num_warp_threads() -> int:
    """Threads of a wave of the compile target: 64 on CDNA, 32 on RDNA and gfx1250."""
    from ._target import target_warp_size

    return target_warp_size()


def known_block_size() -> tuple[int, int, int]:
    """Compile-time block size. RuntimeError outside a kernel or for a dynamic size."""
    size = tracing_option("known_block_size")
    if size is None:
        raise RuntimeError("no compile-time block size: use a static block or @flyc.kernel(known_block_size=[x, y, z])")
    return tuple(int(n) for n in size)  # type: ignore[return-value]


_SHUFFLE_MODES = ("xor", "up", "down", "idx")


@dsl_loc_tracing
def shuffle(value: Any, offset: Any, width: Any, mode: str = "xor") -> Any:
    """Exchange a value between lanes; the result has exactly the class, dtype and shape of `value`.

    ValueError for an unknown mode, a `width` (lanes of a group) that is no power of two, or a lane beyond the wave.
    """
    if mode not in _SHUFFLE_MODES:
        raise ValueError(f"shuffle mode must be one of {', '.join(_SHUFFLE_MODES)}, got {mode!r}")
    lanes = getattr(width, "value", width)
    if isinstance(lanes, int) and (lanes <= 0 or lanes & (lanes - 1)):
        raise ValueError(f"the width of a shuffle must be a power of two, got {lanes}")
    distance, wave = getattr(offset, "value", offset), num_warp_threads()
    if isinstance(distance, int) and distance >= wave:
        raise ValueError(f"a shuffle stays in its wave, which has {wave} lanes here, got "
                         f"{'lane' if mode == 'idx' else 'an offset of'} {distance}")
    value = number_of(value)
    if not isinstance(value, ir.Value):
        value = as_numeric(value)
    raw = value if isinstance(value, ir.Value) else value.ir_value()
    result = _shuffle_raw(raw, i32_operand(offset), i32_operand(width), gpu_shuffle_mode(mode))
    if isinstance(value, Numeric):
        return type(value)._wrap(result)
    if isinstance(value, Vector):
        return value._like(result, value.dtype)
    return result.with_signedness(raw.signed) if hasattr(raw, "signed") else result


def _shuffle_raw(raw: ir.Value, offset: ir.Value, width: ir.Value, mode: ir.Attribute) -> Any:
    """`gpu.shuffle` takes whole 32-bit words; narrower scalars travel as i32, vectors with copies of lane 0 behind."""
    ty = raw.type
    if not isinstance(ty, (ir.IntegerType, ir.IndexType, ir.FloatType, ir.VectorType)):
        raise TypeError(f"a shuffle exchanges numbers and vectors of them, got a value of type {ty}")
    bits = _emit.bit_width(ty)
    if isinstance(ty, ir.VectorType):
        lanes, step = ty.shape[0], math.lcm(bits, 32) // bits
        if excess := -lanes % step:
            raw = vector.shuffle(raw, raw, [*range(lanes), *[0] * excess])
        moved = _gpu.shuffle(raw, offset, width, mode)[0]
        return vector.shuffle(moved, moved, list(range(lanes))) if excess else moved
    if bits >= 32:
        return _gpu.shuffle(raw, offset, width, mode)[0]
    i32, narrow = ir.IntegerType.get_signless(32), ir.IntegerType.get_signless(bits)
    as_int = raw if ty == narrow else arith.bitcast(narrow, raw)
    moved = arith.trunci(narrow, _gpu.shuffle(arith.extui(i32, as_int), offset, width, mode)[0])
    return moved if ty == narrow else arith.bitcast(ty, moved)


def shuffle_xor(value: Any, offset: Any, width: Any) -> Any:
    """Value of lane ``k ^ offset``."""
    return shuffle(value, offset, width, "xor")


def shuffle_up(value: Any, offset: Any, width: Any) -> Any:
    """Value of lane ``k - offset``; which one the first lanes of a group get is not defined."""
    return shuffle(value, offset, width, "up")


def shuffle_down(value: Any, offset: Any, width: Any) -> Any:
    """Value of lane ``k + offset``; the last lanes of a group keep their own."""
    return shuffle(value, offset, width, "down")


def shuffle_idx(value: Any, lane: Any, width: Any) -> Any:
    """Value of lane `lane`."""
    return shuffle(value, lane, width, "idx")


def smem_space(int: bool = False) -> Any:  # noqa: A002 - the published parameter name
    """Workgroup address space, as an attribute or a number."""
    return 2 if int else ir.Attribute.parse("#gpu.address_space<workgroup>")


lds_space = smem_space


# Where these names were before `fx.rocdl.cluster`.
_CLUSTER = ("CLUSTER_BARRIER_ID", "CLUSTER_WAIT_ALL", "cluster_barrier", "cluster_signal_once_per_wg", "cluster_wait",
            "compute_cluster_position", "compute_mcast_masks", "is_wave_leader")


def __getattr__(name: str) -> Any:
    if name in _CLUSTER:
        from .rocdl import cluster

        return getattr(cluster, name)
    raise AttributeError(f"module 'flydsl.expr.gpu' has no attribute '{name}'")
