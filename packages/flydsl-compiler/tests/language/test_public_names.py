"""The checked list of public names: what the published package exposes can be imported here, with its parameters.

The stable catalogue of `flydsl.expr` and `flydsl.compiler` is in `test_stable_api`; these are the names beyond it that
kernels and tools import, and the parameters of functions in their order.
"""
# ruff: noqa: E501 - one module a line

from __future__ import annotations

import importlib
import importlib.util
import inspect
from typing import Any

import pytest

NAMES = {
    "flydsl.compiler": (
        "BaseBackend CompiledFunction compile_backend_name get_backend GPUTarget register_backend "
        "JitArgumentRegistry from_dlpack from_torch_tensor from_c_void_p jit kernel compile backends link_utils "
        "protocol jit_function kernel_function jit_argument jit_executor ast_rewriter diagnostics extern_link "
        "llvm_options external_llvm mlir_utils "
    ),
    "flydsl.compiler.jit_function": (
        "JitFunction CompiledFunction CompileCallable MlirCompiler JitCacheManager FileLock CacheInfo "
        "EXTRA_SOURCE_DIRS "
    ),
    "flydsl.compiler.kernel_function": (
        "KernelFunction KernelLauncher CompilationContext create_gpu_module create_gpu_func get_gpu_module_body "
        "merge_compile_hints effective_fastmath_hint "
    ),
    "flydsl.compiler.jit_argument": (
        "JitArgumentRegistry MemRefJitArg TorchTensorJitArg DLTensorJitArg PointerJitArg MemRefSpec "
        "resolve_signature convert_to_jit_arguments is_type_param_annotation torch_dtype_to_mlir_type from_dlpack "
        "from_torch_tensor from_c_void_p "
    ),
    "flydsl.compiler.jit_executor": "CompiledArtifact CallState GpuJitModule build_abi_storage",
    "flydsl.compiler.ast_rewriter": (
        "ASTRewriter RewriteBoolOps ReplaceIfWithDispatch InsertEmptyYieldForSCFFor ReplaceYieldWithSCFYield "
        "CanonicalizeWhile FallbackLocations "
    ),
    "flydsl.compiler.diagnostics": (
        "DSLCompileError DiagRecord SourceFrame install_excepthook dsl_ir_diagnostics diag_records_from_mlir_error "
        "warn_annotation_value_mismatch warn_invalid_annotations "
    ),
    "flydsl.compiler.backends": (
        "current_target get_backend GPUTarget register_backend compile_backend_name resolve_llvm_address_space "
        "BaseBackend "
    ),
    "flydsl.compiler.extern_link": (
        "link_extern LinkedExternFunction BoundExternFunction ExternFunction register_extern_resolver "
    ),
    "flydsl.compiler.llvm_options": "llvm_options",
    "flydsl.compiler.external_llvm": "ExternalLLVMError",
    "flydsl.compiler.link_utils": "append_link_options check_bitcode_path",
    "flydsl.compiler.mlir_utils": "",
    "flydsl.compiler.protocol": (
        "DslType JitArgument Storable c_abi_spec cache_signature construct_from_ir_values dsl_align_of dsl_size_of "
        "extract_to_ir_values get_ir_types peek_from_ptr poke_into_ptr "
    ),
    "flydsl.runtime": (
        "COMPILE_BACKEND_TO_RUNTIME_KIND DeviceRuntime RocmDeviceRuntime get_device_runtime "
        "register_device_runtime register_compile_runtime_mapping ensure_compile_runtime_pairing_from_env "
        "ensure_compile_runtime_compatible device device_runtime "
    ),
    "flydsl.runtime.device": (
        "get_rocm_arch get_rocm_device_count is_rdna_arch get_warp_size check_smem_capacity SMEM_CAPACITY_MAP "
    ),
    "flydsl.runtime.device_runtime": "DeviceRuntime get_device_runtime",
    "flydsl.autotune": "Autotuner Config autotune do_bench",
    "flydsl.utils": "env log logger file smem_allocator",
    "flydsl.utils.env": (
        "autotune compile debug runtime ktrace EnvManager OptBool OptInt OptStr OptList DebugEnvManager "
    ),
    "flydsl.utils.logger": "log",
    "flydsl.utils.file": "atomic_write",
    "flydsl.utils.parallel": "run_parallel_jobs",
    "flydsl.utils.smem_allocator": (
        "SmemAllocator SmemPtr check_smem_capacity SMEM_CAPACITY_MAP get_op_result_or_value get_mlir_type_size "
        "get_mlir_type_align get_index_value "
    ),
    "flydsl.expr.meta": "tracing_context tracing_option capture_user_location dsl_loc_tracing dsl_wrap_result",
    "flydsl.expr.extern": "ffi ExternFunction",
    "flydsl.expr.utils": "print_typst lazy_classattr arith",
    "flydsl.expr.utils.arith": "ArithValue _to_raw current_fastmath arith_const",
    "flydsl.expr.rocdl": (
        "cdna3 cdna4 cdna5 rdna3 rdna4 universal inline_asm enum utils cluster tdm_ops experimental SyncScope "
        "TargetAddressSpace AddressSpace s_waitcnt asyncmark wait_asyncmark s_wait_asynccnt BufferCopy "
        "BufferCopy8b BufferCopy16b BufferCopy32b BufferCopy64b BufferCopy128b BufferCopyLDS BufferCopyLDS32b "
        "BufferCopyLDS64b BufferCopyLDS128b BufferAtomic BufferAtomicAdd BufferAtomicMax BufferAtomicMin "
        "BufferAtomicPkAdd MFMA WMMA WMMAScale make_buffer_ptr make_buffer_tensor get_buffer_rsrc s_buffer_load "
        "sched_mfma sched_vmem sched_dsrd sched_dswr TDM make_tdm_atom TensorLoad TensorStore make_tiled_tdm_atom "
        "tdm_partition s_wait_dscnt s_wait_loadcnt s_wait_storecnt s_wait_expcnt s_wait_tensorcnt sched_barrier "
        "sched_group_barrier mask_mfma mask_vmem_rd mask_dsrd mask_dswr s_setprio iglp_opt s_nop s_sleep "
        "disable_xdl_arb_stall s_barrier barrier s_barrier_signal s_barrier_wait s_barrier_init s_barrier_join "
        "s_barrier_leave s_barrier_signal_var s_barrier_signal_isfirst s_get_barrier_state "
        "s_get_named_barrier_state wave_barrier ds_atomic_barrier_arrive_rtn_b64 "
        "ds_atomic_async_barrier_arrive_b64 wave_id cluster_workgroup_id_x cluster_workgroup_id_y "
        "cluster_workgroup_id_z cluster_load_async_to_lds readfirstlane readlane ds_bpermute ballot perm_b32 "
        "update_dpp permlanex16 permlane16_swap permlane32_swap ds_swizzle mbcnt_lo mbcnt_hi cvt_pk_fp8_f32 "
        "cvt_pk_f32_fp8 cvt_scalef32_pk_f32_fp4 cvt_scalef32_pk_bf16_fp4 cvt_scalef32_pk_fp4_f32 rcp "
        "cvt_off_f32_i4 cvt_pk_bf16_f32 exp exp2 log sin cos sqrt rsq tanh fmed3 cvt_pkrtz cvt_f32_fp8 cvt_f32_bf8 "
        "cvt_pk_f32_bf8 cvt_pk_bf8_f32 cvt_sr_fp8_f32 cvt_sr_bf8_f32 raw_ptr_buffer_load raw_ptr_buffer_load_lds "
        "buffer_load_to_lds raw_ptr_buffer_atomic_fadd raw_ptr_buffer_atomic_fmax tensor_load_to_lds "
        "tensor_store_from_lds lds_transpose_load make_buffer_rsrc raw_ptr_buffer_store raw_ptr_buffer_atomic_smax "
        "raw_ptr_buffer_atomic_umin raw_ptr_buffer_atomic_cmpswap global_load_lds load_to_lds "
        "global_load_async_to_lds_b8 global_load_async_to_lds_b32 global_load_async_to_lds_b64 "
        "global_load_async_to_lds_b128 ds_load_tr4_b64 ds_load_tr8_b64 ds_load_tr6_b96 ds_load_tr16_b128 "
        "ds_read_tr4_b64 ds_read_tr8_b64 ds_read_tr6_b96 ds_read_tr16_b64 global_prefetch wavefrontsize "
        "workitem_id_x workgroup_id_x mfma_f32_32x32x8f16 mfma_f32_32x32x8bf16_1k mfma_f32_32x32x16_f16 "
        "mfma_f32_32x32x16_bf16 mfma_f32_16x16x16f16 mfma_f32_16x16x16bf16_1k mfma_f32_16x16x32_fp8_fp8 "
        "mfma_i32_16x16x32_i8 mfma_f32_16x16x32_f16 mfma_f32_16x16x32_bf16 mfma_scale_f32_16x16x128_f8f6f4 "
        "mfma_scale_f32_32x32x64_f8f6f4 wmma_scale_f32_16x16x128_f8f6f4 wmma_scale_f32_32x16x128_f4 "
        "wmma_f32_16x16x128_fp8_fp8 RawPtrBufferLoadOp RawPtrBufferStoreOp "
    ),
    "flydsl.expr.rocdl.cdna3": "s_waitcnt",
    "flydsl.expr.rocdl.rdna3": "s_waitcnt",
    "flydsl.expr.rocdl.rdna4": "s_waitcnt",
    "flydsl.expr.rocdl.cdna4": (
        "BufferLoadAsyncLDS BufferLoadAsyncLDS32b BufferLoadAsyncLDS96b BufferLoadAsyncLDS128b GlobalLoadAsyncLDS "
        "GlobalLoadAsyncLDS32b GlobalLoadAsyncLDS96b GlobalLoadAsyncLDS128b LDSReadTrans LDSReadTrans4_64b "
        "LDSReadTrans8_64b LDSReadTrans6_96b LDSReadTrans16_64b MFMAScale MFMA_Scale cvt_sr_f32_to_bf16 "
    ),
    "flydsl.expr.rocdl.cdna5": "TDM make_tdm_atom TensorLoad TensorStore make_tiled_tdm_atom tdm_partition WMMAScale",
    "flydsl.expr.rocdl.cluster": (
        "CLUSTER_BARRIER_ID CLUSTER_WAIT_ALL is_wave_leader cluster_signal_once_per_wg cluster_wait "
        "cluster_barrier compute_cluster_position compute_mcast_masks "
    ),
    "flydsl.expr.rocdl.tdm_ops": (
        "compute_padding_encoding compute_warp_distribution TDMDescriptor2D TDMGatherDescriptor "
        "make_tensor_descriptor_2d make_tensor_gather_descriptor make_tensor_gather_dgroup0 tensor_load_2d "
        "tensor_store_2d tensor_load_gather tensor_store_gather tensor_wait add_addr_with_carry "
        "update_tensor_descriptor_2d_addr_lo update_tensor_descriptor_2d_addr_lo_hi "
        "update_tensor_descriptor_2d_addr64 update_tensor_gather_descriptor_addr_lo "
        "update_tensor_gather_descriptor_addr_lo_hi update_tensor_gather_descriptor_addr64 "
        "update_tensor_descriptor_2d_lds_addr l2_prefetch_tile PREFETCH_SCOPE_SE PREFETCH_SCOPE_DEVICE "
    ),
    "flydsl.expr.rocdl.experimental": "sched_bank sched_vgpr sched_sgpr sched_agpr",
    "flydsl.expr.rocdl.enum": "SyncScope TargetAddressSpace AddressSpace",
    "flydsl.expr.buffer_ops": (
        "create_llvm_ptr get_element_ptr create_buffer_resource create_buffer_resource_from_addr buffer_load "
        "buffer_store BufferResourceDescriptor extract_base_index "
    ),
    "flydsl.expr.vector": (
        "Vector ReductionOp full full_like zeros_like ones_like empty_like from_elements store load_op extract "
        "bitcast broadcast extract_strided_slice shuffle reduction "
    ),
    "flydsl.expr": (
        "AtomicOrdering AtomicOp minnumf Empty atomic_add atomic_sub atomic_min atomic_max atomic_and atomic_or "
        "atomic_xor atomic_xchg atomic_fmin atomic_fmax atomic_cas generic_load generic_store memory_fence ktrace "
        "coop random thread_id block_id smem_space lds_space block_product default_f8_type ArithValue _to_raw andi "
        "constant index int_to_fp shli sitofp trunc_f unwrap xori vec_broadcast vec_select llvm fmath mem_ops "
        "vector buffer_ops tdm_ops numeric typing enum primitive derived meta extern utils arith gpu math rocdl "
    ),
    "flydsl.expr.coop": (
        "warp_reduce warp_inclusive_scan warp_exclusive_scan warp_scan warp_scan_with_aggregate BlockReduce "
        "BlockScan BlockReduceAlgorithm BlockScanAlgorithm "
    ),
    "flydsl.expr.random": "randint randint4x rand rand4x randn randn4x universal",
    "flydsl.expr.ktrace": (
        "mark range_push range_pop range range_start range_stop Capture collect summary inactive_token capture "
        "tracing_enabled RangeToken "
    ),
    "flydsl.expr.arith": (
        "constant index select unwrap sitofp trunc_f int_to_fp andi xori shli ArithValue _to_raw addf AddFOp "
        "CmpIPredicate CmpFPredicate FastMathFlags RoundingMode select_by_index minnumf "
    ),
    "flydsl.expr.gpu": (
        "shuffle thread_id block_id smem_space lds_space is_wave_leader cluster_signal_once_per_wg cluster_wait "
        "cluster_barrier compute_cluster_position compute_mcast_masks CLUSTER_BARRIER_ID CLUSTER_WAIT_ALL "
    ),
    "flydsl.expr.typing": (
        "Types T CoordSwizzle MmaAtom Float32 Int32 Stream Vector ReductionOp full as_dsl_value as_ir_value "
    ),
    "flydsl.expr.primitive": "get get_ memref_alloca",
    "flydsl._mlir.dialects.fly": "",
    "flydsl._mlir.dialects.fly_rocdl": (
        "TargetAddressSpace AtomStateField get_buffer_rsrc make_tiled_tdm_load_atom make_tiled_tdm_store_atom "
        "tdm_partition_layout "
    ),
    "flydsl._mlir.ir": "",
    "flydsl._mlir.dialects.arith": "",
    "flydsl._mlir.dialects.llvm": "",
    "flydsl._mlir.dialects.vector": "",
    "flydsl._mlir.dialects.scf": "",
    "flydsl._mlir.dialects.math": "",
    "flydsl._mlir.dialects.memref": "",
    "flydsl._mlir.dialects.rocdl": "",
    "flydsl._mlir.dialects.gpu": "",
    "flydsl._mlir.dialects.func": "",
    "flydsl._mlir.dialects.builtin": "",
    "flydsl._mlir.extras.types": "",
    "flydsl._mlir.passmanager": "",
    "flydsl._mlir.dialects.amdgpu": "",
    "flydsl._mlir.dialects.cf": "",
    "flydsl._mlir.dialects.affine": "",
    "flydsl.expr.rocdl.universal": "make_buffer_ptr make_buffer_tensor WMMAScale CopyOpCDNA3BufferCopyType",
}

#: Parameters in the order of the published functions; ours may have more behind them.
PARAMETERS = {
    "flydsl.compiler:kernel": "func name known_block_size",
    "flydsl.compiler:jit": "func",
    "flydsl.compiler:from_dlpack": "tensor assumed_align use_32bit_stride",
    "flydsl.compiler:from_torch_tensor": "tensor assumed_align use_32bit_stride",
    "flydsl.compiler:from_c_void_p": "element_type pointer address_space assumed_align",
    "flydsl.compiler:get_backend": "name arch",
    "flydsl.compiler:register_backend": "name backend_cls force",
    "flydsl.compiler.kernel_function:KernelLauncher.launch": "self grid block smem stream cluster unit_attrs value_attrs",
    "flydsl.compiler.ast_rewriter:ReplaceIfWithDispatch.scf_if_dispatch":
        "cond then_fn else_fn result_names result_values state_names state_values auto_else",
    "flydsl.compiler.ast_rewriter:InsertEmptyYieldForSCFFor.scf_for_dispatch":
        "start stop step body_fn result_names result_values",
    "flydsl.compiler.ast_rewriter:CanonicalizeWhile.scf_while_dispatch": "before_fn after_fn result_names result_values",
    "flydsl.compiler.extern_link:link_extern": "ffi bitcode_path module_init_fn",
    "flydsl.compiler.jit_argument:TorchTensorJitArg": "tensor assumed_align use_32bit_stride dynamic_layout",
    "flydsl.autotune:autotune": "configs key",
    "flydsl.autotune:Autotuner": "fn configs key warmup rep prune_configs_by reset_to_zero restore_value pre_hook post_hook "
        "do_bench default artifact_name validate_hook select_config do_bench_fn",
    "flydsl.autotune:do_bench": "fn warmup rep quantiles",
    "flydsl.utils.smem_allocator:SmemAllocator": "ctx arch global_sym_name",
    "flydsl.utils.smem_allocator:SmemPtr": "base_memref byte_offset element_type shape",
    "flydsl.expr.extern:ffi": "symbol arg_types ret_type is_pure",
    "flydsl.expr:make_copy_atom": "op elem",
    "flydsl.expr:copy": "copy_atom src dst pred",
    "flydsl.expr:copy_atom_call": "copy_atom src dst pred",
    "flydsl.expr:gemm": "mma d a b c traversal_order traversal_layout atom_callback",
    "flydsl.expr:mma_atom_call": "atom d a b c",
    "flydsl.expr:gather": "copy_atom base_iter offset_tensor dst pred",
    "flydsl.expr:scatter": "copy_atom src base_iter offset_tensor pred",
    "flydsl.expr:make_tiled_copy": "copy_atom layout_tv tile_mn",
    "flydsl.expr:make_tiled_copy_tv": "copy_atom thr_layout val_layout",
    "flydsl.expr:make_tiled_mma": "mma_atom atom_layout permutation",
    "flydsl.expr:mma_make_fragment": "operand tiled_mma tensor stages",
    "flydsl.expr:make_ptr": "result_type args dict_attrs",
    "flydsl.expr:ptr_load": "pointer result_type",
    "flydsl.expr:recast_layout": "layout old_bits new_bits",
    "flydsl.expr:append": "base elem n",
    "flydsl.expr:complement": "layout codomain_size",
    "flydsl.expr:coalesce": "layout pattern",
    "flydsl.expr:SharedAllocator": "base_alignment static",
    "flydsl.expr:shuffle_xor": "value offset width",
    "flydsl.expr:atomic_add": "ptr value syncscope ordering",
    "flydsl.expr:atomic_fmax": "ptr value is_positive syncscope ordering",
    "flydsl.expr:atomic_cas": "ptr cmp val syncscope success_ordering failure_ordering weak",
    "flydsl.expr:generic_load": "ptr dtype count memory_order syncscope nontemporal volatile",
    "flydsl.expr:generic_store": "ptr value memory_order syncscope nontemporal volatile",
    "flydsl.expr:memory_fence": "syncscope ordering",
    "flydsl.expr.arith:constant": "value type index",
    "flydsl.expr.arith:unwrap": "value type index",
    "flydsl.expr.buffer_ops:create_llvm_ptr": "value address_space",
    "flydsl.expr.buffer_ops:get_element_ptr": "base_ptr byte_offset static_byte_offset elem_type no_wrap_flags",
    "flydsl.expr.buffer_ops:create_buffer_resource": "memref_val stride max_size num_records_bytes base_byte_offset",
    "flydsl.expr.buffer_ops:create_buffer_resource_from_addr": "addr_i64 num_records_bytes",
    "flydsl.expr.buffer_ops:buffer_load": "rsrc offset vec_width dtype mask cache_modifier soffset_bytes is_scalar",
    "flydsl.expr.buffer_ops:buffer_store": "data rsrc offset mask cache_modifier soffset_bytes offset_is_bytes",
    "flydsl.expr.buffer_ops:BufferResourceDescriptor.from_memref":
        "memref_val stride max_size data_format num_records_bytes base_byte_offset",
    "flydsl.expr.buffer_ops:extract_base_index": "tensor address_space",
    "flydsl.expr.vector:from_elements": "vec_type elems",
    "flydsl.expr.vector:extract": "vector static_position dynamic_position",
    "flydsl.expr.rocdl:make_buffer_ptr": "ptr num_records_bytes",
    "flydsl.expr.rocdl:make_buffer_tensor": "tensor max_size num_records_bytes",
    "flydsl.expr.rocdl:s_buffer_load": "ptr offset count cache_modifier",
    "flydsl.expr.rocdl:s_waitcnt": "bitfield vmcnt lgkmcnt expcnt",
    "flydsl.expr.rocdl.cdna3:s_waitcnt": "vmcnt lgkmcnt expcnt",
    "flydsl.expr.rocdl.rdna4:s_waitcnt": "vmcnt lgkmcnt expcnt",
    "flydsl.expr.rocdl:wait_asyncmark": "count",
    "flydsl.expr.rocdl:sched_group_barrier": "mask size group_id",
    "flydsl.expr.rocdl:BufferCopy": "bit_size cache_modifier",
    "flydsl.expr.rocdl:BufferAtomic": "atomic_op val_type",
    "flydsl.expr.rocdl:MFMA": "m n k elem_ty_ab elem_ty_acc",
    "flydsl.expr.rocdl:WMMA": "m n k elem_ty_ab elem_ty_acc elem_ty_b",
    "flydsl.expr.rocdl:WMMAScale":
        "m n k elem_ty_a elem_ty_b elem_ty_acc opsel_a opsel_b mod_c reuse_a reuse_b block_size",
    "flydsl.expr.rocdl.cdna4:MFMA_Scale": "m n k elem_ty_a elem_ty_b elem_ty_acc opsel_a opsel_b",
    "flydsl.expr.rocdl.cdna4:LDSReadTrans": "trans_granularity bit_size",
    "flydsl.expr.rocdl:TDM": "rank num_warps pad_interval pad_amount cache_modifier atomic_barrier early_timeout",
    "flydsl.expr.rocdl:make_tdm_atom":
        "tensor tensor_extents strides num_warps pad_interval pad_amount cache_modifier atomic_barrier early_timeout",
    "flydsl.expr.rocdl:TensorLoad": "cache_modifier",
    "flydsl.expr.rocdl:make_tiled_tdm_atom":
        "op tensor smem_layout tdm_tile num_warps init_boundary_check atomic_barrier internal_type",
    "flydsl.expr.rocdl:tdm_partition": "atom warp_coord warp_layout stensor gtensor",
    "flydsl.expr.rocdl:readfirstlane": "res src",
    "flydsl.expr.rocdl:readlane": "res src lane",
    "flydsl.expr.rocdl:ds_bpermute": "res index src",
    "flydsl.expr.rocdl:ballot": "res pred",
    "flydsl.expr.rocdl:perm_b32": "hi lo sel",
    "flydsl.expr.rocdl:update_dpp": "res old src dpp_ctrl row_mask bank_mask bound_ctrl",
    "flydsl.expr.rocdl:permlanex16": "res old src0 src1 src2 fi bound_control",
    "flydsl.expr.rocdl:permlane32_swap": "res old src fi bound_control",
    "flydsl.expr.rocdl:ds_swizzle": "res src offset",
    "flydsl.expr.rocdl:cvt_pk_fp8_f32": "res src_a src_b old word_sel",
    "flydsl.expr.rocdl:cvt_pk_f32_fp8": "res src word_sel",
    "flydsl.expr.rocdl:cvt_scalef32_pk_f32_fp4": "res src scale src_sel_index",
    "flydsl.expr.rocdl:cvt_scalef32_pk_fp4_f32": "res old_vdst src0 src1 scale dst_sel_index",
    "flydsl.expr.rocdl.cdna4:cvt_sr_f32_to_bf16": "x rand",
    "flydsl.expr.rocdl:rcp": "res arg",
    "flydsl.expr.rocdl:cvt_off_f32_i4": "src byte_sel",
    "flydsl.expr.rocdl:cvt_pk_bf16_f32": "a b",
    "flydsl.expr.rocdl:raw_ptr_buffer_load": "res rsrc offset soffset aux",
    "flydsl.expr.rocdl:raw_ptr_buffer_store": "vdata rsrc offset soffset aux",
    "flydsl.expr.rocdl:raw_ptr_buffer_load_lds": "rsrc lds_ptr size voffset soffset offset aux",
    "flydsl.expr.rocdl:raw_ptr_buffer_atomic_fadd": "vdata rsrc offset soffset aux",
    "flydsl.expr.rocdl:buffer_load_to_lds": "rsrc lds_ptr voffset size_bytes soffset offset",
    "flydsl.expr.rocdl:tensor_load_to_lds": "dgroup0 dgroup1 dgroup2 dgroup3 dgroup4 cache_policy",
    "flydsl.expr.rocdl:lds_transpose_load": "result_type lds_memref elem_offset elem_bytes",
    "flydsl.expr.rocdl:cluster_load_async_to_lds": "global_ptr lds_ptr size_bytes offset cpol mask",
    "flydsl.expr.rocdl:make_buffer_rsrc": "res base stride num_records flags",
    "flydsl.expr.rocdl:wmma_scale_f32_16x16x128_f8f6f4": "result_type a b c scaleA scaleB fmtA fmtB modC scaleAType "
        "fmtScaleA scaleBType fmtScaleB reuseA reuseB",
    "flydsl.expr.rocdl:wmma_f32_16x16x128_fp8_fp8": "result_type a b c modC reuseA reuseB",
    "flydsl.expr.rocdl.tdm_ops:make_tensor_descriptor_2d": "global_ptr lds_memref global_offset tensor_shape strides "
        "tile_shape elem_bytes pad_interval pad_amount num_warps cache_policy pred workgroup_mask lds_byte_offset for_store "
        "atomic_barrier_enable early_timeout oob_outer_bound oob_inner_bound",
    "flydsl.expr.rocdl.tdm_ops:make_tensor_gather_descriptor": "global_ptr lds_memref row_indices row_width tensor_dim0 "
        "tensor_dim1 stride elem_bytes pad_interval pad_amount index_size gather_tile_dim1 lds_byte_offset "
        "global_byte_offset workgroup_mask",
    "flydsl.expr.rocdl.tdm_ops:l2_prefetch_tile": "global_ptr global_offset tile_shape strides elem_bytes num_warps wave_id "
        "thread_id block_threads scope",
    "flydsl.expr.coop:warp_reduce": "v op width",
    "flydsl.expr.random:randint": "seed offset n_rounds",
    "flydsl.expr.ktrace:mark": "name payload",
    "flydsl.expr.utils:print_typst": "obj color file",
}


def find(path: str) -> Any:
    module, _, names = path.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("module", NAMES)
def test_names(module: str) -> None:
    found = importlib.import_module(module)

    def exists(name: str) -> bool:
        try:
            return hasattr(found, name) or importlib.util.find_spec(f"{module}.{name}") is not None
        except ModuleNotFoundError:
            return False

    assert [name for name in NAMES[module].split() if not exists(name)] == []


@pytest.mark.parametrize("path", PARAMETERS)
def test_parameters(path: str) -> None:
    """As keywords by their published names, as positions in their published order."""
    given = [p for p in inspect.signature(find(path)).parameters.values() if p.kind is not p.VAR_KEYWORD]
    wanted = PARAMETERS[path].split()
    assert [p.name for p in given][: len(wanted)] == wanted
