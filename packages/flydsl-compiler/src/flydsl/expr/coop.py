"""Cooperative reductions and scans of a wave and of a workgroup.

Wave functions combine the values of the `width` lanes (default: the whole wave) that a lane belongs to; every
lane must take part. Lanes without a thread, past the end of a workgroup of known size, count as the identity. Block
classes combine all threads of a workgroup through LDS; the thread's position is its
linear index (x fastest). ``op`` is a `ReductionOp`; float MAX and MIN follow `Vector.reduce`.
"""

from __future__ import annotations

import functools
import math
from enum import IntEnum
from typing import Any

from flydsl.tracing.ambient import tracing_option
from flydsl.tracing.lazy import LazyModule
from flydsl.tracing.locations import dsl_loc_tracing

from . import gpu
from ._participation import check_participation
from ._reductions import ReductionOp
from ._rounding import extremes
from ._storage import Array, Storage
from ._vector import Vector
from .arith import max as _max
from .arith import maxnumf, minimumf
from .arith import min as _min
from .numeric import Boolean, Int32, NumericMeta, as_numeric
from .struct import struct

__all__ = [
    "BlockReduce", "BlockReduceAlgorithm", "BlockScan", "BlockScanAlgorithm", "warp_exclusive_scan",
    "warp_inclusive_scan", "warp_reduce", "warp_scan", "warp_scan_with_aggregate",
]

_flow = LazyModule("flydsl.control.flow")


class BlockReduceAlgorithm(IntEnum):
    """How a workgroup reduces: waves first, then their results; or one wave over all values in LDS."""

    WARP_REDUCTIONS = 0
    RAKING = 1


class BlockScanAlgorithm(IntEnum):
    """How a workgroup scans: waves first, then the prefix of the waves before."""

    WARP_SCANS = 0


def _operation(op: Any) -> ReductionOp:
    if isinstance(op, ReductionOp):
        return op
    if isinstance(op, str) and op.upper() in ("ADD", "MUL", "MAX", "MIN"):
        return getattr(ReductionOp, op.upper())
    raise TypeError(f"op must be a ReductionOp, got {op!r}")


def combine(op: Any, a: Any, b: Any) -> Any:
    """``a op b`` in the class of ``a``."""
    op = _operation(op)
    is_float = a.dtype.is_float
    if op is ReductionOp.ADD:
        result = a + b
    elif op is ReductionOp.MUL:
        result = a * b
    elif op is ReductionOp.MAX:
        result = maxnumf(a, b) if is_float else _max(a, b)
    else:
        result = minimumf(a, b) if is_float else _min(a, b)
    return result if result.dtype is a.dtype else result.to(a.dtype)


def identity(op: Any, dtype: Any) -> Any:
    """The value that `op` leaves alone."""
    op = _operation(op)
    if op in (ReductionOp.ADD, ReductionOp.MUL):
        return dtype(0 if op is ReductionOp.ADD else 1)
    low: float
    high: float
    if dtype.is_float:
        low, high = extremes(str(dtype))
    elif dtype is Boolean:
        low, high = 0, 1
    elif dtype.signed:
        low, high = -(2 ** (dtype.width - 1)), 2 ** (dtype.width - 1) - 1
    else:
        low, high = 0, 2**dtype.width - 1
    return dtype(low if op is ReductionOp.MAX else high)


def _width(width: Any) -> int:
    size = gpu.num_warp_threads() if width is None else int(width)
    if size < 1 or size & (size - 1) or size > gpu.num_warp_threads():
        raise ValueError(f"width must be a power of two up to {gpu.num_warp_threads()}, got {size}")
    return size


def _typed(value: Any) -> Any:
    return value if isinstance(value, Vector) else as_numeric(value)


def _linear_thread() -> Any:
    tx, ty, tz = gpu.thread_idx
    x, y, _ = gpu.known_block_size()
    index = tx
    if y > 1 or gpu.known_block_size()[2] > 1:
        index = tx + (ty + tz * y) * x
    return index


def _live(size: int) -> Any:
    """Threads from the first of this lane's group of `size` lanes on, or None where every group is whole."""
    known = tracing_option("known_block_size")
    threads = math.prod(int(n) for n in known) if known else 0
    if threads % size == 0:  # of a size that only run time knows, waves count as whole
        return None
    return threads - _linear_thread() // size * size


def _of_lane(v: Any, index: Any, size: int) -> Any:
    """The value of one lane of each group; a shuffle counts lanes from the first of the wave."""
    return gpu.shuffle_idx(v, gpu.lane_id() // size * size + index, size)


@dsl_loc_tracing
def warp_reduce(v: Any, op: Any, *, width: int | None = None) -> Any:
    """Combination over the `width` lanes; every lane has it."""
    v, size = _typed(v), _width(width)
    live, step = _live(size), size // 2
    if live is None:
        while step:
            v = combine(op, v, gpu.shuffle_xor(v, step, size))
            step //= 2
        return v
    # Lanes that do not exist give undefined values to a shuffle: what was read from them is left out.
    lane = gpu.lane_id() % size
    while step:
        other = gpu.shuffle_down(v, step, size)
        v = (lane + step < live).select(combine(op, v, other), v)
        step //= 2
    return _of_lane(v, 0, size)


def _inclusive(v: Any, op: Any, size: int) -> Any:
    lane = gpu.lane_id() % size
    step = 1
    while step < size:
        before = gpu.shuffle_up(v, step, size)
        v = (lane >= step).select(combine(op, v, before), v)
        step *= 2
    return v


def _exclusive(inclusive: Any, op: Any, size: int, init: Any) -> Any:
    lane = gpu.lane_id() % size
    start = identity(op, inclusive.dtype) if init is None else init
    if init is None:
        before = gpu.shuffle_up(inclusive, 1, size)
    else:
        before = combine(op, gpu.shuffle_up(inclusive, 1, size), start)
    if isinstance(inclusive, Vector) and not isinstance(start, Vector):
        start = Vector.filled(inclusive.shape, start, inclusive.dtype)
    return (lane == 0).select(start, before)


def _init(init: Any, v: Any) -> Any:
    return None if init is None else (init if isinstance(init, Vector) else v.dtype(init))


@dsl_loc_tracing
def warp_scan(v: Any, op: Any, *, width: int | None = None, init: Any = None) -> tuple[Any, Any]:
    """Inclusive and exclusive scan over the `width` lanes. `init` starts both; the first exclusive value is
    `init`, or the identity of `op`."""
    v, size = _typed(v), _width(width)
    start = _init(init, v)
    inclusive = _inclusive(v, op, size)
    exclusive = _exclusive(inclusive, op, size, start)
    return (inclusive if start is None else combine(op, inclusive, start)), exclusive


@dsl_loc_tracing
def warp_inclusive_scan(v: Any, op: Any, *, width: int | None = None, init: Any = None) -> Any:
    """Combination of the lanes up to and including this one."""
    return warp_scan(v, op, width=width, init=init)[0]


@dsl_loc_tracing
def warp_exclusive_scan(v: Any, op: Any, *, width: int | None = None, init: Any = None) -> Any:
    """Combination of the lanes before this one."""
    return warp_scan(v, op, width=width, init=init)[1]


@dsl_loc_tracing
def warp_scan_with_aggregate(v: Any, op: Any, *, width: int | None = None, init: Any = None) -> tuple[Any, Any, Any]:
    """`warp_scan` and the combination over all lanes (without `init`)."""
    v, size = _typed(v), _width(width)
    start = _init(init, v)
    inclusive = _inclusive(v, op, size)
    exclusive = _exclusive(inclusive, op, size, start)
    live = _live(size)
    last = size - 1 if live is None else (live < size).select(live - 1, size - 1)
    aggregate = _of_lane(inclusive, last, size)
    return (inclusive if start is None else combine(op, inclusive, start)), exclusive, aggregate


# --------------------------------------------------------------------------- workgroups


def _if(cond: Any, body: Any) -> None:
    _flow.scf_if_dispatch(Boolean(cond), lambda: body() and None)


def _slots(storage: Any) -> Any:
    if isinstance(storage, Storage):
        storage = storage.peek()
    if not hasattr(storage, "slots"):
        raise TypeError("storage= must be an allocation of the class's SharedStorage, e.g. "
                        "fx.SharedAllocator().allocate(Reduce.SharedStorage)")
    return storage.slots


class _Block:
    """A block primitive specialised for an element type, block size and algorithm."""

    dtype: Any
    block_size: int
    algorithm: Any
    SharedStorage: Any
    _default: Any

    def __class_getitem__(cls, params: Any) -> Any:
        generic: Any = cls
        params = params if isinstance(params, tuple) else (params,)
        if not 2 <= len(params) <= 3:
            raise TypeError(f"{cls.__name__}[dtype, block_size(, algorithm)] expected")
        dtype, size = params[:2]
        if not isinstance(dtype, NumericMeta) or dtype.width < 8:
            raise TypeError(f"{cls.__name__}: dtype must be a Numeric class of at least 8 bits, got {dtype!r}")
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 1024:
            raise TypeError(f"{cls.__name__}: block_size must be an int from 1 to 1024, got {size!r}")
        algorithm = params[2] if len(params) == 3 else cls._default
        return _specialise(generic, dtype, size, type(cls._default)(algorithm))

    @classmethod
    def _check(cls) -> tuple[Any, int]:
        """Linear thread index and wave size; the launch's block must be the declared one, and come here as a whole."""
        known = gpu.known_block_size()
        threads = known[0] * known[1] * known[2]
        if threads != cls.block_size:
            raise ValueError(f"{cls.__name__} is for {cls.block_size} threads, the kernel's block has {threads}")
        check_participation()
        return _linear_thread(), gpu.num_warp_threads()

    @classmethod
    def _partial_wave(cls, wave: int) -> int:
        """Lanes of the last wave when it is not full, else 0."""
        return cls.block_size % wave


@functools.cache
def _specialise(base: Any, dtype: Any, size: int, algorithm: Any) -> Any:
    # One slot a thread for raking, else one a wave; waves have at least 32 lanes.
    slots = size if algorithm == BlockReduceAlgorithm.RAKING and base is BlockReduce else -(-size // 32)
    name = f"{base.__name__}[{dtype}, {size}, {algorithm.name}]"
    body = {"__annotations__": {"slots": Array[dtype, slots]}, "__module__": __name__}  # type: ignore[misc]
    shared: Any = struct(type("SharedStorage", (), body))
    return type(name, (base,), {"dtype": dtype, "block_size": size, "algorithm": algorithm, "SharedStorage": shared})


class BlockReduce(_Block):
    """``BlockReduce[dtype, block_size(, algorithm)](v, op, storage=...)``: combination over the workgroup.

    Every thread has the result. `storage` is an LDS allocation of `.SharedStorage`; it can be used again at once.
    """

    _default = BlockReduceAlgorithm.WARP_REDUCTIONS

    def __new__(cls, v: Any, op: Any, *, storage: Any) -> Any:
        return cls._reduce(v, op, _slots(storage))

    @classmethod
    @dsl_loc_tracing
    def _reduce(cls, v: Any, op: Any, slots: Any) -> Any:
        thread, wave = cls._check()
        v = cls.dtype(v)
        if cls.algorithm == BlockReduceAlgorithm.RAKING:
            slots[thread] = v
            parts = cls.block_size
        else:
            v = warp_reduce(v, op)
            _if(thread % wave == 0, lambda: slots.__setitem__(thread // wave, v))
            parts = -(-cls.block_size // wave)
        gpu.barrier()
        result = slots[Int32(0)]
        for i in range(1, parts):
            result = combine(op, result, slots[Int32(i)])
        gpu.barrier()
        return result


class BlockScan(_Block):
    """``BlockScan[dtype, block_size]``: `.inclusive(v, op, storage=...)`, `.exclusive(...)` over the workgroup,
    and the `_with_aggregate` forms, which also return the combination of all threads."""

    _default = BlockScanAlgorithm.WARP_SCANS

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("BlockScan is not called: use .inclusive(v, op, storage=...) or .exclusive(...)")

    @classmethod
    @dsl_loc_tracing
    def _scan(cls, v: Any, op: Any, storage: Any, init: Any) -> tuple[Any, Any, Any]:
        slots = _slots(storage)
        thread, wave = cls._check()
        v = cls.dtype(v)
        lane, index = thread % wave, thread // wave
        inclusive = _inclusive(v, op, wave)
        last = cls._partial_wave(wave) or wave
        waves = -(-cls.block_size // wave)
        is_last = (lane == wave - 1) | ((index == waves - 1) & (lane == last - 1))
        _if(is_last, lambda: slots.__setitem__(index, inclusive))
        gpu.barrier()
        prefix = identity(op, cls.dtype) if init is None else cls.dtype(init)
        total = None
        for i in range(waves):
            part = slots[Int32(i)]
            if i + 1 < waves:
                prefix = (index > i).select(combine(op, prefix, part), prefix)
            total = part if total is None else combine(op, total, part)
        gpu.barrier()
        before = _exclusive(inclusive, op, wave, None)
        return combine(op, inclusive, prefix), combine(op, before, prefix), total

    @classmethod
    def inclusive(cls, v: Any, op: Any, *, storage: Any, init: Any = None) -> Any:
        """Combination of the threads up to and including this one."""
        return cls._scan(v, op, storage, init)[0]

    @classmethod
    def exclusive(cls, v: Any, op: Any, *, storage: Any, init: Any = None) -> Any:
        """Combination of the threads before this one; the first thread has `init` or the identity."""
        return cls._scan(v, op, storage, init)[1]

    @classmethod
    def inclusive_with_aggregate(cls, v: Any, op: Any, *, storage: Any, init: Any = None) -> tuple[Any, Any]:
        """`inclusive` and the combination of all threads (without `init`)."""
        scan = cls._scan(v, op, storage, init)
        return scan[0], scan[2]

    @classmethod
    def exclusive_with_aggregate(cls, v: Any, op: Any, *, storage: Any, init: Any = None) -> tuple[Any, Any]:
        """`exclusive` and the combination of all threads (without `init`)."""
        scan = cls._scan(v, op, storage, init)
        return scan[1], scan[2]
