"""Every matrix instruction with its operands, in memory and as values, against the tables of the manuals."""

import re
from itertools import product

import pytest

from flydsl._mlir import ir, passmanager

F8 = {"f8E4M3FNUZ": "fp8", "f8E4M3FN": "fp8", "f8E5M2FNUZ": "bf8", "f8E5M2": "bf8"}
OCP = {"f8E4M3FN": "fp8", "f8E5M2": "bf8"}
BLOCK_SCALED = {"f8E4M3FN": 8, "f8E5M2": 8, "f6E2M3FN": 6, "f6E3M2FN": 6, "f4E2M1FN": 4}
SIGNS = ", signA = {0}, signB = false, clamp = {0}"
FLOAT, INTEGER = SIGNS.format("false"), SIGNS.format("true")
SIGNED = "signA = true", "clamp = true"


def mfma():
    for m, k, element, name, operand in (
        (16, 4, "f32", "4f32", "f32"), (32, 2, "f32", "2f32", "f32"),
        (16, 16, "f16", "16f16", "vector<4xf16>"), (32, 8, "f16", "8f16", "vector<4xf16>"),
        (16, 32, "f16", "32.f16", "vector<8xf16>"), (32, 16, "f16", "16.f16", "vector<8xf16>"),
        (16, 8, "bf16", "8bf16", "vector<2xi16>"), (32, 4, "bf16", "4bf16", "vector<2xi16>"),
        (16, 16, "bf16", "16bf16.1k", "vector<4xi16>"), (32, 8, "bf16", "8bf16.1k", "vector<4xi16>"),
        (16, 32, "bf16", "32.bf16", "vector<8xbf16>"), (32, 16, "bf16", "16.bf16", "vector<8xbf16>"),
    ):  # fmt: skip
        yield f"cdna3.mfma<{m}x{m}x{k}, ({element}, {element}) -> f32>", f"mfma.f32.{m}x{m}x{name}", operand, operand
    for m, k in ((16, 32), (32, 16)):
        for a, b in product(F8, F8):
            yield f"cdna3.mfma<{m}x{m}x{k}, ({a}, {b}) -> f32>", f"mfma.f32.{m}x{m}x{k}.{F8[a]}.{F8[b]}", "i64", "i64"
        yield f"cdna3.mfma<{m}x{m}x{k}, (i8, i8) -> i32>", f"mfma.i32.{m}x{m}x{k}.i8", "i64", "i64"


def mfma_scale():
    for (m, k), (a, b) in product(((16, 128), (32, 64)), product(BLOCK_SCALED, BLOCK_SCALED)):
        yield (f"cdna4.mfma_scale<{m}x{m}x{k}, ({a}, {b}) -> f32, opselA = 1, opselB = 3>",
               f"mfma.scale.f32.{m}x{m}x{k}.f8f6f4", words(BLOCK_SCALED[a]), words(BLOCK_SCALED[b]))  # fmt: skip


def wmma():
    for arch, element, k, count, operand in (
        ("gfx11", "f16", 16, 16, "f16"), ("gfx11", "bf16", 16, 16, "i16"),
        ("gfx120x", "f16", 16, 8, "f16"), ("gfx120x", "bf16", 16, 8, "i16"), ("gfx1250", "f32", 4, 2, "f32"),
    ):  # fmt: skip
        yield row(arch, k, element, element, "f32", element, f"vector<{count}x{operand}>")
    for element, acc in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("bf16", "bf16")):
        yield row("gfx1250", 32, element, element, acc, element, f"vector<16x{element}>")
    # The signs are those of the flags, whatever the element types say.
    for arch, element, k, count in (
        ("gfx11", "i8", 16, 4), ("gfx11", "ui8", 16, 4), ("gfx11", "si8", 16, 4),
        ("gfx11", "i4", 16, 2), ("gfx11", "ui4", 16, 2), ("gfx11", "si4", 16, 2),
        ("gfx120x", "i8", 16, 2), ("gfx120x", "i4", 16, 1), ("gfx120x", "i4", 32, 2),
        ("gfx1250", "i8", 64, 8), ("gfx1250", "i4", 32, 2),
    ):  # fmt: skip
        yield row(arch, k, element, element, "i32", f"iu{element[-1]}", words(count), INTEGER)
    for a, b in product(OCP, OCP):
        yield row("gfx120x", 16, a, b, "f32", f"{OCP[a]}_{OCP[b]}", words(2))
        for k, acc in product((64, 128), ("f32", "f16")):
            yield row("gfx1250", k, a, b, acc, f"{OCP[a]}_{OCP[b]}", words(k // 8))


def wmma_scale():
    for block, name in ((16, "scale16"), (32, "scale")):
        tail = f" -> f32, opselA = 0, opselB = 1, modC = 0, reuseA = false, reuseB = true, blockSize = {block}>"
        for a, b in product(BLOCK_SCALED, BLOCK_SCALED):
            yield (f"gfx1250.wmma_scale<16x16x128, ({a}, {b}){tail}", f"wmma.{name}.f32.16x16x128.f8f6f4",
                   words(2 * BLOCK_SCALED[a]), words(2 * BLOCK_SCALED[b]))  # fmt: skip
        yield (f"gfx1250.wmma_scale<32x16x128, (f4E2M1FN, f4E2M1FN){tail}", f"wmma.{name}.f32.32x16x128.f4",
               words(16), words(8))  # fmt: skip


def words(count: int) -> str:
    return "i32" if count == 1 else f"vector<{count}xi32>"


def row(arch: str, k: int, a: str, b: str, acc: str, elements: str, operand: str, flags: str = FLOAT):
    return f"{arch}.wmma<16x16x{k}, ({a}, {b}) -> {acc}{flags}>", f"wmma.{acc}.16x16x{k}.{elements}", operand, operand


def bits(text: str) -> int:
    """Of a scalar or vector type."""
    count, element = re.fullmatch(r"(?:vector<(\d+)x)?(\w+?)>?", text).groups()
    return int(count or 1) * int(re.match(r"[a-z]+(\d+)", element)[1])


def functions(number: int, op: str, a: str, b: str) -> str:
    """One call with operands in memory and one with values, which have the elements of the atom."""
    m, n, element_a, element_b, acc = re.search(r"<(\d+)x(\d+)x\d+, \((\w+), (\w+)\) -> (\w+)", op).groups()
    lanes = 64 if op.startswith("cdna") else 32
    counts = [bits(a) // bits(element_a), bits(b) // bits(element_b), int(m) * int(n) // lanes]
    memory = [f"!fly.memref<{e}, register, {c}:1>" for e, c in zip((element_a, element_b, acc), counts, strict=True)]
    values = [f"vector<{c}x{e.lstrip('us') if 'i' in e else e}>"
              for e, c in zip((element_a, element_b, acc), counts, strict=True)]  # fmt: skip
    atom = f"!fly.mma_atom<!fly_rocdl.{op}>"
    arguments = ", ".join(f"%{name}: {t}" for name, t in zip("abc", memory, strict=True))
    scalars = ", ".join(f"%{name}: {t}" for name, t in zip("abc", values, strict=True))
    return f"""
      gpu.func @memory{number}({arguments}) {{
        %m = fly.make_mma_atom : {atom}
        fly.mma_atom_call(%m, %c, %a, %b, %c) : ({", ".join([atom, memory[2], *memory])}) -> ()
        gpu.return
      }}
      gpu.func @values{number}({scalars}) -> {values[2]} {{
        %m = fly.make_mma_atom : {atom}
        %d = fly.mma_atom_call_ssa(%m, %a, %b, %c) : ({", ".join([atom, *values])}) -> {values[2]}
        gpu.return %d : {values[2]}
      }}"""


@pytest.mark.parametrize("table", [mfma, mfma_scale, wmma, wmma_scale])
def test_instructions(ctx, table):
    rows = list(table())
    text = "\n".join(functions(i, op, a, b) for i, (op, _, a, b) in enumerate(rows))
    module = ir.Module.parse(f"gpu.module @m {{ {text} }}")
    passmanager.PassManager.parse("builtin.module(convert-fly-to-rocdl,canonicalize)").run(module.operation)
    calls = re.findall(r"rocdl\.(\S+) (.*)", str(module))
    assert len(calls) == 2 * len(rows)
    control = {mfma: ["i32"] * 3, mfma_scale: ["i32"] * 6, wmma: []}
    for (op, name, a, b), *both in zip(rows, calls[::2], calls[1::2], strict=True):
        scale = "i64" if "blockSize = 16" in op else "i32"
        for found, rest in both:
            accumulator = rest.rpartition(" -> ")[2]
            operands = re.search(r": \((.*)\) ->", rest)[1].split(", ")
            assert (found, operands) == (name, [a, b, accumulator, *control.get(table, [scale] * 2)]), op
            assert all(flag in rest for flag in SIGNED) == (INTEGER in op), op
            assert ("scaleBType = 1" in rest and "reuseB = true" in rest) == (table is wmma_scale), op
