"""Fragments that know which element of a tile each of their values is: relayouts, reductions, scans and broadcasts."""

from __future__ import annotations

from .combine import broadcast_to, reduce, scan
from .ownership import ThreadValues, thread_values
from .relayout import convert_layout, layout_conversion

__all__ = [
    "ThreadValues", "broadcast_to", "convert_layout", "layout_conversion", "reduce", "scan", "thread_values",
]
