"""The expansion of small-float conversions, bit for bit, against the definition of the formats.

The expansion is integer arithmetic, which folds when its operands are constants: the folded constants are compared with
values computed here from exponent, mantissa and bias, and with the nearest of them.
"""

import math
import random
import struct
from dataclasses import dataclass

import pytest

from flydsl._mlir import ir, passmanager


@dataclass(frozen=True)
class Format:
    """One sign bit, then ``exponent`` and ``mantissa`` bits."""

    exponent: int
    mantissa: int
    bias: int
    #: "ieee": the last exponent holds infinity and NaN; "all ones": that code is the only NaN; "minus zero": that code
    #: is the only NaN; "finite": neither.
    special: str

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.mantissa

    def value(self, code: int) -> float:
        sign = -1.0 if code >> (self.width - 1) else 1.0
        magnitude = code & (2 ** (self.width - 1) - 1)
        field, fraction = magnitude >> self.mantissa, magnitude & (2**self.mantissa - 1)
        if self.special == "minus zero" and code == 2 ** (self.width - 1):
            return math.nan
        if self.special == "all ones" and magnitude == 2 ** (self.width - 1) - 1:
            return math.nan
        if self.special == "ieee" and field == 2**self.exponent - 1:
            return math.nan if fraction else sign * math.inf
        if field == 0:
            return sign * fraction * 2.0 ** (1 - self.bias - self.mantissa)
        return sign * (1 + fraction / 2**self.mantissa) * 2.0 ** (field - self.bias)

    def magnitudes(self) -> list[float]:
        """Finite non-negative values by code."""
        values = [self.value(code) for code in range(2 ** (self.width - 1))]
        return [v for v in values if math.isfinite(v)]

    def nearest(self, x: float) -> int:
        """The code that ``x`` is rounded to."""
        finite = self.magnitudes()
        largest, sign = len(finite) - 1, 2 ** (self.width - 1) if math.copysign(1, x) < 0 else 0
        # The number after the largest decides whether x is rounded beyond it.
        step = finite[-1] - finite[-2]
        candidates = [*finite, finite[-1] + step]
        magnitude = abs(x)
        if magnitude >= candidates[-1]:
            code = largest + 1
        else:
            code = min(range(len(candidates)), key=lambda c: (abs(candidates[c] - magnitude), c % 2))
        if code > largest:
            overflow = {"ieee": largest + 1, "all ones": largest + 1, "finite": largest}
            if self.special == "minus zero":
                return 2 ** (self.width - 1)
            return sign | overflow[self.special]
        return 0 if self.special == "minus zero" and code == 0 else sign | code


FORMATS = {
    "f8E5M2": Format(5, 2, 15, "ieee"), "f8E4M3": Format(4, 3, 7, "ieee"), "f8E3M4": Format(3, 4, 3, "ieee"),
    "f8E4M3FN": Format(4, 3, 7, "all ones"), "f8E5M2FNUZ": Format(5, 2, 16, "minus zero"),
    "f8E4M3FNUZ": Format(4, 3, 8, "minus zero"), "f8E4M3B11FNUZ": Format(4, 3, 11, "minus zero"),
    "f6E2M3FN": Format(2, 3, 1, "finite"), "f6E3M2FN": Format(3, 2, 3, "finite"), "f4E2M1FN": Format(2, 1, 1, "finite"),
}


def fold(body: str, count: int, result_type: str) -> list[int]:
    """The constants that %r0, %r1, ... are after expansion and folding."""
    stores = "\n".join(f"llvm.store %r{n}, %p : {result_type}, !llvm.ptr<1>" for n in range(count))
    text = f"gpu.module @m {{ gpu.func @k(%p: !llvm.ptr<1>) kernel {{\n{body}\n{stores}\ngpu.return }} }}"
    values = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name == "llvm.store":
            owner = op.operands[0].owner
            assert owner.name == "arith.constant", f"not folded: {owner}"
            values.append(int(str(owner.attributes["value"]).split()[0]))
        return ir.WalkResult.ADVANCE

    with ir.Context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(fly-expand-math,canonicalize)").run(module.operation)
        module.operation.walk(collect)
    return values


def bits(value: float) -> int:
    return struct.unpack("<I", struct.pack("<f", value))[0]


def narrow(name: str, words: list[int]) -> list[int]:
    """Codes that f32 bit patterns are converted to."""
    width = FORMATS[name].width
    body = "\n".join(
        f"%c{n} = arith.constant 0x{word:08X} : f32\n%s{n} = arith.truncf %c{n} : f32 to {name}\n"
        f"%b{n} = arith.bitcast %s{n} : {name} to i{width}\n%r{n} = arith.extui %b{n} : i{width} to i32"
        for n, word in enumerate(words)
    )
    return fold(body, len(words), "i32")


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_widens_exactly(name):
    form = FORMATS[name]
    count = 2**form.width
    body = "\n".join(
        f"%c{code} = arith.constant {code if code < count // 2 else code - count} : i{form.width}\n"
        f"%s{code} = arith.bitcast %c{code} : i{form.width} to {name}\n%x{code} = arith.extf %s{code} : {name} to f32\n"
        f"%r{code} = arith.bitcast %x{code} : f32 to i32"
        for code in range(count)
    )
    for code, word in enumerate(fold(body, count, "i32")):
        word &= 0xFFFFFFFF
        expected = form.value(code)
        assert (word & 0x7FFFFFFF) > 0x7F800000 if math.isnan(expected) else word == bits(expected), code


@pytest.mark.parametrize("name", FORMATS)
def test_narrowing_rounds_to_nearest_even(name):
    form = FORMATS[name]
    rng = random.Random(name)
    values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 1e-30, -1e-30, 3e38, 2.0**-149]
    finite = form.magnitudes()
    values += [rng.choice((-1, 1)) * 2.0 ** rng.uniform(-20, 18) for _ in range(150)]
    values += [rng.choice((-1, 1)) * (a + b) / 2 for a, b in zip(finite, finite[1:], strict=False)]  # ties
    values += [rng.choice((-1, 1)) * finite[-1] * factor for factor in (1, 1.01, 1.0625, 1.125, 1.25, 2)]
    words = [bits(value) for value in values]
    found = narrow(name, words)
    for word, code in zip(words, found, strict=True):
        value = struct.unpack("<f", struct.pack("<I", word))[0]
        assert code == form.nearest(value), value


@pytest.mark.parametrize("name", FORMATS)
def test_nan_stays_nan_or_becomes_the_largest(name):
    form = FORMATS[name]
    (code,) = narrow(name, [0x7FC00000])
    assert form.value(code) == form.magnitudes()[-1] if form.special == "finite" else math.isnan(form.value(code))


def narrow_e8m0(values: list[float]) -> list[int]:
    body = "\n".join(
        f"%c{n} = arith.constant 0x{bits(value):08X} : f32\n%s{n} = arith.truncf %c{n} : f32 to f8E8M0FNU\n"
        f"%b{n} = arith.bitcast %s{n} : f8E8M0FNU to i8\n%r{n} = arith.extui %b{n} : i8 to i32"
        for n, value in enumerate(values)
    )
    return fold(body, len(values), "i32")


def test_exponents_are_rounded_to_nearest_even():
    """f8E8M0FNU: powers of two; half way is 1.5 times one, whose neighbour with an even significand is the upper."""
    rng = random.Random(8)
    values = [2.0**e * f for e in range(-130, 128) for f in (1, 1.25, 1.5)]
    values += [math.nextafter(2.0**e * 1.5, 0) for e in (-100, 0, 90)]
    values = [struct.unpack("<f", struct.pack("<f", v))[0] for v in values]
    values += [struct.unpack("<f", struct.pack("<I", rng.getrandbits(31)))[0] for _ in range(200)]
    values = [v for v in values if math.isfinite(v)]
    for value, code in zip(values, narrow_e8m0(values), strict=True):
        lower = 0 if value < 2.0**-127 else math.frexp(value)[1] - 1 + 127
        up = value >= 1.5 * 2.0 ** (lower - 127)
        assert code == (lower + up if value >= 2.0**-127 else 0), value


def test_exponents_have_no_sign_no_zero_and_no_infinity():
    assert narrow_e8m0([0.0, -0.0, -1.0, -(2.0**-149), math.inf, -math.inf, math.nan, 3.3e38]) == [
        0, 0, 255, 255, 255, 255, 255, 255]
