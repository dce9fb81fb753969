"""Moves of gfx1250's tensor data mover with random descriptors, against NumPy: tiles of one to five dimensions, their
edges, padding, gathered rows, repeated moves, and the barrier that a move arrives at."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from asmlib import Program, module_text
from hiplib import assemble

LDS = 4096  # bytes, all of which are compared
WORDS = LDS // 4 // 32  # of a lane
MEMORY = 1 << 16  # bytes of the tensors

CODE = f"""
  s_load_b512 s[16:31], s[4:5], 0x0
  s_load_b128 s[32:35], s[4:5], 0x40
  s_load_b64 s[36:37], s[4:5], 0x50
  v_mul_u32_u24 v1, {WORDS}, v0
  v_mov_b32 v4, 0
  s_wait_kmcnt 0x0
""" + "".join(f"""
  global_load_b32 v2, v1, s[36:37] offset:{4 * k}
  s_wait_loadcnt 0x0
  ds_store_b32 v1, v2 offset:{4 * k}
""" for k in range(WORDS)) + """
  s_wait_dscnt 0x0
  tensor_{} s[16:19], s[20:27], s[28:31], s[32:35]
  s_wait_tensorcnt 0x0
""" + "".join(f"""
  ds_load_b32 v2, v1 offset:{4 * k}
  s_wait_dscnt 0x0
  global_store_b32 v1, v2, s[36:37] offset:{4 * k}
""" for k in range(WORDS))


def words(*fields: tuple[int, int, int]) -> int:
    """A number of (first bit, bits, value)."""
    found = 0
    for at, bits, value in fields:
        assert 0 <= value < 1 << bits
        found |= value << at
    return found


class Move:
    """A random descriptor and what it means."""

    def __init__(self, rng: np.random.Generator, base: int, load: bool, kind: str) -> None:
        self.load, self.kind, self.bytes = load, kind, 1 << int(rng.integers(0, 4))
        self.rank = 2 if kind == "gather" else int(rng.integers(1, 4 if kind == "repeat" else 6))
        most = max(2, int((LDS // 2 / self.bytes / (4 if kind == "repeat" else 1)) ** (1 / self.rank)))
        self.tile = [int(rng.integers(1, min(most, 17) + 1)) for _ in range(self.rank)]
        if kind == "gather":
            self.tile[1] = int(rng.integers(1, 17))
            self.tile[0] = int(rng.integers(1, LDS // 2 // self.bytes // self.tile[1] + 1)) % 20 + 1
        self.dims = [int(rng.integers(1, 2 * t + 1)) for t in self.tile]
        self.strides, stride = [1], self.dims[0]
        for k in range(1, self.rank):
            self.strides.append(stride + int(rng.integers(0, 4)))
            stride = self.strides[-1] * self.dims[k]
        self.wide = bool(rng.integers(0, 2))
        self.rows = rng.integers(0, self.dims[-1] + 2, 8 if self.wide else 16).tolist()
        if kind == "gather":
            self.tile[1] = min(self.tile[1], len(self.rows))
        self.pad = (int(rng.integers(0, 4)), int(rng.integers(0, 8))) if load and rng.integers(0, 2) else None
        self.at, self.lds = int(rng.integers(0, 16)) * self.bytes, int(rng.integers(0, 16)) * 8
        self.times = int(rng.integers(1, 4)) if kind == "repeat" else 1
        self.steps = (int(rng.integers(0, 60)), int(rng.integers(0, 90)))  # in LDS and in memory, in elements
        self.barrier = 8 * int(rng.integers(LDS // 8 - 4, LDS // 8)) if rng.integers(0, 2) else None
        self.base = base

    def words(self) -> np.ndarray:
        """The four groups of the descriptor, 20 dwords."""
        pad = self.pad or (0, 0)
        get = lambda values, k: values[k] if k < self.rank else 0  # noqa: E731
        g0 = words((0, 2, 1), (30, 1, int(self.kind == "gather" and self.wide)), (31, 1, int(self.kind == "gather")),
                   (32, 32, self.lds), (64, 57, self.base + self.at), (126, 2, 2))
        g1 = words((16, 2, self.bytes.bit_length() - 1), (18, 1, int(self.barrier is not None)),
                   (19, 1, int(self.kind == "repeat")), (20, 1, int(self.pad is not None)), (22, 3, pad[0]),
                   (25, 7, pad[1]), (32, 16, (self.barrier or 0) // 8), (48, 32, self.dims[0]),
                   (80, 32, get(self.dims, 1)), (112, 16, self.tile[0]), (128, 16, get(self.tile, 1)),
                   (144, 16, get(self.tile, 2)), (160, 48, get(self.strides, 1)), (208, 48, get(self.strides, 2)))
        if self.kind == "gather":
            bits = 32 if self.wide else 16
            rest = words(*((bits * n, bits, r) for n, r in enumerate(self.rows)))
        elif self.kind == "repeat":
            rest = words((0, 32, get(self.dims, 2)), (32, 32, self.steps[0]), (64, 48, self.steps[1]),
                         (112, 16, self.times - 1))
        else:
            rest = words((0, 32, get(self.dims, 2)), (32, 32, get(self.dims, 3)), (64, 48, get(self.strides, 3)),
                         (112, 16, get(self.tile, 3)), (128, 48, get(self.strides, 4)), (176, 32, get(self.dims, 4)),
                         (208, 16, get(self.tile, 4)))
        number = g0 | g1 << 128 | rest << 384
        return np.array([number >> 32 * k & 0xFFFFFFFF for k in range(20)], np.uint32)

    def run(self, memory: np.ndarray, lds: np.ndarray) -> None:
        """What the move does to bytes."""
        for time in range(self.times):
            dense = 0
            for where in itertools.product(*(range(t) for t in reversed(self.tile))):
                place = list(reversed(where))
                if self.kind == "gather":
                    place[1] = self.rows[place[1]]
                inside = all(x < d for x, d in zip(place, self.dims, strict=True))
                element = sum(x * s for x, s in zip(place, self.strides, strict=True)) + time * self.steps[1]
                there = self.at + element * self.bytes
                here = self.lds + time * self.steps[0] * self.bytes + dense
                if self.pad:  # 2^(n+1) dwords, then n+1 of padding
                    here += dense // (8 << self.pad[0]) * 4 * (self.pad[1] + 1)
                dense += self.bytes
                if not self.load:
                    if inside:
                        memory[there : there + self.bytes] = lds[here : here + self.bytes]
                elif here + self.bytes <= LDS:
                    lds[here : here + self.bytes] = memory[there : there + self.bytes] if inside else 0
        if self.barrier is not None:  # one arrival of those that the phase waits for
            cell = lds[self.barrier : self.barrier + 8].view(np.uint64)
            old = int(cell[0])
            pending, phase, start = old % (1 << 29), old >> 29 & 7, old >> 32 & (1 << 29) - 1
            pending, phase = (pending - 1, phase) if pending else (start, (phase - 1) % 8)
            cell[0] = old >> 32 << 32 | phase << 29 | pending


@pytest.mark.parametrize("kind", ["tile", "gather", "repeat"])
@pytest.mark.parametrize("load", [True, False])
def test_moves(sim, build_dir, load, kind):
    text = CODE.replace("tensor_{}", "tensor_load_to_lds" if load else "tensor_store_from_lds")
    text = module_text("gfx1250", [Program("move", text, 0, 20, 0)], 32)
    text = text.replace(".group_segment_fixed_size: 0", f".group_segment_fixed_size: {LDS}")
    more = f"\n  .amdhsa_group_segment_fixed_size {LDS}\n.end_amdhsa_kernel"
    sim.set_arch("gfx1250")
    module = sim.load(assemble(text.replace("\n.end_amdhsa_kernel", more), "gfx1250", build_dir))
    function = sim.function(module, "move")
    rng = np.random.default_rng(len(kind) + load)
    for n in range(30):
        memory = rng.integers(0, 256, MEMORY, np.uint8)
        lds = rng.integers(0, 256, LDS, np.uint8)
        move = Move(rng, memory.ctypes.data, load, kind)
        want, cells = memory.copy(), lds.copy()
        move.run(want, cells)
        plan = np.concatenate([move.words(), np.array([lds.ctypes.data], np.uint64).view(np.uint32)])
        sim.launch(function, (1,), (32,), [plan, memory, lds])
        told = f"{n}: {vars(move)}"
        np.testing.assert_array_equal(memory, want, err_msg=told)
        np.testing.assert_array_equal(lds, cells, err_msg=told)
