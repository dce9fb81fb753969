"""Paged decode and MLA by the names of existing callers: every path, scratch, the scheduler against plain Python."""

import importlib
import random

import pytest
from kernel_helpers import cases, fp8_dtype, needs, torch
from paged_batches import Batch, close, latent, packed

import flydsl.runtime as rt
from flydsl.kernels import mla_fwd_decode as mla
from flydsl.kernels import pa_decode_fp8 as callers
from flydsl.kernels.decode import reference
from flydsl.kernels.decode.op import MLA_DECODE
from flydsl.kernels.decode.schedule import FIELDS, build_metadata_module, most_partials, most_pieces
from flydsl.kernels.target import target

pytestmark = [needs("gfx942", "gfx950", "gfx120", "gfx1250"), pytest.mark.each_wave_size]


class Call:
    """A batch as existing callers pass it: packed fp8 (or 16-bit) caches and a list of page numbers."""

    def __init__(self, lengths, by_tokens=False, per_token=False, x=16, **options):
        usual = {"dtype": "bf16", "cache": "fp8", "heads": (16, 2), "dim": 128}
        self.batch = batch = Batch(lengths, **{**usual, **options})
        pages, page, heads, dim = batch.caches[0].shape
        shape = (pages, heads, page, 1) if per_token else (1,)
        self.scales = [torch.rand(shape) + 0.2 for _ in "kv"]
        counts = [-(-n // page) for n in lengths]
        self.starts = torch.tensor([0, *counts]).cumsum(0).int()
        rows = [row[:n] for row, n in zip(batch.table, counts, strict=True)]
        self.indices = torch.cat([*rows, torch.full((3,), 2**30, dtype=torch.int32)])
        wide = batch.caches
        if wide[0].dtype.itemsize == 1:
            batch.caches = [c.view(torch.uint8) for c in wide]
        self.keys, self.values = (c.view(wide[0].dtype) for c in packed(batch, x, by_tokens))
        batch.caches = wide
        self.query = batch.q.flatten(0, 1)
        self.out = torch.full_like(self.query, torch.nan)

    def check(self, window=-1, out=None):
        scales = {"k_scale": self.scales[0], "v_scale": self.scales[1]} if self.batch.caches[0].itemsize == 1 else {}
        (exact,) = reference.paged_attention(*self.batch.operands, window_left=window, **scales)
        close((self.out if out is None else out).view(exact.shape), exact, "bf16")

    def launch(self, **options):
        return callers.pa_decode_ps_launch(
            self.out, self.query, self.keys, self.values, self.batch.lengths, self.indices, self.starts, 128**-0.5,
            *self.scales, **options)


def test_older_modules():
    for module, names in {"pa_decode_fp8": "pa_decode_ps_launch get_pa_metadata pa_decode_tile",
                          "mla_fwd_decode": "flydsl_mla_fwd_decode flydsl_mla_reduce_v1",
                          "mla_fwd_decode_m16x8_fp8_fp8": "launch_mla_fwd_decode_m16x8_fp8_fp8"}.items():
        found = importlib.import_module(f"flydsl.kernels.{module}")
        assert set(names.split()) <= set(found.__all__)


# ------------------------------------------------------------------------------------------- paths


@pytest.mark.parametrize("by_tokens", [False, True])
@pytest.mark.parametrize(("page", "queries", "per_token"), cases([(16, 1, True), (64, 3, False)], [(64, 4, True)]))
def test_small_blocks(page, queries, per_token, by_tokens):
    call = Call([300, 0, 45, 1027], by_tokens, per_token, page=page, queries=queries)
    assert call.launch() == "ps_small_block"
    call.check()


@pytest.mark.parametrize("window", [100, 1023])
def test_windows(window):
    call = Call([1500, 17, 300], page=64, queries=2)
    assert call.launch(sliding_window=window) == "ps_sw_partitioned"
    call.check(window)
    call.out.fill_(torch.nan)
    assert call.launch(sliding_window=window, max_context_partition_num=1) == "ps_sw_fused_partitioned"
    call.check(window)


@pytest.mark.parametrize(("page", "queries"), cases([(1024, 1), (16, 3)], [(1024, 4)]))
def test_metadata(page, queries):
    call = Call([2100, 0, 45, 1027], page=page, queries=queries, by_tokens=page == 16)
    metadata = callers.get_pa_metadata(call.query, call.keys, call.batch.lengths, call.starts, 16, 2, grid_multiplier=1)
    cut = metadata["reduce_indptr"][-1]
    assert cut > 4  # more pieces than sequences
    assert call.launch(metadata=metadata) == "ps_split_reduce"
    call.check()


def test_blocks_of_1024_take_the_scheduler():
    call = Call([1100, 3], page=1024, dim=64, per_token=True)
    assert callers.pa_decode_ps_launch(
        call.out, call.query, call.keys, call.values, call.batch.lengths, call.indices, call.starts, 64**-0.5,
        *call.scales) == "ps_split_reduce"
    call.check()


def test_tables_and_scratch_of_the_caller():
    call = Call([300, 45], page=64, queries=2)
    rows = (2, 2, 5, 2 * 8)  # sequences, key heads, parts, rows
    logs, partial = torch.empty(rows), torch.empty(*rows, 128, dtype=torch.bfloat16)
    options = {"block_tables": call.batch.table, "max_context_partition_num": 5, "max_logits": logs,
               "temporary_output": partial}
    assert call.launch(**options) == "ps_small_block"
    call.check()
    with pytest.raises(ValueError, match="maximum of logits"):
        call.launch(**{**options, "max_logits": logs[0]})


def test_what_does_not_fit_is_refused():
    """A list that ends before the pages of a sequence stops the launch; the rest is an error before it."""
    call = Call([300, 45], page=64)
    indices, query = call.indices, call.query
    call.indices = indices[: int(call.starts[-1])]  # to its end, and no further
    call.launch()
    call.check()
    call.indices = indices[: int(call.starts[-1]) - 1]
    with pytest.raises(RuntimeError, match="trap"):
        call.launch()
        rt.synchronize()
    call.indices, out = indices, call.out
    for call.out in (out[:1], out[..., :64].contiguous()):
        with pytest.raises(ValueError, match="the output must have the shape"):
            call.launch()
    call.out = out
    metadata = callers.get_pa_metadata(query, call.keys, call.batch.lengths, call.starts, 16, 2, grid_multiplier=1)
    for name, value, error, message in (
            ("work_info_flat", metadata["work_info_flat"].long(), TypeError, "built for Int32, but an argument holds"),
            ("work_indptr", metadata["work_indptr"][:-1].clone(), ValueError, "work_indptr holds fewer elements"),
            ("partial_lse", metadata["partial_lse"][:-1].clone(), ValueError, "partial results must be")):
        with pytest.raises(error, match=message):
            call.launch(metadata={**metadata, name: value})
    call.launch(metadata=metadata)
    call.check()


def test_tiles_and_their_launcher():
    call = Call([300, 0, 45], page=64, cache="bf16", x=8)
    operands = (call.query, call.keys, call.values, call.batch.table, call.batch.lengths)
    callers.pa_decode_tile(call.out, *operands, None, None, num_partitions=2)
    call.check()
    run = callers.compile_pa_decode_tile(128, 8, 64, 1)
    call.out.fill_(torch.nan)
    run(call.out, *operands)
    call.check()
    with pytest.raises(ValueError, match="made for query_length 2, not 1"):
        callers.compile_pa_decode_tile(128, 8, 64, 1, query_length=2)(call.out, *operands)


def test_launchers_of_windows_and_metadata():
    call = Call([500, 45], page=16, queries=2)
    operands = (call.query, call.keys, call.values, call.batch.lengths, call.indices, call.starts)
    logs, partial = torch.empty(2 * 2 * 3 * 16), torch.empty(2, 2, 3, 16, 128, dtype=torch.bfloat16)
    callers.compile_pa_decode_sw(90, 3, query_group_size=8, query_length=2)(
        None, logs, partial, *operands, *call.scales)
    callers.compile_pa_decode_sw_reduce(max_context_partition_num=3, query_seq_len=2, query_group_size=8, head_size=128,
                                        output_dtype_str="bf16")(call.out, None, logs, partial)
    call.check(90)
    metadata = callers.get_pa_metadata(call.query, call.keys, call.batch.lengths, call.starts, 16, 2)
    call.out.fill_(torch.nan)
    callers.compile_pa_decode_metadata(query_group_size=8, query_length=2, block_size=16)(
        call.out, *operands, metadata, *call.scales)
    callers.pa_metadata_reduce(**{name: metadata[name] for name in (
        "partial_output", "partial_lse", "reduce_indptr", "reduce_final_map", "reduce_partial_map")},
        max_seqlen_q=2, final_output=call.out, num_query_heads=16, head_dim=128)
    call.check()


# ------------------------------------------------------------------------------------------- the scheduler


def pieces_of(lengths, bins, granularity):
    """For each sequence its pieces (bin, first partition, end), filled one after the other."""
    counts = [max(-(-n // granularity), 1) for n in lengths]
    quotas = [sum(counts) // bins + (i < sum(counts) % bins) for i in range(bins)]
    found, which, start = [], 0, 0
    for count in counts:
        mine, end = [], start + count
        while start < end:
            if not quotas[which]:
                which += 1
                continue
            taken = min(end - start, quotas[which])
            mine.append((which, start, start + taken))
            quotas[which] -= taken
            start += taken
        found.append(mine)
    return found


def schedule(lengths, groups, heads, group, queries, granularity):
    """What the kernel says, by name; -7 where it wrote nothing."""
    bins, batch = groups // heads, len(lengths)
    sizes = {"work": groups + 1, "info": heads * most_pieces(batch, bins) * FIELDS, "partitions": batch + 1,
             "reduces": batch + 1, "finals": 2 * batch, "partials": max(most_partials(bins), 1)}
    found = {name: torch.full((size,), -7, dtype=torch.int32) for name, size in sizes.items()}
    build_metadata_module(groups, heads, group, queries, granularity)(
        torch.tensor(lengths), *found.values(), batch)
    rt.synchronize()
    return {name: values.tolist() for name, values in found.items()}


@pytest.mark.one_arch
@pytest.mark.parametrize("seed", range(6))
def test_the_scheduler_cuts_evenly(seed):
    rng = random.Random(seed)
    heads, group, queries = rng.choice([1, 2, 5]), rng.choice([1, 8]), rng.choice([1, 3])
    granularity = rng.choice([16, 256])
    groups = rng.choice([heads, 4 * heads + 1, 17 + heads])
    lengths = [rng.choice([0, rng.randrange(3000)]) for _ in range(rng.choice([1, 3, 64, 65, 130]))]
    found, expected = schedule(lengths, groups, heads, group, queries, granularity), pieces_of(
        lengths, groups // heads, granularity)
    slot, of_bins = 0, {}
    for b, mine in enumerate(expected):
        assert found["reduces"][b] == slot and found["partitions"][b] == mine[0][1]
        assert found["finals"][2 * b:2 * b + 2] == [b * queries, (b + 1) * queries]
        for which, start, end in mine:
            row = -1
            if len(mine) > 1:
                row = slot * queries
                assert found["partials"][slot] == row
                slot += 1
            of_bins.setdefault(which, []).append([b, row, b * queries, (b + 1) * queries, start, end, 0])
    assert found["reduces"][-1] == slot
    bins, total = groups // heads, sum(map(len, expected))
    for head in range(heads):
        for which in range(bins):
            first, end = found["work"][head * bins + which:head * bins + which + 2]
            rows = [found["info"][i * FIELDS:(i + 1) * FIELDS] for i in range(first, end)]
            assert [row[:-1] for row in rows] == of_bins.get(which, [])
            assert all(row[-1] == (((head + 1) * group) << 16 | head * group) for row in rows)
    assert set(found["work"][heads * bins:]) == {heads * total}


@pytest.mark.one_arch
def test_recommended_splits():
    units = target().compute_units
    assert callers.get_recommended_splits(1, 1) == 8 and callers.get_recommended_splits(10 * units, 4) == 4
    assert callers.get_recommended_splits(1, 1, sliding_window=1023, query_length=4) == 6


# ------------------------------------------------------------------------------------------- MLA


@pytest.mark.parametrize("count", cases([128], [16, 40]))
def test_mla_by_pieces(count):
    lengths = [200, 40, 1]
    batch = latent(lengths, count=count, dtype="bf16", cache="fp8", page=1)
    batch.q = batch.q.to(fp8_dtype())
    indices = torch.cat([row[:n] for row, n in zip(batch.table, lengths, strict=True)])
    cuts = [(0, 0, 0, 90), (0, 1, 90, 200), (1, -1, 200, 240), (2, 2, 240, 241)]
    info = torch.tensor([[b, row, b, b + 1, begin, end, 0, 0] for b, row, begin, end in cuts], dtype=torch.int32)
    work = torch.tensor([0, 1, 1, 4], dtype=torch.int32)
    out = torch.full((3, count, 512), torch.nan, dtype=torch.bfloat16)
    parts, logs = torch.full((3, 1, count, 512), torch.nan), torch.full((3, 1, count, 1), torch.nan)
    mla.flydsl_mla_fwd_decode(batch.q[:, 0], batch.caches[0], indices, work, info, out, parts, logs, 0.05)
    given = (batch.q[:, 0], batch.caches[0], indices, work, info, out, parts, logs, 0.05)
    for at, wrong, error in ((4, info.long(), TypeError), (7, logs[:2].clone(), ValueError)):
        with pytest.raises(error, match="built for Int32|partial results must be"):
            mla.flydsl_mla_fwd_decode(*given[:at], wrong, *given[at + 1 :])
    sums = torch.full((3, count), torch.nan)
    finals = torch.tensor([[0, 1], [1, 2], [2, 3]], dtype=torch.int32)
    mla.flydsl_mla_reduce_v1(parts, logs, torch.tensor([0, 2, 2, 3], dtype=torch.int32), finals,
                             torch.tensor([0, 1, 2], dtype=torch.int32), 1, out, sums)
    (exact,) = MLA_DECODE.reference(*batch.operands, 0.05)
    close(out[:, None], exact, "bf16")
    cache = batch.caches[0].double()[indices[:200].long(), 0, 0]
    scores = batch.q[0, 0].double() @ cache.T * 0.05
    assert float((sums[0].double() - scores.logsumexp(-1)).abs().max()) < 2e-2 and sums[1].isnan().all()


def test_mla_refusals():
    empty = torch.zeros(0, dtype=torch.int32)
    with pytest.raises(ValueError, match="query must be"):
        mla.flydsl_mla_fwd_decode(torch.zeros(1, 4, 512), torch.zeros(1, 1, 1, 576), empty, empty, empty,
                                  torch.zeros(1, 4, 512), empty, empty, 1.0)
