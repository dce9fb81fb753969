"""Threads that compile and launch at the same time, some on streams of their own."""

import importlib
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import flydsl.runtime as rt

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield importlib.import_module("01_vector_add"), importlib.import_module("06_block_reduction")
    for name in ("01_vector_add", "06_block_reduction", "_common", "_hip"):
        sys.modules.pop(name, None)


def test_threads_compile_and_launch_together(examples, tmp_path, monkeypatch):
    monkeypatch.setenv("FLYDSL_RUNTIME_CACHE_DIR", str(tmp_path))  # nothing is compiled yet
    add, reduce_rows = examples[0].add, examples[1].reduce_rows
    failures, start = [], threading.Barrier(8)

    def work(number):
        try:
            stream = rt.Stream() if number % 2 else None
            on = {"stream": stream} if stream else {}
            start.wait()
            for step in range(5):
                rows, cols = 3 + number, 4 * (5 + step + number)
                random = np.random.default_rng(100 * number + step)
                a, b = (random.standard_normal((rows, cols)).astype(np.float32) for _ in range(2))
                c, total, largest = np.full_like(a, np.nan), *np.full((2, rows), np.nan, np.float32)
                add(a, b, c, rows, cols, **on)
                reduce_rows(a, total, largest, rows, cols, **on)
                stream.synchronize() if stream else rt.synchronize()
                np.testing.assert_array_equal(c, a + b)
                np.testing.assert_array_equal(largest, a.max(1))
                np.testing.assert_allclose(total, a.sum(1, dtype=np.float64), atol=1e-4)
        except BaseException as error:
            failures.append(f"thread {number}: {error!r}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, "\n".join(failures)
