"""C ABI of scalar launch arguments: ctypes slot and the function that fills it."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

_INTEGER_SLOTS = {
    "Boolean": ctypes.c_bool, "Int8": ctypes.c_int8, "Int16": ctypes.c_int16, "Int32": ctypes.c_int32,
    "Int64": ctypes.c_int64, "Uint8": ctypes.c_uint8, "Uint16": ctypes.c_uint16, "Uint32": ctypes.c_uint32,
    "Uint64": ctypes.c_uint64, "Index": ctypes.c_uint64, "Integer": ctypes.c_int32,
}
_FLOAT_SLOTS = {"Float32": ctypes.c_float, "Float64": ctypes.c_double, "Float": ctypes.c_float}


def _payload(argument: Any) -> Any:
    return getattr(argument, "value", argument)


def _fill(argument: Any, slot: Any) -> None:
    slot.value = _payload(argument)


def _fill_half(argument: Any, slot: Any) -> None:
    (slot.value,) = struct.unpack("<H", struct.pack("<e", float(_payload(argument))))


def _fill_bfloat16(argument: Any, slot: Any) -> None:
    # The upper half of the f32 bits, truncated: the convention of the reference launcher.
    (bits,) = struct.unpack("<I", struct.pack("<f", float(_payload(argument))))
    slot.value = bits >> 16


def c_abi_entry(cls: Any) -> tuple[Any, Any]:
    """(ctypes type, fill function) of a Numeric class; TypeError for types without a host ABI."""
    name = cls.__name__
    if name in _INTEGER_SLOTS:
        return _INTEGER_SLOTS[name], _fill
    if name in _FLOAT_SLOTS:
        return _FLOAT_SLOTS[name], _fill
    if name == "Float16":
        return ctypes.c_uint16, _fill_half
    if name == "BFloat16":
        return ctypes.c_uint16, _fill_bfloat16
    raise TypeError(f"{name} has no C-ABI representation and cannot be a launch argument")
