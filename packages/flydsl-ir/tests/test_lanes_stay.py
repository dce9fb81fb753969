"""What takes all lanes stays where all lanes are, also where only a divergent block uses what is made of its result."""

import pytest

from flydsl import ir as flyir

KERNEL = """
define amdgpu_kernel void @k(<8 x i32> %a, <8 x i32> %b, ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %from = getelementptr i32, ptr addrspace(1) %in, i32 %t
  %x = load i32, ptr addrspace(1) %from
  MADE
  %c = icmp ult i32 %t, 3
  br i1 %c, label %some, label %end
some:
  store i32 %t, ptr addrspace(1) %from
  %d = icmp sgt i32 %x, 0
  br i1 %d, label %fewer, label %end
fewer:
  %p = getelementptr TYPE, ptr addrspace(1) %out, i32 %t
  store TYPE %r, ptr addrspace(1) %p
  br label %end
end:
  ret void
}
"""
MATRIX = """
  %first = call <N x float> @INTRINSIC(<8 x i32> %a, <8 x i32> %b, <N x float> zeroinitializer, i32 0, i32 0, i32 0,
                                       i32 2139062143, i32 0, i32 2139062143)
  %second = call <N x float> @INTRINSIC(<8 x i32> %b, <8 x i32> %a, <N x float> BEFORE, i32 0, i32 0, i32 0,
                                        i32 2139062143, i32 0, i32 2139062143)
"""
# Each product with a factor of its own, as where scales belong to blocks of k.
SCALED = """
  %f = bitcast i32 %x to float
  %v = insertelement <N x float> poison, float %f, i32 0
  %factor = shufflevector <N x float> %v, <N x float> poison, <N x i32> zeroinitializer
  %scaled = call contract <N x float> @llvm.fma(<N x float> %factor, <N x float> %first, <N x float> zeroinitializer)
  %r = call contract <N x float> @llvm.fma(<N x float> %factor, <N x float> %second, <N x float> %scaled)
"""
CHAIN = "%r = select i1 true, <N x float> %second, <N x float> %first"


def lines_of(text: str, arch: str, level: int) -> tuple[list[str], int]:
    """Instructions, and the first one that narrows the mask."""
    lines = flyir.disassemble(flyir.compile_hsaco(text, arch, opt_level=level)).splitlines()
    return lines, next(i for i, line in enumerate(lines) if "saveexec" in line or "v_cmpx" in line)


@pytest.mark.parametrize(("shape", "values"), [("16x16x128", "4"), ("32x32x64", "16")])
@pytest.mark.parametrize(("before", "then"), [("%first", CHAIN), ("zeroinitializer", SCALED)], ids=["chain", "scaled"])
@pytest.mark.parametrize("level", range(4))
def test_no_matrix_instruction_under_a_mask(shape, values, before, then, level):
    name = f"llvm.amdgcn.mfma.scale.f32.{shape}.f8f6f4.v8i32.v8i32"
    made = (MATRIX + then).replace("INTRINSIC", name).replace("BEFORE", before)
    text = KERNEL.replace("MADE", made).replace("TYPE", "<N x float>").replace("<N", f"<{values}")
    lines, mask = lines_of(text, "gfx950", level)
    matrix = [i for i, line in enumerate(lines) if "v_mfma_scale" in line]
    assert len(matrix) == 2 and max(matrix) < mask


@pytest.mark.parametrize(("arch", "call", "mnemonic"), [
    ("gfx1201", "@llvm.amdgcn.permlane64.i32(i32 %x)", "v_permlane64"),
    ("gfx1201", "@llvm.amdgcn.mov.dpp8.i32(i32 %x, i32 1193046)", "dpp8"),
    ("gfx1201", "@llvm.amdgcn.permlane16.var(i32 %x, i32 %x, i32 %t, i1 false, i1 false)", "v_permlane16_var"),
    ("gfx1201", "@llvm.amdgcn.permlanex16.var(i32 %x, i32 %x, i32 %t, i1 false, i1 false)", "v_permlanex16_var"),
    ("gfx1250", "@llvm.amdgcn.permlane.bcast(i32 %x, i32 1, i32 32)", "v_permlane_bcast"),
    ("gfx1250", "@llvm.amdgcn.permlane.up(i32 %x, i32 1, i32 32)", "v_permlane_up"),
    ("gfx1250", "@llvm.amdgcn.permlane.down(i32 %x, i32 1, i32 32)", "v_permlane_down"),
    ("gfx1250", "@llvm.amdgcn.permlane.xor(i32 %x, i32 1, i32 32)", "v_permlane_xor"),
    ("gfx1250", "@llvm.amdgcn.permlane.idx.gen(i32 %x, i32 %t)", "v_permlane_idx_gen"),
])
def test_no_exchange_under_a_mask(arch, call, mnemonic):
    made = f"%got = call i32 {call}\n  %r = add i32 %got, 1"
    lines, mask = lines_of(KERNEL.replace("MADE", made).replace("TYPE", "i32"), arch, 2)
    found = [i for i, line in enumerate(lines) if mnemonic in line]
    assert len(found) == 1 and found[0] < mask
