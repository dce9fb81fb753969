"""Static types of the dialect as values of `flydsl.layout`."""

from __future__ import annotations

import functools
from typing import Any

import flydsl.layout as algebra


def plain(ty: Any) -> Any:
    """The flydsl-layout value of a type of the dialect: a layout, an int-tuple or a tile."""
    text = str(ty)
    return _parse(text[text.index("<") + 1 : -1])


@functools.lru_cache(maxsize=1024)
def _parse(text: str) -> Any:
    if text.startswith("["):
        return algebra.parse_tile(text)
    return algebra.parse_layout(text) if ":" in text else algebra.parse_int_tuple(text)
