"""RMS norm and layer norm, forward, fused and quantised, against f64 references."""

import pytest
from kernel_helpers import DTYPES, Guarded, cases, close, fp8_dtype, random, torch

from flydsl.kernels import norm, ops
from flydsl.kernels.parts.convert import quantised_max

pytestmark = pytest.mark.each_wave_size

SHAPES = cases(
    [(64, 256, "f32"), (32, 128, "f16"), (13, 2000, "f32"), (16, 512, "bf16"), (3, 8192, "bf16"), (3, 131, "f32"),
     (5, 1, "f32"), (2, 4097, "bf16"), (2, 5000, "f16"), (1, 70001, "f32")],
    [(64, 2000, "f32"), (64, 8192, "bf16"), (4, 65536, "f16"), (257, 1021, "bf16"), (33, 2047, "f16"),
     (33, 2049, "f32"), (8, 16384, "f32"), (3, 131072, "bf16")],
)
UNIT = {"f32": 2.0**-22, "f16": 2.0**-11, "bf16": 2.0**-8}  # error relative to the largest value of a row


def reference(x, weight, bias=None, eps=1e-5):
    x = x.double()
    if bias is not None:
        x = x - x.mean(-1, keepdim=True)
    y = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight.double()
    return y if bias is None else y + bias.double()


def check(out, ref, dtype):
    assert ((out.double() - ref).abs() <= UNIT[dtype] * ref.abs().amax(-1, keepdim=True).clamp_min(1)).all()


@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_rmsnorm(m, n, dtype):
    x, weight, residual = (random(*s, dtype=dtype, seed=i) for i, s in enumerate(((m, n), (n,), (m, n))))
    kind = DTYPES[dtype]
    out, rstd = Guarded(m, n, dtype=kind), Guarded(m)
    norm.build_rmsnorm_module(n, dtype, True)(x, weight, out.out, rstd.out, m)
    check(out.check(), reference(x, weight), dtype)
    close(rstd.check() / rstd.out, torch.rsqrt((x.double() ** 2).mean(-1) + 1e-5) / rstd.out.double(), 1e-5)
    plain = Guarded(m, n, dtype=kind)
    norm.build_rmsnorm_module(n, dtype)(x, weight, plain.out, m)
    assert torch.equal(plain.check(), out.out)

    added, out = Guarded(m, n, dtype=kind), Guarded(m, n, dtype=kind)
    norm.build_fused_add_rmsnorm_module(n, dtype)(x, residual, weight, out.out, added.out, m)
    total = (x.float() + residual.float()).to(kind)
    assert torch.equal(added.check(), total)
    check(out.check(), reference(total, weight), dtype)


@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_layernorm(m, n, dtype):
    x, weight, bias, residual = (random(*s, dtype=dtype, seed=i) for i, s in enumerate(((m, n), (n,), (n,), (m, n))))
    kind = DTYPES[dtype]
    out, mean, rstd = Guarded(m, n, dtype=kind), Guarded(m), Guarded(m)
    norm.build_layernorm_module(n, dtype, True)(x, weight, bias, out.out, mean.out, rstd.out, m)
    check(out.check(), reference(x, weight, bias), dtype)
    close(mean.check(), x.double().mean(-1), 1e-5)
    variance = x.double().var(-1, correction=0)
    close(rstd.check() * torch.sqrt(variance + 1e-5), torch.ones(m), 1e-3)
    added, out = Guarded(m, n, dtype=kind), Guarded(m, n, dtype=kind)
    norm.build_fused_add_layernorm_module(n, dtype=dtype)(x, residual, weight, bias, out.out, added.out, m)
    total = (x.float() + residual.float()).to(kind)
    assert torch.equal(added.check(), total)
    check(out.check(), reference(total, weight, bias), dtype)


def test_a_large_mean_costs_no_accuracy():
    x = random(8, 1024) * 0.1 + 1000
    one, zero = torch.ones(1024), torch.zeros(1024)
    close(ops.layernorm(x, one, zero), reference(x, one, zero), 2e-3)


@pytest.mark.parametrize("eps", [1e-6, 1e-2])
def test_eps(eps):
    x, weight = random(4, 64) * 1e-3, random(64, seed=1)
    close(ops.rmsnorm(x, weight, eps), reference(x, weight, eps=eps), 1e-5)


def test_f32_weight_with_half_activations():
    x, weight = random(6, 512, dtype="f16"), random(512, seed=1)
    check(ops.rmsnorm(x, weight), reference(x, weight), "f16")
    with pytest.raises(ValueError, match="must be that of the activations"):
        norm.build_rmsnorm_module(64, "f32", weight_dtype_str="bf16")


QUANT = cases([(6, 512, "f16"), (3, 131, "f32"), (2, 4096, "bf16"), (5, 1000, "bf16")],
              [(64, 8192, "bf16"), (33, 2047, "f16"), (2, 70001, "f32")])


@pytest.mark.parametrize("quant", ["i8", "fp8"])
@pytest.mark.parametrize(("m", "n", "dtype"), QUANT)
def test_quantised(m, n, dtype, quant):
    kind = torch.int8 if quant == "i8" else fp8_dtype()
    shapes = ((m, n), (m, n), (n,), (n,), (n,))
    x, residual, weight, bias, smooth = (random(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes))
    total = (x.float() + residual.float()).to(x.dtype)
    limit = quantised_max(quant)
    for fused in (False, True):
        for centered in (False, True):
            for smoothed in (False, True):
                name = f"build_{'fused_add_' if fused else ''}{'layer' if centered else 'rms'}norm_"
                build = getattr(norm, name + ("smooth" if smoothed else "dynamic") + "quant_module")
                q, scale, added = Guarded(m, n, dtype=kind), Guarded(m), Guarded(m, n, dtype=x.dtype)
                operands = [x] + [residual] * fused + [weight] + [bias] * centered + [smooth] * smoothed
                outs = [q.out] + [added.out] * fused + [scale.out]
                build(n, dtype, quant)(*operands, *outs, m)
                y = reference(total if fused else x, weight, bias if centered else None)
                y = y * smooth.double() if smoothed else y
                expected = y.abs().amax(-1) / limit
                assert ((scale.check() - expected).abs() / expected).max() < 1e-3
                exact = y / scale.out[:, None].double()
                error = (q.check().double() - exact).abs()
                # One step: 1 for int8, a unit in the last place (1/16 of the value) for fp8.
                step = 1.0 if quant == "i8" else (exact.abs() / 16).clamp_min(2.0**-8)
                assert (error <= step).all(), name
                if fused:
                    assert torch.equal(added.check(), total)


def test_a_zero_row_has_scale_one():
    q, scale = ops.rmsnorm_quant(torch.zeros(2, 64), torch.ones(64))
    assert bool((q == 0).all()) and bool((scale == 1).all())


def test_truncation_mode():
    x, weight, q, scale = random(3, 256), torch.ones(256), torch.zeros(3, 256, dtype=torch.int8), torch.zeros(3)
    norm.build_rmsnorm_dynamicquant_module(256, "f32", rounding="trunc")(x, weight, q, scale, 3)
    exact = reference(x, weight) / scale[:, None].double()
    assert bool((q.double().abs() <= exact.abs() + 1e-3).all()) and bool(((q - exact).abs() < 1.001).all())


def test_direct_form_and_pointers():
    import flydsl.compiler as flyc
    import flydsl.expr as fx

    x, weight, out = random(4, 256), random(256, seed=1), torch.full((4, 256), float("nan"))
    norm.rmsnorm_direct(x, weight, out, 4, 256, "f32", 256)
    check(out, reference(x, weight), "f32")
    again = torch.full((4, 256), float("nan"))
    bias = torch.zeros(256)
    pointers = [flyc.from_c_void_p(fx.Float32, t.data_ptr()) for t in (x, weight, bias, again)]
    norm.build_layernorm_module(256, "f32")(*pointers, 4)
    check(again, reference(x, weight, bias), "f32")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: norm.build_rmsnorm_module(0, "f32"), "positive"),
        (lambda: norm.build_rmsnorm_module(64, "i8"), "f32, f16, bf16"),
        (lambda: norm.build_rmsnorm_module(64, "f32", BLOCK_THREADS=100), "BLOCK_THREADS"),
        (lambda: norm.build_layernorm_dynamicquant_module(64, "f32", "i4"), "'i8' or 'fp8'"),
        (lambda: ops.rmsnorm(torch.zeros(2, 8), torch.zeros(4)), "vector of 8"),
        (lambda: norm.build_rmsnorm_bwd_two_stage_module(1 << 20, "f32", 4), "one-stage"),
    ],
)
def test_unsupported_arguments(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_autotuned_form_uses_the_default():
    from flydsl.kernels.norm import rmsnorm_autotuned, rmsnorm_configs

    assert len(rmsnorm_configs(4096)) == 7 and len(rmsnorm_configs(2048)) == 1
    x, weight, out = random(4, 4096), random(4096, seed=1), torch.full((4, 4096), float("nan"))
    rmsnorm_autotuned(x, weight, out, 4)
    check(out, reference(x, weight), "f32")


def test_older_module_names():
    import importlib

    for module, name in (("softmax_kernel", "build_softmax_module"), ("rmsnorm_kernel", "build_rmsnorm_module"),
                         ("rmsnorm_kernel", "rmsnorm_autotuned"), ("rmsnorm_kernel", "fused_add_rmsnorm_bwd"),
                         ("layernorm_kernel", "layernorm_fwd"), ("norm", "rmsnorm_bwd"),
                         ("layernorm_kernel", "build_layernorm_module"), ("quantization", "build_quant_module"),
                         ("preshuffle_gemm", "compile_preshuffle_gemm"), ("hgemm_splitk", "hgemm_splitk_"),
                         ("blockscale_preshuffle_gemm", "compile_blockscale_preshuffle_gemm"),
                         ("kernels_common", "get_warp_size")):
        assert callable(getattr(importlib.import_module(f"flydsl.kernels.{module}"), name))
