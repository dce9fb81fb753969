"""Traces of kernels as Perfetto files: kernel, launch, compute unit, work-group and wave tracks.

The format is a gzip-compressed protobuf ``Trace`` (perfetto/trace/trace.proto); only the few message fields that are
used here are encoded.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .waves import Wave, spans

__all__ = ["encode", "write"]

# Field numbers of perfetto's messages.
_PACKET = 1
_TIMESTAMP, _SEQUENCE, _EVENT, _DESCRIPTOR = 8, 10, 11, 60
_UUID, _NAME, _PARENT = 1, 2, 5
_EVENT_ANNOTATION, _EVENT_TYPE, _EVENT_TRACK, _EVENT_NAME = 4, 9, 11, 23
_ANNOTATION_BOOL, _ANNOTATION_UINT, _ANNOTATION_INT, _ANNOTATION_DOUBLE, _ANNOTATION_NAME = 2, 3, 4, 5, 10
_BEGIN, _END, _INSTANT = 1, 2, 3


def _varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, data: bytes | str) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def _annotation(payload: Any) -> bytes:
    if payload is None:
        return b""
    if isinstance(payload, bool):
        value = _number(_ANNOTATION_BOOL, payload)
    elif isinstance(payload, float):
        value = _varint(_ANNOTATION_DOUBLE << 3 | 1) + struct.pack("<d", payload)
    else:
        value = _number(_ANNOTATION_INT if payload < 0 else _ANNOTATION_UINT, payload)
    return _bytes(_EVENT_ANNOTATION, _bytes(_ANNOTATION_NAME, "payload") + value)


def encode(waves: Iterable[Wave]) -> bytes:
    """The uncompressed trace."""
    tracks: dict[tuple[Any, ...], int] = {}
    packets: list[bytes] = []

    def track(path: tuple[str, ...]) -> int:
        if path not in tracks:
            parent = track(path[:-1]) if len(path) > 1 else 0
            tracks[path] = len(tracks) + 1
            body = _number(_UUID, tracks[path]) + _bytes(_NAME, path[-1])
            packets.append(_bytes(_DESCRIPTOR, body + (_number(_PARENT, parent) if parent else b"")))
        return tracks[path]

    def event(time: int, kind: int, where: int, name: str = "", payload: Any = None) -> None:
        body = _number(_EVENT_TYPE, kind) + _number(_EVENT_TRACK, where)
        if name:
            body += _bytes(_EVENT_NAME, name) + _annotation(payload)
        packets.append(_number(_TIMESTAMP, time) + _number(_SEQUENCE, 1) + _bytes(_EVENT, body))

    for wave in waves:
        xcc, unit = wave.unit
        path = (wave.kernel, f"launch {wave.launch}", f"XCC {xcc} SE {unit >> 13 & 7} CU {unit >> 8 & 15}",
                "work-group ({},{},{})".format(*wave.workgroup), f"wave {wave.wave}")
        place = track(path)
        for name, start, end, opened in spans(wave):
            # Ranges that need not nest have a track each.
            here = track((*path, f"{name} {opened.token}")) if opened.kind == "start" else place
            if opened.kind == "mark":
                event(start, _INSTANT, here, name, opened.payload)
            else:
                event(start, _BEGIN, here, name, opened.payload)
                event(end, _END, here)
    return b"".join(_bytes(_PACKET, packet) for packet in packets)


def write(waves: Iterable[Wave], kernel: str, folder: Path) -> Path:
    """Write ``<kernel>_ktrace.pftrace.gz`` into a folder, with a number if that exists; the path. OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    data = gzip.compress(encode(waves), mtime=0)
    number = 0
    while True:
        path = folder / f"{kernel}_ktrace{f'_{number}' if number else ''}.pftrace.gz"
        try:
            with open(path, "xb") as file:
                file.write(data)
            return path
        except FileExistsError:
            number += 1
