"""What a norm kernel computes, as one frozen value, and the checks of the builders' arguments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import flydsl.expr as fx

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS, float_dtype
from ..parts.convert import ROUNDINGS
from ..parts.rows import RowPlan, fits_registers, plan_rows
from ..target import Target

__all__ = ["BLOCK_THREADS", "EPS", "VEC_WIDTH", "NormConfig", "make_config"]

BLOCK_THREADS = 256
VEC_WIDTH = 8  # 16-bit elements that a lane accesses at a time where rows allow it
EPS = 1e-5
UNPLANNED = RowPlan(0, 1, 1, 1, 0)
BLOCK_SIZES = (64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class NormConfig(KernelConfig):
    """A forward or backward norm kernel.

    Attributes:
        n: columns.
        centered: subtract the mean and add a bias (layer norm); else RMS norm.
        dtype, weight_dtype: of the activations; of weight and bias.
        eps: added to the mean square.
        weight_offset: added to the weight (1 in norms of Gemma, whose weights are differences from one).
        fused: add a residual first.
        stats: write rstd (and the mean) of each row.
        quant: ``""``, ``"i8"`` or ``"fp8"``: type of the output, with one scale a row.
        smooth: multiply by a column scale before quantising.
        rounding: of int8, ``"nearest"`` or ``"trunc"``.
        threads: of the workgroup of a long row.
        plan: of the rows; filled in by :meth:`planned`.
        keep: the row stays in registers.
    """

    n: int
    centered: bool
    dtype: str
    weight_dtype: str
    eps: float = EPS
    weight_offset: float = 0.0
    fused: bool = False
    stats: bool = False
    quant: str = ""
    smooth: bool = False
    rounding: str = "nearest"
    threads: int = BLOCK_THREADS
    plan: RowPlan = UNPLANNED
    keep: bool = True

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (fx.ceildiv(m, self.plan.rows),)

    def planned(self) -> NormConfig:
        """The same with its plan, while it is traced."""
        self.target.require_traced()
        plan = plan_rows(self.n, FLOATS[self.dtype].width, self.target.wave, self.threads)
        return replace(self, plan=plan, keep=fits_registers(self.n))


def make_config(where: str, target: Target, n: int, dtype: str, *, weight_dtype: str | None = None, eps: float = EPS,
                quant: str = "", rounding: str = "nearest", threads: int = BLOCK_THREADS,
                centered: bool = False, fused: bool = False, stats: bool = False,
                smooth: bool = False, weight_offset: float = 0.0) -> NormConfig:
    """A checked configuration. ValueError names the builder and what it supports."""
    require(where, isinstance(n, int) and n >= 1, f"N must be a positive int, got {n!r}")
    float_dtype(dtype, where)
    weight_dtype = weight_dtype or dtype
    require(where, weight_dtype in (dtype, "f32"), "the weight dtype must be that of the activations "
            f"({dtype}) or f32, got {weight_dtype!r}")
    require(where, quant in ("", "i8", "fp8"), f"quant_dtype_str must be 'i8' or 'fp8', got {quant!r}")
    if quant == "fp8":
        target.require_fp8(where)
    require(where, rounding in ROUNDINGS, f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    require(where, threads in BLOCK_SIZES,
            f"BLOCK_THREADS must be one of {', '.join(map(str, BLOCK_SIZES))}, got {threads!r}")
    require(where, eps >= 0.0, f"eps must not be negative, got {eps!r}")
    return NormConfig(n, centered, dtype, weight_dtype, float(eps), float(weight_offset), fused, stats, quant, smooth,
                      rounding, threads, target=target)
