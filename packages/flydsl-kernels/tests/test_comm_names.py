"""The classes, functions and arguments of collectives and of the mixture of experts that callers rely on."""

import ast
import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")

COUNTERS = True  # nothing is launched in this process
NAMES = {  # module: name: its arguments with their defaults; * before those that have a name only
    "custom_all_reduce": {
        "init_custom_ar": "meta rank_data handles offsets rank full_nvlink out=None max_size=134217728",
        "meta_size": "",
        "FlyDSLAllreduce": "* group device max_size world_size rank full_nvlink",
        "FlyDSLAllreduce.custom_all_reduce":
            "self inp * out=None use_new=True open_fp8_quant=False validate=True stream_ptr=None",
        "FlyDSLAllreduce.should_custom_ar": "self inp * open_fp8_quant=False",
        "FlyDSLAllreduce.all_reduce_reg": "self inp out open_fp8_quant=False",
        "FlyDSLAllreduce.all_gather_reg": "self inp out",
        "FlyDSLAllreduce.capture": "self", "FlyDSLAllreduce.close": "self",
        "make_allreduce_kernels": "* N dtype_str world_size threads=512",
    },
    "common.communication_ops_utils": {
        "store_i32_system": "addr offset val", "store_i64_global_system": "addr val", "load_i64_global": "addr",
        "fence_system_acquire": "", "fence_system_release": "", "fence_agent_acquire": "", "fence_agent_release": "",
        "atomic_add_agent": "addr val", "atomic_add_system": "addr val",
        "atomic_add_global_at": "addr val syncscope='one-as'", "atomic_xchg_global_at": "addr val syncscope",
    },
    "comm.transport": {
        "GeometryTuningTable": "dispatch combine",
        "GeometryTuningTable.from_tuning_file":
            "path * dtype hidden_dim zero_copy topk local_expert_num combine_dtype='bf16'",
        "GeometryTuningTable.lookup": "self phase n",
        "FlyDSLDispatchCombineConfig":
            "rank world_size hidden_dim max_num_inp_token_per_rank num_experts_per_rank num_experts_per_token "
            "data_type=None dispatch_block_num=128 dispatch_warp_num_per_block=4 combine_block_num=128 "
            "combine_warp_num_per_block=8 tuning_table=None tuning_config_path=None scale_dim=0 scale_type_size=0 "
            "enable_std_moe=False zero_copy=False quant_type=None max_total_recv_tokens=0 max_token_type_size=0 "
            "dispatch_dtype combine_dtype combine_quant_type stage2_p2p_quant='none' enable_group_major=False "
            "gm_unit_size=0 gm_scheme='fixedslot' gm_compact=False",
        "FlyDSLDispatchCombineIntraNodeOp": "config",
        "FlyDSLDispatchCombineIntraNodeOp.dispatch": "self input weights scales indices packed_recv_x=None",
        "FlyDSLDispatchCombineIntraNodeOp.combine": "self input weights indices packed_recv_x=None cur_tok=None",
        "FlyDSLDispatchCombineIntraNodeOp.get_registered_combine_input_buffer": "self dtype",
        "FlyDSLDispatchCombineIntraNodeOp.get_dispatch_src_token_pos": "self",
        "FlyDSLDispatchCombineIntraNodeOp.combine_no_stage1": "self",
        "make_dispatch_jit":
            "* rank npes experts_per_rank experts_per_token hidden_dim max_tok_per_rank block_num warp_num_per_block "
            "data_type scale_dim=0 scale_type_size=0 enable_std_moe=False max_recv=None",
        "make_combine_jit":
            "* rank npes experts_per_token hidden_dim max_tok_per_rank block_num warp_num_per_block data_type "
            "enable_weights=False enable_std_moe=False zero_copy=False skip_stage1=False fp8_direct_cast=False "
            "blockwise_fp8_transport=False max_recv=None",
    },
    "mega_moe": {
        "MegaMoEV2":
            "* rank world_size model_dim inter_dim experts topk quant='a8w4' w1 w1_scale w2 w2_scale max_tok_per_rank "
            "mega_scheme='fixedslot' swiglu_limit=0.0",
        "MegaMoEV2.forward": "self x_bf16 wts topk_ids * stream=None slice_output=True",
        "MegaMoEV2.forward_prequant": "self x_q scales wts topk_ids * stream=None slice_output=True",
        "MegaMoEV2.quantize": "self x",
        "select_mega_moe_config": "tokens mtpr * experts_per_rank=48 model_dim=7168 inter_dim=3072",
        "MegaMoEConfig": "", "Stage1Config": "", "Stage2Config": "", "compile_gemm1": "*", "gemm1_kernel": None,
        "compile_mega_moe_stage1":
            "* model_dim inter_dim rank experts_per_rank fuse_npes fuse_topk fuse_cap fuse_mtpr fuse_scale_dim "
            "fixed_slot_dispatch sort_block_m=32 tile_n=256 tile_k=256 num_waves=4 grid_mult=8 pipe_weights=True "
            "mfma_amajor=False swizzle_a=True async_a_copy=False use_tile_resource=True waves_per_eu_hint=2 "
            "num_cu=256 num_dispatch_cu=32 b_nt=-1 work_shards=None external_grouping=None external_counting=None "
            "payload_chunk_rows=0 payload_tile_ready=False swiglu_limit=0.0",
        "compile_mega_moe_stage2":
            "* model_dim inter_dim experts topk rank npes max_tok recv_cap=None comb_inp_nbytes=None BM=32 BN=256 "
            "BK=256 use_nt=True HIDDEN_MAX=8192 INTER_MAX=8192 a_dtype='fp8' SBM=None persist=False cu_num=0 "
            "has_pad=False g2_bhoist=None g2_ascale_pf=None g2_spart=None persist_strided=False g2_bf16_lds=False "
            "p2p_quant_type='none' fixed_slot_dispatch=False skew_cu=0",
    },
    "ops": {
        "all_reduce": "x group=None", "all_gather": "x group=None", "reduce_scatter": "x group=None",
        "all_to_all": "x group=None", "all_reduce_rmsnorm": "x residual weight eps group=None",
    },
}


@pytest.mark.one_arch
@pytest.mark.parametrize(("module", "name"), [(module, name) for module, names in NAMES.items() for name in names])
def test_arguments(module, name):
    """All are there, with their defaults, in their order where they may be given by position; ours may have more."""
    found = importlib.import_module(f"flydsl.kernels.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    if NAMES[module][name] is None:
        return
    parameters = inspect.signature(found).parameters
    by_name = False
    for position, argument in enumerate(arguments for arguments in NAMES[module][name].split() if arguments != "*"):
        argument, _, default = argument.partition("=")
        assert argument in parameters, argument
        assert not default or parameters[argument].default == ast.literal_eval(default), argument
        by_name = by_name or parameters[argument].kind is inspect.Parameter.KEYWORD_ONLY
        assert by_name or list(parameters)[position] == argument


@pytest.mark.one_arch
def test_another_implementation_is_refused(monkeypatch):
    from flydsl.kernels.custom_all_reduce import init_custom_ar

    monkeypatch.setenv("FLYDSL_AITER_IMPL", "aiter")
    with pytest.raises(ValueError, match="FLYDSL_AITER_IMPL=aiter"):
        init_custom_ar(None, None, [None] * 2, [0] * 2, 0, True)


@pytest.mark.one_arch
@pytest.mark.parametrize(("text", "value"), [(None, False), ("0", False), ("", False), ("false", False), ("off", False),
                                             ("1", True), ("true", True)])
@pytest.mark.parametrize("name", ["FLYDSL_AITER_REUSE_OUT", "FLYDSL_CONV3D_AUTOTUNE"])
def test_switches_have_the_spellings_of_all_settings(name, text, value, monkeypatch):
    from flydsl.kernels.settings import kernels

    monkeypatch.delenv(name, raising=False)
    if text is not None:
        monkeypatch.setenv(name, text)
    option = next(key for key, found in kernels.options.items() if found.var == name)
    assert getattr(kernels, option) is value
