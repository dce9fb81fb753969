"""What may be passed where a tensor is expected: optional ones, containers, any view; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc

COPY = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = X[fx.thread_idx.x]
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
"""


def poisoned(n: int = 64) -> np.ndarray:
    return np.full(n, -7, np.float32)


X = np.random.default_rng(1).random(64, np.float32)


def test_optional_tensors(load: Any, device: None) -> None:
    """None is known while tracing, and a kernel has no parameter for it."""
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, bias, Y: fx.Tensor):
    v = X[fx.thread_idx.x]
    if fx.const_expr(bias is not None):
        v = v + bias[fx.thread_idx.x]
    Y[fx.thread_idx.x] = v
@flyc.jit
def run(X: fx.Tensor, bias: fx.Tensor, Y: fx.Tensor):
    k(X, bias, Y).launch(grid=1, block=64)
""")
    for bias, expected in ((None, X), (X, 2 * X), (None, X), (X, 2 * X)):
        y = poisoned()
        module.run(X, bias, y)
        np.testing.assert_array_equal(y, expected)
    y = poisoned()
    flyc.compile(module.run, X, None, y)(X, None, y)
    np.testing.assert_array_equal(y, X)


def test_tuples_and_dictionaries_of_tensors(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(inputs, out):
    t = fx.thread_idx.x
    total = fx.Float32(0.0)
    for x in inputs:
        total = total + x[t]
    out["sum"][t] = total * out["scale"]
@flyc.jit
def run(inputs, out):
    k(inputs, out).launch(grid=1, block=64)
""")
    for count in (1, 3, 1):
        y = poisoned()
        module.run(tuple(X + i for i in range(count)), {"sum": y, "scale": 2.0})
        expected = sum((X + np.float32(i) for i in range(count)), np.zeros(64, np.float32)) * 2
        np.testing.assert_allclose(y, expected, rtol=1e-6)
    y = poisoned()
    module.run([X, X], {"sum": y, "scale": 0.5})
    np.testing.assert_array_equal(y, X)
    with pytest.raises(TypeError, match=r"inputs\[0\]'.* of type str"):
        module.run(("x",), {"sum": y, "scale": 0.5})


@pytest.mark.parametrize("view", [lambda a: a[:, 1], lambda a: a[::2, 3], lambda a: a[::-1, 0]])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_views_without_a_unit_stride(load: Any, device: None, view: Any, library: str) -> None:
    data = np.random.default_rng(2).random((128, 4), np.float32)
    x = view(data)
    y = poisoned()
    if library == "torch":
        torch = pytest.importorskip("torch")
        if x.strides[0] < 0:
            pytest.skip("torch has no negative strides")
        load(COPY).run(view(torch.from_numpy(data)), torch.from_numpy(y))
    else:
        load(COPY).run(x, y)
    np.testing.assert_array_equal(y, x[:64])


def test_empty_arrays(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t = fx.thread_idx.x
    if t < X.shape[0]:
        Y[t] = X[t]
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    y = poisoned()
    module.run(np.zeros(0, np.float32), y)
    assert (y == -7).all()
    module.run(X, y)
    np.testing.assert_array_equal(y, X)


@pytest.mark.parametrize("static", [False, True])
def test_extents_are_numbers(load: Any, device: None, static: bool) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    t, n, m = fx.thread_idx.x, X.shape[0], X.shape[1]
    total = fx.Float32(0.0)
    for i in range(n):
        total = total + X.shape[1]
    for i in range(0, m, 1):
        total = total + 1.0
    for i, state in range(0, n, 1, init=[total]):
        total = yield [fx.Float32(state[0]) + 0.5]
    layout = fx.make_layout((n, m))
    assert str(layout.type).startswith("!fly.layout<")
    if t < n * m:
        Y[t] = X[t // m, t % m]
    if t == n:
        Y[t] = (fx.Float32(total) + (-n) + (n % 3) * 2 + fx.ceildiv(m, 3) + fx.max(n, 5) + (1 << n) + n.to(fx.Float32)
                + fx.Float32(n) + fx.Int32(m).to(fx.Float32) + fx.size(layout).unpack())
@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=X.shape[0] // 8, block=(X.shape[0] * X.shape[1], 1, 1))
""")
    x, y = X.reshape(8, 8), poisoned()
    module.run(flyc.from_dlpack(x) if static else x, y)
    expected = X.copy()
    expected[8] = 64 + 8 + 4 - 8 + 2 * 2 + 3 + 8 + 256 + 8 + 8 + 8 + 64
    np.testing.assert_array_equal(y, expected)


def test_default_strides_of_layouts(load: Any, device: None) -> None:
    module = load(COPY.replace("    k(X, Y)", """    nested = fx.make_layout((4, (2, 8)))
    assert str(nested.type) == "!fly.layout<(4,(2,8)):(1,(4,8))>"
    assert str(fx.make_layout(64).type) == "!fly.layout<64:1>"
    k(X, Y)"""))  # fmt: skip
    module.run(X, poisoned())


def test_memory_that_does_not_hold_the_values(load: Any, device: None) -> None:
    module = load(COPY)
    with pytest.raises(TypeError, match="masked array.*filled"):
        module.run(np.ma.masked_array(X, mask=X > 0.5), poisoned())
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="lazy view.*resolve_neg"):
        module.run(torch._neg_view(torch.from_numpy(X)), torch.zeros(64))
    with pytest.raises(TypeError, match="lazy view.*resolve_conj"):
        flyc.from_torch_tensor(torch.zeros(4, dtype=torch.complex64).conj())
