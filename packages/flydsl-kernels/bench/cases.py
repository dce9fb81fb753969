"""The benchmarked launches: each kernel at the sizes that its figures are quoted for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hot_loops import tuned_loops

BF16_BYTES = 2


@dataclass(frozen=True)
class Case:
    """A launch to measure.

    Attributes:
        op: family, e.g. ``"rmsnorm"``.
        name: the kernel with its variant.
        shape, dtype: as shown.
        make: builds the launcher and its arguments.
        bytes: each input and output once.
        flops: multiplications and additions of matrix products; 0 otherwise.
    """

    op: str
    name: str
    shape: str
    dtype: str
    make: Callable[[], tuple[Any, list[Any]]]
    bytes: int
    flops: int = 0


def cases(target: Any, rows: int = 4096, *, scale: int = 1) -> Iterator[Case]:
    """All cases of an architecture.

    The products of `_few_rows` have the sizes that their figures are quoted for; those of `_gemms` stand for the large
    ones (5120 x 5120 x 8320 and more), which a simulator would take hours for.

    Args:
        target: ``flydsl.kernels.target.target()``.
        rows: rows of the row kernels (their quoted figures have 32768 rows of 8192 bfloat16).
        scale: factor of M and N of the GEMMs.
    """
    yield from declared(target, rows)
    yield from _gemms(target, scale)
    yield from _few_rows(target)


def _bytes(*tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def operation(name: str) -> Any:
    """The declaration of an operation."""
    from flydsl.kernels.op import declarations

    return next(op for op in declarations() if op.name == name)


def declared(target: Any, rows: int) -> Iterator[Case]:
    """The cases of the operations' declarations: what a call launches, without the copies around it."""
    from flydsl.kernels.op import Op, declarations

    for op in declarations():
        if isinstance(op, Op) and op.available(target):
            for name, (m, n), options in op.bench(target, rows):
                yield _declared(target, op, name, m, n, options)


def _declared(target: Any, op: Any, name: str, m: int, n: int, options: dict[str, Any]) -> Case:
    import torch

    from flydsl.kernels.testing import Draw

    # Sizes are those of a sample of one row, of which only the first dimensions differ.
    small = op.sample(Draw(target), 1, n, **options)
    tensors = [a for a in small if isinstance(a, torch.Tensor)]
    large = op.sample(Draw(target), 2, n, **options)
    counted = 0
    for a, b in zip(tensors, [a for a in large if isinstance(a, torch.Tensor)], strict=True):
        counted += _bytes(a) + (m - 1) * (_bytes(b) - _bytes(a))
    first, second = ([_size(r, tensors[0]) for r in op.results(*op.arguments(*s))] for s in (small, large))
    counted += sum(a + (m - 1) * (b - a) for a, b in zip(first, second, strict=True))
    rows = tensors[0].shape[:-1].numel() * m

    def make() -> tuple[Any, list[Any]]:
        launcher, arguments, _ = op.prepare(*op.sample(Draw(target), m, n, **options))
        return launcher, arguments

    family = getattr(op.plan, "func", op.plan).__module__.split(".")[-2]  # of a partial: its function's
    return Case(family, name, f"{rows}x{n}", options.get("dtype", "bf16"), make, counted,
                op.flops(*small) * m)


def _size(result: Any, like: Any) -> int:
    from flydsl.kernels.host.arrays import array_dtype
    from flydsl.kernels.target import target

    count = 1
    for size in result.shape:
        count *= size
    return count * array_dtype(target(), like, result.dtype).itemsize


def _gemms(target: Any, factor: int) -> Iterator[Case]:
    """The tuned tiles."""
    import torch

    from flydsl.kernels import gemm

    size, k = 1024 * factor, 2048

    def count(a_bytes: float, b_bytes: float) -> int:
        return int(size * k * (a_bytes + b_bytes)) + size * size * BF16_BYTES

    flops = 2 * size * size * k
    for loop in tuned_loops(target):
        name = f"{loop.name} {loop.m}x{loop.n}x{loop.k}"
        yield Case("gemm", name, f"{size}x{size}x{k}", loop.dtype, lambda loop=loop: loop.make(size, size, k),
                   count(*loop.operand_bytes), flops)
    if target.arch == "gfx120":

        def wmma() -> tuple[Any, list[Any]]:
            launcher, *_ = gemm.create_wmma_gemm_module(size, size, k, "bf16", "bf16")
            return launcher, [torch.empty(size, size).bfloat16(), *(torch.randn(size, k).bfloat16() for _ in range(2))]

        yield Case("gemm", "wmma", f"{size}x{size}x{k}", "bf16", wmma, count(BF16_BYTES, BF16_BYTES), flops)


def _few_rows(target: Any) -> Iterator[Case]:
    """Products with few rows, at the sizes that are quoted for them: bound by reading the weight."""
    import torch

    from flydsl.kernels import gemm

    def case(name: str, dtype: str, m: int, n: int, k: int, bytes_: float, make: Callable[[], Any],
             extra: int = 0) -> Case:
        count = int((m + n) * k * bytes_) + m * n * BF16_BYTES + extra
        return Case("gemm", name, f"{m}x{n}x{k}", dtype, make, count, 2 * m * n * k)

    def i8(*shape: int) -> Any:
        return torch.randint(-40, 40, shape, dtype=torch.int8)

    def half(*shape: int) -> Any:
        return torch.randn(*shape).bfloat16()

    if target.matrix == "mfma":
        for m, n, k, tile in ((16, 40960, 5120, (16, 128, 256)), (256, 2112, 7168, (64, 64, 256)),
                              (512, 2112, 7168, (64, 64, 256))):

            def preshuffle(m: int = m, n: int = n, k: int = k, tile: tuple[int, int, int] = tile) -> Any:
                run = gemm.compile_preshuffle_gemm(N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2])
                return run, [half(m * n), i8(m * k), i8(n * k), torch.ones(m), torch.ones(n), half(1), m, n]

            yield case(f"preshuffle {'x'.join(map(str, tile))}", "fp8", m, n, k, 1, preshuffle, 4 * (m + n))

        def blockscale(m: int = 16, n: int = 7168, k: int = 2304) -> Any:
            run = gemm.compile_blockscale_preshuffle_gemm(N=n, K=k, tile_m=16, tile_n=64, tile_k=256)
            scales = [torch.ones(k // 128 * m), torch.ones(n // 128 * k // 128)]
            return run, [half(m * n), i8(m * k), i8(n * k), *scales, m, n]

        yield case("blockscale 16x64x256", "fp8", 16, 7168, 2304, 1, blockscale)
        for m, n, k in ((3, 5120, 2880), (8, 4096, 4096), (32, 384, 7168)):

            def general(m: int = m, n: int = n, k: int = k) -> Any:
                knobs = gemm.get_default_kwargs(m, n, k)
                direct = target.dma128 and k % (knobs["block_k"] * knobs["split_k"]) == 0
                run = gemm.build_gemm_module(n, k, "bf16", use_async_copy=direct, **knobs)
                out, space = half(m, n), torch.empty(max(knobs["split_k"] * m * n, 1))
                return run, [out, half(m, k), half(n, k), out, space, m]

            yield case("general nt, default knobs", "bf16", m, n, k, 2, general)
    if target.arch == "gfx950":
        for m, tile in ((32, (32, 128, 256)), (64, (64, 128, 128))):

            def mx(m: int = m, tile: tuple[int, int, int] = tile, n: int = 8192, k: int = 8192) -> Any:
                run = gemm.compile_mxfp4_gemm(N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2])
                scales = [torch.full((-(-rows // 256) * 256, k // 32), 127, dtype=torch.uint8) for rows in (m, n)]
                return run, [half(m, n), i8(m, k // 2), i8(n, k // 2), *scales, m, n]

            yield case(f"microscaled {'x'.join(map(str, tile))}", "fp4", m, 8192, 8192, 0.5, mx, 8192 * 8192 // 32)
    if target.arch == "gfx120":

        def rdna(m: int = 32, n: int = 8192, k: int = 6144) -> Any:
            run = gemm.compile_fp8_gemm(M=m, N=n, K=k)
            return run, [half(m, n), i8(m, k), i8(n * k), torch.ones(m), torch.ones(n)]

        yield case("fp8 without LDS", "fp8", 32, 8192, 6144, 1, rdna)
