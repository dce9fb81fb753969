"""Scaled matrix instructions stay where all lanes are, also where only a divergent block uses their result."""

import pytest

from flydsl import ir as flyir

KERNEL = """
define amdgpu_kernel void @k(<8 x i32> %a, <8 x i32> %b, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %first = call <N x float> @INTRINSIC(<8 x i32> %a, <8 x i32> %b, <N x float> zeroinitializer, i32 0, i32 0, i32 0,
                                       i32 2139062143, i32 0, i32 2139062143)
  %r = call <N x float> @INTRINSIC(<8 x i32> %b, <8 x i32> %a, <N x float> %first, i32 0, i32 0, i32 0,
                                   i32 2139062143, i32 0, i32 2139062143)
  %c = icmp ult i32 %t, 3
  br i1 %c, label %some, label %end
some:
  %p = getelementptr <N x float>, ptr addrspace(1) %out, i32 %t
  store <N x float> %r, ptr addrspace(1) %p
  br label %end
end:
  ret void
}
declare i32 @llvm.amdgcn.workitem.id.x()
declare <N x float> @INTRINSIC(<8 x i32>, <8 x i32>, <N x float>, i32, i32, i32, i32, i32, i32)
"""


@pytest.mark.parametrize(("shape", "values"), [("16x16x128", "4"), ("32x32x64", "16")])
@pytest.mark.parametrize("level", range(4))
def test_no_matrix_instruction_under_a_mask(shape, values, level):
    name = f"llvm.amdgcn.mfma.scale.f32.{shape}.f8f6f4.v8i32.v8i32"
    text = KERNEL.replace("INTRINSIC", name).replace("N x", f"{values} x")
    lines = flyir.disassemble(flyir.compile_hsaco(text, "gfx950", opt_level=level)).splitlines()
    matrix = [i for i, line in enumerate(lines) if "v_mfma_scale" in line]
    masks = [i for i, line in enumerate(lines) if "saveexec" in line]
    assert len(matrix) == 2 and masks and max(matrix) < min(masks)
