"""Text and bytes that end MLIR or LLVM: an exception, and the process goes on."""

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
