"""The arguments of a launch, read back from its kernel-argument segment with the launch plan that filled it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

#: Element types of plans that NumPy has; the others are shown as unsigned integers of their size.
_NUMPY = {"f16": "f2", "f32": "f4", "f64": "f8", "i1": "u1", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
          "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "si8": "i1", "si16": "i2", "si32": "i4", "si64": "i8",
          "ui8": "u1", "ui16": "u2", "ui32": "u4", "ui64": "u8", "bool": "u1"}


def _integer(segment: bytes, place: tuple[int, int]) -> int:
    offset, size = place
    return int.from_bytes(segment[offset : offset + size], "little", signed=True)


def _tensor(entry: dict[str, Any], segment: bytes, places: dict[tuple[str, int], tuple[int, int]]) -> Any:
    import numpy as np

    address = _integer(segment, places["ptr", 0]) & (2**64 - 1)

    def extents(what: str, key: str) -> list[int]:
        """The fixed extents and those that the kernel gets; -1 stands for one that it does not get."""
        return [fixed if fixed is not None else _integer(segment, places[key, axis]) if (key, axis) in places else -1
                for axis, fixed in enumerate(entry[what])]

    shape, strides = extents("shape", "shape"), extents("strides", "stride")
    unknown = [axis for axis, fixed in enumerate(entry["strides"]) if fixed is None and ("stride", axis) not in places]
    if -1 in shape or unknown:
        raise KeyError(f"{entry['name']}: the kernel does not get its shape {shape} and strides {strides}, so "
                       "its extent is not known here")
    name = entry["dtype"]
    if name == "bf16":
        code, bytes_ = "u2", 2
    elif name in _NUMPY:
        code, bytes_ = _NUMPY[name], np.dtype(_NUMPY[name]).itemsize
    else:
        code, bytes_ = "u1", 1  # 8-bit floats and packed smaller formats: a byte for each
    if 0 in shape:
        return np.empty(shape, code)
    low = sum((n - 1) * s for n, s in zip(shape, strides, strict=True) if s < 0)
    span = 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides, strict=True))
    # Device memory of the simulator is host memory.
    raw = (ctypes.c_uint8 * (span * bytes_)).from_address(address + low * bytes_)
    flat = np.ctypeslib.as_array(raw).view(code)
    view = np.lib.stride_tricks.as_strided(flat[-low:], shape, [s * bytes_ for s in strides])
    if name == "bf16":
        return (view.astype(np.uint32) << 16).view(np.float32)
    return view.copy()


def _scalar(entry: dict[str, Any], segment: bytes, place: tuple[int, int]) -> Any:
    import numpy as np

    code = _NUMPY.get(entry.get("type", ""), f"u{place[1]}")
    return np.frombuffer(segment, code, 1, place[0])[0].item()


def readers(plan: dict[str, Any], kernel: str, segment: bytes) -> dict[str, Callable[[], Any]]:
    """For each named argument that reaches ``kernel`` a function that reads it.

    :param plan: launch plan with ``args`` and ``code``
    :param segment: the kernel-argument segment of the launch
    """
    source: dict[int, tuple[str, int, int]] = {}  # register -> (what, argument, axis)
    for instruction in plan["code"]:
        if instruction[0] in ("ptr", "arg"):
            source[instruction[1]] = (instruction[0], instruction[2], 0)
        elif instruction[0] in ("shape", "stride"):
            source[instruction[1]] = (instruction[0], instruction[2], instruction[3])
    places: dict[int, dict[tuple[str, int], tuple[int, int]]] = {}
    for instruction in plan["code"]:
        if instruction[0] == "launch" and instruction[1] == kernel:
            for register, offset, size in instruction[6]:
                if register in source:
                    what, argument, axis = source[register]
                    places.setdefault(argument, {})[what, axis] = (offset, size)
            break
    found: dict[str, Callable[[], Any]] = {}
    for argument, where in places.items():
        entry = plan["args"][argument]
        if entry["kind"] == "tensor" and ("ptr", 0) in where:
            found[entry["name"]] = lambda e=entry, w=where: _tensor(e, segment, w)  # type: ignore[misc]
        elif entry["kind"] == "scalar" and ("arg", 0) in where:
            found[entry["name"]] = lambda e=entry, w=where: _scalar(e, segment, w["arg", 0])  # type: ignore[misc]
    return found
