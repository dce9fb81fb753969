"""Launch plans against a reference evaluator written in Python integers."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_plans import HSACO, launch, launch_plan, plan, scalar, tensor, values_plan

from flydsl.runtime import Launcher

BINARY = (
    "add sub mul sdiv srem udiv urem ceildivs ceildivu floordivs mins maxs minu maxu and or xor shl shrs shru".split()
)
PREDICATES = "eq ne slt sle sgt sge ult ule ugt uge".split()


def signed(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def canonical(value: int, width: int) -> int:
    return value & 1 if width == 1 else signed(value, width)


def truncated_division(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def reference_binary(name: str, x: int, y: int, width: int) -> int:
    a, b = signed(x, width), signed(y, width)
    ua, ub = x & ((1 << width) - 1), y & ((1 << width) - 1)
    operations = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "sdiv": lambda: truncated_division(a, b),
        "srem": lambda: a - b * truncated_division(a, b),
        "udiv": lambda: ua // ub,
        "urem": lambda: ua % ub,
        "ceildivs": lambda: -((-a) // b),
        "ceildivu": lambda: -((-ua) // ub),
        "floordivs": lambda: a // b,
        "mins": lambda: min(a, b),
        "maxs": lambda: max(a, b),
        "minu": lambda: min(ua, ub),
        "maxu": lambda: max(ua, ub),
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "shl": lambda: a << ub if ub < width else 0,
        "shrs": lambda: a >> ub,
        "shru": lambda: ua >> ub,
    }
    return canonical(operations[name](), width)


def reference_compare(name: str, x: int, y: int, width: int) -> int:
    a, b = signed(x, width), signed(y, width)
    if name[0] == "u":
        a, b = a & ((1 << width) - 1), b & ((1 << width) - 1)
    results = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    return int(results[name if name in ("eq", "ne") else name[1:]])


def run(*instructions: list[Any], results: list[int]) -> list[int]:
    (record,) = Launcher(values_plan([], *instructions, results=results), b"").evaluate()
    return list(struct.unpack(f"<{len(results)}q", record["kernargs"]))


words = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63), 127, -128, 63, 64, 32, 31]),
)
widths = st.sampled_from([1, 7, 8, 16, 32, 33, 63, 64])


@settings(max_examples=2000, deadline=None)
@given(st.sampled_from(BINARY), words, words, widths)
def test_binary_operations(name: str, x: int, y: int, width: int) -> None:
    instructions = (["const", 0, x], ["const", 1, y], [name, 2, 0, 1, width])
    divides = any(part in name for part in ("div", "rem"))
    if divides and y & ((1 << width) - 1) == 0:
        with pytest.raises(ZeroDivisionError, match=r"f\(\): integer division by zero"):
            run(*instructions, results=[2])
    else:
        assert run(*instructions, results=[2]) == [reference_binary(name, x, y, width)]


@settings(max_examples=500, deadline=None)
@given(st.sampled_from(PREDICATES), words, words, widths)
def test_comparisons(name: str, x: int, y: int, width: int) -> None:
    expected = reference_compare(name, x, y, width)
    code = (["const", 0, x], ["const", 1, y], ["cmp", 2, name, 0, 1, width], ["select", 3, 2, 0, 1])
    assert run(*code, results=[2, 3]) == [expected, x if expected else y]


@settings(max_examples=300, deadline=None)
@given(words, widths)
def test_extensions(x: int, width: int) -> None:
    code = (["const", 0, x], ["sext", 1, 0, width], ["zext", 2, 0, width], ["trunc", 3, 0, width], ["mov", 4, 0])
    unsigned = x & ((1 << width) - 1)
    assert run(*code, results=[1, 2, 3, 4]) == [signed(x, width), signed(unsigned, 64), canonical(x, width), x]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.lists(words, min_size=4, max_size=4))
def test_random_programs(seed: int, inputs: list[int]) -> None:
    """Straight programs of any operations give what the reference computes step by step."""
    generator = random.Random(seed)
    registers = {i: value for i, value in enumerate(inputs)}
    code: list[list[Any]] = [["const", i, value] for i, value in enumerate(inputs)]
    for _ in range(40):
        d, a, b = generator.randrange(14), *generator.choices(sorted(registers), k=2)
        width = generator.choice([1, 8, 16, 32, 64])
        name = generator.choice([*BINARY, "cmp", "select"])
        if name == "select":
            code.append(["select", d, a, b, a])
            registers[d] = registers[b] if registers[a] & 1 else registers[a]
        elif name == "cmp":
            predicate = generator.choice(PREDICATES)
            code.append(["cmp", d, predicate, a, b, width])
            registers[d] = reference_compare(predicate, registers[a], registers[b], width)
        elif ("div" in name or "rem" in name) and registers[b] & ((1 << width) - 1) == 0:
            continue
        else:
            code.append([name, d, a, b, width])
            registers[d] = reference_binary(name, registers[a], registers[b], width)
    wanted = sorted(registers)
    assert run(*code, results=wanted) == [registers[i] for i in wanted]


def test_loop_and_branches() -> None:
    """sum(i * i for i in range(n)), and one launch for each odd i."""
    code = [
        ["const", 0, 0],
        ["const", 1, 1],
        ["arg", 2, 0],
        ["const", 3, 0],  # i
        ["const", 4, 0],  # sum
        ["cmp", 5, "slt", 3, 2, 32],  # 5: head
        ["cond_br", 5, 7, 14],
        ["mul", 6, 3, 3, 32],
        ["add", 4, 4, 6, 32],
        ["trunc", 7, 3, 1],
        ["cond_br", 7, 11, 12],
        launch("odd", (1, 1, 1), (1, 1, 1), args=((4, 0, 4),), size=4),
        ["add", 3, 3, 1, 32],
        ["br", 5],
        ["ret"],
    ]
    launches = Launcher(plan([scalar("n")], code), b"").evaluate(6)
    assert [struct.unpack("<i", record["kernargs"])[0] for record in launches] == [1, 14, 55]


def test_registers_start_at_zero_and_code_may_end_without_ret() -> None:
    assert run(results=[3, 9]) == [0, 0]


def test_assertion() -> None:
    launcher = Launcher(launch_plan([scalar("n")], ["arg", 1, 0], ["assert", 1, "n must be odd"], name="host"), b"")
    assert launcher.evaluate(1) == []
    with pytest.raises(AssertionError, match=r"host\(\): n must be odd"):
        launcher.evaluate(2)


def test_endless_host_loop_can_be_interrupted() -> None:
    import signal

    def stop(*_: object) -> None:
        raise TimeoutError("interrupted")

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        for call in ("evaluate", "__call__"):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(TimeoutError, match="interrupted"):
                getattr(Launcher(launch_plan([], ["br", 1]), HSACO), call)()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


VALID = launch_plan([tensor("A"), scalar("n")], launch())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "reads version 1, the plan is 2"),
        ({"name": 3}, "name: expected a string"),
        ({"regs": -1}, "regs: out of range"),
        ({"args": [{"kind": "tensor", "name": "A"}]}, r"args\[0\]: missing field 'dtype'"),
        ({"args": [tensor("A", "f33")]}, "unknown dtype 'f33'"),
        ({"args": [tensor("A", rank=2, shape=[None])]}, "shape: expected 2 entries"),
        ({"args": [tensor("A", rank=40)]}, "rank must be between"),
        ({"args": [tensor("A", align=3)]}, "align must be a power of two"),
        ({"args": [tensor("A", stored=1)]}, "stored must be a bool"),
        ({"args": [tensor("A", addresses="yes")]}, "addresses must be a bool"),
        ({"args": [tensor("A", shape_div=[0, 1])]}, "divisors must be positive"),
        ({"args": [tensor("A", index_width=16)]}, "index_width must be 32 or 64"),
        ({"args": [scalar("n", "i128")]}, "unknown scalar type 'i128'"),
        ({"args": [{"kind": "list", "name": "x"}]}, "unknown kind 'list'"),
        ({"args": ["A"]}, r"args\[0\]: expected a dictionary"),
        ({"code": [["nop"]]}, r"code\[0\]: unknown opcode 'nop'"),
        ({"code": [[]]}, "empty instruction"),
        ({"code": [["const", 0]]}, r"code\[0\] \(const\): expected 2 operands, got 1"),
        ({"code": [["const", 0, 1 << 70]]}, "does not fit in 64 bits"),
        ({"code": [["const", 16, 1]]}, "register 16 out of range"),
        ({"code": [["mov", 0, -1]]}, "register -1 out of range"),
        ({"code": [["add", 0, 0, 0, 65]]}, "width must be between 1 and 64"),
        ({"code": [["cmp", 0, "lt", 0, 0, 32]]}, "unknown predicate 'lt'"),
        ({"code": [["br", 2]]}, "branch target 2 out of range"),
        ({"code": [["arg", 0, 0]]}, "argument 0 is of another kind"),
        ({"code": [["arg", 0, 7]]}, "argument 7 out of range"),
        ({"code": [["shape", 0, 0, 2]]}, "dimension 2 out of range"),
        ({"code": [["ptr", 0, 1]]}, "argument 1 has no data pointer"),
        ({"code": [launch(args=((0, 0, 3),), size=8)]}, "size must be 1, 2, 4 or 8"),
        ({"code": [launch(args=((0, 4, 8),), size=8)]}, "outside the kernarg segment"),
        ({"code": [launch(args=((0, -1, 8),), size=8)]}, "outside the kernarg segment"),
        ({"code": [launch(grid=(0, 0, 99))]}, "register 99 out of range"),
        ({"code": [launch(cluster=[0])]}, "expected three registers"),
    ],
)
def test_invalid_plans(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"invalid launch plan: .*{message}"):
        Launcher({**VALID, **change}, b"")


def test_plan_survives_json() -> None:
    import json

    Launcher(json.loads(json.dumps(VALID)), b"")
    with pytest.raises(TypeError):
        Launcher([], b"")  # type: ignore[arg-type]
