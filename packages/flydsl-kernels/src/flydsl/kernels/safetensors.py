"""Weights of models in files of the safetensors format: the length of a header in JSON, the header, the tensors' bytes.

For what an example or a service without other packages needs: whole files, read at once. A file is checked before
anything of it is used, so that one from a stranger is an error at worst.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from typing import Any

from .host.config import require

__all__ = ["load_file", "save_file"]

_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn",
           "F8_E5M2": "float8_e5m2", "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
           "F8_E8M0": "float8_e8m0fnu", "F4": "float4_e2m1fn_x2", "C64": "complex64", "I64": "int64", "I32": "int32",
           "I16": "int16", "I8": "int8", "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
           "BOOL": "bool"}
_PACKED = {"F4": 2}  # values in an element of torch's dtype: the file counts values in the last dimension
_LENGTH = struct.Struct("<Q")


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= 0 for n in value)


def _sizes(shape: Any, each: int) -> Any:
    """The shape of a tensor whose elements hold so many values, from the file's of values; None if there is none."""
    if not _numbers(shape) or (each > 1 and (not shape or shape[-1] % each)):
        return None
    return shape if each == 1 else [*shape[:-1], shape[-1] // each]


def load_file(path: str | os.PathLike[str], device: Any = "cpu") -> dict[str, Any]:
    """The torch tensors of a file, by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not of the format, or has a dtype that is not known.
    """
    import torch

    with open(path, "rb") as file:
        content = bytearray(file.read())
    where = f"load_file({os.fspath(path)!r})"
    require(where, len(content) >= _LENGTH.size, "the file has no header")
    start = _LENGTH.size + _LENGTH.unpack_from(content)[0]
    require(where, start <= len(content), f"the header would have {start - _LENGTH.size} bytes, more than the file")
    try:
        header = json.loads(content[_LENGTH.size : start])
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: the header is not JSON ({error})") from None
    require(where, isinstance(header, dict), "the header is not an object")
    header.pop("__metadata__", None)
    tensors, data = {}, torch.frombuffer(content, dtype=torch.uint8)[start:]
    for name, entry in header.items():
        given: dict[str, Any] = entry if isinstance(entry, dict) else {}
        kind: Any = given.get("dtype")
        shape: Any = given.get("shape")
        offsets: Any = given.get("data_offsets")
        require(where, isinstance(kind, str) and hasattr(torch, _DTYPES.get(kind, " ")),
                f"{name!r} has the dtype {kind!r}, not a known one")
        dtype, sizes = getattr(torch, _DTYPES[kind]), _sizes(shape, _PACKED.get(kind, 1))
        require(where, sizes is not None and _numbers(offsets) and len(offsets) == 2
                and offsets[1] - offsets[0] == math.prod(sizes) * dtype.itemsize and offsets[1] <= len(data),
                f"{name!r} of shape {shape} cannot be the bytes {offsets} of {len(data)}")
        # A copy begins where an element may.
        tensors[name] = data[slice(*offsets)].clone().view(dtype).reshape(sizes).to(device)
    return tensors


def save_file(tensors: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write torch tensors to a file.

    Raises:
        OSError: the file cannot be written.
        ValueError: a dtype is not of the format.
    """
    import torch

    names = {value: key for key, value in _DTYPES.items()}
    header: dict[str, Any] = {}
    parts, end = [], 0
    for name, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        require("save_file", dtype in names, f"{name!r} has the dtype {tensor.dtype}, which the format has not")
        raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        kind, shape = names[dtype], list(tensor.shape)
        if kind in _PACKED:
            shape[-1] *= _PACKED[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + len(raw)]}
        parts.append(raw)
        end += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # data begin at a multiple of 8 bytes
    with open(path, "wb") as file:
        file.writelines((_LENGTH.pack(len(text)), text, *parts))
