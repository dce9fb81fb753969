"""Programs that have no meaning are errors at their line or at the call, before anything is launched."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl.tracing.diagnostics import DSLCompileError

Run = Callable[..., np.ndarray]

BODIES = {
    "iterate a tensor": ("for v in X:\n    Y[t] = v", "a Tensor is not iterable"),
    "iterate a view": ("for v in fx.make_view(fx.get_iter(X), fx.make_layout(4, 1)):\n    Y[t] = v", "not iterable"),
    "iterate a pointer": ("for v in fx.get_iter(X):\n    Y[t] = v", "a Pointer is not iterable"),
    "unpack a tensor": ("a, b = fx.make_view(fx.get_iter(X), fx.make_layout(2, 1))\nY[t] = a", "not iterable"),
    "unwritten element": ("f = fx.make_rmem_tensor(4, fx.Float32)\nY[t] = f[0]", "read before anything is written"),
    "unwritten vector": (
        "f = fx.make_fragment_like(fx.make_layout((4, 2), (1, 4)), fx.Float32)\nY[t] = fx.sum(f.load())",
        "read before anything is written",
    ),
    "unwritten, run-time index": ("f = fx.make_rmem_tensor(4, fx.Float32)\nY[t] = f[t % 4]", "read before anything"),
    "unwritten in a loop": (
        "f = fx.make_rmem_tensor(4, fx.Float32)\nfor i in range(n):\n    Y[t] = f[1]\n", "read before anything",
    ),
    "unwritten accumulator": (
        "f = fx.make_rmem_tensor(4, fx.Float32)\nfor i in range(n):\n    f.store(f.load() + 1.0)\nY[t] = f[0]",
        "in the first iteration of a loop before anything",
    ),
    "unwritten accumulator in nested loops": (
        "f = fx.make_rmem_tensor(4, fx.Float32)\nfor i in range(n):\n    for j in range(n):\n"
        "        f.store(f.load() + 1.0)\n    Y[t] = f[0]", "in the first iteration of a loop before anything",
    ),
    "unwritten accumulator of a while": (
        "f, i = fx.make_rmem_tensor(4, fx.Float32), fx.Int32(0)\nwhile i < n:\n    Y[t] = f[0]\n    f.fill(1.0)\n"
        "    i += 1", "in the first iteration of a loop before anything",
    ),
    "register index": ("f = fx.make_rmem_tensor(4, fx.Float32)\nf.fill(0)\nY[t] = f[4]", "index 4 in 4 is out of"),
    "register coordinate": (
        "f = fx.make_rmem_tensor((4, 2), fx.Float32)\nf.fill(0)\nY[t] = f[1, 2]", r"index 2 in \(1, 2\) is out of",
    ),
    "nested coordinate": (
        "f = fx.make_rmem_tensor(((2, 2), 2), fx.Float32)\nf.fill(0)\nY[t] = f[(0, 2), 1]", "index 2",
    ),
    "negative index": ("f = fx.make_rmem_tensor(4, fx.Float32)\nf.fill(0)\nY[t] = f[-1]", "index -1"),
    "stored index": ("f = fx.make_rmem_tensor(4, fx.Float32)\nf[5] = 1.0", "index 5"),
    "slice": (
        "f = fx.make_rmem_tensor((4, 2), fx.Float32)\nf.fill(0)\nY[t] = fx.sum(f[None, 2].load())", "index 2",
    ),
    "shared view": (
        "s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 8]).peek().view(fx.make_layout((4, 2), (2, 1)))\n"
        "s[4, 0] = 1.0", "index 4",
    ),
    "shared array": ("s = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 8]).peek()\ns[8] = 1.0", "element 8"),
    "known zero divisor": ("Y[t] = fx.Float32(t // 0)", "division or modulo by zero"),
    "known zero modulus": ("Y[t] = fx.Float32(t % fx.Int32(0))", "division or modulo by zero"),
    "profile": (
        "v = fx.make_view(fx.get_iter(X), fx.make_ordered_layout((4, 2), 0)).load()\n"
        "Y[t] = v.reduce('add', None, (1, None, 1))[0]", "does not match",
    ),
    "unsigned memory becomes signed": (
        "f, g = fx.make_rmem_tensor(1, fx.Uint8), fx.make_rmem_tensor(1, fx.Int8)\nf.fill(200)\ng.fill(-56)\n"
        "for i in range(n):\n    f = g\nY[t] = f[0].to(fx.Float32)",
        "variable f .* expected elements of Uint8, produced elements of Int8",
    ),
    "a layout that leaves its tile": (
        "fx.make_tiled_copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), fx.make_layout((64, 4), (1, 64)), "
        "(64, 2))", r"reaches position 255, but its tile \[64\|2\] has 128 elements",
    ),
    "a part of a call": (
        "fx.make_tiled_copy(fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), fx.make_layout((64, 2), (1, 64)), "
        "(64, 2))", "takes 4 values a thread, but layout_tv .* has 2",
    ),
    "threads with gaps": (
        "fx.make_layout_tv(fx.make_layout((8, 8), (16, 1)), fx.make_layout((1, 1), (1, 1)))", "thr_layout .* from 0 on",
    ),
    "values that repeat": (
        "fx.make_layout_tv(fx.make_layout((8, 8), (8, 1)), fx.make_layout((1, 4), (1, 0)))", "val_layout .* from 0 on",
    ),
    "an atom below its value": ("fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float64)", "32 bits, less than one value"),
    "a negative extent": ("fx.make_layout((-4, 8), (8, 1))", "extents are not negative"),
    "a fraction for integers": ("fx.recast_iter(fx.Int32, fx.get_iter(Y))[t] = 1.5", "1.5 .* Int32: it is no integer"),
    "a fraction for integer registers": ("fx.make_rmem_tensor(2, fx.Int8).fill(0.5)", "0.5 .* Int8: it is no integer"),
    "an integer beyond its class": ("f = fx.make_rmem_tensor(2, fx.Int8)\nf[0] = 300", "300 .* has more than 8 bits"),
    "an integer beyond its registers": ("fx.make_rmem_tensor(2, fx.Uint8).fill(-129)", "-129 .* more than 8 bits"),
    "infinity for integers": ("fx.make_rmem_tensor(2, fx.Int32).fill(float('inf'))", "it is no integer"),
    "too few lanes": ("v = fx.Float32x4(1.0, 2.0)\nY[t] = v[0]", "Float32x4: expected 4 elements, got 2"),
    "sum of a tensor": ("Y[t] = fx.sum(X)", "load a tensor first"),
    "a key of a dictionary": ("Y[t] = {1: 2.0}[t]", "no entry for Int32.* choose on the device with fx.where"),
    "in a set": ("Y[t] = 1.0 if t in {1, 2} else 2.0", "`in` looks up a set while tracing"),
    "an entry or a default": ("D = {1: 2.0}\nY[t] = D.get(t, 3.0)",
                              "a dict is looked up while tracing"),
    "not in a dictionary": ("if t not in {1: 2}:\n    Y[t] = 1.0", "`in` looks up a dict while tracing"),
    "in keys, behind a comparison": ("Y[t] = 1.0 if 0 <= t in {1: 2}.keys() else 2.0", "looks up a dict_keys"),
    "a coordinate in a set": ("Y[t] = 1.0 if (0, t) in {(0, 1)} else 2.0", "`in` looks up a set while tracing"),
    "in a tuple": ("Y[t] = 1.0 if t in (1, 2) else 2.0", "need a value known while tracing"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies(name: str, run: Run) -> None:
    body, message = BODIES[name]
    with pytest.raises((DSLCompileError, TypeError, IndexError, ValueError, ZeroDivisionError), match=message) as error:
        run(body)
    assert "sample_1.py" in str(error.value)


WARNED = {
    "an accumulator that is selected": (
        "for i in range(n):\n    f[0] = fx.where(i == 0, 0.0, f[0]) + 1.0\nY[t] = f[0]"
    ),
    "an inner loop that starts later": (
        "for i in range(n):\n    for j in range(i):\n        Y[t] = f[0]\n    f.fill(i.to(fx.Float32))"
    ),
    "one branch": "if t < 5:\n    f.fill(1.0)\nY[t] = f[0]",
    "a loop that may not run": "for i in range(n):\n    f.fill(1.0)\nY[t] = f[0]",
    "some elements": "f[0] = 1.0\nY[t] = fx.sum(f.load())",
    "an iteration later": "for i in range(n):\n    if i > 0:\n        Y[t] = f[0]\n    f.fill(i.to(fx.Float32))",
}
QUIET = {
    "guarded at first": """
f.fill(0.0)
g = fx.make_rmem_tensor(4, fx.Float32)
s = fx.Float32(0.0)
for i in range(n):
    if i > 0:
        g.store(f.load())
    f.fill(i.to(fx.Float32))
Y[t] = f[0]""",
    "both branches": "if t < 5:\n    f.fill(1.0)\nelse:\n    f.fill(2.0)\nY[t] = f[0]",
    "a loop that runs": "for i in range(3):\n    f.fill(1.0)\nY[t] = f[0]",
    "element by element": "for i in fx.range_constexpr(4):\n    f[i] = 1.0\nY[t] = fx.sum(f.load())",
    "carried": "f.fill(0.0)\nfor i in range(n):\n    f.store(f.load() + 1.0)\nY[t] = f[3]",
    "read where it is written": "for i in fx.range_constexpr(2):\n    f[i] = 1.0\nY[t] = f[0] + f[1]",
    "predicated copy": """
p = fx.make_rmem_tensor(1, fx.Boolean)
p[0] = t < 5
s = fx.make_view(fx.get_iter(X), fx.make_layout(4, 1))
fx.copy(fx.make_copy_atom(fx.UniversalCopy128b(), fx.Float32), s, f, pred=p)
Y[t] = f[0]""",
}


@pytest.mark.parametrize("name", [*WARNED, *QUIET])
def test_fragments_that_are_written_on_some_paths(name: str, run: Run) -> None:
    body = "f = fx.make_rmem_tensor(4, fx.Float32)\n" + {**WARNED, **QUIET}[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(body)
    found = [w for w in caught if "fragment" in str(w.message)]
    assert bool(found) == (name in WARNED), [str(w.message) for w in found]
    assert all(w.filename.endswith("sample_1.py") for w in found)


def test_a_carried_number_stays_signed_or_unsigned(run: Run) -> None:
    body = "v = fx.Int32(-8)\nfor i in range(n):\n    v = fx.Uint32(v)\nY[t] = (v // 2).to(fx.Float32)"
    with pytest.warns(UserWarning, match="variable v is Int32 before and Uint32 here; it stays Int32") as caught:
        np.testing.assert_array_equal(run(body), np.full(64, -4))
    assert caught[0].filename.endswith("sample_1.py")


def test_a_carried_vector_keeps_its_class_and_shape(run: Run) -> None:
    body = "v = fx.Int32x4(-8)\nif n > 0:\n    v = v.bitcast(fx.Uint32)\nY[t] = (v >> 1)[0].to(fx.Float32)"
    with pytest.warns(UserWarning, match="variable v is Int32 before and Uint32 here"):
        np.testing.assert_array_equal(run(body), np.full(64, -4))
    body = ("v = fx.Vector.from_elements(list(range(8)), fx.Float32).reshape((2, 4))\n"
            "for i in range(n):\n    v = v.reshape({})\nY[t] = v[(1, 2)]")
    np.testing.assert_array_equal(run(body.format("8")), np.full(64, 6))  # as raw builders give it
    with pytest.raises(TypeError, match=r"expected a vector of shape \(2, 4\), produced one of shape \(4, 2\)"):
        run(body.format("(4, 2)"))


SOURCE = """
@flyc.kernel
def k(X: fx.Tensor, Y: fx.Tensor):
    Y[fx.thread_idx.x] = X[fx.thread_idx.x]

@flyc.jit
def run(X: fx.Tensor, Y: fx.Tensor, n: fx.Int64, u: fx.Uint32, stream: fx.Stream = None):
    k(X, Y).launch({launch}, stream=stream)
"""


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(64, dtype=np.float32), np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("launch", "n", "message"),
    [
        ("grid=1, block=64, smem=2**32", 1, "smem=4294967296 bytes is out of range"),
        ("grid=1, block=64, smem=-4", 1, "smem=-4 bytes is out of range"),
        ("grid=1, block=64, smem=2.5", 1, "smem must be an integer"),
        ("grid=1, block=64, smem=n", 2**32, "smem=.* is out of range"),
        ("grid=1, block=64, smem=n", -1, "smem=.* is out of range"),
        ("grid=2**32, block=64", 1, "grid.x must be at most"),
        ("grid=(1, 2**64), block=64", 1, "grid.y must be at most"),
        ("grid=n, block=64", 2**40, "exceeds"),
        ("grid=n / 64, block=64", 64, "grid.x must be an integer, got a Float"),
        ("grid=(1, n * 1.0), block=64", 64, "grid.y must be an integer, got a Float"),
        ("grid=u, block=64", 1, "exceeds"),
    ],
)
def test_launch_sizes(load: Any, device: None, launch: str, n: int, message: str) -> None:
    with pytest.raises((DSLCompileError, ValueError, AssertionError), match=message):
        load(SOURCE.format(launch=launch)).run(*_arrays(), n, 2**32 - 1)


def test_streams_and_numbers_for_tensors(load: Any, device: None) -> None:
    run = load(SOURCE.format(launch="grid=1, block=64, smem=n")).run
    x, y = _arrays()
    for stream in (2**64, -(2**63) - 1):
        with pytest.raises((OverflowError, TypeError, ValueError), match="stream"):
            run(x, y, 128, 1, stream)
    run(x, y, 128, 1)
    np.testing.assert_array_equal(x, y)
    with pytest.raises(OverflowError, match="stream"):
        run(x, y, 128, 1, 2**64)
    for wrong in (5, 5.0, True, np.int64(5)):
        with pytest.raises(TypeError, match="'X'"):
            run(wrong, y, 128, 1)


def test_numbers_for_tensors_of_a_kernel(load: Any, device: None) -> None:
    with pytest.raises(DSLCompileError, match="argument 'X' is declared Tensor, got a Int64"):
        load(SOURCE.format(launch="grid=1, block=64").replace("k(X, Y)", "k(n, Y)")).run(*_arrays(), 1, 1)


STORES = {
    "element": "Y[t] = X[t]",
    "view": "fx.make_view(fx.get_iter(Y), fx.make_layout((8, 8), (8, 1)))[t // 8, t % 8] = X[t]",
    "slice": "fx.slice(fx.logical_divide(Y, fx.make_layout(8, 1)), (None, t // 8))[t % 8] = X[t]",
    "fill": "fx.make_view(fx.get_iter(Y), fx.make_layout(4, 1)).fill(1.0)",
    "pointer": "fx.get_iter(Y)[t] = X[t]",
    "atomic": "fx.atomic_add(fx.get_iter(Y), X[t])",
    "buffer": "fx.rocdl.make_buffer_tensor(Y)[t] = X[t]",
    "copy": """
f = fx.make_rmem_tensor(1, fx.Float32)
f.fill(2.0)
fx.copy(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), f, fx.make_view(fx.get_iter(Y) + t, fx.make_layout(1, 1)))
""",
    "branch": "if t < 5:\n    Y[t] = X[t]",
    "loop": "for i in range(n):\n    Y[i] = X[i]",
}


@pytest.mark.parametrize("store", STORES)
def test_read_only_arrays(store: str, load: Any, kernel_text: Callable[..., str], device: None) -> None:
    run = load(kernel_text(STORES[store])).run
    x, y = _arrays()
    frozen = np.zeros(64, np.float32)
    frozen.flags.writeable = False
    for _ in range(2):
        with pytest.raises(ValueError, match="'Y'.*read-only"):
            run(x, frozen, 4)
        run(x, y, 4)
    assert not frozen.any() and y.any()
    x.flags.writeable = False
    run(x, y, 4)  # what is only loaded may be read-only


def test_fragments_made_like_a_read_only_array(load: Any, kernel_text: Callable[..., str], device: None) -> None:
    """The registers are written, not what they were made like."""
    run = load(kernel_text("""
x, y = [fx.logical_divide(a, fx.make_layout(1, 1))[None, t] for a in (X, Y)]
f = fx.make_fragment_like(x)
atom = fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)
fx.copy(atom, x, f)
g = fx.make_fragment_like(x)
g.store(f.load() + 1.0)
g[0] = g[0] * 2.0
fx.copy(atom, g, y)
""")).run
    x, y = _arrays()
    x.flags.writeable = False
    run(x, y, 4)
    np.testing.assert_array_equal(y, (x + 1) * 2)
