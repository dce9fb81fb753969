"""How products of quantised operands store activations, weights and their scales."""

from __future__ import annotations

from dataclasses import dataclass

from .index import cdiv
from .matrix import MICRO_GROUP, SCALE_BLOCK

__all__ = ["BYTES", "FORMATS", "SCALE_K", "Format"]


@dataclass(frozen=True)
class Format:
    """How activations and weights are stored.

    Attributes:
        a: what activations are quantised to, the type of the matrix instruction (``"fp8"``, ``"i8"``, ``"fp4"``); None
            where they stay 16-bit floats.
        b: of packed weights, ``"i4"`` (byte j of a word holds values j and j + 4), ``"u4"`` (one after the other,
            8 more than their value) or ``"fp4"``; None: they are as the activations.
        scales: None, ``"rows"`` (one a row of each), ``"blocks"`` (128 k of activations, 128 x 128 of weights),
            ``"groups"`` (32 k of weights) or ``"micro"`` (32 k of both).
    """

    a: str | None = None
    b: str | None = None
    scales: str | None = None

    @property
    def bits_a(self) -> int:
        """Of an element of the activations."""
        return BITS[self.a]

    @property
    def bits_b(self) -> int:
        """Of an element of the weights."""
        return BITS[self.b or self.a]

    @property
    def scale_k(self) -> int | None:
        """k of a scale; None where it is that of a row, or there is none."""
        return SCALE_K.get(self.scales or "")

    def scale_shape(self, experts: int, rows: int, k: int) -> tuple[int, ...]:
        """That of the scales of weights (experts, rows, k)."""
        if self.scale_k is None:
            return experts, rows
        return experts, cdiv(rows, self.scale_k) if self.scales == "blocks" else rows, cdiv(k, self.scale_k)


BITS = {None: 16, "fp8": 8, "i8": 8, "fp4": 4, "i4": 4, "u4": 4}
BYTES = {"i4": "u8", "u4": "u8"}  # what two of them are stored in
SCALE_K = {"blocks": SCALE_BLOCK, "groups": 32, "micro": MICRO_GROUP}
FORMATS = {
    "none": Format(),
    "fp8": Format("fp8", None, "rows"),
    "int8": Format("i8", None, "rows"),
    "int4": Format("i8", "i4", "rows"),
    "fp8_block": Format("fp8", None, "blocks"),
    "a16w4": Format(None, "fp4", "groups"),
    "a16i4": Format(None, "i4", "groups"),
    "a16u4": Format(None, "u4", "groups"),
    "mxfp4": Format("fp4", "fp4", "micro"),
    "mxfp8": Format("fp8", None, "micro"),
    "a8w4": Format("fp8", "fp4", "micro"),
}
