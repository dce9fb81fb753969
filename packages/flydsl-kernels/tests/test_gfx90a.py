"""Operations on gfx90a (CDNA2), which no session of the tests runs on: in a process of its own, against float64."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import math

import numpy as np
import pytest
import torch
from flydsl.kernels import ops
from flydsl.kernels.moe.config import grouped_config
from flydsl.kernels.target import target
from flydsl.runtime import checked

assert target().name == "gfx90a"
rng = np.random.default_rng(7)


def close(got, want, tolerance):
    error = np.abs(np.asarray(got, np.float64) - want).max() / np.abs(want).max()
    assert error < tolerance, error


def product(m, n, k, layout="nt"):
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((m, k), (n, k)))
    want = a.astype(np.float64) @ b.astype(np.float64).T
    a, b = a if layout[0] == "n" else a.T.copy(), b if layout[1] == "t" else b.T.copy()
    close(ops.gemm(a, b, None, layout), want, 2.0**-9)


def half(*shape, scale=1.0):
    return (scale * rng.standard_normal(shape)).astype(np.float16)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attend(q, k, v, causal):  # (tokens, heads, d); heads of q share those of k and v
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    k, v = (t.repeat(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = np.einsum("rhd,khd->hrk", q, k) / math.sqrt(q.shape[2])
    row, key = np.ogrid[:q.shape[0], :k.shape[0]]
    if causal:
        scores = np.where(key <= row + k.shape[0] - q.shape[0], scores, -np.inf)
    return np.einsum("hrk,khd->rhd", softmax(scores), v)


def attention():
    q, k, v = half(1, 50, 4, 64), half(1, 90, 2, 64), half(1, 90, 2, 64)
    close(ops.attention(q, k, v, causal=True)[0], attend(q[0], k[0], v[0], True), 2.0**-9)


def decoding():
    q, keys, values = half(2, 1, 8, 128), half(8, 16, 2, 128), half(8, 16, 2, 128)
    table, lengths = np.array([[3, 1, 4, 0], [5, 2, 6, 7]], np.int32), np.array([50, 33], np.int32)
    got = ops.paged_attention(q, keys, values, table, lengths)
    for b, n in enumerate(lengths):
        k, v = (t[table[b]].reshape(-1, 2, 128)[:n] for t in (keys, values))
        close(got[b], attend(q[b], k, v, False), 2.0**-9)


def convolution():
    x, w = half(1, 16, 9, 9), half(32, 16, 3, 3)
    padded, wide = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1))), w.astype(np.float64)
    want = sum(np.einsum("nchw,oc->nohw", padded[:, :, i:i + 9, j:j + 9], wide[:, :, i, j])
               for i in range(3) for j in range(3))
    close(ops.conv(torch.from_numpy(x), torch.from_numpy(w), padding=1), want, 2.0**-9)


def experts():
    x, w1, w2 = half(20, 128), half(4, 256, 128, scale=0.125), half(4, 128, 128, scale=0.125)
    ids = np.stack([rng.permutation(4)[:2] for _ in x]).astype(np.int32)
    weights = rng.random(ids.shape).astype(np.float32)
    want = np.zeros(x.shape)
    for row, slots in enumerate(ids):
        for slot, e in enumerate(slots):
            gate, up = np.split(w1[e].astype(np.float64) @ x[row].astype(np.float64), 2)
            want[row] += weights[row, slot] * (w2[e].astype(np.float64) @ (gate / (1 + np.exp(-gate)) * up))
    tensors = [torch.from_numpy(t) for t in (x, w1, w2, weights, ids)]
    close(ops.moe(*tensors), want, 2.0**-8)
    for quant, reason in (("fp8", "fp8"), ("int8", "i8"), ("mxfp4", "gfx950")):
        with pytest.raises(ValueError, match=reason):
            grouped_config("moe", target(), dtype="bf16", n=256, k=256, quant=quant)


x = rng.standard_normal((37, 1000)).astype(np.float16)
wide, weight = x.astype(np.float64), rng.standard_normal(1000).astype(np.float16)
with checked("race", "uninit"):
    close(ops.rmsnorm(x, weight), wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-6) * weight, 2.0**-9)
    soft = np.exp(wide - wide.max(1, keepdims=True))
    close(ops.softmax(x), soft / soft.sum(1, keepdims=True), 2.0**-10)
    close(ops.silu_and_mul(x), wide[:, :500] / (1 + np.exp(-wide[:, :500])) * wide[:, 500:], 2.0**-9)
    for layout in ("nt", "nn", "tn", "tt"):
        product(80, 72, 136, layout)
    product(8, 64, 2048)  # the sum is split between work-groups
attention()
decoding()
convolution()
experts()
print("right")
"""


def test_operations_are_right() -> None:
    pytest.importorskip("torch")
    env = {**os.environ, "ARCH": "gfx90a", "FLYDSL_SIM_ARCH": "gfx90a", "FLYDSL_GPU_ARCH": "gfx90a",
           "FLYDSL_RUNTIME_KIND": "sim"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.split()[-1] == "right", done.stdout + done.stderr
