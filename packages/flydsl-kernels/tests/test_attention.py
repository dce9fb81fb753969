"""Attention against its definition in f64: tile edges, all that makes scores, storage of keys, adversarial values."""

import math

import numpy as np
import pytest
from kernel_helpers import DTYPES, cases, needs, random, torch

import flydsl.compiler as flyc
import flydsl.ir
import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.attention import build_attention_forward, op, reference
from flydsl.kernels.host.arrays import array_dtype
from flydsl.kernels.target import target

ARCHS = ("gfx942", "gfx950", "gfx120", "gfx1250")
pytestmark = needs(*ARCHS)
BOUND = {"f16": 2.0**-9, "bf16": 2.0**-6}


@pytest.fixture(autouse=True)
def uninitialised():
    """Reads of LDS that nobody wrote, besides what every test is checked for."""
    with rt.checked("uninit") as report:
        yield
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))


@pytest.fixture(params=["as it is", pytest.param("long", marks=needs("gfx1250"))])
def any_tile(request, monkeypatch):
    """Few rows, also with the tile of sequences that have many."""
    if request.param == "long":
        monkeypatch.setattr(op, "is_short", lambda *_: False)


def operands(rows, keys, d=64, dv=None, heads=2, kv_heads=1, batch=1, dtype="f16", seed=0, scale=1.0):
    return (random(batch, rows, heads, d, dtype=dtype, seed=seed, scale=scale),
            random(batch, keys, kv_heads, d, dtype=dtype, seed=seed + 1),
            random(batch, keys, kv_heads, dv or d, dtype=dtype, seed=seed + 2))


def compare(q, k, v, dtype="f16", bound=None, **options):
    """`ops.attention` and its logarithms against the definition."""
    out, lse = ops.attention(q, k, v, return_lse=True, **options)
    left, right = options.pop("window", (-1, -1))
    right = 0 if options.pop("causal", False) else right
    for of_speed in ("max_seqlen_q", "num_splits"):
        options.pop(of_speed, None)
    exact, exact_lse = reference.attention(q, k, v, left=left, right=right, **options)
    assert out.shape == exact.shape and lse.shape == exact_lse.shape
    # P and the result are rounded once each; a result is within the values of V.
    largest = max(float(v.double().nan_to_num().abs().max()) if v.numel() else 0.0, 1e-3)
    assert float((out.double() - exact).abs().max()) <= (bound or BOUND[dtype] * largest)
    empty = exact_lse.isinf()
    assert torch.equal(lse.isinf(), empty) and bool((lse[empty] < 0).all())
    np.testing.assert_allclose(lse[~empty].double(), exact_lse[~empty], atol=1e-4, rtol=1e-5)
    assert bool((out[empty.movedim(-2, -1)] == 0).all())
    return out


def tile():
    config = build_attention_forward(64, 64).config
    return config.rows, config.keys


ROWS, KEYS = tile() if target().name.startswith(ARCHS) else (1, 1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "keys"), cases(
    [(1, 1), (7, 1), (1, KEYS + 1), (ROWS - 1, 2 * KEYS - 1), (ROWS + 1, 2 * KEYS + 1), (30, 3 * KEYS),
     (ROWS, 4 * KEYS + 1), (2 * ROWS + 1, KEYS)],
    [(r * ROWS + i, c * KEYS + j) for r in (1, 2, 3) for c in (1, 2, 3, 4) for i in (-1, 0, 1) for j in (-1, 0, 1)]
    + [(1000, 3001), (2048, 2048)]))
def test_lengths(rows, keys, causal):
    compare(*operands(rows, keys, seed=rows + keys), causal=causal)


@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize(("d", "dv", "dtype"), cases(
    [(128, 128, "f16"), (128, 128, "bf16"), (96, 96, "bf16"), (192, 128, "f16"), (256, 256, "bf16"), (32, 64, "f16")],
    [(96, 96, "f16"), (192, 128, "bf16"), (256, 256, "f16"), (32, 64, "bf16")]
    + [(d, dv, t) for t in ("f16", "bf16") for d, dv in ((32, 32), (160, 160), (192, 192), (224, 224), (256, 32),
                                                         (64, 256))]))
def test_head_dimensions(d, dv, dtype):
    compare(*operands(70, 75, d, dv, dtype=dtype), dtype, causal=True)


@pytest.mark.parametrize("d", [64, 128, 192, 256])
def test_head_dimensions_of_long_sequences(d):
    """Some architectures have another tile where rows are many."""
    compare(*operands(270, 70, d, dtype="bf16", heads=4, kv_heads=2), "bf16", causal=True)


def spills(operation, *arguments):
    """Registers that a launch's kernels have no room for, by kernel."""
    launcher, operands, _ = operation.prepare(*arguments)
    resources = flydsl.ir.kernel_resources(flyc.compile(launcher, *operands).artifact.hsaco)
    return [kernel.vgpr_spills for kernel in resources.values()]


@pytest.mark.parametrize("d", cases([256], [160]))
def test_no_register_of_a_large_head_spills(d):
    q, k, v = operands(270, 70, d, dtype="bf16")
    assert not any(spills(op.ATTENTION_FWD, q, k, v, *(None,) * 11, -1, 0))
    lse = torch.zeros(1, 2, 270)
    found = spills(op.ATTENTION_BWD, torch.zeros_like(q), lse, q, k, v, q, lse, *(None,) * 5, -1, 0)
    # Queries, their errors and half of the sums are more than the registers of gfx120x.
    assert len(found) == 2 and (target().arch == "gfx120" or not any(found))


def test_few_columns_of_long_sequences_that_pass_through_registers():
    """A tile is stored to LDS before the turn of a step, also where a product of its values is a few instructions."""
    kind = array_dtype(target(), torch.empty(0), "fp8")
    q, k, v = (x.to(kind) for x in operands(270, 130, 32))
    compare(q, k, v, "bf16", causal=True, bound=0.1)


@pytest.mark.skipif(target().arch != "gfx1250", reason="waves have several blocks of queries there")
@pytest.mark.parametrize(("d", "dtype"), [(64, "bf16"), (128, "bf16"), (96, "bf16"), (128, "fp8"),
                                          (256, "fp8")])
def test_no_register_of_blocks_of_queries_spills(d, dtype):
    q, k, v = (x.to(array_dtype(target(), x, dtype)) for x in operands(400, 270, d, dtype="bf16"))
    assert not any(spills(op.ATTENTION_FWD, q, k, v, *(None,) * 11, -1, 0))


@pytest.mark.skipif(target().arch != "gfx1250", reason="there a launch of few blocks leaves compute units idle")
def test_rows_of_long_sequences_divide_evenly():
    """The usual lengths are multiples of the rows of a workgroup."""
    for d in (64, 128):
        assert 512 % build_attention_forward(d, d).config.rows == 0


@pytest.mark.skipif(target().arch != "gfx1250", reason="waves have several blocks of keys there")
def test_no_register_of_blocks_of_keys_spills():
    q, k, v = operands(270, 270, 128, dtype="bf16")
    lse = torch.zeros(1, 2, 270)
    assert not any(spills(op.ATTENTION_BWD, torch.zeros_like(q), lse, q, k, v, q, lse, *(None,) * 5, -1, 0))
    # Short sequences with all that makes scores: one wave a SIMD where two would have too few registers.
    q, k, v = operands(100, 100, 96, dtype="bf16")
    lse, bias = torch.zeros(1, 2, 100), random(1, 2, 100, 100, dtype="bf16")
    assert not any(spills(op.ATTENTION_BWD, torch.zeros_like(q), lse, q, k, v, q, lse, bias, torch.ones(2),
                          *(None,) * 3, 50, 0, 30.0))


@pytest.mark.parametrize(("d", "dv"), [(80, 40), (1, 3), (100, 128)])
def test_head_dimensions_between_are_padded(d, dv):
    compare(*operands(33, 40, d, dv))


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (6, 2), (3, 1)])
def test_grouped_heads(heads, kv_heads):
    compare(*operands(40, 70, heads=heads, kv_heads=kv_heads, batch=2))


# ------------------------------------------------------------------------------------------- scores


def slopes(*shape):
    return random(*shape, seed=9).abs()


OPTIONS = {
    "scale": dict(scale=0.3), "negative scale": dict(scale=-0.2), "soft cap": dict(softcap=1.5),
    "window": dict(window=(20, 5)), "left": dict(window=(3, -1)), "right": dict(window=(-1, 100)),
    "causal window": dict(window=(70, -1), causal=True), "one key": dict(window=(0, 0)),
    "bias": dict(bias=random(70, 150, seed=5)), "bias of heads": dict(bias=random(4, 70, 150, seed=5, dtype="f16")),
    "bias of all": dict(bias=random(2, 1, 70, 150, seed=5, dtype="bf16"), causal=True),
    "ALiBi": dict(alibi_slopes=slopes(4), causal=True), "ALiBi of sequences": dict(alibi_slopes=slopes(2, 4)),
    "sink": dict(sink=random(4, seed=6, scale=4.0)), "sink, causal": dict(sink=random(4, seed=7), causal=True),
    "all": dict(softcap=3.0, bias=random(70, 150, seed=5), alibi_slopes=slopes(4), sink=random(4), causal=True,
                window=(90, 0)),
}


def test_all_options_of_long_sequences_of_many_columns():
    """Some architectures have another tile there."""
    given = dict(OPTIONS["all"], bias=random(270, 150, seed=5))
    compare(*operands(270, 150, 128, heads=4, kv_heads=2, batch=2), **given)


@pytest.mark.spread
@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize("options", OPTIONS)
def test_options(options):
    compare(*operands(70, 150, heads=4, kv_heads=2, batch=2), **OPTIONS[options])


@pytest.mark.spread
@pytest.mark.parametrize("window", [(2**31 - 1, 2**31 - 1), (-1, 2**31 - 1), (2**40, -1), (-1, 2**40)], ids=str)
def test_a_window_wider_than_any_sequence_hides_nothing(window):
    def run(**options):
        q, k, v = (x.requires_grad_() for x in operands(100, 70))
        out = ops.attention(q, k, v, **options)
        return out, *torch.autograd.grad(out.sum(), (q, k, v))

    for found, expected in zip(run(window=window), run(), strict=True):
        torch.testing.assert_close(found, expected)


def test_more_queries_than_keys_see_nothing():
    compare(*operands(3 * ROWS, 40), causal=True)
    compare(*operands(40, 300), window=(-1, 0), seqlens_k=torch.tensor([5], dtype=torch.int32))


def test_no_keys():
    out, lse = ops.attention(*operands(5, 0), return_lse=True)
    assert bool((out == 0).all()) and bool((lse == -math.inf).all())


# ------------------------------------------------------------------------------------------- values


@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize("scale", [0.0, 30.0, 300.0])
def test_equal_and_large_scores(scale):
    q, k, v = operands(50, 200, scale=scale)
    compare(q, k, v, bound=0.05 if scale > 100 else 0.01)


@pytest.mark.usefixtures("any_tile")
def test_growing_scores():
    """Each key beats all before it: the base of the sums moves in every tile."""
    q = torch.ones(1, 40, 1, 64, dtype=torch.float16)
    k = torch.arange(300.0)[None, :, None, None].expand(1, 300, 1, 64).to(torch.float16) / 4
    compare(q, k.contiguous(), random(1, 300, 1, 64, dtype="f16"))
    compare(q, k.flip(1).contiguous(), random(1, 300, 1, 64, dtype="f16"))


def test_bias_that_hides():
    bias = torch.where(random(70, 150, seed=3) < 1.0, -math.inf, 0.0)
    bias[3], bias[66:] = -math.inf, -math.inf
    bias[10, 0] = 0.0
    bias[10, 1:], bias[11] = -math.inf, torch.finfo(torch.float32).min  # one key; all equally small
    compare(*operands(70, 150), bias=bias)


@pytest.mark.usefixtures("any_tile")
def test_infinite_scores_do_not_reach_other_rows():
    q, k, v = operands(40, 100)
    exact = ops.attention(q, k, v)
    q[0, 7] = math.inf
    out = ops.attention(q, k, v)
    rest = [i for i in range(40) if i != 7]
    assert torch.equal(out[:, rest], exact[:, rest]) and bool(out[0, 7].isnan().all())


# ------------------------------------------------------------------------------------------- storage


def starts(*lengths):
    return torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)


def test_lengths_and_tables_in_int64():
    q, pages = random(5, 2, 64, dtype="f16"), random(3, 64, 1, 64, dtype="f16", seed=1)
    given = starts(2, 3), torch.tensor([[2, 0], [1, 0]], dtype=I32), torch.tensor([70, 5], dtype=I32)
    first, second = (ops.attention(q, pages, pages, causal=True, cu_seqlens_q=a, block_table=b, seqlens_k=c)
                     for a, b, c in (given, [x.long() for x in given]))
    assert torch.equal(first, second)


@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize("causal", [False, True])
def test_packed(causal):
    queries, keys = (10, 0, 130, 1), (100, 20, 131, 0)
    q = random(sum(queries), 4, 64, dtype="f16")
    k, v = (random(sum(keys), 2, 64, dtype="f16", seed=s) for s in (1, 2))
    options = dict(cu_seqlens_q=starts(*queries), cu_seqlens_k=starts(*keys), causal=causal)
    compare(q, k, v, **options)
    assert torch.equal(ops.attention(q, k, v, **options), ops.attention(q, k, v, max_seqlen_q=130, **options))
    compare(q, k, v, bias=random(sum(queries), 140, seed=4), **options)


@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize(("page", "packed"), cases([(16, False), (24, True), (128, False)],
                                                   [(16, True), (24, False), (128, True)]))
def test_pages(page, packed):
    """Shuffled pages, some shared by sequences; what no sequence owns is NaN."""
    lengths = torch.tensor([150, 0, 77], dtype=torch.int32)
    width, count = -(-150 // page), 40
    k, v = (random(count, page, 2, 64, dtype="f16", seed=s) for s in (1, 2))
    table = torch.randperm(count, generator=torch.Generator().manual_seed(3))[: 3 * width].view(3, width).int()
    table[2, 0] = table[0, 0]
    used = torch.zeros(count, page, dtype=torch.bool)
    for b, length in enumerate(lengths.tolist()):
        for j in range(length):
            used[table[b, j // page], j % page] = True
    k[~used], v[~used] = math.nan, math.nan
    for b, length in enumerate(lengths.tolist()):
        table[b, -(-length // page):] = 2**30  # never read
    q = random(80 if packed else 3 * 33, 4, 64, dtype="f16")
    options = dict(block_table=table, seqlens_k=lengths, causal=True)
    if packed:
        compare(q, k, v, cu_seqlens_q=starts(33, 5, 42), **options)
    else:
        compare(q.view(3, 33, 4, 64), k, v, **options)


SPLIT = {
    "dense": dict(causal=True, window=(90, -1), num_splits=3),
    "sink": dict(sink=torch.tensor([0.5, -1.0, 3.0, -math.inf]), num_splits=2),
    "more than tiles": dict(num_splits=9, seqlens_k=torch.tensor([0, 150], dtype=torch.int32)),
    "packed": dict(causal=True, num_splits=4, cu_seqlens_q=torch.tensor([0, 5, 5, 40], dtype=torch.int32),
                   cu_seqlens_k=torch.tensor([0, 3, 90, 250], dtype=torch.int32)),
}


@pytest.mark.spread
@pytest.mark.parametrize("case", SPLIT)
def test_keys_of_a_row_are_split(case):
    """Shares of the keys, some of them empty, and their sums; gradients are those of the whole."""
    q, k, v = operands(33, 150, heads=4, kv_heads=2, batch=2)
    if case == "packed":
        q, k, v = (random(n, h, 64, dtype="f16", seed=i) for i, (n, h) in enumerate([(40, 4), (250, 2), (250, 2)]))
    compare(q, k, v, **SPLIT[case])
    if case == "dense":
        gradients(q, k, v, **SPLIT[case])


def test_few_rows_of_many_keys_are_split(monkeypatch):
    """Without being asked; the same bits every time."""
    q, k, v = operands(2, 2100, heads=2)
    seen = []
    whole = op.parts_of
    monkeypatch.setattr(op, "parts_of", lambda *sizes: seen.append(sizes[-1]) or whole(*sizes))
    out = compare(q, k, v, causal=True)
    assert seen and min(seen) > 1
    assert torch.equal(ops.attention(q, k, v, causal=True), out)
    seen.clear()
    compare(*operands(2, 100))
    assert set(seen) == {1}


@pytest.mark.parametrize("entry", [-1, 9])
def test_a_page_that_does_not_exist_stops_the_launch(entry):
    """Where a length reaches it; see `test_pages` for entries beyond."""
    k = random(9, 16, 1, 64, dtype="f16")
    table = torch.tensor([[3, entry, 5]], dtype=torch.int32)
    with rt.checked("race"), pytest.raises(rt.SimulatorError, match="trap"):  # other waves go on and find things
        ops.attention(random(1, 4, 1, 64, dtype="f16"), k, k, block_table=table,
                      seqlens_k=torch.tensor([17], dtype=torch.int32))
        rt.synchronize()


def test_lengths_of_dense_keys():
    q, k, v = operands(33, 100, batch=3)
    k[0, 40:], v[2, 7:] = math.nan, 5.0
    k[0, 40:] = 0.0
    compare(q, k, v, seqlens_k=torch.tensor([40, 100, 7], dtype=torch.int32), causal=True)


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1])
@pytest.mark.parametrize("pages", [False, True])
def test_more_keys_than_there_are_stop_the_launch(length, pages):
    """Of k, or of the pages of a table; they were left out, and the result was that of fewer keys."""
    q, k, v = operands(4, 100)
    options = {"block_table": torch.arange(1, dtype=torch.int32)[None]} if pages else {}
    with pytest.raises(rt.SimulatorError, match="trap"):
        ops.attention(q, k, v, seqlens_k=torch.tensor([length], dtype=torch.int32), **options)
        rt.synchronize()


def test_strides_are_not_copied(monkeypatch):
    from flydsl.kernels.host import arrays

    def contiguous(array):
        return array if array.is_contiguous() else pytest.fail("a copy was made")

    monkeypatch.setattr(arrays, "contiguous", contiguous)
    qkv = random(2, 70, 8, 64, dtype="f16")
    q, k, v = qkv[:, :, :4], qkv[:, :, 4:6], qkv[:, :, 6:]
    by_heads = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    assert torch.equal(ops.attention(q, k, v, causal=True), ops.attention(*by_heads, causal=True))
    shared = k[:, :, :1].expand(2, 70, 2, 64)
    compare(q, shared, v)


@pytest.mark.usefixtures("any_tile")
@pytest.mark.parametrize("descales", ["heads", *(pytest.param(d, marks=pytest.mark.spread) for d in ("none", "one"))])
def test_fp8(descales):
    kind = array_dtype(target(), torch.empty(0), "fp8")
    q, k, v = (x.to(kind) for x in operands(70, 150, d=128, heads=4, kv_heads=2, batch=2))
    scales = {}
    if descales != "none":
        shape = (1,) if descales == "one" else (2, 2)
        scales = {f"{n}_descale": random(*shape, seed=i).abs() + 0.5 for i, n in enumerate("qkv")}
    assert compare(q, k, v, "bf16", causal=True, bound=0.1, **scales).dtype == torch.bfloat16


def test_a_descale_of_everything_is_one_value():
    """Of any shape, or a number, as checkpoints and callers have it."""
    kind = array_dtype(target(), torch.empty(0), "fp8")
    q, k, v = (x.to(kind) for x in operands(5, 9))
    expected = ops.attention(q, k, v, q_descale=torch.tensor([0.5]), v_descale=torch.tensor([2.0]))
    for one, two in ((0.5, 2), (torch.tensor(0.5), torch.tensor([[2.0]]))):
        assert torch.equal(ops.attention(q, k, v, q_descale=one, v_descale=two), expected)


def test_numpy():
    q, k, v = operands(33, 40)
    out, lse = ops.attention(q.numpy(), k.numpy(), v.numpy(), causal=True, return_lse=True)
    expected, expected_lse = ops.attention(q, k, v, causal=True, return_lse=True)
    assert np.array_equal(out, expected.numpy()) and np.array_equal(lse, expected_lse.numpy())


# ------------------------------------------------------------------------------------------- what is refused


I32 = torch.int32
REFUSED = {
    "heads": (lambda q, k, v: (q[:, :, :1].expand(1, 8, 3, 64), k.expand(1, 9, 2, 64), v.expand(1, 9, 2, 64)), {},
              "3 heads of q do not divide into 2"),
    "dtype": (lambda q, k, v: (q, k.bfloat16(), v), {}, "q, k and v must have one dtype"),
    "columns": (lambda q, k, v: (q, k[..., :32], v), {}, "one last dimension, got 64 and 32"),
    "no columns": (lambda q, k, v: (q[..., :0], k[..., :0], v), {}, "heads of q and k have one column or more"),
    "wide": (lambda q, k, v: (q.repeat(1, 1, 1, 5), k.repeat(1, 1, 1, 5), v), {}, "at most 256 columns, got 320"),
    "sequences": (lambda q, k, v: (q.expand(2, -1, -1, -1), k, v), {}, "q has 2 sequences, k and v have 1"),
    "keys": (lambda q, k, v: (q, k, v[:, :4]), {}, "differ in more than their last dimension"),
    "window": (None, dict(window=(-2, 0)), "window is"),
    "cap": (None, dict(softcap=-1.0), "softcap must be 0"),
    "splits": (None, dict(num_splits=-1), "num_splits must be 0"),
    "bias": (None, dict(bias=torch.zeros(8, 8)), r"bias must be \[Sq, Skv\]"),
    "slopes": (None, dict(alibi_slopes=torch.zeros(3)), "alibi_slopes must be f32 of shape"),
    "sink": (None, dict(sink=torch.zeros(2, dtype=torch.float16)), "sink: dtype float16"),
    "table alone": (None, dict(block_table=torch.zeros(1, 1, dtype=I32)), "block_table needs seqlens_k"),
    "lengths": (None, dict(seqlens_k=torch.zeros(1, dtype=torch.int16)), "seqlens_k: dtype int16"),
    "packed": (None, dict(cu_seqlens_q=torch.zeros(2, dtype=I32)), r"q must be \[total, H, D\]"),
    "descale": (None, dict(q_descale=torch.ones(1)), "descales are for fp8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    change, options, message = REFUSED[case]
    q, k, v = operands(8, 9)
    if change is not None:
        q, k, v = change(q, k, v)
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=message):
        ops.attention(q, k, v, **options)


def test_operands_follow_autocast():
    q, k, v = (x.float() for x in operands(8, 9))
    with torch.autocast("cpu", dtype=torch.float16):
        out = ops.attention(q, k, v)
    assert out.dtype == torch.float16 and torch.equal(out, ops.attention(q.half(), k.half(), v.half()))


def test_dtypes_are_named():
    with pytest.raises(TypeError, match="float32 is not supported"):
        ops.attention(*(x.float() for x in operands(8, 9)))
    assert set(DTYPES) >= {"f16", "bf16"}


# ------------------------------------------------------------------------------------------- gradients


def gradients(q, k, v, bound=2e-3, **options):
    """Gradients by q, k, v (and a sink) of a random combination of both results, against autograd in f64."""
    named = dict(q=q, k=k, v=v, **({"sink": options["sink"]} if "sink" in options else {}))
    ours = {n: x.detach().clone().requires_grad_() for n, x in named.items()}
    wide = {n: x.detach().double().requires_grad_() for n, x in named.items()}
    results = ops.attention(**{**options, **ours}, return_lse=True)
    exact_options = {k: v for k, v in options.items() if k not in (
        "causal", "window", "deterministic", "sink", "num_splits")}
    left, right = options.get("window", (-1, -1))
    right = 0 if options.get("causal") else right
    exact = reference.attention(**wide, **exact_options, left=left, right=right)
    seeds = [random(*x.shape, seed=i + 20) for i, x in enumerate(exact)]
    seeds[1] = seeds[1].masked_fill(exact[1].isinf(), 0.0)
    seen = ~exact[1].isinf()
    torch.autograd.backward(results, [seeds[0].to(q.dtype), seeds[1]])
    (exact[0] * seeds[0].to(q.dtype)).sum().add((exact[1][seen] * seeds[1][seen]).sum()).backward()
    for name in named:
        theirs = wide[name].grad.nan_to_num()
        difference = (ours[name].grad.double() - theirs).abs().max()
        assert difference <= bound * max(float(theirs.abs().max()), 1e-3), name
    return ours


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "keys"), cases(
    [(1, 1), (33, 64), (65, 97), (ROWS + 1, 150)],
    [(a + i, b + j) for a in (64, 128, 256) for b in (64, 128, 256) for i in (-1, 0, 1) for j in (-1, 0, 1)]))
def test_gradients_of_lengths(rows, keys, causal):
    gradients(*operands(rows, keys, seed=rows), causal=causal)


@pytest.mark.parametrize("keys", [70, 140] if target().wave == 32 else [70])  # long ones have another tile there
@pytest.mark.parametrize(
    ("d", "dv"), cases([(128, 128), (192, 128), (96, 96), (256, 256)], [(256, 192), (32, 64), (160, 224)]))
def test_gradients_of_head_dimensions(d, dv, keys):
    gradients(*operands(40, keys, d, dv, dtype="bf16", heads=4, kv_heads=2), causal=True, bound=2e-2)


@pytest.mark.spread
@pytest.mark.parametrize("options", ["soft cap", "window", "causal window", "negative scale", "bias of heads", "ALiBi",
                                     "sink", "sink, causal", "all"])
def test_gradients_with_options(options):
    gradients(*operands(70, 150, heads=4, kv_heads=2, batch=2), **OPTIONS[options])


def test_gradients_of_packed_sequences():
    queries, keys = (10, 0, 70, 1), (100, 20, 71, 0)
    k, v = (random(sum(keys), 2, 64, dtype="f16", seed=s) for s in (1, 2))
    gradients(random(sum(queries), 4, 64, dtype="f16"), k, v, cu_seqlens_q=starts(*queries), cu_seqlens_k=starts(*keys),
              causal=True)


def test_gradients_of_padded_and_strided_operands():
    gradients(*operands(33, 40, 80, 40))
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in operands(33, 40, heads=4, kv_heads=2))
    gradients(q, k, v, causal=True)


def test_gradients_are_the_same_bits_each_time():
    first, again = (gradients(*operands(70, 90, heads=4), causal=True, deterministic=True) for _ in range(2))
    assert all(torch.equal(first[n].grad, again[n].grad) for n in first)


def test_gradients_that_are_not_there_are_refused():
    q, k, v = (x.requires_grad_() for x in operands(8, 9))
    bias = torch.zeros(8, 9, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no gradient with or by bias"):
        ops.attention(q, k, v, bias=bias).sum().backward()
    with pytest.raises(NotImplementedError, match="no gradient with or by seqlens_k"):
        ops.attention(q, k, v, seqlens_k=torch.tensor([3], dtype=torch.int32)).sum().backward()
