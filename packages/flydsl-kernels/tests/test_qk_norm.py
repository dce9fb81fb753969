"""Norm, rotation and quantisation of latent attention's heads against the definition in f64."""

import math

import pytest
from kernel_helpers import Guarded, close, fp8_dtype, random, torch

import flydsl.runtime as rt
from flydsl.kernels.rope import flydsl_qk_norm_rope_quant


def normal(x, weight, cos, sin, positions):
    """(the result, its rstd, the weighted values before norm and rotation) in f64."""
    x = x.double()
    rstd = (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
    weighted = x if weight is None else x * weight.double()
    y, half = weighted * rstd, cos.shape[-1]
    c, s = (t.double()[positions].view(-1, *[1] * (x.dim() - 2), half) for t in (cos, sin))
    kept, turned = y[..., : -2 * half], y[..., -2 * half :]
    even, odd = turned[..., 0::2], turned[..., 1::2]
    turned = torch.stack((even * c - odd * s, odd * c + even * s), -1).flatten(-2)
    return torch.cat((kept, turned), -1), rstd, weighted


def operands(tokens, heads, dim, rope):
    q, kv = random(tokens, heads, dim, dtype="bf16"), random(tokens, 2 * dim, dtype="bf16", seed=1)[:, dim:]
    weights = [random(dim, dtype="bf16", seed=i) for i in (2, 3)]
    angles = torch.arange(9)[:, None] * 100.0 ** -(torch.arange(rope // 2) / (rope // 2))
    positions = torch.arange(tokens) * 5 % 9
    return q, kv, weights, angles.cos().bfloat16(), angles.sin().bfloat16(), positions


@pytest.mark.parametrize(("tokens", "heads", "dim", "rope", "weighted"), [
    (3, 5, 512, 64, False), (2, 3, 512, 512, True), (7, 2, 40, 8, True), (1, 1, 1096, 16, False),
])
def test_without_quantisation(tokens, heads, dim, rope, weighted):
    q, kv, weights, cos, sin, positions = operands(tokens, heads, dim, rope)
    q_weight = weights[1] if weighted else None
    outs = Guarded(tokens, heads, dim, dtype=torch.bfloat16), Guarded(tokens, dim, dtype=torch.bfloat16)
    with rt.checked("oob,race,uninit") as report:
        results = flydsl_qk_norm_rope_quant(
            q.view(tokens, -1), kv, weights[0], cos, sin, positions, num_q_heads=heads, head_dim=dim,
            rope_head_dim=rope, q_weight=q_weight, q_out=outs[0].out, kv_out=outs[1].out)
    assert not report.findings and results[2] is None
    for out, x, weight in ((outs[0], q, q_weight), (outs[1], kv, weights[0])):
        expected = normal(x, weight, cos, sin, positions)[0]
        close(out.check(), expected, 2.0**-8 * float(expected.abs().max()))


@pytest.mark.parametrize("scale", ["fp32", "e8m0"])
@pytest.mark.parametrize(("dim", "group"), [(512, 64), (512, None), (512, 32), (96, 32)])
def test_quantised(dim, group, scale):
    fp8, tokens, heads, rope = fp8_dtype(), 3, 2, 32
    q, kv, weights, cos, sin, positions = operands(tokens, heads, dim, rope)
    results = flydsl_qk_norm_rope_quant(q, kv, weights[0], cos, sin, positions, num_q_heads=heads, head_dim=dim,
                                        rope_head_dim=rope, quant=True, quant_group_size=group, scale_dtype=scale)
    size, most = group or dim, torch.finfo(fp8).max
    for out, stored, x, weight in ((results[0], results[2], q, None), (results[1], results[3], kv, weights[0])):
        expected, rstd, weighted = normal(x, weight, cos, sin, positions)
        top = weighted.unflatten(-1, (-1, size)).abs().amax(-1) * rstd * math.sqrt(2)
        assert out.dtype == fp8 and stored.shape == (*x.shape[:-1], dim // size)
        if scale == "fp32":
            close(stored / (top / most), torch.ones_like(top), 1e-5)
            step = stored.double()
        else:
            bits = top.float().view(torch.int32)
            assert torch.equal(stored.int(), (((bits + 0x400000) & 0x7F800000) >> 23) - 7)
            step = 2.0 ** (stored.double() - 127)
        value = out.double().unflatten(-1, (-1, size)) * step[..., None]
        # Half a step of a 3-bit mantissa of the largest value that a group may have.
        bound = (top * 2.0**-4)[..., None] + 1e-9
        if scale == "e8m0" and most < 448:  # e4m3fnuz ends at 240: what lies above saturates
            kept = expected.unflatten(-1, (-1, size)).abs() <= most * step[..., None]
        else:
            kept = torch.ones_like(value, dtype=torch.bool)
        assert bool((((value - expected.unflatten(-1, (-1, size))).abs() <= bound) | ~kept).all())


def test_what_is_refused():
    q, kv, weights, cos, sin, positions = operands(2, 2, 64, 16)
    sizes = {"num_q_heads": 2, "head_dim": 64, "rope_head_dim": 16}

    def run(**more):
        flydsl_qk_norm_rope_quant(q, kv, weights[0], cos, sin, positions, **{**sizes, **more})

    with pytest.raises(ValueError, match="rope_head_dim must be a multiple of 8 up to 64, got 12"):
        run(rope_head_dim=12)
    with pytest.raises(ValueError, match="head_dim must be a multiple of 8 up to 2048, got 60"):
        run(head_dim=60)
    with pytest.raises(ValueError, match=r"q must be \[T, 96\] or \[T, 3, 32\]"):
        run(num_q_heads=3, head_dim=32)
    fp8_dtype()
    for scale, wrong in (("e8m0", torch.zeros(2, 2, 1)), ("fp32", torch.zeros(2, 2, 1, dtype=torch.bfloat16))):
        with pytest.raises(TypeError, match="the kernel was built for"):
            run(quant=True, scale_dtype=scale, q_scale=wrong)
    with pytest.raises(ValueError, match="groups must divide 64"):
        run(quant=True, quant_group_size=24)
