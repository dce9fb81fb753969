"""The features of the architecture table, against LLVM's assembler: which processor knows an instruction of each."""

import os
import re
import shutil
import subprocess

import pytest

from flydsl import ir as flyir

LLVM_MC = shutil.which("llvm-mc", path=f"/usr/lib/llvm-22/bin:{os.environ['PATH']}")

#: Left out are groups that the assembler does not tell apart: it takes matrix instructions of gfx120x for gfx1250, and
#: names of barriers for gfx120x.
INSTRUCTIONS = {
    "mfma": "v_mfma_f32_32x32x2f32 a[0:15], v0, v1, a[0:15]",
    "mfma_half_k": "v_mfma_i32_16x16x16i8 a[0:3], v0, v1, a[0:3]",
    "mfma_8bit": "v_mfma_i32_16x16x32_i8 a[0:3], v[0:1], v[2:3], a[0:3]",
    "mfma_wide_k": "v_mfma_f32_16x16x32_f16 a[0:3], v[0:3], v[4:7], a[0:3]",
    "mfma_scale": "v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[4:11], v[12:19], v[20:23], v24, v25",
    "wmma_gfx11": "v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]",
    "wmma_gfx1250": "v_wmma_f32_16x16x32_f16 v[16:23], v[0:7], v[8:15], v[16:23]",
    "wmma_scale": "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[8:23], v[24:39], v[40:47], v48, v49",
    "buffer_lds_dma32": "buffer_load_dword off, s[8:11], s3 lds",
    "buffer_lds_dma128": "buffer_load_dwordx4 off, s[8:11], s3 lds",
    "lds_read_transpose": "ds_read_b64_tr_b16 v[0:1], v2",
    "lds_load_transpose": "ds_load_tr16_b128 v[0:3], v4",
    "async_lds_copy": "global_load_async_to_lds_b32 v1, v[2:3], off",
    "tensor_data_mover": "tensor_load_to_lds s[0:3], s[4:11]",
    "split_barriers": "s_barrier_signal -1",
    "split_wait_counters": "s_wait_loadcnt 0x0",
    "legacy_wait_counter": "s_waitcnt vmcnt(0)",
    "convert_fp8": "v_cvt_pk_fp8_f32 v0, v1, v2",
    "convert_scaled_2": "v_cvt_scalef32_pk_fp4_f32 v0, v1, v2, v3",
    "convert_scaled_8": "v_cvt_scale_pk8_f16_fp8 v[0:3], v[4:5], v6",
    "row_permutes": "v_permlanex16_b32 v0, v1, s2, s3",
    "row_swaps": "v_permlane32_swap_b32 v0, v1",
    "native_tanh": "v_tanh_f32 v0, v1",
    "native_bf16_arith": "v_pk_add_bf16 v0, v1, v2",
    "vgpr_banks": "s_set_vgpr_msb 5",
}


@pytest.mark.skipif(LLVM_MC is None, reason="needs llvm-mc of LLVM 22")
@pytest.mark.parametrize("arch", flyir.ARCH_TABLE)
def test_an_architecture_has_the_features_whose_instructions_it_knows(arch):
    names = list(INSTRUCTIONS)
    run = subprocess.run([LLVM_MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"],
                         input="\n".join(INSTRUCTIONS.values()) + "\n", capture_output=True, text=True)
    refused = {names[int(line) - 1] for line in re.findall(r"^<stdin>:(\d+):\d+: error", run.stderr, re.MULTILINE)}
    assert {name for name in names if flyir.get_arch(arch).has(name)} == set(names) - refused


def test_variants_and_features_of_a_name_are_ignored():
    assert flyir.get_arch("gfx1250-strict") is flyir.get_arch("gfx1250")
    assert flyir.get_arch("gfx942:sramecc+:xnack-") is flyir.get_arch("gfx942")
    with pytest.raises(ValueError, match="unknown architecture 'gfx1'; known: gfx1100"):
        flyir.get_arch("gfx1")
