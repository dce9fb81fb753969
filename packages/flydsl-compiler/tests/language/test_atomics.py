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
        ("fx.generic_load(fx.get_iter(Y), syncscope='agent')", ValueError, "syncscope"),
        ("fx.generic_load(fx.get_iter(Y), count=0)", ValueError, "count"),
        ("fx.generic_load(fx.get_iter(Y), count=2, dtype=fx.Int32x2)", ValueError, "count"),
        ("fx.atomic_cas(fx.get_iter(Y), 1, fx.Int64(2))", TypeError, "Int64"),
    ],
)
def test_errors(run: Any, call: str, kind: type, text: str) -> None:
    with pytest.raises(kind, match=text) as info:
        run(call, x=T.copy())
    assert call in str(info.value)  # the user's line is shown
