"""Gradients of the norms against autograd in f64."""

import pytest
from kernel_helpers import DTYPES, Guarded, cases, close, random, torch

from flydsl.kernels import norm, ops
from flydsl.kernels.norm import rmsnorm_bwd_programs

pytestmark = pytest.mark.each_wave_size

SHAPES = cases(
    [(64, 256, "f32"), (33, 128, "f16"), (13, 1000, "f32"), (9, 4096, "f16"), (11, 4097, "bf16"), (7, 5000, "bf16"),
     (3, 131, "f32")],
    [(512, 4096, "f16"), (513, 5000, "bf16"), (513, 4097, "bf16"), (64, 3000, "f32"), (1537, 3001, "f32"),
     (1024, 8192, "bf16"), (2, 70001, "f32")],
)
DX = {"f32": 1e-3, "f16": 3e-2, "bf16": 2e-1}
DW = {"f32": (1e-4, 1e-2), "f16": (3e-2, 1e-1), "bf16": (1e-1, 5e-1)}


def assert_weight_gradient(out, ref, dtype):
    rtol, atol = DW[dtype]
    assert torch.allclose(out.double(), ref, rtol=rtol, atol=atol)


def data(m, n, dtype):
    shapes = ((m, n), (n,), (n,), (m, n), (m, n))
    return [random(*s, dtype=dtype, seed=i) for i, s in enumerate(shapes)]


@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_rmsnorm(m, n, dtype):
    x, weight, _, dy, dres = data(m, n, dtype)
    x64, w64 = x.double().requires_grad_(), weight.double().requires_grad_()
    (x64 * torch.rsqrt((x64 * x64).mean(-1, keepdim=True) + 1e-5) * w64).backward(dy.double())
    rstd = torch.rsqrt((x.double() ** 2).mean(-1) + 1e-5).float()
    dx, dw = Guarded(m, n, dtype=DTYPES[dtype]), torch.zeros(n)
    norm.build_rmsnorm_bwd_module(n, dtype)(x, weight, dy, rstd, dx.out, dw, m)
    close(dx.check(), x64.grad, DX[dtype])
    assert_weight_gradient(dw, w64.grad, dtype)
    dx, dw = Guarded(m, n, dtype=DTYPES[dtype]), torch.zeros(n)
    norm.build_fused_add_rmsnorm_bwd_module(n, dtype)(x, weight, dy, dres, rstd, dx.out, dw, m)
    close(dx.check(), x64.grad + dres.double(), DX[dtype])
    if n > 65536:
        return
    programs = 5
    dx, dw, scratch = Guarded(m, n, dtype=DTYPES[dtype]), Guarded(n, dtype=DTYPES[dtype]), Guarded(programs * n)
    run = norm.build_rmsnorm_bwd_two_stage_module(n, dtype, programs)
    run(x, weight, dy, rstd, dx.out, dw.out, scratch.out, m)
    close(dx.check(), x64.grad, DX[dtype])
    assert_weight_gradient(dw.check(), w64.grad, dtype)
    scratch.check()
    again = torch.empty_like(dw.out)
    run(x, weight, dy, rstd, dx.out, again, scratch.out, m)
    assert torch.equal(again, dw.out)  # fixed order of summation
    dx = Guarded(m, n, dtype=DTYPES[dtype])
    run = norm.build_fused_add_rmsnorm_bwd_two_stage_module(n, dtype, programs)
    run(x, weight, dy, dres, rstd, dx.out, again, scratch.out, m)
    close(dx.check(), x64.grad + dres.double(), DX[dtype])


@pytest.mark.parametrize(("m", "n", "dtype"), SHAPES)
def test_layernorm(m, n, dtype):
    x, weight, bias, dy, _ = data(m, n, dtype)
    x64, w64, b64 = (t.double().requires_grad_() for t in (x, weight, bias))
    torch.nn.functional.layer_norm(x64, (n,), w64, b64, 1e-5).backward(dy.double())
    mean = x.double().mean(-1)
    rstd = torch.rsqrt(x.double().var(-1, correction=0) + 1e-5).float()
    dx, dw, db = Guarded(m, n, dtype=DTYPES[dtype]), torch.zeros(n), torch.zeros(n)
    norm.build_layernorm_bwd_module(n, dtype=dtype)(x, weight, dy, mean.float(), rstd, dx.out, dw, db, m)
    close(dx.check(), x64.grad, DX[dtype])
    assert_weight_gradient(dw, w64.grad, dtype)
    assert_weight_gradient(db, b64.grad, dtype)


def test_selection_of_two_stages():
    assert rmsnorm_bwd_programs(511, 4096, "bf16") == 0 == rmsnorm_bwd_programs(4096, 8193, "bf16")
    assert 0 < rmsnorm_bwd_programs(512, 4096, "bf16") <= 512


def test_operators_choose_two_stages():
    m, n = 520, 64
    x, weight, _, dy, _ = data(m, n, "f32")
    out, rstd = ops.rmsnorm_fwd(x, weight, 1e-5, True)
    dx, dw = ops.rmsnorm_bwd(x, weight, dy, rstd)
    x64, w64 = x.double().requires_grad_(), weight.double().requires_grad_()
    (x64 * torch.rsqrt((x64 * x64).mean(-1, keepdim=True) + 1e-5) * w64).backward(dy.double())
    close(dx, x64.grad, 1e-3)
    assert_weight_gradient(dw, w64.grad, "f32")
    assert dw.dtype == weight.dtype
