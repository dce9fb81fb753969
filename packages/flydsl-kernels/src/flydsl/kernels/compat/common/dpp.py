"""Exchanges between the lanes of a row of 16 by data-parallel primitives, which need no LDS."""

from __future__ import annotations

from typing import Any

import flydsl.expr as fx

__all__ = ["ROW_SHIFTS", "dpp_xor_f32", "update_dpp_i32"]

ALL = 0xF
#: Controls that move a value by 1, 2, 4 or 8 lanes within a row, for scans.
ROW_SHIFTS = {1: 273, 2: 274, 4: 276, 8: 280}
#: Steps (control, bank mask) that give every lane the value of the lane whose number differs in one bit.
_XOR = {1: ((177, ALL),), 2: ((78, ALL),), 4: ((276, 0xA), (260, 0x5)), 8: ((280, 0xC), (264, 0x3))}


def update_dpp_i32(old: Any, src: Any, dpp_ctrl: int, row_mask: int = ALL, bank_mask: int = ALL,
                   bound_ctrl: bool = False) -> Any:
    """`src` of the lane that `dpp_ctrl` names; lanes outside the masks (or without a source) keep `old`.

    Args:
        old, src: i32.
        bound_ctrl: a missing source reads as 0.
    """
    values = [fx.Int32(v).ir_value() for v in (old, src)]
    return fx.Int32(fx.rocdl.update_dpp(fx.T.i32, *values, dpp_ctrl, row_mask, bank_mask, bound_ctrl))


def dpp_xor_f32(src: Any, offset: int) -> Any:
    """`src` (f32) of lane ``lane ^ offset`` for an offset of 1, 2, 4 or 8.

    Raises:
        ValueError: another offset.
    """
    if offset not in _XOR:
        raise ValueError(f"dpp_xor_f32: the offset must be 1, 2, 4 or 8, got {offset}")
    bits = fx.Float32(src).bitcast(fx.Int32)
    out = bits
    for control, banks in _XOR[offset]:
        out = update_dpp_i32(out, bits, control, ALL, banks)
    return out.bitcast(fx.Float32)
