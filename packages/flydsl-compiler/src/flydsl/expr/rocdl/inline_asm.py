"""Instructions that only inline assembly reaches."""

from __future__ import annotations

from typing import Any

from flydsl._mlir import ir
from flydsl.tracing.lazy import llvm
from flydsl.tracing.locations import dsl_loc_tracing

from .._target import target_row
from ..numeric import Int32
from .utils import call_intrinsic, i32_type, operand

__all__ = ["computed_here", "cvt_off_f32_i4", "cvt_pk_bf16_f32", "scalars_here", "used_here"]


def _asm(result: ir.Type, operands: list[Any], text: str, constraints: str) -> Any:
    return llvm.inline_asm(result, [operand(o) for o in operands], text, constraints, has_side_effects=False)


@dsl_loc_tracing
def cvt_off_f32_i4(src: Any, byte_sel: int | None = None) -> Any:
    """Low nibble of a byte of `src`, as a float with the offset of the instruction (gfx9)."""
    text = "v_cvt_off_f32_i4 $0, $1"
    if byte_sel is not None:
        if byte_sel not in range(4):
            raise ValueError(f"byte_sel is one of the four bytes, 0 to 3, got {byte_sel!r}")
        text = f"v_cvt_off_f32_i4_sdwa $0, $1 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_{byte_sel}"
    return _asm(ir.F32Type.get(), [src], text, "=v,v")


@dsl_loc_tracing
def cvt_pk_bf16_f32(a: Any, b: Any) -> Any:
    """Two f32 as packed bf16, `a` in the low half (gfx950)."""
    return _asm(i32_type(), [a, b], "v_cvt_pk_bf16_f32 $0, $1, $2", "=v,v,v")


@dsl_loc_tracing
def computed_here(word: Any) -> Any:
    """The same 32-bit value (Int32), made in a register before what follows: no instruction, but a use that stays
    here, so what makes the value is not moved behind a branch to another one.

    The compiler cannot look through the result either, which leaves it more registers. But where operands of assembly
    lie in the first 256 of a wave's 1024 registers only (gfx1250), all that an operand is part of would be confined
    with it: there it is a use without assembly.
    """
    value = Int32(word).ir_value()
    if target_row().has("vgpr_banks"):
        call_intrinsic("llvm.fake.use", [value])
        return Int32(value)
    return Int32(llvm.inline_asm(i32_type(), [value], "", "=v,0", has_side_effects=True))


@dsl_loc_tracing
def scalars_here(words: Any) -> Any:
    """The same vector of Int32, which all lanes share, in consecutive scalar registers before what follows. No
    instruction, but the compiler cannot look through it: what is made of the result is not made, and kept, elsewhere.
    """
    value = operand(words)
    return words._like(llvm.inline_asm(value.type, [value], "", "=s,0", has_side_effects=True), words.dtype)


@dsl_loc_tracing
def used_here(*values: Any) -> None:
    """No instruction, but a use of values that all lanes share, in scalar registers: what makes or loads them is not
    moved behind a later branch."""
    llvm.inline_asm(None, [operand(v) for v in values], "", ",".join("s" * len(values)), has_side_effects=True)
