"""Dispatch and combine of tokens between ranks, against their definition."""


import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from kernel_helpers import FULL  # noqa: E402
from ranks import pool, without_race_check  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

COUNTERS = True  # nothing is launched in this process
EXPERTS, SLOTS, TOKENS, HIDDEN = 3, 4, 10, 256
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def _fp8():
    from flydsl.kernels.target import target

    name = target().fp8_name
    return None if name is None else torch.float8_e4m3fnuz if name == "Float8E4M3FNUZ" else torch.float8_e4m3fn


def _tokens(rank, ranks, dtype, turn):
    """(x, weights, indices, scales) of a rank; some experts are no experts, some tokens have an expert twice."""
    generator = torch.Generator().manual_seed(100 * turn + rank)
    count = (TOKENS, min(3, TOKENS), 0, TOKENS - 1)[(turn + rank) % 4]
    if dtype == torch.uint8:
        x = torch.randint(0, 256, (count, HIDDEN // 2), dtype=torch.uint8, generator=generator)
    else:
        x = torch.randn(count, HIDDEN, generator=generator).to(dtype)
    indices = torch.randint(-1, ranks * EXPERTS, (count, SLOTS), dtype=torch.int32, generator=generator)
    return x, torch.rand(count, SLOTS, generator=generator), indices, torch.rand(count, 2, generator=generator)


def _op(rank, ranks, hidden=None, **options):
    from flydsl.kernels.comm.transport import FlyDSLDispatchCombineConfig, FlyDSLDispatchCombineIntraNodeOp

    usual = {"max_num_inp_token_per_rank": TOKENS, "num_experts_per_rank": EXPERTS, "num_experts_per_token": SLOTS,
             "dispatch_block_num": 2, "combine_block_num": 3, "combine_warp_num_per_block": 4}
    config = FlyDSLDispatchCombineConfig(rank, ranks, hidden or HIDDEN, **{**usual, **options})
    return FlyDSLDispatchCombineIntraNodeOp(config)


def _check_dispatch(got, rank, ranks, dtype, turn, origins):
    """Every row is the sender's, every token that has an expert here came once; returns the number of rows."""
    x, weights, scales, indices, total = got[:5]
    rows = int(total)
    found = origins[:rows].tolist()
    expected = []
    for source in range(ranks):
        xs, ws, ids, ss = _tokens(source, ranks, dtype, turn)
        for token in range(len(xs)):
            if any(e >= 0 and e // EXPERTS == rank for e in ids[token].tolist()):
                expected.append(source * TOKENS + token)
                row = found.index(expected[-1])
                assert torch.equal(x[row].view(torch.uint8), xs[token].view(torch.uint8))
                assert torch.equal(weights[row], ws[token]) and torch.equal(indices[row], ids[token])
                assert scales is None or torch.equal(scales[row], ss[token])
    assert sorted(found) == expected
    return rows


def _distinct(indices, ranks):
    return [len({e // EXPERTS for e in row if e >= 0}) for row in indices.tolist()]


def _identity_experts(rank, ranks, name, options):
    """Experts that return their tokens: every token comes back as often as ranks had it."""
    dtype = {"fp8": _fp8(), "fp4": torch.uint8, **DTYPES}[name]
    if dtype is None:
        return
    quantised = "combine_quant_type" in options
    if quantised and _fp8() is None:
        return
    combined = dtype if name in DTYPES else torch.bfloat16
    scaled = name in ("fp8", "fp4")
    op = _op(rank, ranks, data_type=dtype, scale_dim=2 * scaled, scale_type_size=4, **options)
    packed = torch.zeros(EXPERTS, ranks * TOKENS, HIDDEN, dtype=dtype) if op.config.enable_std_moe else None
    for turn in range(4 if FULL else 2):
        x, weights, indices, scales = _tokens(rank, ranks, dtype, turn)
        got = op.dispatch(x, weights, scales if scaled else None, indices, packed)
        rows = _check_dispatch(got, rank, ranks, dtype, turn, op.get_dispatch_src_token_pos())
        factors = torch.tensor(_distinct(indices, ranks)).double()
        if packed is not None:
            counts, origins = got[5:]
            here = [(int(o), e) for o, ids in zip(op.get_dispatch_src_token_pos()[:rows], got[3][:rows], strict=True)
                    for e in set(ids.tolist()) if e >= 0 and e // EXPERTS == rank]  # once, if an expert is named twice
            places = [(int(origins[e, p]), e + rank * EXPERTS) for e in range(EXPERTS) for p in range(int(counts[e]))]
            assert sorted(here) == sorted(places)
            out, came = op.combine(None, None, None, packed)
            expected = x.double() * (weights.double() * (indices >= 0)).sum(1, keepdim=True)
        elif scaled:  # dequantised by the experts, here as numbers of the row's first bytes
            inner = got[0].view(torch.uint8)[:, :1].to(combined).expand(-1, HIDDEN).contiguous()
            out, came = op.combine(inner, None, None)
            expected = x.view(torch.uint8)[:, :1].double().expand(-1, HIDDEN) * factors[:, None]
        else:
            inner = got[0]
            if op.config.zero_copy:
                inner = op.get_registered_combine_input_buffer(dtype)
                inner.copy_(got[0])
            out, came = op.combine(inner, None, None)
            expected = x.double() * factors[:, None]
        bound = 0.1 if quantised else 1e-2 if combined == torch.bfloat16 else 1e-5
        torch.testing.assert_close(out.double(), expected, rtol=bound, atol=bound)
        torch.testing.assert_close(came, weights * factors[:, None].float(), rtol=1e-6, atol=1e-6)
    dist.barrier()
    op.close()


def _identity_experts_of_fp4(rank, ranks, zero_copy):
    """Packed fp4 that is combined as it is: sums in f32 of what came back, rounded to fp4."""
    from flydsl.kernels.quant.reference import mxfp4_to_f32

    op = _op(rank, ranks, data_type=torch.uint8, zero_copy=zero_copy)
    for turn in range(2):
        x, weights, indices, _ = _tokens(rank, ranks, torch.uint8, turn)
        inner = op.dispatch(x, weights, None, indices)[0]
        if zero_copy:
            inner = op.get_registered_combine_input_buffer(torch.uint8)
            inner.copy_(op._view("rows", inner.shape, torch.uint8))
        out, came = op.combine(inner, None, None)
        factors = torch.tensor(_distinct(indices, ranks)).double()
        exact = (mxfp4_to_f32(x).double() * factors[:, None]).clamp(-6, 6)
        found = mxfp4_to_f32(out).double()
        # The codes are 0.5, 1 and 2 apart, from 0, 2 and 4 on.
        step = torch.where(exact.abs() < 2, 0.5, torch.where(exact.abs() < 4, 1.0, 2.0))
        assert out.shape == x.shape and ((found - exact).abs() <= step / 2).all()
        torch.testing.assert_close(came, weights * factors[:, None].float(), rtol=1e-6, atol=1e-6)
    dist.barrier()
    op.close()


@pytest.mark.parametrize("zero_copy", (False, True))
def test_fp4_is_combined(zero_copy, pool):  # noqa: F811
    pool(2).run(_identity_experts_of_fp4, zero_copy)


def _rows_of_a_call(rank, ranks, zero_copy):
    """The configured dtype says what there is room for, and not what is sent: each call may bring another one."""
    from flydsl.kernels.quant.reference import mxfp4_to_f32

    def values(x):
        return (mxfp4_to_f32(x) if x.dtype == torch.uint8 else x).double()

    bf16, fp4 = torch.bfloat16, torch.uint8
    fp8 = _fp8() or torch.float8_e4m3fn
    foreign = torch.float8_e4m3fn if fp8 == torch.float8_e4m3fnuz else torch.float8_e4m3fnuz
    calls = {bf16: [(bf16, bf16), (fp8, bf16), (foreign, bf16), (fp4, bf16), (torch.float16, torch.float16)],
             fp8: [(fp8, bf16), (fp4, fp4)], fp4: [(fp4, fp4), (fp4, bf16)]}
    if _fp8() is not None:
        calls[fp8] += [(fp8, fp8)]
    for configured, sent_and_back in calls.items():
        op = _op(rank, ranks, data_type=configured, zero_copy=zero_copy)
        for turn, (sent, back) in enumerate(sent_and_back):
            x, weights, indices, _ = _tokens(rank, ranks, sent, turn)
            got = op.dispatch(x, weights, torch.empty(len(x), 0), indices)
            rows = _check_dispatch(got, rank, ranks, sent, turn, op.get_dispatch_src_token_pos())
            inner = got[0] if sent == back else values(got[0]).to(back)
            if zero_copy:
                buffer = op.get_registered_combine_input_buffer(back)
                buffer[:rows].view(torch.uint8).copy_(inner[:rows].view(torch.uint8))
                inner = buffer
            out, _ = op.combine(inner, None, None)
            exact = values(x) * torch.tensor(_distinct(indices, ranks)).double()[:, None]
            # Of fp8 three bits are behind the leading one; the codes of fp4 end at 6, and are 2 apart there.
            bounds = {fp8: dict(atol=2**-9, rtol=2**-4), fp4: dict(atol=1.0, rtol=0)}
            torch.testing.assert_close(values(out), exact.clamp(-6, 6) if back == fp4 else exact,
                                       **bounds.get(back, dict(atol=1e-2, rtol=1e-2)))
            assert out.dtype == back
        if configured == bf16:
            with pytest.raises(ValueError, match="a row of f32 has 1024 bytes, the memory 512"):
                op.dispatch(torch.zeros(1, HIDDEN), torch.zeros(1, SLOTS), None, torch.zeros(1, SLOTS).int())
            with pytest.raises(ValueError, match="rows of bf16 must have 256 columns, got 128"):
                op.dispatch(x[:, :128].to(bf16), weights, None, indices)
        dist.barrier()
        op.close()


@pytest.mark.parametrize("zero_copy", (False, True))
def test_rows_of_a_call(zero_copy, pool):  # noqa: F811
    pool(2).run(_rows_of_a_call, zero_copy)


def _columns_of_pairs(rank, ranks, zero_copy):
    """A hidden size that counts the columns of packed fp4."""
    from flydsl.kernels.quant.reference import mxfp4_to_f32

    op = _op(rank, ranks, hidden=HIDDEN // 2, data_type=torch.float4_e2m1fn_x2, zero_copy=zero_copy)
    x, weights, indices, _ = _tokens(rank, ranks, torch.uint8, 0)
    got = op.dispatch(x, weights, None, indices)
    _check_dispatch(got, rank, ranks, torch.uint8, 0, op.get_dispatch_src_token_pos())
    once = torch.tensor(_distinct(indices, ranks)) == 1
    inner = op.get_registered_combine_input_buffer(torch.uint8).copy_(got[0]) if zero_copy else got[0]
    out, _ = op.combine(inner, None, None)
    assert once.any() and torch.equal(mxfp4_to_f32(out[once]), mxfp4_to_f32(x[once]))
    dist.barrier()
    op.close()


@pytest.mark.one_arch
@pytest.mark.parametrize("zero_copy", (False, True))
def test_columns_of_pairs(zero_copy, pool):  # noqa: F811
    pool(2).run(_columns_of_pairs, zero_copy)


def _rows_of_few_elements(rank, ranks, zero_copy):
    """Rows of f32 are multiples of four elements, where those of 16 bits are of eight."""
    op = _op(rank, ranks, hidden=12, data_type=torch.float32, zero_copy=zero_copy)
    _, weights, indices, _ = _tokens(rank, ranks, torch.float32, 0)
    x = torch.randn(len(indices), 12, generator=torch.Generator().manual_seed(rank))
    rows = op.dispatch(x, weights, None, indices)[0]
    inner = op.get_registered_combine_input_buffer(torch.float32).copy_(rows) if zero_copy else rows
    out, _ = op.combine(inner, None, None)
    torch.testing.assert_close(out, x * torch.tensor(_distinct(indices, ranks))[:, None])
    with pytest.raises(TypeError, match="dispatch: weights: a torch tensor is needed, got NoneType"):
        op.dispatch(x, None, None, indices)
    dist.barrier()
    op.close()


@pytest.mark.one_arch
@pytest.mark.parametrize("zero_copy", (False, True))
def test_rows_of_few_elements(zero_copy, pool):  # noqa: F811
    pool(2).run(_rows_of_few_elements, zero_copy)


# What only moves rows is the same everywhere; architectures convert in ways of their own.
CASES = [*(pytest.param(*case, marks=pytest.mark.one_arch) for case in (
             ("bf16", {}), ("f32", {"zero_copy": True}), ("bf16", {"enable_std_moe": True}))),
         ("fp8", {}), ("fp4", {}), ("bf16", {"combine_quant_type": "fp8_direct_cast"}),
         ("bf16", {"combine_quant_type": "fp8_blockwise"})]


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda x: x if isinstance(x, str) else "-".join(x) or "plain")
def test_identity_experts(name, options, pool):  # noqa: F811
    pool(2).run(_identity_experts, name, options)


def _named_twice(rank, ranks):
    """Every token names one expert in all of its slots: a packed copy has each once, and combine all the weights."""
    op = _op(rank, ranks, data_type=torch.float32, enable_std_moe=True)
    x = torch.randn(TOKENS, HIDDEN, generator=torch.Generator().manual_seed(rank))
    weights, packed = torch.rand(TOKENS, SLOTS), torch.zeros(EXPERTS, ranks * TOKENS, HIDDEN)
    got = op.dispatch(x, weights, None, torch.full((TOKENS, SLOTS), EXPERTS, dtype=torch.int32), packed)
    counts, origins = got[5:]
    assert counts.tolist() == ([ranks * TOKENS if rank == 1 else 0] + [0] * (EXPERTS - 1))
    assert rank != 1 or sorted(origins[0].tolist()) == list(range(ranks * TOKENS))
    out, _ = op.combine(None, None, None, packed)
    torch.testing.assert_close(out, x * weights.sum(1, keepdim=True), atol=1e-5, rtol=1e-5)
    op.close()


def _few_rows(rank, ranks):
    """Rows beyond the capacity are dropped, on every rank the same way for sender and receiver."""
    op = _op(rank, ranks, data_type=torch.float32, max_total_recv_tokens=4)
    x = torch.ones(TOKENS, HIDDEN)
    indices = torch.zeros(TOKENS, SLOTS, dtype=torch.int32)  # all to rank 0
    got = op.dispatch(x, torch.ones(TOKENS, SLOTS), None, indices)
    assert int(got[4]) == (4 if rank == 0 else 0)
    out, _ = op.combine(got[0], None, None)
    kept = (out == 1).all(1)
    assert ((out == 0).all(1) | kept).all()
    counts = [None] * ranks
    dist.all_gather_object(counts, int(kept.sum()))
    assert sum(counts) == 4
    op.close()


@without_race_check()
def _fewer_rows_than_came(rank, ranks, what):
    """What is behind them is not read: it is an error on all ranks. As many as came, which may be none, are enough."""
    from flydsl.kernels.comm import CollectiveError

    x, slots = torch.randn(TOKENS, HIDDEN).bfloat16(), torch.zeros(TOKENS, SLOTS, dtype=torch.int32)  # all to rank 0
    op = _op(rank, ranks)
    rows, weights, _, _, total = op.dispatch(x, torch.ones(TOKENS, SLOTS), None, slots)
    out, _ = op.combine(rows[: int(total)].clone(), weights[: int(total)].clone(), None)
    assert int(total) == (0 if rank else ranks * TOKENS) and torch.equal(out, x)
    rows, weights, _, _, total = op.dispatch(x, torch.ones(TOKENS, SLOTS), None, slots)
    short = (int(total) if rank else int(total) - 1)
    given = {"rows": (rows[:short], weights), "weights": (rows, weights[:short])}[what]
    told = "rank 0 combines fewer rows, or weights, than it has received" if rank == 0 else "rank 0 gave up"
    with pytest.raises(CollectiveError, match=told):
        op.combine(*given, None)
    dist.barrier()


@pytest.mark.one_arch
@pytest.mark.parametrize("what", ["rows", "weights"])
def test_fewer_rows_than_came(what, pool):  # noqa: F811
    pool(2).run(_fewer_rows_than_came, what)


def _refused(rank, ranks):
    from flydsl.kernels.comm.transport import GeometryTuningTable

    for options, message in (({"zero_copy": True, "enable_std_moe": True}, "exclude each other"),
                             ({"data_type": torch.int32}, "dtype torch.int32"),
                             ({"quant_type": "int8"}, "quant_type 'int8'"),
                             ({"max_num_inp_token_per_rank": 0}, "tokens must be positive, got 0"),
                             ({"enable_group_major": True}, "MegaMoE"), ({"gm_scheme": "compact"}, "MegaMoE"),
                             ({"max_token_type_size": 1}, "max_token_type_size must be 0 or at least the 2 bytes"),
                             ({"data_type": torch.float32, "quant_type": "fp8_direct_cast"}, "is for bf16")):
        with pytest.raises(ValueError, match=message):
            _op(rank, ranks, **options)
    op = _op(rank, ranks)
    x = torch.zeros(2, HIDDEN).bfloat16()
    weights, indices = torch.zeros(2, SLOTS), torch.zeros(2, SLOTS, dtype=torch.int32)
    with pytest.raises(ValueError, match="indices must be torch.int32"):
        op.dispatch(x, weights, None, indices.long())
    with pytest.raises(ValueError, match="at most"):
        op.dispatch(torch.zeros(TOKENS + 1, HIDDEN).bfloat16(), weights, None, indices)
    for given in (weights.bfloat16(), weights[:, :-1]):
        with pytest.raises(ValueError, match=r"weights must be float32 \(rows"):
            op.combine(x, given, None)
    op.close()
    op = _op(rank, ranks, enable_std_moe=True)
    with pytest.raises(ValueError, match="packed_recv_x must be"):
        op.combine(None, None, None, x[None])
    op.close()
    table = GeometryTuningTable({4: (1, 1), 64: (2, 4)}, {8: (3, 8)})
    assert [table.lookup("dispatch", n) for n in (1, 5, 100)] == [(1, 1), (2, 4), (2, 4)]
    assert table.lookup("combine", 1) == (3, 8)


@pytest.mark.one_arch
@pytest.mark.parametrize("test", (_few_rows, _named_twice, _refused))
def test_limits(test, pool):  # noqa: F811
    pool(2).run(test)
