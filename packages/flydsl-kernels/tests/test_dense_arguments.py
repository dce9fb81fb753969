"""Builders whose kernels take addresses alone refuse arrays with gaps, and ones that hold less than the kernel takes,
which they would read and write wrongly."""

import numpy as np
import pytest
from kernel_helpers import needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import moe, ops
from flydsl.kernels.cache.append import build_cache_append_module
from flydsl.kernels.cache.layout import packed_blocks
from flydsl.kernels.host.dense import require_dense
from flydsl.kernels.norm import build_layernorm_module, build_rmsnorm_bwd_module, build_rmsnorm_module
from flydsl.kernels.quant import build_quant_module
from flydsl.kernels.rope import build_rope_cache_module, build_rope_module, compile_flydsl_qk_norm_rope_quant
from flydsl.kernels.sampling import build_argmax_module
from flydsl.kernels.softmax import build_softmax_bwd_module, build_softmax_module

M, N = 6, 64


def with_gaps(x):
    """The same values, rows apart."""
    wide = x.new_zeros(*x.shape[:-1], x.shape[-1] + 8)
    wide[..., : x.shape[-1]] = x
    return wide[..., : x.shape[-1]]


def matrix(dtype="f32"):
    return random(M, N, dtype=dtype)


def integers(*shape):
    return torch.zeros(shape, dtype=torch.int32)


def slots():
    return torch.arange(M, dtype=torch.int32)


CALLS = {  # launcher, and its arguments
    "softmax": lambda: (build_softmax_module(M, N), [matrix(), matrix(), M]),
    "softmax_bwd": lambda: (build_softmax_bwd_module(N, "f32"), [matrix(), matrix(), matrix(), M]),
    "rmsnorm": lambda: (build_rmsnorm_module(N, "f32"), [matrix(), random(N), matrix(), M]),
    "rmsnorm_bwd": lambda: (build_rmsnorm_bwd_module(N, "f32"),
                            [matrix(), random(N), matrix(), random(M), matrix(), torch.zeros(N), M]),
    "layernorm": lambda: (build_layernorm_module(N, "f32"), [matrix(), random(N), random(N), matrix(), M]),
    "quant": lambda: (build_quant_module(N)[0],
                      [matrix("f16"), torch.zeros(M, N, dtype=torch.int8), torch.zeros(M), M]),
    "argmax": lambda: (build_argmax_module(N), [matrix(), torch.zeros(M, dtype=torch.int64), M]),
    "gating": lambda: (moe.build_topk_gating_softmax_module(N, 2, "f32"),
                       [matrix(), torch.zeros(M, 2), torch.zeros(M, 2), torch.zeros(M, 2), M]),
    "reduction": lambda: (moe.compile_moe_reduction(topk=2, model_dim=N, dtype_str="f32", use_mask=True, num_experts=3),
                          [random(2 * M, N), matrix(), integers(3), integers(M, 2), M]),
    "sort": lambda: (moe.build_moe_sorting_module(3, 2, 4, has_mask=True, limited=True),
                     [integers(M, 2), random(M, 2), integers(22), random(22), integers(6), integers(2), integers(3),
                      integers(1), None, None, M, 1, 1, 0, 0]),
    "append": lambda: (build_cache_append_module(*packed_blocks(8, 2, 16, None), "f32", "f32"),
                       [*(random(M, 32) for _ in "kv"), *(random(3 * 256) for _ in "kv"), slots(), None, None, M, 3]),
    "rope": lambda: (build_rope_module(2, 16, "f32"), [random(M, 32), random(9, 8), random(9, 8), integers(M),
                                                       random(M, 32), M, 4, 9]),
    "rope_cache": lambda: (
        build_rope_cache_module(4, *packed_blocks(8, 2, 16, None), eps=1e-6),
        [*(random(M, h * 16, dtype="bf16") for h in (4, 2, 2)), random(9, 8), random(9, 8), integers(M),
         *(random(3 * 256, dtype="bf16") for _ in "kv"), slots(), None, None, random(16), random(16),
         *(random(M, h * 16, dtype="bf16") for h in (4, 2)), M, 3, 9]),
    "qk_norm": lambda: (
        compile_flydsl_qk_norm_rope_quant(num_q_heads=2, head_dim=16, rope_head_dim=8),
        [random(M, 32, dtype="bf16"), random(M, 16, dtype="bf16"), random(16, dtype="bf16"), random(9, 4), random(9, 4),
         integers(M), random(M, 32, dtype="bf16"), random(M, 16, dtype="bf16"), M, 9]),
}
HELD = [name for name in CALLS if name not in ("quant", "argmax")]  # of which it is known how much they take


@pytest.mark.parametrize("name", CALLS)
def test_rows_apart(name):
    launcher, arguments = CALLS[name]()
    for i, x in enumerate(arguments):
        if torch.is_tensor(x) and x.dim() == 2:
            with pytest.raises(AssertionError, match="must be dense"):
                launcher(*(with_gaps(x) if j == i else y for j, y in enumerate(arguments)))


@pytest.mark.parametrize("name", HELD)
def test_fewer_elements_than_rows_of_n(name):
    """Views of larger storage: what lies behind them would be taken for theirs."""
    launcher, arguments = CALLS[name]()
    for i, x in enumerate(arguments):
        if torch.is_tensor(x):
            short = torch.zeros(2 * len(x), *x.shape[1:], dtype=x.dtype)[: len(x) - 1]
            with pytest.raises(AssertionError, match="holds fewer elements than the kernel was built and is called"):
                launcher(*(short if j == i else y for j, y in enumerate(arguments)))
    launcher(*(torch.cat((y, y)) if torch.is_tensor(y) else y for y in arguments))  # more is no fault


@pytest.mark.parametrize(("name", "places"), [("gating", [0]), ("reduction", [0, 2, 3]), ("sort", range(8)),
                                              ("rope", [0, 4]), ("rope_cache", [0, 6, 13]), ("qk_norm", [0, 6])])
def test_operands_of_another_width(name, places):
    """Half of each number would be taken for a whole one."""
    launcher, arguments = CALLS[name]()
    for i in places:
        wide = arguments[i].to(torch.float64 if arguments[i].is_floating_point() else torch.int64)
        with pytest.raises(TypeError, match="the kernel was built for .*, but an argument holds (Float|Int)64"):
            launcher(*(wide if j == i else y for j, y in enumerate(arguments)))


@needs("gfx942", "gfx950")
def test_products_of_other_operands_than_they_were_built_for():
    from flydsl.kernels.preshuffle_gemm import compile_preshuffle_gemm, compile_preshuffle_gemm_v2

    tile = {"N": 64, "K": 128, "tile_m": 32, "tile_n": 64, "tile_k": 64, "in_dtype": "bf16"}
    launcher, none = compile_preshuffle_gemm_v2(**tile), torch.empty(0)
    a, b, c = (random(*shape, dtype="bf16") for shape in ((5, 128), (64, 128), (5, 64)))
    launcher(c, a, b, none, none, 5, 64)
    for wrong in ((c, a[:, :64].contiguous(), b, none, none, 5, 64), (c, a, b[:32], none, none, 5, 64),
                  (c[:4], a, b, none, none, 5, 64), (c, a, b, none, none, 6, 64)):
        with pytest.raises(AssertionError, match="holds fewer elements"):
            launcher(*wrong)
    with pytest.raises(AssertionError, match="built for N = 64, and is called for another"):
        launcher(c, a, b, none, none, 5, 32)
    with pytest.raises(TypeError, match="built for BFloat16, but an argument holds Float16"):
        launcher(c, a.half(), b.half(), none, none, 5, 64)
    with pytest.raises(ValueError, match="preload must be two numbers"):
        compile_preshuffle_gemm(**tile, preload=(1,))


@needs("gfx942", "gfx950")
def test_products():
    from flydsl.kernels.gemm import compile_preshuffle_gemm, shuffle_weight

    launcher = compile_preshuffle_gemm(N=64, K=64, tile_m=16, tile_n=64, tile_k=64, in_dtype="bf16")
    a, b, none = random(M, 64, dtype="bf16"), random(64, 64, dtype="bf16"), torch.empty(0)
    c = torch.empty_like(a)
    for x, y in ((a, with_gaps(c)), (with_gaps(a), c)):
        with pytest.raises(AssertionError, match="must be dense"):
            launcher(y, x, shuffle_weight(b), none, none, none, M, 64)


@needs("gfx942", "gfx950", "gfx11", "gfx120", "gfx1250")
def test_general_products_of_other_operands():
    from flydsl.kernels.gemm.dense import build_gemm_module

    launcher = build_gemm_module(64, 128, "bf16", block_m=32, block_n=64)
    a, b, c = (random(*shape, dtype="bf16") for shape in ((5, 128), (64, 128), (5, 64)))
    launcher(c, a, b, c, c, 5)
    for wrong in ((c, a[:, :64].contiguous(), b, c, c, 5), (c, a, b[:32], c, c, 5), (c[:4], a, b, c, c, 5)):
        with pytest.raises(AssertionError, match="holds fewer elements"):
            launcher(*wrong)
    with pytest.raises(AssertionError, match="a must be dense"):
        launcher(c, with_gaps(a), b, c, c, 5)
    with pytest.raises(TypeError, match="built for BFloat16, but an argument holds Float16"):
        launcher(c, a.half(), b, c, c, 5)


@needs("gfx950")
def test_fp8_products_of_other_operands():
    from flydsl.kernels.gemm import compile_fp8_gemm_4w

    launcher, m, n, k = compile_fp8_gemm_4w(K=256, BLOCK_M=64, BLOCK_N=64), 5, 64, 256
    a, b = (random(rows, k).to(torch.float8_e4m3fn) for rows in (m, n))
    c, scale_a, scale_b = torch.empty(m, n).bfloat16(), torch.ones(m), torch.ones(n)
    launcher(a.view(torch.int8), b, c, scale_a, scale_b, m, n)
    with pytest.raises(AssertionError, match="scale_a holds fewer elements"):
        launcher(a, b, c, scale_a[:3], scale_b, m, n)
    for other in (torch.float8_e4m3fnuz, torch.bfloat16):
        with pytest.raises(TypeError, match="built for Float8E4M3FN, but an argument holds"):
            launcher(a.float().to(other), b, c, scale_a, scale_b, m, n)


def refuse_each(launcher, given, sizes, wrong_type):
    """Each operand an element short, or with rows apart, is refused; so are the operands of other floats that
    `wrong_type` names."""
    launcher(*given.values(), *sizes)
    for name, x in given.items():
        shorter = torch.zeros(2 * x.numel(), dtype=x.dtype)[: x.numel() - 1]
        with pytest.raises(AssertionError, match="holds fewer elements"):
            launcher(*({**given, name: shorter}).values(), *sizes)
        if x.dim() == 2 and len(x) > 1:
            with pytest.raises(AssertionError, match="must be dense"):
                launcher(*({**given, name: with_gaps(x)}).values(), *sizes)
    for name in wrong_type:
        for other in (torch.float16, torch.float32, torch.float8_e4m3fnuz):
            with pytest.raises(TypeError, match="the kernel was built for"):
                launcher(*({**given, name: given[name].float().to(other)}).values(), *sizes)


def zeros(*shape, dtype=torch.uint8):
    return torch.zeros(shape, dtype=dtype)


@needs("gfx950")
@pytest.mark.parametrize("a_dtype", ["fp4", "fp6", "fp8"])
def test_microscaled_products_of_other_operands(a_dtype):
    """Scales are whole groups of 32 rows, which `shuffle_scale_w4` does not fill up."""
    from flydsl.kernels.mxfp4_preshuffle import compile_mxfp4_gemm

    m, n, k = 33, 64, 384
    launcher = compile_mxfp4_gemm(N=n, K=k, tile_m=32, tile_n=64, tile_k=128, a_dtype=a_dtype)
    given = {"c": zeros(m, n, dtype=torch.bfloat16), "a": zeros(m, k // (2 if a_dtype == "fp4" else 1)),
             "b": zeros(n, k // 2), "scale_a": zeros(64, 16), "scale_b": zeros(n, 16)}
    refuse_each(launcher, given, (m, n), [] if a_dtype == "fp6" else ["a", "b"])


@needs("gfx950")
def test_microscaled_products_whose_strides_are_told():
    """Entries of a batch between the rows of others: what counts is where the last one ends."""
    from flydsl.kernels.mxfp4_preshuffle import launch_gemm

    m, n, k, batch = 5, 64, 256, 3
    static = (n, k, 16, 64, 256, "fp8", "bf16", "fp4", batch, batch * k, k, -1, -1, batch * n, n, 0)
    a, c = zeros(m, batch, k), zeros(m, batch, n, dtype=torch.bfloat16)
    b, scale_a, scale_b = zeros(batch, n, k // 2), zeros(batch, 256, 8), zeros(batch, n, 8)
    for views in ((c, a), (c.transpose(0, 1), a.transpose(0, 1))):
        launch_gemm(*views, b, scale_a, scale_b, m, n, fx.Stream(None), *static)
    for wrong in ((c[:4], a), (c, a[:4]), (c[:, :2], a)):
        with pytest.raises(AssertionError, match="holds fewer elements"):
            launch_gemm(*wrong, b, scale_a, scale_b, m, n, fx.Stream(None), *static)


@needs("gfx1250")
@pytest.mark.parametrize("kind", ["fp4", "fp8", "a8w4", "ptpc", "block", "f16"])
def test_products_with_tensor_moves_of_other_operands(kind):
    from flydsl.kernels import gemm_fp8fp4_gfx1250 as scaled
    from flydsl.kernels.wmma_gemm_gfx1250 import compile_wmma_gemm_tdm

    m, n, k, tile = 33, 64, 256, {"tile_m": 32, "tile_n": 64, "tile_k": 128, "m_warp": 1, "n_warp": 1}
    c, sizes = zeros(m, n, dtype=torch.bfloat16), (m, n, 0, 0)
    a, b = zeros(m, k // (2 if kind == "fp4" else 1)), zeros(n, k // (1 if kind in ("fp8", "ptpc", "block") else 2))
    if kind == "f16":
        launcher, sizes = compile_wmma_gemm_tdm(K=k, in_dtype="bf16", **tile), (m, n)
        given = {"c": c, "a": zeros(m, k, dtype=torch.bfloat16), "b": zeros(n, k, dtype=torch.bfloat16)}
    elif kind == "ptpc":
        launcher = scaled.compile_ptpc_gemm(K=k, **tile)
        given = {"c": c, "a": a, "b": b, "a_scale": torch.ones(m), "b_scale": torch.ones(n)}
    elif kind == "block":
        def launcher(*args):
            return scaled.launch_gemm_a8w8(*args, m, fx.Stream(None), n, k, m + 3, **tile, is_bsc=1)

        sizes, given = (), {"c": c, "a": a, "b": b, "sa": zeros(2 * m + 3), "sb": zeros(1, 2)}
    else:
        launcher = scaled.compile_mxscale_gemm(data_format=kind, K=k, **tile)
        given = {"c": c, "a": a, "b": b, "a_scale": zeros(2, k), "b_scale": zeros(2, k)}
    refuse_each(launcher, given, sizes, ["a", "b"])


@needs("gfx1250")
@pytest.mark.parametrize("split_k", [1, 2])
def test_products_with_tensor_moves_whose_rows_are_apart(split_k):
    """The last row ends where the memory may; a launch that is refused has not cleared C."""
    from flydsl.kernels.gemm_fp8fp4_gfx1250 import compile_fp8fp4_gemm

    m, n, k, lda, ldc = 3, 64, 256, 288, 72
    launcher = compile_fp8fp4_gemm(data_format="a8w4", K=k, tile_m=16, tile_n=64, m_warp=1, n_warp=1, split_k=split_k)
    a, c = zeros(m, lda), torch.ones(m, ldc)
    rest = zeros(n, k // 2), zeros(1, k), zeros(2, k)
    for views in ((c, a), (c[:, :n], a[:, :k])):
        launcher(*views, *rest, m, n, lda, ldc)
    assert (c[:, :n] == 0).all() and (c[:, n:] == 1).all()
    for wrong in ((c.fill_(1.0)[:, : n - 1], a), (c, a[:, : k - 1])):
        with pytest.raises(AssertionError, match="holds fewer elements"):
            launcher(*wrong, *rest, m, n, lda, ldc)
    assert (c == 1).all()


def test_what_is_dense_all_the_same():
    """One row has no next one; the functional forms copy what they are given."""
    x, out = with_gaps(matrix())[:1], torch.full((1, N), torch.nan)
    build_softmax_module(1, N)(x, out, 1)
    assert torch.equal(out, ops.softmax(with_gaps(matrix()))[:1])


@flyc.jit
def required(x: fx.Tensor):
    require_dense({"x": x})


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0), (2, 0, 3), (0,)])
def test_nothing_is_dense(shape):
    """NumPy and torch have steps of their own for arrays without elements."""
    required(np.zeros(shape, np.float32))
    required(torch.zeros(shape))
    required(torch.zeros(*shape[:-1], 7)[..., : shape[-1]])


def test_no_rows():
    launcher, x = build_softmax_module(0, N), np.zeros((0, N), np.float32)
    launcher(x, x.copy(), 0)
    launcher(torch.from_numpy(x), torch.zeros(M, 2 * N)[:0, :N], 0)


def test_rows_in_one():
    """The kernel has N; the shape that its tensors come with is theirs."""
    x, out = random(N), torch.full((N,), torch.nan)
    build_softmax_module(1, N)(x, out, 1)
    assert torch.equal(out, ops.softmax(x))
