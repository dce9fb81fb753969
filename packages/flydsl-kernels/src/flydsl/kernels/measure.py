"""Times of calls, by the names that benchmark scripts use (torch tensors).

On a GPU they are those of HIP events; on the simulator estimates of its timing model, which has no noise, so that one
call is simulated whatever number is asked for.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import torch

from flydsl.runtime import synchronize
from flydsl.runtime.timing import default_timer

from .host.arrays import device_type

__all__ = ["bench_gpu_us_torch", "bench_kernel_us", "perftest", "run_perftest"]

MANY = 30  # times above which outliers are left out
LEAST_FLUSH = 8 << 20  # bytes


def _usual(times: list[float]) -> list[float]:
    """Times without outliers: those within 1.5 interquartile ranges of the middle half."""
    low, _, high = statistics.quantiles(times, n=4)
    reach = 1.5 * (high - low)
    return [t for t in times if low - reach <= t <= high + reach]


def _check_counts(where: str, counted: str, number: int, **others: int) -> None:
    if number < 1:
        raise ValueError(f"{where}: {counted} must be positive, got {number}")
    for name, other in others.items():
        if other < 0:
            raise ValueError(f"{where}: {name} must not be negative, got {other}")


def _stream() -> int:
    """Where torch puts work; 0 without a GPU."""
    return int(torch.cuda.current_stream().cuda_stream) if torch.cuda.is_available() else 0


def _copies(args: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    return [tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in args) for _ in range(count)]


def _cache_bytes() -> int:
    """Of the device's second cache; 0 where torch has no device."""
    return int(torch.cuda.get_device_properties(0).L2_cache_size) if torch.cuda.is_available() else 0


def _rotations(args: tuple[Any, ...], num_iters: int) -> int:
    """Copies of the arguments that together do not fit in the caches, in at most half of the free memory."""
    size = sum(a.numel() * a.element_size() for a in args if isinstance(a, torch.Tensor))
    if not size or not torch.cuda.is_available():
        return 1
    fitting = int(torch.cuda.mem_get_info()[0] // 2 // size)
    return max(1, min(num_iters, fitting, 1 + 4 * _cache_bytes() // size))


def run_perftest(fn: Callable[..., Any], *args: Any, num_iters: int = 20, num_warmup: int = 3,
                 testGraph: bool = False, num_rotate_args: int = 0, **kwargs: Any) -> tuple[Any, float]:
    """``(fn(*args, **kwargs), mean microseconds)`` over rotated copies of the tensors.

    Args:
        num_rotate_args: copies; 0: so many that they do not stay in the caches.
        testGraph: replay a graph of the call.

    Raises:
        ValueError: `num_iters` is not positive, or another number is negative.
    """
    _check_counts("run_perftest", "num_iters", num_iters, num_warmup=num_warmup, num_rotate_args=num_rotate_args)
    timer = default_timer()
    sets = _copies(args, num_rotate_args or _rotations(args, num_iters))
    turn = 0

    def call() -> Any:
        nonlocal turn
        turn += 1
        return fn(*sets[turn % len(sets)], **kwargs)

    for _ in range(min(num_warmup, 1) if timer.estimate else num_warmup):
        call()
    out = fn(*args, **kwargs)
    synchronize()
    timed = _graph_of(call) if testGraph else call
    # The first one is dropped: it comes with what the call before has left.
    times = timer.measure(timed, num_iters + 1, _stream())[1:]
    return out, statistics.fmean(_usual(times) if len(times) > MANY else times) * 1e3


def _graph_of(call: Callable[[], Any]) -> Callable[[], Any]:
    if not torch.cuda.is_available():
        raise ValueError("run_perftest: testGraph needs torch with a GPU")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def perftest(num_iters: int = 20, num_warmup: int = 3, testGraph: bool = False,
             num_rotate_args: int = 0) -> Callable[[Callable[..., Any]], Callable[..., tuple[Any, float]]]:
    """Decorator: a call gives what :func:`run_perftest` of the function gives."""

    def decorate(fn: Callable[..., Any]) -> Callable[..., tuple[Any, float]]:
        @functools.wraps(fn)
        def measured(*args: Any, **kwargs: Any) -> tuple[Any, float]:
            return run_perftest(fn, *args, num_iters=num_iters, num_warmup=num_warmup, testGraph=testGraph,
                                num_rotate_args=num_rotate_args, **kwargs)

        return measured

    return decorate


def bench_gpu_us_torch(fn: Callable[[], Any], *, warmup: int = 20, iters: int = 200) -> float:
    """Mean microseconds of `iters` calls that follow each other. ValueError for numbers that are none."""
    _check_counts("bench_gpu_us_torch", "iters", iters, warmup=warmup)
    timer = default_timer()
    for _ in range(0 if timer.estimate else warmup):
        fn()

    def calls() -> None:
        for _ in range(1 if timer.estimate else iters):
            fn()

    return timer.measure(calls, 1, _stream())[0] / (1 if timer.estimate else iters) * 1e3


def bench_kernel_us(run: Callable[[], Any], warmup: int = 10, iters: int = 50, flush_l2: bool = True,
                    prep_fn: Callable[[], Any] | None = None) -> float:
    """Median microseconds of a call, without outliers.

    Args:
        flush_l2: fill twice the size of the second cache (at least 8 MiB) before each call.
        prep_fn: what else to call before each one; not timed.

    Raises:
        ValueError: `iters` is not positive, or `warmup` negative.
    """
    _check_counts("bench_kernel_us", "iters", iters, warmup=warmup)
    timer = default_timer()
    cold = torch.empty(max(2 * _cache_bytes(), LEAST_FLUSH), dtype=torch.uint8, device=device_type())
    times = []
    for turn in range(1 if timer.estimate else warmup + iters):
        if prep_fn is not None:
            prep_fn()
        if flush_l2 and not timer.estimate:  # an estimate begins with cold caches
            cold.zero_()
        taken = timer.measure(run, 1, _stream())
        if timer.estimate or turn >= warmup:
            times += taken
    return statistics.median(_usual(times) if len(times) > 1 else times) * 1e3
