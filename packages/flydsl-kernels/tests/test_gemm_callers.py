"""Products under the names of serving libraries."""

import pytest
from kernel_helpers import GENERAL_GEMM, Guarded, close_relative, fp8_dtype, needs, random, torch
from test_gemm_mx import operand

from flydsl.kernels.gemm import (
    e8m0_shuffle,
    flydsl_8wave_gemm_a8,
    flydsl_batched_gemm_mxfp4,
    flydsl_hgemm,
    flydsl_preshuffle_gemm_a8,
    run_preshuffle_gemm_a8_gfx1250,
    shuffle_weight,
    shuffle_weight_w4,
)
from flydsl.kernels.target import target

CDNA = needs("gfx942", "gfx950")
BF16, F16 = 2.0**-8, 2.0**-11


def operands(m, n, k, kind):
    """(a, b, scales of rows, of columns, f64 product)."""
    if kind == torch.int8:
        a, b = (torch.randint(-127, 128, s, dtype=kind) for s in ((m, k), (n, k)))
    else:
        a, b = (random(*s, seed=i).to(kind) for i, s in enumerate(((m, k), (n, k))))
    x_scale, w_scale = torch.rand(m, 1) * 0.01 + 0.01, torch.rand(n, 1) * 0.01 + 0.01
    return a, b, x_scale, w_scale, a.double() @ b.double().T * x_scale.double() * w_scale.double().T


@needs(*GENERAL_GEMM)
@pytest.mark.parametrize("options", [{}, dict(tile_m=32, tile_n=64, tile_k=64, split_k=2, stages=3)])
def test_hgemm(options):
    a, b = random(37, 512, dtype="bf16"), random(192, 512, dtype="bf16", seed=1)
    bias = random(192, seed=2)
    if target().arch == "gfx1250":
        options = {"tile_m": 64, **options}
    exact = a.double() @ b.double().T
    close_relative(flydsl_hgemm(a, b, **options), exact, BF16 * 1.01)
    out = Guarded(37, 192, dtype=torch.bfloat16)
    assert flydsl_hgemm(a, b, out.out, bias=bias, **options) is out.out
    close_relative(out.check(), exact + bias.double(), BF16 * 1.01)


@CDNA
@pytest.mark.parametrize("kind", ["int8", "fp8"])
@pytest.mark.parametrize("options", [{}, dict(waves_per_eu=2, xcd_swizzle=4, lds_stage=1, enable_scheduler=False)])
def test_preshuffle_a8(kind, options):
    dtype = torch.int8 if kind == "int8" else fp8_dtype()
    a, b, x_scale, w_scale, exact = operands(45, 128, 512, dtype)
    shuffled = shuffle_weight(b.view(torch.int8)).view(dtype)
    for out_dtype, rounding in ((torch.bfloat16, BF16), (torch.float16, F16)):
        out = Guarded(45, 128, dtype=out_dtype)
        assert flydsl_preshuffle_gemm_a8(a, shuffled, x_scale, w_scale, out.out, 32, 64, 128, **options) is out.out
        close_relative(out.check(), exact, rounding * 1.01)


@CDNA
def test_preshuffle_a8_refuses():
    a, b, x_scale, w_scale, _ = operands(16, 64, 128, torch.int8)
    out = torch.empty(16, 64, dtype=torch.bfloat16)
    good = (a, b, x_scale, w_scale, out, 32, 64, 128)
    for at, value, error, text in (
        (0, a.float(), TypeError, "expected one of i8, fp8"), (1, b.to(fp8_dtype()), TypeError, "must both be"),
        (1, b[:, :64], ValueError, "shapes"), (2, x_scale[1:], ValueError, "x_scale"),
        (4, out[1:], ValueError, r"shape \(16, 64\)"), (4, out.float(), TypeError, "Out"),
        (6, 96, ValueError, "tile_n"),
    ):
        with pytest.raises(error, match=text):
            flydsl_preshuffle_gemm_a8(*good[:at], value, *good[at + 1 :])


@needs("gfx950")
def test_8wave_a8():
    a, b, x_scale, w_scale, exact = operands(150, 256, 384, fp8_dtype())
    out = Guarded(150, 256, dtype=torch.bfloat16)
    flydsl_8wave_gemm_a8(a, shuffle_weight(b), x_scale, w_scale, out.out, 128, 256)
    close_relative(out.check(), exact, BF16 * 1.01)
    with pytest.raises(TypeError, match="fp8 operands"):
        flydsl_8wave_gemm_a8(a.view(torch.int8), b.view(torch.int8), x_scale, w_scale, out.out, 128, 256)
    with pytest.raises(ValueError, match="BLOCK_N"):
        flydsl_8wave_gemm_a8(a, b, x_scale, w_scale, out.out, 128, 128)


@needs("gfx1250")
@pytest.mark.parametrize("options", [{}, dict(m_warp=1, num_buffers=3, waves_per_eu=1), dict(split_k=2),
                                     dict(cluster_m=2, cluster_n=2)])
def test_preshuffle_a8_of_gfx1250(options):
    a, b, x_scale, w_scale, exact = operands(75, 128, 512, fp8_dtype())
    given = (a, shuffle_weight(b), x_scale, w_scale)
    for out_dtype, rounding in ((torch.bfloat16, BF16), (torch.float16, F16)):
        out = Guarded(75, 128, dtype=out_dtype)
        assert run_preshuffle_gemm_a8_gfx1250(*given, out.out, 64, 64, 128, **options) is out.out
        # Shares may be larger than their sum, and are rounded as it is.
        close_relative(out.check(), exact, rounding * (4 if "split_k" in options else 1.01))
    nothing = torch.empty(0, 128, dtype=torch.bfloat16)
    run_preshuffle_gemm_a8_gfx1250(a[:0], given[1], x_scale[:0], w_scale, nothing, 64, 64, 128)
    with pytest.raises(ValueError, match="num_buffers"):
        run_preshuffle_gemm_a8_gfx1250(*given, out.out, 64, 64, 128, num_buffers=5)
    with pytest.raises(TypeError, match="fp8 operands"):
        run_preshuffle_gemm_a8_gfx1250(a.view(torch.int8), b.view(torch.int8), x_scale, w_scale, out.out, 64, 64, 128)


@needs("gfx950")
@pytest.mark.parametrize("a_dtype", ["fp4", "fp8", "fp6"])
@pytest.mark.parametrize("layout", ["bmn", "mbn"])
def test_batched_mxfp4(a_dtype, layout):
    batch, m, n, k = 3, 37, 128, 512
    entries = [(operand(m, k, a_dtype, i), operand(n, k, "fp4", 10 + i)) for i in range(batch)]
    a, scales = (torch.stack([e[0][j] for e in entries], int(layout == "mbn")) for j in range(2))
    of_rows = torch.cat([e8m0_shuffle(s) for s in scales]) if layout == "bmn" else e8m0_shuffle(scales.view(m, -1))
    w = torch.stack([shuffle_weight_w4(e[1][0]) for e in entries])
    of_columns = torch.stack([e8m0_shuffle(e[1][1])[:n] for e in entries])
    exact = torch.stack([x[2] @ y[2].T for x, y in entries], int(layout == "mbn"))
    given, named = (a, w, of_rows, of_columns, n), dict(a_dtype=a_dtype, layout=layout)
    found = flydsl_batched_gemm_mxfp4(*given, torch.float16, **named)
    assert found.dtype == torch.float16
    close_relative(found, exact, F16 * 1.01)
    tile, out = dict(tile_m=32, tile_n=64, tile_k=128), Guarded(*exact.shape, dtype=torch.bfloat16)
    assert flydsl_batched_gemm_mxfp4(*given, **named, **tile, out=out.out) is out.out
    close_relative(out.check(), exact, BF16 * 1.01)
    for wrong, text in ((dict(layout="nbm"), "layout"), (dict(tile_m=32), "together"), (dict(out=out.out[1:]), "out"),
                        (dict(a_dtype="fp5"), "a_dtype")):
        with pytest.raises(ValueError, match=text):
            flydsl_batched_gemm_mxfp4(*given, **{**named, **wrong})
    for at, value, text in ((0, a[..., 64:], "one K"), (1, w[:2], "one batch"), (2, of_rows[1:], "a_scales must be"),
                            (3, of_columns[:, :32], "w_scales must be"), (4, 64, r"\(B, 64, K/2\)")):
        with pytest.raises(ValueError, match=text):
            flydsl_batched_gemm_mxfp4(*given[:at], value, *given[at + 1 :], **named)
