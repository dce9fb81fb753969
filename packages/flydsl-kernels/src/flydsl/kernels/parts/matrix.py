"""The matrix instructions as the GEMMs use them: one row a type and architecture family.

Operands come in chunks: the 16 bytes that a lane holds of one row of A (or of B transposed). Lane group ``g = lane //
16`` holds bytes ``16 g ... 16 g + 15`` of a block of ``16 * groups`` bytes of k, in row ``lane % 16``. An instruction
with a shorter k takes a part of the chunk; since A and B are cut alike, which k it is does not matter. B is the
instruction's first operand, so that the ``acc_len`` values that a lane has of a 16 x 16 tile are consecutive in memory:
columns ``acc_len * g + i`` of row ``lane % 16``.

RDNA3 wants the whole k of an instruction in each of its two lane groups: a block is one chunk (`groups` is 1), which
both of them read. Of the rows of its first operand a lane has every other one, so those of B are read in the order 0,
8, 1, 9, ... (`interleaved`); the columns of a lane are then the same as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..target import Target
from .index import div, mod
from .memory import WORDS
from .runs import run_of
from .tile import CHUNK_BYTES

__all__ = ["FORMATS", "MICRO_GROUP", "MICRO_K", "SCALE_BLOCK", "UNIT_SCALES", "MatrixOp", "Microformat", "matrix_op",
           "microscaled_op"]


HALVES = {"f16": fx.Float16, "bf16": fx.BFloat16}


@dataclass(frozen=True)
class MatrixOp:
    """Multiply-accumulate of the chunks of A and B that one call takes.

    Attributes:
        dtype: ``"f16"``, ``"bf16"``, ``"fp8"`` or ``"i8"``, or the types of A and B of microscaled operands.
        k: of one call.
        element_bytes: of A and B.
        groups: lane groups; a block of k has ``16 * groups`` bytes.
        acc_len: accumulator values of a lane.
        integer: the accumulator is i32 rather than f32.
        instructions: of one call, each of which takes a part of every chunk.
        blocks, b_blocks: blocks of k of one call, of A and of B.
        kind: makes the type of the instruction's atom; of a scaled one, ``kind(opsel_a=..., opsel_b=...)`` says which
            part of its words of scales it takes.
        interleaved: the order of B's rows (:class:`.tile.RowTile`).
        scales: of A and B where products have none.
        packed: f32 that a vector instruction of the architecture computes with at once.
    """

    dtype: str
    k: int
    element_bytes: int
    groups: int
    acc_len: int
    integer: bool
    instructions: int
    blocks: int
    b_blocks: int
    kind: Callable[..., Any]
    interleaved: bool = False
    scales: Any = None
    packed: int = 2

    def operand(self, chunks: list[Any]) -> list[Any]:
        """What each instruction of a call takes of the chunks of an operand, vectors of i32. An instruction joins its
        own: joined for several, chunks of fp6 are copied where registers are few."""
        count = self.instructions
        return [[run_of(x, i * (x.numel // count), x.numel // count) if count > 1 else x for x in chunks]
                for i in range(count)]

    def multiply_all(self, products: list[tuple[Any, Any, Any, Any]]) -> list[Any]:
        """``acc + a b`` of several independent (a, b, acc, scales of a and b): operands of :meth:`operand`, and of each
        scale (word, which part of it), or None. Instructions that add to one accumulator are kept apart: the second
        would wait for the first."""
        sums = [acc for _, _, acc, _ in products]
        for i in range(self.instructions):
            sums = [fx.mma_atom_call(self._atom(scales), None, _joined(b[i]), _joined(a[i]), acc)
                    for (a, b, _, scales), acc in zip(products, sums, strict=True)]
        return sums

    def _atom(self, scales: Any) -> Any:
        if not (scales or self.scales):
            return fx.make_mma_atom(self.kind())
        (word_a, part_a), (word_b, part_b) = scales or self.scales
        atom = fx.make_mma_atom(self.kind(opsel_a=part_b, opsel_b=part_a))
        return atom.set_value({"scale_a": word_b, "scale_b": word_a})

    @property
    def block_bytes(self) -> int:
        """Bytes of k of a block."""
        return CHUNK_BYTES * self.groups

    def bytes_of(self, k: int, weights: bool = False) -> int:
        """Of so much k in a row of A, or of the `weights`, B."""
        return k * self.block_bytes * (self.b_blocks if weights else self.blocks) // self.k

    def zero(self) -> Any:
        """A cleared accumulator."""
        return fx.full(self.acc_len, 0, fx.Int32) if self.integer else fx.full(self.acc_len, 0.0, fx.Float32)


def _joined(parts: list[Any]) -> Any:
    """Vectors (a power of two of them) as one; the last of fp6 is half as long."""
    while len(parts) > 1:
        pairs = [(x, y.shuffle(y, [i % y.numel for i in range(x.numel)]), x.numel + y.numel)
                 for x, y in zip(parts[::2], parts[1::2], strict=True)]
        parts = [x.shuffle(y, list(range(size))) for x, y, size in pairs]
    return parts[0]


# ------------------------------------------------------------------------------------------- microscaled


@dataclass(frozen=True)
class Microformat:
    """How 128 k of a microscaled operand lie in memory.

    Attributes:
        name: of its element class.
        step_bytes: of a row.
        words: that a lane of 64 has of a row.
    """

    name: str
    step_bytes: int
    words: int

    @property
    def element(self) -> Any:
        """Its element class."""
        return getattr(fx, self.name)

    @property
    def per_byte(self) -> int:
        """Elements of a byte."""
        return MICRO_K // self.step_bytes

    @property
    def stored(self) -> Any:
        """Class of what it is stored in: bytes of fp6, which are not all of its elements."""
        return fx.Int8 if self.words == 6 else self.element

    def place(self, chunk: Any) -> Any:
        """Word of a row from which chunk `chunk` of a tile is copied to LDS.

        Of each 32 bytes of fp6 the last 8 are nothing, so a lane reads half of its second chunk. Every other of these
        is copied from 8 bytes before, which puts its half in the banks that the others leave.
        """
        return chunk * WORDS - (div(mod(chunk, 4) + 1, 4) * 2 if self.words == 6 else 0)


FORMATS = {"fp8": Microformat("Float8E4M3FN", 128, 8), "fp6": Microformat("Float6E2M3FN", 128, 6),
           "fp4": Microformat("Float4E2M1FN", 64, 4)}
MICRO_K = 128  # of an instruction
MICRO_GROUP = 32  # k of a scale
SCALE_BLOCK = 128  # k, and columns, of an f32 scale behind the instruction
UNIT_SCALES = 0x7F7F7F7F  # e8m0 bytes of 1.0


def microscaled_op(target: Target, a_dtype: str, b_dtype: str) -> MatrixOp:
    """The instruction for operands of ``FORMATS`` with e8m0 scales on `target`. A scale is an i32: of gfx950 (word,
    number of its byte), the byte that of 32 k in a lane; of gfx1250 (four bytes, those of 32 k after each other; which
    half of the lanes has the scales of the operand's 16 rows)."""
    a, b = FORMATS[a_dtype], FORMATS[b_dtype]
    mfma = target.matrix == "mfma"
    groups, acc_len = (4, 4) if mfma else (2, 8)
    instruction: Callable[..., Any] = fx.rocdl.cdna4.MFMA_Scale if mfma else fx.rocdl.WMMAScale
    a_blocks, b_blocks = (kind.step_bytes // (CHUNK_BYTES * groups) for kind in (a, b))
    return MatrixOp(f"{a_dtype} {b_dtype}", MICRO_K, 1, groups, acc_len, False, 1, a_blocks, b_blocks,
                    partial(instruction, 16, 16, MICRO_K, b.element, a.element))


def matrix_op(target: Target, dtype: str, scaled: bool = False) -> MatrixOp:
    """The instruction for 16 x 16 tiles of `dtype` on `target`: it takes a part of each chunk where its k is shorter
    than a block. With a longer k, a lane holds several chunks: with K = 32 of f16, two runs of eight, 32 bytes of k
    apart.

    Args:
        dtype: ``"f16"``, ``"bf16"``, ``"fp8"`` or ``"i8"``.
        scaled: prefer the scaled instruction with K = 128 (fp8 on gfx950; two blocks a call).

    Raises:
        ValueError: the architecture has no such instruction, or the kernels do not use it.
    """
    mfma = target.matrix == "mfma"
    if dtype == "fp8" and scaled and mfma and target.mx:
        return replace(microscaled_op(target, dtype, dtype), dtype=dtype, scales=((UNIT_SCALES, 0), (UNIT_SCALES, 0)))
    element: Any
    byte_k = 32 if mfma else 16
    if dtype in HALVES:
        element, size, k = HALVES[dtype], 2, target.half_k
    elif dtype == "i8" and target.arch != "gfx90a":  # CDNA2 has neither fp8 nor 32 bytes of k in an instruction
        element, size, k = fx.Int8, 1, 64 if target.tensor_moves else byte_k
    elif dtype == "fp8" and target.fp8_name:
        element, size, k = target.fp8, 1, 128 if target.tensor_moves else byte_k
    else:
        raise ValueError(f"no {dtype} matrix instruction of {target.arch} is used by the GEMM kernels")
    groups = 4 if mfma else 1 if target.repeats_operands else 2
    pieces, blocks = max(CHUNK_BYTES * groups // (k * size), 1), max(k * size // (CHUNK_BYTES * groups), 1)
    instruction = fx.rocdl.MFMA if mfma else fx.rocdl.WMMA
    return MatrixOp(dtype, k * pieces, size, groups, 4 if mfma else 8, dtype == "i8", pieces, blocks, blocks,
                    partial(instruction, 16, 16, k, element), interleaved=groups == 1,
                    packed=2 if mfma or target.tensor_moves else 1)
