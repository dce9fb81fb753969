"""A mixture of experts over several ranks, against f64 with the microscaled weights."""

import contextlib

import pytest

torch = pytest.importorskip("torch")
from ranks import PATIENCE, pool, without_race_check  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

COUNTERS = True  # nothing is launched in this process
MODEL, INTER, EXPERTS, TOPK = 256, 256, 6, 3


def _weights(seed, rows, k):
    """(fp4 codes, e8m0 scales, values in f64) of all experts."""
    from flydsl.kernels.quant.reference import e8m0_to_f32, mxfp4_to_f32

    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (EXPERTS, rows, k // 2), dtype=torch.uint8, generator=generator)
    scales = torch.randint(121, 124, (EXPERTS, rows, k // 32), dtype=torch.uint8, generator=generator)
    values = mxfp4_to_f32(codes.flatten(0, -2)).view(EXPERTS, rows, k).double()
    return codes, scales, values * e8m0_to_f32(scales).double().repeat_interleave(32, -1)


def _tokens(rank, count):
    generator = torch.Generator().manual_seed(rank)
    x = torch.randn(count, MODEL, generator=generator).bfloat16()
    ids = torch.stack([torch.randperm(EXPERTS, generator=generator)[:TOPK] for _ in range(count)]).int()
    return x, torch.rand(count, TOPK, generator=generator), ids


def _expected(x, weights, ids, w1, w2, limit):
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token, (row, factors, chosen) in enumerate(zip(x.double(), weights.double(), ids.tolist(), strict=True)):
        for factor, expert in zip(factors, chosen, strict=True):
            gate, up = (w1[expert] @ row).chunk(2)
            if limit:
                gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
            out[token] += factor * (w2[expert] @ (torch.nn.functional.silu(gate) * up))
    return out


def _make(rank, ranks, scheme, most, limit=0.0, **options):
    """The object of a rank, and the weights of all experts in f64."""
    from flydsl.kernels.comm.mega import MegaMoEV2
    from flydsl.kernels.gemm import e8m0_shuffle, shuffle_scale_w4, shuffle_weight_w4

    (c1, s1, w1), (c2, s2, w2) = _weights(1, 2 * INTER, MODEL), _weights(2, MODEL, INTER)
    local = EXPERTS // ranks
    own = slice(rank * local, (rank + 1) * local)
    moe = MegaMoEV2(
        rank=rank, world_size=ranks, model_dim=MODEL, inter_dim=INTER, experts=EXPERTS, topk=TOPK,
        w1=shuffle_weight_w4(c1[own], 16, True, True), w1_scale=shuffle_scale_w4(s1[own].flatten(0, 1), local, True),
        w2=shuffle_weight_w4(c2[own]), w2_scale=e8m0_shuffle(s2[own].flatten(0, 1)), max_tok_per_rank=most,
        mega_scheme=scheme, swiglu_limit=limit, **options)
    return moe, w1, w2


@pytest.mark.one_arch
def test_scales_that_are_too_few(monkeypatch):
    from flydsl.kernels.comm import mega
    from flydsl.kernels.target import target

    class Alone:
        rank, ranks = 0, 2

    w1 = torch.zeros(3, 2 * INTER, MODEL // 2, dtype=torch.uint8)
    w2 = torch.zeros(3, MODEL, INTER // 2, dtype=torch.uint8)
    monkeypatch.setattr(mega, "meeting_of", lambda group: Alone)
    monkeypatch.setattr(mega, "target", lambda: target("gfx950"))
    with pytest.raises(ValueError, match="w2_scale must be at least 6144 contiguous bytes, got torch.uint8 .6, 1000."):
        mega.MegaMoEV2(rank=0, world_size=2, model_dim=MODEL, inter_dim=INTER, experts=EXPERTS, topk=TOPK, w1=w1,
                       w1_scale=w1.new_zeros(3, 2 * INTER, MODEL // 32), w2=w2,
                       w2_scale=w2.new_zeros(6, 1000), max_tok_per_rank=8)


def _is_near(y, expected):
    return ((y.double() - expected).norm() / expected.norm()).item() < 0.10


def _no_tokens(count):
    return torch.zeros(count, MODEL).bfloat16(), torch.zeros(count, TOPK), torch.zeros(count, TOPK).int()


def _mega(rank, ranks, scheme, most, limit):
    import flydsl.runtime as rt

    with pytest.raises(ValueError, match="power of two"):
        _make(rank, ranks, scheme, 12)
    with pytest.raises(ValueError, match="fixed slots are for at most 255 tokens"):
        _make(rank, ranks, "fixedslot", 256)
    moe, w1, w2 = _make(rank, ranks, scheme, most, limit)
    for count in (most, 3 + rank):
        x, weights, ids = _tokens(rank, count)
        y = moe.forward(x, weights, ids)
        assert y.shape == x.shape and y.dtype == torch.bfloat16
        assert _is_near(y, _expected(x, weights, ids, w1, w2, limit))
        assert torch.equal(moe.forward(x, weights, ids), y)  # wherever rows come to lie
    codes, scales = moe.quantize(x)
    assert torch.equal(moe.forward_prequant(codes, scales.view(torch.float8_e8m0fnu), weights, ids), y)
    stream = rt.Stream()
    for options in ({}, {"stream": stream}):
        whole = moe.forward(x.clone(), weights.clone(), ids.clone(), slice_output=False, **options)
        stream.synchronize()
        assert torch.equal(whole[:count], y) and whole.shape[0] == most and not whole[count:].any()
    with pytest.raises(TypeError, match="topk_ids must be torch.int32"):
        moe.forward(x, weights, ids.long())
    with pytest.raises(ValueError, match="of at most"):
        moe.forward(*_no_tokens(2 * most))
    moe.close()


def _uneven(rank, ranks):
    """Experts without a row and with nearly all, slots of no expert, an expert twice, ranks without tokens, one token;
    and more rows than are sent at a time."""
    moe, w1, w2 = _make(rank, ranks, "compact", 256)

    def crowd(ids):
        ids[torch.arange(len(ids)) % 8 != 0] = 1

    changes = [(256, crowd), (5 * rank, lambda ids: ids[:, 1].fill_(-1)), (1 - rank, torch.clone),
               (3, lambda ids: ids.fill_(-1)), (4, lambda ids: ids[:, 1:].fill_(EXPERTS)),
               (7, lambda ids: ids.copy_(ids[:, :1].expand(-1, TOPK).clone()))]
    for count, change in changes:
        x, weights, ids = _tokens(10 + rank, count) if count else _no_tokens(0)
        change(ids)
        y = moe.forward(x, weights, ids)
        known = torch.where((ids >= 0) & (ids < EXPERTS), ids, 0)
        expected = _expected(x, torch.where(known == ids, weights, 0.0), known, w1, w2, 0.0)
        assert y.shape == x.shape
        assert _is_near(y, expected) if expected.any() else not y.any()
    moe.close()


@contextlib.contextmanager
def _stage1(sends, hasty):
    """Stage 1 that sends no rows, or waits for those of others for 2 s only, however long for their counts."""
    from flydsl.kernels.comm import mega, mega_kernels

    class Hasty(mega_kernels.Peers):
        def wait_for(self, counters, goal):
            kept, self._limit = self._limit, type(self._limit)(2)
            super().wait_for(counters, goal)
            self._limit = kept

    with pytest.MonkeyPatch.context() as patch:
        if not sends:
            patch.setattr(mega_kernels, "_dispatch", lambda *arguments: None)
        if hasty:
            patch.setattr(mega_kernels, "Peers", Hasty)
        patch.setattr(mega, "build_stage1", mega_kernels.build_stage1.__wrapped__)
        yield


@without_race_check()
def _absent(rank, ranks):
    """A rank that does not come is named on the others, in whatever they wait for."""
    import torch.distributed as dist

    from flydsl.kernels.comm import CollectiveError

    moe, *_ = _make(rank, ranks, "fixedslot", 8, limit=0.0)
    moe.memory.limit = 2
    if rank:
        x, weights, ids = _tokens(rank, 8)
        with pytest.raises(CollectiveError, match="MegaMoEV2, stage 1: rank 0 did not come within 2 s"):
            moe.forward(x, weights, ids)
        with pytest.raises(CollectiveError, match="rank 0 did not come"):
            moe.forward(x, weights, ids)
    dist.barrier()
    moe.close()
    moe, *_ = _make(rank, ranks, "fixedslot", 8)
    x, weights, ids = _tokens(rank, 8)
    ids.copy_(torch.arange(EXPERTS - TOPK, EXPERTS).expand(8, TOPK))  # all on rank 1, so that rank 0 waits for no rows
    expected = "stage 1: rank 0 did not come" if rank else "stage 2: rank 1 gave up"
    with _stage1(sends=rank != 0, hasty=rank != 0), pytest.raises(CollectiveError, match=expected):
        moe.forward(x, weights, ids)
    dist.barrier()


@without_race_check()
def _gave_up(rank, ranks):
    """Who waits for rows hears at once that their rank has given up, however long its own limit is."""
    import time

    import torch.distributed as dist

    from flydsl.kernels.comm import CollectiveError

    moe, *_ = _make(rank, ranks, "fixedslot", 8)
    begin = time.monotonic()
    expected = "rank 1, MegaMoEV2, stage 1: rank 0 gave up" if rank else r"stage 1: rank \d did not come"
    with _stage1(sends=False, hasty=rank == 0), pytest.raises(CollectiveError, match=expected):
        moe.forward(*_tokens(rank, 8))
    assert time.monotonic() - begin < PATIENCE / 2
    dist.barrier()


def _sums_of_slots(rank, ranks):
    from flydsl.kernels.comm import transport

    op = transport.FlyDSLDispatchCombineIntraNodeOp(transport.FlyDSLDispatchCombineConfig(rank, ranks, 64, 8, 2, 3))
    slots, ids = torch.randn(5, 3, 64).bfloat16(), torch.randint(-1, 2 * ranks, (5, 3), dtype=torch.int32)
    expected = (slots.float() * (ids >= 0)[..., None]).sum(1).bfloat16()
    torch.testing.assert_close(op.combine_no_stage1(slots.reshape(15, 64), ids), expected)
    assert op.combine_no_stage1(slots[:0].reshape(0, 64), ids[:0]).shape == (0, 64)
    with pytest.raises(ValueError, match="input must be contiguous"):
        op.combine_no_stage1(slots[0], ids)
    run = transport.make_combine_jit(
        rank=rank, npes=ranks, experts_per_token=3, hidden_dim=64, max_tok_per_rank=8, block_num=2,
        warp_num_per_block=4, data_type=torch.bfloat16, skip_stage1=True, experts_per_rank=2)
    out = torch.empty(5, 64).bfloat16()
    run(slots.reshape(15, 64), out, ids, 5)
    torch.testing.assert_close(out, expected)
    op.close()


def _rows_that_are_here(rank, ranks):
    """The product with gate and up alone, of two experts, the second of which has fewer rows than a block."""
    from flydsl.kernels.comm.mega import compile_gemm1
    from flydsl.kernels.gemm import e8m0_shuffle, shuffle_scale_w4, shuffle_weight_w4
    from flydsl.kernels.quant.reference import e8m0_to_f32

    codes, scales, w1 = _weights(1, 2 * INTER, MODEL)
    rows, valid, limit = 96, 64, 2.0
    x = torch.randn(rows, MODEL, generator=torch.Generator().manual_seed(rank)).to(torch.float8_e4m3fn)
    x_scale = torch.randint(126, 129, (rows, MODEL // 32), dtype=torch.uint8)
    out = torch.zeros(rows, INTER, dtype=torch.uint8)
    out_scale = torch.zeros(rows, INTER // 32, dtype=torch.uint8)
    tensors = dict(x=x.view(torch.uint8), x_scale=x_scale, w=shuffle_weight_w4(codes[:2], 16, True, True),
                   w_scale=shuffle_scale_w4(scales[:2].flatten(0, 1), 2, True),
                   rows=torch.arange(rows, dtype=torch.int32), experts=torch.tensor([1, 0, 0], dtype=torch.int32),
                   valid=torch.tensor([valid], dtype=torch.int32), out=out, out_scale=out_scale)
    compile_gemm1(model_dim=MODEL, inter_dim=INTER, swiglu_limit=limit)(tensors, rows)
    exact = x.double() * e8m0_to_f32(x_scale).double().repeat_interleave(32, 1)
    gate, up = torch.cat([exact[:32] @ w1[1].T, exact[32:valid] @ w1[0].T]).chunk(2, 1)
    expected = torch.nn.functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)
    # 32 rows have 32 x 8 scales here: where each went is what becomes of their numbers (the rest is padding).
    place = e8m0_shuffle(torch.arange(256, dtype=torch.uint8).view(32, 8)).flatten()[:256].long()
    found = torch.empty(valid // 32, 256, dtype=torch.uint8)
    found[:, place] = out_scale.view(-1, 256)[: valid // 32]
    got = out[:valid].view(torch.float8_e4m3fn).double() * e8m0_to_f32(
        found.view(valid, 8)).double().repeat_interleave(32, 1)
    assert _is_near(got, expected) and not out[valid:].any()
    with pytest.raises(ValueError, match="inter_dim must be a multiple of 256"):
        compile_gemm1(model_dim=MODEL, inter_dim=100)


def _stores(rank, ranks):
    """Results are stored by 16 bytes a lane, whether they travel as bf16 or in 8 bits."""
    import flydsl.compiler as flyc
    import flydsl.ir
    from flydsl.kernels.comm import mega

    for scheme, scales in (("fixedslot", 0), ("large", 1)):
        moe, *_ = _make(rank, ranks, scheme, 8)
        stage, tensors = moe._stage2, {**moe._weights, **moe._own}
        compiled = flyc.compile(mega.build_stage2(stage), {name: tensors[name] for name in mega._OPERANDS["stage 2"]},
                                moe.memory.bases, rank, 1, 1)
        lines = flydsl.ir.disassemble(compiled.artifact.hsaco).splitlines()
        stores = [line.split()[0] for line in lines if line.split()[:1] and line.split()[0].startswith("global_store")]
        results = stage.down.m_repeat * stage.down.n_repeat // 2  # scales of as many groups, one byte each
        wide = results // 2 if scales else results
        assert stores.count("global_store_dwordx4") == wide, stores
        assert stores.count("global_store_byte") == scales * results
        # The others are signals: an epoch or a rank that gives up, for each of the peers.
        assert len(stores) - wide - scales * results < 20, stores
        # Weights of few tokens go past the caches.
        assert any("_load_dwordx4" in line and " nt" in line for line in lines)
        moe.close()


# Options of the stages that the same tokens are computed with: (of stage 1, of stage 2).
OPTIONS = [
    (dict(tile_n=128), dict(BN=128, BK=128)),  # waves share k
    (dict(tile_n=512, num_waves=8, b_nt=0), dict(use_nt=False, persist=True, cu_num=3)),
    (dict(num_waves=8, num_dispatch_cu=3), dict(persist=True, persist_strided=True, cu_num=5)),
    (dict(tile_n=512, tile_k=128, b_nt=2, grid_mult=1, num_cu=36), dict(persist=True)),  # three for all tiles
]


def _options(rank, ranks):
    """Whatever a stage is built with computes the same."""
    from flydsl.kernels.comm import mega

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(globals(), "MODEL", 512)
        moe, w1, w2 = _make(rank, ranks, "fixedslot", 16)
        x, weights, ids = _tokens(rank, 16)
        expected = _expected(x, weights, ids, w1, w2, 0.0)
        for first, second in OPTIONS:
            stage1 = mega.compile_mega_moe_stage1(**_stage1_arguments(rank, ranks, 512), **first)
            stage2 = mega.compile_mega_moe_stage2(**_stage2_arguments(rank, ranks, 512), **second)
            patch.setattr(mega, "build_stage1", lambda _, found=stage1: found)
            patch.setattr(mega, "build_stage2", lambda _, found=stage2: found)
            assert _is_near(moe.forward(x, weights, ids), expected), (first, second)
        moe.close()


def _largest_tiles(rank, ranks):
    """The tiles of the most tokens, of which a block of rows has two: few tokens are computed with them as well, and
    those of a real network have no registers in memory."""
    import flydsl.compiler as flyc
    import flydsl.ir
    from flydsl.kernels.comm import mega
    from flydsl.kernels.comm.mega_config import select_mega_moe_config

    with pytest.MonkeyPatch.context() as patch:
        largest = select_mega_moe_config(8192, 8192)
        patch.setattr(mega, "select_mega_moe_config", lambda *arguments, **sizes: largest)
        moe, w1, w2 = _make(rank, ranks, "large", 32)
        assert (moe._stage1.up.tile_m, moe._stage2.down.tile_m, moe.exchange.block) == (64, 64, 128)
        x, weights, ids = _tokens(rank, 32)
        ids[:, 0] = 1  # more rows than a tile has
        assert _is_near(moe.forward(x, weights, ids), _expected(x, weights, ids, w1, w2, 0.0))
    arguments = {name: {**moe._weights, **moe._own, "ids": ids, "weights": weights, "x": x.view(torch.uint8),
                        "x_scale": ids.view(torch.uint8)}[name] for name in mega._OPERANDS["stage 1"]}
    build = mega.compile_mega_moe_stage1(
        model_dim=7168, inter_dim=3072, rank=rank, experts_per_rank=48, fuse_npes=8, fuse_topk=6, fuse_cap=0,
        fuse_mtpr=8192, fuse_scale_dim=224, fixed_slot_dispatch=False, sort_block_m=128, tile_n=512, tile_k=128,
        num_waves=8, payload_tile_ready=True)
    compiled = flyc.compile(build, arguments, moe.memory.bases, rank, 1, 1, 1)
    assert "scratch_" not in flydsl.ir.disassemble(compiled.artifact.hsaco)
    moe.close()


def _stage1_arguments(rank, ranks, model):
    return dict(model_dim=model, inter_dim=INTER, rank=rank, experts_per_rank=EXPERTS // ranks, fuse_npes=ranks,
                fuse_topk=TOPK, fuse_cap=0, fuse_mtpr=16, fuse_scale_dim=model // 32, fixed_slot_dispatch=True)


def _stage2_arguments(rank, ranks, model):
    return dict(model_dim=model, inter_dim=INTER, experts=EXPERTS, topk=TOPK, rank=rank, npes=ranks, max_tok=16)


# What each stage is refused: (arguments, what the error says).
REFUSED1 = [
    (dict(fuse_mtpr=12), "power of two"), (dict(fuse_scale_dim=4), "fuse_scale_dim must be"),
    (dict(inter_dim=100), "tile_n must divide"), (dict(inter_dim=128), "inter_dim must be a multiple of 256"),
    (dict(fuse_npes=9), "2 to 8 ranks"), (dict(rank=2), "rank must be one of 2"),
    (dict(fuse_cap=31), "fuse_cap must be 0 or at least the 32 tokens"),
    (dict(fuse_mtpr=256), "fixed slots are for at most 255 tokens"),
    (dict(experts_per_rank=65), "64 experts of a rank, got 16 and 65: use 'compact'"),
    (dict(sort_block_m=16), "sort_block_m must be"), (dict(tile_n=96), "tile_n must divide"),
    (dict(tile_n=64), "tile_n must be a multiple of 32 for each of the 4 waves"),
    (dict(tile_n=128), "share k by 512: model_dim must be a multiple"), (dict(tile_k=64), "tile_k must be one of"),
    (dict(num_waves=2), "num_waves must be 4 or 8"), (dict(grid_mult=5), "grid_mult must be one of"),
    (dict(grid_mult=1, num_cu=33), "must be more than the 32 that send"), (dict(b_nt=4), "b_nt must be -1 to 3"),
    (dict(payload_chunk_rows=100), "payload_chunk_rows must be a multiple of the 32 rows"),
]
REFUSED2 = [
    (dict(p2p_quant_type="int8"), "p2p_quant_type must be one of"), (dict(a_dtype="fp4"), "a_dtype must be 'fp8'"),
    (dict(rank=2), "rank must be one of 2"), (dict(HIDDEN_MAX=128), "model_dim must be at most 128, got 256"),
    (dict(INTER_MAX=128), "inter_dim must be at most 128, got 256"),
    (dict(recv_cap=100), "recv_cap must be at least the 192 rows"),
    (dict(comb_inp_nbytes=100), "comb_inp_nbytes must be at least 24576"), (dict(BM=48), "BM must be a multiple of 32"),
    (dict(BM=64, SBM=32), "divides the 32 rows of a block"), (dict(BN=64), "BN must be 128 or 256"),
    (dict(BK=64), "BK must be one of"), (dict(cu_num=3), "are for persist=True"),
    (dict(persist_strided=True), "are for persist=True"), (dict(persist=True, cu_num=1000), "1 to 512 workgroups"),
    (dict(has_pad=True), "has_pad must be"),
    (dict(fixed_slot_dispatch=True, max_tok=256), "fixed slots are for at most 255 tokens"),
]


# What callers tune another kernel with.
HINTS1 = dict(pipe_weights=False, mfma_amajor=True, swizzle_a=False, async_a_copy=True, use_tile_resource=False,
              waves_per_eu_hint=4, work_shards=4, external_grouping=True, external_counting=True,
              payload_chunk_rows=384)
HINTS2 = dict(g2_bhoist=True, g2_ascale_pf=True, g2_spart=True, g2_bf16_lds=True, skew_cu=1)


def test_options_that_are_refused():
    """Every argument is checked before anything is compiled; hints for another kernel are no errors."""
    from flydsl.kernels.comm.mega import compile_mega_moe_stage1, compile_mega_moe_stage2
    from flydsl.kernels.target import target

    for build, arguments, refused, hints in (
            (compile_mega_moe_stage1, _stage1_arguments(0, 2, 256), REFUSED1, HINTS1),
            (compile_mega_moe_stage2, _stage2_arguments(0, 2, 256), REFUSED2, HINTS2)):
        built = build(**arguments, target=target("gfx950"))
        assert build(**arguments, target=target("gfx950")) is built
        assert build(**arguments, **hints, target=target("gfx950")) is built
        for wrong, message in refused:
            with pytest.raises(ValueError, match=message):
                build(**{**arguments, **wrong}, target=target("gfx950"))
        with pytest.raises(TypeError, match="unexpected keyword argument 'tile_q'"):
            build(**arguments, tile_q=1)
        with pytest.raises(ValueError, match="gfx942"):
            build(**arguments, target=target("gfx942"))


@pytest.mark.one_arch  # runs on ranks of gfx950, whatever else does
@pytest.mark.parametrize(("scheme", "most", "limit"), [("fixedslot", 16, 0.0), ("compact", 8, 2.0), ("large", 8, 0.0)])
def test_experts_of_several_ranks(scheme, most, limit, pool):  # noqa: F811
    pool(2, "gfx950").run(_mega, scheme, most, limit)


@pytest.mark.one_arch  # runs on ranks of gfx950, whatever else does
@pytest.mark.parametrize("test", (_uneven, _absent, _gave_up, _sums_of_slots, _rows_that_are_here, _stores,
                                  _options, _largest_tiles))
def test_on_ranks_of_gfx950(test, pool):  # noqa: F811
    pool(2, "gfx950").run(test)


def test_stages_overlap_with_transport():
    """By the model of links: at most 1.15 of the longer of transport and products, where there is enough of both."""
    from flydsl.kernels.comm.links import mega_moe_step
    from flydsl.kernels.target import target

    networks = {"r1_v3": (7168, 2048, 256, 8), "v4_flash": (4096, 2048, 256, 6), "v4_pro": (7168, 3072, 384, 6)}
    for name, (model, inter, experts, topk) in networks.items():
        for tokens in (2048, 8192):
            step = mega_moe_step(tokens, model=model, inter=inter, experts=experts, topk=topk, ranks=8,
                                 target=target("gfx950"), tflops=2000.0, quantised=True)
            assert max(step.transport, step.compute) < step.seconds, name
            assert step.seconds <= 1.15 * max(step.transport, step.compute), (name, tokens, step)


# (tokens, most tokens of a rank): scheme, rows of a block, waves, tile_n, BM, BN, non-temporal, persistent, fp8 results
RULES = {
    (1, 1): ("fixedslot", 32, 4, 256, 32, 256, True, False, False),
    (8, 128): ("fixedslot", 32, 4, 256, 32, 256, True, False, False),
    (11, 128): ("fixedslot", 32, 4, 256, 32, 256, True, False, False),  # nearest to 8
    (13, 128): ("fixedslot", 32, 4, 128, 32, 256, True, False, False),
    (255, 255): ("fixedslot", 32, 4, 128, 32, 256, False, True, False),
    (128, 256): ("compact", 32, 8, 512, 32, 256, True, False, False),
    (256, 256): ("compact", 64, 8, 512, 32, 256, False, True, False),
    (1024, 1024): ("compact", 64, 8, 512, 32, 256, False, True, False),
    (128, 2048): ("large", 32, 8, 512, 32, 256, True, False, True),
    (2048, 2048): ("large", 64, 8, 512, 32, 256, False, True, True),
    (4096, 8192): ("large", 128, 8, 512, 64, 256, False, True, True),
    (32768, 32768): ("large", 128, 8, 512, 64, 256, False, True, True),
}


def test_configuration_rules():
    from flydsl.kernels.comm.mega_config import select_mega_moe_config

    for (tokens, most), expected in RULES.items():
        first, second = (found := select_mega_moe_config(tokens, most)).stage1, found.stage2
        assert expected == (first.scheme, first.sort_block_m, first.num_waves, first.tile_n, second.BM, second.BN,
                            second.use_nt, second.persist, second.p2p_quant_type == "fp8_blockwise_1x32"), found
        assert first.payload_tile_ready == (first.scheme == "large")
    # Other sizes: too many experts for fixed slots; few columns; too few columns for the waves, or k that they share.
    assert select_mega_moe_config(8, 128, experts_per_rank=65).stage1.scheme == "compact"
    assert select_mega_moe_config(8, 512, inter_dim=1024).stage1.tile_n == 256
    assert select_mega_moe_config(64, 128, model_dim=256).stage1.tile_n == 256
    assert select_mega_moe_config(8, 512, model_dim=256, inter_dim=256).stage1.num_waves == 4
    with pytest.raises(ValueError, match="at most 128"):
        select_mega_moe_config(129, 128)
