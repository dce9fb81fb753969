"""Names that existing callers use: they exist, and those without a kernel say what is missing."""

import importlib

import pytest
from kernel_helpers import DENSE_GEMM, close_relative, needs, random, torch

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels import gemm
from flydsl.kernels.target import current_arch

MODULES = {
    "rmsnorm_kernel": "build_rmsnorm_module rmsnorm_direct rmsnorm_autotuned rmsnorm fused_add_rmsnorm EPS VEC_WIDTH",
    "layernorm_kernel": "build_layernorm_module build_layernorm_bwd_module layernorm layernorm_fwd layernorm_bwd EPS",
    "norm": "rmsnorm rmsnorm_fwd rmsnorm_bwd fused_add_rmsnorm layernorm fused_add_layernorm rmsnorm_autotuned",
    "softmax_kernel": "build_softmax_module build_softmax_bwd_module softmax_bwd_buffered_operands",
    "quantization": "build_quant_module per_1x32_mx_quant pertoken_quant",
    "preshuffle_gemm": "compile_preshuffle_gemm compile_preshuffle_gemm_a8 compile_preshuffle_gemm_w4 "
                       "compile_mxfp4_gemm",
    "preshuffle_gemm_v2": "compile_preshuffle_gemm_v2",
    "blockscale_preshuffle_gemm": "compile_blockscale_preshuffle_gemm",
    "hgemm_splitk": "compile_hgemm_kernel hgemm_splitk_ get_default_kwargs get_semaphore SPLIT_K_SEMAPHORE_MAX_LEN",
    "wmma_gemm_gfx1250": "compile_wmma_gemm_tdm",
    "gemm_fp8fp4_gfx1250": "compile_fp8fp4_gemm compile_mxscale_gemm compile_mxfp4_gemm compile_mxfp8_gemm "
                           "compile_a8w4_gemm compile_ptpc_gemm launch_gemm_a8w4_mxscale launch_gemm_a8w8",
    "gemm_common_gfx1250": "make_lds_copy_ops workgroup_barrier pipeline_fence pipeline_fence_signal "
                           "pipeline_fence_wait fmin_f32 fmax_f32 fused_silu_swiglu_elem compute_mcast_masks",
    "kernels_common": "get_warp_size dtype_to_elem_type default_f8_type validate_moe_dtypes cvt_sr_f32_to_bf16 "
                      "_run_compiled get_dtype_str get_dtype_in_kernel get_dtype_vec_size stream_ptr_to_async_token",
    "comm": "FlyDSLDispatchCombineConfig FlyDSLDispatchCombineIntraNodeOp make_dispatch_jit make_combine_jit "
            "FlyDSLAllreduce init_custom_ar make_allreduce_kernels meta_size",
    "attention": "build_flash_attn_func_module build_gqa_attn pa_decode_ps_launch get_pa_metadata "
                 "flydsl_mla_fwd_decode flydsl_flash_attn_func",
    "common.communication_ops_utils": "GeometryTuningTable store_i32_system",
    "moe_gemm_2stage": "compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex MoeGemm2Mode compile_moe_reduction",
    "moe_blockscale_2stage": "compile_moe_blockscale_gemm1 compile_moe_blockscale_gemm2 MoeGemm2Mode "
                             "compile_moe_blockscale_gemm2_ex compile_moe_reduction",
    "mixed_moe_gemm_2stage": "GateMode compile_mixed_moe_gemm1 compile_mixed_moe_gemm2",
    "moe_gemm_2stage_wmma_gfx1250": "compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex",
    "moe_gemm_2stage_mxscale_gfx1250": "compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex launch_moe_gemm_a8w4",
    "moe_gemm_2stage_common_gfx1250": "MoeGemm2Mode",
    "moe": "build_topk_gating_softmax_module moe_sorting_flydsl compile_moe_sorting moe_softmax_sort_flydsl "
           "moe_sorting_get_workspace_size compile_moe_sorting_oneshot_fused compile_gemm1_a16w4_port "
           "compile_gemm2_a16w4_port compile_gemm1_a4w4_port compile_gemm2_a4w4_port gemm1_grid flydsl_mxfp4_gemm1 "
           "flydsl_mxfp4_gemm2 flydsl_a16w4_gemm1 flydsl_a16w4_gemm2 launch_moe_gemm_a8w4",
    "mxfp_moe": "compile_gemm1_a4w4_port compile_gemm2_a4w4_port gemm1_grid flydsl_mxfp4_gemm1 flydsl_mxfp4_gemm2",
    "moe_2stage_a16wmix": "compile_gemm1_a16w4_port compile_gemm2_a16w4_port flydsl_a16w4_gemm1 flydsl_a16w4_gemm2",
    "common": "dtype_to_elem_type get_dtype_in_kernel get exp2_amdgcn_scalar",
    "flash_attn_func": "build_flash_attn_func_module build_flash_attn_func_module_primary build_gqa_attn "
                       "build_flash_attn_dualwave_swp_module build_flash_attn_dualwave_swp_fp8_module "
                       "dualwave_splitk_workspace_elems flydsl_flash_attn_func",
    "testing": "checkAllclose verify_output run_perftest perftest bench_gpu_us_torch bench_kernel_us",
    "gemm": "pick_tile rdna3_gemm_autotuned make_gemm_a16w16_gfx950_param gemm_a16w16_gfx950 compile_fp8fp4_gemm",
}


@pytest.mark.parametrize("module", MODULES)
def test_names_exist(module):
    found = importlib.import_module(f"flydsl.kernels.{module}")
    assert not [name for name in MODULES[module].split() if not hasattr(found, name)]
    assert all(hasattr(found, name) for name in getattr(found, "__all__", ()))


def test_names_without_a_function_can_be_imported():
    """Programs that import them and do not call them run."""
    from flydsl.kernels.callers import flydsl_grouped_gemm_a8w4_masked
    from flydsl.kernels.common import G2SLoader, TorchTensor, lds_load_pack_k32

    for name, function in (("flydsl_grouped_gemm_a8w4_masked", flydsl_grouped_gemm_a8w4_masked),
                           ("G2SLoader", G2SLoader), ("TorchTensor", TorchTensor),
                           ("lds_load_pack_k32", lds_load_pack_k32)):
        with pytest.raises(NotImplementedError, match=f"{name} is not available: .* has only its name; use "):
            function(1, option=2)


def test_every_shared_name_resolves():
    common = importlib.import_module("flydsl.kernels.common")
    assert all(callable(getattr(common, name)) for name in common.__all__)


def test_launches_take_what_older_callers_make_of_a_stream():
    from flydsl.kernels.kernels_common import stream_ptr_to_async_token

    @flyc.kernel
    def fill(x):
        x[fx.thread_idx.x] = fx.Float32(3.0)

    @flyc.jit
    def launcher(x, stream: fx.Stream = fx.Stream(None)):
        fill(x).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream_ptr_to_async_token(stream))

    launcher(x := torch.zeros(32))
    assert bool((x == 3).all())


def test_norm_functions_of_the_group():
    from flydsl.kernels import norm

    x, w = random(3, 40), random(40, seed=1)
    assert torch.equal(norm.rmsnorm(x, w), norm.rmsnorm_fwd(x, w)[0])
    assert torch.equal(norm.layernorm(x, w, w), norm.layernorm_fwd(x, w, w)[0])


@needs("gfx942", "gfx950", "gfx12")
def test_names_of_gfx11_say_where_they_are():
    with pytest.raises(ValueError, match="pick_tile is not available on gfx.*: it needs gfx11"):
        gemm.pick_tile(1024, 1024, 1024)
    with pytest.raises(ValueError, match="rdna3_gemm_autotuned is not available on gfx.*: it needs gfx11"):
        gemm.rdna3_gemm_autotuned(None, None, None)


# ------------------------------------------------------------------------------------------- gfx1250


@needs("gfx1250")
@pytest.mark.parametrize("out_dtype", ["f32", "bf16"])
def test_fp8_with_scales_per_row_and_column(out_dtype):
    m, n, k = 70, 128, 256
    a, b = (random(*s, seed=i).to(torch.float8_e4m3fn) for i, s in enumerate(((m, k), (n, k))))
    scale_a, scale_b = random(m, seed=3).abs() + 0.1, random(n, seed=4).abs() + 0.1
    out = torch.full((m, n), torch.nan, dtype={"f32": torch.float32, "bf16": torch.bfloat16}[out_dtype])
    run = gemm.compile_fp8fp4_gemm(data_format="fp8", scale_mode="ptpc", N=n, K=k, tile_m=64, tile_n=64,
                                   out_dtype=out_dtype)
    shuffled = gemm.preshuffle_b_16x16(b.view(torch.uint8), n, k)
    run(out, a.view(torch.uint8), shuffled, scale_a, scale_b, m, n, k, n)
    exact = (a.double() @ b.double().T) * scale_a[:, None].double() * scale_b.double()
    close_relative(out, exact, {"f32": 1e-5, "bf16": 1e-2}[out_dtype])


@pytest.mark.skipif(current_arch().startswith("gfx1250"), reason="the other architectures")
def test_gfx1250_names_need_it():
    from flydsl.kernels.gemm_fp8fp4_gfx1250 import compile_fp8fp4_gemm, compile_mxfp4_gemm

    for build in (compile_fp8fp4_gemm, compile_mxfp4_gemm):
        with pytest.raises(ValueError, match="needs gfx1250"):
            build(N=256, K=512)
    with pytest.raises(ValueError, match="data_format"):
        compile_fp8fp4_gemm(data_format="int8", N=256, K=512)


def test_parts_of_gfx1250_kernels():
    from flydsl.kernels.gemm_common_gfx1250 import compute_mcast_masks, make_lds_copy_ops

    # A cluster of 2 x 3: workgroup x + 2 y has that bit.
    for x in range(2):
        for y in range(3):
            a, b = compute_mcast_masks(x, y, 2, 3)
            assert a == sum(1 << (x + 2 * j) for j in range(3)) and b == sum(1 << (i + 2 * y) for i in range(2))
    with pytest.raises(ValueError, match="32, 64 or 128"):
        make_lds_copy_ops(96)


# ------------------------------------------------------------------------------------------- a16w16


@needs(*DENSE_GEMM)
@pytest.mark.parametrize("split_k", [1, 4])
def test_lower_layer_of_a16w16(split_k):
    m, n, k = 40, 128, 512
    a, b, bias = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1), random(n, dtype="bf16", seed=2)
    param = gemm.make_gemm_a16w16_gfx950_param(n, k, "bf16", block_m=32, block_n=64, block_k=64, split_k=split_k,
                                               m_waves=1, n_waves=2, has_bias=True)
    semaphore, signal = (torch.zeros(gemm.SPLIT_K_SEMAPHORE_MAX_LEN, dtype=torch.int32) for _ in range(2))
    for _ in range(2):  # the flags are zero again after a launch
        out = torch.full((m, n), torch.nan, dtype=torch.bfloat16)
        gemm.gemm_a16w16_gfx950(out, a, b, bias, semaphore, signal, split_k, param, fx.Stream(None))
        close_relative(out, a.double() @ b.double().T + bias.double(), 4e-2)
        assert not semaphore.any() and not signal.any()
    with pytest.raises(ValueError, match="was made for"):
        gemm.gemm_a16w16_gfx950(out, a, b, bias, semaphore, signal, 2, param)


# --------------------------------------------------------------------------------------------------- attention


def exact_attention(q, k, v, causal=False, window=None):
    """Attention of [B, S, H, D] in float64; a window counts from the number of the row."""
    group = q.shape[2] // k.shape[2]
    k, v = (x.double().repeat_interleave(group, dim=2) for x in (k, v))
    scores = torch.einsum("bshd,bthd->bhst", q.double(), k) * q.shape[-1] ** -0.5
    i, j = torch.arange(q.shape[1])[:, None], torch.arange(k.shape[1])
    hidden = j > i + k.shape[1] - q.shape[1] if causal else torch.zeros(len(i), len(j[0:]), dtype=torch.bool)
    if window is not None:
        hidden = (j < i - window[0]) | (j > i + window[1])
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
    return torch.einsum("bhst,bthd->bshd", weights, v)


@pytest.mark.parametrize("builder", ["build_flash_attn_func_module", "build_flash_attn_dualwave_swp_module"])
@pytest.mark.parametrize("causal", [True, False])
def test_builders_of_attention(builder, causal):
    build = getattr(importlib.import_module("flydsl.kernels.flash_attn_func"), builder)
    q = random(2, 40, 4, 64).bfloat16()
    k, v = (random(2, 70, 2, 64, seed=n).bfloat16() for n in (1, 2))
    out, lse = torch.full_like(q, float("nan")), torch.full((2, 4, 40), float("nan"))
    launcher = build(4, 64, causal, "bf16", num_kv_heads=2, cross_seqlen=True, return_lse=True)
    launcher(q.reshape(-1), k, v, out, 2, 40, seq_len_kv=70, lse=lse)
    close_relative(out, exact_attention(q, k, v, causal), 1e-2)
    assert torch.isfinite(lse).all()
    with pytest.raises(ValueError, match="built for bf16"):
        launcher(q.half(), k.half(), v.half(), out, 2, 40, seq_len_kv=70)


def test_launchers_that_wrap_others_are_called_as_compiled_ones():
    from flydsl.kernels.flash_attn_func import build_flash_attn_func_module
    from flydsl.kernels.kernels_common import _run_compiled

    q = random(1, 5, 2, 64).bfloat16()
    launcher = build_flash_attn_func_module(2, 64, True, "bf16")
    for run in (launcher.compile(q, q, q, q, 1, 5), lambda *given: _run_compiled(launcher, *given)):
        out = torch.full_like(q, float("nan"))
        run(q, q, q, out, 1, 5)
        close_relative(out, exact_attention(q, q, q, True), 1e-2)


@pytest.mark.one_arch
def test_illegal_attention_is_refused_when_it_is_built():
    """Tuners catch ValueError around a builder."""
    from flydsl.kernels.flash_attn_func import build_flash_attn_func_module, build_gqa_attn

    with pytest.raises(ValueError, match="dtype_str must be one of f16, bf16, f32, fp8, got 'f64'"):
        build_flash_attn_func_module(8, 128, dtype_str="f64")
    for build in (lambda **heads: build_flash_attn_func_module(8, 128, num_kv_heads=heads["ATTN_H_KV"]),
                  build_gqa_attn):
        for wrong in (3, 0):
            with pytest.raises(ValueError, match=f"must be a multiple of {wrong} key heads"):
                build(ATTN_H=8, ATTN_H_KV=wrong)


def test_builder_of_packed_queries_and_pages():
    from flydsl.kernels.flash_attn_func import build_flash_attn_func_module

    starts, lengths = torch.tensor([0, 3, 8], dtype=torch.int32), torch.tensor([70, 5], dtype=torch.int32)
    table = torch.tensor([[2, 0], [1, 0]], dtype=torch.int32)
    q, pages = random(8, 2, 64).bfloat16(), [random(3, 64, 2, 64, seed=n).bfloat16() for n in (1, 2)]
    out = torch.full_like(q, float("nan"))
    run = build_flash_attn_func_module(2, 64, True, "bf16", varlen=True, paged=True)
    run(q, *pages, out, 2, 5, cu_seqlens_q=starts, block_table=table.flatten(), block_table_stride=2,
        seq_len_kv=lengths)
    for b, (first, last) in enumerate(((0, 3), (3, 8))):
        k, v = (p[table[b].long()].reshape(1, 128, 2, 64)[:, : lengths[b]] for p in pages)
        close_relative(out[first:last], exact_attention(q[None, first:last], k, v, True)[0], 2e-2)
    with pytest.raises(ValueError, match="Out must be dense"):
        run(q, *pages, out.new_empty(8, 2, 128)[..., :64], 2, 5, cu_seqlens_q=starts, block_table=table,
            seq_len_kv=lengths)


def test_builder_of_packed_attention():
    from flydsl.kernels.flash_attn_func import build_flash_attn_func_module

    starts, most = torch.tensor([0, 30, 47], dtype=torch.int32), 30
    q, k, v = (random(47, 2, 64, seed=n).bfloat16() for n in range(3))
    out = torch.full_like(q, float("nan"))
    build_flash_attn_func_module(2, 64, True, "bf16", varlen=True)(
        q, k, v, out, 2, most, cu_seqlens_q=starts, cu_seqlens_kv=starts)
    for a, b in ((0, 30), (30, 47)):
        close_relative(out[a:b], exact_attention(q[None, a:b], k[None, a:b], v[None, a:b], True)[0], 1e-2)


@pytest.mark.parametrize("window", [None, (32, 0), (16, 40)])
def test_builder_of_a_sliding_window(window):
    from flydsl.kernels.flash_attn_func import build_gqa_attn

    b, s, h, hkv, d = 2, 96, 4, 2, 128
    rows = random(b, s, (h + 2 * hkv) * d).bfloat16()
    q, k, v = rows[..., : h * d], rows[..., h * d : (h + hkv) * d], rows[..., (h + hkv) * d :]
    out = torch.full((b * s * h * d,), float("nan")).bfloat16()
    flat, stride = rows.reshape(-1), rows.shape[-1]
    launch = build_gqa_attn(ATTN_B=b, ATTN_H=h, ATTN_H_KV=hkv, ATTN_D=d, sliding_window=window)
    arguments = (flat, flat[h * d :], flat[(h + hkv) * d :], out, stride, stride, stride, h * d, s, s, None)
    launch.compile(*arguments)(*arguments)
    shaped = [x.reshape(b, s, -1, d) for x in (q, k, v)]
    close_relative(out.reshape(b, s, h, d), exact_attention(*shaped, window=window), 2e-2)
    of_views = torch.full((b, s, h, d), float("nan")).bfloat16()
    launch(q, k, v, of_views, *arguments[4:])  # their rows are where the strides say, too
    assert torch.equal(of_views.reshape(-1), out)
    with pytest.raises(ValueError, match="rows of O must be dense"):
        launch(*arguments[:7], h * d + 8, s, s)
    with pytest.raises(ValueError, match="rows of O must be dense"):
        launch(*arguments[:3], of_views.transpose(1, 2), *arguments[4:])


@pytest.mark.parametrize(("queries", "keys", "window"), [(64, 160, (40, 20)), (64, 160, (40, 0)), (96, 64, (32, 16))])
def test_sliding_window_of_other_keys_than_queries(queries, keys, window):
    """Query i sees the keys from i - left to i + right, however many there are."""
    from flydsl.kernels.flash_attn_func import build_gqa_attn

    b, h, hkv, d = 2, 4, 2, 128
    q = random(b, queries, h, d).bfloat16()
    k, v = (random(b, keys, hkv, d, seed=n).bfloat16() for n in (1, 2))
    out = torch.full_like(q, float("nan"))
    launch = build_gqa_attn(ATTN_B=b, ATTN_H=h, ATTN_H_KV=hkv, ATTN_D=d, sliding_window=window)
    launch(q, k, v, out, h * d, hkv * d, hkv * d, h * d, queries, keys)
    close_relative(out, exact_attention(q, k, v, window=window), 2e-2)
    with pytest.raises(ValueError, match="leaves queries without a key: pass fewer queries"):
        launch(q, k, v, out, h * d, hkv * d, hkv * d, h * d, queries, queries - window[0] - 1)


def test_check_allclose(capsys):
    from flydsl.kernels.testing import checkAllclose

    a = torch.arange(8.0)
    b = a.clone()
    b[3] = float("nan")
    assert checkAllclose(a, a, printLog=False) == 0
    assert checkAllclose(a, b, msg="x ") == 1 / 8
    assert "x [checkAllclose" in (text := capsys.readouterr().out) and "[3]: 3 and nan" in text
