"""The model of links: what bounds an exchange, and that the choice of its kind follows from it."""

import contextlib
import os
import re
import subprocess
import sys

import pytest

from flydsl.kernels.comm.links import LINKS, estimate, phases
from flydsl.kernels.target import target

COUNTERS = True  # nothing is launched in this process


@pytest.mark.parametrize("arch", ("gfx942", "gfx950"))
def test_kinds_by_size(arch):
    found = target(arch)
    small, large = 16 << 10, 64 << 20
    for ranks in (4, 8):
        def seconds(kind, size, ranks=ranks):
            return estimate(kind, size, ranks, found).seconds

        assert seconds("all_reduce", small) < seconds("all_reduce_two_stage", small)
        assert seconds("all_reduce_two_stage", large) < seconds("all_reduce", large)
        # An all-reduce is a reduce-scatter and an all-gather of the shares.
        parts = [estimate(kind, size, ranks, found).link for kind, size in
                 (("reduce_scatter", large), ("all_gather", large // ranks))]
        assert sum(parts) == pytest.approx(estimate("all_reduce_two_stage", large, ranks, found).link)
    # Every link brings 2 / n of the operand.
    assert estimate("all_reduce_two_stage", large, 8, found).link == pytest.approx(
        large / 4 / (LINKS[arch].link_gbs * 1e9))
    assert estimate("all_reduce", large, 8, found, fp8=True).link == pytest.approx(
        estimate("all_reduce", large, 8, found).link * 0.515625)


def test_what_is_not_known_is_refused():
    with pytest.raises(ValueError, match="no public figures of the links of gfx1250"):
        estimate("all_gather", 1 << 20, 8, target("gfx1250"))
    with pytest.raises(ValueError, match="no exchange 'broadcast'"):
        estimate("broadcast", 1 << 20, 8, target("gfx942"))


@pytest.mark.parametrize("arch", ("gfx942", "gfx950"))
def test_what_bounds_an_all_reduce(arch):
    """A large one the links, at the rate that they sustain; one of 128 KiB its barriers and first loads."""
    found, large, small = target(arch), 64 << 20, 128 << 10
    for kind in ("all_reduce_two_stage", "all_reduce_write", "all_reduce_in_place"):
        seen = estimate(kind, large, 8, found)
        assert seen.sustained >= 0.85 * seen.seconds, kind
        seen = estimate(kind, small, 8, found)
        assert seen.seconds <= 1.5 * seen.latency, kind
    # Pieces hide the copies of the own memory: all of them, one after another, would cost more.
    written = estimate("all_reduce_write", large, 8, found)
    assert written.seconds < written.sustained + 0.5 * written.memory / LINKS[arch].efficiency + written.latency


def _counted(ranks):
    """Loads and stores of launches, as they were executed, are those of the account."""
    import torch
    from ranks import run_threads

    import flydsl.runtime as rt
    from flydsl.kernels import comm
    from flydsl.kernels.comm.config import IN_PLACE, KINDS
    from flydsl.runtime.profiling import profile

    counted = {}

    def work(meeting):
        group, stream = comm.Communicator(meeting, 1 << 16), rt.Stream()
        for kind in KINDS:
            x = torch.ones(ranks * 1024)
            out = torch.empty({"all_gather": ranks * len(x), "reduce_scatter": 1024}.get(kind, len(x)))
            summed = kind not in ("all_gather", "all_to_all")
            meeting.gather(None)
            with profile() if meeting.rank == 0 else contextlib.nullcontext() as result:
                group.exchange(kind, x, out, "f32" if summed else "bytes", stream=stream)
                stream.synchronize()
            if meeting.rank == 0:
                counted[kind] = result.launches[0]
        meeting.gather(None)
        group.close()
        x = comm.empty(ranks * 1024)
        shared = comm.rendezvous(x, meeting)
        with profile() if meeting.rank == 0 else contextlib.nullcontext() as result:
            shared.all_reduce_(x, stream=stream)
            stream.synchronize()
        if meeting.rank == 0:
            counted[IN_PLACE] = result.launches[0]
        meeting.gather(None)
        shared.close()

    run_threads(ranks, work)
    assert set(counted) == {*KINDS, IN_PLACE}
    for kind, launch in counted.items():
        packs = [i for i in launch.instructions if re.match("(buffer|global)_.*(x4|b128)", i.mnemonic)]
        # Every access of a rank is one of somebody's memory, and all ranks do the same.
        account = sum(p.memory for p in phases(kind, ranks * 4096, ranks, 256))
        assert sum(i.bytes for i in packs) == account, kind


def test_the_account_is_what_is_executed():
    pytest.importorskip("torch")
    environment = {**os.environ, "FLYDSL_SIM_DEVICES": "4"}
    environment.pop("FLYDSL_SIM_CHECK", None)  # counters of an unchecked simulator
    done = subprocess.run([sys.executable, __file__, "4"], env=environment, timeout=1200, capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    _counted(int(sys.argv[1]))
