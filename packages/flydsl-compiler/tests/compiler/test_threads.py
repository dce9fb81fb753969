"""Several threads that decorate functions at once."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import flydsl.compiler as flyc

LINES = "".join(f"    x{i} = (a - 1) * [a, (a, {{'k': {i}}})][0] if a > {i} else print(a, k={i})\n" for i in range(60))


@pytest.fixture
def threads_change_in_collections() -> Iterator[None]:
    """Garbage is collected often, and each collection calls Python, where another thread may go on."""

    def give_way(phase: str, info: dict[str, int]) -> None:
        time.sleep(0)

    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.callbacks.append(give_way)
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    yield
    gc.callbacks.remove(give_way)
    gc.set_threshold(*threshold)
    sys.setswitchinterval(interval)


def test_functions_are_decorated_at_once(load: Any, threads_change_in_collections: None) -> None:
    function = load(f"def f(a):\n{LINES}").f
    errors: list[BaseException] = []

    def deeper(levels: int, call: Callable[[], Any]) -> Any:
        return deeper(levels - 1, call) if levels else call()

    def work() -> None:
        try:
            for depth in range(12):
                deeper(depth, lambda: flyc.jit(function))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
