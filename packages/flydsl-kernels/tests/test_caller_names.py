"""The functions that serving stacks call (:mod:`flydsl.kernels.callers`)."""

import math

import pytest
from kernel_helpers import GENERAL_GEMM, close, needs, random, torch

from flydsl.kernels import callers, moe

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
