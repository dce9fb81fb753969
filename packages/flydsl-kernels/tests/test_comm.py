"""Collectives of several processes, each with a simulated GPU of its own, against sums in float64."""

import os
import random
import time
import traceback
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
import torch.multiprocessing as mp  # noqa: E402

FULL = os.environ.get("FLYDSL_KERNELS_FULL") == "1"
COUNTERS = True  # nothing is launched in this process
DTYPES = (torch.float32, torch.float16, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def _worker(rank, ranks, folder, test, arguments):
    os.environ.update(FLYDSL_SIM_CHECK="oob", FLYDSL_SIM_THREADS="1")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    try:
        test(rank, ranks, *arguments)
    except BaseException:
        (folder / f"error-{rank}").write_text(traceback.format_exc())
        raise
    dist.barrier()
    dist.destroy_process_group()


def run(test, ranks, folder, *arguments):
    """Run `test(rank, ranks, *arguments)` in processes of a group."""
    context = mp.spawn(_worker, (ranks, folder, test, arguments), ranks, join=False)
    deadline = time.monotonic() + 300
    try:
        while not context.join(timeout=5):
            assert time.monotonic() < deadline, "the ranks hang"
    except mp.ProcessRaisedException as error:
        pytest.fail("\n".join(path.read_text() for path in folder.glob("error-*")) or str(error))
    finally:
        for process in context.processes:
            process.kill()


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
    view = torch.arange(24.0).reshape(4, 6).T + rank
    assert torch.equal(ops.all_reduce(view), sum(view - rank + r for r in range(ranks)))
    assert ops.all_reduce(torch.zeros(0, 3)).shape == (0, 3)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert torch.equal(ops.all_reduce(torch.ones(3, dtype=torch.int32)), torch.full((3,), ranks, dtype=torch.int32))
    assert "done by the backend gloo: torch.int32 is none of f32, f16, bf16" in str(said[0].message)
    with pytest.raises(ValueError, match="multiple of the"):
        ops.reduce_scatter(torch.zeros(ranks + 1, 2))


@pytest.mark.parametrize("ranks", (2, 3, 4, 8) if FULL else (2, 3))
def test_collectives(ranks, tmp_path):
    run(_all_collectives, ranks, tmp_path, 100 if FULL else 4, 20000)


def _reduced_norm(rank, ranks, shapes):
    from flydsl.kernels import ops

    torch.manual_seed(1)
    for dtype, shape in shapes:
        xs = [torch.randn(shape).to(dtype) for _ in range(ranks)]
        residual, weight = torch.randn(shape).to(dtype), torch.randn(shape[-1]).to(dtype)
        out, added = ops.all_reduce_rmsnorm(xs[rank], residual, weight)
        expected = ops.fused_add_rmsnorm(ops.all_reduce(xs[rank]), residual, weight)
        assert torch.equal(out, expected[0]) and torch.equal(added, expected[1])
    with pytest.raises(ValueError, match="one shape and dtype"):
        ops.all_reduce_rmsnorm(xs[rank], residual[:1], weight)


def test_all_reduce_with_a_norm(tmp_path):
    shapes = [(torch.float32, (3, 2, 97)), (torch.bfloat16, (100, 1024)), (torch.float16, (5, 8192))]
    run(_reduced_norm, 2, tmp_path, shapes)


def _older_object(rank, ranks):
    from flydsl.kernels.custom_all_reduce import FlyDSLAllreduce, init_custom_ar, meta_size

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
    assert reducer.custom_all_reduce(x[:3]) is None and not reducer.should_custom_ar(x.long())
    with pytest.raises(NotImplementedError, match="fp8"):
        reducer.custom_all_reduce(x, open_fp8_quant=True)
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
    whole = ColumnParallelLinear(up, gather=True)(x)
    torch.testing.assert_close(whole.double(), x.double() @ up.double().T, atol=2e-2, rtol=2e-2)
    with pytest.raises(ValueError, match="multiple of the 2 ranks"):
        RowParallelLinear(torch.zeros(4, 5))


@pytest.mark.parametrize("test", (_older_object, _parallel_linear))
def test_on_the_communicator(test, tmp_path):
    run(test, 2, tmp_path)


def _failures(rank, ranks):
    from flydsl.kernels.comm import CollectiveError, Communicator

    def exchange(comm, elements):
        comm.exchange("all_gather", torch.zeros(elements), torch.zeros(ranks * elements))

    # A rank that does not come: the others say so, and the communicator is closed.
    group = Communicator(most_bytes=1 << 16, limit=20)
    exchange(group, 16)
    group.limit = 2
    if rank:
        with pytest.raises(CollectiveError, match=r"all_gather \(16,\) torch.float32: rank 0 did not come within 2 s"):
            exchange(group, 16)
        with pytest.raises(CollectiveError, match="rank 0 did not come"):
            exchange(group, 16)
    dist.barrier()
    group.close()
    # Another size on one rank: every rank fails, the later one by the other's word.
    group = Communicator(most_bytes=1 << 16, limit=20)
    dist.barrier()
    with pytest.raises(CollectiveError, match="called something else|gave up"):
        exchange(group, 32 if rank else 16)
    with pytest.raises(ValueError, match="was made for 65536"):
        exchange(Communicator(most_bytes=1 << 16), 1 << 20)


def test_failures_name_the_rank(tmp_path):
    run(_failures, 2, tmp_path)


def test_without_a_group():
    from flydsl.kernels import ops

    with pytest.raises(RuntimeError, match="init_process_group"):
        ops.all_reduce(torch.zeros(4))
    with pytest.raises(TypeError, match="a torch tensor is needed"):
        ops.all_gather([1.0])
