"""No operation allocates more than its results and the workspace that it states; operators keep nothing afterwards."""

import pytest
from kernel_helpers import needs, random, torch
from torch.utils._python_dispatch import TorchDispatchMode

from flydsl.kernels import workspace
from flydsl.kernels.elementwise import functional as elementwise
from flydsl.kernels.moe import functional as moe
from flydsl.kernels.norm import functional as norm
from flydsl.kernels.quant import functional as quant
from flydsl.kernels.softmax import functional as softmax


class Allocations(TorchDispatchMode):
    """Bytes of every storage that is made in the block, by address; nothing made in it is released."""

    def __enter__(self):
        self.storages = {}
        self._keep = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {a.untyped_storage().data_ptr() for a in args if isinstance(a, torch.Tensor)}
        for t in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(t, torch.Tensor) and t.untyped_storage().data_ptr() not in given:
                self._keep.append(t)
                self.storages[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return result

    @property
    def total(self):
        return sum(self.storages.values())


def storage_bytes(results):
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in results if t is not None}
    return sum(storages.values())


def beyond_results(call):
    """Bytes that the call allocated and did not return."""
    with Allocations() as made:
        results = call()
    return made.total - storage_bytes(results if isinstance(results, tuple) else (results,))


M, N = 12, 640


def cases(dtype, m=M):
    x, r, w, b = random(m, N, dtype=dtype), random(m, N, dtype=dtype), random(N, dtype=dtype), random(N, dtype=dtype)
    stat = torch.ones(m)
    backward = (workspace.rmsnorm_bwd_workspace(m, N, dtype), workspace.layernorm_bwd_workspace(m, N, dtype))
    int8, half = torch.ones(m, N, dtype=torch.int8), torch.ones(m, N // 2, dtype=torch.uint8)
    group, e8m0 = torch.ones(m, N // 32), torch.full((m, N // 32), 127, dtype=torch.uint8)
    return {
        "add": (0, lambda: elementwise.add(x, r)),
        "softmax": (0, lambda: softmax.softmax_fwd(x)),
        "softmax_bwd": (0, lambda: softmax.softmax_bwd(r, x)),
        "rmsnorm": (0, lambda: norm.rmsnorm_fwd(x, w, store_rstd=True)),
        "layernorm": (0, lambda: norm.layernorm_fwd(x, w, b, store_stats=True)),
        "fused_add_rmsnorm": (0, lambda: norm.fused_add_rmsnorm_fwd(x, r, w)),
        "fused_add_layernorm": (0, lambda: norm.fused_add_layernorm_fwd(x, r, w, b)),
        "rmsnorm_quant": (0, lambda: norm.rmsnorm_quant(x, w, w)),
        "fused_add_rmsnorm_quant": (0, lambda: norm.fused_add_rmsnorm_quant(x, r, w)),
        "layernorm_quant": (0, lambda: norm.layernorm_quant(x, w, b, w)),
        "fused_add_layernorm_quant": (0, lambda: norm.fused_add_layernorm_quant(x, r, w, b)),
        "rmsnorm_bwd": (backward[0], lambda: norm.rmsnorm_bwd(x, w, r, stat)),
        "fused_add_rmsnorm_bwd": (backward[0], lambda: norm.fused_add_rmsnorm_bwd(x, w, r, stat, r)),
        "layernorm_bwd": (backward[1], lambda: norm.layernorm_bwd(x, w, r, stat, stat)),
        "quantize_per_token": (0, lambda: quant.quantize_per_token(x)),
        "quantize_per_group": (0, lambda: quant.quantize_per_group(x, "i8", transposed_scale=True)),
        "quantize_per_block": (0, lambda: quant.quantize_per_block(x, "i8")),
        "quantize_per_tensor": (workspace.quantize_per_tensor_workspace(),
                                lambda: quant.quantize_per_tensor(x, None, "i8")),
        "dequantize": (0, lambda: quant.dequantize(int8, stat)),
        "quantize_int4": (0, lambda: quant.quantize_int4(x)),
        "dequantize_int4": (0, lambda: quant.dequantize_int4(half, group)),
        "pack_int4": (0, lambda: quant.pack_int4(int8)),
        "unpack_int4": (0, lambda: quant.unpack_int4(half)),
        "dequantize_mx": (0, lambda: quant.dequantize_mx(half, e8m0)),
        "topk_gating_softmax": (0, lambda: moe.topk_gating_softmax(x, 4)),
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", list(cases("f32")))
def test_row_operations(name, dtype):
    stated, call = cases(dtype)[name]
    assert beyond_results(call) == stated


@pytest.mark.parametrize("name", ["rmsnorm_bwd", "fused_add_rmsnorm_bwd"])
def test_two_stage_gradient(name):
    stated, call = cases("bf16", 600)[name]
    assert 0 < beyond_results(call) == stated <= 600 * N * 4


def test_the_kernels_stay_inside_their_workspace():
    """The partial sums of the two-stage gradient, between guards."""
    from kernel_helpers import Guarded

    from flydsl.kernels.norm import build_rmsnorm_bwd_two_stage_module

    m, n, programs = 33, 301, 5
    x, w, dy = random(m, n), random(n), random(m, n, seed=1)
    dx, dw, partial = Guarded(m, n), Guarded(n), Guarded(programs * n)
    build_rmsnorm_bwd_two_stage_module(n, "f32", programs)(x, w, dy, torch.ones(m), dx.out, dw.out, partial.out, m)
    assert not bool(dx.check().isnan().any() | dw.check().isnan().any() | partial.check().isnan().any())


@needs("gfx942", "gfx950", "gfx120")
@pytest.mark.parametrize("split_k", [1, 4])
def test_general_gemm(split_k):
    from flydsl.kernels.gemm.dense import gemm_a16w16

    m, n, k = 32, 64, 2048
    a, b = random(m, k, dtype="bf16"), random(n, k, dtype="bf16", seed=1)
    used = beyond_results(lambda: gemm_a16w16(a, b, None, None, user_kwargs={"split_k": split_k}))
    assert used == workspace.gemm_workspace(m, n, split_k)


@needs("gfx942", "gfx950")
def test_linear_keeps_one_copy_of_a_weight():
    from flydsl.kernels.gemm import functional as gemm

    x, weight = random(16, 128, dtype="bf16"), random(64, 128, dtype="bf16", seed=1)
    gemm.clear_preshuffle_cache()

    def used(w):
        return beyond_results(lambda: gemm.linear(x, w, None, shuffle=True))

    first = used(weight)
    assert first == weight.numel() * weight.element_size()
    assert used(weight) == 0
    weight.add_(1)
    assert used(weight) == first and len(gemm._shuffled) == 1
    del weight
    assert not gemm._shuffled  # the copy goes with the weight


@needs("gfx942", "gfx950", "gfx120", "gfx1250")
def test_scaled_gemm():
    """Nothing, once the weight is in the order of the kernel."""
    from kernel_helpers import fp8_dtype

    from flydsl.kernels.gemm.scaled import scaled_gemm

    a, b = random(12, 256).to(fp8_dtype()), random(128, 256, seed=1).to(fp8_dtype())
    scales = torch.ones(12), torch.ones(128)
    scaled_gemm(a, b, *scales)
    assert beyond_results(lambda: scaled_gemm(a, b, *scales)) == 0


@needs("gfx950", "gfx1250")
@pytest.mark.parametrize(("m", "k"), [(12, 256), (300, 384)])
def test_mx_gemm(m, k):
    from flydsl.kernels.gemm.scaled import mx_gemm

    a, b = (torch.ones(rows, k // 2, dtype=torch.uint8) for rows in (m, 64))
    scales = [torch.full((rows, k // 32), 127, dtype=torch.uint8) for rows in (m, 64)]
    mx_gemm(a, b, *scales)
    assert beyond_results(lambda: mx_gemm(a, b, *scales)) == workspace.mx_gemm_workspace(m, k)
