"""Patched torch.nn.MultiheadAttention against torch's own in f64: layouts, masks, weights, gradients, fallbacks."""

import copy
import math

import pytest
from kernel_helpers import GENERAL_GEMM, needs, random, torch
from models import relative
from torch import nn

import flydsl.kernels as kernels

pytestmark = needs(*GENERAL_GEMM)
WIDTH, HEADS, BATCH, L, S = 64, 4, 3, 7, 5
BOUND = {torch.float16: 3e-3, torch.bfloat16: 2e-2}


def made(dtype=torch.float16, **options):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(WIDTH, HEADS, **options).to(dtype)
    for p in model.parameters():
        nn.init.normal_(p, std=0.2)
    exact = copy.deepcopy(model).double()
    return model, exact, kernels.patch(model)


def operand(length, first, dtype=torch.float16, seed=0):
    x = random(BATCH, length, WIDTH, seed=seed).to(dtype)
    return x if first else x.transpose(0, 1).contiguous()


def same(results, expected, bound):
    for ours, theirs in zip(results, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.shape == theirs.shape
            assert relative(ours, theirs) <= bound


MASKS = {
    "none": {}, "causal": dict(attn_mask=torch.triu(torch.ones(L, L, dtype=torch.bool), 1), is_causal=True),
    "float": dict(attn_mask=torch.randn(L, L)), "heads": dict(attn_mask=torch.rand(BATCH * HEADS, L, L) < 0.3),
    "padding": dict(key_padding_mask=torch.arange(L)[None] >= torch.tensor([[7], [4], [1]])),
    "both": dict(attn_mask=torch.triu(torch.full((L, L), -math.inf), 1),
                 key_padding_mask=torch.zeros(BATCH, L).masked_fill(torch.arange(L) > 4, -math.inf)),
}
MASKS["heads"]["attn_mask"][:, :, 0] = False  # a row without any key has no softmax


def converted(options, dtype):
    return {k: v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for k, v in options.items()}


@pytest.mark.spread
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("weights", [None, True, False], ids=["no weights", "mean", "per head"])
@pytest.mark.parametrize("first", [False, True])
def test_self_attention(first, weights, mask):
    model, exact, report = made(batch_first=first)
    x = operand(L, first)
    options = dict(need_weights=weights is not None, average_attn_weights=bool(weights))
    ours = model(x, x, x, **options, **converted(MASKS[mask], x.dtype))
    wide = x.double()
    expected = exact(wide, wide, wide, **options, **converted(MASKS[mask], torch.float64))
    same(ours, expected, BOUND[x.dtype])
    assert [(s.name, s.calls) for s in report.sites] == [("", 1)] and report.patched


@pytest.mark.spread
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_cross_attention_and_gradients(batched, bias):
    dtype = torch.bfloat16
    model, exact, _ = made(dtype, batch_first=True, bias=bias)
    q, k, v = operand(L, True, dtype), operand(S, True, dtype, 1), operand(S, True, dtype, 2)
    q, k, v = (t if batched else t[0] for t in (q, k, v))
    leaves, wide = ([t.detach().to(d).requires_grad_() for t in (q, k, v)] for d in (dtype, torch.float64))
    ours, expected = model(*leaves), exact(*wide)
    same(ours, expected, BOUND[dtype])
    ours[0].float().pow(2).sum().backward()
    expected[0].pow(2).sum().backward()
    for a, b in zip((*leaves, *model.parameters()), (*wide, *exact.parameters()), strict=True):
        if b.grad.abs().max() > 1e-9:  # that of the keys' bias is zero but for rounding
            assert relative(a.grad, b.grad) <= 0.06


def test_compiles_as_one_graph_and_follows_updates():
    model, exact, _ = made(batch_first=True)
    x = operand(L, True)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: model(x, x, x, need_weights=False)[0], fullgraph=True, backend="aot_eager")
    with torch.no_grad():
        for _ in range(2):
            expected = exact(x.double(), x.double(), x.double())[0]
            assert relative(compiled(x), expected) <= BOUND[x.dtype]
            model.in_proj_weight.mul_(0.5)
            exact.in_proj_weight.mul_(0.5)


def test_modules_that_cannot_and_their_reasons():
    cases = {
        "different sizes": dict(kdim=32), "appends a row": dict(add_bias_kv=True), "appends": dict(add_zero_attn=True),
    }
    for reason, options in cases.items():
        model, _, report = made(**options)
        assert not report.patched and reason in report.sites[0].reason and "reads its weights" in report.sites[1].reason
        assert "forward" not in model.__dict__
    odd = kernels.patch(nn.MultiheadAttention(12, 2))
    assert "multiple of 8" in odd.sites[0].reason


def test_calls_that_cannot_run_torch():
    model, exact, report = made(batch_first=True, dropout=0.5)
    x = operand(L, True)
    with pytest.warns(UserWarning, match="dropout of 0.5 in training"):
        model(x, x, x)
    model.eval()
    same(model(x, x, x), exact.eval()(x.double(), x.double(), x.double()), BOUND[x.dtype])
    model.float()
    with pytest.warns(UserWarning, match="all must be float16 or all bfloat16"):
        model(x.float(), x.float(), x.float())
    assert report.sites[0].calls == 1 and sum(report.sites[0].fallbacks.values()) == 2


@pytest.mark.parametrize("mask", [
    {"key_padding_mask": torch.zeros(BATCH, 1).bool()}, {"key_padding_mask": torch.zeros(1, L).bool()},
    {"key_padding_mask": torch.ones(BATCH, L).int()}, {"attn_mask": torch.zeros(L, 1).bool()},
    {"attn_mask": torch.zeros(HEADS, L, L)}, {"attn_mask": torch.ones(L, L).int()}],
    ids=lambda mask: f"{next(iter(mask))}-{tuple(next(iter(mask.values())).shape)}")
def test_masks_that_do_not_fit_are_refused_as_torch_does(mask):
    """Ours would be broadcast, or integers added."""
    model, _, report = made(batch_first=True)
    x = operand(L, True)
    with (pytest.warns(UserWarning, match="is needed|of dtype torch.int32"),
          pytest.raises((AssertionError, RuntimeError))):
        model(x, x, x, **mask)
    with pytest.warns(UserWarning, match="do not fit each other"), pytest.raises(RuntimeError):
        model(x, x[:1], x[:1])
    assert not report.sites[0].calls
