"""gemm: orders, layouts, callbacks, state; tiled objects with state; against NumPy on the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_warp_size

pytestmark = pytest.mark.skipif(get_warp_size() != 64, reason="needs MFMA")

SOURCE = """
STEPS = []

@flyc.kernel
def k(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, mma: fx.TiledMma):
    t = fx.thread_idx.x
    th = mma.get_slice(t)
    ca = fx.make_tiled_copy_A(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), mma)
    cb = fx.make_tiled_copy_B(fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float16), mma)
    fa, fb, acc = th.make_fragment_A(A), th.make_fragment_B(B), th.make_fragment_C(C)
    fx.copy(ca, ca.get_slice(t).partition_S(A), ca.get_slice(t).retile(fa))
    fx.copy(cb, cb.get_slice(t).partition_S(B), cb.get_slice(t).retile(fb))
    acc.fill(1.0)

    def callback(atom, step):
        STEPS.append(step)
        return atom

    fx.gemm(mma, acc, fa, fb, acc, OPTIONS)
    cc = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(t)
    fx.copy(cc.copy_atom, cc.retile(acc), cc.partition_D(C))

@flyc.jit
def run(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor):
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
    mma = fx.make_tiled_mma(atom, fx.make_layout((2, 2, 1), (1, 2, 0)))
    k(A, B, C, mma).launch(grid=1, block=256)
"""


def _run(load: Any, options: str) -> list[tuple[int, int, int]]:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((64, 32)).astype(np.float16), rng.standard_normal((96, 32)).astype(np.float16)
    c = np.full((64, 96), np.nan, np.float32)
    module = load(SOURCE.replace("OPTIONS", options))
    module.run(*(flyc.from_dlpack(v) for v in (a, b, c)))
    np.testing.assert_allclose(c, 1 + a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-4)
    return module.STEPS


ORDERS = ["KMN", "KNM", "MKN", "MNK", "NKM", "NMK"]


@pytest.mark.parametrize("order", ORDERS + [f"{o}_Serpentine" for o in ORDERS[::3]])
def test_every_order_gives_the_product(load: Any, device: None, order: str) -> None:
    _run(load, f"traversal_order=fx.GemmTraversalOrder.{order}")


@pytest.mark.parametrize("order", ["kmn_serpentine", "nmk", "MNK"])
def test_orders_by_name(load: Any, device: None, order: str) -> None:
    _run(load, f'traversal_order="{order}"')


def test_unknown_order(load: Any) -> None:
    with pytest.raises(ValueError, match="unknown traversal_order 'kmm'; known: kmn, knm"):
        _run(load, 'traversal_order="kmm"')


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ("atom_callback=callback", [(0, 0, 0), (0, 1, 0), (0, 2, 0), (1, 0, 0)]),
        ("atom_callback=callback, traversal_order=fx.GemmTraversalOrder.KMN", [(0, 0, 0), (0, 0, 1), (1, 0, 0)]),
        ("atom_callback=callback, traversal_order=fx.GemmTraversalOrder.KMN_Serpentine",
         [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)]),
        ("atom_callback=callback, traversal_layout=fx.make_layout((2, 2, 3), (6, 1, 2))",
         [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (0, 1, 0)]),
    ],
)
def test_callback_sees_every_step_in_order(load: Any, device: None, options: str, first: Any) -> None:
    steps = _run(load, options)
    assert steps[: len(first)] == first and len(set(steps)) == len(steps) == 12


def test_atom_calls_of_values(load: Any, device: None) -> None:
    """Vectors, also of words, in place of fragments: of two rows of a column they are independent."""
    source = SOURCE.replace("    fx.gemm(mma, acc, fa, fb, acc, OPTIONS)\n", """
    atom = fx.make_mma_atom(fx.rocdl.MFMA(16, 16, 16, fx.Float16))
    for n in range_constexpr(3):
        for m in range_constexpr(2):
            total = acc[None, m, n].load()
            for s in range_constexpr(2):
                left, right = fa[None, m, s].load(), fb[None, n, s].load().bitcast(fx.Int32)
                total = fx.mma_atom_call(atom, None, left, right, total)
            acc[None, m, n].store(total)
""")
    module = load(source)
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((64, 32)).astype(np.float16), rng.standard_normal((96, 32)).astype(np.float16)
    c = np.full((64, 96), np.nan, np.float32)
    module.run(*(flyc.from_dlpack(v) for v in (a, b, c)))
    np.testing.assert_allclose(c, 1 + a.astype(np.float32) @ b.astype(np.float32).T, rtol=1e-4, atol=1e-4)


def test_atom_calls_of_values_take_vectors() -> None:
    with pytest.raises(TypeError, match="a, b and c must be vectors"):
        fx.mma_atom_call(None, None, 1, 2, 3)


def test_order_and_layout_exclude_each_other(load: Any) -> None:
    options = "traversal_order=fx.GemmTraversalOrder.KMN, traversal_layout=fx.make_layout(12, 1)"
    with pytest.raises(ValueError, match="not both"):
        _run(load, options)


def test_state_of_tiled_copies(run: Any) -> None:
    body = """
    B = fx.rocdl.make_buffer_tensor(fx.make_view(fx.get_iter(X), fx.make_layout((1, 64), (64, 1))))
    tiled = fx.make_tiled_copy_tv(fx.make_copy_atom(fx.rocdl.BufferCopy32b(), fx.Float32),
                                  fx.make_layout((1, 64), (64, 1)), fx.make_layout((1, 1), (1, 1)))
    moved = tiled.set_value("soffset", 3)
    r = fx.make_fragment_like(tiled.get_slice(t).partition_S(B))
    r.fill(0.0)
    fx.copy(moved, tiled.get_slice(t).partition_S(B), r)
    if t < 61:
        Y[t] = r[0]
    """
    out = run(body, x=np.arange(64, dtype=np.float32))
    np.testing.assert_array_equal(out[:61], np.arange(3, 64))
    with pytest.raises(ValueError, match="no state field 'nonsense'"):
        run(body.replace("soffset", "nonsense"))
