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
from dataclasses import dataclass
from functools import partial
from typing import Any

import flydsl.expr as fx

from ..target import Target
from .index import cdiv, div, mod
from .memory import WORDS
from .tile import CHUNK_BYTES

__all__ = ["FORMATS", "MatrixOp", "Microformat", "matrix_op", "microscaled_op", "wmma_step"]


HALVES = {"f16": fx.Float16, "bf16": fx.BFloat16}


def _as_it_is(chunks: list[Any]) -> Any:
    return chunks


@dataclass(frozen=True)
class MatrixOp:
    """Multiply-accumulate of the chunks of A and B that one call takes.

    Attributes:
        dtype: ``"f16"``, ``"bf16"``, ``"fp8"`` or ``"i8"``, or the types of A and B of microscaled operands.
        element_bytes: of A and B.
        groups: lane groups; a block of k has ``16 * groups`` bytes.
        acc_len: accumulator values of a lane.
        integer: the accumulator is i32 rather than f32.
        instructions: matrix instructions of one call of `multiply`.
        blocks: blocks of k of one call.
        step: ``(b, a, acc, i, scales) -> acc``, instruction i of a call; a and b are lists of `blocks` vectors of four
            i32, or what `of_a` and `of_b` make of them; `scales` those of b and of a, or None.
        b_blocks: of B, where that is of another type.
        interleaved: the order of B's rows (:class:`.tile.RowTile`).
    """

    dtype: str
    element_bytes: int
    groups: int
    acc_len: int
    integer: bool
    instructions: int
    blocks: int
    step: Callable[[Any, Any, Any, int, Any], Any]
    of_a: Callable[[list[Any]], Any] = _as_it_is
    of_b: Callable[[list[Any]], Any] = _as_it_is
    b_blocks: int = 0
    interleaved: bool = False

    def multiply_all(self, products: list[tuple[Any, Any, Any, Any]]) -> list[Any]:
        """``acc + a b`` of several independent (a, b, acc, scales of a and b). Instructions that add to one accumulator
        are kept apart: the second would wait for the first."""
        sums = [acc for _, _, acc, _ in products]
        for i in range(self.instructions):
            sums = [self.step(b, a, acc, i, scales and scales[::-1])
                    for (a, b, _, scales), acc in zip(products, sums, strict=True)]
        return sums

    @property
    def block_bytes(self) -> int:
        """Bytes of k of a block."""
        return CHUNK_BYTES * self.groups

    @property
    def accumulator(self) -> Any:
        """Element class of the accumulator."""
        return fx.Int32 if self.integer else fx.Float32

    def zero(self) -> Any:
        """A cleared accumulator."""
        return fx.full(self.acc_len, 0 if self.integer else 0.0, self.accumulator)


def _vector(result: Any, like: Any) -> Any:
    return fx.Vector(result, like.shape, like.dtype)


def _parts(chunk: Any, element: Any, count: int) -> list[Any]:
    """The chunk as `count` vectors of `element`."""
    whole = chunk.bitcast(element)
    if count == 1:
        return [whole]
    n = whole.numel // count
    return [whole.shuffle(whole, list(range(i * n, (i + 1) * n))) for i in range(count)]


def _mfma_half(name: str, element: Any, operand: Any, count: int) -> Callable[..., Any]:
    """16-bit MFMA; `operand` is the element class that the instruction's vectors are spelled with."""

    def step(a: list[Any], b: list[Any], acc: Any, i: int, _: Any) -> Any:
        instruction = getattr(fx.rocdl, name)
        x, y = (_parts(v[0], element, count)[i] for v in (a, b))
        x, y = (v if operand is element else v.bitcast(operand) for v in (x, y))
        return _vector(instruction(fx.T.f32x4, [x, y, acc]), acc)

    return step


def _mfma_byte(name: str, result: str) -> Callable[..., Any]:
    """8-bit MFMA with K = 32: the two 8-byte halves of the chunk."""

    def step(a: list[Any], b: list[Any], acc: Any, i: int, _: Any) -> Any:
        instruction = getattr(fx.rocdl, name)
        left, right = a[0].bitcast(fx.Int64), b[0].bitcast(fx.Int64)
        return _vector(instruction(getattr(fx.T, result), [left[i], right[i], acc]), acc)

    return step


UNIT_SCALE = 0x7F7F7F7F  # e8m0 bytes of 1.0
FP8_FORMAT = 0


def _mfma_unit(a: list[Any], b: list[Any], acc: Any, _: int, __: Any) -> Any:
    """Scaled MFMA with K = 128 and unit scales: two chunks of each operand."""
    wide = [x[0].shuffle(x[1], list(range(8))) for x in (a, b)]
    scale = fx.Int32(UNIT_SCALE)
    result = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
        fx.T.f32x4, [*wide, acc, FP8_FORMAT, FP8_FORMAT, 0, scale, 0, scale])
    return _vector(result, acc)


def _joined(parts: list[Any]) -> Any:
    """Vectors of one size (a power of two of them) as one."""
    while len(parts) > 1:
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [x.shuffle(y, list(range(2 * x.numel))) for x, y in pairs]
    return parts[0]


def _call(atom: Any, operands: list[tuple[list[Any], Any]], acc: Any) -> Any:
    """``acc + a b`` by one WMMA; an operand is its chunks, one after the other, and the type of their elements."""
    registers = []
    for chunks, element in operands:
        whole = _joined([chunk.bitcast(element) for chunk in chunks])
        register = fx.make_rmem_tensor(whole.numel, element)
        register.store(whole)
        registers.append(register)
    total = fx.make_rmem_tensor(acc.numel, acc.dtype)
    total.store(acc)
    left, right = registers
    fx.mma_atom_call(atom, total, left, right, total)
    return total.load()


def wmma_step(kind: Callable[[], Any], element: Any, pieces: int = 1) -> Callable[..., Any]:
    """WMMA: an operand is the chunks of a call one after the other, or for each instruction one of their `pieces`."""

    def step(a: list[Any], b: list[Any], acc: Any, i: int, _: Any) -> Any:
        operands = [([_parts(chunk, element, pieces)[i] for chunk in chunks], element) for chunks in (a, b)]
        return _call(fx.make_mma_atom(kind()), operands, acc)

    return step


# ------------------------------------------------------------------------------------------- microscaled


@dataclass(frozen=True)
class Microformat:
    """How 128 k of a microscaled operand lie in memory.

    Attributes:
        code: that of the scaled MFMA.
        step_bytes: of a row.
        words: that a lane of 64 has of a row.
        name: of its element class.
    """

    code: int
    step_bytes: int
    words: int
    name: str = ""

    @property
    def chunks(self) -> int:
        """Of 16 bytes, that a lane of 64 has of a row."""
        return cdiv(self.words, WORDS)

    @property
    def element(self) -> Any:
        """Its element class."""
        return getattr(fx, self.name)

    def place(self, chunk: Any) -> Any:
        """Word of a row from which chunk `chunk` of a tile is copied to LDS.

        Of each 32 bytes of fp6 the last 8 are nothing, so a lane reads half of its second chunk. Every other of these
        is copied from 8 bytes before, which puts its half in the banks that the others leave.
        """
        return chunk * WORDS - (div(mod(chunk, 4) + 1, 4) * 2 if self.words == 6 else 0)

    def operand(self, chunks: list[Any]) -> Any:
        """The eight dwords of the scaled MFMA; those past the format's size are not read."""
        if len(chunks) == 1:
            return chunks[0].shuffle(chunks[0], [0, 1, 2, 3, 0, 1, 2, 3])
        first, second = chunks
        if second.numel < WORDS:
            second = second.shuffle(second, [0, 1, 0, 1])
        return first.shuffle(second, list(range(8)))


FORMATS = {"fp8": Microformat(0, 128, 8, "Float8E4M3FN"), "fp6": Microformat(2, 128, 6),
           "fp4": Microformat(4, 64, 4, "Float4E2M1FN")}


def _mfma_scaled(kinds: tuple[Microformat, Microformat], a: Any, b: Any, acc: Any, _: int, scales: Any) -> Any:
    """Scaled MFMA with K = 128; a scale is (word, number of its byte)."""
    (word_a, byte_a), (word_b, byte_b) = scales
    result = fx.rocdl.mfma_scale_f32_16x16x128_f8f6f4(
        fx.T.f32x4, [a, b, acc, kinds[0].code, kinds[1].code, byte_a, word_a, byte_b, word_b])
    return _vector(result, acc)


def _wmma_scaled(kinds: tuple[Microformat, Microformat], a: Any, b: Any, acc: Any, _: int, scales: Any) -> Any:
    """Scaled WMMA of gfx1250 with K = 128; a scale is (i32 of four e8m0 bytes, those of 32 k after each other; which
    half of the lanes has the scales of the operand's 16 rows). a is the instruction's first operand, as in `kinds`."""
    left, right = (kind.element for kind in kinds)
    (word_a, half_a), (word_b, half_b) = scales
    kind = fx.rocdl.WMMAScale(16, 16, 128, left, right, opsel_a=half_a, opsel_b=half_b)
    atom = fx.make_mma_atom(kind).set_value({"scale_a": word_a, "scale_b": word_b})
    return _call(atom, [(a, left), (b, right)], acc)


def microscaled_op(target: Target, a_dtype: str, b_dtype: str) -> MatrixOp:
    """The instruction for operands of ``FORMATS`` with e8m0 scales on `target`."""
    kinds = FORMATS[a_dtype], FORMATS[b_dtype]
    name = f"{a_dtype} {b_dtype}"
    if target.matrix == "mfma":
        return MatrixOp(name, 1, 4, 4, False, 1, kinds[0].chunks, partial(_mfma_scaled, kinds[::-1]), kinds[0].operand,
                        kinds[1].operand, kinds[1].chunks)
    a_blocks, b_blocks = (kind.step_bytes // (2 * CHUNK_BYTES) for kind in kinds)
    return MatrixOp(name, 1, 2, 8, False, 1, a_blocks, partial(_wmma_scaled, kinds[::-1]), b_blocks=b_blocks)


def _mfma_op(target: Target, dtype: str, scaled: bool) -> MatrixOp | None:
    """The MFMA of a type: operands are cut into pieces where the instruction's k is shorter than a block."""
    if dtype in HALVES and target.half_k == 32:
        step, pieces = _mfma_half(f"mfma_f32_16x16x32_{dtype}", HALVES[dtype], HALVES[dtype], 1), 1
    elif dtype in HALVES:
        name, operand = {"f16": ("f16", fx.Float16), "bf16": ("bf16_1k", fx.Int16)}[dtype]
        step, pieces = _mfma_half(f"mfma_f32_16x16x16{name}", HALVES[dtype], operand, 2), 2
    elif dtype == "fp8" and scaled and target.mx:
        return MatrixOp(dtype, 1, 4, 4, False, 1, 2, _mfma_unit)
    elif dtype == "fp8":
        step, pieces = _mfma_byte("mfma_f32_16x16x32_fp8_fp8", "f32x4"), 2
    elif dtype == "i8":
        step, pieces = _mfma_byte("mfma_i32_16x16x32_i8", "i32x4"), 2
    else:
        return None
    return MatrixOp(dtype, 2 if dtype in HALVES else 1, 4, 4, dtype == "i8", pieces, 1, step)


def _wmma_op(target: Target, dtype: str) -> MatrixOp | None:
    """The WMMA of a type. With a longer k than a block has, a lane holds several of its chunks: with K = 32 of f16,
    two runs of eight, 32 bytes of k apart."""
    if dtype in HALVES:
        element, size, k = HALVES[dtype], 2, target.half_k
    elif dtype == "i8":
        element, size, k = fx.Int8, 1, 64 if target.tensor_moves else 16
    elif dtype == "fp8" and target.fp8_name:
        element, size, k = fx.Float8E4M3FN, 1, 128 if target.tensor_moves else 16
    else:
        return None
    groups = 1 if target.repeats_operands else 2
    pieces, blocks = max(CHUNK_BYTES * groups // (k * size), 1), max(k * size // (CHUNK_BYTES * groups), 1)

    def kind() -> Any:
        signed: dict[str, Any] = dict(elem_ty_acc=fx.Int32, sign_a=True, sign_b=True) if dtype == "i8" else {}
        return fx.rocdl.WMMA(16, 16, k, element, **signed)

    return MatrixOp(dtype, size, groups, 8, dtype == "i8", pieces, blocks, wmma_step(kind, element, pieces),
                    interleaved=groups == 1)


def matrix_op(target: Target, dtype: str, scaled: bool = False) -> MatrixOp:
    """The instruction for 16 x 16 tiles of `dtype` on `target`.

    Args:
        dtype: ``"f16"``, ``"bf16"``, ``"fp8"`` or ``"i8"``.
        scaled: prefer the scaled instruction with K = 128 (fp8 on gfx950; two blocks a call).

    Raises:
        ValueError: the architecture has no such instruction, or the kernels do not use it.
    """
    found = _mfma_op(target, dtype, scaled) if target.matrix == "mfma" else _wmma_op(target, dtype)
    if found is None:
        raise ValueError(f"no {dtype} matrix instruction of {target.arch} is used by the GEMM kernels")
    return found
