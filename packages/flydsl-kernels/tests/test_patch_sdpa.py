"""Models that call torch's attention function, patched: against the same model in f64."""

import copy
import math
import warnings

import numpy as np
import pytest
from kernel_helpers import needs, random, torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

import flydsl.kernels as kernels
import flydsl.runtime as rt
from flydsl.kernels import flash_attn_func as older
from flydsl.kernels.attention import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
    flydsl_flash_attn_func,
    reference,
)

pytestmark = [needs("gfx942", "gfx950", "gfx120", "gfx1250"), pytest.mark.one_arch]  # what it runs has tests


class Attention(nn.Module):
    """Heads of a language model: grouped, with a mask or causal."""

    def __init__(self, heads=4, kv_heads=2, d=64):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, d
        self.qkv = nn.Identity()

    def forward(self, q, k, v, **options):
        return F.scaled_dot_product_attention(self.qkv(q), k, v, enable_gqa=self.heads != self.kv_heads, **options)


def operands(rows=33, keys=33, heads=4, kv_heads=2, d=64, dtype="f16"):
    return (random(2, heads, rows, d, dtype=dtype), random(2, kv_heads, keys, d, dtype=dtype, seed=1),
            random(2, kv_heads, keys, d, dtype=dtype, seed=2))


SEEN = torch.rand(33, 40, generator=torch.Generator().manual_seed(0)) < 0.7
SEEN[:, 0] = True
CALLS = {
    "plain": ((33, 40), {}), "causal": ((33, 33), dict(is_causal=True)), "wide": ((20, 33), dict(is_causal=True)),
    "tall": ((40, 33), dict(is_causal=True)), "scale": ((33, 40), dict(scale=0.3)),
    "mask": ((33, 40), dict(attn_mask=SEEN)), "mask of keys": ((33, 40), dict(attn_mask=SEEN[None, None, :1])),
    "addend": ((33, 40), dict(attn_mask=random(2, 1, 33, 40, dtype="f16"))),
}


@pytest.mark.parametrize("call", CALLS)
def test_calls_run_the_kernel(call):
    sizes, options = CALLS[call]
    model = Attention()
    wide = {n: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for n, x in options.items()}
    exact = copy.deepcopy(model)(*(x.double() for x in operands(*sizes)), **wide)
    report = kernels.patch(model, strict=True)
    out = model(*operands(*sizes), **options)
    assert (out.double() - exact).abs().max() < 2e-3
    (site,) = [s for s in report.sites if s.kind == "function"]
    assert site.calls == 1 and not site.fallbacks
    report.undo()
    assert torch.equal(model(*operands(*sizes), **options), Attention()(*operands(*sizes), **options))
    assert site.calls == 1


def test_one_head_of_keys_is_broadcast():
    q, k, v = operands(kv_heads=1)
    model = Attention(kv_heads=4)  # no enable_gqa
    exact = model(*(x.double() for x in (q, k, v)))
    kernels.patch(model, strict=True)
    assert (model(q, k, v).double() - exact).abs().max() < 2e-3


def test_what_does_not_fit_runs_torch_with_its_reason():
    model = Attention()
    report = kernels.patch(model)
    with pytest.warns(UserWarning, match="dtypes torch.float32"):
        out = model(*(x.float() for x in operands()))
    assert torch.equal(out, Attention()(*(x.float() for x in operands())))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(*operands(), dropout_p=0.5)
    (site,) = [s for s in report.sites if s.kind == "function"]
    assert site.calls == 0 and sorted(site.fallbacks)[0] == "dropout of 0.5"
    strict = Attention()
    kernels.patch(strict, strict=True)
    with pytest.raises(RuntimeError, match="scaled_dot_product_attention cannot use flydsl::attention_fwd: dropout"):
        strict(*operands(), dropout_p=0.5)


def test_copies_and_gradients():
    model = Attention()
    report = kernels.patch(model)
    q, k, v = (x.requires_grad_() for x in operands())
    copy.deepcopy(model)(q, k, v, is_causal=True).sum().backward()
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    Attention()(*wide, is_causal=True).sum().backward()
    for mine, theirs in zip((q, k, v), wide, strict=True):
        assert (mine.grad.double() - theirs.grad).abs().max() <= 3e-3 * theirs.grad.abs().max()
    assert [s.calls for s in report.sites if s.kind == "function"] == [1]


def test_no_function_site_without_a_call():
    model = nn.Sequential(nn.Linear(64, 64)).half()
    assert all(s.kind != "function" for s in kernels.patch(model).sites)
    assert "forward" not in vars(kernels.patch(Attention(), only=("Linear",)) and Attention())


# ------------------------------------------------------------------------------------------- other callers


def bshd(rows, keys):
    return [x.transpose(1, 2).contiguous() for x in operands(rows, keys)]


def test_flash_attn_functions():
    q, k, v = bshd(33, 40)
    exact, exact_lse = reference.attention(q, k, v, right=0, left=9)
    out, lse, nothing = flash_attn_func(q, k, v, causal=True, window_size=(9, -1), return_attn_probs=True)
    assert nothing is None and (out - exact).abs().max() < 2e-3 and (lse - exact_lse).abs().max() < 1e-3
    starts_q, starts_k = (torch.tensor([0, n, 2 * n], dtype=torch.int32) for n in (33, 40))
    packed = flash_attn_varlen_func(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), starts_q, starts_k, 33, 40,
                                    causal=True, window_size=(9, -1))
    assert torch.equal(packed, out.flatten(0, 1))
    pages = [x.reshape(2 * 5, 8, 2, 64) for x in (k, v)]
    table = torch.arange(10, dtype=torch.int32).view(2, 5)
    paged = flash_attn_varlen_func(q.flatten(0, 1), *pages, starts_q, starts_k, 33, 40, causal=True,
                                   window_size=(9, -1), block_table=table)
    assert (paged - packed).abs().max() < 1e-3
    with pytest.raises(NotImplementedError, match="dropout_p is not supported"):
        flash_attn_func(q, k, v, dropout_p=0.1)


@pytest.mark.parametrize("paged", [False, True])
def test_flash_attn_with_kvcache_appends(paged):
    q, k, v = bshd(3, 40)
    new = [random(2, 3, 2, 64, dtype="f16", seed=s) for s in (7, 8)]
    lengths = torch.tensor([30, 11], dtype=torch.int32)
    caches, table = [k.clone(), v.clone()], None
    if paged:
        table = torch.randperm(10, generator=torch.Generator().manual_seed(0)).view(2, 5).int()
        for i, x in enumerate((k, v)):
            caches[i] = torch.full((10, 8, 2, 64), math.nan, dtype=torch.float16)
            caches[i][table.flatten().long()] = x.reshape(10, 8, 2, 64)
    out = flash_attn_with_kvcache(q, *caches, *new, cache_seqlens=lengths, block_table=table, causal=True)
    for x, n in zip((k, v), new, strict=True):
        for b, length in enumerate(lengths.tolist()):
            x[b, length : length + 3] = n[b]
    exact, _ = reference.attention(q, k, v, right=0, seqlens_k=lengths + 3)
    assert (out - exact).abs().max() < 2e-3


@pytest.mark.parametrize("entries", [None, [4, 1]])
def test_caches_that_begin_behind_a_pad(entries):
    """Rows before the pad are NaN; new rows come at their positions, which count the pad."""
    q, k, v = bshd(3, 40)
    new = [random(2, 3, 2, 64, dtype="f16", seed=s) for s in (7, 8)]
    lengths, pads = torch.tensor([30, 11], dtype=torch.int32), torch.tensor([7, 11], dtype=torch.int32)
    places = torch.arange(2) if entries is None else torch.tensor(entries)
    caches = [torch.full((6 if entries else 2, 40, 2, 64), math.nan, dtype=torch.float16) for _ in "kv"]
    for cache, x in zip(caches, (k, v), strict=True):
        for b, (pad, length) in enumerate(zip(pads.tolist(), lengths.tolist(), strict=True)):
            cache[places[b], pad:length] = x[b, pad:length]
    out, lse = flash_attn_with_kvcache(
        q, *caches, *new, cache_seqlens=lengths, cache_batch_idx=None if entries is None else places.int(),
        cache_leftpad=pads, causal=True, window_size=(12, -1), return_softmax_lse=True)
    for b, (pad, length) in enumerate(zip(pads.tolist(), lengths.tolist(), strict=True)):
        rows = [torch.cat([x[b : b + 1, pad:length], n[b : b + 1]], 1) for x, n in zip((k, v), new, strict=True)]
        exact, exact_lse = reference.attention(q[b : b + 1], *rows, right=0, left=12)
        assert (out[b] - exact[0]).abs().max() < 2e-3 and (lse[b] - exact_lse[0]).abs().max() < 1e-3
    with pytest.raises(ValueError, match="cache_leftpad must be"):
        flash_attn_with_kvcache(q, *caches, cache_leftpad=pads[:1])
    with pytest.raises(ValueError, match="no block_table"):
        flash_attn_with_kvcache(q, *caches, cache_leftpad=pads, block_table=pads[:, None])
    # The first row would be in the entry before, or in none: by its waves, such a launch traps or first reads there.
    for pad in ([0, -1], [-3, 0]):
        with pytest.raises(rt.SimulatorError, match="trap|before the start of K"):
            flash_attn_with_kvcache(q, *caches, cache_seqlens=lengths, cache_leftpad=torch.tensor(pad).int())


def turned(x, cos, sin, places, interleaved):
    """The definition of rotary embeddings: the pairs of the first features of x [B, S, H, D], in float64."""
    half = cos.shape[1]
    first, second = (slice(0, 2 * half, 2), slice(1, 2 * half, 2)) if interleaved else (
        slice(0, half), slice(half, 2 * half))
    c, s = (table.double()[places][:, :, None] for table in (cos, sin))
    y = x.double().clone()
    y[..., first] = x[..., first].double() * c - x[..., second].double() * s
    y[..., second] = x[..., second].double() * c + x[..., first].double() * s
    return y


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_rotated_rows_and_caches_of_other_entries(interleaved, causal):
    """Entries of the caches by number, queries and new rows rotated first, of part of the features."""
    q, k, v = bshd(3, 40)
    new = [random(2, 3, 2, 64, dtype="f16", seed=s) for s in (7, 8)]
    lengths, entries = torch.tensor([30, 11], dtype=torch.int32), torch.tensor([4, 1], dtype=torch.int32)
    caches = [torch.full((6, 40, 2, 64), math.nan, dtype=torch.float16) for _ in "kv"]
    for cache, x in zip(caches, (k, v), strict=True):
        cache[entries.long()] = x
    angles = torch.outer(torch.arange(50.0), 0.3 ** torch.arange(16.0))
    cos, sin = angles.cos(), angles.sin()
    out = flash_attn_with_kvcache(q, *caches, *new, cos, sin, lengths, entries, causal=causal,
                                  rotary_interleaved=interleaved)
    places = lengths[:, None].long() + torch.arange(3)
    queries = turned(q, cos, sin, places if causal else lengths[:, None].long().expand(2, 3), interleaved)
    rows = turned(new[0], cos, sin, places, interleaved)
    for x, n in zip((k, v), (rows, new[1]), strict=True):
        for b, length in enumerate(lengths.tolist()):
            x[b, length : length + 3] = n[b]
    exact, _ = reference.attention(queries, k, v, right=0 if causal else -1, seqlens_k=lengths + 3)
    assert (out - exact).abs().max() < 4e-3
    for b, (entry, length) in enumerate(zip(entries.tolist(), lengths.tolist(), strict=True)):
        written = caches[0][entry, length : length + 3]
        assert (written.double() - rows[b]).abs().max() < 2e-3
    assert all(cache[[0, 2, 3, 5]].isnan().all() for cache in caches)


def test_options_of_the_cache_that_exclude_each_other():
    q, k, v = bshd(1, 8)
    entries = torch.zeros(2, dtype=torch.int32)
    with pytest.raises(ValueError, match="no block_table then"):
        flash_attn_with_kvcache(q, k, v, cache_batch_idx=entries, block_table=entries[:, None])
    with pytest.raises(ValueError, match=r"cache_batch_idx must be \(2,\)"):
        flash_attn_with_kvcache(q, k, v, cache_batch_idx=entries[:1])
    with pytest.raises(ValueError, match="need rotary_cos, rotary_sin, k"):
        flash_attn_with_kvcache(q, k, v, rotary_cos=torch.ones(8, 32), rotary_sin=torch.ones(8, 32), cache_seqlens=3)


def test_new_rows_without_room_stop_the_launch():
    q, k, v = bshd(1, 8)
    lengths, before = torch.tensor([8, 2], dtype=torch.int32), [x.clone() for x in (k, v)]
    with pytest.raises(rt.SimulatorError, match="trap"):
        flash_attn_with_kvcache(q, k, v, q[:, :, :2], q[:, :, :2], cache_seqlens=lengths)
        rt.synchronize()
    assert torch.equal(k[0], before[0][0]) and torch.equal(v[1, :2], before[1][1, :2])
    with pytest.raises(ValueError, match=r"cache_seqlens must be \(2,\)"):
        flash_attn_with_kvcache(q, k, v, q[:, :, :2], q[:, :, :2], cache_seqlens=lengths[:1])


def test_new_rows_of_numpy_arrays():
    q, k, v = (x.numpy() for x in bshd(1, 8))
    new = [random(2, 1, 2, 64, dtype="f16", seed=s).numpy() for s in (7, 8)]
    want = [x.copy() for x in (k, v)]
    for x, n in zip(want, new, strict=True):
        x[:, 5:6] = n
    out = flash_attn_with_kvcache(q, k, v, *new, cache_seqlens=5)
    assert all(np.array_equal(x, w) for x, w in zip((k, v), want, strict=True))
    exact, _ = reference.attention(*map(torch.from_numpy, (q, k[:, :6], v[:, :6])))
    assert abs(out - exact.numpy()).max() < 2e-3


def test_older_name_with_vectorised_pages_and_splits():
    q, k, v = bshd(3, 128)
    table = torch.tensor([[2, 0], [3, 1]], dtype=torch.int32)
    lengths = torch.tensor([100, 128], dtype=torch.int32)
    pages = [torch.empty(4, 64, 2, 64, dtype=torch.float16) for _ in "kv"]
    for page, x in zip(pages, (k, v), strict=True):
        page[table.flatten().long()] = x.reshape(4, 64, 2, 64)
    keys = pages[0].reshape(4, 64, 2, 8, 8).permute(0, 2, 3, 1, 4).contiguous()
    values = pages[1].reshape(4, 8, 8, 2, 64).permute(0, 3, 1, 4, 2).contiguous()
    out = flydsl_flash_attn_func(q, keys, values, block_table=table, seqlen_k=lengths, kv_cache_layout="vectorized",
                                 num_kv_splits=2)
    exact, _ = reference.attention(q, k, v, right=0, seqlens_k=lengths)
    assert (out - exact).abs().max() < 2e-3


def test_older_name():
    q, k, v = bshd(33, 40)
    assert older.flydsl_flash_attn_func is flydsl_flash_attn_func
    given = torch.empty(2, 33, 4, 64, dtype=torch.float16)
    out, lse = flydsl_flash_attn_func(q, k, v, out=given, return_lse=True)
    exact, exact_lse = reference.attention(q, k, v, right=0)
    assert out is given and (out - exact).abs().max() < 2e-3 and (lse - exact_lse).abs().max() < 1e-3
    with pytest.raises(ValueError, match="kv_cache_layout is 'linear'"):
        flydsl_flash_attn_func(q, k, v, kv_cache_layout="vectorized")
    with pytest.raises(ValueError, match="num_kv_heads is 3"):
        flydsl_flash_attn_func(q, k, v, num_kv_heads=3)
    with pytest.raises(ValueError, match=r"out must have shape \(2, 33, 4, 64\)"):  # it is not repeated to fill more
        flydsl_flash_attn_func(q, k, v, out=torch.empty(3, 2, 33, 4, 64, dtype=torch.float16))


def test_older_name_in_a_stream():
    q, k, v = bshd(33, 40)
    exact, exact_lse = reference.attention(q, k, v, right=0)
    graph, given = rt.Graph(), torch.full_like(q, float("nan"))
    with graph:
        out, lse = flydsl_flash_attn_func(q, k, v, out=given, return_lse=True, stream=graph.stream)
    for scale in (1, 2):  # recorded, so later values count
        v *= scale
        graph.launch()
        graph.synchronize()
        assert out is given and (out - scale * exact).abs().max() < 4e-3 and (lse - exact_lse).abs().max() < 1e-3
    with pytest.raises(ValueError, match="needs a dense array of that shape"):
        flydsl_flash_attn_func(q, k, v, out=given.transpose(1, 2).contiguous().transpose(1, 2), stream=graph.stream)
