"""Which exchange is made, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..host.config import KernelConfig, require
from ..host.dtypes import FLOATS
from ..parts.peers import BLOCKS, MOST_RANKS
from ..target import Target

__all__ = ["KINDS", "ExchangeConfig", "PACK_BYTES", "exchange_config"]

KINDS = ("all_reduce", "all_reduce_two_stage", "reduce_scatter", "all_gather", "all_to_all")
PACK_BYTES = 16  # what a thread moves at a time


@dataclass(frozen=True, kw_only=True)
class ExchangeConfig(KernelConfig):
    """An exchange between ranks.

    Attributes:
        kind: one of :data:`KINDS`.
        ranks: of the group.
        dtype: of sums; ``"bytes"`` where nothing is added.
    """

    kind: str
    ranks: int
    dtype: str = "bytes"

    @property
    def threads(self) -> int:
        return 512

    @property
    def summed(self) -> bool:
        """Whether the ranks' values are added."""
        return self.dtype != "bytes"

    @property
    def sliced(self) -> bool:
        """Whether every rank takes care of its own share of the others' values."""
        return self.kind not in ("all_reduce", "all_gather")

    @property
    def two_stage(self) -> bool:
        """Whether the shares are exchanged once more, when they are summed."""
        return self.kind == "all_reduce_two_stage"

    def part(self, packs: int) -> int:
        """Packs of a share of `packs`."""
        return -(-packs // self.ranks) if self.sliced else packs

    def grid(self, m: Any) -> tuple[Any, ...]:
        """Workgroups for shares of m packs. All of them must fit the device at once."""
        return (min(max(-(-m // self.threads), 1), BLOCKS),)


def exchange_config(where: str, target: Target, kind: str, ranks: int, dtype: str = "bytes") -> ExchangeConfig:
    """A checked configuration. ValueError says what is not supported."""
    require(where, kind in KINDS, f"no exchange {kind!r}: known are {', '.join(KINDS)}")
    require(where, 2 <= ranks <= MOST_RANKS, f"2 to {MOST_RANKS} ranks are supported, the group has {ranks}")
    require(where, dtype == "bytes" or dtype in FLOATS, f"{dtype} cannot be added: expected one of {', '.join(FLOATS)}")
    return ExchangeConfig(target=target, kind=kind, ranks=ranks, dtype=dtype)
