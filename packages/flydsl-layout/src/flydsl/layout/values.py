"""What the value types share: they are immutable, and a notebook shows their picture."""

from __future__ import annotations

from typing import Any, NoReturn

import flydsl.layout as public

from .errors import LayoutError


def immutable(self: object, name: str, value: object = None) -> NoReturn:
    raise AttributeError(f"{type(self).__name__} is immutable")


def picture(x: Any) -> str | None:
    """The SVG that a notebook shows, or None where there is no sensible picture (dynamic or huge)."""
    try:
        return public.to_svg(x)  # drawn by what knows all types, which is loaded when it is asked for
    except LayoutError:
        return None
