"""Elementwise addition, C = A + B, with vector copies of up to 128 bits and predicated edges."""

from __future__ import annotations

from collections.abc import Callable

import flydsl.compiler as flyc
import flydsl.expr as fx

from ..target import Target, builder

THREADS = (4, 32)
VECTOR_BITS = 128
DTYPES = {"f32": fx.Float32, "f16": fx.Float16, "bf16": fx.BFloat16}


@flyc.kernel
def _add_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, rows: fx.Int32, cols: fx.Int32, tiled_copy: fx.TiledCopy,
                bits: fx.Constexpr[int]):
    by, bx = fx.block_idx.y, fx.block_idx.x
    thread = tiled_copy.get_slice(fx.thread_idx.x)

    def my_part(tensor):
        return thread.partition_S(fx.flat_divide(tensor, tiled_copy.tile_mn)[None, None, by, bx])

    a, b, c = my_part(A), my_part(B), my_part(C)
    at = my_part(fx.make_view((0, 0), fx.make_identity_layout((rows, cols))))[(0, None), None, None]
    inside = fx.make_fragment_like(at, dtype=fx.Boolean)
    for i in fx.range_constexpr(fx.size(inside.shape).unpack()):
        inside[i] = fx.elem_less(at[i], (rows, cols))

    atom = fx.make_copy_atom(fx.UniversalCopy(bits), A.dtype)
    ra, rb = fx.make_fragment_like(a), fx.make_fragment_like(b)
    fx.copy(atom, a, ra, pred=inside)
    fx.copy(atom, b, rb, pred=inside)
    ra.store(ra.load() + rb.load())
    fx.copy(atom, ra, c, pred=inside)


@builder
def build_add_module(dtype: str = "f32", vector: int | None = None, *, target: Target) -> Callable[..., None]:
    """A launcher ``add(A, B, C, rows, cols, stream=None)`` that computes C = A + B.

    Args:
        dtype: element type of the three matrices: ``"f32"``, ``"f16"`` or ``"bf16"``.
        vector: elements that a thread copies at once, a power of two; those of 128 bits by default (4 of f32, 8 of f16
            and bf16).

    Matrices are row-major ``rows x cols`` with ``cols`` a multiple of `vector`, aligned to it:
    :func:`flydsl.kernels.ops.add` chooses one for you.

    Raises:
        ValueError: ``dtype`` is none of those, or `vector` is not a power of two of at most 128 bits.
    """
    if dtype not in DTYPES:
        raise ValueError(f"build_add_module: dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    element = DTYPES[dtype]
    most = VECTOR_BITS // element.width
    vector = most if vector is None else vector
    if vector < 1 or most % vector:
        raise ValueError(f"build_add_module: vector must be a power of two of at most {most} for {dtype}, got {vector}")
    bits = vector * element.width

    @flyc.jit
    def add(
        A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, rows: fx.Int32, cols: fx.Int32, stream: fx.Stream = fx.Stream(None)
    ):
        tiled_copy = fx.make_tiled_copy_tv(
            fx.make_copy_atom(fx.UniversalCopy(bits), element),
            fx.make_ordered_layout(THREADS, (1, 0)),
            fx.make_ordered_layout((1, vector), (1, 0)),
        )
        tile_rows, tile_cols = tiled_copy.tile_mn.unpack()
        grid = (fx.ceildiv(cols, tile_cols), fx.ceildiv(rows, tile_rows), 1)
        target.require_traced()
        if rows > 0 and cols > 0:
            _add_kernel(A, B, C, rows, cols, tiled_copy, bits).launch(
                grid=grid, block=THREADS[0] * THREADS[1], stream=stream)

    return add
