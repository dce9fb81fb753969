"""The end of a row of attention, against float64."""

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.kernels.attention.row_sum import RowSum

ROWS, PARTS = 64, 3


@flyc.kernel
def end_rows(scores: fx.Tensor, shares: fx.Tensor, logs: fx.Tensor):
    """Thread (row): of its scores."""
    row = fx.thread_idx.x
    found = RowSum.of(RowSum.of_score(scores[row, i]) for i in range(PARTS))
    shares[row] = found.share(found.total * found.decay(0.0))  # of the whole relative to 1, and not of any base
    logs[row] = found.log


@flyc.jit
def launch(scores: fx.Tensor, shares: fx.Tensor, logs: fx.Tensor):
    end_rows(scores, shares, logs).launch(grid=1, block=ROWS)


def test_parts_of_a_row_are_its_sum():
    """Also where some of them, or all, see nothing, where they are far apart, and where one is NaN."""
    scores = np.random.default_rng(5).normal(0, 4, (ROWS, PARTS)).astype(np.float32)
    scores[:8, 0] = -np.inf
    scores[4:6] = -np.inf
    scores[8:12, 1] = 60
    scores[12] = np.finfo(np.float32).min  # to base 2 it is infinite
    scores[13:16, :2] = np.nan
    scores[13, 0], scores[14, 2] = 3, -np.inf
    shares, logs = (np.full(ROWS, 1e30, np.float32) for _ in range(2))
    launch(scores, shares, logs)
    with np.errstate(invalid="ignore"):
        expected = np.logaddexp.reduce(scores.astype(np.float64), axis=1)
    unseen, unknown = np.arange(ROWS) // 2 == 2, np.isnan(scores).any(1)
    seen = np.isfinite(expected)
    assert np.array_equal(seen, ~unseen & ~unknown)
    assert np.all(logs[unseen] == -np.inf) and np.all(shares[unseen] == 0)
    assert np.isnan(logs[unknown]).all() and np.isnan(shares[unknown]).all()
    np.testing.assert_allclose(logs[seen], expected[seen], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(shares[seen], np.exp(scores[seen].astype(np.float64).max(1)), rtol=1e-4)
