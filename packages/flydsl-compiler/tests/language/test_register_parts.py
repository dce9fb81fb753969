"""Register memory that is written and read in branches and loops, whole or in parts, beside the same in NumPy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

SIZE, RUN, SLOTS = 96, 8, 24  # 3072 bits: as much as is kept as several values; elements of an access; results


class Program:
    """Random statements on registers, as text and as what they do to `registers` of the threads of a mask."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.out = np.full((SLOTS, 64), -77, np.float32)
        self.registers = np.zeros((64, SIZE), np.float32)
        self.slot = 0

    def _line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def _place(self, size: int = RUN) -> int:
        """Where an access may be; half of them are where those of the start are."""
        return min(self.r.choice([self.r.randrange(SIZE // RUN) * RUN, self.r.randrange(SIZE)]), SIZE - size)

    def _write(self, depth: int, to: int, value: int, size: int = RUN) -> Any:
        if size == 1:
            self._line(depth, f"f[{to}] = {value}.0 + fx.Float32(t)")
        else:
            self._line(depth, f"part({to}, {size}).store(fx.full({size}, {value}.0, fx.Float32) + fx.Float32(t))")

        def act(mask: np.ndarray) -> None:
            self.registers[mask, to : to + size] = (value + np.arange(64, dtype=np.float32))[mask, None]

        return act

    def _add(self, depth: int) -> Any:
        size = self.r.choice([4, RUN, 2 * RUN])
        to, other = self._place(size), self._place(size)
        self._line(depth, f"part({to}, {size}).store(part({to}, {size}).load() + part({other}, {size}).load() * 0.5)")

        def act(mask: np.ndarray) -> None:
            added = self.registers[mask, other : other + size] * np.float32(0.5)
            self.registers[mask, to : to + size] += added

        return act

    def _emit(self, depth: int, place: int) -> Any:
        slot, self.slot = self.slot, self.slot + 1
        self._line(depth, f"Y[{slot * 64} + t] = f[{place}]")

        def act(mask: np.ndarray) -> None:
            self.out[slot, mask] = self.registers[mask, place]

        return act

    def block(self, depth: int, count: int) -> Any:
        """Statements, and a function that does them."""
        acts = []
        for _ in range(count):
            kind = self.r.choice(["write", "write", "add", "emit", "if", "for"])
            if kind == "write":
                size = self.r.choice([1, 4, RUN, 2 * RUN])
                acts.append(self._write(depth, self._place(size), self.r.randint(1, 99), size))
            elif kind == "add":
                acts.append(self._add(depth))
            elif kind == "emit" and self.slot < SLOTS - SIZE // RUN:
                acts.append(self._emit(depth, self._place(1)))
            elif kind == "if" and depth < 3:
                bound = self.r.randint(1, 63)
                self._line(depth, f"if t < n - {40 - bound}:")
                inner = self.block(depth + 1, 3)
                acts.append(lambda mask, inner=inner, bound=bound: inner(mask & (np.arange(64) < bound)))
            elif kind == "for" and depth < 3:
                self._line(depth, "for _ in range(n - 38):")
                inner = self.block(depth + 1, 3)
                acts.append(lambda mask, inner=inner: [inner(mask) for _ in range(2)])
            else:
                acts.append(self._write(depth, self._place(), self.r.randint(1, 99)))
        return lambda mask: [act(mask) for act in acts]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs(seed: int, run: Callable[..., np.ndarray]) -> None:
    program = Program(seed)
    everybody = np.ones(64, bool)
    for place in range(0, SIZE, RUN):
        program._write(0, place, place)(everybody)
    program.block(0, 8)(everybody)
    # The end reads some places only: of others no block may read what another one wrote.
    for place in program.r.sample(range(0, SIZE, RUN), program.r.randint(0, 4)):
        program._emit(0, place + 3)(everybody)
    body = "\n".join([f"f = fx.make_rmem_tensor({SIZE}, fx.Float32)",
                      "part = lambda i, size: fx.make_view(fx.get_iter(f) + i, fx.make_layout(size, 1))",
                      *program.lines])
    out = run(body, x=np.zeros(64, np.float32), y=np.full(SLOTS * 64, -77, np.float32))
    np.testing.assert_array_equal(out.reshape(SLOTS, 64), program.out)


def test_a_branch_writes_between_a_write_and_a_read(run: Callable[..., np.ndarray]) -> None:
    out = run("""
        f = fx.make_rmem_tensor(1, fx.Float32)
        f[0] = 1.0
        if t < n:
            f[0] = 2.0
        Y[t] = f[0]
    """)
    np.testing.assert_array_equal(out, np.where(np.arange(64) < 40, 2.0, 1.0))
