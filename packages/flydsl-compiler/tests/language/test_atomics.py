"""Function-style atomics and ordered accesses, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

T = np.arange(64, dtype=np.int32)


def first(value: Any, fill: int = -77, count: int = 64) -> np.ndarray:
    out = np.full(count, fill, np.int32)
    out[0] = value
    return out


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("atomic_add(p, t)", -77 + T.sum()),
        ("atomic_sub(p, t)", -77 - T.sum()),
        ("atomic_max(p, t)", 63),
        ("atomic_min(p, -t)", -77),
        ("atomic_max(p, fx.Uint32(t))", -77),  # -77 is the larger one without sign
        ("atomic_min(p, fx.Uint32(t))", 0),
        ("atomic_and(p, t)", 0),
        ("atomic_or(p, t)", -77 | 63),
        ("atomic_xor(p, t)", -77 ^ int(np.bitwise_xor.reduce(T))),
        ("atomic_xchg(p, 5)", 5),
        ("atomic_add(p, 1, syncscope=fx.rocdl.SyncScope.Agent, ordering=fx.AtomicOrdering.AcqRel)", -77 + 64),
    ],
)
def test_integer_read_modify_write(run: Any, call: str, expected: int) -> None:
    out = run(f"p = fx.get_iter(Y)\nfx.{call}", x=T.copy())
    np.testing.assert_array_equal(out, first(expected))


def test_the_previous_value_is_returned_in_the_class_of_the_value(run: Any) -> None:
    out = run("p = fx.get_iter(X)\nold = fx.atomic_add(p, 1)\nassert type(old) is fx.Int32\nY[t] = old",
              x=np.zeros(64, np.int32))
    np.testing.assert_array_equal(np.sort(out), T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_add(run: Any, dtype: Any) -> None:
    x = np.arange(64).astype(dtype)
    y = np.zeros(64, dtype)
    run("fx.atomic_add(fx.get_iter(Y), X[t])", x=x, y=y)
    assert y[0] == x.sum() and not y[1:].any()


@pytest.mark.parametrize("sign", ["None", "bool"])
def test_float_minimum_and_maximum(run: Any, sign: str) -> None:
    x = np.random.default_rng(3).standard_normal(64).astype(np.float32)
    for kind, reference in (("min", np.min), ("max", np.max)):
        y = np.full(64, 0.25, np.float32)
        if sign == "None":
            run(f"fx.atomic_f{kind}(fx.get_iter(Y), X[t])", x=x, y=y)
            assert y[0] == reference(np.append(x, np.float32(0.25)))
        else:
            positive = np.abs(x)
            run(f"fx.atomic_f{kind}(fx.get_iter(Y), X[t], is_positive=True)", x=positive, y=y)
            assert y[0] == reference(np.append(positive, np.float32(0.25)))


def test_compare_and_exchange(run: Any) -> None:
    body = """
    old, done = fx.atomic_cas(fx.get_iter(Y) + t, t % 2 - 77, 5)
    fx.memory_fence()
    X[t] = fx.Int32(done) * 1000 + old
    """
    x, y = np.zeros(64, np.int32), np.full(64, -77, np.int32)
    run(body, x=x, y=y)
    np.testing.assert_array_equal(y, np.where(T % 2 == 0, 5, -77))
    np.testing.assert_array_equal(x, np.where(T % 2 == 0, 1000 - 77, -77))


def test_loads_and_stores_with_hints(run: Any) -> None:
    body = """
    p, q = fx.get_iter(X), fx.get_iter(Y)
    v = fx.generic_load(p + t % 16 * 4, count=4, nontemporal=True)
    w = fx.generic_load(p + t, memory_order=fx.AtomicOrdering.Acquire, syncscope=fx.rocdl.SyncScope.Agent)
    fx.generic_store(q + t, v[2] + w, memory_order=fx.AtomicOrdering.Release)
    """
    np.testing.assert_array_equal(run(body, x=T.copy()), T % 16 * 4 + 2 + T)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        ("fx.atomic_add(fx.get_iter(Y), 1, ordering=2)", TypeError, "AtomicOrdering"),
        ("fx.atomic_add(fx.get_iter(Y), X[t].to(fx.Float32))", TypeError, "Float32"),
        ("fx.atomic_fmin(fx.get_iter(Y), t)", TypeError, "atomic_fmin"),
        ("fx.generic_load(fx.get_iter(Y), memory_order=fx.AtomicOrdering.Release)", ValueError, "Release"),
        ("fx.generic_store(fx.get_iter(Y), 1, memory_order=fx.AtomicOrdering.AcqRel)", ValueError, "AcqRel"),
        ("fx.atomic_add(fx.get_iter(Y), 1, ordering=fx.AtomicOrdering.Unordered)", ValueError, "add .*Unordered"),
        ("fx.atomic_cas(fx.get_iter(Y), 1, 2, failure_ordering=fx.AtomicOrdering.Release)", ValueError, "Release"),
        ("fx.memory_fence(ordering=fx.AtomicOrdering.Monotonic)", ValueError, "a fence cannot .* Monotonic"),
        ("fx.generic_load(fx.get_iter(Y), syncscope='agent')", ValueError, "syncscope"),
        ("fx.generic_load(fx.get_iter(Y), count=4, memory_order=fx.AtomicOrdering.Monotonic)", ValueError,
         "is of one number, got vector<4xi32>"),
        ("fx.generic_store(fx.get_iter(Y), fx.full(2, 1, fx.Int32), memory_order=fx.AtomicOrdering.Release)",
         ValueError, "is of one number, got vector<2xi32>"),
        ("fx.generic_load(fx.get_iter(Y), count=0)", ValueError, "count"),
        ("fx.generic_load(fx.get_iter(Y), count=2, dtype=fx.Int32x2)", ValueError, "count"),
        ("fx.atomic_cas(fx.get_iter(Y), 1, fx.Int64(2))", TypeError, "Int64"),
        ("fx.UniversalAtomicOr(fx.Boolean)", ValueError, "integer type of 8, 16, 32 or 64 bits, got Boolean"),
        ("fx.UniversalAtomicInc(fx.Int128)", ValueError, "integer type of 8, 16, 32 or 64 bits, got Int128"),
        ("fx.UniversalAtomicAnd(fx.Float32)", ValueError, "atomic And needs an integer type, got f32"),
        ("fx.UniversalAtomicAdd(fx.Float8E5M2)", ValueError, "an integer type, f16, bf16, f32 or f64, got f8E5M2"),
        ("fx.atomic_add(fx.get_iter(Y), 1, syncscope='wave')", RuntimeError, 'unknown syncscope "wave", expected'),
        ("fx.memory_fence(syncscope='gpu')", RuntimeError, 'unknown syncscope "gpu", expected'),
    ],
)
def test_errors(run: Any, call: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text) as info:
        run(call, x=T.copy())
    assert call in str(info.value)  # the user's line is shown


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        ("fx.generic_store(fx.get_iter(Y), fx.Float32x4(1.5))", TypeError, "Float32"),
        ("fx.generic_store(fx.get_iter(Y), fx.Int16x4(1))", TypeError, "Int16"),
        ("fx.generic_store(fx.get_iter(Y), 1.5)", ValueError, "no integer"),
        ("fx.atomic_add(fx.get_iter(Y), fx.Float16x2(1.0))", TypeError, "Float16"),
        ("fx.atomic_add(fx.get_iter(Y), 1.5)", ValueError, "no integer"),
        ("fx.atomic_cas(fx.get_iter(Y), 0, 2**40)", ValueError, "32 bits"),
    ],
)
def test_a_value_that_the_elements_are_not(run: Any, call: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text):
        run(call, x=T.copy())


SWIZZLED = """
base = fx.recast_iter(fx.Int32, fx.SharedAllocator().allocate(256, alignment=256).peek().ptr)
p = fx.apply_swizzle(base, fx.static(fx.SwizzleType.get(2, 4, 2)))
"""


@pytest.mark.parametrize("body", [
    "(p + t).store(t)\nfx.barrier()\nY[t] = fx.generic_load(p + t)",
    "fx.generic_store(p + t, t)\nfx.barrier()\nY[t] = (p + t).load()",
    "(p + t).store(0)\nfx.barrier()\nfx.atomic_add(p + t, t)\nfx.barrier()\nY[t] = (p + t).load()",
    "(p + t).store(t)\nfx.barrier()\nY[t] = fx.generic_load(p + t // 4 * 4, count=4)[t % 4]",
    "(p + t).store(t)\nfx.barrier()\nY[t] = (fx.recast_iter(fx.Int16, p) + 2 * t).load().to(fx.Int32)",
    "(p + t).store(t)\nfx.barrier()\nY[t] = (fx.recast_iter(fx.Uint32, p) + t).load().to(fx.Int32)",
])
def test_a_swizzled_pointer_is_followed(run: Any, body: str) -> None:
    np.testing.assert_array_equal(run(SWIZZLED + body, x=T.copy()), T)


def test_an_access_wider_than_the_swizzle_keeps_together_is_refused(run: Any) -> None:
    with pytest.raises(ValueError, match="16 bytes together"):
        run(SWIZZLED + "Y[t] = fx.generic_load(p, count=8)[0]", x=T.copy())


def test_booleans_have_a_byte_each(run: Any) -> None:
    x = np.arange(64) % 3 == 0
    body = """
    p = fx.get_iter(X)
    v = fx.generic_load(p + t // 8 * 8, count=8)
    Y[t] = v[t % 8].select(fx.Int32(1), fx.Int32(0))
    fx.barrier()
    fx.generic_store(p + t // 8 * 8, ~v)
    """
    before = x.copy()
    np.testing.assert_array_equal(run(body, x=x, y=np.zeros(64, np.int32)), before)
    np.testing.assert_array_equal(x, ~before)
