"""In-kernel event tracing: marks and ranges on a per-wave timeline, with a clock of 10 ns.

    with fx.ktrace.capture("gemm") as trace:
        gemm(a, b, c)
    print(trace.summary())
    trace.export()          # gemm_ktrace.pftrace.gz, for https://ui.perfetto.dev

In the kernel, ``fx.ktrace.mark("tile", k)`` is an event and ``with fx.ktrace.range("load"):`` a range. Without tracing
they do nothing, so they can stay. Only kernels that are compiled inside a capture (or with FLYDSL_KTRACE_ENABLE=1)
record; each wave holds 255 events, the first active lane's payload is recorded, and an event costs an atomic
operation on memory. gfx942 and gfx950.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from flydsl.tracing.lazy import LazyModule
from flydsl.tracing.locations import dsl_loc_tracing

from .numeric import Boolean, Float, Int32, Integer

_capture = LazyModule("flydsl.marks.capture")
_device = LazyModule("flydsl.marks.device")

__all__ = [
    "Capture",  # noqa: F822 - of the module that reads traces, imported when asked for
    "RangeToken", "capture", "collect", "inactive_token", "mark", "range", "range_pop", "range_push",
    "range_start", "range_stop", "summary", "tracing_enabled",
]


class RangeToken(Int32):
    """A running range; a DSL value that loops and branches may carry. 0 when tracing is off."""


def _check(name: Any, payload: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"an event name must be a non-empty str, got {name!r}")
    numbers = (bool, int, float, Boolean, Integer, Float)
    if payload is not None and not isinstance(payload, numbers) and not _scalar(payload):
        raise TypeError(f"a payload is one integer, bool or float, got {type(payload).__name__}")
    if getattr(payload, "width", 0) > 64 or (isinstance(payload, int) and not -(2**63) <= payload < 2**64):
        raise ValueError("a payload has at most 64 bits")


def _scalar(value: Any) -> bool:
    """Whether a value of the IR (a loop counter, for one) is one number."""
    from flydsl._mlir import ir

    return isinstance(value, ir.Value) and isinstance(value.type, (ir.IntegerType, ir.IndexType, ir.FloatType))


def tracing_enabled() -> bool:
    """Whether kernels compiled now would record events (inside a capture, or ``FLYDSL_KTRACE_ENABLE``)."""
    from flydsl.tracing.context import CompilationContext
    from flydsl.utils import env

    return bool(CompilationContext.get_compile_hints().get("ktrace") or env.ktrace.enable)


def begin_kernel(context: Any, symbol: str) -> Any:
    """Emit what a traced kernel starts with; the wave's place in the trace buffer. For the compiler.

    NotImplementedError on an architecture without this clock.
    """
    from ._target import target_arch
    from .extern import ffi

    arch = target_arch()
    if not arch.startswith(_device.ARCHITECTURES):
        raise NotImplementedError(f"fx.ktrace records on {' and '.join(_device.ARCHITECTURES)}, not on {arch}")
    if _capture.attach not in context.post_load_processors:
        context.post_load_processors.append(_capture.attach)
    return ffi(_device.BEGIN, ["uint32"], "uint64")(_capture.event_id(symbol))


def _encode(payload: Any) -> tuple[int, Any]:
    """(encoding, 64 bits) of a payload."""
    import struct

    from flydsl._mlir import ir

    from . import _emit
    from .utils.convert import as_ir_value

    codes = _capture.ENCODINGS
    if payload is None:
        return 0, 0
    static = getattr(payload, "value", payload)
    if isinstance(static, bool):
        return codes["bool"], int(static)
    if isinstance(static, int):
        return codes["int64" if static < 0 else "uint64"], static
    if isinstance(static, float):
        return codes["float64"], struct.unpack("<q", struct.pack("<d", static))[0]
    raw, i64 = as_ir_value(payload), ir.IntegerType.get_signless(64)
    if isinstance(raw.type, ir.IndexType):
        return codes["uint64"], ir.Operation.create("arith.index_castui", results=[i64], operands=[raw]).result
    if isinstance(payload, Boolean) or raw.type == ir.IntegerType.get_signless(1):
        return codes["bool"], _emit.int_resize(raw, i64, False)
    if isinstance(raw.type, ir.IntegerType):
        signed = bool(getattr(type(payload), "signed", True))
        return codes["int64" if signed else "uint64"], _emit.int_resize(raw, i64, signed)
    wide = raw.type == ir.F64Type.get()
    if not wide and raw.type != ir.F32Type.get():
        raw = _emit.float_to_float(raw, ir.F32Type.get())
    integer = ir.IntegerType.get_signless(64 if wide else 32)
    bits = ir.Operation.create("arith.bitcast", results=[integer], operands=[raw]).result
    return codes["float64" if wide else "float32"], bits if wide else _emit.int_resize(bits, i64, False)


def _record(kind: int, name: str, payload: Any = None, token: Any = 0) -> Any:
    """Emit one event; the wave's number of it, or 0 with tracing off."""
    from flydsl.tracing.ambient import kernel_scope

    from .extern import ffi

    place = (kernel_scope() or {}).get("ktrace")
    if place is None:
        return 0
    encoding, bits = _encode(payload)
    event = ffi(_device.EVENT, ["uint64", "uint32", "uint32", "uint64", "uint32"], "uint32")
    return event(place, _capture.event_id(name) if name else 0, kind | encoding << 8, bits, token)


@dsl_loc_tracing
def mark(name: str, payload: Any = None) -> None:
    """An event at this point."""
    _check(name, payload)
    _record(_capture.MARK, name, payload)


@dsl_loc_tracing
def range_push(name: str, payload: Any = None) -> None:
    """Open a nested range."""
    _check(name, payload)
    _record(_capture.PUSH, name, payload)


@dsl_loc_tracing
def range_pop() -> None:
    """Close the innermost range."""
    _record(_capture.POP, "")


@contextlib.contextmanager
def range(name: str, payload: Any = None) -> Iterator[None]:  # noqa: A001 - the published name
    """A range around a block."""
    range_push(name, payload)
    yield
    range_pop()


@dsl_loc_tracing
def range_start(name: str, payload: Any = None) -> RangeToken:
    """Open a range that `range_stop` closes, not necessarily nested."""
    _check(name, payload)
    return RangeToken(_record(_capture.START, name, payload))


@dsl_loc_tracing
def range_stop(token: Any, payload: Any = None) -> None:
    """Close the range of `token`."""
    if not isinstance(token, Int32):
        raise TypeError(f"range_stop takes the token of range_start, got {type(token).__name__}")
    _check("range", payload)
    _record(_capture.STOP, "", payload, token)


@dsl_loc_tracing
def inactive_token(name: str) -> RangeToken:
    """A token that closes nothing."""
    _check(name, None)
    return RangeToken(0)


def capture(kernel: str = "kernel", *, blocks: Any = None, out_dir: Any = None) -> Any:
    """A window (context manager) in which kernels are compiled with tracing and record.

    Args:
        kernel: names the output file. blocks: only the work-group ``x,y,z`` (``*`` for any) or the die ``xcc:N``.
        out_dir: folder of exported files (default: ``FLYDSL_KTRACE_DUMP_DIR``, then the current one).

    The object has ``clear()``, ``read()``, ``summary()``, ``launches()``, ``export()`` and ``export_launches(names)``.
    RuntimeError for a window inside another; ValueError for a filter of another form.
    """
    return _capture.Capture(kernel, blocks=blocks, out_dir=out_dir)


def collect(kernel: str, out_dir: Any = None) -> Any:
    """Write what the process recorded with ``FLYDSL_KTRACE_ENABLE=1`` as a Perfetto file; the path."""
    from flydsl.marks.perfetto import write

    return write(_capture.recorder.read(), kernel, _capture.Capture(kernel, out_dir=out_dir)._folder())


def summary() -> dict[str, Any]:
    """Totals of what the process recorded: ``{"waves", "records", "phases": {name: {"count", "total_ns"}}}``."""
    found: dict[str, Any] = _capture.summarise(_capture.recorder.read())
    return found


def __getattr__(name: str) -> Any:
    if name == "Capture":
        return _capture.Capture
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
