"""The 4-wave and 8-wave fp8 GEMMs of gfx950 against f64."""

import pytest
from kernel_helpers import Guarded, cases, close_relative, needs, random, torch

from flydsl.kernels.gemm import compile_fp8_gemm_4w, compile_fp8_gemm_8w, shuffle_weight
from flydsl.kernels.target import current_arch

SIZES = cases(
    [(4, 70, 200, 384, (64, 64)), (4, 128, 256, 256, (64, 128)), (8, 130, 512, 384, (128, 256)),
     (4, 300, 256, 512, (256, 256)), (4, 270, 460, 384, (256, 224))],
    [(8, 512, 2112, 1024, (128, 256)), (4, 512, 2112, 7168, (64, 64)), (8, 257, 512, 1152, (256, 256))],
)


@needs("gfx950")
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize(("waves", "m", "n", "k", "block"), SIZES)
def test_against_f64(waves, m, n, k, block, shuffled):
    a, b = (random(*s, seed=i).to(torch.float8_e4m3fn) for i, s in enumerate(((m, k), (n, k))))
    if shuffled and n % 16:
        n = n // 16 * 16
        b = b[:n].contiguous()
    scale_a, scale_b = torch.rand(m) + 0.5, torch.rand(n) + 0.5
    build = compile_fp8_gemm_4w if waves == 4 else compile_fp8_gemm_8w
    c = Guarded(m, n, dtype=torch.bfloat16)
    launch = build(K=k, BLOCK_M=block[0], BLOCK_N=block[1], b_preshuffled=shuffled)
    launch(a.view(torch.int8), (shuffle_weight(b) if shuffled else b).view(torch.int8), c.out, scale_a, scale_b, m, n)
    exact = a.double() @ b.double().T * scale_a[:, None].double() * scale_b.double()
    close_relative(c.check(), exact, 2.0**-8 * 1.01)


@needs("gfx950")
@pytest.mark.parametrize(
    ("call", "text"),
    [(lambda: compile_fp8_gemm_4w(K=128), "at least 256"),
     (lambda: compile_fp8_gemm_4w(K=256, BLOCK_M=96), "multiple of 64"),
     (lambda: compile_fp8_gemm_4w(K=256, BLOCK_N=48), "multiple of 32"),
     (lambda: compile_fp8_gemm_8w(K=256, BLOCK_N=128), "multiple of 256"),
     (lambda: compile_fp8_gemm_4w(K=256, BLOCK_M=512, BLOCK_N=512), "bytes of LDS")],
)
def test_errors(call, text):
    with pytest.raises(ValueError, match=text):
        call()


@pytest.mark.skipif(current_arch().startswith("gfx95"), reason="runs there")
def test_other_architectures():
    with pytest.raises(ValueError, match="gfx95"):
        compile_fp8_gemm_4w(K=256)
