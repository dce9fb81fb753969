"""Texts that the simulator hands out: findings, profiles, counts."""

from __future__ import annotations

import ctypes
import json
from typing import Any

__all__ = ["handed_out"]


def handed_out(library: ctypes.CDLL, entry: str) -> Any:
    """The JSON that an entry point of the simulator hands out. What it is made of, the simulator forgets then.

    :raises RuntimeError: the simulator has none, and says why (no host memory); it keeps what it has for the next call
    """
    function: Any = getattr(library, entry)
    function.restype = ctypes.c_char_p
    text = function()
    if text is None:
        library.flysimLastErrorMessage.restype = ctypes.c_char_p
        raise RuntimeError(f"the simulator hands out nothing: {library.flysimLastErrorMessage().decode()}")
    return json.loads(text)
