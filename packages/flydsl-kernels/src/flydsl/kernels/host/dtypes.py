"""Names of element types, as builders take them, and their classes."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["FLOATS", "INDICES", "SCALES", "as_bytes", "dtype_name", "element_of", "float_dtype", "float_name",
           "require_element", "torch_dtype", "widens"]

FLOATS = {"f32": fx.Float32, "f16": fx.Float16, "bf16": fx.BFloat16}
INDICES = ("i32", "i64")  # dtypes of indices
SCALES = (*FLOATS, "float8_e8m0fnu")  # dtypes of scales: f32 has all their values

_ARRAY_NAMES = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "uint8": "u8", "int32": "i32", "int64": "i64",
    "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8",
}
_MICROSCALED = {"fp4": "float4_e2m1fn_x2", "fp8": "float8_e4m3fn", "e8m0": "float8_e8m0fnu"}


def float_dtype(name: str, where: str) -> str:
    """`name` if it is ``"f32"``, ``"f16"`` or ``"bf16"``; ValueError that names the builder otherwise."""
    if name not in FLOATS:
        raise ValueError(f"{where}: dtype must be one of {', '.join(FLOATS)}, got {name!r}")
    return name


def element_of(name: str, arch: Any = None) -> Any:
    """The element class that stores a dtype name; ``"fp8"`` is that of `arch`, ``"i4"`` a byte each."""
    if name == "fp8":
        from ..target import target

        return target(arch).fp8
    return {**FLOATS, "i8": fx.Int8, "i4": fx.Int8, "e8m0": fx.Int8, "u8": fx.Uint8, "i32": fx.Int32}[name]


def require_element(given: Any, element: Any, bytes_of_any: bool = False) -> None:
    """TypeError if elements of the class `given` cannot be seen as those of `element`: that would be a wrong launch.

    Integers stand for any type of their bytes (fp8 as int8, int32 as float32), but f64, f32, f16, bf16 and the two fp8
    not for each other, nor unless integers are `bytes_of_any` the next three for what is narrower, or int64 for int32.
    """
    floats = (fx.Float64, *FLOATS.values(), fx.Float8E4M3FN, fx.Float8E4M3FNUZ)
    narrower = given in FLOATS.values() and element.width <= 8 or given is fx.Int64 and element is fx.Int32
    other = given in floats and element in (*floats, fx.Float4E2M1FN)
    if given is not element and (other or narrower and not bytes_of_any):
        raise TypeError(f"the kernel was built for {element.__name__}, but an argument holds {given.__name__}")


def dtype_name(array: object, where: str, allowed: tuple[str, ...] = tuple(FLOATS)) -> str:
    """dtype name of a NumPy array or torch tensor; TypeError if it is not one of `allowed`."""
    if not hasattr(array, "dtype"):
        raise TypeError(f"{where}: expected a torch tensor or a NumPy array, got {type(array).__name__}")
    full = str(array.dtype).rpartition(".")[2]
    name = _ARRAY_NAMES.get(full, full)
    if name not in allowed:
        raise TypeError(f"{where}: dtype {full} is not supported: expected one of {', '.join(allowed)}")
    return name


def as_bytes(array: Any, kind: str, where: str) -> Any:
    """An array of a microscaled type, ``"fp4"``, ``"fp6"``, ``"fp8"`` or ``"e8m0"``, as integers of a byte.

    Raises:
        TypeError: it has neither these nor the type's own dtype: the bytes of another one have other values.
    """
    full, taken = str(array.dtype).rpartition(".")[2], ("uint8", "int8")
    if full in taken:
        return array
    own = _MICROSCALED.get(kind, "")
    if full != own:
        raise TypeError(f"{where}: {kind} has dtype {' or '.join((*taken, own) if own else taken)}, got {full}")
    return array.view(dtype=torch_dtype("uint8"))


def widens(array: Any) -> bool:
    """Whether an array has a dtype of scales."""
    full = str(array.dtype).rpartition(".")[2]
    return _ARRAY_NAMES.get(full, full) in SCALES


def float_name(dtype: Any, where: str) -> str | None:
    """``"f32"``, ``"f16"`` or ``"bf16"`` of a dtype of torch or NumPy or of a name; None stays. ValueError if none."""
    if dtype is None:
        return None
    full = getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]  # NumPy's scalars are classes
    name = _ARRAY_NAMES.get(full, full)
    if name not in FLOATS:
        raise ValueError(f"{where} must be one of {', '.join(FLOATS)}, got {dtype!r}")
    return name


def torch_dtype(name: Any) -> Any:
    """A torch dtype, or that of a name; None stays. TypeError for a name of none."""
    import torch

    if name is None or isinstance(name, torch.dtype):
        return name
    names = dict(zip(FLOATS, (torch.float32, torch.float16, torch.bfloat16), strict=True))
    found = names.get(str(name)) or getattr(torch, str(name), None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name!r} is not a dtype")
    return found
