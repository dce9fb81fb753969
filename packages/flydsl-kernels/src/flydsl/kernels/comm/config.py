"""Which exchange is made, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS
from ..target import Target
from .peers import BLOCKS, MOST_RANKS

__all__ = ["GROUP_UNITS", "IN_PLACE", "KINDS", "ExchangeConfig", "PACK_BYTES", "THREADS", "UNIT", "exchange_config",
           "piece_of"]

KINDS = ("all_reduce", "all_reduce_two_stage", "all_reduce_write", "reduce_scatter", "all_gather", "all_to_all")
IN_PLACE = "all_reduce_in_place"  # of a tensor that lies in shared memory: see :mod:`flydsl.kernels.comm.symmetric
PACK_BYTES = 16  # what a thread moves at a time
THREADS = 512  # of a workgroup
UNIT = 16  # elements that a thread quantises at a time: a pack of fp8
GROUP_UNITS = 8  # of one scale: 128 elements
PIECES = 4  # of a share that is written: more of them hide more behind the links, and meet more often


def piece_of(part: Any, step: Any) -> Any:
    """Packs of a piece of a share of `part`, multiples of the `step` packs that all workgroups move at a time."""
    return (part + PIECES * step - 1) // (PIECES * step) * step


@dataclass(frozen=True, kw_only=True)
class ExchangeConfig(KernelConfig):
    """An exchange between ranks.

    Attributes:
        kind: one of :data:`KINDS`.
        ranks: of the group.
        dtype: of sums; ``"bytes"`` where nothing is added.
        fp8: whether operands travel in 8 bits.
    """

    kind: str
    ranks: int
    dtype: str = "bytes"
    fp8: bool = False

    @property
    def threads(self) -> int:
        return THREADS

    @property
    def summed(self) -> bool:
        """Whether the ranks' values are added."""
        return self.dtype != "bytes"

    @property
    def sliced(self) -> bool:
        """Whether every rank takes care of its own share of the others' values."""
        return self.kind not in ("all_reduce", "all_gather")

    @property
    def divided(self) -> bool:
        """Whether the operand is made of a share for every rank."""
        return self.kind in ("reduce_scatter", "all_to_all")

    def result_bytes(self, nbytes: int) -> int:
        """Bytes of the result of an operand of so many."""
        return {"all_gather": nbytes * self.ranks, "reduce_scatter": nbytes // self.ranks}.get(self.kind, nbytes)

    @property
    def two_stage(self) -> bool:
        """Whether the shares are exchanged once more, when they are summed."""
        return self.kind == "all_reduce_two_stage"

    @property
    def writes(self) -> bool:
        """Whether ranks write to the peers' memory instead of reading it."""
        return self.kind == "all_reduce_write"

    def part(self, packs: int) -> int:
        """Packs of a share of `packs`; with fp8 the units of 16 elements of it, whole groups."""
        if not self.fp8:
            return -(-packs // self.ranks) if self.sliced else packs
        units = -(-packs * PACK_BYTES * 8 // (FLOATS[self.dtype].width * UNIT))
        shares = GROUP_UNITS * (self.ranks if self.sliced else 1)
        return -(-units // shares) * GROUP_UNITS

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for shares of m packs. All of them must fit the device at once."""
        return (min(max(-(-m // self.threads), 1), BLOCKS),)


def exchange_config(where: str, target: Target, kind: str, ranks: int, dtype: str = "bytes",
                    fp8: bool = False) -> ExchangeConfig:
    """A checked configuration. ValueError says what is not supported."""
    require(where, kind in (*KINDS, IN_PLACE), f"no exchange {kind!r}: known are {', '.join(KINDS)}")
    require(where, 2 <= ranks <= MOST_RANKS, f"2 to {MOST_RANKS} ranks are supported, the group has {ranks}")
    require(where, dtype == "bytes" or dtype in FLOATS, f"{dtype} cannot be added: expected one of {', '.join(FLOATS)}")
    adds = kind not in ("all_gather", "all_to_all")
    require(where, adds == (dtype != "bytes"), f"{kind} {'adds: the dtype of sums' if adds else 'adds nothing: bytes'} "
            f"must be given, got {dtype}")
    if fp8:
        require(where, target.fp8_name is not None, f"{target.name} has no fp8: transport must be exact")
        require(where, dtype != "bytes" and kind != "all_reduce_write", f"fp8 is for sums that are read, not {kind}")
    return ExchangeConfig(target=target, kind=kind, ranks=ranks, dtype=dtype, fp8=fp8)
