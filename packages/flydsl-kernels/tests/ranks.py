"""Processes that are the ranks of a group, each with a simulated GPU of its own; they serve the tests of a module."""

from __future__ import annotations

import contextlib
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from kernel_helpers import FULL

# Guards against what hangs, in seconds. Nothing that is right takes a fraction of them, on a machine that does a dozen
# other things as well; no test may depend on them.
PATIENCE, START_PATIENCE = (3000 if FULL else 600), 1200
TOLD = 120  # how long the others have to say what they saw when one rank has failed

# Ranks are forked from a process that has imported once what all of them need: eight imports of torch at the same time
# take minutes of a busy machine.
_context = mp.get_context("forkserver")
_context.set_forkserver_preload(["torch.distributed", "flydsl.kernels.comm.mega", "flydsl.kernels.ops"])


def _serve(rank: int, ranks: int, store: str, pipe: Any, arch: str | None, environment: dict[str, str]) -> None:
    os.environ.clear()  # that of the process which forks is as old as the first group
    os.environ.update(environment, FLYDSL_SIM_CHECK="oob,late", FLYDSL_SIM_THREADS="1")
    if arch is not None:
        os.environ.update(ARCH=arch, FLYDSL_SIM_ARCH=arch)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    from flydsl.kernels.comm import group

    group.TIME_LIMIT = PATIENCE
    pipe.send("")
    while True:
        test, arguments = pipe.recv()
        if test is None:
            break
        try:
            test(rank, ranks, *arguments)
            pipe.send("")
        except BaseException:
            pipe.send(traceback.format_exc())
    dist.destroy_process_group()


@contextlib.contextmanager
def without_race_check() -> Iterator[None]:
    """For what fails on purpose: a kernel whose barrier has failed goes on, and reads what others may be writing. What
    it computes is dropped, but the check would end its launch before it says why."""
    import flydsl.runtime as rt

    with rt.checked("oob"):
        yield


class Ranks:
    """A group of `ranks` processes."""

    def __init__(self, ranks: int, folder: Path, arch: str | None = None) -> None:
        self.ranks, self._pipes, self.processes = ranks, [], []
        for rank in range(ranks):
            here, there = _context.Pipe()
            process = _context.Process(target=_serve, daemon=True, args=(rank, ranks, f"{folder}/store", there, arch,
                                                                         dict(os.environ)))
            process.start()
            there.close()
            self._pipes.append(here)
            self.processes.append(process)
        self.broken = False
        texts = self.results(patience=START_PATIENCE)
        if self.broken:
            self.close()
            raise RuntimeError(f"the {ranks} ranks did not start: {texts}")

    def start(self, test: Callable[..., None], *arguments: Any) -> None:
        """Let all ranks begin ``test(rank, ranks, *arguments)``."""
        for pipe in self._pipes:
            pipe.send((test, arguments))

    def results(self, among: Any = None, patience: float = PATIENCE) -> list[str]:
        """What went wrong on each rank; empty texts where nothing did."""
        deadline = time.monotonic() + patience
        texts = []
        for rank in range(self.ranks) if among is None else among:
            pipe = self._pipes[rank]
            if not pipe.poll(max(deadline - time.monotonic(), 0)):
                texts.append(f"rank {rank} hangs")
            else:
                try:
                    texts.append(pipe.recv())
                except (EOFError, OSError):  # the latter when it had not read what it was sent
                    texts.append(f"the process of rank {rank} has ended")
            self.broken |= bool(texts[-1])
            if texts[-1]:  # the others wait in vain, most of the time
                deadline = min(deadline, time.monotonic() + TOLD)
        return texts

    def run(self, test: Callable[..., None], *arguments: Any) -> None:
        """Run ``test(rank, ranks, *arguments)`` on all ranks; fails with what went wrong there."""
        self.start(test, *arguments)
        texts = self.results()
        if any(texts):
            pytest.fail("\n".join(filter(None, texts)))

    def close(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            try:
                pipe.send((None, ()))
            except OSError:
                pass
        for process in self.processes:
            process.join(1 if self.broken else 30)
            process.kill()


class Pool:
    """Groups by their size, which live as long as a module's tests and as nothing went wrong."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory, self._groups = factory, dict[tuple[int, str | None], Ranks]()

    def __call__(self, ranks: int, arch: str | None = None) -> Ranks:
        """Ranks on simulated GPUs of an architecture, that of this process by default."""
        found = self._groups.get((ranks, arch))
        if found is None or found.broken:
            if found is not None:
                found.close()
            found = self._groups[ranks, arch] = Ranks(ranks, self._factory.mktemp("ranks"), arch)
        return found

    def close(self) -> None:
        for group in self._groups.values():
            group.close()


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """``pool(ranks).run(test, *arguments)``"""
    made = Pool(tmp_path_factory)
    yield made
    made.close()


def run_threads(ranks: int, work: Callable[[Any], None]) -> None:
    """`work` with the meeting of each rank, in threads of this process with a device each; fails if one has failed."""
    import flydsl.runtime as rt
    from flydsl.kernels.comm import group
    from flydsl.kernels.comm.memory import Threads

    group.TIME_LIMIT = PATIENCE
    errors: list[BaseException] = []

    def run(meeting: Threads) -> None:
        try:
            rt.set_device(meeting.rank)
            work(meeting)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=(meeting,)) for meeting in Threads.of(ranks, PATIENCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
