"""Whole kernels of rows in the older style (`older_rows.py`) against NumPy in float64."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime as rt
from flydsl.runtime.device import get_rocm_arch, get_warp_size

sys.path.insert(0, str(Path(__file__).parent))
import older_rows as older  # noqa: E402

ARCH = get_rocm_arch().split(":")[0]
WAVE = get_warp_size(ARCH)

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.filterwarnings("ignore:SmemAllocator")]


def numbers(*shape: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def test_rmsnorm_with_quantisation() -> None:
    m, n = 5, 512
    x, w = numbers(m, n, seed=1, dtype=np.float16), numbers(n, seed=2)
    y, q, scale = np.full((m, n), np.nan, np.float16), np.full((m, n), 99, np.int8), np.full(m, np.nan, np.float32)
    older.build_rmsnorm(n=n, arch=ARCH, wave=WAVE)(y, q, scale, x, w, m)
    wide = x.astype(float)
    expected = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * w
    np.testing.assert_allclose(y, expected, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(scale, np.abs(expected).max(1) / 127, rtol=1e-4)
    np.testing.assert_allclose(q * scale[:, None], expected, atol=scale.max() * 0.51)


@pytest.mark.parametrize("n", [1, 100, 700])
def test_softmax(n: int) -> None:
    m = 3
    x, y = numbers(m, n, seed=3) * 4, np.full((m, n), np.nan, np.float32)
    launch = older.build_softmax(arch=ARCH, wave=WAVE)
    launch(y, x, m, n)
    powers = np.exp(x.astype(float) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)


def test_rope() -> None:
    tokens, heads, dim = 6, 3, 64
    q = numbers(tokens, heads, dim, seed=4, dtype=np.float16)
    angles = np.outer(np.arange(50), 1e4 ** (-np.arange(dim // 2) / (dim // 2)))
    table = np.concatenate([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    positions = np.array([0, 7, 49, 3, 3, 20], np.int32)
    first, second = np.split(q.astype(float), 2, axis=2)
    cosine, sine = np.split(table[positions].astype(float)[:, None], 2, axis=2)
    expected = np.concatenate([first * cosine - second * sine, second * cosine + first * sine], 2)
    older.build_rope(heads=heads, dim=dim)(q, positions, table, tokens)
    np.testing.assert_allclose(q, expected, rtol=2e-3, atol=2e-3)


def test_topk_gating() -> None:
    m, experts, topk = 4, 128, 4
    gates = numbers(m, experts, seed=5)
    gates[1, 70] = gates[1, 6] = gates[1].max() + 1  # a tie
    values, ids = np.full((m, topk), np.nan, np.float32), np.full((m, topk), -1, np.int32)
    older.build_topk_gating(experts=experts, topk=topk, wave=WAVE)(values, ids, gates, m)
    order = np.argsort(-gates, axis=1, kind="stable")[:, :topk]
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(values, np.take_along_axis(gates, order, 1))


def test_convolution() -> None:
    images, size, channels, filters, kernel, pad = 2, 9, 8, 5, 3, 1
    x = numbers(images, size, size, channels, seed=6, dtype=np.float16)
    w = numbers(filters, kernel, kernel, channels, seed=7, dtype=np.float16)
    y = np.full((images, size, size, filters), np.nan, np.float32)
    older.build_conv2d(channels=channels, height=size, width=size, kernel=kernel, pad=pad)(y, x, w, images, filters)
    padded = np.pad(x.astype(float), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    expected = np.zeros(y.shape)
    for r in range(kernel):
        for s in range(kernel):
            expected += padded[:, r:r + size, s:s + size] @ w[:, r, s].astype(float).T
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


def test_sum_over_ranks() -> None:
    ranks, n = 4, 100
    parts = [numbers(n, seed=8 + rank) for rank in range(ranks)]
    table, out = np.array([part.ctypes.data for part in parts], np.int64), np.full(n, np.nan, np.float32)
    launch = older.build_all_reduce(ranks=ranks)
    with rt.checked("oob", "race", "uninit") as report:
        launch(out, table, n)
    assert not report, report
    np.testing.assert_allclose(out, np.sum(parts, axis=0, dtype=float), rtol=1e-5, atol=1e-6)
    out[:] = np.nan
    flyc.compile(launch, out, table, n)(out, table, n, fx.Stream(None))
    np.testing.assert_allclose(out, np.sum(parts, axis=0, dtype=float), rtol=1e-5, atol=1e-6)
