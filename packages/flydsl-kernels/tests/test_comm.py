"""Collectives of several processes, each with a simulated GPU of its own, against sums in float64."""

import contextlib
import ctypes
import random
import time
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from kernel_helpers import FULL  # noqa: E402
from ranks import pool, without_race_check  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

COUNTERS = True  # nothing is launched in this process
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
NAMES = ("f32", "f16", "bf16")
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def _same_on_all(x):
    every = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(every, x.contiguous())
    return all(torch.equal(x, other) for other in every)


def _all_collectives(rank, ranks, rounds, elements):
    from flydsl.kernels import ops

    torch.manual_seed(0)
    skew = random.Random(rank)
    for turn in range(rounds):
        dtype = DTYPES[turn % 3]
        shape = (ranks * (1 + turn % 4), elements // (1 + turn % 5) + turn)
        xs = [torch.randn(shape).to(dtype) for _ in range(ranks)]
        total = sum(x.double() for x in xs)
        time.sleep(skew.random() * 0.01)
        summed = ops.all_reduce(xs[rank])
        torch.testing.assert_close(summed.double(), total, atol=TOLERANCE[dtype] * ranks, rtol=TOLERANCE[dtype])
        assert summed.dtype == dtype and _same_on_all(summed)
        part = ops.reduce_scatter(xs[rank])
        torch.testing.assert_close(part, summed.chunk(ranks)[rank], atol=0, rtol=0)
        assert torch.equal(ops.all_gather(xs[rank]), torch.cat(xs))
        assert torch.equal(ops.all_to_all(xs[rank]), torch.cat([x.chunk(ranks)[rank] for x in xs]))
    for dtype in (torch.int64, torch.uint8):
        x = torch.arange(ranks * 3, dtype=dtype) + rank
        assert torch.equal(ops.all_gather(x), torch.cat([x - rank + r for r in range(ranks)]))
    for dtype in (torch.complex64, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2):  # no operands of kernels
        size = torch.empty(0, dtype=dtype).element_size()
        xs = [torch.randint(0, 127, (ranks, 5, size), dtype=torch.uint8) for _ in range(ranks)]
        x = xs[rank].view(dtype)
        assert torch.equal(ops.all_gather(x).view(torch.uint8), torch.cat(xs))
        assert torch.equal(ops.all_to_all(x).view(torch.uint8), torch.cat([x.chunk(ranks)[rank] for x in xs]))
    lazy = torch.tensor([1 + 2j]).conj()
    assert ops.all_gather(lazy).tolist() == [1 - 2j] * ranks and ops.all_gather(lazy.imag).tolist() == [-2] * ranks
    view = torch.arange(24.0).reshape(4, 6).T + rank
    assert torch.equal(ops.all_reduce(view), sum(view - rank + r for r in range(ranks)))
    assert ops.all_reduce(torch.zeros(0, 3)).shape == (0, 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert torch.equal(ops.all_reduce(torch.ones(3, dtype=torch.int32)), torch.full((3,), ranks, dtype=torch.int32))
    assert "done by the backend gloo: torch.int32 is none of f32, f16, bf16" in str(said[0].message)
    with pytest.raises(ValueError, match="multiple of the"):
        ops.reduce_scatter(torch.zeros(ranks + 1, 2))
    if ranks > 2:
        ends = dist.new_group([0, ranks - 1], backend="gloo")
        if rank in (0, ranks - 1):
            assert torch.equal(ops.all_reduce(torch.full((8,), rank + 1.0), ends), torch.full((8,), ranks + 1.0))


@pytest.mark.parametrize("ranks", (2, 3, 4, 8) if FULL else (2, pytest.param(3, marks=pytest.mark.one_arch)))
def test_collectives(ranks, pool):  # noqa: F811
    pool(ranks).run(_all_collectives, 100 if FULL else 3, 20000 if FULL else 6000)


def _rounds(rank, ranks, rounds):
    """Collectives of random sizes, one after another, of ranks that come at random times; every round is checked
    against the definition, and all ranks have the same bits."""
    from flydsl.kernels import ops

    plan, skew = random.Random(7), random.Random(rank)
    for turn in range(rounds):
        dtype = DTYPES[plan.randrange(3)]
        kind = plan.choice(("all_reduce", "reduce_scatter", "all_gather", "all_to_all"))
        rows, columns = ranks * plan.randint(1, 3), int(10 ** plan.uniform(0, 3.2))
        xs = torch.randn(ranks, rows, columns, generator=torch.Generator().manual_seed(turn)).to(dtype)
        if skew.random() < 0.3:
            time.sleep(skew.random() * 0.005)
        y = getattr(ops, kind)(xs[rank].clone())
        total = xs.double().sum(0)
        expected = {"all_reduce": total, "reduce_scatter": total.chunk(ranks)[rank],
                    "all_gather": xs.double().flatten(0, 1),
                    "all_to_all": torch.cat([x.chunk(ranks)[rank] for x in xs]).double()}[kind]
        bound = TOLERANCE[dtype] if kind in ("all_reduce", "reduce_scatter") else 0.0
        torch.testing.assert_close(y.double(), expected, atol=bound * ranks, rtol=bound, msg=f"{turn}: {kind}")
        if kind == "all_reduce" and turn % 16 == 0:
            assert _same_on_all(y)


@pytest.mark.one_arch
@pytest.mark.parametrize("ranks", (2, 4, 8) if FULL else (2,))  # eight of one process: test_comm_scopes.py
def test_rounds(ranks, pool):  # noqa: F811
    pool(ranks).run(_rounds, 1000 if FULL else 20)


def _reduced_norm(rank, ranks, shapes):
    from flydsl.kernels import ops
    from flydsl.kernels.target import target

    torch.manual_seed(1)
    for dtype, shape in shapes:
        xs = [torch.randn(shape).to(dtype) for _ in range(ranks)]
        residual, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
        out, added = ops.all_reduce_rmsnorm(xs[rank], residual, weight)
        expected = ops.fused_add_rmsnorm(ops.all_reduce(xs[rank]), residual, weight)
        assert torch.equal(out, expected[0]) and torch.equal(added, expected[1])
        total, smooth = ops.all_reduce(xs[rank]), torch.rand(shape[-1]).float()
        out, _ = ops.all_reduce_rmsnorm(xs[rank], residual, weight, weight_offset=1.0)
        assert torch.equal(out, ops.fused_add_rmsnorm(total, residual, weight, weight_offset=1.0)[0])
        for kind in ("i8", "fp8") if target().fp8_name is not None else ("i8",):
            for x_scale in (None, smooth):
                got = ops.all_reduce_rmsnorm_quant(xs[rank], residual, weight, x_scale, kind)
                expected = ops.fused_add_rmsnorm_quant(total, residual, weight, x_scale, kind)
                assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8))
                           for a, b in zip(got, expected, strict=True))
    with pytest.raises(ValueError, match="one shape and dtype"):
        ops.all_reduce_rmsnorm(xs[rank], residual[:1], weight)


def test_all_reduce_with_a_norm(pool):  # noqa: F811
    shapes = [(torch.float32, (3, 2, 97)), (torch.bfloat16, (100, 1024)), (torch.float16, (5, 8192)),
              (torch.bfloat16, (26, 2049))]  # rows of different workgroups in one word
    pool(2).run(_reduced_norm, shapes)


def _small_sizes(rank, ranks):
    """Nothing at all, and one of everything: results have their shapes, and nothing is reported."""
    import numpy as np

    from flydsl.kernels import ops
    from flydsl.kernels.comm import RowParallelLinear, linear

    def ones(*shape):
        return torch.ones(shape).half()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shape in ((), (1,), (0,), (2, 0), (ranks, 1)):
            assert torch.equal(ops.all_reduce(ones(*shape)), ones(*shape) * ranks)
            if shape:
                assert torch.equal(ops.all_gather(ones(*shape)), torch.cat([ones(*shape)] * ranks))
            if shape and shape[0] % ranks == 0:
                assert torch.equal(ops.all_to_all(ones(*shape)), ones(*shape))
                assert torch.equal(ops.reduce_scatter(ones(*shape)), ones(shape[0] // ranks, *shape[1:]) * ranks)
        for shape in ((0, 16), (1, 16), (2, 1), (2, 0), (1,), (0,)):
            for got in ops.all_reduce_rmsnorm(ones(*shape), ones(*shape), ones(shape[-1])):
                assert got.shape == shape
            q, added, scale = ops.all_reduce_rmsnorm_quant(ones(*shape), ones(*shape), ones(shape[-1]))
            assert (q.shape, added.shape, scale.shape) == (shape, shape, shape[:-1])
        bias = torch.arange(64).half()
        for m, k in ((0, 0), (0, 32), (2, 0), (1, 32)):
            x, weight = ones(m, k), ones(64, k)
            assert torch.equal(linear.linear_all_reduce(x, weight, bias), ones(m, 64) * ranks * k + bias)
            assert torch.equal(linear.all_gather_linear(x, weight, bias), ones(ranks * m, 64) * k + bias)
            if m % ranks == 0:
                got = linear.linear_reduce_scatter(x, weight, bias)
                assert torch.equal(got, ones(m // ranks, 64) * ranks * k + bias)
        assert linear.linear_all_reduce(ones(2, 32), ones(0, 32)).shape == (2, 0)
        assert linear.linear_all_reduce(ones(0, 3, 32), ones(64, 32)).shape == (0, 3, 64)
        assert RowParallelLinear(ones(64, 32 * ranks))(ones(0, 32)).shape == (0, 64)
    with pytest.raises(ValueError, match="rows must be a multiple of the"):
        linear.linear_reduce_scatter(ones(1, 32), ones(64, 32))
    with pytest.raises(TypeError, match="a torch tensor is needed, got ndarray"):
        ops.all_reduce_rmsnorm(np.ones((4, 4)), np.ones((4, 4)), np.ones(4))


def _older_object(rank, ranks):
    from flydsl.kernels.custom_all_reduce import FlyDSLAllreduce, init_custom_ar, meta_size
    from flydsl.kernels.target import target

    with pytest.raises(ValueError, match="the group says"):
        FlyDSLAllreduce(world_size=ranks, rank=1 - rank, max_size=1 << 16)
    reducer = init_custom_ar(None, None, [None] * ranks, [0] * ranks, rank, True, max_size=1 << 20)
    assert meta_size() == 0
    x = torch.arange(64.0).half() + rank
    expected = sum(x - rank + r for r in range(ranks))
    assert torch.equal(reducer.custom_all_reduce(x), expected)
    out = torch.empty_like(x)
    with reducer.capture():
        assert reducer.all_reduce_reg(x, out) is out and torch.equal(out, expected)
    gathered = torch.empty(ranks * 64, dtype=torch.half)
    assert torch.equal(reducer.all_gather_reg(x, gathered), torch.cat([x - rank + r for r in range(ranks)]))
    for dtype, count in ((torch.int8, 5), (torch.float16, 1), (torch.complex64, 3), (torch.int64, 0)):
        gathered = torch.full((2, ranks * count), 7).to(dtype).T  # neither whole packs nor contiguous
        mine = (torch.arange(2.0 * count) + rank).to(dtype).reshape(count, 2)
        reducer.all_gather_reg(mine, gathered)
        assert torch.equal(gathered, torch.cat([mine - rank + r for r in range(ranks)]))
    with pytest.raises(ValueError, match="all_gather_reg: out must have 128 elements of torch.float16"):
        reducer.all_gather_reg(x, torch.empty(64, dtype=torch.half))
    turned = x.reshape(8, 8).T
    assert torch.equal(reducer.custom_all_reduce(turned), expected.reshape(8, 8).T)
    with pytest.raises(ValueError, match="with the strides of inp"):
        reducer.custom_all_reduce(turned, out=torch.empty(8, 8).half(), validate=False)
    assert reducer.custom_all_reduce(x[:3]) is None and not reducer.should_custom_ar(x.long())
    assert reducer.custom_all_reduce(x.reshape(4, 16)[:, :8]) is None  # with gaps
    if target().fp8_name is not None:
        torch.testing.assert_close(reducer.custom_all_reduce(x, open_fp8_quant=True), expected, rtol=2**-4, atol=0.1)
    assert reducer.custom_all_reduce(x).data_ptr() != reducer.custom_all_reduce(x, out=out).data_ptr()
    reducer.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLYDSL_AITER_REUSE_OUT", "1")
        reducer = FlyDSLAllreduce(max_size=1 << 20, world_size=ranks, rank=rank)
    first, second = reducer.custom_all_reduce(x), reducer.custom_all_reduce(x + 1)
    assert first.data_ptr() == second.data_ptr() and torch.equal(first, expected + ranks)
    reducer.close()


def _parallel_linear(rank, ranks):
    from flydsl.kernels.comm import ColumnParallelLinear, RowParallelLinear

    torch.manual_seed(2)
    up, down, bias = torch.randn(128, 64), torch.randn(64, 128), torch.randn(64)
    up, down, bias = (x.bfloat16() / 8 for x in (up, down, bias))
    x = torch.randn(5, 3, 64).bfloat16()
    first, second = ColumnParallelLinear(up), RowParallelLinear(down, bias)
    y = second(torch.relu(first(x)))
    expected = torch.relu(x.double() @ up.double().T) @ down.double().T + bias.double()
    torch.testing.assert_close(y.double(), expected, atol=2e-2, rtol=2e-2)
    rows = torch.randn(2 * ranks, 64).bfloat16()
    mine = RowParallelLinear(down, bias, rows=True)(
        torch.relu(ColumnParallelLinear(up, rows=True)(rows.chunk(ranks)[rank].contiguous())))
    expected = torch.relu(rows.double() @ up.double().T) @ down.double().T + bias.double()
    torch.testing.assert_close(mine.double(), expected.chunk(ranks)[rank], atol=2e-2, rtol=2e-2)
    gathering = ColumnParallelLinear(up, gather=True)
    torch.testing.assert_close(gathering(x).double(), x.double() @ up.double().T, atol=2e-2, rtol=2e-2)
    assert gathering(x[:0]).shape == (0, 3, 128)
    with pytest.raises(ValueError, match="multiple of the 2 ranks"):
        RowParallelLinear(torch.zeros(4, 5))


def _fused_products(rank, ranks):
    """Products fused with collectives, of ragged sizes, against sums in float64; twice, since memory is used again."""
    from flydsl.kernels.comm import linear

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for m, n, k, dtype in ((2 * ranks, 72, 64, torch.bfloat16), (33 * ranks, 200, 104, torch.float16)):
            for turn in range(2):
                torch.manual_seed(turn)
                xs = [(torch.randn(m, k) / 4).to(dtype) for _ in range(ranks)]
                weights = [(torch.randn(n, k) / 4).to(dtype) for _ in range(ranks)]
                bias = torch.randn(n).to(dtype) if turn else None
                addend = 0 if bias is None else bias.double()
                summed = sum(x.double() @ w.double().T for x, w in zip(xs, weights, strict=True)) + addend
                bound = {"atol": 4e-2 if dtype == torch.bfloat16 else 6e-3, "rtol": 1.6e-2}
                got = linear.linear_all_reduce(xs[rank], weights[rank], bias)
                torch.testing.assert_close(got.double(), summed, **bound)
                assert _same_on_all(got)
                got = linear.linear_reduce_scatter(xs[rank], weights[rank], bias)
                torch.testing.assert_close(got.double(), summed.chunk(ranks)[rank], **bound)
                gathered = torch.cat([x.double() for x in xs]) @ weights[rank].double().T + addend
                got = linear.all_gather_linear(xs[rank], weights[rank], bias)
                torch.testing.assert_close(got.double(), gathered, **bound)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        x, weight = torch.randn(ranks, 60).bfloat16(), torch.randn(8, 60).bfloat16()
        got = linear.all_gather_linear(x, weight)
    assert got.shape == (ranks * ranks, 8)
    assert "two kernels: linear with all_gather: n and k must be multiples of 8" in str(said[0].message)


def _registered(rank, ranks):
    """The kernels on memory that the caller has shared: three kinds, twice each, of shares that are not equal."""
    import flydsl.runtime as rt
    from flydsl.kernels.comm.memory import ProcessGroup, SharedMemory
    from flydsl.kernels.comm.registered import SIGNAL_BYTES
    from flydsl.kernels.comm.transport import tensor_at
    from flydsl.kernels.custom_all_reduce import make_allreduce_kernels

    count = 8 * 301
    places = [i * (1 << 16) for i in range(4)]  # signals, input, temporary, result
    memory = SharedMemory("test", ProcessGroup(), 1 << 18, 30)
    rt.memset(memory.at(0), 0, SIGNAL_BYTES)
    dist.barrier()
    bases = memory.bases + (memory.at(0) - int(memory.bases[rank]))
    signals, inputs, temporaries, outs = (bases + place for place in places)
    runs = make_allreduce_kernels(N=count, dtype_str="bf16", world_size=ranks)
    x, out = (tensor_at(memory.at(place), (count,), torch.bfloat16) for place in (places[1], places[3]))
    rotated = {name: torch.roll(table, -rank) for name, table in (("in", inputs), ("tmp", temporaries))}
    start = rank, 2, int(signals[rank]), signals.data_ptr()
    arguments = {"run_1stage_arr": (rotated["in"].data_ptr(), out.data_ptr()),
                 "run_2stage_arr": (rotated["in"].data_ptr(), rotated["tmp"].data_ptr(), out.data_ptr()),
                 "run_2stage_write_mode": (x.data_ptr(), outs.data_ptr(), temporaries.data_ptr())}
    assert set(runs) == set(arguments)
    for turn, name in enumerate(2 * tuple(arguments)):
        torch.manual_seed(turn)
        xs = [torch.randn(count).bfloat16() for _ in range(ranks)]
        x.copy_(xs[rank])
        out.fill_(float("nan"))
        dist.barrier()  # the kernels do not wait for the results of the ones before
        runs[name](*start, *arguments[name])
        torch.testing.assert_close(out.double(), sum(x.double() for x in xs), atol=2e-2, rtol=1.6e-2)
        assert _same_on_all(out)
        dist.barrier()
    with pytest.raises(ValueError, match="world_size must be 2, 4 or 8"):
        make_allreduce_kernels(N=count, dtype_str="bf16", world_size=3)
    memory.close()


def _transports(rank, ranks):
    """All ways of an all-reduce, of sizes that fill no unit; fp8 within the error of its definition."""
    from flydsl.kernels import ops
    from flydsl.kernels.comm import Communicator
    from flydsl.kernels.target import target

    group = Communicator(most_bytes=1 << 18)
    for turn, elements in enumerate((8, 5000, 40008)):
        dtype = DTYPES[turn % 3]
        torch.manual_seed(turn)
        xs = [torch.randn(elements).mul(10.0 ** (r - 1)).to(dtype) for r in range(ranks)]
        exact, sums = sum(x.double() for x in xs), []
        for kind in ("all_reduce", "all_reduce_two_stage", "all_reduce_write"):
            out = torch.full_like(xs[0], float("nan"))
            group.exchange(kind, xs[rank], out, NAMES[turn % 3])
            sums.append(out)
        assert torch.equal(sums[0], sums[1]) and torch.equal(sums[0], sums[2])
        if target().fp8_name is None:
            continue
        # To nearest is 2**-4 of a value, or half of the smallest step, 2**-10 of the scale, where it is small.
        top = [torch.nn.functional.pad(x.double().abs(), (0, -elements % 128)).reshape(-1, 128).amax(1) for x in xs]
        floor = sum(t / target().fp8_max * 2**-9 for t in top).repeat_interleave(128)[:elements]
        bound = sum(x.double().abs() for x in xs) * 2**-4 + floor
        for kind in ("all_reduce", "all_reduce_two_stage"):
            out = torch.full_like(xs[0], float("nan"))
            group.exchange(kind, xs[rank], out, NAMES[turn % 3], fp8=True)
            again = 2 if kind != "all_reduce" else 1  # the sums are quantised as well, with the scales of their groups
            limit = again * (bound + floor.max() * (again - 1)) * 1.07 + exact.abs() * TOLERANCE[dtype]
            assert ((out.double() - exact).abs() <= limit).all()
            assert _same_on_all(out.float())
        assert not torch.equal(out, sums[0])  # they did travel in 8 bits
    if target().fp8_name is not None:
        x = torch.randn(300, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(ops.all_reduce(x, fp8=True), ranks * x, rtol=2**-4, atol=0.02)
    x = torch.randn(300)
    with pytest.raises(ValueError, match="fp8 is for sums"):
        group.exchange("all_gather", x, torch.empty(ranks * 300), fp8=True)
    for kind, out, dtype, error, message in (
            ("all_reduce", x[:296], "f32", ValueError, "out must have 1200 bytes"),
            ("all_gather", x, "bytes", ValueError, f"out must have {ranks * 1200} bytes"),
            ("reduce_scatter", x[:150], "f32", ValueError, "whole packs of 16 bytes in each of 2 shares, got 1200"),
            ("all_reduce", x.reshape(10, 30).T, "f32", ValueError, "x and out must be contiguous"),
            ("all_reduce", x, "f16", TypeError, "must be f16, got torch.float32"),
            ("all_reduce", x, "bytes", ValueError, "the dtype of sums must be given"),
            ("all_to_all", x, "f32", ValueError, "adds nothing")):
        with pytest.raises(error, match=message):
            group.exchange(kind, x, out, dtype)
    group.close()


def _pieces(rank, ranks):
    """Shares that are written in several pieces, the last of which is not whole."""
    from flydsl.kernels.comm import Communicator
    from flydsl.kernels.comm.config import exchange_config, piece_of
    from flydsl.kernels.comm.exchange import build_exchange

    group = Communicator(most_bytes=1 << 20)
    config = exchange_config("test", group.target, "all_reduce_write", ranks, "f32")
    for blocks, packs in ((1, 8 * 512 * ranks), (2, 7001), (1, 1100)):
        part = config.part(packs)
        assert part > piece_of(part, blocks * config.threads)
        xs = torch.randn(ranks, 4 * packs, generator=torch.Generator().manual_seed(packs))
        x, out = xs[rank].clone(), torch.full((4 * packs,), float("nan"))
        for _ in range(2):
            build_exchange(config)(x, out, group.memory.bases, rank, packs, packs, part, group._capacity, 7,
                                   group.limit, blocks)
            group.check()
            torch.testing.assert_close(out, xs.sum(0), atol=1e-5, rtol=1e-5)
            assert _same_on_all(out)
            out.fill_(float("nan"))
    group.close()


def _gradients(rank, ranks):
    from flydsl.kernels import ops

    torch.manual_seed(3)
    xs = [torch.randn(4, 8, dtype=torch.float32) for _ in range(ranks)]
    losses = [torch.randn(4 * ranks, 8) for _ in range(ranks)]  # by rank: the loss is the product with the result
    cases = {"all_reduce": lambda e: [sum(e)] * ranks, "all_gather": lambda e: [torch.cat(e)] * ranks,
             "reduce_scatter": lambda e: list(sum(e).chunk(ranks)),
             "all_to_all": lambda e: [torch.cat([x.chunk(ranks)[r] for x in e]) for r in range(ranks)]}
    for name, definition in cases.items():
        exact = [x.double().requires_grad_() for x in xs]
        results = definition(exact)
        sum((y * w[: len(y)].double()).sum() for y, w in zip(results, losses, strict=True)).backward()
        x = xs[rank].clone().requires_grad_()
        y = getattr(ops, name)(x)
        torch.testing.assert_close(y.double(), results[rank], atol=1e-5, rtol=1e-5)
        (y * losses[rank][: len(y)]).sum().backward()
        torch.testing.assert_close(x.grad.double(), exact[rank].grad, atol=1e-5, rtol=1e-5, msg=name)
    x, residual, weight = (torch.randn(shape, requires_grad=True) for shape in ((4, 8), (4, 8), (8,)))
    out, added = ops.all_reduce_rmsnorm(x, residual, weight)
    with torch.no_grad():
        fused = ops.all_reduce_rmsnorm(x, residual, weight)
    assert torch.equal(out, fused[0]) and torch.equal(added, fused[1])
    (out * out).sum().backward()
    assert all(t.grad is not None and t.grad.abs().sum() > 0 for t in (x, residual, weight))


@contextlib.contextmanager
def _captured(stream, graphs):
    """What is launched on `stream` in here becomes a graph; `graphs` gets a function that replays it."""
    import flydsl.runtime as rt

    library, handle = ctypes.CDLL(rt.library_path()), ctypes.c_void_p(stream.ptr)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    assert library.hipStreamBeginCapture(handle, 0) == 0
    yield
    assert library.hipStreamEndCapture(handle, ctypes.byref(graph)) == 0
    assert library.hipGraphInstantiate(ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0)) == 0
    assert library.hipGraphDestroy(graph) == 0

    def replay():
        assert library.hipGraphLaunch(executable, handle) == 0
        stream.synchronize()

    graphs.append(replay)


@without_race_check()
def _replayed(rank, ranks):
    """A graph of several exchanges gives the sums of what the operands hold when it is replayed."""
    import flydsl.runtime as rt
    from flydsl.kernels.comm import CollectiveError, Communicator

    group, stream, graphs = Communicator(most_bytes=1 << 20), rt.Stream(), []
    x, total, every = torch.zeros(4096), torch.zeros(4096), torch.zeros(ranks * 4096)

    def step():
        group.exchange("all_reduce_two_stage", x, total, "f32", stream=stream)
        group.exchange("all_gather", total, every, stream=stream)

    step()  # compiles and loads
    stream.synchronize()
    with _captured(stream, graphs):
        step()
    skew = random.Random(rank)
    for turn in range(5):
        torch.manual_seed(turn)
        xs = torch.randn(ranks, 4096)
        x.copy_(xs[rank])
        total.fill_(float("nan"))
        every.fill_(float("nan"))
        time.sleep(skew.random() * 0.02)
        graphs[0]()
        group.check()
        torch.testing.assert_close(total, xs.sum(0), atol=1e-5, rtol=1e-5)
        assert torch.equal(every, total.repeat(ranks))
    group.limit = 1
    if rank == 0:  # the others do not come: a replayed exchange says so when it is asked
        with _captured(stream, graphs):
            group.exchange("all_gather", total, every, stream=stream)
        graphs[1]()
        with pytest.raises(CollectiveError, match="rank 1 did not come within 1 s"):
            group.check()
    dist.barrier()
    group.close()


def _disagreement(rank, ranks):
    from flydsl.kernels.comm import Communicator

    with pytest.raises(ValueError, match="all ranks must agree, but bytes is .* on rank 0 and .* on rank 1"):
        Communicator(most_bytes=1 << (16 + rank))


@pytest.mark.one_arch
@pytest.mark.parametrize("test", (_older_object, _registered, _parallel_linear, _transports, _pieces, _small_sizes,
                                  _gradients, _replayed, _disagreement))
def test_on_the_communicator(test, pool):  # noqa: F811
    pool(2).run(test)


def test_products_that_are_exchanged(pool):  # noqa: F811
    pool(2).run(_fused_products)


def test_without_a_group():
    from flydsl.kernels import ops

    with pytest.raises(RuntimeError, match="init_process_group"):
        ops.all_reduce(torch.zeros(4))
    with pytest.raises(TypeError, match="a torch tensor is needed"):
        ops.all_gather([1.0])
