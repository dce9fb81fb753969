"""A Python function whose times are known, to be tuned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.autotune import Autotuner, Config, autotune

Calls = list[tuple[Any, ...]]


def tuned(calls: Calls, **options: Any) -> Autotuner:
    """A tuned Python function; the time of a configuration is its tile, 13 fails."""

    def bench(call: Callable[[], Any], warmup: int, rep: int) -> float:
        call()
        return float(calls[-1][1])

    def add_one(x: Any, tile: int = 0, n: int = 1, num_warps: int = 0) -> str:
        calls.append(("run", tile, n, num_warps))
        if tile == 13:
            raise ValueError("unlucky tile")
        x += 1
        return f"tile {tile}"

    configs = options.pop("configs", [Config(tile=t) for t in (8, 2, 13, 4)])
    options.setdefault("do_bench", bench)
    return autotune(configs, **{"key": ["n"], **options})(add_one)
