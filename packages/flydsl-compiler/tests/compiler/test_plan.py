"""Launch plans from host IR, checked by a small evaluator."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl.compiler.plan.host import PlanBuilder, type_width
from flydsl.tracing.diagnostics import DSLCompileError

TENSOR = {
    "kind": "tensor",
    "name": "A",
    "dtype": "f32",
    "rank": 2,
    "shape": [None, None],
    "strides": [None, 1],
    "align": 4,
}
LAYOUT = "!llvm.struct<packed (struct<packed (i32, i32)>, struct<packed (i64)>)>"


def build(body: str, parameters: str, entries: list[dict[str, Any]], kernel: str = "%n: i32") -> dict[str, Any]:
    from flydsl._mlir import ir, passmanager
    from flydsl.compiler.passes.mlir_utils import mlir_context

    text = f"""module attributes {{gpu.container_module}} {{
      gpu.module @kernels {{ gpu.func @k({kernel}) kernel {{ gpu.return }} }}
      func.func @f({parameters}) {{ {body} return }} }}"""
    with mlir_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(convert-scf-to-cf)").run(module.operation)
        function = module.body.operations[1].operation
        return PlanBuilder("f", entries).build(function)


def evaluate(plan: dict[str, Any], args: list[Any]) -> list[tuple[Any, ...]]:
    """Reference evaluator of the integer subset used here; returns the launches."""
    regs: list[int] = [0] * plan["regs"]
    launches, pc = [], 0

    def wrap(value: int, width: int) -> int:
        value &= (1 << width) - 1
        return value - (1 << width) if value >> (width - 1) else value

    while True:
        op, *rest = plan["code"][pc]
        pc += 1
        if op == "ret":
            return launches
        if op == "br":
            pc = rest[0]
        elif op == "cond_br":
            pc = rest[1] if regs[rest[0]] else rest[2]
        elif op == "launch":
            symbol, grid, block, smem, _stream, triples, size, _cluster = rest
            packed = bytearray(size)
            for register, offset, count in triples:
                packed[offset : offset + count] = (regs[register] & ((1 << 8 * count) - 1)).to_bytes(count, "little")
            launches.append(
                (
                    symbol,
                    [regs[g] for g in grid],
                    [regs[b] for b in block],
                    regs[smem] if smem >= 0 else 0,
                    bytes(packed),
                )
            )
        elif op == "const":
            regs[rest[0]] = rest[1]
        elif op in ("arg", "ptr", "stream"):
            regs[rest[0]] = args[rest[1]] if op == "arg" else 0x1000
        elif op in ("shape", "stride"):
            regs[rest[0]] = args[rest[1]][op][rest[2]]
        elif op in ("mov", "sext", "trunc", "zext"):
            regs[rest[0]] = wrap(regs[rest[1]], rest[2]) if op != "mov" else regs[rest[1]]
        elif op == "cmp":
            a, b = regs[rest[2]], regs[rest[3]]
            regs[rest[0]] = int(
                {"slt": a < b, "sgt": a > b, "eq": a == b, "ne": a != b, "sge": a >= b, "sle": a <= b}[rest[1]]
            )
        elif op == "select":
            regs[rest[0]] = regs[rest[2]] if regs[rest[1]] else regs[rest[3]]
        else:
            a, b = regs[rest[1]], regs[rest[2]]
            value = {"add": a + b, "sub": a - b, "mul": a * b}.get(op)
            if value is None:
                value = a // b if op == "floordivs" else -(-a // b)
            regs[rest[0]] = wrap(value, rest[3])


LAUNCH = "gpu.launch_func async [%s] @kernels::@k blocks in (%g, %c1, %c1) threads in (%c64, %c1, %c1) args({})"
CONSTANTS = "%c1 = arith.constant 1 : index %c64 = arith.constant 64 : index "


def test_kernel_arguments_of_a_dynamic_tensor() -> None:
    args = f"%a: !llvm.ptr<1>, %l: {LAYOUT}, %b: i8, %n: i32"
    plan = build(
        CONSTANTS
        + "%g = arith.constant 3 : index %t = "
        + LAUNCH.format(f"%a : !llvm.ptr<1>, %l : {LAYOUT}, %b : i8, %n : i32"),
        args + ", %s: !gpu.async.token",
        [TENSOR, {"kind": "scalar", "name": "b", "type": "i8"}, {"kind": "scalar", "name": "n", "type": "i32"}],
        args,
    )
    ((symbol, grid, block, smem, packed),) = evaluate(plan, [{"shape": [5, 7], "stride": [9, 1]}, 3, 11])
    assert (symbol, grid, block, smem) == ("k", [3, 1, 1], [64, 1, 1], 0)
    # pointer, two i32 extents, one i64 stride, the byte, padding to 4, the i32
    assert packed == b"".join(
        n.to_bytes(w, "little") for n, w in ((0x1000, 8), (5, 4), (7, 4), (9, 8), (3, 1), (0, 3), (11, 4))
    )


@settings(deadline=None, max_examples=20)
@given(st.integers(-100, 100_000), st.integers(0, 5))
def test_host_arithmetic_and_loops(n: int, count: int) -> None:
    plan = build(
        CONSTANTS
        + """
        %c0 = arith.constant 0 : i32 %c64i = arith.constant 64 : i32 %one = arith.constant 1 : i32
        %p = arith.cmpi sgt, %n, %c0 : i32
        scf.if %p {
          %q = arith.ceildivsi %n, %c64i : i32
          %r = scf.for %i = %c0 to %m step %one iter_args(%v = %q) -> (i32) : i32 {
            %g = arith.index_cast %v : i32 to index
            %t = gpu.launch_func async [%s] @kernels::@k blocks in (%g, %c1, %c1) threads in (%c64, %c1,
            %c1) args(%n : i32)
            %w = arith.addi %v, %i : i32
            scf.yield %w : i32
          }
        }""",
        "%n: i32, %m: i32, %s: !gpu.async.token",
        [
            {"kind": "scalar", "name": "n", "type": "i32"},
            {"kind": "scalar", "name": "m", "type": "i32"},
            {"kind": "stream", "name": "s"},
        ],
    )
    expected, grid = [], -(-n // 64)
    for i in range(count if n > 0 else 0):
        expected.append(grid)
        grid += i
    assert [launch[1][0] for launch in evaluate(plan, [n, count, 0])] == expected


def test_struct_values_are_unpacked_and_packed() -> None:
    plan = build(
        CONSTANTS + f"""%g = arith.constant 1 : index
        %x = llvm.extractvalue %l[0, 1] : {LAYOUT}
        %u = llvm.mlir.undef : !llvm.struct<packed (struct<packed (i32)>)>
        %v = llvm.insertvalue %x, %u[0, 0] : !llvm.struct<packed (struct<packed (i32)>)>
        %t = """ + LAUNCH.format("%v : !llvm.struct<packed (struct<packed (i32)>)>"),
        f"%a: !llvm.ptr<1>, %l: {LAYOUT}, %s: !gpu.async.token", [TENSOR], "%v: !llvm.struct<packed (struct<packed "
                                                                           "(i32)>)>",
    )
    assert evaluate(plan, [{"shape": [5, 7], "stride": [9, 1]}])[0][4] == (7).to_bytes(4, "little")


SCALAR_X = [{"kind": "scalar", "name": "x", "type": "f32"}]


def test_unsupported_host_operations_are_named() -> None:
    body = (
        CONSTANTS
        + """%f = math.ipowi %i, %i : i32 %g = arith.index_cast %f : i32 to index
        %t = """
        + LAUNCH.format("%f : i32")
    )
    with pytest.raises(DSLCompileError, match="math.ipowi"):
        build(body, "%i: i32, %s: !gpu.async.token", [{"kind": "scalar", "name": "i", "type": "i32"}])
    # What has an effect may not be left out, although nothing uses a result of it.
    store = "%p = llvm.inttoptr %i : i64 to !llvm.ptr llvm.store %i, %p : i64, !llvm.ptr"
    with pytest.raises(DSLCompileError, match="llvm.store.*belongs into a kernel"):
        build(store, "%i: i64, %s: !gpu.async.token", [{"kind": "scalar", "name": "i", "type": "i64"}])


def test_floats_and_text() -> None:
    body = """%h = arith.constant 0.5 : f32 %y = arith.mulf %x, %h : f32 %r = math.rsqrt %y : f32
        %c = arith.cmpf une, %r, %x : f32 %n = arith.fptosi %r : f32 to i32 %w = arith.extf %r : f32 to f64
        %u = arith.uitofp %n : i32 to f16 vector.print str "x=" vector.print %w : f64 punctuation <comma>
        vector.print %c : i1"""
    plan = build(body, "%x: f32, %s: !gpu.async.token", SCALAR_X)
    assert [i[0] for i in plan["code"]][1:] == [
        "const", "fbin", "fun", "fcmp", "convert", "convert", "convert", "print_text", "print", "print_text", "print",
        "print_text", "ret",
    ]
    kinds = [i[2:] for i in plan["code"] if i[0] in ("fun", "fcmp", "convert")]
    assert kinds[0][0::2] == ["rsqrt", "f32"] and kinds[1][0::3] == ["une", "f32"]
    assert [k[1:] for k in kinds[2:]] == [["f32", "i32"], ["f32", "f64"], ["u32", "f16"]]
    assert [i[1] for i in plan["code"] if i[0] == "print_text"] == ["x=", ", ", "\n"]


def test_type_width() -> None:
    assert [type_width(t) for t in ("i1", "i32", "index", "f16", "bf16", "!llvm.ptr<1>")] == [1, 32, 64, 16, 16, 64]
    with pytest.raises(DSLCompileError):
        type_width("vector<4xf32>")


def test_operations_become_instructions_that_the_runtime_knows():
    """The builder's tables name what the table of the plan has, each function and predicate of it."""
    from flydsl.compiler.plan import host
    from flydsl.runtime import plan

    assert set(host._BINARY.values()) == set(plan.INTEGER_BINARY)
    assert set(host._FLOAT_BINARY.values()) == set(plan.FLOAT_BINARY)
    assert set(host._FLOAT_UNARY.values()) == set(plan.FLOAT_UNARY)


def test_a_plan_is_checked_when_it_is_built(monkeypatch):
    """An instruction that the table does not have stops the compile, not the launch."""
    from flydsl.compiler.plan import host
    from flydsl.runtime.plan import PlanError

    monkeypatch.setitem(host._BINARY, "arith.addi", "plus")
    entry = [{"kind": "scalar", "name": "n", "type": "i32"}]
    body = "%s = arith.addi %n, %n : i32"
    with pytest.raises(PlanError, match=r"code\[1\]: unknown opcode 'plus'"):
        build(body, "%n: i32", entry)
