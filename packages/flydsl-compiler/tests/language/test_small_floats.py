"""Products and transposing reads of 4 and 6 bits against exact arithmetic, generated over formats and shapes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

ARCH = get_rocm_arch().split(":")[0]
CHILD = "FLYDSL_TEST_SMALL_FLOATS"
#: Class, bits, bits of the mantissa.
FORMATS = {"fp4": (fx.Float4E2M1FN, 4, 1), "fp6": (fx.Float6E2M3FN, 6, 3), "bf6": (fx.Float6E3M2FN, 6, 2)}
MIXED = {**FORMATS, "fp8": (fx.Float8E4M3FN, 8, 3)}

pytestmark = pytest.mark.usefixtures("device")
in_child = pytest.mark.skipif(CHILD not in os.environ, reason="runs in a process with checks")


@pytest.mark.parametrize("arch", ["gfx950", "gfx1250"])
def test_small_floats_on(arch: str) -> None:
    run_on(arch, Path(__file__), select="generated", **{CHILD: "1", "FLYDSL_SIM_CHECK": "oob,race,uninit"})


def values_of(codes: np.ndarray, name: str) -> np.ndarray:
    """The number that each code stands for: sign, exponent, mantissa; all of them are finite."""
    _, bits, mantissa = MIXED[name]
    exponent_bits = bits - 1 - mantissa
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, fraction = codes >> mantissa & ((1 << exponent_bits) - 1), (codes & ((1 << mantissa) - 1)) / 2.0**mantissa
    numbers = np.where(exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent - float(bias)))
    return np.where(codes >> (bits - 1), -numbers, numbers)


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes along the last axis as bytes, the first one in the lowest bits."""
    parts = (codes[..., None] >> np.arange(bits) & 1).astype(np.uint8)
    return np.packbits(parts.reshape(*codes.shape[:-1], -1), axis=-1, bitorder="little")


# --------------------------------------------------------------------------- scaled products


@flyc.kernel
def product_kernel(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, mma: fx.TiledMma,
                   op: fx.Constexpr[tuple]):
    t = fx.thread_idx.x
    m, n, k, *names = op
    thread = mma.get_slice(t)
    c = thread.make_fragment_C(C)
    c.fill(0.0)
    operands = []
    for name, memory, rows, make_copy, make_fragment in (
            (names[0], A, m, fx.make_tiled_copy_A, thread.make_fragment_A),
            (names[1], B, n, fx.make_tiled_copy_B, thread.make_fragment_B)):
        kind, bits, _ = MIXED[name]
        matrix = fx.make_view(fx.recast_iter(kind, fx.get_iter(memory)), fx.make_layout((rows, k), (k, 1)))
        fragment = make_fragment(matrix)
        together = 8 if ARCH == "gfx1250" else 16  # neighbours along K that a lane holds
        copy = make_copy(fx.make_copy_atom(fx.UniversalCopy(together * bits), kind), mma).get_slice(t)
        fx.copy(copy.copy_atom, copy.partition_S(matrix), copy.retile(fragment))
        operands.append(fragment)
    if ARCH == "gfx1250":  # a lane has the scales of the four blocks of its row
        scales = [sum(S[t % rows, j] << 8 * j for j in range(4)) for S, rows in ((SA, m), (SB, n))]
    else:  # that of the block of its group, in the byte that the instruction takes
        scales = [S[t % rows, t // rows] * 0x01010101 for S, rows in ((SA, m), (SB, n))]
    fx.gemm(mma, c, *operands, c, scale_a=scales[0], scale_b=scales[1])
    store = fx.make_tiled_copy_C(fx.make_copy_atom(fx.UniversalCopy32b(), fx.Float32), mma).get_slice(t)
    fx.copy(store.copy_atom, store.retile(c), store.partition_D(C))


@flyc.jit
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, SA: fx.Tensor, SB: fx.Tensor, op: fx.Constexpr[tuple]):
    make = fx.rocdl.WMMAScale if ARCH == "gfx1250" else fx.rocdl.cdna4.MFMA_Scale
    atom = fx.make_mma_atom(make(*op[:3], *(MIXED[name][0] for name in op[3:])))
    mma = fx.make_tiled_mma(atom, fx.make_layout((1, 1, 1), (1, 1, 1)))
    product_kernel(A, B, C, SA, SB, mma, op).launch(grid=1, block=32 if ARCH == "gfx1250" else 64)


def scaled_atoms() -> list[tuple[Any, ...]]:
    shapes = {"gfx950": [(16, 16, 128), (32, 32, 64)], "gfx1250": [(16, 16, 128)]}.get(ARCH, [])
    pairs = [(a, b) for a in MIXED for b in MIXED if (a, b) != ("fp8", "fp8")]
    return [(*shape, *pair) for shape in shapes for pair in pairs]


@in_child
@pytest.mark.parametrize("op", scaled_atoms(), ids=lambda op: "x".join(map(str, op)))
def test_generated_scaled_products(op: tuple[Any, ...]) -> None:
    m, n, k, *names = op
    rng = np.random.default_rng(7)
    codes = [rng.integers(0, 1 << MIXED[name][1], (rows, k)) for name, rows in zip(names, (m, n), strict=True)]
    for x, name in zip(codes, names, strict=True):
        if name == "fp8":
            x[x % 128 == 127] = 0  # NaN
    a, b = [packed(x, MIXED[name][1]) for x, name in zip(codes, names, strict=True)]
    scales = [rng.integers(124, 131, (rows, k // 32)).astype(np.int32) for rows in (m, n)]
    if ARCH == "gfx1250" and "fp8" not in names:  # the atom's order of K is not that of the blocks
        scales = [np.repeat(s[:, :1], k // 32, axis=1) for s in scales]
    c = np.full((m, n), np.nan, np.float32)
    product(*(flyc.from_dlpack(v) for v in (a, b, c)), *scales, op)
    exact_a, exact_b = [values_of(x, name) * np.repeat(2.0 ** (s - 127.0), 32, axis=1)
                        for x, name, s in zip(codes, names, scales, strict=True)]
    # The products are exact, their sum is rounded at most k times.
    bound = k * 2.0**-24 * (np.abs(exact_a) @ np.abs(exact_b).T)
    assert np.all(np.abs(c - exact_a @ exact_b.T) <= bound)


@flyc.kernel
def constant_kernel(C: fx.Tensor, op: fx.Constexpr[tuple]):
    t = fx.thread_idx.x
    name, a, b, turns = op
    make = fx.rocdl.WMMAScale if ARCH == "gfx1250" else fx.rocdl.cdna4.MFMA_Scale
    one = 0x7F7F7F7F
    atom = fx.make_mma_atom(make(16, 16, 128, FORMATS[name][0])).set_value({"scale_a": one, "scale_b": one})
    lanes = fx.num_warp_threads()
    left, right = (fx.make_rmem_tensor(16 * 128 // lanes, FORMATS[name][0]) for _ in range(2))
    total = fx.make_rmem_tensor(256 // lanes, fx.Float32)
    left.fill(a)
    right.fill(b)
    total.fill(0.0)
    for _ in range(turns):
        fx.mma_atom_call(atom, total, left, right, total)
        left.fill(b)  # constants that meet at the head of the loop
    fx.make_view(fx.get_iter(C) + t * (256 // lanes), fx.make_layout(256 // lanes, 1)).store(total.load())


@flyc.jit
def constant(C: fx.Tensor, op: fx.Constexpr[tuple]):
    constant_kernel(C, op).launch(grid=1, block=32 if ARCH == "gfx1250" else 64)


@in_child
@pytest.mark.parametrize("name", FORMATS)
def test_generated_products_of_constants(name: str) -> None:
    c = np.full(256, np.nan, np.float32)
    constant(c, (name, 1.5, -3.0, 3))
    assert np.all(c == 128 * -3.0 * (1.5 - 3.0 - 3.0))


@flyc.kernel
def keep_kernel(X: fx.Tensor, Y: fx.Tensor, name: fx.Constexpr[str]):
    t = fx.thread_idx.x
    kind, bits, _ = FORMATS[name]
    atom = fx.make_copy_atom(fx.UniversalCopy(16 * bits), kind)
    x, y = (fx.make_view(fx.recast_iter(kind, fx.get_iter(v)) + t * 16, fx.make_layout(16, 1)) for v in (X, Y))
    read, asked = fx.make_rmem_tensor(16, kind), fx.make_rmem_tensor(1, fx.Boolean)
    read.store(fx.Vector.from_elements([0x5A, 0xC3] * bits, fx.Uint8).bitcast(kind))
    asked[0] = t % 3 == 0
    fx.copy_atom_call(atom, x, read, pred=asked)
    fx.copy_atom_call(atom, read, y)


@flyc.jit
def keep(X: fx.Tensor, Y: fx.Tensor, name: fx.Constexpr[str]):
    keep_kernel(X, Y, name).launch(grid=1, block=8)


@pytest.mark.parametrize("name", FORMATS)
def test_constant_bytes_kept_by_a_copy(name: str) -> None:
    size = 2 * FORMATS[name][1]
    x = np.random.default_rng(3).integers(0, 256, (8, size), np.uint8)
    y = np.full_like(x, 0xEE)
    keep(x.reshape(-1).view(np.uint16), y.reshape(-1).view(np.uint16), name)
    kept = np.tile(np.array([0x5A, 0xC3], np.uint8), size // 2)
    np.testing.assert_array_equal(y, np.where(np.arange(8)[:, None] % 3 == 0, x, kept))


# --------------------------------------------------------------------------- transposing reads


@flyc.kernel
def transpose_kernel(X: fx.Tensor, Y: fx.Tensor, name: fx.Constexpr[str], groups: fx.Constexpr[int]):
    t = fx.thread_idx.x
    kind, bits, _ = FORMATS[name]
    atom = fx.make_copy_atom(fx.rocdl.cdna4.LDSReadTrans(bits, 16 * bits), kind)
    thread = fx.make_tiled_copy(atom, fx.make_layout(((16, 4), 16), ((1, 256), 16)), (1024,)).get_slice(t)
    size = 128 * bits * groups  # bytes
    memory = fx.SharedAllocator().allocate(fx.Array[fx.Uint8, size, 16]).peek()
    for i in fx.range_constexpr(size // 64):
        memory[i * 64 + t] = X[i * 64 + t]
    fx.barrier()
    part = thread.partition_S(fx.make_view(fx.recast_iter(kind, memory.ptr), fx.make_layout(1024 * groups, 1)))
    fragment = fx.make_fragment_like(part)
    fx.copy(atom, part, fragment)
    row = 2 * bits * groups  # bytes of a thread
    fx.make_view(fx.get_iter(Y) + t * row, fx.make_layout(row, 1)).store(fragment.load().bitcast(fx.Uint8))


@flyc.jit
def transpose(X: fx.Tensor, Y: fx.Tensor, name: fx.Constexpr[str], groups: fx.Constexpr[int]):
    transpose_kernel(X, Y, name, groups).launch(grid=1, block=64)


@in_child
@pytest.mark.skipif(ARCH != "gfx950", reason="LDS reads that transpose are of gfx950")
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", FORMATS)
def test_generated_transposing_reads(name: str, groups: int) -> None:
    bits = FORMATS[name][1]
    codes = np.random.default_rng(bits).integers(0, 1 << bits, 1024 * groups)
    y = np.zeros((64, 2 * bits * groups), np.uint8)
    transpose(packed(codes, bits), y, name, groups)
    # Lane t of a group of 16 has the elements t, t + 16, ... of the 256 that the group addresses.
    exact = codes.reshape(groups, 4, 16, 16).transpose(1, 3, 0, 2).reshape(64, 16 * groups)
    np.testing.assert_array_equal(y, packed(exact, bits))
