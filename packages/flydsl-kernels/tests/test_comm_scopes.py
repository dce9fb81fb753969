"""The race check on memory of several devices: our exchange has all the fences it needs, and each of them is needed.

Mutants are the sources of the exchange with one line changed. Ranks are processes, or threads with a device each.
"""

import importlib.util
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from kernel_helpers import FULL  # noqa: E402
from ranks import pool, run_threads  # noqa: E402, F401

pytestmark = pytest.mark.each_wave_size

COUNTERS = True  # nothing is launched in this process
ATTEMPTS = 200  # the first few suffice where the schedule decides at all
RELEASE, ACQUIRE = "fence(fx.AtomicOrdering.Release)", "fence(fx.AtomicOrdering.Acquire)"
SIGNAL = "(fx.Int64(peers._signature) << 32) | fx.Int64(epoch))"
RECEIVE = "load(mine)"
NOT_RELEASED, NOT_ACQUIRED = "has not released at system scope", "released after the last signal"
MUTANTS = {
    "no release": (RELEASE, "pass", NOT_RELEASED),
    "release of a device": (RELEASE, RELEASE.replace(")", ', "agent")'), NOT_RELEASED),
    "no acquire": (ACQUIRE, "pass", NOT_ACQUIRED),
    "acquire of a device": (ACQUIRE, ACQUIRE.replace(")", ', "agent")'), NOT_ACQUIRED),
    "a plain store as the signal": ("store(peers.signal_of(lane,", "fx.llvm.generic_store(peers.signal_of(lane,",
                                    NOT_RELEASED),
    "a signal of a device": (SIGNAL, SIGNAL[:-1] + ', "agent")', NOT_RELEASED),
    "a poll of a device": (RECEIVE, 'load(mine, "agent")', NOT_ACQUIRED),
    "stores of other waves": ("        fx.barrier()  # the stores of all waves of the workgroup\n", "", NOT_RELEASED),
}


def _loaded(folder, name, text):
    """A module of the package that is made of a text."""
    full, path = f"flydsl.kernels.{name}", Path(folder) / f"{name}.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(full, path)
    sys.modules[full] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _variant(folder, old, new):
    """The builder of the exchange, made of sources in which one line is another."""
    import flydsl.kernels as kernels

    root = Path(kernels.__path__[0])
    peers = (root / "comm/peers.py").read_text()
    assert old in peers
    exchange = (root / "comm/exchange.py").read_text()
    sources = {"comm.peers_variant": peers.replace(old, new),
               "comm.exchange_variant": exchange.replace("from .peers", "from .peers_variant")}
    for name, text in sources.items():
        module = _loaded(folder, name, text)
    return module.build_exchange


def _exchanged(group, build, rounds):
    """Whether all gathers were right; the operand differs in every round and on every rank."""
    from flydsl.kernels.comm.config import exchange_config

    config = exchange_config("test", group.target, "all_gather", group.ranks)
    right = True
    for turn in range(rounds):
        x = torch.arange(4096, dtype=torch.int32) + 10000 * turn + 100000 * group.rank
        out = torch.full((group.ranks, 4096), -1, dtype=torch.int32)
        build(config)(x, out, group.memory.bases, group.rank, 1024, 1024 * group.ranks, 1024, group._capacity, 7,
                      group.limit, config.grid(1024)[0])
        group.memory.check("variant")
        expected = torch.stack([x + 100000 * (r - group.rank) for r in range(group.ranks)])
        right = right and torch.equal(out, expected)
    return right


def _comes_about(ranks, attempt):
    """Whether one of the attempts is true on any rank. Some mutants are seen in those schedules only in which a rank
    reads before something else has released what it reads: another wave, or the end of a launch."""
    import torch.distributed as dist

    for _ in range(ATTEMPTS):
        found = [None] * ranks
        dist.all_gather_object(found, attempt())
        if any(found):
            return True
    return False


def _is_found(rank, ranks, folder, mutants):
    import torch.distributed as dist

    import flydsl.runtime as rt
    from flydsl.kernels.comm import Communicator

    for name, (old, new, expected) in mutants.items():
        group = Communicator(most_bytes=1 << 16)
        build = _variant(Path(folder) / f"{rank}", old, new)

        def attempt(group=group, build=build, expected=expected):
            with rt.checked("race") as report:
                _exchanged(group, build, 2)
            return any(expected in str(finding) for finding in report.findings)

        assert _comes_about(ranks, attempt), name
        dist.barrier()
        group.close()


def test_every_mutant_is_found(pool, tmp_path):  # noqa: F811
    pool(2).run(_is_found, str(tmp_path), MUTANTS)


def _computes_wrong(rank, ranks, folder, mutants, check):
    """Under an adversarial schedule the exchange is right, and mutants compute wrong, or never end."""
    import torch.distributed as dist

    import flydsl.runtime as rt
    from flydsl.kernels.comm import CollectiveError, Communicator
    from flydsl.kernels.comm.exchange import build_exchange

    group = Communicator(most_bytes=1 << 16)
    with rt.checked(check) as report:
        assert _exchanged(group, build_exchange, 4) and not report.findings
    group.close()
    for name, (old, new, _) in mutants.items():
        group = Communicator(most_bytes=1 << 16, limit=2 if "signal" in name or "poll" in name else None)
        build = _variant(Path(folder) / f"{rank}", old, new)

        def attempt(group=group, build=build):
            with rt.checked(check):
                try:
                    return not _exchanged(group, build, 2)
                except CollectiveError:
                    return True

        assert _comes_about(ranks, attempt), name
        dist.barrier()
        group.close()


@pytest.mark.parametrize(("check", "told", "count"), [("late", NOT_RELEASED, 5), ("stale", NOT_ACQUIRED, 3)])
def test_mutants_compute_wrong(check, told, count, pool, tmp_path):  # noqa: F811
    """With stores that stay in caches until they are released, what lacks a release does; with loads that caches
    answer until they are invalidated, what lacks an acquire."""
    mutants = {name: mutant for name, mutant in MUTANTS.items() if mutant[2] == told}
    assert len(mutants) == count
    pool(2).run(_computes_wrong, str(tmp_path), mutants, check)


MEGA_MUTANTS = {
    "rows that are not released": ("comm/mega_kernels.py", RELEASE, "pass", NOT_RELEASED),
    "rows that are not acquired": ("comm/peers.py", "    " + ACQUIRE + "\n", "    pass\n", NOT_ACQUIRED),
    "rows released on the device": ("comm/mega_kernels.py", RELEASE, RELEASE.replace(")", ', "agent")'), NOT_RELEASED),
    "rows counted on the device": ("comm/mega_kernels.py", "fx.Int32(1), syncscope=SYSTEM)",
                                   "fx.Int32(1), syncscope=DEVICE)", NOT_RELEASED),
}


def _mega_is_found(rank, ranks, folder):
    """Stage 1 of the mixture of experts without one of its fences."""
    import test_comm_mega as mega_tests

    import flydsl.kernels as kernels
    import flydsl.runtime as rt
    from flydsl.kernels.comm import mega

    root, right = Path(kernels.__path__[0]), mega.build_stage1
    for number, (name, (file, old, new, expected)) in enumerate(MEGA_MUTANTS.items()):
        texts = {path: (root / path).read_text() for path in ("comm/peers.py", "comm/mega_kernels.py")}
        assert old in texts[file], name
        texts[file] = texts[file].replace(old, new)
        kernels_text = texts["comm/mega_kernels.py"].replace("from .peers", f"from .peers_{number}")
        texts["comm/mega_kernels.py"] = kernels_text
        for path, text in texts.items():
            module = _loaded(Path(folder) / f"{rank}", f"{path[:-3].replace('/', '.')}_{number}", text)
        moe, *_ = mega_tests._make(rank, ranks, "fixedslot", 8)
        mega.build_stage1 = module.build_stage1

        def attempt(moe=moe, expected=expected):
            with rt.checked("race") as report:
                moe.forward(*mega_tests._tokens(rank, 8))
            return any(expected in str(finding) for finding in report.findings)

        try:
            assert _comes_about(ranks, attempt), name
        finally:
            mega.build_stage1 = right
        moe.close()


@pytest.mark.one_arch  # runs on ranks of gfx950, whatever else does
def test_every_mutant_of_the_mixture_is_found(pool, tmp_path):  # noqa: F811
    pool(2, "gfx950").run(_mega_is_found, str(tmp_path))


def _is_right(rank, ranks):
    from flydsl.kernels.comm import Communicator
    from flydsl.kernels.comm.exchange import build_exchange

    group = Communicator(most_bytes=1 << 16)
    assert _exchanged(group, build_exchange, 3)  # under the check of the process, which raises
    group.close()


def test_our_exchange_is_right(pool):  # noqa: F811
    pool(2).run(_is_right)


def _devices(ranks, rounds):
    """Ranks that are threads, each with a device, and come at random times: all exchanges of random sizes against their
    definitions."""
    import flydsl.runtime as rt
    from flydsl.kernels.comm import Communicator
    from flydsl.kernels.comm.config import KINDS

    assert rt.device_count() == ranks

    def work(meeting):
        group, stream = Communicator(meeting, 1 << 20), rt.Stream()
        plan, skew = random.Random(0), random.Random(meeting.rank)
        for turn in range(rounds):
            kind, share = KINDS[turn % len(KINDS)], 4 * int(10 ** plan.uniform(0, 2.7))
            xs = torch.randn(ranks, ranks * share, generator=torch.Generator().manual_seed(turn))
            shares = xs.view(ranks, ranks, share)
            expected = {"all_gather": xs, "reduce_scatter": shares.sum(0)[meeting.rank],
                        "all_to_all": shares[:, meeting.rank]}.get(kind, xs.sum(0)).flatten()
            x, out = xs[meeting.rank].clone(), torch.full(expected.shape, float("nan"))
            if skew.random() < 0.3:
                time.sleep(skew.random() * 0.003)
            summed = kind not in ("all_gather", "all_to_all")
            group.exchange(kind, x, out, "f32" if summed else "bytes", stream=stream)
            stream.synchronize()
            group.check()
            torch.testing.assert_close(out, expected, atol=1e-5 * summed, rtol=1e-5 * summed, msg=f"{turn} {kind}")
        meeting.gather(None)
        group.close()

    run_threads(ranks, work)


@pytest.mark.one_arch
@pytest.mark.parametrize(("ranks", "seed"), [(2, 1), (4, 2), (8, 3)] if FULL else [(8, 3)])
def test_devices_of_one_process(ranks, seed):
    environment = {**os.environ, "FLYDSL_SIM_DEVICES": str(ranks), "FLYDSL_SIM_CHECK": "oob,late",
                   "FLYDSL_SIM_SCHED": f"random:{seed}"}
    done = subprocess.run([sys.executable, __file__, str(ranks), "1000" if FULL else "12"], env=environment,
                          timeout=6000 if FULL else 1200, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    torch.set_num_threads(1)
    _devices(int(sys.argv[1]), int(sys.argv[2]))
