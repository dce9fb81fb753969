"""Locks in the child of a fork."""

from __future__ import annotations

import os
import threading

import pytest

from flydsl.runtime.forking import fork_safe_lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")


def test_locks_are_free_in_the_child() -> None:
    """But for those that the thread that forks holds itself."""
    other, own, held, ends = fork_safe_lock(), fork_safe_lock(), threading.Event(), threading.Event()

    def hold() -> None:
        with other:
            held.set()
            ends.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with own:
        child = os.fork()
        if child == 0:
            os._exit(0 if other.acquire(timeout=1) and own._is_owned() else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert not other.acquire(blocking=False), "the parent's thread has it still"
    ends.set()
    thread.join()
