"""Tokens to experts on other ranks and back: what is asked for, and where everything lies in the shared memory."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from ..host.config import KernelConfig, require
from ..parts.index import align_up
from ..target import Target
from .peers import PLACES, one_after_another

__all__ = ["COMBINE_DTYPES", "DISPATCH_BYTES", "TransportConfig", "launch_config", "transport_config"]

DISPATCH_BYTES = {"bf16": 2, "f16": 2, "f32": 4, "fp8": 1, "fp4": 0.5}
COMBINE_DTYPES = ("bf16", "f16", "f32", "fp8", "fp4")
TRANSPORTS = ("none", "fp8_direct_cast", "fp8_blockwise")
MOST_SLOTS = 64  # experts of a token
SCALED = 128  # elements of a scale of blockwise fp8


@dataclass(frozen=True, kw_only=True)
class TransportConfig(KernelConfig):
    """The transport of tokens between the ranks that have the experts.

    Attributes:
        ranks, experts, slots: of the group, experts of a rank, experts of a token.
        hidden: elements of a token; `dtype` those that are dispatched, `out` those that are combined.
        tokens: most tokens of a rank; `received`: most that a rank receives.
        row_room, out_room: bytes that the memory has for a row of either, 0: those of `dtype` and `out`. All launches
            on one memory say the same.
        scale_bytes: of a token's scales, which travel with it.
        packed: expert-major copies of what is received (`enable_std_moe`).
        zero_copy: combining reads the peers' registered buffers.
        transport: how combined rows travel: as they are, as fp8, or as fp8 with a scale of every 128 elements.
        blocks, waves: geometry of a launch.
    """

    ranks: int
    experts: int
    slots: int
    hidden: int
    dtype: str
    out: str
    tokens: int
    received: int
    row_room: int = 0
    out_room: int = 0
    scale_bytes: int = 0
    packed: bool = False
    zero_copy: bool = False
    transport: str = "none"
    blocks: int = 128
    waves: int = 4

    @property
    def threads(self) -> int:
        return self.waves * self.target.wave

    def grid(self, m: Any) -> tuple[Any, ...]:
        return (self.blocks,)

    @property
    def row_bytes(self) -> int:
        """Of a dispatched row."""
        return int(self.hidden * DISPATCH_BYTES[self.dtype])

    @property
    def elements(self) -> int:
        """That a lane combines at a time: of f32 as many as rows are multiples of."""
        return 4 if self.out == "f32" else 8

    @property
    def out_bytes(self) -> int:
        """Of a row of what is combined, as it lies in the registered buffer."""
        return int(self.hidden * DISPATCH_BYTES[self.out])

    @property
    def sent_bytes(self) -> int:
        """Of a combined row on its way."""
        if self.transport == "none":
            return self.out_bytes
        scales = self.hidden // SCALED * 4 if self.transport == "fp8_blockwise" else 0
        return align_up(self.hidden + scales, 16)

    @property
    def sentinel(self) -> int:
        """A place that no row has."""
        return self.ranks * self.received

    @property
    def capacity(self) -> int:
        """Rows of an expert in the packed copy."""
        return self.ranks * self.tokens

    def places(self) -> dict[str, int]:
        """Byte offsets in the payload, and under ``"end"`` its size."""
        rows, origins = self.received, self.ranks * self.tokens
        row, out = self.row_room or self.row_bytes, self.out_room or self.out_bytes
        sent = out if self.transport == "none" else self.sent_bytes
        return one_after_another({
            "counter": 8,  # rows taken; workgroups that are done
            "rows": rows * row, "weights": rows * self.slots * 4, "indices": rows * self.slots * 4,
            "scales": rows * self.scale_bytes, "origin": rows * 4,
            "registered": rows * out, "combined_weights": origins * self.slots * 4,
            "combined": 0 if self.zero_copy else origins * sent,
        })


def transport_config(where: str, target: Target, **fields: Any) -> TransportConfig:
    """A checked configuration. ValueError says what is not supported."""
    return _checked(where, TransportConfig(target=target, **fields))


@functools.lru_cache
def launch_config(where: str, config: TransportConfig, **changes: Any) -> TransportConfig:
    """That of a launch, with other rows or another geometry on the same memory: ValueError where that has no place for
    them, or for what is not supported."""
    found = _checked(where, replace(config, **changes))
    for name, size, room in (("dtype", found.row_bytes, config.row_room), ("out", found.out_bytes, config.out_room)):
        require(where, name not in changes or size <= room,
                f"a row of {changes.get(name)} has {size} bytes, the memory {room} for one: see max_token_type_size")
    return found


def _checked(where: str, config: TransportConfig) -> TransportConfig:
    target = config.target
    require(where, config.dtype in DISPATCH_BYTES, f"data type {config.dtype!r}: expected one of "
            f"{', '.join(DISPATCH_BYTES)}")
    require(where, config.out in COMBINE_DTYPES, f"combining {config.out!r}: expected one of "
            f"{', '.join(COMBINE_DTYPES)}")
    require(where, config.transport in TRANSPORTS, f"transport {config.transport!r}: expected one of "
            f"{', '.join(TRANSPORTS)}")
    for name in ("hidden", "tokens", "experts", "received"):
        require(where, getattr(config, name) > 0, f"{name} must be positive, got {getattr(config, name)}")
    require(where, config.row_bytes % 16 == 0 and config.out_bytes % 16 == 0,
            f"rows must be multiples of 16 bytes, got hidden size {config.hidden} of {config.dtype} and {config.out}")
    require(where, 1 <= config.slots <= min(MOST_SLOTS, target.wave),
            f"1 to {min(MOST_SLOTS, target.wave)} experts of a token are supported, got {config.slots}")
    require(where, 1 <= config.blocks <= PLACES, f"1 to {PLACES} workgroups are supported, got {config.blocks}")
    require(where, config.scale_bytes % 4 == 0, f"scales must be whole words, got {config.scale_bytes} bytes a token")
    require(where, config.sentinel < 1 << 31, f"{config.sentinel} rows do not fit 31 bits")
    if config.transport != "none":
        require(where, config.out == "bf16" and not config.packed and not config.zero_copy,
                f"{config.transport} is for bf16, without packed copies and without zero_copy")
        require(where, config.transport != "fp8_blockwise" or config.hidden % SCALED == 0,
                f"fp8_blockwise needs a hidden size that is a multiple of {SCALED}, got {config.hidden}")
    if "fp8" in config.transport or config.out == "fp8":
        require(where, target.fp8_name is not None, f"{target.name} has no fp8")
    require(where, not (config.packed and config.zero_copy), "packed copies and zero_copy exclude each other")
    return config.fitting(where)
