"""Names that existing callers use: they exist, and those without a kernel say what is missing."""

import importlib

import pytest
from kernel_helpers import GENERAL_GEMM, close_relative, needs, random, torch

import flydsl.expr as fx
from flydsl.kernels import gemm
from flydsl.kernels.target import current_arch

MODULES = {
    "rmsnorm_kernel": "build_rmsnorm_module rmsnorm_direct rmsnorm_autotuned rmsnorm fused_add_rmsnorm EPS VEC_WIDTH",
    "layernorm_kernel": "build_layernorm_module build_layernorm_bwd_module layernorm layernorm_fwd layernorm_bwd EPS",
    "norm": "rmsnorm rmsnorm_fwd rmsnorm_bwd fused_add_rmsnorm layernorm fused_add_layernorm rmsnorm_autotuned",
    "softmax_kernel": "build_softmax_module build_softmax_bwd_module softmax_bwd_buffered_operands",
    "quantization": "build_quant_module per_1x32_mx_quant",
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
                      "_run_compiled get_dtype_str get_dtype_in_kernel get_dtype_vec_size",
    "moe_gemm_2stage": "compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex MoeGemm2Mode compile_moe_reduction",
    "moe_blockscale_2stage": "compile_moe_blockscale_gemm1 compile_moe_blockscale_gemm2 MoeGemm2Mode "
                             "compile_moe_blockscale_gemm2_ex compile_moe_reduction",
    "mixed_moe_gemm_2stage": "compile_mixed_moe_gemm1 compile_mixed_moe_gemm2",
    "moe_gemm_2stage_wmma_gfx1250": "compile_moe_gemm1 compile_moe_gemm2 compile_moe_gemm2_ex",
    "moe_gemm_2stage_mxscale_gfx1250": "launch_moe_gemm_a8w4",
    "moe_gemm_2stage_common_gfx1250": "MoeGemm2Mode",
    "moe": "build_topk_gating_softmax_module moe_sorting_flydsl compile_moe_sorting moe_softmax_sort_flydsl "
           "moe_sorting_get_workspace_size compile_moe_sorting_oneshot_fused compile_gemm1_a16w4_port "
           "compile_gemm1_a4w4_port flydsl_mxfp4_gemm1 flydsl_a16w4_gemm2",
    "gemm": "pick_tile rdna3_gemm_autotuned make_gemm_a16w16_gfx950_param gemm_a16w16_gfx950 compile_fp8fp4_gemm",
}


@pytest.mark.parametrize("module", MODULES)
def test_names_exist(module):
    found = importlib.import_module(f"flydsl.kernels.{module}")
    assert not [name for name in MODULES[module].split() if not hasattr(found, name)]
    assert all(hasattr(found, name) for name in getattr(found, "__all__", ()))


def test_every_shared_name_resolves():
    common = importlib.import_module("flydsl.kernels.common")
    assert all(callable(getattr(common, name)) for name in common.__all__)


def test_norm_functions_of_the_group():
    from flydsl.kernels import norm

    x, w = random(3, 40), random(40, seed=1)
    assert torch.equal(norm.rmsnorm(x, w), norm.rmsnorm_fwd(x, w)[0])
    assert torch.equal(norm.layernorm(x, w, w), norm.layernorm_fwd(x, w, w)[0])


def test_products_in_other_orders_say_what_to_call():
    from flydsl.kernels import moe

    with pytest.raises(NotImplementedError, match="ops.moe with quant='mxfp4'"):
        moe.flydsl_mxfp4_gemm1(n_tokens=1)


def test_gfx11_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="gfx11 GEMM"):
        gemm.pick_tile(1024, 1024, 1024)
    with pytest.raises(NotImplementedError, match="gfx11 GEMM"):
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


@needs(*GENERAL_GEMM)
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
