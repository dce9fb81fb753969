"""Names of kernels as people write them."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def plain_name(kernel: str) -> str:
    """A C++ kernel's name as its source has it, where a C++ library is at hand to tell; other names as they are."""
    if not kernel.startswith("_Z"):
        return kernel
    try:
        library, libc = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
        library.__cxa_demangle.restype = ctypes.c_void_p
        text = library.__cxa_demangle(kernel.encode(), None, None, None)
    except (OSError, AttributeError):
        return kernel
    if not text:
        return kernel
    name = ctypes.string_at(text).decode(errors="replace")
    libc.free(ctypes.c_void_p(text))
    return name
