"""What goes wrong between ranks: who does not come, calls something else, or dies. Everyone else hears of it, by name,
and nothing is left of the shared memory."""

import gc
import os
import random
import re
import signal
import time

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.one_arch
import torch.distributed as dist  # noqa: E402
from kernel_helpers import FULL  # noqa: E402
from ranks import PATIENCE, Ranks, pool, without_race_check  # noqa: E402, F401

COUNTERS = True  # nothing is launched in this process
KILLED = 40 if FULL else 3  # groups of which one rank is


@without_race_check()
def _failures(rank, ranks):
    from flydsl.kernels.comm import CollectiveError, Communicator

    def exchange(comm, elements):
        comm.exchange("all_gather", torch.zeros(elements), torch.zeros(ranks * elements))

    # A rank that does not come: the others say so, and the communicator is closed.
    group = Communicator(most_bytes=1 << 16)
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
    group = Communicator(most_bytes=1 << 16)
    dist.barrier()
    with pytest.raises(CollectiveError, match="called something else|gave up"):
        exchange(group, 32 if rank else 16)
    # Another grid: the workgroups that the other rank does not have do not wait for their limit.
    group = Communicator(most_bytes=1 << 16)
    dist.barrier()
    begin = time.monotonic()
    with pytest.raises(CollectiveError, match="called something else|gave up"):
        exchange(group, 4 * 512 * 3 if rank else 16)
    assert time.monotonic() - begin < PATIENCE / 2
    with pytest.raises(ValueError, match="was made for 65536"):
        exchange(Communicator(most_bytes=1 << 16), 1 << 20)


def test_failures_name_the_rank(pool):  # noqa: F811
    pool(2).run(_failures)


def _shared_mappings():
    """Memory files of the simulator that this process has mapped, its own and its peers'."""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return sum("memfd:flysim" in line for line in lines)


@without_race_check()
def _disagreements(rank, ranks):
    """Ranks that call things that do not fit each other: both are told at once, and all memory is given back."""
    from flydsl.kernels import comm
    from flydsl.kernels.comm.group import communicator

    def gather(group, x):
        group.exchange("all_gather", x, x.new_empty(ranks * len(x)))

    def reduce(group, x, dtype="f32"):
        group.exchange("all_reduce", x, torch.empty_like(x), dtype)

    x, cases = torch.zeros(64), {
        "order": lambda g: (gather(g, x), reduce(g, x)) if rank else (reduce(g, x), gather(g, x)),
        "size": lambda g: reduce(g, x[: 32 * (rank + 1)]),
        "shape": lambda g: reduce(g, x if rank else x.view(8, 8)),
        "dtype": lambda g: reduce(g, x.half(), "f16") if rank else reduce(g, x.bfloat16(), "bf16"),
        "kind": lambda g: g.exchange("all_reduce_two_stage" if rank else "all_reduce", x, torch.empty_like(x), "f32"),
        "strides": lambda g: g.exchange("all_reduce", x.view(8, 8), torch.empty(8, 8), "f32",
                                        order=(1, 0) if rank else ()),
        "transport": lambda g: g.exchange("all_reduce", x, torch.empty_like(x), "f32", fp8=bool(rank)),
    }
    fp8 = communicator().target.fp8_name is not None
    before = _shared_mappings()
    for name, call in cases.items():
        if name == "transport" and not fp8:
            continue
        group = comm.Communicator(most_bytes=1 << 16)
        dist.barrier()
        begin = time.monotonic()
        with pytest.raises(comm.CollectiveError, match=rf"rank {rank}, all_.* called something else|gave up") as raised:
            call(group)
        assert time.monotonic() - begin < PATIENCE / 2, name  # nobody has waited for a limit
        assert f"rank {1 - rank}" in str(raised.value)
        assert group.memory.closed
        with pytest.raises(comm.CollectiveError):  # and it stays so
            call(group)
        dist.barrier()
    assert _shared_mappings() == before


def test_ranks_that_disagree(pool):  # noqa: F811
    pool(2).run(_disagreements)


def _not_in_files():
    """No memory that this process shares has a name, which could be left when everyone is dead. (torch's may.)"""
    with open("/proc/self/maps", encoding="utf-8") as lines:
        return not [line for line in lines if "/dev/shm/" in line and "torch" not in line and "gloo" not in line]


@without_race_check()
def _killed(rank, ranks):
    from flydsl.kernels import comm
    from flydsl.kernels.comm.transport import FlyDSLDispatchCombineConfig, FlyDSLDispatchCombineIntraNodeOp

    before = _shared_mappings()
    group = comm.Communicator(most_bytes=1 << 16)
    op = FlyDSLDispatchCombineIntraNodeOp(FlyDSLDispatchCombineConfig(
        rank, ranks, 64, 4, 1, 1, dispatch_block_num=2, combine_block_num=2))
    memory = comm.empty(64)
    shared = comm.rendezvous(memory)
    x, out = torch.zeros(16), torch.zeros(ranks * 16)
    group.exchange("all_gather", x, out)
    assert _shared_mappings() >= before + 3 * ranks and _not_in_files()  # and those of records of checks
    if rank == 1:
        time.sleep(1)  # the others wait in their kernels
        os.kill(os.getpid(), signal.SIGKILL)
    ended = "the process of rank 1 has ended|gave up"
    begin = time.monotonic()
    with pytest.raises(comm.CollectiveError, match=f"rank {rank}, all_gather .*: {ended}"):
        group.exchange("all_gather", x, out)
    with pytest.raises(comm.CollectiveError, match=f"rank {rank}, dispatch: {ended}"):
        op.dispatch(torch.zeros(4, 64).bfloat16(), torch.zeros(4, 1), None, torch.zeros(4, 1, dtype=torch.int32))
    with pytest.raises(comm.CollectiveError, match=f"rank {rank}, barrier: {ended}"):
        shared.barrier()
    with pytest.raises(comm.CollectiveError, match=ended):
        shared.all_reduce_(memory)
    assert time.monotonic() - begin < PATIENCE / 2  # nobody has waited for a limit
    assert group.memory.closed and op.memory.closed and shared.memory.closed
    del memory, shared, op
    gc.collect()
    assert _shared_mappings() == before


def test_a_rank_that_is_killed(pool):  # noqa: F811
    """The others hear of it at once, whatever they wait for, and nothing is left of the shared memory."""
    group = pool(3)
    group.start(_killed)
    assert group.results((0, 2)) == ["", ""]
    group.broken = True


def _die():
    os.kill(os.getpid(), signal.SIGKILL)


def _die_after(function, calls):
    """A function whose last of so many calls ends the process; the others go through."""
    left = [calls]

    def call(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            _die()
        return function(*arguments, **options)

    return call


# Where a rank ends while the ranks' memory is made: (module of the function, its name, calls that go through).
PHASES = {
    "before it has come": ("SharedMemory.__init__", 0), "before it has memory": ("rt.malloc", 0),
    "before its handle": ("rt.ipc_handle", 0), "before it tells": ("_gather", 0), "before it opens": ("_agree", 0),
    "while it opens": ("rt.open_ipc", 1), "before it says that it has": ("_gather", 1),
    "before the last meeting": ("_gather", 2), "before it watches": ("_Watch.start", 0),
}


@without_race_check()
def _killed_while_memory_is_made(rank, ranks, victim, place, calls):
    """One rank ends at a place of the making; the others name it, there or in the first exchange."""
    from flydsl.kernels import comm
    from flydsl.kernels.comm import memory

    before = _shared_mappings()
    owner, _, name = place.rpartition(".")
    holder = getattr(memory, owner) if owner else memory
    with pytest.MonkeyPatch.context() as patch:
        if rank == victim:
            patch.setattr(holder, name, _die_after(getattr(holder, name), calls))
        with pytest.raises(comm.CollectiveError) as raised:
            group = comm.Communicator(most_bytes=1 << 16)
            assert place == "_Watch.start"  # everywhere else the others still meet the victim
            group.exchange("all_gather", torch.zeros(16), torch.zeros(ranks * 16))
    made = f"Communicator: rank {rank} cannot exchange handles with the others: (.*; )?rank {victim} has gone"
    used = rf"rank {rank}, all_gather .*: (the process of rank {victim} has ended|rank \d gave up)"
    assert re.match(used if place == "_Watch.start" else made, str(raised.value)), str(raised.value)
    assert _not_in_files()
    del raised
    gc.collect()
    assert _shared_mappings() == before


@pytest.mark.parametrize("phase", PHASES)
def test_a_rank_is_killed_while_memory_is_made(phase, tmp_path):
    """Whatever it has told before: everyone else says at once which rank has gone, and gives back what it has."""
    group = Ranks(3, tmp_path)
    victim = list(PHASES).index(phase) % 3
    try:
        group.start(_killed_while_memory_is_made, victim, *PHASES[phase])
        assert group.results([rank for rank in range(3) if rank != victim]) == ["", ""]
    finally:
        group.broken = True
        group.close()


def test_a_thread_that_does_not_come():
    """Threads that wait on the host name the one that they wait for."""
    from flydsl.kernels.comm.memory import Threads

    first, second = Threads.of(2, limit=1)
    with pytest.raises(RuntimeError, match="rank 1 did not come within 1 s"):
        first.gather(None)
    with pytest.raises(RuntimeError, match="rank 1 did not come within 1 s"):
        second.gather(None)  # too late


def _another_object(rank, ranks):
    """Ranks that make different things together are told what."""
    from flydsl.kernels import comm
    from flydsl.kernels.comm.transport import FlyDSLDispatchCombineConfig, FlyDSLDispatchCombineIntraNodeOp

    with pytest.raises(ValueError, match="all ranks must agree, but the call is Communicator on rank 0 and FlyDSL"):
        if rank:
            FlyDSLDispatchCombineIntraNodeOp(FlyDSLDispatchCombineConfig(rank, ranks, 64, 4, 1, 1))
        else:
            comm.Communicator(most_bytes=1 << 16)


def test_ranks_that_make_different_things(pool):  # noqa: F811
    pool(2).run(_another_object)


@without_race_check()
def _until_one_is_killed(rank, ranks, folder):
    """Collectives one after another, until one of them says which rank has ended."""
    from flydsl.kernels import comm

    before = _shared_mappings()
    group, skew = comm.Communicator(most_bytes=1 << 16), random.Random(rank)
    kinds = ("all_gather", "all_reduce", "all_to_all", "all_reduce_two_stage")
    x, turn, begin = torch.ones(4 * ranks), 0, time.monotonic()
    with pytest.raises(comm.CollectiveError) as raised:
        while time.monotonic() - begin < PATIENCE / 2:
            kind = kinds[turn % len(kinds)]
            out = torch.empty(len(x) * ranks if kind == "all_gather" else len(x))
            group.exchange(kind, x, out, "f32" if "reduce" in kind else "bytes")
            if turn == len(kinds):  # all are compiled
                open(f"{folder}/{rank}", "w", encoding="utf-8").close()
            if skew.random() < 0.2:
                time.sleep(skew.random() * 0.01)
            turn += 1
    told = re.fullmatch(rf"rank {rank}, (all_\w+ .*|before all_\w+): (the process of rank (\d) has ended|rank \d gave "
                        "up)", str(raised.value))
    assert told, str(raised.value)
    open(f"{folder}/told{rank}", "w", encoding="utf-8").write(told[3] or "")
    del group
    gc.collect()
    assert _shared_mappings() == before


def test_a_rank_is_killed_at_any_moment(tmp_path):
    """Wherever it is in a collective. Of those who are left, one names the rank; all are told, and give back what they
    have."""
    chance = random.Random(os.environ.get("FLYDSL_TEST_SEED", 0))
    for turn in range(KILLED):
        folder = tmp_path / str(turn)
        folder.mkdir()
        group, victim = Ranks(3, folder), chance.randrange(3)
        try:
            group.start(_until_one_is_killed, str(folder))
            begin = time.monotonic()
            while not all((folder / str(rank)).exists() for rank in range(3)):
                assert time.monotonic() - begin < PATIENCE / 2, group.results()
                time.sleep(0.01)
            time.sleep(chance.random() * 0.1)
            os.kill(group.processes[victim].pid, signal.SIGKILL)
            others = [rank for rank in range(3) if rank != victim]
            assert group.results(others) == ["", ""]
            assert str(victim) in [(folder / f"told{rank}").read_text() for rank in others]
        finally:
            group.broken = True
            group.close()
