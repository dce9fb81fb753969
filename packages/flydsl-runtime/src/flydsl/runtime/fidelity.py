"""How the simulator computes the instructions that it calls approximate.

"Approximate" means that hardware need not give the same bits: transcendental units, sums inside one dot or
matrix instruction, stochastic rounding, clocks, hardware registers, messages, and instructions of gfx1250 that no
public source describes.
The errors are those of the simulator, in units of the last place of the result's format; a test measures
them against extended precision. The bounds of hardware are those of AMD's instruction set manuals.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["Approximation", "UNITS", "approximation"]


@dataclass(frozen=True)
class Approximation:
    """``how`` an instruction is computed; ``max_ulp`` is the simulator's error (None: it has no such measure);
    ``hardware`` says what the manuals promise of the hardware's result."""

    how: str
    max_ulp: float | None
    hardware: str


_ROUNDED = "computed in {} and rounded to nearest even"
_FLUSHED = _ROUNDED + "; denormal operands and results are zeros of their sign"
_F32 = "within 1 ulp"
_F16 = "within 0.51 ulp"
_F64 = "within 2^-29 of the value (a seed for Newton's method)"

#: Transcendental operations: name without ``v_`` or ``v_s_`` to what they are.
UNITS: dict[str, Approximation] = {
    **{f"{n}_f32": Approximation(_FLUSHED.format("double"), 0.51, _F32) for n in ("exp", "log", "rsq")},
    **{f"{n}_f32": Approximation(_FLUSHED.format("float"), 0.5, _F32) for n in ("rcp", "rcp_iflag", "sqrt")},
    **{f"{n}_legacy_f32": Approximation(_FLUSHED.format("double"), 0.51, _F32) for n in ("exp", "log")},
    **{
        f"{n}_f32": Approximation(
            "the operand, in revolutions, is reduced exactly; computed in double and rounded; beyond 256 revolutions "
            + ("0" if n == "sin" else "1"),
            0.51,
            "an absolute error of about 2^-20",
        )
        for n in ("sin", "cos")
    },
    "tanh_f32": Approximation(_ROUNDED.format("double"), 0.51, _F32),
    **{f"{n}_f64": Approximation(_ROUNDED.format("double"), 0.5, _F64) for n in ("rcp", "sqrt")},
    "rsq_f64": Approximation("the reciprocal of the rounded square root", 1.5, _F64),
    **{f"{n}_f16": Approximation(_ROUNDED.format("float or double"), 0.51, _F16)
       for n in ("exp", "log", "rcp", "rsq", "sqrt", "tanh")},
    **{f"{n}_bf16": Approximation(_ROUNDED.format("float or double"), 0.51, "within 1 ulp")
       for n in ("exp", "log", "rcp", "rsq", "sqrt", "tanh")},
    **{
        f"{n}_{t}": Approximation("the operand, in revolutions, is reduced exactly; computed in double", 0.51, _F16)
        for n in ("sin", "cos")
        for t in ("f16", "bf16")
    },
}

_DOT = Approximation(
    "fused multiply-adds in the order of the elements, the addend first",
    None,
    "the order and the intermediate rounding are not published: about 1 ulp of the largest term",
)
_MATRIX = Approximation(
    "exact products, summed with the addend in the precision of the result's accumulator (f32, f64), rounded to "
    "nearest even; MODE is ignored",
    None,
    "the order of additions is not published: about K * 2^-24 of the sum of the products' magnitudes (f32)",
)
_STOCHASTIC = Approximation(
    "the random bits are added below the mantissa that is kept, then the rest is cut off",
    1.0,
    "the same operation; whether the sum is cut off or rounded is not published unambiguously",
)
_UNCONFIRMED = Approximation(
    "as LLVM's definition and one simulator describe it", None, "no public source confirms the semantics"
)

_HALVES = Approximation(
    "EXEC of one half of the lanes after the other; the register keeps that of the half that waits", None,
    "no compiler emits it; its order was not compared with a second source",
)

_CLOCK = Approximation(
    "the clock of the host: nanoseconds for the clock of the compute unit, 10 ns for the constant one", None,
    "clocks of the device"
)
_REGISTER = Approximation(
    "MODE, STATUS, the size of LDS, the base of private memory and the place in the cluster are the wave's; "
    "HW_ID names the SIMD and the slot of the wave's number, the cycle counter is the host's clock; all others are 0",
    None,
    "which compute unit, SIMD and slot a wave has, and what its other registers hold",
)
_MESSAGE = Approximation("the answer is 0", None, "the answer of the host's driver")
_REGISTERS = Approximation("never refused", None, "a wave may have to wait or be refused")

_GROUPS = (
    (re.compile(r"s_(memtime|memrealtime|get_shader_cycles|sendmsg_rtn_b64)"), _CLOCK),
    (re.compile(r"s_getreg"), _REGISTER),
    (re.compile(r"s_sendmsg_rtn_b32"), _MESSAGE),
    (re.compile(r"s_alloc_vgpr"), _REGISTERS),
    (re.compile(r"v_(mfma|smfmac|wmma|swmmac)"), _MATRIX),
    (re.compile(r"v_(dual_)?dot"), _DOT),
    (re.compile(r"_sr_"), _STOCHASTIC),
    (re.compile(r"s_subvector_loop"), _HALVES),
)


def approximation(mnemonic: str) -> Approximation:
    """What is known of an approximate instruction; ``mnemonic`` without encoding suffix, e.g. ``v_exp_f32``."""
    name = re.sub(r"^v_(s_)?", "", mnemonic)
    if name in UNITS:
        return UNITS[name]
    for pattern, what in _GROUPS:
        if pattern.search(mnemonic):
            return what
    return _UNCONFIRMED
