"""Wave and workgroup reductions and scans, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flydsl.runtime.device import get_warp_size

WAVE = get_warp_size()
OPS = {"ADD": np.add, "MUL": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


def _values(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-5, 6, count).astype(np.int32)


@pytest.mark.parametrize("op", list(OPS))
@pytest.mark.parametrize("width", [None, 16])
def test_wave(run: Any, op: str, width: int | None) -> None:
    x = _values(64)
    rows = x.reshape(-1, width or WAVE)
    call = f"(X[t], fx.ReductionOp.{op}, width={width})"
    total = np.repeat(OPS[op].reduce(rows, axis=1), rows.shape[1])
    np.testing.assert_array_equal(run(f"Y[t] = fx.coop.warp_reduce{call}", x=x), total)
    inclusive = OPS[op].accumulate(rows, axis=1).reshape(-1)
    np.testing.assert_array_equal(run(f"Y[t] = fx.coop.warp_inclusive_scan{call}", x=x), inclusive)
    started = OPS[op].accumulate(np.insert(rows, 0, 3, axis=1), axis=1)[:, :-1].reshape(-1)
    body = f"Y[t] = fx.coop.warp_exclusive_scan(X[t], fx.ReductionOp.{op}, width={width}, init=3)"
    np.testing.assert_array_equal(run(body, x=x), started)


def test_wave_scan_with_aggregate(run: Any) -> None:
    x = _values(64)
    body = "i, e, a = fx.coop.warp_scan_with_aggregate(X[t], 'add')\nY[t] = i * 10000 + e * 100 + a"
    rows = x.reshape(-1, WAVE)
    c = np.cumsum(rows, axis=1)
    np.testing.assert_array_equal(run(body, x=x), (c * 10000 + (c - rows) * 100 + c[:, -1:]).reshape(-1))


@pytest.mark.parametrize(("block", "width"), [(1, None), (16, None), (40, None), (40, 16), (88, None), (88, 32)])
@pytest.mark.parametrize("op", list(OPS))
def test_lanes_without_a_thread_do_not_count(run: Any, block: int, width: int | None, op: str) -> None:
    """Workgroups that end inside of a wave: its last group of lanes has what its threads have."""
    x, size = _values(block), width or WAVE
    groups = [x[k : k + size] for k in range(0, block, size)]
    total = np.concatenate([np.full(len(g), OPS[op].reduce(g)) for g in groups])
    call = f"(X[t], fx.ReductionOp.{op}, width={width})"
    np.testing.assert_array_equal(run(f"Y[t] = fx.coop.warp_reduce{call}", x=x, block=block), total)
    body = f"i, e, a = fx.coop.warp_scan_with_aggregate{call}\nY[t] = a"
    np.testing.assert_array_equal(run(body, x=x, block=block), total)


@pytest.mark.parametrize("block", [64, 96, 256])
@pytest.mark.parametrize("algorithm", ["WARP_REDUCTIONS", "RAKING"])
@pytest.mark.parametrize("op", ["ADD", "MIN"])
def test_block_reduce(run: Any, block: int, algorithm: str, op: str) -> None:
    x = _values(block)
    body = f"""
    Reduce = fx.coop.BlockReduce[fx.Int32, {block}, fx.coop.BlockReduceAlgorithm.{algorithm}]
    space = fx.SharedAllocator().allocate(Reduce.SharedStorage)
    once = Reduce(X[t], fx.ReductionOp.{op}, storage=space)
    Y[t] = once + Reduce(X[t] * 2, fx.ReductionOp.{op}, storage=space)
    """
    total = OPS[op].reduce(x) + OPS[op].reduce(x * 2)
    np.testing.assert_array_equal(run(body, x=x, block=block), np.full(block, total))


@pytest.mark.parametrize("block", [64, 160, 256])
def test_block_scan(run: Any, block: int) -> None:
    x = _values(block)
    body = f"""
    Scan = fx.coop.BlockScan[fx.Int32, {block}]
    space = fx.SharedAllocator().allocate(Scan.SharedStorage)
    i, s = Scan.inclusive_with_aggregate(X[t], fx.ReductionOp.ADD, storage=space)
    e, a = Scan.exclusive_with_aggregate(X[t], fx.ReductionOp.MAX, storage=space, init=-9)
    Y[t] = i * 10000 + e * 100 + a + s - {x.sum()}
    """
    before = np.maximum.accumulate(np.insert(x, 0, -9))[:-1]
    expected = np.cumsum(x) * 10000 + before * 100 + x.max()
    np.testing.assert_array_equal(run(body, x=x, block=block), expected)


@pytest.mark.parametrize(("dtype", "op", "first"), [
    ("Float8E4M3FN", "MIN", 448), ("Float8E4M3FN", "MAX", -448), ("Float8E4M3FNUZ", "MIN", 240),
    ("Float8E8M0FNU", "MIN", 2.0**127), ("Float8E8M0FNU", "MAX", 2.0**-127), ("Float16", "MAX", -np.inf),
])
def test_scans_of_floats_without_infinity(run: Any, dtype: str, op: str, first: float) -> None:
    """The identity of a minimum is the highest number there is: as an infinity it was NaN, and so was every lane."""
    body = f"""
    Scan = fx.coop.BlockScan[fx.{dtype}, 64]
    space = fx.SharedAllocator().allocate(Scan.SharedStorage)
    i, e = [s(X[t].to(fx.{dtype}), fx.ReductionOp.{op}, storage=space) for s in (Scan.inclusive, Scan.exclusive)]
    if n == 0:
        Y[t] = e.to(fx.Float32)
    else:
        Y[t] = i.to(fx.Float32)
    """
    x = (2.0 ** np.random.default_rng(1).integers(-3, 4, 64)).astype(np.float32)
    inclusive = OPS[op].accumulate(x)
    np.testing.assert_array_equal(run(body, x=x, n=1), inclusive)
    np.testing.assert_array_equal(run(body, x=x, n=0), np.insert(inclusive[:-1], 0, first))


@pytest.mark.parametrize(("op", "first"), [("MAX", 0), ("MIN", 1)])
def test_scans_of_booleans(run: Any, op: str, first: int) -> None:
    x = (np.arange(64) % WAVE % 5 == (3 if op == "MAX" else 0)).astype(np.int32)
    body = f"Y[t] = fx.coop.warp_exclusive_scan(X[t] != 0, fx.ReductionOp.{op}).to(fx.Int32)"
    rows = OPS[op].accumulate(x.reshape(-1, WAVE), axis=1)
    np.testing.assert_array_equal(run(body, x=x), np.insert(rows[:, :-1], 0, first, axis=1).reshape(-1))


def test_the_block_must_be_the_declared_one(run: Any) -> None:
    body = """
    Reduce = fx.coop.BlockReduce[fx.Int32, 128]
    Y[t] = Reduce(X[t], fx.ReductionOp.ADD, storage=fx.SharedAllocator().allocate(Reduce.SharedStorage))
    """
    with pytest.raises(ValueError, match="for 128 threads, the kernel's block has 64"):
        run(body, x=_values(64))
