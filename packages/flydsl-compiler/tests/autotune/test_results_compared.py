"""Configurations whose results differ are found while they are measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from flydsl.autotune import Autotuner, Config, autotune
from flydsl.autotune.results import difference, results_of


def _with_a_wrong_one(**options: Any) -> Autotuner:
    """Configurations that add one; tile 2 is the fastest and adds two."""

    def bench(call: Callable[[], Any], warmup: int, rep: int) -> float:
        call()
        return times[-1]

    times: list[float] = []

    def add_one(x: Any, out: Any, scratch: Any, tile: int = 0) -> None:
        times.append(float(tile))
        np.add(x, 2 if tile == 2 else 1, out=out)
        scratch[:] = tile  # differs from one configuration to the next, as a workspace may

    add_one.__name__ = f"add_one_{options.get('check', True)}".replace("'", "").strip("[]")  # a cache file each
    return autotune([Config(tile=t) for t in (8, 2, 4)], do_bench=bench, **options)(add_one)


def test_results_are_compared_with_those_of_the_first_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    x, out = np.arange(4.0), np.zeros(4)
    _with_a_wrong_one()(x, out, np.zeros(2))
    text = capsys.readouterr().out
    warning = next(line for line in text.splitlines() if "WARNING" in line)
    assert "Config(tile=2) are not those of Config(tile=8): out: 4 of 4 elements differ, by up to 1; " in warning
    assert "the winner is kept in" in text and "FLYDSL_AUTOTUNE_CONFIG_DIR" in text

    assert _with_a_wrong_one(check=["out"]).resolve_config(x, out, np.zeros(2)) == Config(tile=4)
    assert "Config(tile=2): failed: ValueError: its results are not those of" in capsys.readouterr().out

    assert _with_a_wrong_one(check=False).resolve_config(x, out, np.zeros(2)) == Config(tile=2)
    assert "WARNING" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("first", "now", "told"),
    [
        ([1.0, 2.0, 1000.0], [1.0, 2.0 + 1e-11, 1000.0 + 1e-11], ""),
        ([1.0, 2.0, 1000.0], [1.0, 2.0 + 1e-11, 1000.5], "x: 1 of 3 elements differ, by up to 0.5"),
        ([1.0, float("nan"), float("inf")], [1.0, float("nan"), float("inf")], ""),
        ([1.0, 2.0], [1.0, float("nan")], "x: 1 of 2 elements differ"),
        ([1.0, float("inf")], [1.0, 2.0], "x: 1 of 2 elements differ"),
        ([1.0, 2.0], [1.0, float("-inf")], "x: 1 of 2 elements differ"),
        ([1, 2], [1, 3], "x: 1 of 2 elements differ"),
        ([1 + 1j], [1 + 2j], "x: 1 of 2 elements differ"),
        ([], [], ""),
    ],
)
def test_what_counts_as_a_difference(first: list[Any], now: list[Any], told: str) -> None:

    text = difference(results_of({"x": np.array(first)}), results_of({"x": np.array(now)}))
    assert text.startswith(told) and bool(text) == bool(told)


@pytest.mark.parametrize("element", ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_the_tolerance_is_that_of_the_element_type(element: str) -> None:
    """Sums in two orders are the same result, an error of a few units in the last place is none."""

    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((32, 2048)).astype(np.float32), rng.standard_normal((2048, 32)).astype(np.float32)
    order = rng.permutation(2048)
    in_order = np.cumsum(a[:, :, None] * b, axis=1, dtype=np.float32)[:, -1]
    other = np.cumsum(a[:, order, None] * b[order], axis=1, dtype=np.float32)[:, -1]
    step = 2.0 ** -{"float32": 23, "float16": 10, "bfloat16": 7, "float8_e4m3fn": 3, "float8_e5m2": 2}[element]
    assert np.abs(in_order - other).max() > 0

    def results(values: Any) -> Any:
        tensor = torch.tensor(values / 8).to(getattr(torch, element))
        return results_of({"x": tensor if element.startswith(("float8", "b")) else tensor.numpy()})

    assert difference(results(in_order), results(other)) == ""
    wrong = in_order.copy()
    wrong[3, 5] = 64.0 * (1 + 3 * step) if element.startswith("float8") else wrong[3, 5] + np.std(in_order) * (
        0.001 if element == "float32" else 8 * step)
    in_order[3, 5] = 64.0 if element.startswith("float8") else in_order[3, 5]
    assert difference(results(in_order), results(wrong)).startswith("x: 1 of 1024 elements differ")


def test_results_are_as_precise_as_what_they_are_made_of() -> None:
    """A sum in 32 bits of what was rounded to 16 bits in between."""

    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    rounded = x + np.float32(2.0**-10)
    assert difference(results_of({"x": x}), results_of({"x": rounded}))
    half = np.zeros(4, np.float16)
    assert difference(results_of({"x": x}, [half]), results_of({"x": rounded}, [half])) == ""
