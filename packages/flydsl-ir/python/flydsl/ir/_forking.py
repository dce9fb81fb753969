"""Forks of the process while other threads compile.

A child of fork() has one thread and a copy of every lock, held or not, among them those inside of LLVM. So that it can
compile, a fork waits until no other thread does, and keeps those that begin waiting meanwhile. It waits for some
seconds at most, since a compilation may wait for what the forking thread does next, and not at all in a thread that
compiles itself. The child of such a fork gets errors, and no deadlock.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator


class _Gate:
    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.inside = 0  # threads
        self.forks = 0  # under way
        self.broken = False  # in a child: its parent had threads inside
        self.seconds = 10.0
        self.own = threading.local()  # depth: how often this thread is inside

    def enter(self) -> None:
        depth = getattr(self.own, "depth", 0)
        if self.broken:
            raise RuntimeError("nothing can be compiled in this process: it was forked while a thread of its parent "
                               "compiled. Fork before, or between compilations")
        if depth == 0:
            with self.changed:
                self.changed.wait_for(lambda: not self.forks)
                self.inside += 1
        self.own.depth = depth + 1

    def leave(self) -> None:
        self.own.depth -= 1
        if self.own.depth == 0:
            with self.changed:
                self.inside -= 1
                self.changed.notify_all()

    def _others(self) -> int:
        return self.inside - bool(getattr(self.own, "depth", 0))

    def before_fork(self) -> None:
        with self.changed:
            self.forks += 1
            if not getattr(self.own, "depth", 0):
                self.changed.wait_for(lambda: not self.inside, self.seconds)

    def in_parent(self) -> None:
        with self.changed:
            self.forks -= 1
            self.changed.notify_all()

    def in_child(self) -> None:
        self.changed = threading.Condition()  # another thread may have held the old one
        self.broken = self.broken or self._others() > 0
        self.inside -= self._others()
        self.forks = 0


_gate = _Gate()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.before_fork, after_in_parent=_gate.in_parent, after_in_child=_gate.in_child)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Held while a thread compiles; nests. ``os.fork`` of other threads waits until none does.

    Raises:
        RuntimeError: in a child that was forked while another thread of its parent compiled.
    """
    _gate.enter()
    try:
        yield
    finally:
        _gate.leave()
