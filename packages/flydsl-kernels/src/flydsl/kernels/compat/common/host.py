"""What hosts and traced code of older kernels share: dtype names, one-time compilation, checks."""

from __future__ import annotations

import inspect
import weakref
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.compiler.jit_function import JitFunction
from flydsl.kernels.host.dtypes import FLOATS, dtype_name, element_of
from flydsl.kernels.parts.convert import round_bf16_stochastic
from flydsl.runtime.device import get_warp_size

__all__ = [
    "_run_compiled", "cvt_sr_f32_to_bf16", "dtype_to_elem_type", "get_dtype_str", "get_dtype_vec_size",
    "get_warp_size", "stream_ptr_to_async_token", "validate_moe_dtypes", "with_occupancy",
]

_MOE_A = ("fp8", "fp16", "int8", "fp4")
_MOE_B = (*_MOE_A, "int4")
VECTOR_BYTES = 16
_compiled: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def dtype_to_elem_type(name: str) -> Any:
    """The element class of a dtype name. ``"fp8"`` is e4m3fn on every architecture; that of the current one is
    `default_f8_type`."""
    return fx.Float8E4M3FN if name == "fp8" else element_of(name)


def get_dtype_str(dtype: Any) -> str:
    """``"f32"``, ``"f16"`` or ``"bf16"`` of a torch or NumPy dtype. TypeError for another."""

    class _Typed:
        pass

    typed = _Typed()
    typed.dtype = dtype  # type: ignore[attr-defined]
    return dtype_name(typed, "get_dtype_str")


def get_dtype_vec_size(dtype: Any) -> int:
    """Elements of 16 bytes: 4 of f32, 8 of the 16-bit types."""
    name = dtype if isinstance(dtype, str) else get_dtype_str(dtype)
    if name not in FLOATS:
        raise ValueError(f"get_dtype_vec_size: the dtype must be one of {', '.join(FLOATS)}, got {name!r}")
    return VECTOR_BYTES * 8 // FLOATS[name].width


def validate_moe_dtypes(a_dtype: str, b_dtype: str) -> None:
    """ValueError unless the types are known: fp8, fp16, int8 or fp4, and int4 for weights."""
    if a_dtype not in _MOE_A or b_dtype not in _MOE_B:
        raise ValueError(f"a_dtype must be one of {', '.join(_MOE_A)} and b_dtype one of {', '.join(_MOE_B)}, got "
                         f"{a_dtype!r} and {b_dtype!r}")


def cvt_sr_f32_to_bf16(x: Any, rand: Any) -> Any:
    """f32 to bf16 (traced), rounded up where the low 16 bits of `rand` (i32) carry: ``(bits + rand) >> 16``."""
    return round_bf16_stochastic(x, rand & 0xFFFF)


def stream_ptr_to_async_token(stream_ptr_value: Any, loc: Any = None, ip: Any = None) -> Any:
    """The stream itself, which is what launches take."""
    return stream_ptr_value


def with_occupancy(launcher: Any, waves_per_eu: int | None) -> Any:
    """The launcher with the compile hint `waves_per_eu`, if there is one."""
    return flyc.compile[{"waves_per_eu": waves_per_eu}](launcher) if waves_per_eu else launcher


def _run_compiled(exe: Any, *args: Any) -> None:
    """Run a launcher; the first call compiles it for these arguments and later ones reuse that. One that is a function
    around others is called as it is: those keep what they compile."""
    if not isinstance(exe, JitFunction):
        exe(*args)
        return
    bound = inspect.signature(exe).bind(*args)
    bound.apply_defaults()
    values = tuple(bound.arguments.values())
    if exe not in _compiled:
        _compiled[exe] = flyc.compile(exe, *values)
    _compiled[exe](*values)
