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
        target: ``flydsl.kernels.common.arch.target()``.
        rows: rows of the row kernels (their quoted figures have 32768 rows of 8192 bfloat16).
        scale: factor of M and N of the GEMMs.
    """
    yield from _norms(rows, 8192)
    yield from _others(target, rows, 8192)
    yield from _gemms(target, scale)
    yield from _few_rows(target)


def _bytes(*tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


def _row_case(op: str, name: str, m: int, n: int, count: int, make: Callable[[], tuple[Any, list[Any]]],
              dtype: str = "bf16") -> Case:  # fmt: skip
    return Case(op, name, f"{m}x{n}", dtype, make, count)


def _norms(m: int, n: int) -> Iterator[Case]:
    import torch

    from flydsl.kernels import norm

    matrix, vector, stat = m * n * BF16_BYTES, n * BF16_BYTES, m * 4

    def x() -> Any:
        return torch.randn(m, n).bfloat16()

    def w(count: int) -> list[Any]:
        return [torch.randn(n).bfloat16() for _ in range(count)]

    def out(count: int = 1) -> list[Any]:
        return [torch.empty(m, n, dtype=torch.bfloat16) for _ in range(count)]

    def q() -> Any:
        return torch.empty(m, n, dtype=torch.int8)

    for kind, vectors in (("rmsnorm", 1), ("layernorm", 2)):

        def build(name: str, *args: Any, kind: str = kind) -> Any:
            return getattr(norm, f"build_{name.format(kind)}_module")(n, "bf16", *args)

        yield _row_case(
            kind,
            kind,
            m,
            n,
            2 * matrix + vectors * vector,
            lambda b=build, v=vectors: (b("{}"), [x(), *w(v), *out(), m]),
        )
        yield _row_case(
            kind,
            f"fused_add_{kind}",
            m,
            n,
            4 * matrix + vectors * vector,
            lambda b=build, v=vectors: (b("fused_add_{}"), [x(), x(), *w(v), *out(2), m]),
        )
        yield _row_case(
            kind,
            f"{kind}_dynamicquant i8",
            m,
            n,
            matrix * 3 // 2 + vectors * vector + stat,
            lambda b=build, v=vectors: (b("{}_dynamicquant"), [x(), *w(v), q(), torch.empty(m), m]),
        )
        yield _row_case(
            kind,
            f"fused_add_{kind}_smoothquant i8",
            m,
            n,
            matrix * 7 // 2 + (vectors + 1) * vector + stat,
            lambda b=build, v=vectors: (
                b("fused_add_{}_smoothquant"),
                [x(), x(), *w(v + 1), q(), *out(), torch.empty(m), m],
            ),
        )
    small = m // 4
    programs = norm.rmsnorm_bwd_programs(small, n, "bf16")
    for name, count, build, arguments in (
        ("rmsnorm_bwd", 3, norm.build_rmsnorm_bwd_module, lambda: [torch.ones(small)]),
        ("layernorm_bwd", 3, norm.build_layernorm_bwd_module, lambda: [torch.ones(small), torch.ones(small)]),
    ):
        sums = 1 if name == "rmsnorm_bwd" else 2
        yield _row_case(
            "norm_bwd",
            name,
            small,
            n,
            count * matrix // 4 + vector + sums * (8 * n + 4 * small),
            lambda b=build, a=arguments, s=sums: (
                b(n, "bf16"),
                [
                    x()[:small],
                    *w(1),
                    x()[:small],
                    *a(),
                    torch.empty(small, n).bfloat16(),
                    *(torch.zeros(n) for _ in range(s)),
                    small,
                ],
            ),
        )
    if not programs:
        return
    yield _row_case(
        "norm_bwd",
        f"rmsnorm_bwd_two_stage, {programs} programs",
        small,
        n,
        3 * matrix // 4 + 2 * vector + 4 * small + 8 * programs * n,
        lambda: (
            norm.build_rmsnorm_bwd_two_stage_module(n, "bf16", programs),
            [
                x()[:small],
                *w(1),
                x()[:small],
                torch.ones(small),
                torch.empty(small, n).bfloat16(),
                *w(1),
                torch.empty(programs * n),
                small,
            ],
        ),
    )


def _others(target: Any, m: int, n: int) -> Iterator[Case]:
    import torch

    from flydsl.kernels import elementwise, moe, quant, softmax

    matrix, stat = m * n * BF16_BYTES, m * 4

    def x(rows: int = m, columns: int = n) -> Any:
        return torch.randn(rows, columns).bfloat16()

    def i8(columns: int = n) -> Any:
        return torch.empty(m, columns, dtype=torch.int8)

    yield _row_case(
        "softmax", "softmax", m, n, 2 * matrix, lambda: (softmax.build_softmax_module(m, n, "bf16"), [x(), x(), m])
    )
    for rows, columns in ((1024, 8192), (256, 32768), (1024, 65536)):
        yield _row_case(
            "softmax_bwd",
            "softmax_bwd",
            rows,
            columns,
            3 * rows * columns * BF16_BYTES,
            lambda r=rows, c=columns: (softmax.build_softmax_bwd_module(c, "bf16"), [x(r, c), x(r, c), x(r, c), r]),
        )
    yield _row_case(
        "elementwise", "add", m, n, 3 * matrix, lambda: (elementwise.build_add_module("bf16"), [x(), x(), x(), m, n])
    )
    narrow = matrix // 2
    kinds = ["i8"] + ["fp8"] * bool(target.fp8_name)
    for kind in kinds:
        yield _row_case(
            "quant",
            f"quant per token {kind}",
            m,
            n,
            matrix + narrow + stat,
            lambda k=kind: (quant.build_quant_module(n, "bf16", k)[0], [x(), i8(), torch.empty(m), m]),
        )
    kind = kinds[-1]
    yield _row_case(
        "quant",
        f"quant per group {kind}",
        m,
        n,
        matrix + narrow + stat * n // 128,
        lambda: (quant.build_per_group_quant_module(n, "bf16", kind), [x(), i8(), torch.empty(m, n // 128), m]),
    )
    yield _row_case(
        "quant",
        f"quant per block {kind}",
        m,
        n,
        matrix + narrow,
        lambda: (
            quant.build_per_block_quant_module(n, "bf16", kind),
            [x(), i8(), torch.empty(-(-m // 128), n // 128), m],
        ),
    )
    yield _row_case(
        "quant",
        f"quant per tensor {kind} (two passes)",
        m,
        n,
        2 * matrix + narrow,
        lambda: (quant.build_per_tensor_quant_module(n, "bf16", kind), [x(), i8(), torch.empty(1), torch.zeros(1), m]),
    )
    yield _row_case(
        "quant",
        "quant int4, groups of 32",
        m,
        n,
        matrix + narrow // 2 + stat * n // 32,
        lambda: (quant.build_int4_quant_module(n), [x(), i8(n // 2), torch.empty(m, n // 32), m]),
    )
    yield _row_case(
        "quant",
        f"dequant per token {kind}",
        m,
        n,
        matrix + narrow + stat,
        lambda: (quant.build_dequant_module(n, "bf16", kind), [i8(), torch.ones(m), x(), m]),
    )
    yield _row_case(
        "quant",
        "dequant int4, groups of 32",
        m,
        n,
        matrix + narrow // 2 + stat * n // 32,
        lambda: (quant.build_int4_dequant_module(n), [i8(n // 2), torch.ones(m, n // 32), x(), m]),
    )
    if target.arch == "gfx950":
        for mode, size in (("fp4", 4), ("fp8", 2)):
            yield _row_case(
                "quant",
                f"quant mx{mode}",
                m,
                n,
                matrix + matrix // size + m * n // 32,
                lambda k=mode, s=size: (
                    quant.build_per_1x32_mx_quant_module(n, k),
                    [x(), i8(n * 2 // s), i8(n // 32), m, m * n // 32 // 64],
                ),
            )
    for tokens, experts, k in ((4096, 256, 8), (4096, 160, 6)):
        yield Case(
            "moe",
            f"topk_gating_softmax top {k}",
            f"{tokens}x{experts}",
            "bf16",
            lambda t=tokens, e=experts, k=k: (
                moe.build_topk_gating_softmax_module(e, k),
                [x(t, e), *(torch.empty(t, k) for _ in range(3)), t],
            ),
            tokens * experts * BF16_BYTES + 3 * tokens * k * 4,
        )


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
                   count(*loop.operand_bytes), flops)  # fmt: skip
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
             extra: int = 0) -> Case:  # fmt: skip
        count = int((m + n) * k * bytes_) + m * n * BF16_BYTES + extra
        return Case("gemm", name, f"{m}x{n}x{k}", dtype, make, count, 2 * m * n * k)

    def i8(*shape: int) -> Any:
        return torch.randint(-40, 40, shape, dtype=torch.int8)

    def half(*shape: int) -> Any:
        return torch.randn(*shape).bfloat16()

    if target.matrix == "mfma":
        for m, n, k, tile in ((16, 40960, 5120, (16, 128, 256)), (256, 2112, 7168, (64, 64, 256)),
                              (512, 2112, 7168, (64, 64, 256))):  # fmt: skip

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
