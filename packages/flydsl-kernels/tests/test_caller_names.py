"""The functions that serving stacks call (:mod:`flydsl.kernels.callers`)."""

import math

import pytest
from kernel_helpers import GENERAL_GEMM, close, needs, random, torch
from test_moe_mixed import (
    EXPERTS,
    INTER,
    MODEL,
    TOKENS,
    K,
    gated,
    half_bytes,
    micro_weight,
    routed,
    sorted_rows,
    spread,
)

from flydsl.kernels import callers, moe
from flydsl.kernels.gemm import e8m0_shuffle
from flydsl.kernels.quant.reference import moe_mxfp4_sort
from flydsl.kernels.testing import verify_output

pytestmark = needs(*GENERAL_GEMM)


def test_every_name_is_a_function():
    assert all(callable(getattr(callers, name)) for name in callers.__all__)
    assert len(set(callers.__all__)) == len(callers.__all__) >= 13


def packed(causal, window=(-1, -1)):
    """(arguments, output, logarithms) of two sequences of 5 and 33 rows; the reference is in f64."""
    lengths, heads, kv_heads, dim = (5, 33), 4, 2, 64
    total = sum(lengths)
    q, k, v = (random(total, h, dim, dtype="bf16", seed=s) for s, h in enumerate((heads, kv_heads, kv_heads)))
    starts = torch.tensor([0, 5, 38], dtype=torch.int32)
    out, logs = torch.empty(total, heads, dim, dtype=torch.float64), torch.empty(heads, total, dtype=torch.float64)
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        a, b, c = (t[begin:end].double().repeat_interleave(heads // t.shape[1], 1).transpose(0, 1) for t in (q, k, v))
        scores = a @ b.transpose(1, 2) / math.sqrt(dim)
        row, key = torch.arange(end - begin)[:, None], torch.arange(end - begin)
        hidden = (key > row) if causal else torch.zeros_like(key > row)
        if window[0] >= 0:
            hidden = hidden | (key < row - window[0])
        scores = scores.masked_fill(hidden, -math.inf)
        out[begin:end] = (scores.softmax(-1) @ c).transpose(0, 1)
        logs[:, begin:end] = scores.logsumexp(-1)
    return (q, k, v, starts, starts, 33, 33), out, logs


@pytest.mark.spread
@pytest.mark.parametrize("causal, window", [(False, (-1, -1)), (True, (-1, -1)), (True, (7, 0))])
def test_attention_of_packed_sequences(causal, window):
    given, expected, logs = packed(causal, window)
    out, lse = callers.flydsl_flash_attn_varlen_func(*given, causal=causal, return_lse=True, window_size=window)
    close(out, expected, 2e-2)
    close(lse, logs, 2e-3)
    place = torch.empty_like(out)
    assert callers.flydsl_flash_attn_varlen_func(*given, causal=causal, window_size=window, out=place) is place
    assert torch.equal(place, out)


def test_what_attention_leaves_to_others():
    given = packed(False)[0]
    assert callers.flydsl_flash_attn_varlen_func(*given, dropout_p=0.1) is None
    assert callers.flydsl_flash_attn_varlen_func(*given, return_attn_probs=True) is None


@pytest.mark.skipif(not hasattr(moe, "moe_sorting_flydsl"), reason="no sorting")
@pytest.mark.parametrize("tokens", [3, 600, 7])  # without a workspace, with one, and with one that is larger
def test_sorting_with_a_workspace_of_its_own(tokens):
    experts, topk, unit = 8, 2, 32
    ids = torch.stack([torch.randperm(experts, generator=torch.Generator().manual_seed(t))[:topk]
                       for t in range(tokens)]).to(torch.int32)
    weights = random(tokens, topk)
    room = tokens * topk + experts * unit
    made = [torch.zeros(room, dtype=torch.int32), torch.zeros(room), torch.zeros(room // unit + experts,
            dtype=torch.int32), torch.zeros(2, dtype=torch.int32), torch.ones(64, dtype=torch.bfloat16)]
    callers.flydsl_moe_sorting_fwd(ids, weights, *made, experts, unit)
    sorted_ids, sorted_weights, sorted_experts, valid, buffer = made
    expected = [(e, t, s) for e in range(experts) for t in range(tokens) for s in range(topk) if ids[t, s] == e]
    count = int(valid[0])
    found = [(int(sorted_experts[i // unit]), int(x) & 0xFFFFFF, int(x) >> 24)
             for i, x in enumerate(sorted_ids[:count].tolist()) if x & 0xFFFFFF < tokens]
    assert sorted(found) == sorted(expected)
    assert all(sorted_weights[i] == weights[x & 0xFFFFFF, x >> 24]
               for i, x in enumerate(sorted_ids[:count].tolist()) if x & 0xFFFFFF < tokens)
    assert not buffer.any()


# ------------------------------------------------------------------------------------------- experts


@needs("gfx950")
@pytest.mark.parametrize("weighted", [False, True])
def test_first_stage_of_experts(weighted):
    ids, weights, (rows, factors, experts, valid) = routed(32)
    codes, scales, values = micro_weight("fp4", 2 * INTER, MODEL, 1)
    x, exact = half_bytes("fp8", TOKENS, MODEL, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS, MODEL // 32, seed=4)
    given = (x, codes.view(EXPERTS, 2 * INTER, -1), rows, experts, valid)
    named = dict(tile_n=128, w1_scale=scales, a1_scale=moe_mxfp4_sort(scale_x, rows, valid, TOKENS),
                 sorted_weights=factors if weighted else None, swiglu_limit=1.0)
    out = callers.flydsl_moe_stage1(*given, None, K, **named)
    expected = gated(exact * spread(of_x), values, weights, ids, "silu", 1.0, None, weighted)
    assert out.dtype == torch.bfloat16 and verify_output(out, expected, 2e-3, 2e-3)
    place = torch.empty_like(out)
    assert callers.flydsl_moe_stage1(*given, place, K, **named) is place and torch.equal(place, out)
    # The quantised form is a pair; test_quantised_results judges the kernel, so here only what the call adds.
    data, factor = callers.flydsl_moe_stage1(*given, None, K, **named, out_dtype="fp8")
    assert data.shape == (TOKENS, K, INTER) and data.dtype == factor.dtype == torch.uint8
    assert factor.shape[0] >= len(rows) and factor.shape[1] == INTER // 32
    with pytest.raises(ValueError, match="a has 512 columns and w1 1024"):
        callers.flydsl_moe_stage1(x, torch.zeros(EXPERTS, 2 * INTER, MODEL, dtype=torch.uint8), rows, experts, valid)


@needs("gfx950")
@pytest.mark.parametrize(("act", "weighted", "biased", "mode"), [
    ("silu", False, False, "mock_gate_only"), ("swiglu", True, True, "mock_gate_only"),
    ("situ", True, False, "separated"), ("gelu", False, True, "separated")])
def test_first_stage_of_experts_with_a_shared_reduction(act, weighted, biased, mode):
    ids, weights, (rows, factors, experts, valid) = routed(32)
    codes, scales, values = micro_weight("fp4", 2 * INTER, MODEL, 1)
    x, exact = half_bytes("fp8", TOKENS, MODEL, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS, MODEL // 32, seed=4)
    bias = random(EXPERTS, 2 * INTER, seed=6) if biased else None
    # Behind the rows that count nothing is read.
    rows, factors = torch.cat((rows, torch.zeros_like(rows))), torch.cat((factors, factors * math.nan))
    out = torch.full((TOKENS, K, INTER), math.nan, dtype=torch.float16)
    given = (x, codes.view(EXPERTS, 2 * INTER, -1), rows, experts, valid, out, K)
    named = dict(tile_n=128, w1_scale=scales, a1_scale=moe_mxfp4_sort(scale_x, rows, valid, TOKENS), act=act,
                 out_dtype="f16", swiglu_limit=1.0, bias=bias, k_batch=2, gate_mode=mode,
                 sorted_weights=factors if weighted else None)
    assert callers.flydsl_moe_stage1(*given, **named) is out
    expected = gated(exact * spread(of_x), values, weights, ids, act, 1.0, bias, weighted)
    assert verify_output(out, expected, 1e-3, 1e-3)
    for wrong, text in ((dict(act="relu"), "activation must be"), (dict(out_dtype="fp4"), "needs k_batch = 1")):
        with pytest.raises(ValueError, match=text):
            callers.flydsl_moe_stage1(*given, **{**named, **wrong})


@needs("gfx950")
def test_second_stage_of_experts():
    ids, weights, (rows, factors, experts, valid) = routed(32)
    codes, scales, values = micro_weight("fp4", MODEL, INTER, 1)
    x, exact = half_bytes("fp8", TOKENS * K, INTER, seed=3)
    scale_x, of_x = half_bytes("e8m0", TOKENS * K, INTER // 32, seed=4)
    exact = (exact * spread(of_x)).view(TOKENS, K, INTER)
    token, slot, place = sorted_rows(rows, valid)
    by_row = torch.full((-(-len(rows) // 32) * 32, INTER // 32), 255, dtype=torch.uint8)
    by_row[place] = scale_x.view(TOKENS, K, -1)[token, slot]
    given = (x.view(TOKENS, K, INTER), codes.view(EXPERTS, MODEL, -1), rows, experts, valid)
    named = dict(w2_scale=scales, a2_scale=e8m0_shuffle(by_row), sorted_weights=factors)
    slots = torch.einsum("tsk,tsnk->tsn", exact, values[ids.long()]) * weights.double()[..., None]
    assert verify_output(callers.flydsl_moe_stage2(*given, None, K, **named), slots.sum(1), 4e-3, 4e-3)
    reduce = dict(named, mode="reduce")
    assert verify_output(callers.flydsl_moe_stage2(*given, None, K, **reduce), slots.sum(1), 4e-3, 4e-3)
    each = callers.flydsl_moe_stage2(*given, None, K, **reduce, return_per_slot=True)
    assert verify_output(each, slots, 4e-3, 4e-3)
    mask = torch.tensor([1, 0, 1, 1, 0], dtype=torch.int32)
    out = torch.empty(TOKENS, MODEL, dtype=torch.bfloat16)
    callers.flydsl_moe_stage2(*given, out, K, **reduce, expert_mask=mask, topk_ids=ids)
    kept = slots * mask[ids.long()].double()[..., None]
    assert verify_output(out, kept.sum(1), 4e-3, 4e-3)
    for wrong in (dict(mode="sum"), dict(return_per_slot=True), dict(expert_mask=mask)):
        with pytest.raises(ValueError, match="mode"):
            callers.flydsl_moe_stage2(*given, None, K, **named, **wrong)
