"""A mixture of experts over several ranks, against f64 with the microscaled weights."""

import contextlib
import os

import pytest

torch = pytest.importorskip("torch")
from ranks import PATIENCE, pool, without_race_check  # noqa: E402, F401

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


def _is_near(y, expected):
    return ((y.double() - expected).norm() / expected.norm()).item() < 0.10


def _no_tokens(count):
    return torch.zeros(count, MODEL).bfloat16(), torch.zeros(count, TOPK), torch.zeros(count, TOPK).int()


def _mega(rank, ranks, scheme, most, limit):
    with pytest.raises(ValueError, match="power of two"):
        _make(rank, ranks, scheme, 12)
    moe, w1, w2 = _make(rank, ranks, scheme, most, limit)
    for count in (most, 3 + rank):
        x, weights, ids = _tokens(rank, count)
        y = moe.forward(x, weights, ids)
        assert y.shape == x.shape and y.dtype == torch.bfloat16
        assert _is_near(y, _expected(x, weights, ids, w1, w2, limit))
        assert torch.equal(moe.forward(x, weights, ids), y)  # wherever rows come to lie
    whole = moe.forward(x, weights, ids, slice_output=False)
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
    """Results go over links by 16 bytes a lane."""
    import flydsl.compiler as flyc
    import flydsl.ir
    from flydsl.kernels.comm import mega

    moe, *_ = _make(rank, ranks, "fixedslot", 8)
    stage, tensors = moe._stage2, {**moe._weights, **moe._own}
    compiled = flyc.compile(mega.build_stage2(stage), {name: tensors[name] for name in mega._OPERANDS["stage 2"]},
                            moe.memory.bases, rank, 1, 1)
    stores = [line.split()[0] for line in flydsl.ir.disassemble(compiled.artifact.hsaco).splitlines()
              if line.split()[:1] and line.split()[0].startswith("global_store")]
    wide = stage.down.m_repeat * stage.down.n_repeat // 2
    assert stores.count("global_store_dwordx4") == wide, stores
    # The others are signals: an epoch or a rank that gives up, for each of the peers.
    assert len(stores) - wide < 20, stores
    moe.close()


def _builders(rank, ranks):
    from flydsl.kernels.comm.mega import compile_mega_moe_stage1, compile_mega_moe_stage2

    first = dict(model_dim=256, inter_dim=256, rank=rank, experts_per_rank=3, fuse_npes=ranks, fuse_topk=3, fuse_cap=0,
                 fuse_mtpr=16, fuse_scale_dim=8, fixed_slot_dispatch=True)
    second = dict(model_dim=256, inter_dim=256, experts=6, topk=3, rank=rank, npes=ranks, max_tok=16)
    assert compile_mega_moe_stage1(**first, grid_mult=4) is compile_mega_moe_stage1(**first)
    quantised = compile_mega_moe_stage2(**second, p2p_quant_type="fp8_blockwise_1x32")
    assert compile_mega_moe_stage2(**second) is not quantised
    for wrong, message in ((dict(fuse_mtpr=12), "power of two"), (dict(fuse_scale_dim=4), "fuse_scale_dim must be"),
                           (dict(inter_dim=100), "inter_dim must be a multiple"), (dict(fuse_npes=9), "2 to 8 ranks")):
        with pytest.raises(ValueError, match=message):
            compile_mega_moe_stage1(**{**first, **wrong})
    with pytest.raises(TypeError, match="unexpected keyword argument 'tile_q'"):
        compile_mega_moe_stage1(**first, tile_q=1)
    with pytest.raises(ValueError, match="p2p_quant_type must be one of"):
        compile_mega_moe_stage2(**second, p2p_quant_type="int8")


@pytest.mark.skipif(os.environ.get("ARCH", "gfx950") != "gfx950", reason="runs on ranks of gfx950, whatever else does")
@pytest.mark.parametrize(("scheme", "most", "limit"), [("fixedslot", 16, 0.0), ("compact", 8, 2.0), ("large", 8, 0.0)])
def test_experts_of_several_ranks(scheme, most, limit, pool):  # noqa: F811
    pool(2, "gfx950").run(_mega, scheme, most, limit)


@pytest.mark.skipif(os.environ.get("ARCH", "gfx950") != "gfx950", reason="runs on ranks of gfx950, whatever else does")
@pytest.mark.parametrize("test", (_uneven, _absent, _gave_up, _sums_of_slots, _rows_that_are_here, _stores,
                                  _builders))
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


def test_configuration_rules():
    from flydsl.kernels.comm.mega_config import select_mega_moe_config

    small, middle, large = (select_mega_moe_config(t, m) for t, m in ((8, 128), (300, 1024), (4096, 8192)))
    assert (small.stage1.scheme, small.stage1.sort_block_m, small.stage1.tile_n) == ("fixedslot", 32, 256)
    assert (middle.stage1.scheme, middle.stage1.sort_block_m, middle.stage1.tile_n) == ("compact", 64, 512)
    assert (large.stage1.scheme, large.stage1.sort_block_m, large.stage2.BM) == ("large", 128, 64)
    assert large.stage2.p2p_quant_type == "fp8_blockwise_1x32" and small.stage2.use_nt and not large.stage2.use_nt
    assert select_mega_moe_config(64, 128).stage1.tile_n == 128
    with pytest.raises(ValueError, match="at most 128"):
        select_mega_moe_config(129, 128)
