"""The GEMMs of gfx1250 under their callers' names, against f64."""

import pytest
from kernel_helpers import DTYPES, Guarded, close_relative, needs, random, torch

from flydsl.kernels.common.arch import current_arch
from flydsl.kernels.gemm import compile_ptpc_gemm, compile_wmma_gemm_tdm, launch_gemm_a8w8, preshuffle_b_16x16

HERE = needs("gfx1250")


@HERE
@pytest.mark.parametrize(("dtype", "out"), [("fp16", None), ("bf16", None), ("bf16", "f32")])
@pytest.mark.parametrize("buffers", [2, 3])
def test_half(dtype, out, buffers):
    m, n, k = 70, 128, 256
    a, b = (random(*s, dtype=dtype.replace("fp", "f"), seed=i) for i, s in enumerate(((m, k), (n, k))))
    run = compile_wmma_gemm_tdm(K=k, tile_m=64, tile_n=64, tile_k=64, m_warp=2, n_warp=2, in_dtype=dtype, out_dtype=out,
                                num_buffers=buffers)  # fmt: skip
    c = Guarded(m, n, dtype=DTYPES[out or dtype.replace("fp", "f")])
    run(c.out, a, b, m, n)
    rounding = {"fp16": 2.0**-11, "bf16": 2.0**-8, "f32": 1e-5}[out or dtype]
    close_relative(c.check(), a.double() @ b.double().T, rounding * 1.01)


@HERE
def test_default_tile():
    """Divided among more waves than asked for, so that 256 registers are enough."""
    m, n, k = 256, 256, 256
    a, b = random(m, k, dtype="f16"), random(n, k, dtype="f16", seed=1)
    c = Guarded(m, n, dtype=torch.float16)
    compile_wmma_gemm_tdm(N=n, K=k)(c.out, a, b, m, n)
    close_relative(c.check(), a.double() @ b.double().T, 2.0**-11 * 1.01)


@HERE
@pytest.mark.parametrize("built", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), [(33, 128, 384), (128, 256, 256)])
def test_fp8_with_scales_per_row_and_column(m, n, k, built):
    a, b = (random(*s, seed=i).to(torch.float8_e4m3fn) for i, s in enumerate(((m, k), (n, k))))
    scale_a, scale_b = torch.rand(m) + 0.5, torch.rand(n) + 0.5
    shuffled, c = preshuffle_b_16x16(b, n, k).view(torch.int8), Guarded(m, n, dtype=torch.bfloat16)
    if built:
        run = compile_ptpc_gemm(K=k, tile_m=64, tile_n=64)
        run(c.out, a.view(torch.int8), shuffled, scale_a, scale_b, m, n, k, n)
    else:
        launch_gemm_a8w8(c.out, a.view(torch.int8), shuffled, scale_a, scale_b, m, None, n, k, 0, k, n, 64, 128, 128)
    exact = a.double() @ b.double().T * scale_a[:, None].double() * scale_b.double()
    close_relative(c.check(), exact, 2.0**-8 * 1.01)


@HERE
def test_what_is_missing_says_so():
    with pytest.raises(NotImplementedError, match="clusters"):
        compile_wmma_gemm_tdm(K=256, cluster_m=2)
    with pytest.raises(ValueError, match="K = 200 must be"):
        compile_wmma_gemm_tdm(K=200)


@pytest.mark.skipif(current_arch().startswith("gfx1250"), reason="runs there")
def test_other_architectures():
    with pytest.raises(ValueError, match="gfx1250"):
        compile_wmma_gemm_tdm(K=256)
