"""Unsigned memory is unsigned wherever it is reached from: arguments, views, fragments, LDS, structs, control flow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

INDEX = np.arange(64)
BYTES = np.random.default_rng(5).integers(0, 256, 64).astype(np.uint8)
Run = Callable[..., np.ndarray]

# How a kernel gets at the element t of X.
PATHS = {
    "element": "v = X[t]",
    "linear view": "v = fx.make_view(fx.get_iter(X), fx.make_layout((8, 8), (8, 1)))[t // 8, t % 8]",
    "pointer": "v = fx.get_iter(X)[t]",
    "moved pointer": "v = (fx.get_iter(X) + t).load()",
    "divided": "v = fx.slice(fx.logical_divide(X, fx.make_layout(8, 1)), (None, t // 8))[t % 8]",
    "buffer": "v = fx.rocdl.make_buffer_tensor(X)[t]",
    "vector": "v = fx.make_view(fx.get_iter(X), fx.make_layout(64, 1)).load()[t]",
    "fragment like": """
        s = fx.make_view(fx.get_iter(X) + t, fx.make_layout(1, 1))
        f = fx.make_fragment_like(s)
        fx.copy(fx.make_copy_atom(fx.UniversalCopy8b(), fx.Uint8), s, f)
        v = f[0]""",
    "fragment": """
        f = fx.make_rmem_tensor((1, 2), fx.Uint8)
        f.fill(X[t])
        v = f.load()[1]""",
    "shared array": """
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, 64]).peek()
        lds[t] = X[t]
        fx.gpu.barrier()
        v = lds.view(fx.make_layout(64, 1))[t]""",
    "recast": """
        v = fx.recast_iter(fx.Uint8, fx.recast_iter(fx.Int8, fx.get_iter(X)))[t]""",
    "branch": """
        p = fx.get_iter(X)
        if t > 7:
            p = p + t
        else:
            p = p + t
        v = p.load()""",
    "loop": """
        p = fx.get_iter(X)
        for _ in range(t):
            p = p + 1
        v = p.load()""",
    "struct": """
        b = Box(X, t)
        v = b.x[b.at]""",
}
BOX = "@fx.struct\nclass Box:\n    x: fx.Tensor\n    at: fx.Int32\n"


@pytest.mark.parametrize("path", PATHS)
def test_every_way_to_an_element(path: str, run: Run) -> None:
    import textwrap

    body = textwrap.dedent(PATHS[path]).strip() + "\nassert v.dtype is fx.Uint8\nY[t] = v.to(fx.Float32) / 2.0"
    out = run(body, x=BYTES, y=np.full(64, -77, np.float32), prelude=BOX)
    np.testing.assert_array_equal(out, BYTES / np.float32(2))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_operators_of_loaded_elements(bits: int, run: Run) -> None:
    x = (np.random.default_rng(bits).integers(0, 2**bits, 64, dtype=np.uint64)).astype(f"uint{bits}")
    x[:4] = [0, 1, 2**bits - 1, 2 ** (bits - 1)]
    expressions = {
        f"X[t] >> fx.Uint{bits}({bits - 2})": x >> np.array(bits - 2, x.dtype),
        f"X[t] // fx.Uint{bits}(7)": x // np.array(7, x.dtype),
        f"X[t] % fx.Uint{bits}(7)": x % np.array(7, x.dtype),
        f"fx.max(X[t], fx.Uint{bits}({2 ** (bits - 1)}))": np.maximum(x, np.array(2 ** (bits - 1), x.dtype)),
        f"fx.where(X[t] > fx.Uint{bits}(5), fx.Uint{bits}(1), fx.Uint{bits}(0))": (x > 5).astype(x.dtype),
        "abs(X[t])": x,
        "fx.absi(X[t])": x,
    }
    for text, want in expressions.items():
        out = run(f"Y[t] = {text}", x=x, y=np.full(64, 77, x.dtype))
        np.testing.assert_array_equal(out, want, text)
    wide = run("Y[t] = X[t].to(fx.Float64)", x=x, y=np.full(64, -77.0))
    np.testing.assert_array_equal(wide, x.astype(np.float64))


def test_vectors_and_promotion(run: Run) -> None:
    out = run("v = fx.make_view(fx.get_iter(X), fx.make_layout(64, 1)).load()\n"
              "Y[t] = (v + 1).to(fx.Float32)[t] + v.reduce('max').to(fx.Float32)", x=BYTES,
              y=np.zeros(64, np.float32))
    np.testing.assert_array_equal(out, BYTES.astype(np.float32) + 1 + BYTES.max())


def test_signed_memory_stays_signed(run: Run) -> None:
    signed = BYTES.view(np.int8)
    out = run("p = fx.recast_iter(fx.Uint8, fx.get_iter(X))\nY[t] = X[t].to(fx.Float32) * 1000.0 + p[t].to(fx.Float32)",
              x=signed, y=np.zeros(64, np.float32))
    np.testing.assert_array_equal(out, signed.astype(np.float32) * 1000 + BYTES)


def test_atomics_compare_as_the_memory_does(run: Run) -> None:
    x = np.full(64, 2**32 - 3, np.uint32)
    run("fx.atomic_max(fx.get_iter(X), t)\nfx.atomic_min(fx.get_iter(X) + 1, t)", x=x, y=np.zeros(64, np.uint32))
    assert x[0] == 2**32 - 3 and x[1] == 0


def test_one_kernel_for_both_classes(load: Any, device: None) -> None:
    module = load("""
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = X[fx.thread_idx.x].to(fx.Float32)

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor):
    k(X, Y).launch(grid=1, block=64)
""")
    for x in (BYTES, BYTES.view(np.int8), BYTES, BYTES.view(np.int8)):
        y = np.zeros(64, np.float32)
        module.run(x, y)
        np.testing.assert_array_equal(y, x.astype(np.float32))


def test_pointers_in_shared_structs(run: Run) -> None:
    out = run("""
        box = fx.SharedAllocator().allocate(Cell)
        if t == 0:
            box.count.poke(fx.Uint16(65000))
        fx.gpu.barrier()
        Y[t] = box.count.peek().to(fx.Float32) + fx.Float32(t)
    """, prelude="@fx.struct\nclass Cell:\n    count: fx.Uint16\n", y=np.zeros(64, np.float32))
    np.testing.assert_array_equal(out, INDEX + 65000.0)


def test_printed_unsigned(run: Run, capfd: Any) -> None:
    run("if t == 0:\n    fx.printf('{} {}', X[0], fx.Uint32(4000000000) + X[0])\n    fx.printf(r'\\x41 \\n {}%', t)\n"
        "    fx.printf('{}', fx.Vector.from_elements([fx.Uint32(4000000000) + X[0], t], fx.Uint32))",
        x=np.full(64, 200, np.uint8), y=np.zeros(64, np.uint8))
    import flydsl.runtime

    getattr(flydsl.runtime, "synchronize", lambda: None)()
    out = capfd.readouterr().out
    assert "[4000000200, 0]" in out
    assert "200 4000000200" in out and "\\x41 \\n 0%" in out
