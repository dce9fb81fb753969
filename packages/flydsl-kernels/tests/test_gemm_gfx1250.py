"""The GEMMs of gfx1250 under their callers' names, against f64."""

import pytest
from kernel_helpers import DTYPES, Guarded, close_relative, needs, random, torch

import flydsl.compiler as flyc
import flydsl.ir
from flydsl.kernels import gemm
from flydsl.kernels.gemm import compile_ptpc_gemm, compile_wmma_gemm_tdm, launch_gemm_a8w8, preshuffle_b_16x16
from flydsl.kernels.target import current_arch

HERE = needs("gfx1250")


@HERE
@pytest.mark.parametrize(("dtype", "out"), [("fp16", None), ("bf16", None), ("bf16", "f32"), ("fp16", "bf16"),
                                            ("bf16", "fp16")])
@pytest.mark.parametrize("buffers", [2, 3])
def test_half(dtype, out, buffers):
    m, n, k = 70, 128, 256
    a, b = (random(*s, dtype=dtype.replace("fp", "f"), seed=i) for i, s in enumerate(((m, k), (n, k))))
    run = compile_wmma_gemm_tdm(K=k, tile_m=64, tile_n=64, tile_k=64, m_warp=2, n_warp=2, in_dtype=dtype, out_dtype=out,
                                num_buffers=buffers)
    c = Guarded(m, n, dtype=DTYPES[(out or dtype).replace("fp", "f")])
    run(c.out, a, b, m, n)
    rounding = {"fp16": 2.0**-11, "bf16": 2.0**-8, "f32": 1e-5}[out or dtype]
    close_relative(c.check(), a.double() @ b.double().T, rounding * 1.01)


@HERE
@pytest.mark.parametrize(("m", "tile", "waves", "buffers", "k"), [
    (1, (16, 32, 32), (1, 1), 4, 32), (37, (32, 96, 96), (2, 3), 2, 480), (69, (64, 48, 64), (1, 1), 3, 320),
])
def test_half_tiles(m, tile, waves, buffers, k):
    n = 2 * tile[1]
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    c = Guarded(m, n)
    compile_wmma_gemm_tdm(N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2], m_warp=waves[0], n_warp=waves[1],
                          in_dtype="bf16", out_dtype="f32", num_buffers=buffers)(c.out, a, b, m, n)
    close_relative(c.check(), a.double() @ b.double().T, 1e-5)


@HERE
@pytest.mark.parametrize("cluster", [(2, 1), (1, 2), (2, 2)])
def test_half_clusters(cluster):
    m, n, k = 70, 128, 256
    a, b = random(m, k, dtype="f16"), random(n, k, dtype="f16", seed=1)
    c = Guarded(m, n, dtype=torch.float16)
    compile_wmma_gemm_tdm(K=k, tile_m=32, tile_n=64, tile_k=64, m_warp=1, n_warp=2, cluster_m=cluster[0],
                          cluster_n=cluster[1])(c.out, a, b, m, n)
    close_relative(c.check(), a.double() @ b.double().T, 2.0**-11 * 1.01)


@HERE
def test_default_tile():
    """The registers of a SIMD are enough for it."""
    m, n, k = 256, 256, 512
    a, b = random(m, k, dtype="f16"), random(n, k, dtype="f16", seed=1)
    c = Guarded(m, n, dtype=torch.float16)
    run = compile_wmma_gemm_tdm(N=n, K=k)
    resources = flydsl.ir.kernel_resources(flyc.compile(run, c.out, a, b, m, n).artifact.hsaco)
    assert resources and not any(r.vgpr_spills for r in resources.values())
    run(c.out, a, b, m, n)
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
def test_refused():
    for options, text in (({"K": 200}, "K = 200 must be"), ({"tile_k": 48}, "positive multiple of 32"),
                          ({"in_dtype": "f32"}, "in_dtype must be"), ({"num_buffers": 1}, "num_buffers must be"),
                          ({"out_dtype": "i8"}, "out_dtype one of them or 'f32'"),
                          ({"N": 256, "cluster_n": 2}, "cluster_n = 512")):
        with pytest.raises(ValueError, match=text):
            compile_wmma_gemm_tdm(**{"K": 768, **options})


@pytest.mark.skipif(current_arch().startswith("gfx1250"), reason="runs there")
def test_other_architectures():
    with pytest.raises(ValueError, match="gfx1250"):
        compile_wmma_gemm_tdm(K=256)


@needs("gfx1250")
@pytest.mark.parametrize(("layout", "knobs"), [
    ("tt", dict(block_m=16, block_n=256, block_k=128, m_waves=1, n_waves=1, k_waves=2)),
    ("tn", dict(block_m=64, block_n=64, block_k=128, m_waves=2, n_waves=1)),
    ("nn", dict(block_m=128, block_n=128, block_k=128, m_waves=4, n_waves=1, k_waves=2, stages=3)),
    ("tt", dict(block_m=96, block_n=256, block_k=128, m_waves=2, n_waves=4, stages=3)),
])
def test_tiles_with_many_registers_or_much_lds(layout, knobs):
    """With registers beyond 256, which LLVM 22 alone would confuse at barriers, and with LDS for one workgroup only."""
    m, n, k = 80, 256, 520
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    stored = a.T.contiguous() if layout[0] == "t" else a, b if layout[1] == "t" else b.T.contiguous()
    out = gemm.gemm_a16w16(*stored, user_kwargs=knobs, layout=layout)
    close_relative(out, a.double() @ b.double().T, 2.0**-8 * 1.01)
