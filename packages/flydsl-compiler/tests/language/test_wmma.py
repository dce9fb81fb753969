"""Tiled WMMA of RDNA4; runs when the device is one (see test_architectures.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.runtime.device import get_rocm_arch

pytestmark = [
    pytest.mark.usefixtures("device"),
    pytest.mark.skipif(not get_rocm_arch().startswith("gfx120"), reason="needs WMMA of gfx120x"),
]

SOURCE = """
@flyc.kernel
def k(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma):
    t = fx.thread_idx.x
    th = mma.get_slice(t)
    ca = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy128b(), fx.TYPE), mma)
    cb = fx.make_tiled_copy_B(fx.make_copy_atom(fx.UniversalCopy128b(), fx.TYPE), mma)
    fa, fb, acc = th.make_fragment_A(A), th.make_fragment_B(B), th.make_fragment_C(C)
    fx.copy(ca, ca.get_slice(t).partition_S(A), ca.get_slice(t).retile(fa))
    fx.copy(cb, cb.get_slice(t).partition_S(B), cb.get_slice(t).retile(fb))
    acc.fill(0.0)
    fx.gemm(mma, acc, fa, fb, acc)
    cc = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(t)
    fx.copy(cc.copy_atom, cc.retile(acc), cc.partition_D(C))

@flyc.jit
def run(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    atom = fx.make_mma_atom(fx.rocdl.WMMA(16, 16, 16, fx.TYPE))
    k(A, B, C, fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))).launch(grid=1, block=128)
"""


def test_product(load: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 32)).astype(np.float16), rng.standard_normal((64, 32)).astype(np.float16)
    c = np.full((32, 64), np.nan, np.float32)
    load(SOURCE.replace("TYPE", "Float16")).run(*(flyc.from_dlpack(v) for v in (a, b, c)))
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-3, atol=1e-3)
