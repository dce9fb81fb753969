"""GEMMs of microscaled operands against f64 products of the dequantised values."""

import pytest
from kernel_helpers import Guarded, cases, close_relative, needs, random, torch

import flydsl.compiler as flyc
import flydsl.ir
from flydsl.kernels.gemm import (
    compile_fp4_gemm_4w,
    compile_mxfp4_gemm,
    e8m0_shuffle,
    launch_gemm,
    shuffle_weight,
    shuffle_weight_w4,
    tuned,
)
from flydsl.kernels.quant import reference as ref

pytestmark = needs("gfx950")


def fp6_values(q):
    """f32 of padded e2m3 groups (..., n bytes)."""
    data = q.unflatten(-1, (-1, 32))[..., :24].unflatten(-1, (8, 3)).to(torch.int64)
    word = data[..., 0] | data[..., 1] << 8 | data[..., 2] << 16
    codes = torch.stack([(word >> s) & 63 for s in (0, 6, 12, 18)], -1).flatten(-3)
    exponent, mantissa = (codes >> 3) & 3, codes & 7
    value = torch.where(exponent == 0, mantissa / 8, (1 + mantissa / 8) * 2.0 ** (exponent - 1))
    return torch.where(codes >= 32, -value, value)


def operand(rows, k, dtype, seed):
    """(storage, e8m0 scales, f64 values)."""
    x = random(rows, k, seed=seed) * torch.rand(rows, 1) * 8
    q, scale = {"fp4": ref.per_1x32_f4_quant, "fp6": ref.per_1x32_f6_quant, "fp8": ref.per_1x32_f8_quant}[dtype](x)
    values = {"fp4": ref.mxfp4_to_f32, "fp6": fp6_values, "fp8": ref.fp8_e4m3_to_f32}[dtype](q)
    return q, scale, values.double() * ref.e8m0_to_f32(scale).double().repeat_interleave(32, -1)


CASES = cases(
    [(33, 128, 512, (32, 128, 256), "fp4", "fp4"), (70, 64, 384, (64, 64, 128), "fp4", "fp4"),
     (40, 128, 512, (32, 128, 256), "fp6", "fp4"), (40, 128, 256, (32, 64, 256), "fp8", "fp8"),
     (20, 128, 768, (16, 128, 256), "fp8", "fp4"),
     # fewer chunks of A in a tile than threads
     (20, 64, 384, (16, 64, 128), "fp4", "fp4"), (20, 64, 384, (16, 64, 128), "fp6", "fp4"),
     (130, 256, 256, (128, 256, 128), "fp4", "fp4"),
     # loads three tiles ahead, whole turns of the loop and some tiles more
     (20, 64, 2688, (16, 64, 128), "fp4", "fp4"), (20, 64, 1664, (16, 64, 128), "fp6", "fp8"),
     (33, 64, 2560, (32, 64, 256), "fp8", "fp4"),
     # eight waves, whole turns of the loop and some tiles more
     (140, 512, 1152, (128, 512, 128), "fp6", "fp4"), (140, 256, 1280, (128, 256, 256), "fp8", "fp8"),
     (128, 256, 1408, (128, 256, 128), "fp8", "fp4"),
     # LDS has no room for two tiles between barriers, or for gaps
     (70, 64, 512, (384, 64, 128), "fp8", "fp8"), (40, 64, 512, (640, 64, 128), "fp6", "fp8")],
    [(257, 512, 1024, (64, 256, 256), "fp4", "fp4"), (256, 512, 2048, (128, 256, 256), "fp6", "fp4"),
     (300, 256, 1024, (64, 128, 128), "fp8", "fp8")],
)


@pytest.mark.parametrize(("m", "n", "k", "tile", "a_dtype", "b_dtype"), CASES)
def test_against_dequantised_product(m, n, k, tile, a_dtype, b_dtype):
    a, a_scale, a_values = operand(m, k, a_dtype, 0)
    b, b_scale, b_values = operand(n, k, b_dtype, 1)
    shuffled = shuffle_weight_w4(b) if b_dtype == "fp4" else shuffle_weight(b.view(torch.int8))
    c = Guarded(m, n, dtype=torch.bfloat16)
    launch = compile_mxfp4_gemm(N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2], a_dtype=a_dtype,
                                b_dtype=b_dtype)
    launch(c.out, a.view(torch.int8), shuffled.view(torch.int8), e8m0_shuffle(a_scale), e8m0_shuffle(b_scale), m, n)
    close_relative(c.check(), a_values @ b_values.T, 2.0**-8 * 1.01)


@pytest.mark.parametrize("interleaved", [False, True])
def test_batches(interleaved):
    batch, m, n, k = 3, 20, 64, 256
    entries = [(operand(m, k, "fp4", i), operand(n, k, "fp4", 10 + i)) for i in range(batch)]
    a, b = torch.stack([e[0][0] for e in entries]), torch.stack([shuffle_weight_w4(e[1][0]) for e in entries])
    sa, sb = (torch.stack([e8m0_shuffle(e[i][1])[: (256 if i == 0 else n)] for e in entries]) for i in (0, 1))
    c = Guarded(*((m, batch, n) if interleaved else (batch, m, n)), dtype=torch.bfloat16)
    strides = dict(c_row_stride=batch * n, c_batch_stride=n) if interleaved else {}
    launch_gemm(c.out, a, b, sa, sb, m, n, None, n, k, 32, 64, 256, batch=batch, **strides)
    out = c.check().transpose(0, 1) if interleaved else c.check()
    for i, (left, right) in enumerate(entries):
        close_relative(out[i], left[2] @ right[2].T, 2.0**-8 * 1.01)


def test_four_waves():
    m, n, k = 256, 512, 768
    (a, a_scale, a_values), (b, b_scale, b_values) = operand(m, k, "fp4", 0), operand(n, k, "fp4", 1)
    c = Guarded(m, n, dtype=torch.bfloat16)
    launch = compile_fp4_gemm_4w(K=k, MN=(m, n))
    launch(a.view(torch.int8), shuffle_weight_w4(b).view(torch.int8), c.out, e8m0_shuffle(a_scale),
           e8m0_shuffle(b_scale), m, n)
    close_relative(c.check(), a_values @ b_values.T, 2.0**-8 * 1.01)
    for options, text in ((dict(K=128), "multiple of 256"), (dict(K=256, MN=(256, 300)), "N must be")):
        with pytest.raises(ValueError, match=text):
            compile_fp4_gemm_4w(**options)


@pytest.mark.parametrize(("a_dtype", "b_dtype"), tuned.MX)
def test_tuned_entries_do_not_spill(a_dtype, b_dtype):
    per_byte = {"fp4": 2, "fp6": 1, "fp8": 1}
    for tile in tuned.MX[a_dtype, b_dtype]:
        m, n, k = tile.m, 2 * tile.n, 16 * tile.k
        data = [torch.empty(rows, k // per_byte[kind], dtype=torch.int8) for rows, kind in ((m, a_dtype), (n, b_dtype))]
        scales = [torch.empty(-(-rows // 256) * 256, k // 32, dtype=torch.uint8) for rows in (m, n)]
        launch = compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=a_dtype,
                                    b_dtype=b_dtype)
        code = flyc.compile(launch, torch.empty(m, n, dtype=torch.bfloat16), *data, *scales, m, n).artifact.hsaco
        assert not any(r.vgpr_spills for r in flydsl.ir.kernel_resources(code).values()), tile


def test_unsupported_arguments():
    for options, text in ((dict(tile_k=64), "tile_k must be 128 or 256"), (dict(a_dtype="int8"), "a_dtype"),
                          (dict(K=300), "multiple of tile_k")):
        with pytest.raises(ValueError, match=text):
            compile_mxfp4_gemm(**{**dict(N=128, K=512, tile_m=32, tile_n=128, tile_k=256), **options})
