"""The host side of `flydsl.expr.ktrace`: the trace buffer of a process, capture windows, reading and exporting.

One buffer serves the process. A kernel that was compiled with tracing on finds its address in a variable of its code
object, which is set when the module is loaded; the buffer's first word says whether events are recorded now.
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flydsl.runtime.forking import fork_safe_lock
from flydsl.tracing.context import CompilationContext
from flydsl.utils import env

from .device import BUFFER, EVENTS, SLOT, WAVE_BYTES, block_filter
from .perfetto import write
from .waves import Event, Wave, spans

__all__ = ["Capture", "Event", "Wave", "attach", "event_id", "recorder"]

TICK_NS = 10
#: Kinds of events, as they stand in a record.
MARK, PUSH, POP, START, STOP = 1, 2, 3, 4, 5
_KINDS = {MARK: "mark", PUSH: "push", POP: "pop", START: "start", STOP: "stop"}
#: Encodings of payloads.
ENCODINGS = {"uint64": 1, "int64": 2, "float32": 3, "float64": 4, "bool": 5}
_MAX_PARTITIONS, _WAVES_PER_PARTITION = 256, 96
_names: dict[int, str] = {}


def event_id(name: str) -> int:
    """The number of a name in records. ValueError if another name of this process has it."""
    number = zlib.crc32(name.encode())
    known = _names.setdefault(number, name)
    if known != name:
        raise ValueError(f"the event names {known!r} and {name!r} have the same id; rename one")
    return number


class Recorder:
    """The trace buffer of the process."""

    def __init__(self) -> None:
        self.address = 0
        self.size = self.partitions = self.waves = 0
        self.window: Any = None
        self._lock = fork_safe_lock()

    def allocate(self) -> int:
        """Make the buffer once, as large as ``FLYDSL_KTRACE_BUFFER_BYTES`` says; its address."""
        import flydsl.runtime as rt

        with self._lock:
            if not self.address:
                self.size = env.ktrace.buffer_bytes
                total = max(0, self.size - 512) // WAVE_BYTES
                self.partitions = max(1, min(_MAX_PARTITIONS, total // _WAVES_PER_PARTITION))
                self.waves = max(0, self.size - self._data()) // (self.partitions * WAVE_BYTES)
                self.address = rt.malloc(self.size)
                self._reset()
        return self.address

    def _data(self) -> int:
        """Offset of the first wave."""
        return 8 * SLOT * (self.partitions + 1)

    def _reset(self) -> None:
        import flydsl.runtime as rt

        head = bytearray(self._data() if self._data() <= self.size else SLOT)
        struct.pack_into("<IIII", head, 0, int(self.recording()), 0, self.partitions, self.waves)
        raw = (ctypes.c_uint8 * len(head)).from_buffer(head)
        rt.memcpy(self.address, ctypes.addressof(raw), len(head))

    def recording(self) -> bool:
        """Whether instrumented kernels record now."""
        return self.window is not None or env.ktrace.enable

    def clear(self) -> None:
        """Forget all records, and start or stop recording as the window and the settings say now."""
        import flydsl.runtime as rt

        if self.address:
            rt.synchronize()
            self._reset()

    def read(self) -> list[Wave]:
        """The recorded waves in the order of their start.

        RuntimeError if something did not fit: waves in the buffer, or events of a wave.
        """
        import flydsl.runtime as rt

        if not self.address:
            return []
        rt.synchronize()
        head = self._copy(0, self._data())
        counts = [struct.unpack_from("<I", head, 8 * SLOT * (p + 1))[0] for p in range(self.partitions)]
        lost = sum(max(0, n - self.waves) for n in counts)
        if lost:
            raise RuntimeError(
                f"the ktrace buffer is full: {lost} of {sum(counts)} waves were not recorded; set "
                f"FLYDSL_KTRACE_BUFFER_BYTES above {self.size}, or record fewer blocks (FLYDSL_KTRACE_BLOCKS)"
            )
        waves = []
        for p, count in enumerate(counts):
            if count:
                raw = self._copy(self._data() + p * self.waves * WAVE_BYTES, count * WAVE_BYTES)
                waves += [_wave(raw[n * WAVE_BYTES : (n + 1) * WAVE_BYTES]) for n in range(count)]
        waves.sort(key=lambda w: (w.time_ns, w.workgroup, w.wave))
        _number_launches(waves)
        return waves

    def _copy(self, offset: int, size: int) -> bytes:
        import flydsl.runtime as rt

        raw = (ctypes.c_uint8 * size)()
        rt.memcpy(ctypes.addressof(raw), self.address + offset, size)
        return bytes(raw)


recorder = Recorder()


def _payload(encoding: int, bits: int) -> int | float | bool | None:
    raw = bits.to_bytes(8, "little")
    if encoding == ENCODINGS["uint64"]:
        return bits
    if encoding == ENCODINGS["int64"]:
        return int(struct.unpack("<q", raw)[0])
    if encoding == ENCODINGS["float32"]:
        return float(struct.unpack("<f", raw[:4])[0])
    if encoding == ENCODINGS["float64"]:
        return float(struct.unpack("<d", raw)[0])
    return bool(bits) if encoding == ENCODINGS["bool"] else None


def _wave(raw: bytes) -> Wave:
    ticks, count, kernel, x, yz, where, shape = struct.unpack_from("<QIIIIII", raw, 0)
    if count > EVENTS:
        raise RuntimeError(f"work-group ({x},{yz & 0xFFFF},{yz >> 16}) wave {shape & 63} has {count} events; a wave "
                           f"holds {EVENTS}: record fewer")
    wave = Wave(_names.get(kernel, f"{kernel:#x}"), (x, yz & 0xFFFF, yz >> 16), shape & 63, shape >> 6,
                (where >> 16, where & 0xFFFF), ticks * TICK_NS)
    for n in range(1, count + 1):
        time, name, kind, bits, token, _ = struct.unpack_from("<QIIQII", raw, n * SLOT)
        label = _names.get(name, f"{name:#x}") if name else ""
        if kind & 255 == START:
            token = n  # what the device function returned
        wave.events.append(Event(label, _KINDS[kind & 255], time * TICK_NS, _payload(kind >> 8, bits), token))
    return wave


def _number_launches(waves: list[Wave]) -> None:
    """A wave of a work-group comes once in a launch; the n-th time it is the n-th launch with that grid."""
    seen: dict[Any, int] = {}
    found: dict[Any, list[Wave]] = {}
    for wave in waves:
        key = (wave.kernel, wave.groups, wave.workgroup, wave.wave)
        turn = seen[key] = seen.get(key, -1) + 1
        found.setdefault((wave.kernel, wave.groups, turn), []).append(wave)
    order = sorted(found.values(), key=lambda group: min(w.time_ns for w in group))
    for number, group in enumerate(order):
        for wave in group:
            wave.launch = number


def attach(module: int) -> None:
    """Tell a loaded module where the trace buffer is; called by the runtime after it has loaded the module."""
    import flydsl.runtime as rt

    library = ctypes.CDLL(str(rt.library_path()))
    place, size = ctypes.c_void_p(), ctypes.c_size_t()
    handle = ctypes.c_void_p(module)
    status = library.hipModuleGetGlobal(ctypes.byref(place), ctypes.byref(size), handle, BUFFER.encode())
    if status:
        raise RuntimeError(f"the module has no {BUFFER} (HIP error {status})")
    address = ctypes.c_uint64(recorder.allocate())
    assert place.value is not None
    rt.memcpy(place.value, ctypes.addressof(address), 8)


def summarise(waves: Iterable[Wave]) -> dict[str, Any]:
    """``{"waves", "records", "phases": {name: {"count", "total_ns"}}}``; a mark is a phase of no length."""
    phases: dict[str, dict[str, int]] = {}
    number = records = 0
    for wave in waves:
        number += 1
        records += len(wave.events)
        for name, start, end, _ in spans(wave):
            entry = phases.setdefault(name, {"count": 0, "total_ns": 0})
            entry["count"] += 1
            entry["total_ns"] += end - start
    return {"waves": number, "records": records, "phases": phases}


class Capture:
    """A window in which kernels are compiled with tracing and record events.

    ``kernel`` names the output file. ``blocks`` limits recording to a work-group ``x,y,z`` or die ``xcc:N``.
    RuntimeError for a window inside another. What was recorded stays readable after the window.
    """

    def __init__(self, kernel: str = "kernel", *, blocks: str | None = None, out_dir: Any = None) -> None:
        self.kernel, self.out_dir = kernel, out_dir
        self.blocks = env.ktrace.blocks if blocks is None else ",".join(map(str, blocks)) if isinstance(
            blocks, (tuple, list)) else str(blocks)
        block_filter(self.blocks)
        self._waves: list[Wave] | None = None
        self._hints: Any = None

    def __enter__(self) -> Capture:
        if recorder.window is not None:
            raise RuntimeError("a ktrace capture is running already; captures do not nest")
        recorder.window = self
        recorder.clear()
        hints = {"ktrace": True, **({"ktrace_blocks": self.blocks} if self.blocks else {})}
        self._hints = CompilationContext.compile_hints(hints)
        self._hints.__enter__()
        return self

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> None:
        self._hints.__exit__(kind, value, traceback)
        try:
            if kind is None:
                self._waves = recorder.read()
        finally:
            recorder.window = None
            recorder.clear()

    def clear(self) -> None:
        """Forget what was recorded so far."""
        if recorder.window is self:
            recorder.clear()
        self._waves = None

    def read(self) -> list[Wave]:
        """The recorded waves. RuntimeError if the buffer or a wave's slots were too small."""
        if recorder.window is self:
            return recorder.read()
        return self._waves or []

    def summary(self) -> dict[str, Any]:
        """Totals: ``{"waves", "records", "phases": {name: {"count", "total_ns"}}}``."""
        return summarise(self.read())

    def launches(self) -> list[list[Wave]]:
        """The waves of each launch, in order."""
        found: dict[int, list[Wave]] = {}
        for wave in self.read():
            found.setdefault(wave.launch, []).append(wave)
        return [found[number] for number in sorted(found)]

    def export(self) -> Path:
        """Write ``<kernel>_ktrace.pftrace.gz`` for https://ui.perfetto.dev; the path."""

        return write(self.read(), self.kernel, self._folder())

    def export_launches(self, names: list[str] | None = None) -> list[Path]:
        """A file for each launch, named by ``names`` (default: ``<kernel>_<n>``). ValueError for another number."""

        launches = self.launches()
        chosen = [f"{self.kernel}_{n}" for n in range(len(launches))] if names is None else list(names)
        if len(chosen) != len(launches):
            raise ValueError(f"{len(chosen)} names for {len(launches)} launches")
        return [write(waves, name, self._folder()) for waves, name in zip(launches, chosen, strict=True)]

    def _folder(self) -> Path:
        return Path(self.out_dir or env.ktrace.dump_dir or ".")
