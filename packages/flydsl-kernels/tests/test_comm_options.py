"""Collectives of random sizes, dtypes and options against float64."""

import os
import random
import warnings

import pytest

torch = pytest.importorskip("torch")
from kernel_helpers import FULL  # noqa: E402
from ranks import pool  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

SEED = int(os.environ.get("FLYDSL_TEST_SEED", 0))
COUNTERS = True  # nothing is launched in this process
DTYPES = {torch.float32: ("f32", 1e-5), torch.float16: ("f16", 2e-3), torch.bfloat16: ("bf16", 1.6e-2)}


def _near(got, exact, bound):
    torch.testing.assert_close(got.double(), exact, atol=bound, rtol=bound)


def _operands(choose, ranks, shape, dtypes=tuple(DTYPES)):
    """(operands of all ranks, their dtype)"""
    dtype = choose.choice(dtypes)
    return [torch.randn(shape).to(dtype) for _ in range(ranks)], dtype


def _sums(rank, ranks, seed):
    """Every way of an all-reduce, with the same bits."""
    from flydsl.kernels.comm import Communicator

    choose, group = random.Random(seed), Communicator(most_bytes=1 << 20)
    torch.manual_seed(seed)
    for _ in range(4):
        xs, dtype = _operands(choose, ranks, 8 * choose.choice((1, 3, 125, choose.randint(1, 4000))))
        name, bound = DTYPES[dtype]
        outs = []
        for kind in ("all_reduce", "all_reduce_two_stage", "all_reduce_write"):
            outs.append(torch.full_like(xs[0], float("nan")))
            group.exchange(kind, xs[rank], outs[-1], name)
        _near(outs[0], sum(x.double() for x in xs), bound * ranks)
        assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])
    group.close()


def _norms(rank, ranks, seed):
    """The sum with a residual and a norm, and quantised."""
    from flydsl.kernels import ops
    from flydsl.kernels.target import target

    choose = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(3):
        n = choose.choice((1, 7, 64, 97, 1000, 2049, 5120))
        shape = (*(choose.randint(1, 3) for _ in range(choose.randint(0, 2))), choose.randint(1, 40), n)
        xs, dtype = _operands(choose, ranks, shape)
        residual, weight, eps = torch.randn(shape).to(dtype), torch.randn(n).to(dtype), choose.choice((1e-6, 1e-3))
        bound = 3 * DTYPES[dtype][1]
        sums = sum(x.double() for x in xs).to(dtype).double() + residual.double()
        normed = sums * torch.rsqrt((sums * sums).mean(-1, keepdim=True) + eps) * weight.double()
        out, added = ops.all_reduce_rmsnorm(xs[rank], residual, weight, eps)
        _near(added, sums, bound * ranks)
        _near(out, normed, 3 * bound)
        kind = choose.choice(("i8", "fp8") if target().fp8_name is not None else ("i8",))
        smooth = choose.choice((None, torch.rand(n) + 0.5))
        q, _, scale = ops.all_reduce_rmsnorm_quant(xs[rank], residual, weight, smooth, kind, eps)
        exact = normed if smooth is None else normed * smooth.double()
        top = exact.abs().amax(-1, keepdim=True)
        # Half a step of the integers, or of a value of three bits and of the smallest ones; and what rounds before.
        step = top / 127 * 0.51 if kind == "i8" else exact.abs() * 2**-4 + top * 2**-9
        assert ((q.double() * scale.double()[..., None] - exact).abs() <= step + 4 * bound * exact.abs() + bound).all()


def _products(rank, ranks, seed):
    """Linear layers with collectives, of sizes that fill no tile."""
    from flydsl.kernels.comm import linear

    choose = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(3):
        m, n, k = ranks * choose.randint(1, 37), 8 * choose.randint(1, 40), 8 * choose.randint(1, 40)
        xs, dtype = _operands(choose, ranks, (m, k), (torch.float16, torch.bfloat16))
        weights = [(torch.randn(n, k) / 8).to(dtype) for _ in range(ranks)]
        bias = choose.choice((None, torch.randn(n).to(dtype)))
        addend, bound = 0 if bias is None else bias.double(), DTYPES[dtype][1] * 2 * ranks
        total = sum(x.double() @ w.double().T for x, w in zip(xs, weights, strict=True)) + addend
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that some are two kernels
            _near(linear.linear_all_reduce(xs[rank], weights[rank], bias), total, bound)
            _near(linear.linear_reduce_scatter(xs[rank], weights[rank], bias), total.chunk(ranks)[rank], bound)
            gathered = torch.cat(xs).double() @ weights[rank].double().T + addend
            _near(linear.all_gather_linear(xs[rank], weights[rank], bias), gathered, bound)


def _experts(rank, ranks, seed):
    """Dispatch and combine of identity experts, with every option."""
    import test_comm_experts as experts

    choose = random.Random(seed)
    for _ in range(3):
        name, kind = choose.choice(("bf16", "f32", "fp8", "fp4")), choose.randrange(4)
        options = {"dispatch_block_num": choose.choice((1, 3, 128)), "combine_block_num": choose.choice((1, 2, 128)),
                   "dispatch_warp_num_per_block": choose.choice((1, 4, 16)),
                   "combine_warp_num_per_block": choose.choice((1, 8, 16))}
        if kind == 1 and name in ("bf16", "f32"):
            options[choose.choice(("zero_copy", "enable_std_moe"))] = True
        elif kind == 2 and name == "bf16":
            options["combine_quant_type"] = choose.choice(("fp8_direct_cast", "fp8_blockwise"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(experts, "EXPERTS", choose.choice((1, 2, 5, 7)))
            patch.setattr(experts, "SLOTS", choose.choice((1, 2, 6, 9)))
            patch.setattr(experts, "TOKENS", choose.choice((1, 4, 33)))
            patch.setattr(experts, "HIDDEN", choose.choice((128, 384, 640) if kind == 2 else (32, 96, 160, 512)))
            experts._identity_experts(rank, ranks, name, options)


@pytest.mark.one_arch
@pytest.mark.parametrize("ranks", (2, 4, 8) if FULL else (2,))
@pytest.mark.parametrize("test", (_sums, _norms, _products, _experts))
def test_random_options(test, ranks, pool):  # noqa: F811
    for seed in range(SEED, SEED + (10 if FULL else 1)):
        pool(ranks).run(test, seed)
