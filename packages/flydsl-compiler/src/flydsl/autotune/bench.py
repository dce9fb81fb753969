"""Timing of a call on the device, and the state of tensors around it."""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

__all__ = ["copy_of", "do_bench", "fill_zero", "on_stream", "restore", "stream_handle"]

_BATCHES = 5


def do_bench(
    fn: Callable[[], Any],
    warmup: int = 5,
    rep: int = 25,
    quantiles: Sequence[float] | None = None,
    *,
    stream: Any = None,
    timer: Any = None,
) -> Any:
    """Time of a call in milliseconds, as the device sees it.

    ``warmup`` calls are not timed; ``rep`` are, in up to five batches whose means give the median (or the
    ``quantiles``, as a list). On the simulator the time is the estimate of its timing model, which has no noise:
    one call is timed, after the first of the warm-up calls.

    Args:
        stream: where ``fn`` puts its work: a handle, an object with ``cuda_stream``, None for the default.
        timer: a `flydsl.runtime.timing.Timer`; default: that of the device.

    Raises:
        ValueError: ``warmup`` is negative, ``rep`` is not positive, or a quantile is outside [0, 1].
    """
    from flydsl.runtime import synchronize
    from flydsl.runtime.timing import default_timer

    if not isinstance(warmup, int) or warmup < 0:
        raise ValueError(f"warmup must be a non-negative int, got {warmup!r}")
    if not isinstance(rep, int) or rep <= 0:
        raise ValueError(f"rep must be a positive int, got {rep!r}")
    if quantiles is not None and not all(0 <= q <= 1 for q in quantiles):
        raise ValueError(f"quantiles must be within [0, 1], got {list(quantiles)!r}")
    timer = default_timer() if timer is None else timer
    for _ in range(min(warmup, 1) if timer.estimate else warmup):
        fn()
    synchronize()
    if timer.estimate:
        times = timer.measure(fn, 1, stream_handle(stream))
    else:
        times = _batches(timer, fn, rep, stream_handle(stream))
    if quantiles is None:
        return statistics.median(times)
    return [_quantile(sorted(times), q) for q in quantiles]


def _batches(timer: Any, fn: Callable[[], Any], rep: int, stream: int) -> list[float]:
    """Mean time of each batch: events cannot resolve what the host adds between two launches of one."""
    count = min(_BATCHES, rep)
    sizes = [rep // count + (i < rep % count) for i in range(count)]
    return [statistics.fmean(timer.measure(fn, size, stream)) for size in sizes]


def _quantile(ordered: list[float], q: float) -> float:
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def stream_handle(stream: Any) -> int:
    """The handle of a stream argument; 0 for None."""
    value = getattr(stream, "cuda_stream", stream)
    value = getattr(value, "value", value)
    return int(value or 0)


@contextlib.contextmanager
def on_stream(stream: Any) -> Iterator[None]:
    """Make torch's work in the block (copies, fills) go to the stream of the call."""
    torch = sys.modules.get("torch")
    if torch is None or stream is None or not torch.cuda.is_available():
        yield
        return
    handle = stream_handle(stream)
    native = stream if isinstance(stream, torch.cuda.Stream) else torch.cuda.ExternalStream(handle)
    with torch.cuda.stream(native) if handle else torch.cuda.stream(torch.cuda.default_stream()):
        yield


def _tensor(value: Any) -> Any:
    return getattr(value, "tensor", value)


def copy_of(value: Any) -> Any:
    """A copy of a tensor argument's content. TypeError for something that cannot be copied."""
    tensor = _tensor(value)
    for method in ("clone", "copy"):
        if hasattr(tensor, method):
            return getattr(tensor, method)()
    raise TypeError(f"cannot snapshot a {type(tensor).__name__}: it has neither clone() nor copy()")


def restore(value: Any, copy: Any) -> None:
    """Write a copy's content back."""
    tensor = _tensor(value)
    if hasattr(tensor, "copy_"):
        tensor.copy_(copy)
    else:
        tensor[...] = copy


def fill_zero(value: Any) -> None:
    """Set a tensor argument to zero."""
    tensor = _tensor(value)
    if hasattr(tensor, "zero_"):
        tensor.zero_()
    else:
        tensor[...] = 0
