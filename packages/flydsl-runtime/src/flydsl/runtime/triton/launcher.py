"""From the arguments of a Triton kernel to a launch."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from typing import Any

from . import descriptors
from .library import simulator
from .memory import Array, array_of, tables

_INTEGERS = {
    "i1": ctypes.c_int32, "u1": ctypes.c_uint32, "i8": ctypes.c_int8, "u8": ctypes.c_uint8, "i16": ctypes.c_int16,
    "u16": ctypes.c_uint16, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
}


def scalar(kind: str, value: Any) -> ctypes._SimpleCData:
    """A number as the kernel takes it, by Triton's name of the type. Raises TypeError for another type."""
    if kind in _INTEGERS:
        return _INTEGERS[kind](int(value))
    if kind in ("fp32", "f32"):
        return ctypes.c_float(value)
    if kind == "fp64":
        return ctypes.c_double(value)
    if kind == "fp16":
        return ctypes.c_uint16(struct.unpack("<H", struct.pack("<e", value))[0])
    if kind == "bf16":
        return ctypes.c_uint16(struct.unpack("<I", struct.pack("<f", value))[0] >> 16)
    raise TypeError(f"an argument of type {kind!r} is not supported on the simulator")


def _flatten(kinds: Any, values: Any, names: Any, moves: Iterator[Any], warps: int) -> Iterator[tuple[str, Any, str]]:
    """Type, value and name of what the kernel gets: tuples are taken apart, compile-time constants left out.

    :param moves: what the compiler says of each tensor descriptor; empty for a target without tensor moves
    """
    for kind, value, name in zip(kinds, values, names, strict=True):
        if isinstance(kind, tuple):
            yield from _flatten(kind, value, [f"{name}[{k}]" for k in range(len(kind))], moves, warps)
        elif isinstance(kind, str) and kind.startswith("tensordesc"):
            yield from descriptors.arguments(value, next(moves, None), warps, name)
        elif kind != "constexpr":
            yield kind, value, name


class Launcher:
    """What Triton calls to run one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._kinds = list(source.signature.values())
        names = getattr(getattr(source, "fn", None), "arg_names", None)
        self._names = list(names) if names else [str(key) for key in source.signature]
        self._metadata = metadata

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, packed: tuple[int, int, int], launch: Any,
                 enter: Callable[[Any], Any] | None, leave: Callable[[Any], Any] | None, *arguments: Any) -> None:
        if not all(hasattr(extent, "__index__") for extent in (x, y, z)):
            raise TypeError(f"the extents of a grid are integers, not {(x, y, z)}: triton.cdiv(n, BLOCK), n // BLOCK")
        if any(not 0 <= extent < 1 << 32 for extent in (x, y, z)):
            raise ValueError(f"a grid has extents from 0 to 2**32 - 1, not {(x, y, z)}")
        if x * y * z == 0:
            return
        if enter is not None:
            enter(launch)
        warps, cluster, shared = packed[:3]
        moves = iter(getattr(self._metadata, "tensordesc_meta", None) or ())
        flat = list(_flatten(self._kinds, arguments, self._names, moves, warps))
        scratch = self._scratch(x * y * z, stream)
        flat += [("*i8", buffer, "") for buffer in scratch]
        values, arrays, addresses = [], [], []
        for kind, value, name in flat:
            if kind == "tensordesc":
                array, address = _pointer(value.base, name)
                values.append(value.words)
            elif kind.startswith("*"):
                array, address = _pointer(value, name)
                values.append(ctypes.c_uint64(address))
            else:
                values.append(scalar(kind, value))
                continue
            if array is not None:
                arrays.append(array)
            elif address:
                addresses.append(address)
        pointed, others = tables([value for kind, value, _ in flat if kind.startswith("*")])
        simulator().launch(
            function, (x, y, z), warps * self._metadata.warp_size, shared, stream, cluster,
            bool(self._metadata.launch_cooperative_grid), values, arrays + pointed, addresses + others)
        if leave is not None:
            leave(launch)

    def _scratch(self, groups: int, stream: int) -> list[Any]:
        """Buffers that Triton's runtime adds behind the arguments: scratch memory and that of its profiler."""
        from triton.runtime import _allocation
        from triton.runtime.driver import driver

        def size(which: str) -> tuple[int, int]:
            bytes_ = getattr(self._metadata, f"{which}_scratch_size", 0) or 0
            return groups * getattr(self._metadata, "num_ctas", 1) * bytes_, \
                getattr(self._metadata, f"{which}_scratch_align", 1)

        buffers: list[Any] = []
        bytes_, align = size("global")
        buffers.append(_allocation._allocator.get()(bytes_, align, stream) if bytes_ else None)
        bytes_, align = size("profile")
        if not bytes_:
            buffers.append(None)
        elif getattr(_allocation, "has_profile_allocator", lambda: False)():
            buffers.append(_allocation._profile_allocator.get()(bytes_, align, stream))
        else:
            buffers.append(driver.active.allocate_default_profile_scratch(bytes_, align, stream))
        return buffers


def _pointer(value: Any, name: str) -> tuple[Array | None, int]:
    """The memory and the address of a pointer argument."""
    if value is None:
        return None, 0
    if isinstance(value, int):
        return None, value
    if not hasattr(value, "data_ptr"):
        raise TypeError(f"argument {name!r}: a tensor or an address is expected, not {type(value).__name__}")
    return array_of(value, name), value.data_ptr()
