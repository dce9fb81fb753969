"""Floats and text in launch plans, against NumPy in the same precision."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest
from runtime_plans import HSACO, plan, scalar, values_plan

from flydsl.runtime import Launcher

RNG = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 65504.0, 65519.9, 65520.0, 6e-8, 3e-8, 2**-14, 0.1]
SIZES = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def to_bf16(value: float) -> int:
    """Bits of the nearest bfloat16 of a double, ties to even, by exact search among the two neighbours."""
    if math.isnan(value):
        return 0x7FC0
    with np.errstate(over="ignore"):
        bits = int(np.float32(value).view(np.uint32)) >> 16
    candidates = [b for b in (bits - 1, bits, bits + 1) if 0 <= b & 0x7FFF <= 0x7F80]

    def key(b: int) -> tuple[float, int]:
        x = from_bits(b, "bf16")
        distance = 0.0 if x == value else math.inf if math.isinf(x) and abs(value) < 3.3961775e38 else abs(x - value)
        return distance, b & 1

    return min(candidates, key=key)


def from_bits(bits: int, kind: str) -> float:
    if kind == "f16":
        return float(np.uint16(bits & 0xFFFF).view(np.float16))
    if kind == "bf16":
        return float(np.uint32((bits & 0xFFFF) << 16).view(np.float32))
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFFFFF))[0] if kind == "f32" else struct.unpack(
        "<d", struct.pack("<q", bits))[0]


def to_bits(value: float, kind: str) -> int:
    with np.errstate(all="ignore"):
        if kind == "f16":
            return int(np.float16(value).view(np.uint16))
        if kind == "bf16":
            return to_bf16(value)
        return int(np.float32(value).view(np.int32) if kind == "f32" else np.float64(value).view(np.int64))


def run(instructions: list[list[Any]], results: list[int]) -> list[int]:
    (found,) = Launcher(values_plan([], *instructions, results=results), HSACO).evaluate()
    return list(struct.unpack(f"<{len(results)}q", found["kernargs"]))


def same(bits: int, value: float, kind: str) -> bool:
    found = from_bits(bits, kind)
    expected = from_bits(to_bits(value, kind), kind)
    return math.isnan(found) and math.isnan(expected) or struct.pack("<d", found) == struct.pack("<d", expected)


def samples(kind: str) -> list[float]:
    numbers = [*SPECIAL, *RNG.normal(0, 10, 40), *(RNG.normal(0, 1, 20) * 2.0 ** RNG.integers(-30, 30, 20))]
    return [from_bits(to_bits(float(n), kind), kind) for n in numbers]


BINARY = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": np.divide,
    "rem": np.fmod, "minimum": np.minimum, "maximum": np.maximum, "minnum": np.fmin, "maxnum": np.fmax,
    "copysign": np.copysign,
}
UNARY = {
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "roundeven": np.rint,
}


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, kind: str) -> None:
    """Operations that IEEE 754 defines exactly: computed in twice the precision and rounded once."""
    values = samples(kind)
    for a, b in zip(values, reversed(values), strict=True):
        if name in ("minimum", "maximum") and a == b == 0:
            continue  # the sign of zero is tested below
        with np.errstate(all="ignore"):
            expected = float(BINARY[name](np.float64(a), np.float64(b)))
        code = [["const", 0, to_bits(a, kind)], ["const", 1, to_bits(b, kind)], ["fbin", 2, name, 0, 1, kind]]
        assert same(run(code, [2])[0], expected, kind), (name, a, b)


@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, kind: str) -> None:
    for a in samples(kind):
        with np.errstate(all="ignore"):
            expected = float(UNARY[name](np.float64(a)))
        assert same(run([["const", 0, to_bits(a, kind)], ["fun", 1, name, 0, kind]], [1])[0], expected, kind), (name, a)


def test_zeros_are_ordered_and_halves_round_away() -> None:
    zeros = [["const", 0, to_bits(0.0, "f32")], ["const", 1, to_bits(-0.0, "f32")]]
    for a, b in ((0, 1), (1, 0)):
        low, high = run([*zeros, ["fbin", 2, "minimum", a, b, "f32"], ["fbin", 3, "maximum", a, b, "f32"]], [2, 3])
        assert same(low, -0.0, "f32") and same(high, 0.0, "f32")
    for value, expected in ((2.5, 3.0), (-2.5, -3.0), (0.49999997, 0.0)):
        (found,) = run([["const", 0, to_bits(value, "f32")], ["fun", 1, "round", 0, "f32"]], [1])
        assert same(found, expected, "f32")


@pytest.mark.parametrize("name", "rsqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh erf".split())
def test_functions(name: str) -> None:
    special = {"rsqrt": lambda x: 1 / math.sqrt(x), "erf": math.erf}
    reference = special.get(name) or getattr(np, name)
    for value in RNG.uniform(0.1, 5, 20):
        (bits,) = run([["const", 0, to_bits(value, "f64")], ["fun", 1, name, 0, "f64"]], [1])
        assert from_bits(bits, "f64") == pytest.approx(float(reference(value)), rel=1e-14)
    (bits,) = run([["const", 0, to_bits(2.0, "f64")], ["const", 1, to_bits(0.5, "f64")],
                   ["fbin", 2, "pow", 0, 1, "f64"], ["fbin", 3, "atan2", 0, 1, "f64"]], [2])
    assert from_bits(bits, "f64") == pytest.approx(math.sqrt(2))


def test_comparisons() -> None:
    names = "false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno true".split()
    for a in (1.0, 2.0, math.nan, -0.0, 0.0):
        for b in (1.0, math.nan, 0.0):
            unordered = math.isnan(a) or math.isnan(b)
            plain = {"eq": a == b, "gt": a > b, "ge": a >= b, "lt": a < b, "le": a <= b, "ne": a < b or a > b}
            code = [["const", 0, to_bits(a, "f32")], ["const", 1, to_bits(b, "f32")]]
            code += [["fcmp", 2 + i % 8, n, 0, 1, "f32"] for i, n in enumerate(names[:8])]
            found = run(code, list(range(2, 10)))
            found += run(
                code[:2] + [["fcmp", 2 + i, n, 0, 1, "f32"] for i, n in enumerate(names[8:])], list(range(2, 10))
            )
            for name, result in zip(names, found, strict=True):
                expected = {"false": False, "true": True, "ord": not unordered, "uno": unordered}.get(name)
                if expected is None:
                    expected = unordered if name[0] == "u" and unordered else plain[name[1:]]
                assert result == int(expected), (name, a, b)


@pytest.mark.parametrize("to", ["f16", "bf16", "f32", "f64"])
def test_integers_to_floats(to: str) -> None:
    cases = [("i32", -7), ("u32", 0xFFFFFFF0 - 2**32), ("i64", 2**62 + 2**37 + 1), ("u64", -1), ("i1", 1), ("i8", -128)]
    for kind, register in cases:
        width = int(kind[1:])
        value = register & (2**width - 1) if kind[0] == "u" or width == 1 else register
        (bits,) = run([["const", 0, register], ["convert", 1, 0, kind, to]], [1])
        reference = np.float32(value) if to == "f32" else np.float64(value)
        assert same(bits, float(reference), to), (kind, value)


def test_floats_to_integers_and_floats() -> None:
    for value, kind, expected in (
        (3.99, "i32", 3), (-3.99, "i32", -3), (1e20, "i32", 2**31 - 1), (-1e20, "i32", -(2**31)), (math.nan, "i32", 0),
        (4e9, "u32", 4000000000 - 2**32), (-5.0, "u32", 0), (1e30, "u64", -1), (-1e30, "i64", -(2**63)),
        (200.0, "u8", -56), (-200.0, "i8", -128),
    ):
        (found,) = run([["const", 0, to_bits(value, "f64")], ["convert", 1, 0, "f64", kind]], [1])
        assert found == expected, (value, kind)
    for a in SIZES:
        for b in SIZES:
            for value in samples(a):
                (bits,) = run([["const", 0, to_bits(value, a)], ["convert", 1, 0, a, b]], [1])
                assert same(bits, value, b), (a, b, value)


def test_text(capfd: pytest.CaptureFixture[str]) -> None:
    code = [
        ["arg", 0, 0], ["const", 1, to_bits(1.5, "f32")], ["print_text", "n="], ["print", 0, "i32"],
        ["print_text", ", "],
        ["print", 0, "u8"], ["print_text", " "], ["print", 1, "f32"], ["print_text", "\n"], ["ret"],
    ]
    assert Launcher(plan([scalar("n", "i32")], code), HSACO).evaluate(-3) == []
    assert capfd.readouterr().out == "n=-3, 253 1.5\n"


@pytest.mark.parametrize(
    "instruction",
    [["fbin", 0, "plus", 0, 0, "f32"], ["fun", 0, "sqrt", 0, "f8"], ["fcmp", 0, "lt", 0, 0, "f32"],
     ["convert", 0, 0, "i32", "i64"], ["convert", 0, 0, "i31", "f32"], ["print", 0, "ptr"], ["print_text", 3]],
)
def test_unknown_names_are_refused(instruction: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="code"):
        Launcher(plan([], [instruction, ["ret"]]), HSACO)
