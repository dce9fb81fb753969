"""Text and bytes that end MLIR or LLVM: an exception, and the process goes on."""

import io
import random
import shutil
import subprocess

import pytest

import flydsl.ir
from flydsl._mlir import ir
from flydsl.ir import CodegenError, compile_hsaco, disassemble, find_tool

NESTED = "module {\n" + '"a.b"() ({\n' * 4000 + '"a.c"() : () -> ()\n' + "}) : () -> ()\n" * 4000 + "}\n"
EXTRACT = """
llvm.func @f(%a: !llvm.struct<(i32, i32)>) {
  %b = llvm.extractvalue %a[4294967296] : !llvm.struct<(i32, i32)>
  llvm.return
}
"""
LITERAL = '"a.b"() {x = array<index: 1, 2>} : () -> ()'


@pytest.mark.parametrize("text", [NESTED, EXTRACT, LITERAL], ids=["nested", "extractvalue", "literal"])
@pytest.mark.parametrize("how", [ir.Module.parse, ir.Operation.parse])
def test_text_that_ends_the_parser(text, how):
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        with pytest.raises((ValueError, ir.MLIRError)):
            how(text)
        assert ir.Module.parse("module {}")  # the context is as good as before


def test_attribute_that_ends_the_parser():
    with ir.Context(), pytest.raises((ValueError, ir.MLIRError)):
        ir.Attribute.parse("array<index: 1, 2>")


@pytest.mark.parametrize("text", [NESTED, LITERAL], ids=["nested", "literal"])
def test_fly_opt_ends_in_order(text):
    command = [shutil.which("fly-opt") or find_tool("fly-opt"), "-allow-unregistered-dialect"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr[-2000:]


def test_errors_of_the_text_are_those_of_the_parser():
    with ir.Context(), pytest.raises(ir.MLIRError, match="custom op 'nothing' is unknown"):
        ir.Module.parse("nothing")


KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  %v = load <4 x float>, ptr addrspace(1) %p
  %w = fadd <4 x float> %v, %v
  store <4 x float> %w, ptr addrspace(1) %p
  ret void
}
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx1201", "gfx1250"])
def test_disassembly_of_random_bytes(arch):
    """Random words instead of the code: text or an error."""
    image = compile_hsaco(KERNEL, arch)
    size = int.from_bytes(image[60:62], "little")
    table = int.from_bytes(image[40:48], "little")
    rows = [image[table + 64 * n : table + 64 * n + 64] for n in range(size)]
    row = next(r for r in rows if int.from_bytes(r[8:16], "little") & 4)
    start, length = int.from_bytes(row[24:32], "little"), int.from_bytes(row[32:40], "little")
    rng, told = random.Random(arch), 0
    for _ in range(200):
        data = bytearray(image)
        data[start : start + length] = rng.randbytes(length)
        try:
            told += flydsl.ir.disassemble(bytes(data)).count("\n")
        except CodegenError:
            pass
        try:
            disassemble(rng.randbytes(rng.randrange(2000)))
        except (CodegenError, ValueError):
            pass
    assert told


@pytest.mark.parametrize("text", ["tuple<" * 30000 + "i32" + ">" * 30000, "!llvm.struct<" * 300 + "i32" + ">" * 300])
def test_types_that_end_the_parser(text):
    with ir.Context(), pytest.raises((ValueError, ir.MLIRError)):
        ir.Type.parse(text)


def _bytecode(text):
    buffer = io.BytesIO()
    ir.Module.parse(text).operation.write_bytecode(buffer)
    return buffer.getvalue()


FUNCTION = """
func.func @f(%a: i32, %m: memref<4x?xf32>) -> i32 attributes {x = dense<[1, 2, 3]> : tensor<3xi32>, y = [1, "a"]} {
  %b = arith.addi %a, %a : i32
  %l = fly.static : !fly.layout<(4,2):(1,4)>
  return %b : i32
}
"""


@pytest.mark.parametrize("parse", [ir.Module.parse, flydsl.ir.parse_own_bytecode], ids=["checked", "own"])
def test_bytecode_gives_what_was_written(parse):
    with ir.Context():
        assert str(parse(_bytecode(FUNCTION))) == str(ir.Module.parse(FUNCTION))
        assert str(ir.Module.parse(FUNCTION.encode())) == str(ir.Module.parse(FUNCTION))


def test_damaged_bytecode_is_an_error():
    """Random damage: the reader of bytecode writes outside of its memory on some of these."""
    rng = random.Random(3)
    with ir.Context():
        good = _bytecode(FUNCTION)
        refused = 0
        for _ in range(25):
            data = bytearray(good)
            for _ in range(rng.choice([1, 2, 4])):
                data[rng.randrange(8, len(data))] = rng.randrange(256)
            try:
                ir.Module.parse(bytes(data))
            except (ValueError, ir.MLIRError):
                refused += 1
        assert refused
        assert str(ir.Module.parse(good)) == str(ir.Module.parse(FUNCTION))
