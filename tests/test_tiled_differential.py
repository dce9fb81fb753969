"""Thread-value views of tiled copies and tiled MMAs: flydsl-layout against the type inference of the fly dialect.

Random thread and value arrangements, tensors and threads.  ``LAYOUT_DIFFERENTIAL=20000`` runs so many cases.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import flydsl.layout as L
from flydsl.layout import CopyAtom, Layout, LayoutError, MmaAtom, Tile, TiledCopy, TiledMma

pytestmark = pytest.mark.one_arch

ir = pytest.importorskip("flydsl._mlir.ir")
fly = pytest.importorskip("flydsl._mlir.dialects.fly")
pytest.importorskip("flydsl._mlir.dialects.fly_rocdl")

CASES = int(os.environ.get("LAYOUT_DIFFERENTIAL", "150"))

FLAGS = ", signA = false, signB = false, clamp = false"
ATOMS: tuple[tuple[str, Callable[[], MmaAtom]], ...] = (
    ("!fly.universal_fma<1x1x1, (f32, f32) -> f32>", MmaAtom.universal_fma),
    ("!fly_rocdl.cdna3.mfma<16x16x4, (f32, f32) -> f32>", lambda: L.mma_atom("mfma_f32_16x16x4_f32").atom),
    ("!fly_rocdl.cdna3.mfma<16x16x16, (f16, f16) -> f32>", lambda: L.mma_atom("mfma_f32_16x16x16_f16").atom),
    ("!fly_rocdl.cdna3.mfma<32x32x8, (bf16, bf16) -> f32>", lambda: L.mma_atom("mfma_f32_32x32x8_bf16").atom),
    (
        f"!fly_rocdl.gfx120x.wmma<16x16x16, (f16, f16) -> f32{FLAGS}>",
        lambda: L.mma_atom("wmma_f32_16x16x16_f16", "gfx1201").atom,
    ),
    (f"!fly_rocdl.gfx1250.wmma<16x16x32, (f16, f16) -> f32{FLAGS}>", lambda: L.mma_atom("wmma_f32_16x16x32_f16").atom),
)


class Dialect:
    """Operands and inferred types in a scratch module."""

    def __init__(self) -> None:
        self.context = ir.Context()
        self.context.load_all_available_dialects()
        with self.context, ir.Location.unknown():
            self.module = ir.Module.create()

    def __call__(self, op: Callable[..., Any], *types: str) -> str | None:
        with self.context, ir.Location.unknown(), ir.InsertionPoint(self.module.body):
            values = [ir.Operation.create("fly.static", results=[ir.Type.parse(t)]).result for t in types]
            try:
                return str(op(*values).type)
            except ir.MLIRError:
                return None

    def type(self, text: str) -> Any:
        with self.context:
            return ir.Type.parse(text)


@pytest.fixture(scope="module")
def dialect() -> Dialect:
    return Dialect()


def layout_in(text: str | None) -> str | None:
    """The layout of a memref or coordinate tensor type, or the text of an int tuple."""
    if text is None:
        return None
    found = re.search(r"!fly\.(?:memref<\w+, \w+, |coord_tensor<[^ ]+, |int_tuple<)(.*?)(?:, align<\d+>)?>$", text)
    assert found, text
    return found.group(1)


def base_in(text: str) -> str:
    return re.match(r"!fly\.coord_tensor<([^ ]+), ", text).group(1)  # type: ignore[union-attr]


def ours(f: Callable[..., Any], *args: Any) -> Any:
    try:
        return f(*args)
    except LayoutError:
        return None


def memref(layout: Layout) -> str:
    return f"!fly.memref<f16, global, {layout}, align<16>>"


def _tensor(rng: random.Random, tile: tuple[int, ...]) -> Layout:
    """Whole tiles, row- or column-major or padded, sometimes with a trailing mode or a dynamic extent."""
    shape: list[Any] = [t * rng.choice((1, 2, 3)) for t in tile]
    if rng.random() < 0.3:
        shape.append(rng.choice((2, 3)))
    order = list(range(len(shape)))
    rng.shuffle(order)
    strides: list[Any] = [0] * len(shape)
    running = 1
    for i in order:
        strides[i], running = running, running * shape[i] * rng.choice((1, 1, 2))
    if rng.random() < 0.2:
        i = rng.randrange(len(tile))
        shape[i] = L.Dyn(32, 1)
        strides = [1 if d == 1 else L.Dyn(64, 8) for d in strides]
    return Layout(tuple(shape), tuple(strides))


def _copy(rng: random.Random) -> tuple[str, TiledCopy]:
    thr = L.make_ordered_layout((rng.choice((2, 4, 8)), rng.choice((2, 4, 8))), rng.choice(((0, 1), (1, 0))))
    bits = rng.choice((16, 32, 64, 128))
    n = bits // 16
    val = rng.choice((Layout((1, n), (0, 1)), Layout((n, 1), (1, 0)), Layout((2, n), (n, 1)), Layout((n, 2), (1, n))))
    tile, tv = L.make_layout_tv(thr, val)
    copy = TiledCopy(CopyAtom.universal(bits, 16), tv, Tile(*tile))
    atom = f"!fly.copy_atom<!fly.universal_copy<{bits}>, 16>"
    return f"!fly.tiled_copy<{atom}, {L.to_fly_type(tv)}, {L.to_fly_type(copy.tile)}>", copy


def _mma(rng: random.Random) -> tuple[str, TiledMma]:
    text, make = rng.choice(ATOMS)
    counts = tuple(rng.choice((1, 2, 4)) for _ in range(2)) + (rng.choice((1, 1, 2)),)
    order = [0, 1, 2]
    rng.shuffle(order)
    atoms = L.make_ordered_layout(counts, tuple(order))
    mma, tile = TiledMma(make(), atoms), ""
    if rng.random() < 0.3:
        m = mma.tile_size_mnk[0]
        entry = rng.choice((2 * m, Layout((m // 2, 2), (1, m // 2)))) if m % 2 == 0 else 2 * m
        mma = TiledMma(mma.atom, atoms, Tile(entry, None, None))
        tile = f", {L.to_fly_type(mma.permutation)}"
    return f"!fly.tiled_mma<!fly.mma_atom<{text}>, {L.to_fly_type(atoms)}{tile}>", mma


def test_tiled_copies(dialect: Dialect) -> None:
    for seed in range(CASES):
        rng = random.Random(seed)
        text, copy = _copy(rng)
        t = dialect.type(text)
        assert str(t.tiled_tv_layout_src) == L.to_fly_type(copy.tv_layout("src")), (seed, text)
        assert str(t.tiled_tv_layout_dst) == L.to_fly_type(copy.tv_layout("dst")), (seed, text)
        extents = tuple(e if isinstance(e, int) else e.size() for e in copy.tile.items)
        tensor = _tensor(rng, extents)
        for side, op in (("src", fly.tiled_copy_partition_src), ("dst", fly.tiled_copy_partition_dst)):
            got = dialect(op, text, memref(tensor), "!fly.int_tuple<?>")
            want = ours(copy.partition, tensor, L.Dyn(), side)
            assert layout_in(got) == (None if want is None else str(want[0])), (seed, side, text, str(tensor))
        # The offset of a known thread, in coordinates.
        thread = rng.randrange(copy.layout_tv[0].size())
        shape = tuple(2 * e for e in extents)
        got = dialect(
            fly.tiled_copy_partition_src, text,
            f"!fly.coord_tensor<(0,0), {L.make_identity_layout(shape)}>", f"!fly.int_tuple<{thread}>",
        )
        part, offset = copy.partition_src(L.make_identity_layout(shape), thread)
        assert got is not None and layout_in(got) == str(part), (seed, text)
        pad = offset if isinstance(offset, tuple) else (0, 0)
        assert base_in(got) == L.to_text((*pad, 0, 0)[:2]), (seed, text, thread)


def test_retile(dialect: Dialect) -> None:
    answered = 0
    for seed in range(CASES):
        rng = random.Random(seed)
        text, copy = _copy(rng)
        v = rng.choice((1, 2, 4, 8))
        fragment = L.make_fragment_layout_like(Layout((v, rng.choice((1, 2, 4)), rng.choice((1, 2, 4)))))
        got = dialect(fly.tiled_copy_retile, text, f"!fly.memref<f16, register, {fragment}>")
        want = ours(copy.retile, fragment)
        answered += want is not None
        assert layout_in(got) == (None if want is None else str(want)), (seed, text, str(fragment))
    assert answered > CASES // 10


@pytest.mark.parametrize("operand", ["a", "b", "c"])
def test_tiled_mmas(dialect: Dialect, operand: str) -> None:
    which = getattr(fly.MmaOperand, operand.upper())
    for seed in range(CASES):
        rng = random.Random(seed)
        text, mma = _mma(rng)
        t = dialect.type(text)
        assert str(t.thr_layout_vmnk) == L.to_fly_type(mma.thr_layout_vmnk), (seed, text)
        assert str(getattr(t, f"tiled_tv_layout_{operand}")) == L.to_fly_type(mma.tv_layout(operand)), (seed, text)
        i, j = {"a": (0, 2), "b": (1, 2), "c": (0, 1)}[operand]
        sizes = mma.tile_size_mnk
        tensor = _tensor(rng, (sizes[i], sizes[j]))
        got = dialect(
            lambda m, x, c: fly.tiled_mma_partition(which, m, x, c), text, memref(tensor), "!fly.int_tuple<?>"
        )
        want = ours(mma.partition, operand, tensor, L.Dyn())
        assert layout_in(got) == (None if want is None else str(want[0])), (seed, text, str(tensor))
        if not tensor.is_static_shape:
            continue
        got = dialect(lambda m, s: fly.tiled_mma_partition_shape(which, m, s), text, L.to_fly_type(tensor.shape))
        want = ours(mma.partition_shape, operand, tensor.shape)
        assert layout_in(got) == (None if want is None else L.to_text(want)), (seed, text, str(tensor))
        for stages in (None, 2):
            got = dialect(lambda m, x, s=stages: fly.mma_make_fragment(which, m, x, stages=s), text, memref(tensor))
            want = ours(mma.make_fragment, operand, tensor, stages)
            assert layout_in(got) == (None if want is None else str(want)), (seed, stages, text, str(tensor))
