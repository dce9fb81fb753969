"""Operations of vectors on which LLVM 22 ends: bits of signs of two i32, halves and floats of five to seven lanes."""

import re

import pytest

from flydsl import ir as flyir

KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, <2 x i32> %x) {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %c = icmp slt i32 %t, 5
  %signed = {operation} <2 x i32> %x, splat (i32 {mask})
  %chosen = select i1 %c, <2 x i32> %signed, <2 x i32> zeroinitializer
  store <2 x i32> %chosen, ptr addrspace(1) %p
  ret void
}}
declare i32 @llvm.amdgcn.workitem.id.x()
"""


@pytest.mark.parametrize(("operation", "mask", "modified"), [
    ("and", 0x7FFFFFFF, "|{}|"), ("xor", -(1 << 31), "-{}"), ("or", -(1 << 31), "-|{}|")])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_signs_of_chosen_pairs(operation, mask, modified, arch):
    text = flyir.disassemble(flyir.compile_hsaco(KERNEL.format(operation=operation, mask=mask), arch))
    chosen = [line for line in text.splitlines() if "v_cndmask_b32" in line]
    operand = re.escape(modified).replace(r"\{\}", r"[sv]\d+")
    assert len([line for line in chosen if re.search(f"[ ,]{operand},", line)]) == 2, text


CONVERSION = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) {{
  %v = load <{lanes} x {old}>, ptr addrspace(1) %p
  %w = {operation} <{lanes} x {old}> %v to <{lanes} x {new}>
  store <{lanes} x {new}> %w, ptr addrspace(1) %q
  ret void
}}
"""


@pytest.mark.parametrize("lanes", [5, 6, 7, 9])
@pytest.mark.parametrize(("operation", "old", "new"), [("fpext", "half", "float"), ("fptrunc", "float", "half")])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_conversions_of_odd_lanes(lanes, operation, old, new, arch):
    kernel = CONVERSION.format(lanes=lanes, operation=operation, old=old, new=new)
    text = flyir.disassemble(flyir.compile_hsaco(kernel, arch))
    name = {"half": "f16", "float": "f32"}
    assert len(re.findall(rf"[sv]_cvt_(?:hi_)?{name[new]}_{name[old]}", text)) == lanes, text
