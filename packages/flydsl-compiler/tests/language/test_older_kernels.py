"""Whole kernels in the older style (`older_kernels.py`) against NumPy in float64, unchanged by the rules of today."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

sys.path.insert(0, str(Path(__file__).parent))
import older_kernels as older  # noqa: E402

ARCH = get_rocm_arch().split(":")[0]
STREAM = fx.Stream(None)

pytestmark = [
    pytest.mark.usefixtures("device"), pytest.mark.filterwarnings("ignore:SmemAllocator"),
    pytest.mark.skipif(ARCH not in ("gfx942", "gfx950"), reason="matrix instructions of CDNA"),
]


def halves(*shape: int, seed: int, scale: float = 1.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float16)


@pytest.mark.parametrize("m", [100, 64])
def test_matrix_product(m: int) -> None:
    n, k = 80, 256
    a, b, c = halves(m, k, seed=1), halves(n, k, seed=2), np.full((m, n), np.nan, np.float16)
    launch = older.compile_gemm(n=n, k=k, arch=ARCH)
    for _ in range(2):  # the second call is that of the compiled function
        c[...] = np.nan
        older.run_compiled(launch, c, a, b, m, STREAM)
        np.testing.assert_allclose(c, a.astype(float) @ b.astype(float).T, rtol=2e-3, atol=2e-2)


def route(experts: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """(sorted ids, expert of each block): the pairs (slot, token) of each expert, padded to blocks of 16."""
    tokens, topk = experts.shape
    ids, blocks = [], []
    for expert in range(number):
        mine = [slot << 24 | token for token in range(tokens) for slot in range(topk) if experts[token, slot] == expert]
        mine += [topk << 24 | tokens] * (-len(mine) % older.MOE_M)
        ids += mine
        blocks += [expert] * (len(mine) // older.MOE_M)
    return np.array(ids, np.int32), np.array(blocks, np.int32)


def test_mixture_of_experts() -> None:
    tokens, topk, number, model, inter = 37, 2, 4, 64, 48
    rng = np.random.default_rng(0)
    x = halves(tokens, model, seed=1)
    w1, w2 = halves(number, 2 * inter, model, seed=2, scale=0.2), halves(number, model, inter, seed=3, scale=0.2)
    experts = np.stack([rng.permutation(number)[:topk] for _ in range(tokens)])
    weights = rng.random((tokens, topk)).astype(np.float32)
    ids, blocks = route(experts, number)
    hidden, out = np.full((tokens, topk, inter), np.nan, np.float16), np.zeros((tokens, model), np.float32)
    for stage, result, source, matrix in ((1, hidden, x, w1), (2, out, hidden, w2)):
        launch = older.compile_moe(model=model, inter=inter, topk=topk, stage=stage)
        older.run_compiled(launch, result, source, matrix, ids, blocks, weights, tokens, len(blocks), STREAM)
    both = np.einsum("td,tsnd->tsn", x.astype(float), w1.astype(float)[experts])
    gate, up = both[..., :inter], both[..., inter:]
    exact = gate / (1 + np.exp(-gate)) * up
    np.testing.assert_allclose(hidden, exact, rtol=4e-3, atol=4e-3)
    joined = np.einsum("ts,tsi,tsmi->tm", weights, hidden.astype(float), w2.astype(float)[experts])
    np.testing.assert_allclose(out, joined, rtol=1e-3, atol=1e-3)


def softmax(scores: np.ndarray) -> np.ndarray:
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [16, 75])
def test_flash_attention(causal: bool, length: int) -> None:
    heads, dim = 2, 64
    q, k, v = (halves(length, heads, dim, seed=s) for s in (1, 2, 3))
    out = np.full_like(q, np.nan)
    launch = older.compile_flash_attention(heads=heads, dim=dim, causal=causal, arch=ARCH)
    older.run_compiled(launch, out, q, k, v, length, STREAM)
    scores = np.einsum("qhd,khd->hqk", q.astype(float), k.astype(float)) / dim**0.5
    if causal:
        scores += np.where(np.tril(np.ones((length, length))), 0.0, -np.inf)
    np.testing.assert_allclose(out, np.einsum("hqk,khd->qhd", softmax(scores), v.astype(float)), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("splits", [1, 3])
def test_attention_on_a_latent_cache(splits: int) -> None:
    heads, latent, rope, page, lengths = 16, 64, 32, 8, np.array([100, 7, 33], np.int32)
    batch, pages = len(lengths), 13
    cache, q = halves(batch * pages, page, latent + rope, seed=1), halves(batch, heads, latent + rope, seed=2)
    table = np.random.default_rng(3).permutation(batch * pages).astype(np.int32).reshape(batch, pages)
    part = np.full((batch, splits, heads, latent), np.nan, np.float32)
    state = np.full((batch, splits, heads, 2), np.nan, np.float32)
    out = np.full((batch, heads, latent), np.nan, np.float16)
    launch = older.compile_mla_decode(heads=heads, latent=latent, rope=rope, page=page, splits=splits)
    older.run_compiled(launch, out, part, state, q, cache, table, lengths, batch, pages, STREAM)
    exact: Any = np.empty((batch, heads, latent))
    for i, length in enumerate(lengths):
        rows = cache[table[i]].reshape(pages * page, -1)[:length].astype(float)
        exact[i] = softmax(q[i].astype(float) @ rows.T / (latent + rope) ** 0.5) @ rows[:, :latent]
    np.testing.assert_allclose(out, exact, rtol=4e-3, atol=4e-3)
