"""Collectives where torch asks for them: functional collectives, compiled graphs, and symmetric memory."""

import gc
import os
import warnings

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from ranks import pool, without_race_check  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

COUNTERS = True  # nothing is launched in this process


def _operands(ranks, shape, dtype=torch.float32, seed=0):
    return [torch.randn(shape, generator=torch.Generator().manual_seed(seed + r)).to(dtype) for r in range(ranks)]


def _functional(rank, ranks):
    import torch.distributed._functional_collectives as fc

    from flydsl.kernels.comm import functional_collectives

    xs = _operands(ranks, (2 * ranks, 33))
    total = sum(x.double() for x in xs)

    def step(x):
        y = fc.all_reduce(x, "sum", dist.group.WORLD) * 2
        shares = fc.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
        moved = fc.all_to_all_single(x, None, None, dist.group.WORLD)
        return y, fc.all_gather_tensor(shares, 0, dist.group.WORLD), moved

    with functional_collectives() as calls:
        for run in (step, torch.compile(step, backend="aot_eager", fullgraph=True)):
            calls.clear()
            y, gathered, moved = run(xs[rank].clone())
            torch.testing.assert_close(y.double(), total * 2, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(gathered.double(), total, atol=1e-5, rtol=1e-5)
            assert torch.equal(moved, torch.cat([x.chunk(ranks)[rank] for x in xs]))
            assert all(how == "kernels" for _, how in calls) and len(calls) == 4
        calls.clear()
        several = fc.all_reduce_coalesced([xs[rank], xs[rank] + 1], "sum", dist.group.WORLD)
        torch.testing.assert_close(several[1].double(), total + ranks, atol=1e-5, rtol=1e-5)
        assert calls == {("all_reduce", "kernels"): 2}
        calls.clear()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            largest = fc.all_reduce(xs[rank], "max", dist.group.WORLD)
            counted = fc.all_reduce(torch.ones(3, dtype=torch.int64), "sum", dist.group.WORLD)
        assert torch.equal(largest, torch.stack(xs).amax(0)) and counted.tolist() == [ranks] * 3
        assert calls == {("all_reduce", "backend"): 2}
        texts = [str(w.message) for w in said]
        assert any("done by the group's backend: max is not a sum" in text for text in texts)
        assert any("torch.int64 is none of f32, f16, bf16" in text for text in texts)
        with pytest.raises(RuntimeError, match="active already"), functional_collectives():
            pass
    calls.clear()
    after = fc.all_reduce(xs[rank], "sum", dist.group.WORLD)
    torch.testing.assert_close(after.double() + 0, total, atol=1e-5, rtol=1e-5)
    assert not calls  # torch's own again


def _compiled(rank, ranks):
    """Our operations in one graph, with gradients, as eager ones are."""
    from flydsl.kernels import ops

    xs = _operands(ranks, (2 * ranks, 24))

    def step(x):
        y = ops.all_reduce(x.sin())
        z = ops.all_gather(ops.reduce_scatter(y * x))
        return (ops.all_to_all(z) * y).sum(1)

    x, again = (xs[rank].clone().requires_grad_() for _ in range(2))
    expected = step(x)
    expected.sum().backward()
    got = torch.compile(step, backend="aot_eager", fullgraph=True)(again)
    got.sum().backward()
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(again.grad, x.grad, atol=1e-4, rtol=1e-4)
    half = torch.compile(lambda x: ops.all_reduce(x, dist.group.WORLD), backend="aot_eager", fullgraph=True)
    assert torch.equal(half(xs[rank].half()), ops.all_reduce(xs[rank].half()))


def _symmetric(rank, ranks):
    from flydsl.kernels import comm

    for turn, (dtype, count) in enumerate(((torch.float32, 8), (torch.bfloat16, 8 * 1031), (torch.float16, 4096))):
        xs = _operands(ranks, (count,), dtype, 10 * turn)
        memory = comm.empty(count + 64, dtype=dtype)
        shared = comm.rendezvous(memory)
        assert comm.rendezvous(memory[8:]) is shared and (shared.rank, shared.world_size) == (rank, ranks)
        memory.fill_(7)
        x = memory[16 : 16 + count]
        x.copy_(xs[rank])
        dist.barrier()
        assert shared.all_reduce_(x) is x
        expected = sum(x.double() for x in xs)
        bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[dtype]
        torch.testing.assert_close(x.double(), expected, atol=bound, rtol=bound)
        assert (memory[:16] == 7).all() and (memory[16 + count :] == 7).all()
        every = [shared.get_buffer(r, (count,), dtype, 16) for r in range(ranks)]
        assert all(torch.equal(other, x) for other in every)
        dist.barrier()
        memory.fill_(rank)
        for channel in (0, 3):
            shared.barrier(channel)
        assert [float(shared.get_buffer(r, (1,), dtype)) for r in range(ranks)] == list(range(ranks))
        shared.barrier()
        shared.close()
    with pytest.raises(ValueError, match="must be one of comm.empty"):
        comm.rendezvous(torch.empty(8))
    memory = comm.empty(2, 4, dtype=torch.int32)
    shared = comm.rendezvous(memory)
    memory.fill_(rank + 1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        shared.all_reduce_(memory)
    assert (memory == ranks * (ranks + 1) // 2).all()
    assert "all_reduce_ is done by the backend gloo: torch.int32" in str(said[0].message)
    with pytest.raises(ValueError, match="view of the memory"):
        shared.all_reduce_(torch.zeros(4))
    with pytest.raises(ValueError, match="bytes on each"):
        shared.get_buffer(0, (shared.buffer_size + 1,), torch.uint8)
    with pytest.raises(ValueError, match="another group"):
        comm.rendezvous(memory, dist.new_group(backend="gloo"))
    with pytest.raises(ValueError, match="all ranks must agree, but bytes is"):
        comm.rendezvous(comm.empty(1 << (12 + rank), dtype=torch.uint8))
    shared.close()
    with pytest.raises(comm.CollectiveError, match="closed"):
        shared.barrier()


@without_race_check()
def _mismatched(rank, ranks):
    """Ranks that sum different places are told so."""
    from flydsl.kernels import comm

    memory = comm.empty(64)
    shared = comm.rendezvous(memory)
    dist.barrier()
    with pytest.raises(comm.CollectiveError, match="called something else|gave up"):
        shared.all_reduce_(memory[8 * rank : 8 * rank + 16])


@pytest.mark.one_arch
@pytest.mark.parametrize("test", (_functional, _compiled, _symmetric, _mismatched))
def test_on_two_ranks(test, pool):  # noqa: F811
    pool(2).run(test)


def _memory_is_given_back(rank, ranks):
    from flydsl.kernels import comm

    before = len(os.listdir("/proc/self/fd")), _mapped()
    for _ in range(3):
        memory = comm.empty(1 << 16)
        view = memory[5:]
        shared = comm.rendezvous(memory)
        del memory
        gc.collect()
        view.fill_(1)  # a view keeps the memory
        shared.barrier()
        shared.close()
        del view, shared
        gc.collect()
    assert (len(os.listdir("/proc/self/fd")), _mapped()) == before


def _mapped():
    """Names of shared mappings of this process, without those that torch has."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return sorted(line.split()[-1] for line in lines if " rw-s" in line and "torch" not in line)


@pytest.mark.one_arch
def test_symmetric_memory_is_given_back(pool):  # noqa: F811
    pool(2).run(_memory_is_given_back)
