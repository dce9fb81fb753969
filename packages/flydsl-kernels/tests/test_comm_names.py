"""The classes, functions and arguments of collectives and of the mixture of experts that callers rely on."""

import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")

COUNTERS = True  # nothing is launched in this process
NAMES = {  # module: name: its arguments; * before those that have a name only
    "custom_all_reduce": {
        "init_custom_ar": "meta rank_data handles offsets rank full_nvlink out max_size",
        "meta_size": "",
        "FlyDSLAllreduce": "* group device max_size world_size rank full_nvlink",
        "FlyDSLAllreduce.custom_all_reduce": "self inp * out use_new open_fp8_quant validate stream_ptr",
        "FlyDSLAllreduce.should_custom_ar": "self inp * open_fp8_quant",
        "FlyDSLAllreduce.all_reduce_reg": "self inp out open_fp8_quant",
        "FlyDSLAllreduce.all_gather_reg": "self inp out",
        "FlyDSLAllreduce.capture": "self", "FlyDSLAllreduce.close": "self",
        "make_allreduce_kernels": "* N dtype_str world_size threads",
    },
    "common.communication_ops_utils": {
        "store_i32_system": "addr offset val", "store_i64_global_system": "addr val", "load_i64_global": "addr",
        "fence_system_acquire": "", "fence_system_release": "", "fence_agent_acquire": "", "fence_agent_release": "",
        "atomic_add_agent": "addr val", "atomic_add_system": "addr val",
        "atomic_add_global_at": "addr val syncscope", "atomic_xchg_global_at": "addr val syncscope",
    },
    "comm.transport": {
        "GeometryTuningTable": "dispatch combine",
        "GeometryTuningTable.from_tuning_file":
            "path * dtype hidden_dim zero_copy topk local_expert_num combine_dtype",
        "GeometryTuningTable.lookup": "self phase n",
        "FlyDSLDispatchCombineConfig":
            "rank world_size hidden_dim max_num_inp_token_per_rank num_experts_per_rank num_experts_per_token "
            "data_type dispatch_block_num dispatch_warp_num_per_block combine_block_num combine_warp_num_per_block "
            "tuning_table tuning_config_path scale_dim scale_type_size enable_std_moe zero_copy quant_type "
            "max_total_recv_tokens max_token_type_size dispatch_dtype combine_dtype combine_quant_type "
            "stage2_p2p_quant enable_group_major gm_unit_size gm_scheme gm_compact",
        "FlyDSLDispatchCombineIntraNodeOp": "config",
        "FlyDSLDispatchCombineIntraNodeOp.dispatch": "self input weights scales indices packed_recv_x",
        "FlyDSLDispatchCombineIntraNodeOp.combine": "self input weights indices packed_recv_x cur_tok",
        "FlyDSLDispatchCombineIntraNodeOp.get_registered_combine_input_buffer": "self dtype",
        "FlyDSLDispatchCombineIntraNodeOp.get_dispatch_src_token_pos": "self",
        "FlyDSLDispatchCombineIntraNodeOp.combine_no_stage1": "self",
        "make_dispatch_jit":
            "* rank npes experts_per_rank experts_per_token hidden_dim max_tok_per_rank block_num warp_num_per_block "
            "data_type scale_dim scale_type_size enable_std_moe max_recv",
        "make_combine_jit":
            "* rank npes experts_per_token hidden_dim max_tok_per_rank block_num warp_num_per_block data_type "
            "enable_weights enable_std_moe zero_copy skip_stage1 fp8_direct_cast blockwise_fp8_transport max_recv",
    },
    "mega_moe": {
        "MegaMoEV2":
            "* rank world_size model_dim inter_dim experts topk quant w1 w1_scale w2 w2_scale max_tok_per_rank "
            "mega_scheme swiglu_limit",
        "MegaMoEV2.forward": "self x wts topk_ids * stream slice_output",
        "MegaMoEV2.forward_prequant": "self x_q scales wts topk_ids * stream slice_output",
        "MegaMoEV2.quantize": "self x",
        "select_mega_moe_config": "tokens mtpr * experts_per_rank model_dim inter_dim",
        "MegaMoEConfig": "", "Stage1Config": "", "Stage2Config": "", "compile_gemm1": "*", "gemm1_kernel": None,
        "compile_mega_moe_stage1":
            "* model_dim inter_dim rank experts_per_rank fuse_npes fuse_topk fuse_cap fuse_mtpr fuse_scale_dim "
            "fixed_slot_dispatch sort_block_m tile_n tile_k num_waves num_dispatch_cu swiglu_limit",
        "compile_mega_moe_stage2":
            "* model_dim inter_dim experts topk rank npes max_tok recv_cap comb_inp_nbytes BM BN BK use_nt a_dtype SBM "
            "p2p_quant_type",
    },
    "ops": {
        "all_reduce": "x group", "all_gather": "x group", "reduce_scatter": "x group", "all_to_all": "x group",
        "all_reduce_rmsnorm": "x residual weight eps group",
    },
}


@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_arguments(module, name):
    """All are there, in their order where they may be given by position; ours may have more."""
    found = importlib.import_module(f"flydsl.kernels.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    if NAMES[module][name] is None:
        return
    parameters = inspect.signature(found).parameters
    by_name = False
    for position, argument in enumerate(arguments for arguments in NAMES[module][name].split() if arguments != "*"):
        assert argument in parameters, argument
        by_name = by_name or parameters[argument].kind is inspect.Parameter.KEYWORD_ONLY
        assert by_name or list(parameters)[position] == argument


OPTIONS = {"grid_mult": 8, "pipe_weights": True, "mfma_amajor": False, "swizzle_a": True, "async_a_copy": False,
           "use_tile_resource": True, "waves_per_eu_hint": 2, "num_cu": 256, "b_nt": -1, "work_shards": None,
           "external_grouping": None, "external_counting": None, "payload_chunk_rows": 0, "payload_tile_ready": False}
OPTIONS2 = {"HIDDEN_MAX": 8192, "INTER_MAX": 8192, "persist": False, "cu_num": 0, "has_pad": False, "g2_bhoist": None,
            "g2_ascale_pf": None, "g2_spart": None, "persist_strided": False, "g2_bf16_lds": False,
            "fixed_slot_dispatch": False, "skew_cu": 0}


def test_options_of_the_stages():
    """All that the builders of the stages are called with is taken."""
    from flydsl.kernels.mega_moe import compile_mega_moe_stage1, compile_mega_moe_stage2
    from flydsl.kernels.target import target

    where = target("gfx950")
    first = dict(model_dim=256, inter_dim=256, rank=0, experts_per_rank=3, fuse_npes=2, fuse_topk=3, fuse_cap=0,
                 fuse_mtpr=16, fuse_scale_dim=8, fixed_slot_dispatch=True, target=where)
    assert compile_mega_moe_stage1(**first, **OPTIONS) is compile_mega_moe_stage1(**first)
    second = dict(model_dim=256, inter_dim=256, experts=6, topk=3, rank=0, npes=2, max_tok=16, target=where)
    assert compile_mega_moe_stage2(**second, **OPTIONS2) is compile_mega_moe_stage2(**second)


def test_another_implementation_is_refused(monkeypatch):
    from flydsl.kernels.custom_all_reduce import init_custom_ar

    monkeypatch.setenv("FLYDSL_AITER_IMPL", "aiter")
    with pytest.raises(ValueError, match="FLYDSL_AITER_IMPL=aiter"):
        init_custom_ar(None, None, [None] * 2, [0] * 2, 0, True)
