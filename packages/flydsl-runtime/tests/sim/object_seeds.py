"""Code objects that a fuzzer starts from: each has every structure that a mutation may damage."""

from __future__ import annotations

from hiplib import assemble

ARCHS = ("gfx942", "gfx950", "gfx1201", "gfx1250")

#: Instructions by architecture family whose neighbours in encoding space are worth a visit.
GFX9 = """
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_waitcnt lgkmcnt(0)
  v_lshlrev_b32 v1, 2, v0
  v_and_b32 v1, 0xff, v1
  global_load_dword v2, v1, s[4:5]
  ds_write_b32 v1, v2
  s_barrier
  ds_read_b128 v[8:11], v1
  s_mov_b32 m0, 3
  s_set_gpr_idx_on s2, gpr_idx(SRC0,DST)
  v_mov_b32 v4, v5
  s_set_gpr_idx_off
  v_mfma_f32_16x16x16_f16 v[12:15], v[8:9], v[10:11], v[12:15]
  v_cvt_f32_f16 v3, v2
  v_add_f32_dpp v3, v3, v3 row_shr:1 row_mask:0xf bank_mask:0xf
  v_mov_b32_sdwa v3, v2 dst_sel:BYTE_1 src0_sel:WORD_1
  s_setreg_imm32_b32 hwreg(HW_REG_MODE), 0xf0
  s_getreg_b32 s8, hwreg(HW_REG_STATUS)
  v_div_fmas_f32 v3, v3, v3, v3
  v_readlane_b32 s9, v3, s2
  s_cbranch_scc1 4
  buffer_load_dword v6, v1, s[4:7], 0 offen
  buffer_load_dword v1, s[4:7], 0 offen lds
  scratch_store_dword off, v3, off offset:4
  s_getpc_b64 s[10:11]
  s_movrels_b32 s12, s13
  global_atomic_add v1, v2, s[6:7]
  flat_load_dword v5, v[2:3]
  global_store_dword v1, v2, s[6:7]
"""
GFX12 = """
  s_load_b128 s[4:7], s[0:1], 0x0
  s_wait_kmcnt 0x0
  v_lshlrev_b32 v1, 2, v0
  v_and_b32 v1, 0xff, v1
  global_load_b32 v2, v1, s[4:5]
  ds_store_b32 v1, v2
  s_barrier_signal -1
  s_barrier_wait -1
  ds_load_b128 v[8:11], v1
  s_mov_b32 m0, 3
  v_movrels_b32 v4, v5
  s_barrier_signal m0
  v_cvt_f32_f16 v3, v2
  v_add_f32_dpp v3, v3, v3 row_shr:1 row_mask:0xf bank_mask:0xf
  s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE), 0xf0
  s_getreg_b32 s8, hwreg(HW_REG_WAVE_STATUS)
  v_readlane_b32 s9, v3, s2
  s_cbranch_scc1 4
  scratch_store_b32 off, v3, off offset:4
  s_getpc_b64 s[10:11]
  s_movrels_b32 s12, s13
  global_atomic_add_u32 v1, v2, s[6:7]
  flat_load_b32 v5, v[2:3]
  v_dual_mov_b32 v4, v5 :: v_dual_mov_b32 v7, v6
  global_store_b32 v1, v2, s[6:7]
"""
GFX1250 = """
  s_barrier_init m0
  s_barrier_join m0
  s_barrier_leave
  s_set_vgpr_msb 0xff
  v_mov_b32 v4, v5
  s_set_vgpr_msb 0
  global_load_async_to_lds_b128 v1, v[2:3], off
  cluster_load_async_to_lds_b32 v1, v[2:3], off
  tensor_load_to_lds s[4:7], s[8:15]
  v_wmma_f32_16x16x32_f16 v[16:23], v[0:7], v[8:15], v[16:23]
"""
GFX1201 = """
  v_wmma_f32_16x16x16_f16 v[16:23], v[0:3], v[8:11], v[16:23]
  buffer_load_b32 v6, v1, s[4:7], null offen
"""

HIDDEN = ("hidden_block_count_x", "hidden_group_size_x", "hidden_grid_dims", "hidden_dynamic_lds_size",
          "hidden_printf_buffer", "hidden_hostcall_buffer", "hidden_heap_v1", "hidden_multigrid_sync_arg")


def kernel(arch: str, name: str, code: str) -> str:
    """Assembly of one kernel with its descriptor."""
    directives = {"group_segment_fixed_size": 1024, "private_segment_fixed_size": 64, "kernarg_size": 88,
                  "user_sgpr_kernarg_segment_ptr": 1, "system_vgpr_workitem_id": 0, "next_free_sgpr": 64,
                  "next_free_vgpr": 64}
    if arch.startswith("gfx9"):
        directives["accum_offset"] = 32
    else:
        directives["wavefront_size32"] = 1
    return (f".text\n.globl {name}\n.p2align 8\n.type {name},@function\n{name}:\n{code}\n  s_endpgm\n"
            f".size {name}, .-{name}\n.rodata\n.p2align 6\n.amdhsa_kernel {name}\n"
            + "".join(f"  .amdhsa_{k} {v}\n" for k, v in directives.items()) + ".end_amdhsa_kernel\n")


def metadata(arch: str, names: list[str]) -> str:
    """The metadata note: arguments of all kinds, formats of printf."""
    wave = 32 if arch.startswith("gfx12") else 64
    text = f'.amdgpu_metadata\n---\namdhsa.version: [1, 2]\namdhsa.target: "amdgcn-amd-amdhsa--{arch}"\n'
    text += "amdhsa.printf:\n  - '1:1:4:value %d\\n'\n  - '2:2:8:8:%-8.3f and %s\\n'\namdhsa.kernels:\n"
    for name in names:
        text += (f"  - .name: {name}\n    .symbol: {name}.kd\n    .kernarg_segment_size: 88\n"
                 "    .kernarg_segment_align: 8\n    .group_segment_fixed_size: 1024\n"
                 f"    .private_segment_fixed_size: 64\n    .wavefront_size: {wave}\n    .sgpr_count: 64\n"
                 "    .vgpr_count: 64\n    .max_flat_workgroup_size: 1024\n    .reqd_workgroup_size: [64, 1, 1]\n"
                 "    .args:\n      - {.offset: 0, .size: 8, .value_kind: global_buffer, .address_space: global}\n"
                 "      - {.offset: 8, .size: 8, .value_kind: global_buffer, .address_space: global}\n"
                 "      - {.offset: 16, .size: 4, .value_kind: by_value}\n")
        text += "".join(f"      - {{.offset: {24 + 8 * n}, .size: 8, .value_kind: {kind}}}\n"
                        for n, kind in enumerate(HIDDEN))
    return text + "...\n.end_amdgpu_metadata\n"


def build(arch: str, folder: str) -> bytes:
    """The linked code object of two kernels, a table, a variable and a pointer that needs relocation."""
    code = GFX9 if arch.startswith("gfx9") else GFX12 + (GFX1250 if arch == "gfx1250" else GFX1201)
    text = kernel(arch, "k", code) + kernel(arch, "other", "  s_nop 0")
    text += (".data\n.globl counter\n.type counter,@object\n.p2align 3\ncounter:\n  .quad 41\n.size counter, 8\n"
             ".globl pointer\n.type pointer,@object\npointer:\n  .quad counter\n.size pointer, 8\n")
    return assemble(text + metadata(arch, ["k", "other"]), arch, folder)
