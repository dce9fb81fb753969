"""Decode attention against float64: lengths at the edges of pages and tiles, pages that are shared, shuffled or not
owned, everything that changes scores, and what is refused."""

import ctypes
import itertools
import math
import re

import numpy as np
import pytest
from kernel_helpers import FULL, cases, fp8_dtype, needs, torch
from paged_batches import Batch, close, latent, packed

import flydsl.compiler as flyc
import flydsl.ir
import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.attention.combine import choose_parts
from flydsl.kernels.decode import build_mla_decode_module, build_paged_attention_module, reference
from flydsl.kernels.decode.kernel import sizes_of
from flydsl.kernels.decode.mla_config import mla_config
from flydsl.kernels.decode.op import MLA_DECODE, PAGED_ATTENTION
from flydsl.kernels.target import target

pytestmark = [needs("gfx942", "gfx950", "gfx120", "gfx1250"), pytest.mark.each_wave_size]


def check(batch, dtype="f16", window=(-1, -1), **options):
    out = ops.paged_attention(*batch.operands, window=window, **options)
    (exact,) = reference.paged_attention(*batch.operands, window_left=window[0], **options)
    close(out, exact, dtype)
    return out


def edges(page, tile=32 * 4):
    """Lengths around pages, tiles of a wave and of a workgroup."""
    return sorted({n for at in (page, 16, 32, tile) for n in (at - 1, at, at + 1) if n >= 0} | {0, 1, 2 * tile + 1})


# ------------------------------------------------------------------------------------------- lengths and pages


@pytest.mark.parametrize("page", cases([16, 1, 5], [2, 24, 64, 1024]))
def test_lengths_at_edges_of_pages_and_tiles(page):
    check(Batch(edges(page), page=page))


@pytest.mark.parametrize("queries", cases([2, 5], [3, 4, 16]))
def test_queries_are_causal_among_themselves(queries):
    # Sequences shorter than their queries: the first of them see nothing.
    batch = Batch([0, 1, queries - 1, queries, queries + 1, 40, 129], queries=queries)
    out = check(batch)
    assert (out[0] == 0).all() and (out[1, : queries - 1] == 0).all() and (out[1, queries - 1] != 0).any()


def test_pages_that_sequences_share():
    check(Batch([70, 33, 48, 5], page=16, shared=2))


@pytest.mark.parametrize("heads", cases([(8, 1), (6, 6), (40, 2)], [(16, 1), (12, 4), (64, 8), (71, 1), (128, 1)]))
def test_groups_of_any_size(heads):
    check(Batch([37, 130], heads=heads, queries=2))


@pytest.mark.parametrize("dim", cases([96, 128, 256], [160, 192, 224]))
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_heads_of_any_size(dim, dtype):
    check(Batch([45, 133], dim=dim, dtype=dtype), dtype)


@pytest.mark.parametrize("uninitialised", [False, True])
def test_checks_of_the_simulator(uninitialised):
    batch = Batch([45, 300, 0], dim=128, page=16 if uninitialised else 3)
    with rt.checked("oob,race,uninit") as report:
        check(batch)
        rt.synchronize()
    assert not report.findings


@pytest.mark.skipif(not FULL, reason="FLYDSL_KERNELS_FULL")
def test_thousands_of_tokens():
    for dtype, cache in itertools.product(("f16", "bf16"), (None, "fp8")):
        check(Batch([4097, 1, 2047, 3000], heads=(16, 2), dim=128, dtype=dtype, cache=cache), dtype)


def test_one_sequence_over_many_workgroups():
    batch = Batch([2000], heads=(2, 1))
    assert PAGED_ATTENTION.workspace(target(), *PAGED_ATTENTION.arguments(*batch.operands)) > 0
    check(batch)
    check(Batch([20, 1500, 0]), window=(600, 0), sink=torch.tensor([1.0, -3.0, 0.0, 9.0]))


# ------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize("left", [0, 7, 40, 1000])
def test_window(left):
    batch = Batch([3, 50, 150, 0], queries=2)
    check(batch, window=(left, 0))


@pytest.mark.parametrize("left", [2**31 - 1, 2**40])
def test_a_window_wider_than_any_sequence_hides_nothing(left):
    batch = Batch([1, 50], queries=4)
    expected = check(batch)
    assert torch.equal(ops.paged_attention(*batch.operands, window=(left, 0)), expected)


@pytest.mark.parametrize("page", [16, 3])
def test_pages_before_the_window_are_not_read(page):
    batch = Batch([200], page=page, queries=2)
    window = 30
    gone = (200 - 2 - window) // page  # pages of which no query sees anything
    expected = check(batch, window=(window, -1))
    batch.table[0, : gone * page // 16 * 16 // page] = 2**30
    assert torch.equal(ops.paged_attention(*batch.operands, window=(window, -1)), expected)


def test_soft_cap_sink_and_scale():
    batch = Batch([1, 40, 0, 140], queries=2, scale=4.0)
    check(batch, softcap=2.0)
    check(batch, scale=0.3, sink=torch.tensor([0.0, 5.0, -2.0, math.log(1e-3)]))
    check(batch, softcap=5.0, window=(9, 0), sink=torch.randn(4), out_dtype="f32")


@pytest.mark.parametrize("out_dtype", ["f32", "float32", torch.float32, np.float32, np.dtype("float32")], ids=str)
def test_results_of_another_dtype(out_dtype):
    assert check(Batch([20]), out_dtype=out_dtype).dtype == torch.float32
    mla = latent([20], count=2)
    assert ops.mla_decode(*mla.operands, scale=0.06, out_dtype=out_dtype).dtype == torch.float32


@pytest.mark.parametrize("kind", ["large", "equal", "one", "infinite"])
def test_adversarial_scores(kind):
    batch = Batch([150, 17])
    k, v = batch.caches
    live = ~k.isnan()
    if kind == "large":
        batch.q *= 200
    elif kind == "equal":
        k[live] = 1.0
    elif kind == "one":  # of the first key only, by far
        k[live] = 0.0
        for row in batch.table:
            k[row[0], 0] = batch.q.mean() + 30.0
        batch.q = batch.q.abs()
    else:  # keys whose scores are -inf
        batch.q = batch.q.abs() + 0.1
        for row in batch.table:
            k[row[0], :5] = -math.inf
    check(batch)


# ------------------------------------------------------------------------------------------- fp8 caches


@pytest.mark.parametrize("dim", cases([128, 96], [64, 256]))
@pytest.mark.parametrize("kind", ["none", "number", "head", "token"])
def test_fp8_caches_and_their_scales(kind, dim):
    batch = Batch([45, 133, 0], dim=dim, dtype="bf16", cache="fp8", page=16 if dim == 128 else 5)
    pages, page = batch.caches[0].shape[:2]
    shape = {"none": None, "number": (1,), "head": (2,), "token": (pages, 2, page)}[kind]
    scales = {} if shape is None else {name: torch.rand(shape) + 0.2 for name in ("k_scale", "v_scale")}
    out = check(batch, "bf16", **scales)
    if kind == "number":
        given = {name: float(s) for name, s in scales.items()}
        assert torch.equal(out, ops.paged_attention(*batch.operands, **given))


def test_large_scales_of_tokens_do_not_overflow_weights(monkeypatch):
    """In a later tile a weight may exceed 1, as the largest score before is kept; scaled, it still is a number."""
    monkeypatch.setattr("flydsl.kernels.decode.op.choose_parts", lambda *arguments: 1)  # a wave has several tiles
    q = torch.ones(1, 1, 1, 64, dtype=torch.float16)
    k, v = torch.zeros(10, 16, 1, 64), torch.randn(10, 16, 1, 64)
    k[8, 2] = 0.75  # a score of 6 after those of 0
    operands = (k.to(fp8_dtype()), v.to(fp8_dtype()), torch.arange(10).int()[None], torch.tensor([160]))
    scales = {"v_scale": torch.full((10, 1, 16), 200.0)}
    (exact,) = reference.paged_attention(q, *operands, **scales)
    close(ops.paged_attention(q, *operands, **scales), exact, "f16")


def test_every_number_of_fp8():
    batch = Batch([256], heads=(1, 1), cache="fp8", page=16)
    bits = torch.arange(256, dtype=torch.uint8).view(fp8_dtype())
    numbers = torch.where(bits.float().isnan(), torch.zeros(256), bits.float()).to(fp8_dtype())
    v = batch.caches[1].view(torch.uint8)
    for t in range(256):
        v[batch.table[0, t // 16], t % 16] = numbers.view(torch.uint8)[t]
    batch.q.zero_()  # the mean of all
    check(batch)
    k = batch.caches[0].view(torch.uint8)
    for t in range(256):
        k[batch.table[0, t // 16], t % 16] = numbers.view(torch.uint8)[t]
    batch.q.fill_(1 / 64)
    check(batch, scale=0.02)


# ------------------------------------------------------------------------------------------- operands


def test_caches_of_any_stride_are_not_copied():
    batch = Batch([45, 133], dim=64)
    expected = check(batch)
    heads_first = [c.transpose(1, 2).contiguous().transpose(1, 2) for c in batch.caches]
    both = torch.cat(batch.caches, -1)
    for caches in (heads_first, both.chunk(2, -1), [c.repeat(1, 2, 1, 1)[:, :16] for c in batch.caches]):
        assert not caches[0].is_contiguous()
        out = ops.paged_attention(batch.q, *caches, batch.table, batch.lengths)
        assert torch.equal(out, expected)


@pytest.mark.one_arch
def test_caches_and_tables_beyond_32_bits():
    """Memory that is not touched is never there."""
    batch = Batch([5, 9, 3], page=4, cache="fp8", spare=0)
    expected, apart = check(batch), (1 << 31) // (len(batch.caches[0]) - 1)
    for i, cache in enumerate(batch.caches):
        far = torch.empty(apart * len(cache), dtype=torch.uint8).as_strided(cache.shape, (apart, *cache.stride()[1:]))
        batch.caches[i] = far.copy_(cache.view(torch.uint8)).view(cache.dtype)
    assert torch.equal(ops.paged_attention(*batch.operands), expected)
    slots = torch.tensor([0, 4 * (len(cache) - 1)])
    new = torch.randn(2, 2, 64).half()
    ops.cache_append(new, new, *batch.caches, slots)
    for cache in batch.caches:
        assert torch.equal(cache[[0, -1], 0].view(torch.uint8), new.to(cache.dtype).view(torch.uint8))
    table = torch.empty((1 << 31) + 4, dtype=torch.int32).as_strided(batch.table.shape, (1 << 30, 1))
    batch.table = table.copy_(batch.table)
    batch.caches = Batch([5, 9, 3], page=4, cache="fp8", spare=0).caches
    assert torch.equal(ops.paged_attention(*batch.operands), expected)


@pytest.mark.parametrize(("dim", "page", "x"), cases([(64, 16, 8), (96, 32, 16)], [(128, 64, 8), (256, 16, 8)]))
@pytest.mark.parametrize("by_tokens", [False, True])
def test_packed_caches(dim, page, x, by_tokens):
    batch = Batch([45, 0, 133, 260], dim=dim, page=page, queries=2)
    options = {"window": (70, 0), "sink": torch.randn(4)}
    expected = check(batch, **options)
    out = ops.paged_attention(batch.q, *packed(batch, x, by_tokens), batch.table, batch.lengths, **options)
    close(out, expected.double(), "f16")


@pytest.mark.parametrize(("dim", "page"), cases([(128, 16), (96, 64)], [(64, 1024), (256, 16), (128, 1024)]))
@pytest.mark.parametrize("by_tokens", [False, True])
def test_packed_fp8_caches(dim, page, by_tokens):
    batch = Batch([45, 0, 133, 17], heads=(16, 2), dim=dim, dtype="bf16", cache="fp8", page=page)
    scales = {name: torch.rand(batch.caches[0].shape[0], 2, page) + 0.2 for name in ("k_scale", "v_scale")}
    caches = [c.view(torch.uint8) for c in batch.caches]
    batch.caches = [c.view(fp8_dtype()) for c in caches]
    (exact,) = reference.paged_attention(*batch.operands, **scales)
    bytes_of = Batch.__new__(Batch)
    bytes_of.caches = caches
    keys, values = (c.view(fp8_dtype()) for c in packed(bytes_of, 16, by_tokens))
    out = ops.paged_attention(batch.q, keys, values, batch.table, batch.lengths, **scales)
    close(out, exact, "bf16")


def test_indices_of_both_widths_and_wide_tables():
    batch = Batch([45, 133])
    expected = check(batch)
    table = torch.full((2, 20), -(2**31), dtype=torch.int64)
    table[:, : batch.table.shape[1]] = batch.table
    assert torch.equal(ops.paged_attention(batch.q, *batch.caches, table, batch.lengths.long()), expected)
    assert torch.equal(ops.paged_attention(batch.q, *batch.caches, table[:, :10], batch.lengths), expected)


def test_numpy_arrays():
    batch = Batch([45, 133])
    out = ops.paged_attention(*(t.numpy() for t in batch.operands), softcap=3.0)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, ops.paged_attention(*batch.operands, softcap=3.0).numpy())


@pytest.mark.parametrize("op", [PAGED_ATTENTION, MLA_DECODE], ids=lambda op: op.name)
def test_captured_in_a_graph_and_replayed_on_longer_contexts(op):
    """Both kernels and the number of parts are of the table's width alone, not of the lengths."""
    batch = Batch([700, 90]) if op is PAGED_ATTENTION else latent([300, 90])
    arguments = op.arguments(*batch.operands, *(() if op is PAGED_ATTENTION else (0.06,)))
    assert op.workspace(target(), *arguments) > 0
    launcher, given, (out,) = op.prepare(*arguments)
    stream, library = rt.Stream(), ctypes.CDLL(rt.library_path())
    launcher(*given, stream=stream)  # compiles and loads
    stream.synchronize()
    graph, executable, handle = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(stream.ptr)
    assert library.hipStreamBeginCapture(handle, 0) == 0
    launcher(*given, stream=stream)
    assert library.hipStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert library.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)) == 0
    for lengths in ([17, 90], [250, 0]):
        batch.lengths.copy_(torch.tensor(lengths))
        batch.q.mul_(-0.5)
        out.fill_(math.nan)
        assert library.hipGraphLaunch(executable, handle) == 0
        stream.synchronize()
        (exact,) = op.reference(*arguments)
        close(out, exact, "f16")
    assert library.hipGraphExecDestroy(executable) == 0 and library.hipGraphDestroy(graph) == 0


def test_a_length_beyond_the_table_stops_the_launch():
    batch = Batch([45, 48])
    batch.lengths[0] = 49
    with pytest.raises(RuntimeError):
        ops.paged_attention(*batch.operands)
        rt.synchronize()


@pytest.mark.parametrize(("page", "place", "number"), [(16, -1, 1 << 30), (16, 0, -1), (3, 5, None), (1, -1, None)])
@pytest.mark.parametrize("mla", [False, True], ids=["paged", "mla"])
def test_a_page_that_the_cache_does_not_have_stops_the_launch(mla, page, place, number):
    batch = latent([33, 40], page=page) if mla else Batch([33, 40], page=page)

    def run():
        ops.mla_decode(*batch.operands, scale=0.1) if mla else ops.paged_attention(*batch.operands)
        rt.synchronize()

    pages = batch.caches[0].shape[0]
    batch.table[0, -(-33 // page):] = pages  # behind the sequence: never looked at
    run()
    batch.table[1, place] = pages if number is None else number
    with pytest.raises(RuntimeError, match="trap"):
        run()


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"q": lambda q: q.float()}, TypeError, "f32|float32"),
    ({"q": lambda q: q[..., :48]}, ValueError, "heads of 48"),
    ({"q": lambda q: q.repeat(1, 17, 1, 1)}, ValueError, "1 to 16 query tokens"),
    ({"q": lambda q: q[:, :, :3]}, ValueError, "divides 3"),
    ({"v_cache": lambda v: v[:, :8]}, ValueError, "caches differ in"),
    ({"block_table": lambda t: t[:1]}, ValueError, r"block_table must be \(2"),
    ({"seqlens": lambda n: n.float()}, TypeError, "float32"),
    ({"k_cache": lambda k: k[:, None]}, ValueError, "caches differ in"),
    ({"k_cache": lambda k: k.new_zeros(9, 2, 16, 16, 4), "v_cache": lambda v: v.new_zeros(9, 2, 64, 16)}, ValueError,
     "8 or 16 features"),
    ({"softcap": -1.0}, ValueError, "softcap"),
    ({"window": (-2, 0)}, ValueError, "window"),
    ({"sink": torch.zeros(3)}, ValueError, r"sink must be f32 of shape \(4,\)"),
    ({"k_scale": 2.0}, ValueError, "fp8 caches"),
    ({"out_dtype": "i8"}, ValueError, "'i8'"),
], ids=lambda v: next(iter(v)) if isinstance(v, dict) else "")
def test_what_is_refused(change, error, message):
    batch = Batch([45, 133])
    named = dict(zip(("q", "k_cache", "v_cache", "block_table", "seqlens"), batch.operands, strict=True))
    for name, new in change.items():
        named[name] = new(named[name]) if callable(new) else new
    with pytest.raises(error, match=message):
        ops.paged_attention(**named)


def code_of(batch, op=PAGED_ATTENTION, **options):
    """Resources and instructions of attention of a batch."""
    launcher, given, _ = op.prepare(*op.arguments(*batch.operands, **options))
    code = flyc.compile(launcher, *given).artifact.hsaco
    return flydsl.ir.kernel_resources(code).values(), flydsl.ir.disassemble(code)


def test_numbers_of_large_pages_are_loaded_by_the_scalar_unit():
    """Beside products, as the loads of a lane are in order: waiting for a number would be waiting for values."""
    _, text = code_of(Batch([45, 133], dim=128))
    products = [found.start() for found in re.finditer("v_(mfma|wmma)_", text)]
    assert not re.search(r"global_load_(dword|b32)\s", text[products[0]:products[-1]])


@needs("gfx942", "gfx950", "gfx1250")
def test_no_register_of_a_large_head_spills():
    resources, _ = code_of(Batch([45, 133], dim=256, dtype="bf16"))
    assert not any(kernel.vgpr_spills for kernel in resources)


# ------------------------------------------------------------------------------------------- MLA


def check_mla(batch, dtype="f16", **options):
    options = {"scale": 0.06, **options}
    out = ops.mla_decode(*batch.operands, **options)
    (exact,) = MLA_DECODE.reference(*batch.operands, **options)
    close(out, exact, dtype)


@pytest.mark.parametrize("page", cases([1, 64], [5, 16]))
def test_mla_lengths(page):
    check_mla(latent([0, 1, 15, 16, 17, 31, 33, 64, 65, 130], page=page))


def test_mla_of_many_rows_has_any_number_of_tiles():
    """Those of a share of one, two and three tiles, whole or not: what weighs a tile late weighs each once."""
    check_mla(latent([1, 32, 33, 64, 65, 97], count=66, page=1, dtype="bf16"), "bf16")


@needs("gfx950", "gfx1250")
@pytest.mark.parametrize("cache", ["bf16", "fp8"])
def test_no_register_of_mla_with_many_rows_goes_to_memory(cache):
    _, text = code_of(latent([40], count=128, dtype="bf16", cache=cache, page=1), MLA_DECODE, scale=0.06)
    assert "v_mfma_" in text or "v_wmma_" in text
    assert "scratch_" not in text


@pytest.mark.parametrize(("count", "queries"), cases([(16, 3), (128, 1)], [(1, 1), (33, 2), (128, 4), (64, 16)]))
def test_mla_heads_and_queries(count, queries):
    check_mla(latent([1, 40], count=count, queries=queries, dtype="bf16"), "bf16")


@pytest.mark.parametrize("query", ["bf16", "fp8"])
def test_mla_fp8(query):
    batch = latent([40, 19, 0], dtype="bf16", cache="fp8", page=1)
    options = {"kv_scale": torch.tensor([0.7])}
    if query == "fp8":
        batch.q = batch.q.to(fp8_dtype())
        options["q_scale"] = torch.tensor([1.3])
    check_mla(batch, "bf16", **options)


@pytest.mark.parametrize("count", [40, 128])
def test_mla_is_checked(count):
    with rt.checked("oob,race,uninit") as report:
        check_mla(latent([100, 0], count=count, page=1))
        rt.synchronize()
    assert not report.findings


@pytest.mark.parametrize(("arch", "together", "wide"), [("gfx942", 4, 2), ("gfx950", 16, 1)])
def test_rows_of_parked_queries_lie_in_different_banks(arch, together, wide):
    """So many rows, of which an access reads so many chunks together, fill all banks; none lies in another one."""
    config = mla_config("test", target(arch), 128, 1, "bf16", "bf16", "bf16", 1)
    (low, high), (step, far) = config.parked_rows
    starts = np.array([i * step + j * far for j in range(high) for i in range(low)])  # in elements of two bytes
    assert len(starts) == config.wave_rows and starts.max() + config.parked <= config.parked_size
    assert (np.diff(np.sort(starts)) >= config.parked).all()
    chunks = np.arange(wide) * 16
    for first in range(0, len(starts), together):
        read = (2 * starts[first : first + together, None] + chunks) % config.target.bank_bytes
        assert len(np.unique(read // 16)) == config.target.bank_bytes // 16


@needs("gfx942", "gfx950")
def test_a_turn_of_mla_waits_for_no_load_of_its_own():
    """What it stores was asked for in the turn before; so were the page numbers, which come before the tile."""
    _, text = code_of(latent([100], count=128, dtype="bf16", page=1), MLA_DECODE, scale=0.06)
    products = [found.start() for found in re.finditer("v_mfma_", text)]
    waits = re.findall(r"vmcnt\((\d+)\)", text[products[0]:products[-1]])
    assert waits and "0" not in waits


def test_mla_refusals():
    batch = latent([40])
    with pytest.raises(ValueError, match="576"):
        ops.mla_decode(batch.q[..., :512], *batch.operands[1:], scale=1.0)
    with pytest.raises(ValueError, match="kv_lora_rank"):
        ops.mla_decode(*batch.operands, scale=1.0, kv_lora_rank=256)
    with pytest.raises(ValueError, match="kv_cache must be"):
        ops.mla_decode(batch.q, batch.caches[0][..., :512], batch.table, batch.lengths, scale=1.0)


# ------------------------------------------------------------------------------------------- parts of a context


def test_parts_fill_the_compute_units():
    found = target()
    for units in (1, 3, 64, found.compute_units, 512, 5000):
        parts = choose_parts(found, units, 256)
        groups = units * parts
        rounds = -(-groups // found.compute_units)
        assert groups / (rounds * found.compute_units) >= 0.8 or parts == 256
    assert choose_parts(found, 1, 0) == 1 and choose_parts(found, 1, 3) == 3


def test_small_workgroups_of_mla_share_a_compute_unit():
    found = target()
    few, many = [mla_config("here", found, heads, 1, "bf16", "bf16", "bf16", 1) for heads in (16, 128)]
    assert few.resident == {"gfx950": 2, "gfx1250": 4}.get(found.arch, 1) and many.resident == 1
    assert few.resident * few.lds_bytes <= found.lds_bytes


# ------------------------------------------------------------------------------------------- launchers


@pytest.mark.parametrize("lists", [False, True])
def test_launchers_refuse_operands_that_do_not_fit(lists):
    batch, heads, dim, page, pages, columns, parts = 2, 4, 64, 16, 6, 3, 2
    rows = batch * heads
    q, out = (torch.zeros(batch, 1, heads, dim, dtype=torch.bfloat16) for _ in range(2))
    cache = torch.zeros(pages, page, 2, dim, dtype=fp8_dtype())
    table = torch.arange(pages, dtype=torch.int32)
    lengths, starts = torch.tensor([20, 5], dtype=torch.int32), torch.tensor([0, 3, 6], dtype=torch.int32)
    sink, scales = torch.zeros(heads), torch.ones(pages, 2, page)
    given = [q, cache, cache, table, lengths, sink, scales, scales[0, 0, :2].contiguous(), starts, out,
             torch.zeros(rows * parts, dim), torch.zeros(rows * parts)]
    places = (columns, pages if lists else columns, pages, *(page * 2 * dim, 2 * dim, dim, 0) * 2)
    sizes = sizes_of(heads, parts, places, 0.125)
    run = build_paged_attention_module(dim, 2, cache="fp8", sink=True, key_scales="token", value_scales="head",
                                       lists=lists)
    run(*given, batch, sizes)
    for at in range(12):
        if at == 8 and not lists:
            continue
        short = given[at].reshape(-1)[1:]
        with pytest.raises(ValueError, match="holds fewer elements"):
            run(*given[:at], short, *given[at + 1 :], batch, sizes)
    with pytest.raises(TypeError, match="built for BFloat16, but an argument holds Float16"):
        run(q.half(), *given[1:], batch, sizes)
    with pytest.raises(ValueError, match="out must be dense"):
        run(*given[:9], out.new_empty(batch, 1, heads, 2 * dim)[..., :dim], *given[10:], batch, sizes)


def test_mla_launcher_refuses_operands_that_do_not_fit():
    batch, heads, pages, parts = 2, 16, 8, 2
    q, cache = torch.zeros(batch, 1, heads, 576).bfloat16(), torch.zeros(pages, 1, 1, 576).bfloat16()
    given = [q, cache, torch.arange(pages, dtype=torch.int32), torch.tensor([4, 3], dtype=torch.int32), q, q,
             torch.zeros(batch, 1, heads, 512).bfloat16(), torch.zeros(batch * heads * parts, 512),
             torch.zeros(batch * heads * parts)]
    sizes = sizes_of(heads, parts, (4, 4, pages, *(576, 576, 0, 0) * 2), 0.1)
    run = build_mla_decode_module(heads)
    run(*given, batch, sizes)
    for at in (0, 1, 2, 3, 6, 7, 8):
        with pytest.raises(ValueError, match="holds fewer elements"):
            run(*given[:at], given[at].reshape(-1)[1:], *given[at + 1 :], batch, sizes)
