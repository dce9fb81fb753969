"""Where a thread is: its wave, its lane, and the place of that lane in a tile of 16 x 16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import flydsl.expr as fx

from .index import div, mod

__all__ = ["Lane", "lane_of"]


@dataclass(frozen=True)
class Lane:
    """A thread of a workgroup.

    Attributes:
        thread: its number; `wave` and `lane` are the quotient and remainder by the size of a wave.
        group, row: ``lane // 16`` and ``lane % 16``: of an operand's 16 rows a lane has a part of row `row`.
    """

    thread: Any
    wave: Any
    lane: Any
    group: Any
    row: Any


def lane_of(wave_size: int, scalar: bool = False) -> Lane:
    """The lane that executes this; with `scalar`, the number of its wave is in a scalar register, and with it all
    addresses that the lanes of a wave share."""
    thread = fx.thread_idx.x
    lane, wave = mod(thread, wave_size), div(thread, wave_size)
    if scalar:
        wave = fx.Int32(fx.rocdl.wave_id() if wave_size == 32 else fx.rocdl.readfirstlane(fx.T.i32, wave))
    return Lane(thread, wave, lane, div(lane, 16), mod(lane, 16))
