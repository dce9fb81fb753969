"""f16 and bf16 meet in a fused product: each is read as what it is."""

import re

import pytest

from flydsl import ir as flyir

KERNEL = """
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %at = getelementptr TYPE, ptr addrspace(1) %q, i32 %t
  %narrow = load TYPE, ptr addrspace(1) %at
  %other = load TYPE, ptr addrspace(1) %q
  %x = fpext TYPE %narrow to float
  %y = fpext TYPE %other to float
  %product = fmul contract float %x, %y
  %sum = fadd contract float %product, %x
  %small = fptrunc float %sum to RESULT
  %to = getelementptr RESULT, ptr addrspace(1) %p, i32 %t
  store RESULT %small, ptr addrspace(1) %to
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
"""


def compiled(kind, result, vector):
    text = KERNEL.replace("TYPE", kind).replace("RESULT", result)
    if vector:
        text = re.sub(r"(?<![<\w.])(half|bfloat|float)\b", r"<2 x \1>", text)
    return flyir.disassemble(flyir.compile_hsaco(text, "gfx1250"))


@pytest.mark.parametrize("vector", [False, True])
def test_an_f16_is_converted_before_a_product_rounded_to_bf16(vector):
    text = compiled("half", "bfloat", vector)
    assert "v_fma_mixlo_bf16" not in text and "v_fma_mix_f32_bf16" not in text
    # Each operand is converted, by an instruction of its own or by one that knows f16.
    assert re.search(r"v_cvt_f32_f16|v_fma_mix_f32 ", text)


@pytest.mark.parametrize(("kind", "expected"), [("bfloat", r"v_fma_mix\w*_bf16"), ("half", r"v_fma_mix\w*_f16")])
def test_products_of_one_type_stay_fused(kind, expected):
    assert re.search(expected, compiled(kind, kind, False))
