"""Embedding, cross entropy, argmax and sampling: beyond what holds for every operation (test_ops.py)."""

import math

import pytest
from kernel_helpers import DTYPES, Guarded, cases, close, random, torch
from torch.nn import functional as F  # noqa: N812 - its usual name

import flydsl.runtime as rt
from flydsl.kernels import ops
from flydsl.kernels.loss import build_cross_entropy_module
from flydsl.kernels.sampling.op import kept, philox
from flydsl.runtime import SimulatorError


@pytest.fixture(autouse=True)
def initialised():
    """No launch reads what was not written."""
    with rt.checked("oob,race,uninit") as report:
        yield
        rt.synchronize()
    assert not report.findings, "\n".join(map(str, report.findings))


# ------------------------------------------------------------------------------------------- embedding


@pytest.mark.parametrize(("n", "dtype", "index"), [(1, "f32", torch.int32), (264, "bf16", torch.int64),
                                                  (4100, "f16", torch.int64)])
def test_embedding_copies_rows_bit_for_bit(n, dtype, index):
    table = random(37, n, dtype=dtype)
    at = torch.tensor([[36, 0, 5], [5, 5, 1]], dtype=index)
    assert torch.equal(ops.embedding(at, table), table[at.long()])
    assert torch.equal(ops.embedding(at - at // 36, table[1:]), table[1:][at - at // 36])  # it begins anywhere


@pytest.mark.parametrize("padding", [2, -7])  # the same row
def test_the_table_gets_the_gradient_of_torch(padding):
    table, at = random(9, 33, dtype="bf16").requires_grad_(), torch.tensor([3, 3, 3, 0, 8, 2])
    seed = random(6, 33, dtype="bf16", seed=1)
    ops.embedding(at, table, padding_idx=padding).backward(seed)
    wide = table.detach().double().requires_grad_()
    F.embedding(at, wide, padding_idx=2).backward(seed.double())
    close(table.grad, wide.grad, 2e-2)
    assert bool((table.grad[2] == 0).all())
    with pytest.raises(ValueError, match="padding_idx must be a row of the table of 9, got -10"):
        ops.embedding(at, table, padding_idx=-10)


@pytest.mark.parametrize("bad", [-1, 5, 2**33])
def test_an_index_outside_the_table_stops_the_launch(bad):
    with pytest.raises(SimulatorError, match="trap"):
        ops.embedding(torch.tensor([0, bad]), random(5, 16))
        rt.synchronize()


# ------------------------------------------------------------------------------------------- cross entropy

ROWS = cases([(3, 1, "f32"), (5, 130, "f16"), (3, 5003, "bf16"), (2, 70001, "f32")],
             [(m, n, d) for d in DTYPES for m, n in ((64, 257), (7, 8192), (3, 151936))])


@pytest.mark.parametrize(("m", "n", "dtype"), ROWS)
def test_cross_entropy_and_its_gradient(m, n, dtype):
    x, targets = random(m, n, dtype=dtype, scale=4.0), torch.randint(0, n, (m,))
    targets[-1] = -100
    outs = [Guarded(m) for _ in range(3)]
    build_cross_entropy_module(n, dtype)(x, targets, *(o.out for o in outs), m, -100)
    wide = x.double().requires_grad_()
    exact = F.cross_entropy(wide, targets, reduction="none")
    close(outs[0].check(), exact.detach(), 2e-5)
    assert torch.equal(outs[1].check(), x.float().amax(-1))
    close(outs[2].check(), wide.detach().logsumexp(-1) - x.double().amax(-1), 2e-5)
    x.requires_grad_()
    for reduction in ("mean", "sum"):
        (loss := ops.cross_entropy(x, targets, reduction=reduction)).backward()
        reference = F.cross_entropy(wide, targets, reduction=reduction)
        (grad,) = torch.autograd.grad(reference, wide)
        assert abs(loss.item() - reference.item()) <= 1e-5 * max(abs(reference.item()), 1)
        close(x.grad, grad, {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3}[dtype])
        assert bool((x.grad[-1] == 0).all())
        x.grad = None


def test_cross_entropy_of_far_values():
    least = torch.finfo(torch.float32).min
    x = torch.tensor([[1e4, -1e4, 9999.0], [-math.inf, 2.0, 1.0], [3e38, 3e38, -3e38], [-3e5, -3e5, -3e5 - 2],
                      [least, least, least], [-math.inf, -math.inf, 1.0], [-math.inf] * 3], requires_grad=True)
    wide, targets = x.detach().double().requires_grad_(), torch.tensor([0, 1, 1, 2, 0, 1, 0])
    losses = [f(given, targets, reduction="none") for f, given in ((ops.cross_entropy, x), (F.cross_entropy, wide))]
    for loss in losses:
        loss.backward(torch.ones_like(loss))
    # Where the target has no chance the loss is infinite, where nothing has it is NaN.
    for mine, theirs in ((losses[0], losses[1]), (x.grad, wide.grad)):
        assert torch.allclose(mine.double(), theirs, 1e-6, 1e-6, equal_nan=True), (mine, theirs)
    assert bool(ops.cross_entropy(x, torch.full((7,), -100)).isnan())  # as torch: the mean of nothing


def test_what_cross_entropy_refuses():
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, none, got 'max'"):
        ops.cross_entropy(random(2, 3), torch.zeros(2, dtype=torch.long), reduction="max")
    with pytest.raises(ValueError, match="targets must have the shape of the rows"):
        ops.cross_entropy(random(2, 3), torch.zeros(3, dtype=torch.long))
    with pytest.raises(SimulatorError, match="trap"):
        ops.cross_entropy(random(2, 3), torch.tensor([0, 3]))
        rt.synchronize()


# ------------------------------------------------------------------------------------------- argmax, sample


@pytest.mark.parametrize(("n", "dtype"), [(1, "f32"), (7, "bf16"), (3001, "f16"), (70001, "f32")])
def test_argmax_is_the_first_of_the_largest(n, dtype):
    x = random(3, n, dtype=dtype)
    x[0, n // 3 :: max(n // 7, 1)] = 9.0
    assert ops.argmax(x).tolist() == [int((row == row.max()).nonzero()[0]) for row in x]


def test_argmax_of_special_values():
    x = torch.tensor([[-0.0, 0.0, -1.0], [1.0, torch.nan, torch.inf], [-torch.inf, -torch.inf, -3e38],
                      [-torch.inf, -torch.inf, -torch.inf]])
    assert ops.argmax(x).tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize(("n", "dtype", "temperature", "top_k", "top_p"), [
    (300, "f32", 1.3, 0, 1.0), (99, "bf16", 0.8, 7, 1.0), (3000, "f16", 1.0, 0, 0.6), (2500, "f32", 0.5, 40, 0.8),
    (65601, "bf16", 1.0, 50, 0.9), (64, "f32", 1.0, 1, 1.0), (64, "f32", 2.0, 0, 1e-9),
])
def test_what_is_drawn_is_what_the_definition_draws(n, dtype, temperature, top_k, top_p):
    rows = 4 if n < 4000 else 2
    x = random(rows, n, dtype=dtype, scale=2.0)
    for seed in (0, -3)[: rows // 2]:
        token = ops.sample(x, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
        p = kept(x, temperature, top_k, top_p)
        noise = -torch.log1p(-(philox(seed, rows, n).double() + 0.5) * 2.0**-32)
        assert token.tolist() == (p / noise).argmax(-1).tolist()


def test_draws_follow_the_distribution():
    """Frequencies over many rows against the probabilities: Pearson's test at 5 standard deviations."""
    p = torch.tensor([0.5, 0.25, 0.125, 0.0625, 0.0625])
    rows = 4000
    count = torch.bincount(ops.sample(p.log().expand(rows, 5), seed=11), minlength=5).double()
    chi = ((count - rows * p) ** 2 / (rows * p)).sum()
    assert chi < 4 + 5 * math.sqrt(2 * 4)


def test_the_noise_is_philox():
    """Known words of Philox-4x32-10 for a zero counter and key (Random123's test vectors)."""
    assert philox(0, 1, 4).tolist() == [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]]


def test_rows_without_a_distribution_get_no_token():
    x = torch.zeros(5, 6)
    x[0, 2], x[1, 3], x[2] = torch.nan, torch.inf, -torch.inf
    x[3, :5] = -torch.inf
    assert ops.sample(x[:4], seed=3).tolist() == [-1, -1, -1, 5]
    assert ops.sample(x[:4], seed=3, top_k=2, top_p=0.5).tolist() == [-1, -1, -1, 5]


def test_the_largest_at_temperature_0_and_what_is_refused():
    x = random(3, 50)
    assert torch.equal(ops.sample(x, temperature=0), x.argmax(-1))
    for options, text in (({"temperature": -1.0}, "temperature must be 0"), ({"top_k": -1}, "top_k must be 0"),
                          ({"top_p": 0.0}, "top_p must be above 0"), ({"top_p": 1.5}, "top_p must be above 0")):
        with pytest.raises(ValueError, match=text):
            ops.sample(x, **options)


def test_seeds_have_64_bits_with_or_without_a_sign():
    x = random(40, 50)
    drawn = ops.sample(x, seed=-5)
    assert torch.equal(ops.sample(x, seed=2**64 - 5), drawn) and not torch.equal(ops.sample(x, seed=2**63), drawn)
    assert ops.sample(x.numpy(), seed=2**64 - 5).tolist() == drawn.tolist()
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="the seed must have 64 bits"):
            ops.sample(x, seed=seed)
