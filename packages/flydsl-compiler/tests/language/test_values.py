"""Numbers of every class on the device against NumPy: operators with dynamic and static operands, and conversions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.expr as fx

INTEGERS = {f"{u}int{w}": getattr(fx, f"{'Uint' if u else 'Int'}{w}") for u in ("", "u") for w in (8, 16, 32, 64)}
FLOATS = {"float16": fx.Float16, "float32": fx.Float32, "float64": fx.Float64}
COUNT = 64

OPERATORS = ["+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "/"]


def _samples(dtype: str, seed: int) -> np.ndarray:
    """Random numbers with the extremes of the type among them."""
    r = random.Random(seed)
    if dtype.startswith("float"):
        scale = 8.0 if dtype == "float16" else 1000.0
        values = [r.choice([r.uniform(-scale, scale), r.randint(-8, 8), r.gauss(0, 0.01)]) for _ in range(COUNT)]
        values[:6] = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0]
        r.shuffle(values)
        return np.array(values, dtype)
    info = np.iinfo(dtype)
    edges = [info.min, info.min + 1, -1 if info.min else info.max, 0, 1, 2, info.max - 1, info.max]
    values = [r.choice([r.choice(edges), r.randint(-9, 9) if info.min else r.randint(0, 9),
                        r.randint(info.min, info.max)]) for _ in range(COUNT)]
    return np.array(values, dtype)


def _expected(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What Python means by the operator, in the type of the operands."""
    dtype = a.dtype
    with np.errstate(all="ignore"):
        if op == "/" and dtype.kind in "iu":
            wide = np.float64 if dtype.itemsize == 8 else np.float32
            return a.astype(wide) / b.astype(wide)
        if op in ("//", "%") and dtype.kind in "iu":
            info = np.iinfo(dtype)
            exact = [int(x) // int(y) if op == "//" else int(x) % int(y) for x, y in zip(a, b, strict=True)]
            span = 1 << info.bits
            wrapped = [(v - info.min) % span + info.min for v in exact]
            return np.array(wrapped, dtype)
        if op in ("<<", ">>"):
            bits = np.iinfo(dtype).bits
            out = []
            for x, n in zip(a, b, strict=True):
                count = int(n) if 0 <= int(n) < bits else bits
                value = int(x) << count if op == "<<" else int(x) >> count
                out.append((value - np.iinfo(dtype).min) % (1 << bits) + np.iinfo(dtype).min)
            return np.array(out, dtype)
        return eval(f"a {op} b")  # noqa: S307 - the operators above


def _operators_of(dtype: str) -> list[str]:
    return [op for op in OPERATORS if not (dtype.startswith("float") and op in ("&", "|", "^", "<<", ">>"))]


def _result_type(op: str, dtype: str) -> str:
    if op in ("<", "<=", ">", ">=", "==", "!="):
        return "Boolean"
    if op == "/" and not dtype.startswith("float"):
        return "Float64" if dtype.endswith("64") else "Float32"
    return {**INTEGERS, **FLOATS}[dtype].__name__


def _same(got: np.ndarray, want: np.ndarray, what: str) -> None:
    if want.dtype.kind == "f":
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        zero = (got == 0) & (want == 0)
        same &= ~zero | (np.signbit(got) == np.signbit(want))
    else:
        same = got.astype(want.dtype) == want
    where = np.flatnonzero(~same)
    assert where.size == 0, f"{what}: {[(int(i), got[i], want[i]) for i in where[:4]]}"


class _Case:
    """One expression over ``a`` and ``b`` of one dtype, with the array that holds its result."""

    def __init__(self, text: str, want: np.ndarray, what: str) -> None:
        self.text, self.want, self.what = text, want, what


def _cases(dtype: str, a: np.ndarray, b: np.ndarray, r: random.Random) -> list[_Case]:
    cls = {**INTEGERS, **FLOATS}[dtype].__name__
    cases = []
    divides = ("//", "%", "/")
    nonzero = b[b != 0] if dtype[0] == "f" else b
    for op in _operators_of(dtype):
        literal = r.choice([x for x in nonzero.tolist() if x == x and abs(x) < 1e300 and not (op in divides and x == 0)]
                           + [3])
        static = np.full(COUNT, literal, a.dtype)
        shown = f"fx.{cls}({literal!r})"
        divisor = np.where(b == 0, np.array(1, b.dtype), b) if op in divides and dtype[0] != "f" else b
        name = "d" if op in divides and dtype[0] != "f" else "b"
        cases.append(_Case(f"a {op} {name}", _expected(op, a, divisor), f"{dtype}: a {op} b"))
        if not (op in ("<<", ">>") and literal < 0):
            cases.append(_Case(f"a {op} {shown}", _expected(op, a, static), f"{dtype}: a {op} {shown}"))
        cases.append(_Case(f"{shown} {op} {name}", _expected(op, static, divisor), f"{dtype}: {shown} {op} b"))
        if op in divides and dtype[0] not in "fu":
            for power in (4, -4, 7, -7, 1, -1):
                cases.append(_Case(f"a {op} fx.{cls}({power})", _expected(op, a, np.full(COUNT, power, a.dtype)),
                                   f"{dtype}: a {op} {power}"))
        elif dtype[0] == "f" and op in divides:
            cases.append(_Case(f"a {op} fx.{cls}(-0.5)", _expected(op, a, np.full(COUNT, -0.5, a.dtype)),
                               f"{dtype}: a {op} -0.5"))
    with np.errstate(all="ignore"):
        cases.append(_Case("-a", -a, f"{dtype}: -a"))
        cases.append(_Case("abs(a)", abs(a), f"{dtype}: abs(a)"))
        if dtype[0] != "f":
            cases.append(_Case("~a", ~a, f"{dtype}: ~a"))
            cases.append(_Case("fx.max(a, b)", np.maximum(a, b), f"{dtype}: max"))
            cases.append(_Case("fx.min(a, b)", np.minimum(a, b), f"{dtype}: min"))
            for name, other in FLOATS.items():
                cases.append(_Case(f"a.to(fx.{other.__name__})", a.astype(name), f"{dtype} -> {name}"))
            for name, cls_ in INTEGERS.items():
                cases.append(_Case(f"a.to(fx.{cls_.__name__})", a.astype(name), f"{dtype} -> {name}"))
        else:
            for name, other in FLOATS.items():
                cases.append(_Case(f"a.to(fx.{other.__name__})", a.astype(name), f"{dtype} -> {name}"))
    return cases


def _source(cases: list[_Case]) -> str:
    """A kernel with one output array for each dtype of a result; rows are the cases of that dtype."""
    outputs = sorted({c.want.dtype.name for c in cases})
    rows = dict.fromkeys(outputs, 0)
    lines = []
    for case in cases:
        name = case.want.dtype.name
        value = f"({case.text}).to(fx.Uint8)" if name == "bool" else f"({case.text})"
        lines.append(f"    O_{name}[{rows[name]}, t] = {value}")
        rows[name] += 1
    parameters = ", ".join(f"{n}: fx.Tensor" for n in ("A", "B", *(f"O_{o}" for o in outputs)))
    names = ", ".join(("A", "B", *(f"O_{o}" for o in outputs)))
    zero = "    d = (b == 0).select(type(b)(1), b)\n"
    return (f"@flyc.kernel\ndef k({parameters}):\n    t = fx.thread_idx.x\n    a = A[t]\n    b = B[t]\n{zero}"
            + "\n".join(lines) + f"\n\n@flyc.jit\ndef run({parameters}):\n    k({names}).launch(grid=1, block=64)\n"
            )


def _run(load: Callable[[str], Any], a: np.ndarray, b: np.ndarray, cases: list[_Case]) -> None:
    outputs = sorted({c.want.dtype.name for c in cases})
    arrays = {
        n: np.full((sum(c.want.dtype.name == n for c in cases), COUNT), 77, np.uint8 if n == "bool" else n)
        for n in outputs
    }
    load(_source(cases)).run(a, b, *arrays.values())
    rows = dict.fromkeys(outputs, 0)
    for case in cases:
        name = case.want.dtype.name
        got = arrays[name][rows[name]]
        rows[name] += 1
        _same(got.astype(bool) if name == "bool" else got, case.want, case.what)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_operators(dtype: str, load: Callable[[str], Any], device: None) -> None:
    a, b = _samples(dtype, 1), _samples(dtype, 2)
    cases = _cases(dtype, a, b, random.Random(dtype))
    for case in cases:
        assert case.want.dtype.name in ("bool", *INTEGERS, *FLOATS), case.what
    _run(load, a, b, cases)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_a_quotient_by_zero_may_be_discarded(dtype: str, load: Callable[[str], Any], device: None) -> None:
    """The back end must not conclude from a division by b that b never is 0."""
    cls = INTEGERS[dtype].__name__
    b = np.arange(COUNT, dtype=dtype) % 3
    want = {op: _expected(op, np.full(COUNT, 100, dtype), np.maximum(b, 1)) for op in ("//", "%")}
    cases = [_Case(f"(b != 0).select(fx.{cls}(100) {op} b, fx.{cls}(7))", np.where(b == 0, np.array(7, dtype), value),
                   f"{dtype}: 100 {op} b, or 7") for op, value in want.items()]
    cases.append(_Case(f"fx.{cls}(1) >> b", np.array(1, dtype) >> b, f"{dtype}: 1 >> b"))
    _run(load, b, b.copy(), cases)


def test_floats_to_integers(load: Callable[[str], Any], device: None) -> None:
    values = [0.0, -0.0, 1.9, -1.9, -1.5, 127.5, 200.5, 255.9, 300.0, -129.0, 40000.7, -70000.2, 2.0**31, -(2.0**31),
              3e9, -3e9, 5e9, 2.0**63, -(2.0**63), 1e19, 2.0**64, 1e30, -1e30]
    a = np.resize(np.array(values, np.float64), COUNT)
    cases = []
    for name, cls in INTEGERS.items():
        want = np.array([cls(float(x)).value for x in a], name)
        cases.append(_Case(f"a.to(fx.{cls.__name__})", want, f"float64 -> {name}"))
        if cls.width < 64:
            cases.append(_Case(f"a.to(fx.Float32).to(fx.{cls.__name__}).to(fx.Float64)",
                               np.array([float(cls(float(np.float32(x))).value) for x in a]), f"float32 -> {name}"))
        brain = [int(cls(fx.BFloat16(float(x)).value).value) for x in a]
        cases.append(_Case(f"a.to(fx.BFloat16).to(fx.{cls.__name__})", np.array(brain, name), f"bfloat16 -> {name}"))
    _run(load, a, a.copy(), cases)


def test_the_ends_of_64_bits(load: Callable[[str], Any], device: None) -> None:
    """Infinite and negative numbers of narrow floats: the nearest integer."""
    a = np.resize(np.array([np.inf, -np.inf, -3.5, 65504.0, -65504.0, 0.0], np.float16), COUNT)
    cases = []
    for name in ("int64", "uint64"):
        info = np.iinfo(name)
        want = [info.max if x == np.inf else info.min if x == -np.inf else max(int(x), info.min) for x in a]
        for through in ("Float16", "BFloat16"):
            exact = want if through == "Float16" else [{65504: 65536, -65504: -65536}.get(w, w) for w in want]
            text = f"a.to(fx.{through}).to(fx.{'Int64' if name == 'int64' else 'Uint64'})"
            cases.append(_Case(text, np.array(exact, name), f"{through} -> {name}"))
    _run(load, a, a.copy(), cases)


HERE = Path(__file__).parent
GENERATED = ["test_values.py", "test_register_views.py", "test_unsigned.py"]


@pytest.mark.parametrize("arch", ["gfx950", "gfx1201", "gfx1250"])
def test_on_other_architectures(arch: str) -> None:
    run_on(arch, *(HERE / name for name in GENERATED), select="not architectures")


WIDE_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "a + b": lambda a, b: a + b, "a - b": lambda a, b: a - b, "a * b": lambda a, b: a * b,
    "a // b": lambda a, b: a // b, "a % b": lambda a, b: a % b, "fx.ceildiv(a, b)": lambda a, b: -(-a // b),
    "a // fx.Int128(-(1 << 66))": lambda a, _: a // -(1 << 66), "fx.max(a, b)": max, "fx.min(a, b)": min,
    "a >> 67": lambda a, _: a >> 67, "a << 67": lambda a, _: a << 67, "-a": lambda a, _: -a,
    "a ** 3": lambda a, _: a**3, "a ** (a * 0 - 1)": lambda a, _: a if a in (1, -1) else 0,
    "fx.ctpop(a)": lambda a, _: (a % (1 << 128)).bit_count(),
    "a.to(fx.Float64).to(fx.Int128)": lambda a, _: int(float(a)),
}


@pytest.mark.parametrize("text", list(WIDE_OPERATIONS))
def test_integers_of_128_bits(run: Callable[..., np.ndarray], text: str) -> None:
    """A quotient rounded down had the upper 64 bits of a positive number."""
    r, span = random.Random(7), 1 << 128
    a = [r.choice([1, -1, r.randrange(-(1 << 126), 1 << 126) >> r.randrange(126)]) for _ in range(COUNT)]
    b = [r.randrange(-(1 << 126), 1 << 126) >> r.randrange(126) or 1 for _ in range(COUNT)]
    words = [(v % span >> shift) % (1 << 64) for v in (*a, *b) for shift in (0, 64)]
    body = f"""
    wide = fx.PointerType.get(fx.T.i128, fx.AddressSpace.Global, 16)
    p, q = (fx.inttoptr(wide, fx.ptrtoint(fx.get_iter(v))) for v in (X, Y))
    a, b = (p + t).load(), (p + t + {COUNT}).load()
    (q + t).store({text})
    """
    out = run(body, x=np.array(words, np.uint64), y=np.zeros(2 * COUNT, np.uint64)).tolist()
    got = [low | high << 64 for low, high in zip(out[::2], out[1::2], strict=True)]
    assert got == [WIDE_OPERATIONS[text](x, y) % span for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("text", [
    "X", "fx.get_iter(X)", "fx.make_layout((t, 4))", "fx.UniversalCopy32b()", "t", "X.shape",
    "fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32)", "fx.full(4, X[0], fx.Float32)",
])
def test_no_value_is_none(run: Callable[..., np.ndarray], text: str) -> None:
    found = run(f"v = {text}\nY[t] = (3.0 if v == None else 1.0) + (1.0 if v != None else 5.0)")
    assert set(found) == {2.0}
