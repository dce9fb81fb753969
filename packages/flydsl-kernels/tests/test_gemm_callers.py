"""Products under the names of serving libraries."""

import pytest
from kernel_helpers import GENERAL_GEMM, Guarded, close_relative, fp8_dtype, needs, random, torch

from flydsl.kernels.gemm import flydsl_8wave_gemm_a8, flydsl_hgemm, flydsl_preshuffle_gemm_a8, shuffle_weight
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
