"""The preshuffle GEMMs in their types against f64."""

import pytest
from kernel_helpers import Guarded, cases, close_relative, fp8_dtype, needs, random, torch

from flydsl.kernels import ops
from flydsl.kernels.gemm import (
    compile_blockscale_preshuffle_gemm,
    compile_preshuffle_gemm,
    compile_preshuffle_gemm_a8,
    compile_preshuffle_gemm_v2,
    compile_preshuffle_gemm_w4,
    shuffle_weight,
)
from flydsl.kernels.gemm.preshuffle import preshuffle_config
from flydsl.kernels.host.weights import clear_preshuffle_cache, preshuffled
from flydsl.kernels.quant.reference import pack_int4
from flydsl.kernels.target import target

pytestmark = needs("gfx942", "gfx950")
ROUNDING = 2.0**-8  # of a bf16 result

PLAIN = cases(
    [(16, 128, 256, (32, 64, 64), "bf16"), (33, 256, 512, (32, 64, 128), "fp16"),
     (33, 128, 1024, (16, 64, 256), "int8"), (70, 256, 384, (64, 128, 128), "fp8"),
     (33, 256, 576, (64, 64, 64), "fp8"), (17, 64, 512, (16, 64, 512), "fp8"),
     (33, 128, 1024, (16, 64, 256), "int4"), (129, 256, 384, (64, 256, 128), "int8"),
     # chunks of A in a tile that threads have no equal share of
     (20, 64, 192, (16, 64, 64), "int8"), (50, 64, 384, (48, 64, 128), "fp8")],
    [(16, 512, 8192, (16, 64, 512), "fp8"), (33, 1024, 2048, (32, 64, 512), "fp8"),
     (513, 512, 1024, (64, 256, 64), "bf16"),
     (256, 256, 1024, (128, 128, 128), "fp8"), (257, 512, 640, (64, 256, 128), "int8"),
     (130, 512, 1024, (128, 256, 64), "fp16"), (300, 256, 2048, (96, 128, 128), "fp8")],
)
SWISH, TANH = torch.nn.functional.silu, lambda x: torch.nn.functional.gelu(x, approximate="tanh")
ACTIVATIONS = {"none": lambda x: x, "bias": lambda x: x, "bias_relu": torch.relu, "bias_silu": SWISH, "bias_gelu": TANH}


def operands(m, n, k, dtype):
    """(a, shuffled b, scale_a, scale_b, f64 product with the scales)."""
    if dtype in ("bf16", "fp16"):
        a, b = (random(*s, dtype=dtype.replace("fp", "f"), seed=i) for i, s in enumerate(((m, k), (n, k))))
        return a, shuffle_weight(b), torch.empty(0), torch.empty(0), a.double() @ b.double().T
    scale_a, scale_b = torch.rand(m) * 0.01 + 0.01, torch.rand(n) * 0.01 + 0.01
    if dtype == "fp8":
        a, b = (random(*s, seed=i).to(fp8_dtype()) for i, s in enumerate(((m, k), (n, k))))
    else:
        limit = 8 if dtype == "int4" else 127
        a = torch.randint(-127, 128, (m, k), dtype=torch.int8)
        b = torch.randint(-limit, limit, (n, k), dtype=torch.int8)
    product = a.double() @ b.double().T * scale_a[:, None].double() * scale_b.double()
    shuffled = shuffle_weight(b)
    return a, pack_int4(shuffled) if dtype == "int4" else shuffled, scale_a, scale_b, product


def flat(x):
    return (x.view(torch.int8) if x.element_size() == 1 else x).view(-1)


def run(m, n, k, tile, dtype, **options):
    a, b, scale_a, scale_b, product = operands(m, n, k, dtype)
    bias = random(n, seed=5)
    c = Guarded(m, n, dtype=torch.bfloat16)
    tiles = dict(zip(("tile_m", "tile_n", "tile_k"), tile, strict=True))
    launch = compile_preshuffle_gemm(N=n, K=k, **tiles, in_dtype=dtype, **options)
    launch(c.out.view(-1), flat(a), flat(b), scale_a, scale_b, bias, m, n)
    epilogue = options.get("epilogue", "none")
    product = product if epilogue == "none" else product + bias.double()
    close_relative(c.check(), ACTIVATIONS[epilogue](product), ROUNDING, f"{dtype} {tile}")


@pytest.mark.parametrize(("m", "n", "k", "tile", "dtype"), PLAIN)
def test_types_and_tiles(m, n, k, tile, dtype):
    run(m, n, k, tile, dtype)


def test_no_rows():
    a, b, scale_a, scale_b, _ = operands(0, 64, 128, "int8")
    launch = compile_preshuffle_gemm(N=64, K=128, tile_m=16, tile_n=64, tile_k=128, in_dtype="int8")
    launch(torch.empty(0, 64, dtype=torch.bfloat16), a, b, scale_a, scale_b, torch.empty(0), 0, 64)


@pytest.mark.parametrize("epilogue", list(ACTIVATIONS))
@pytest.mark.parametrize("dtype", cases(["bf16", "int8"], ["fp8", "fp16"]))
def test_epilogues(dtype, epilogue):
    run(37, 128, 256, (32, 64, 128), dtype, epilogue=epilogue)


@pytest.mark.parametrize(
    "options",
    [dict(lds_stage=1), dict(xcd_swizzle=2), dict(enable_scheduler=False), dict(preload=(2, 2)), dict(waves_per_eu=2)],
)
def test_options(options):
    run(131, 256, 512, (64, 128, 128), "int8", **options)


@pytest.mark.skipif(not target().dma128, reason="direct 16-byte copies to LDS are gfx950's")
@pytest.mark.parametrize(("dtype", "tile"), [("bf16", (64, 128, 64)), ("fp8", (64, 128, 256)), ("int8", (32, 64, 128))])
@pytest.mark.parametrize("k_tiles", [1, 2, 5])
def test_direct_copies(dtype, tile, k_tiles):
    run(70, 256, tile[2] * k_tiles, tile, dtype, use_async_copy=True)


@pytest.mark.skipif(not target().dma128, reason="direct 16-byte copies to LDS are gfx950's")
@pytest.mark.parametrize("options", [dict(lds_stage=1), dict(enable_scheduler=False), dict(xcd_swizzle=4)])
def test_options_of_direct_copies(options):
    run(70, 256, 640, (64, 128, 128), "int8", use_async_copy=True, **options)


@pytest.mark.parametrize("k_tiles", [1, 2, 3, 4, 5, 7, 8, 10])
@pytest.mark.parametrize("tile", [(32, 64, 128), (48, 128, 128)], ids=["loads three tiles ahead", "one tile ahead"])
def test_every_tail_of_the_loop(tile, k_tiles):
    run(16, tile[1], 128 * k_tiles, tile, "int8")


@pytest.mark.parametrize("k_tiles", [1, 2, 3, 4])
@pytest.mark.parametrize("tile", [(64, 64, 256), (64, 128, 128), (128, 128, 128)])
def test_every_tail_of_fragments_a_tile_ahead(tile, k_tiles):
    """Which tiles of fp8 have on gfx950."""
    run(140, tile[1], tile[2] * k_tiles, tile, "fp8")


@pytest.mark.parametrize("options", [dict(lds_stage=1), dict(enable_scheduler=False)])
def test_options_beside_fragments_a_tile_ahead(options):
    run(70, 64, 1280, (64, 64, 256), "fp8", **options)


def test_small_tiles_load_as_far_ahead_as_compute_units_are_left():
    def reach(n, tile_m=16, tile_k=128, **options):
        config = preshuffle_config("test", target(), n=n, k=4096, tile_m=tile_m, tile_n=64, tile_k=tile_k,
                                   in_dtype="int8", out_dtype="bf16", **options)
        return config.reach

    units = target().compute_units
    assert reach(64) == reach(64 * (units - 1)) == reach(64, 16, 512) == reach(64, 64, full=False) == 3
    assert reach(64 * units) == reach(64, 64) == reach(64, 64, 256, full=False) == reach(64, full=True) == 1
    assert not target().dma128 or reach(64, use_async=True) == 1


def test_int8_is_exact():
    m, n, k = 32, 64, 2048
    a, b = (torch.randint(-127, 128, s, dtype=torch.int8) for s in ((m, k), (n, k)))
    c = torch.empty(m, n, dtype=torch.float16)
    one = torch.full((max(m, n),), 2.0**-12)
    compile_preshuffle_gemm(N=n, K=k, tile_m=32, tile_n=64, tile_k=128, in_dtype="int8", out_dtype="fp16")(
        c.view(-1), a.view(-1), shuffle_weight(b).view(-1), one[:m], one[:n], torch.empty(0), m, n
    )
    exact = (a.double() @ b.double().T) * 2.0**-24
    assert torch.equal(c, exact.half())


def test_older_names():
    m, n, k = 20, 128, 256
    a, b, scale_a, scale_b, product = operands(m, n, k, "int8")
    tile = dict(tile_m=32, tile_n=64, tile_k=128)
    c = torch.empty(m, n, dtype=torch.float16)
    for sizes in (dict(N=n), dict()):
        c.fill_(float("nan"))
        old = compile_preshuffle_gemm_a8(K=k, in_dtype="int8", **sizes, **tile)
        old(c.view(-1), flat(a), flat(b), torch.empty(0), scale_a, scale_b, m, n)
        close_relative(c, product, 2.0**-11)
    c.fill_(float("nan"))
    v2 = compile_preshuffle_gemm_v2(N=n, K=k, in_dtype="int8", out_dtype="fp16", **tile)
    v2(c.view(-1), flat(a), flat(b), scale_a, scale_b, m, n)
    close_relative(c, product, 2.0**-11)
    a, b, scale_a, scale_b, product = operands(m, n, k, "int4")
    w4 = compile_preshuffle_gemm_w4(N=n, K=k, out_dtype="fp16", **tile)
    w4(c.view(-1), flat(a), flat(b), scale_a, scale_b, torch.empty(0), m, n)
    close_relative(c, product, 2.0**-11)


BLOCKSCALE = cases([(33, 384, 512, (16, 64, 256)), (20, 64, 384, (16, 64, 128)), (1, 192, 256, (32, 64, 128)),
                    (70, 256, 640, (64, 128, 128)),
                    (33, 512, 384, (64, 256, 128)), (40, 384, 384, (32, 192, 128))],
                   [(7, 512, 2304, (16, 64, 256)), (256, 512, 1024, (64, 128, 128)),
                    (64, 256, 7168, (32, 64, 128))])


@pytest.mark.parametrize(("m", "n", "k", "tile"), BLOCKSCALE)
def test_blockscale(m, n, k, tile, **options):
    a, b = (random(*s, seed=i).to(fp8_dtype()) for i, s in enumerate(((m, k), (n, k))))
    scale_a, scale_b = torch.rand(k // 128, m) + 0.5, torch.rand(-(-n // 128), k // 128) + 0.5
    left = a.double() * scale_a.T.repeat_interleave(128, 1).double()
    right = b.double() * scale_b.repeat_interleave(128, 0)[:n].repeat_interleave(128, 1).double()
    c = Guarded(m, n, dtype=torch.bfloat16)
    launch = compile_blockscale_preshuffle_gemm(M=m, N=n, K=k, tile_m=tile[0], tile_n=tile[1], tile_k=tile[2],
                                                **options)
    launch(c.out.view(-1), flat(a), flat(shuffle_weight(b)), scale_a, scale_b, m, n)
    close_relative(c.check(), left @ right.T, ROUNDING)


@pytest.mark.skipif(not target().dma128, reason="direct 16-byte copies to LDS are gfx950's")
@pytest.mark.parametrize("k_tiles", [1, 2, 5])
def test_blockscale_with_direct_copies(k_tiles):
    test_blockscale(70, 256, 128 * k_tiles, (64, 128, 128), use_async_copy=True, waves_per_eu=1)


def test_functional_forms():
    a, b, scale_a, scale_b, product = operands(40, 128, 256, "int8")
    bias = random(128, seed=7)
    y = ops.preshuffle_gemm(a.view(2, 20, 256), b, scale_a, scale_b, bias, "silu")
    close_relative(y.view(40, 128), SWISH(product + bias.double()), ROUNDING)
    with pytest.raises(ValueError, match="tagged None"):
        ops.preshuffle_gemm(a, b.clone(), scale_a, scale_b)


def test_functional_form_with_int4_weights():
    a, _, scale_a, scale_b, _ = operands(150, 512, 512, "int8")
    w = torch.randint(-8, 8, (512, 512), dtype=torch.int8)
    w[3], a[4] = -8, -128  # the largest sums
    product = a.double() @ w.double().T * scale_a[:, None].double() * scale_b.double()
    for packed in (ops.pack_int4(shuffle_weight(w)), pack_int4(shuffle_weight(w))):
        for rows in (3, 150):
            close_relative(ops.preshuffle_gemm(a[:rows], packed, scale_a[:rows], scale_b), product[:rows], ROUNDING)
    with pytest.raises(TypeError, match="int4 weights need int8 activations"):
        ops.preshuffle_gemm(a.bfloat16(), packed, scale_a, scale_b)
    with pytest.raises(ValueError, match="tagged None"):  # packed, but not shuffled before
        ops.preshuffle_gemm(a, ops.pack_int4(w), scale_a, scale_b)


def test_longest_sum_of_int4_products():
    """The accumulator holds 16 times the sum: with K just below the limit it comes close to the end of i32."""
    n, k = 64, 2**17 - 64
    a, w = torch.full((1, k), -128, dtype=torch.int8), torch.full((n, k), -8, dtype=torch.int8)
    y = ops.preshuffle_gemm(a, pack_int4(shuffle_weight(w)), torch.ones(1), torch.ones(n))
    close_relative(y, torch.full((1, n), 1024.0 * k, dtype=torch.float64), ROUNDING)
    with pytest.raises(ValueError, match="K must be less than 131072 for int4"):
        compile_preshuffle_gemm(N=64, K=2**17, tile_m=16, tile_n=64, tile_k=256, in_dtype="int4")


def test_blockscale_pipeline_from_quantisers():
    x, w = random(24, 256, dtype="bf16"), random(192, 256, dtype="bf16", seed=1)
    fp8_dtype()
    xq, x_scale = ops.quantize_per_group(x, "fp8", transposed_scale=True)
    wq, w_scale = ops.quantize_per_block(w, "fp8")
    y = ops.blockscale_gemm(xq, shuffle_weight(wq), x_scale, w_scale)
    exact = x.double() @ w.double().T
    assert ((y.double() - exact).norm() / exact.norm()).item() < 0.05


@pytest.mark.parametrize("dtype", ["fp8", "int4", "bf16"])
def test_sizes_that_are_no_multiples_of_a_tile(dtype):
    m, n, k = 5, 80, 160
    a, b, scale_a, scale_b, product = operands(m, n, k, dtype)
    scales, bias = (scale_a, scale_b) if dtype != "bf16" else (None, None), random(n)
    for _ in range(2):  # of the copy of the weight that was kept, too
        out = ops.preshuffle_gemm(a, b, *scales, bias, "relu")
        assert out.shape == (m, n) and out.is_contiguous()
        close_relative(out, (product + bias.double()).relu(), ROUNDING)
    none = ops.preshuffle_gemm(a[:0], b, None if dtype == "bf16" else scale_a[:0], scales[1])
    assert none.shape == (0, n)


@pytest.mark.parametrize(("m", "n", "k"), [(1, 16, 32), (3, 144, 224)])
def test_blockscale_sizes_that_are_no_multiples_of_a_tile(m, n, k):
    a, b = (random(*s, seed=i).to(fp8_dtype()) for i, s in enumerate(((m, k), (n, k))))
    scale_a, scale_b = torch.rand(-(-k // 128), m) + 0.5, torch.rand(-(-n // 128), -(-k // 128)) + 0.5
    left = a.double() * scale_a.double().T.repeat_interleave(128, 1)[:, :k]
    columns = scale_b.double().repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
    out = ops.blockscale_gemm(a, shuffle_weight(b), scale_a, scale_b)
    close_relative(out, left @ (b.double() * columns).T, ROUNDING)


def test_shuffled_weight_follows_in_place_updates():
    clear_preshuffle_cache()
    w, x = random(64, 128, dtype="bf16"), random(8, 128, dtype="bf16", seed=1)
    with torch.no_grad():
        first = preshuffled(w)
        assert preshuffled(w) is first
        close_relative(ops.linear(x, w), x.double() @ w.double().T, ROUNDING)
        w.mul_(3)
        assert preshuffled(w) is not first
        close_relative(ops.linear(x, w), x.double() @ w.double().T, ROUNDING)
    with torch.inference_mode():
        v = w * 2
        v.add_(1)
        close_relative(ops.linear(x, v), x.double() @ v.double().T, ROUNDING)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (dict(tile_m=8), "tile_m must be a positive multiple of 16"),
        (dict(tile_n=96), "tile_n must be a positive multiple of 64"),
        (dict(tile_k=48), "tile_k must be a positive multiple of 64"),
        (dict(N=100), "N = 100 must be a positive multiple of tile_n"),
        (dict(K=200), "K = 200 must be a positive multiple of tile_k"),
        (dict(in_dtype="fp4"), "in_dtype must be one of"),
        (dict(out_dtype="f64"), "out_dtype"),
        (dict(epilogue="tanh"), "epilogue must be one of"),
        (dict(tile_m=512, tile_k=1024, K=1024), "LDS"),
    ],
)
def test_unsupported_arguments(options, text):
    good = dict(N=128, K=256, tile_m=32, tile_n=64, tile_k=128, in_dtype="int8")
    with pytest.raises(ValueError, match=text):
        compile_preshuffle_gemm(**{**good, **options})
