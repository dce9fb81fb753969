"""Pipelines: every producer, number of stages and kind of bound, with the race checker on, and the waits they derive.

A kernel adds up tiles that pass through LDS; each thread reads what another wave wrote, so a missing wait or barrier is
a race. Each architecture has a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from other_architectures import run_on

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.runtime.device import get_rocm_arch

HERE = Path(__file__)
ARCHITECTURES = ("gfx942", "gfx950", "gfx1201", "gfx1250")
ARCH = get_rocm_arch().split(":")[0]
THREADS, WIDTH = 256, 512  # values of a tile: two 32-bit ones a thread


@flyc.kernel
def add_tiles_k(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, config: fx.Constexpr):
    """Y[t] = sum over tiles of X[tile, 511 - t] * (tile + 1) + X[tile, t]."""
    kind, stages, fixed, bound, mode = config
    t, before = fx.thread_idx.x, int(mode == "before")  # whether tile 0 of X is used before the loop
    # An array a stage: what is written to one cannot alias what is read from another. Stages that are known at run time
    # are places of one array.
    memory, rolled = fx.SharedAllocator(), bound.startswith("rolled")
    size, count = (stages * WIDTH, 1) if rolled else (WIDTH, stages)
    arrays = [memory.allocate(fx.Array[fx.Float32, size, 128]).peek() for _ in fx.range_constexpr(count)]
    slots = [fx.make_rmem_tensor(2, fx.Float32) for _ in fx.range_constexpr(4)]
    buffer = fx.rocdl.make_buffer_tensor(X)
    rows = fx.make_view(fx.get_iter(buffer), fx.make_layout((WIDTH, 64), (1, WIDTH)))

    def place(stage):
        if fx.const_expr(rolled):
            return arrays[0].ptr + stage * WIDTH
        return arrays[stage].ptr

    def load(tile, slot):
        atom = fx.make_copy_atom(fx.rocdl.BufferCopy64b(), fx.Float32)
        fx.copy(atom, fx.flat_divide(rows, (2, 1))[None, 0, t, tile + before], slots[slot])

    def store(slot, stage):
        atom = fx.make_copy_atom(fx.UniversalCopy64b(), fx.Float32)
        fx.copy(atom, slots[slot], fx.make_view(place(stage) + t * 2, fx.make_layout(2, 1)))

    def load_piece(tile, slot, piece):
        slots[slot][piece] = X[tile, piece * THREADS + t]

    def store_pieces(slot, stage, piece=None):
        """A piece of the tile, or all of it."""
        target = fx.make_view(place(stage), fx.make_layout(WIDTH, 1))
        for i in fx.range_constexpr(2):
            if fx.const_expr(piece in (None, i)):
                target[i * THREADS + t] = slots[slot][i]

    def direct(part):
        def copy(tile, stage):
            atom = fx.make_copy_atom(fx.rocdl.BufferCopyLDS32b(), fx.Float32)
            for half in fx.range_constexpr(*part):
                wave = fx.wave_index()
                for quarter in fx.range_constexpr(4 if mode == "specialised" else 1):
                    # Specialised: the 64 lanes of one wave start the copies of all four.
                    first = half * THREADS + (quarter if mode == "specialised" else wave) * 64
                    place_of_lane = (tile + before) * WIDTH + first + t % 64
                    source = fx.make_view(fx.get_iter(rows) + place_of_lane, fx.make_layout(1, 1))
                    fx.copy_atom_call(atom, source, fx.make_view(place(stage) + first, fx.make_layout(1, 1)))

        return copy

    def asynchronous(part):
        """Two words a lane, or one of the two; the tile lies in LDS as the threads like it."""
        def copy(tile, stage):
            shape = fx.make_layout((1, part[1] - part[0]), (0, THREADS))
            first = fx.add_offset(fx.get_iter(X), tile * WIDTH + part[0] * THREADS + t)
            fx.rocdl.async_copy(fx.make_view(first, shape),
                                fx.make_view(place(stage) + part[0] * THREADS + t, shape))

        return copy

    def tensor(tile, stage, piece=0, rows=32):
        """The whole tile, or a piece of some rows."""
        atom = fx.rocdl.make_tdm_atom(rows_by_16, (None, None), (16,), num_warps=waves)
        target = fx.make_view(place(stage) + piece * rows * 16, fx.make_layout((rows, 16), (16, 1)))
        source = fx.flat_divide(rows_by_16, (rows, 16))[None, None, (tile + before) * (32 // rows) + piece, 0]
        fx.copy_atom_call(atom, source, target)

    rows_by_16 = fx.make_view(fx.get_iter(X), fx.make_layout((64 * 32, 16), (16, 1)))
    waves = 1 if fx.const_expr(mode == "specialised") else THREADS // 32
    if fx.const_expr(kind == "staged"):
        producers = fx.Staged(load, store)
    elif fx.const_expr(kind == "staged pieces"):
        producers = fx.Staged(load_piece, store_pieces, pieces=2)
    elif fx.const_expr(kind == "refilled pieces"):
        producers = fx.Staged(load_piece, store_pieces, pieces=2, refilled=True)
    elif fx.const_expr(kind == "reach"):
        producers = fx.Staged(load, store, reach=2)
    elif fx.const_expr(kind == "direct"):
        producers = fx.Direct(direct((0, 2)))
    elif fx.const_expr(kind == "pieces"):
        producers = fx.Direct(lambda tile, stage, piece: direct((piece, piece + 1))(tile, stage), pieces=2)
    elif fx.const_expr(kind == "async"):
        producers = fx.Direct(asynchronous((0, 2)))
    elif fx.const_expr(kind == "early async"):
        producers = (fx.Direct(asynchronous((0, 1)), early=True), fx.Direct(asynchronous((1, 2))))
    elif fx.const_expr(kind == "early"):
        producers = (fx.Direct(direct((0, 1)), early=True), fx.Direct(direct((1, 2))))
    elif fx.const_expr(kind == "tensor pieces"):
        producers = fx.TensorMove(lambda tile, stage, piece: tensor(tile, stage, piece, 16), pieces=2)
    else:
        producers = fx.TensorMove(tensor)
    groups = fx.WaveGroups(2) if fx.const_expr(mode == "turns") else None
    specialised = (fx.WaveGroups(THREADS // fx.num_warp_threads()), 3) if fx.const_expr(mode == "specialised") else None
    number = fixed if bound.endswith("static") else tiles
    pipeline = fx.Pipeline(number, stages, producers, whole_turns=bound == "whole", rolled=rolled, groups=groups,
                           kept=int(mode in ("kept", "late")), specialised=specialised)
    total, history = fx.Float32(0.0), {"last": [fx.Float32(0.0), fx.Int32(0)]}
    if fx.const_expr(before):
        values = fx.make_rmem_tensor(2, fx.Float32)

        def use():
            tile = fx.make_view(place(stages - 1), fx.make_layout(WIDTH, 1))
            values[0], values[1] = tile[WIDTH - 1 - t], tile[t]

        pipeline.start(before=(producers, use))
        total = total + values[0] + values[1]
    for step in fx.pipeline_range(pipeline):
        tile = fx.make_view(place(step.stage), fx.make_layout(WIDTH, 1))
        if fx.const_expr(mode == "kept" and not kind.endswith("pieces")):
            step.arrive()
        if fx.const_expr(kind == "refilled pieces" and bound != "loads first"):
            step.store(1)
            step.store(0)
        if fx.const_expr(kind.endswith("pieces")):
            step.start(1)
        if fx.const_expr(mode == "late"):
            step.arrive()
        mirrored, own = tile[WIDTH - 1 - t], tile[t]
        if fx.const_expr(kind.endswith("pieces") and bound != "one piece"):
            step.start(0)
        if fx.const_expr(mode in ("stores", "one store")):
            for piece in fx.range_constexpr(2 if mode == "stores" else 1):
                step.store(piece)
        if fx.const_expr(mode == "kept" and kind.endswith("pieces")):
            step.arrive()
        if fx.const_expr(mode == "turns"):
            with step.turn():
                total = total + mirrored * (step.tile + before + 1).to(fx.Float32) + own
        else:
            if fx.const_expr(mode == "advance"):
                step.advance()
            if fx.const_expr(mode in ("arrive", "arrive alone")):
                step.arrive()
            total = total + mirrored * (step.tile + before + 1).to(fx.Float32) + own
            if fx.const_expr(mode in ("arrive", "kept", "late")):
                step.advance()
        history = {"last": [own, step.tile]}
    if fx.const_expr(mode == "specialised"):
        if fx.wave_index() != 3:
            Y[t] = total
    else:
        Y[t] = total + history["last"][0] * history["last"][1].to(fx.Float32)


@flyc.jit
def add_tiles(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, config: fx.Constexpr):
    add_tiles_k(X, Y, tiles, config).launch(grid=1, block=THREADS)


@flyc.kernel
def mixed_k(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, stages: fx.Constexpr[int]):
    """A direct copy to LDS beside loads that stay in registers."""
    t = fx.thread_idx.x
    memory = fx.SharedAllocator()
    places = [memory.allocate(fx.Array[fx.Float32, WIDTH, 128]).peek() for _ in fx.range_constexpr(stages)]
    fours = [fx.make_rmem_tensor(4, fx.Float32) for _ in fx.range_constexpr(stages)]
    x = fx.get_iter(fx.rocdl.make_buffer_tensor(X))
    word, four = [fx.make_copy_atom(op, fx.Float32) for op in (fx.rocdl.BufferCopyLDS32b(), fx.rocdl.BufferCopy128b())]

    def copy(tile, stage):
        for half in fx.range_constexpr(2):
            first = half * THREADS + fx.wave_index() * 64
            source = fx.make_view(x + (tile * WIDTH + first + t % 64), fx.make_layout(1, 1))
            fx.copy_atom_call(word, source, fx.make_view(places[stage].ptr + first, fx.make_layout(1, 1)))

    def load(tile, stage):
        fx.copy_atom_call(four, fx.make_view(x + (tile * WIDTH + t % 128 * 4), fx.make_layout(4, 1)), fours[stage])

    total = fx.Float32(0.0)
    producers = (fx.Direct(copy), fx.Registers(load))
    for step in fx.pipeline_range(fx.Pipeline(tiles, stages, producers)):
        total = total + places[step.stage][WIDTH - 1 - t] + fours[step.stage].load().reduce("ADD")
    Y[t] = total


@flyc.jit
def mixed(X: fx.Tensor, Y: fx.Tensor, tiles: fx.Int32, stages: fx.Constexpr[int]):
    mixed_k(X, Y, tiles, stages).launch(grid=1, block=THREADS)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="Direct is of gfx9")
@pytest.mark.parametrize("stages", [2, 3])
def test_registers_beside_direct_copies(device: Any, stages: int) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (64, WIDTH)).astype(np.float32)
    t = np.arange(THREADS)
    for tiles in (1, 2, 7):
        y = np.full(THREADS, np.nan, np.float32)
        mixed(x, y, tiles, stages)
        four = x[:tiles].reshape(tiles, -1, 4).sum(axis=2)[:, t % 128].sum(axis=0)
        np.testing.assert_array_equal(y, x[:tiles, WIDTH - 1 - t].sum(axis=0) + four)


@flyc.kernel
def halves_k(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 2 * THREADS, 16]).peek()
    total = fx.Float32(0.0)
    for i in range(n):
        place = i % 2 * THREADS
        lds[place + t] = X[t] + fx.Int32(i).to(fx.Float32)
        fx.barrier_arrive()
        total = total + X[t]  # needs nobody
        fx.barrier_wait()
        total = total + lds[place + (THREADS - 1 - t)]
    Y[t] = total


@flyc.jit
def halves(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    halves_k(X, Y, n).launch(grid=1, block=THREADS)


def test_halves_of_a_barrier(device: Any) -> None:
    x, y = np.arange(THREADS, dtype=np.float32), np.full(THREADS, np.nan, np.float32)
    if ARCH.startswith("gfx9"):
        with pytest.raises(ValueError, match="split barrier"):
            halves(x, y, 6)
        return
    halves(x, y, 6)
    np.testing.assert_array_equal(y, 6 * x + 6 * x[::-1] + 15)


@flyc.kernel
def pairs_k(X: fx.Tensor, Y: fx.Tensor):
    """The first two and the last two waves meet separately; each thread reads what its partner wave wrote."""
    t = fx.thread_idx.x
    lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128, 16]).peek()
    first, second = fx.NamedBarrier(2), fx.NamedBarrier(2)
    wave = fx.wave_index()
    if wave < 2:
        first.join()
    else:
        second.join()
    lds[t] = X[t]
    if wave < 2:
        first.arrive()
        first.wait()
    else:
        second.arrive()
        second.wait()
    Y[t] = lds[t ^ 32]


@flyc.jit
def pairs(X: fx.Tensor, Y: fx.Tensor):
    pairs_k(X, Y).launch(grid=1, block=128)


def test_named_barriers(device: Any) -> None:
    x, y = np.arange(128, dtype=np.float32), np.full(128, np.nan, np.float32)
    if ARCH != "gfx1250":
        with pytest.raises(ValueError, match="named barrier"):
            pairs(x, y)
        return
    from flydsl.runtime.checking import checked

    with checked("oob"):  # the race checker takes all waves of a workgroup for members of every barrier
        pairs(x, y)
    np.testing.assert_array_equal(y, x[np.arange(128) ^ 32])


def kinds(arch: str) -> list[str]:
    direct = ["direct", "early", "pieces"] if arch.startswith("gfx9") else []
    if arch == "gfx1250":
        direct = ["tensor", "tensor pieces", "async", "early async"]
    return ["staged", "reach", *direct]


def expected(x: np.ndarray, tiles: int, mode: str) -> np.ndarray:
    t = np.arange(THREADS)
    tiles += (before := int(mode == "before"))
    total = sum(x[k, WIDTH - 1 - t] * (k + 1) + x[k, t] for k in range(tiles))
    if before:
        return total + x[tiles - 1, t] * (tiles - 2)
    return total if mode == "specialised" else total + x[tiles - 1, t] * (tiles - 1)


@pytest.mark.parametrize("bound", ["static", "dynamic", "whole", "rolled", "rolled static"])
@pytest.mark.parametrize("kind", [*kinds(ARCH), "staged pieces", "refilled pieces"])
def test_sum_of_tiles(device: Any, kind: str, bound: str) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (64, WIDTH)).astype(np.float32)
    if kind == "reach" and bound.startswith("rolled"):
        pytest.skip("a rolled pipeline has one set of registers")
    modes = ["plain", "advance"] + (["turns", "specialised"] if kind in ("direct", "tensor") else [])
    modes += ["turns"] if kind == "async" else ["stores"] if kind == "staged pieces" else []
    modes += ["arrive", "arrive alone"] if ARCH.startswith("gfx12") else []
    several = (1, 2, 3) if kind in ("staged", "reach") else (2, 3, 4)
    for stages in several[1:2] if bound.startswith("rolled") else several:
        for mode in modes + (["kept"] if ARCH.startswith("gfx12") and stages > 2 else []):
            turn = stages if kind != "reach" or stages == 2 else 2 * stages
            for tiles in (turn, 3 * turn) if bound == "whole" else (1, 8) if bound.endswith("static") else (1, 2, 7):
                y = np.full(THREADS, np.nan, np.float32)
                add_tiles(x, y, tiles, (kind, stages, tiles if bound.endswith("static") else 0, bound, mode))
                exact = expected(x, tiles, mode)
                kept = slice(None)
                if mode == "specialised":  # the threads of wave 3 only start copies
                    lanes = 64 if ARCH.startswith("gfx9") else 32
                    kept = np.arange(THREADS) // lanes != 3
                np.testing.assert_array_equal(y[kept], exact[kept], f"{stages} stages, {tiles} tiles, {mode}")


@pytest.mark.parametrize("bound", ["dynamic", "rolled"])
@pytest.mark.parametrize("kind", [k for k in kinds(ARCH) if k in ("staged", "direct", "tensor")])
def test_a_tile_before_the_loop(device: Any, kind: str, bound: str) -> None:
    x = np.random.default_rng(0).integers(-8, 8, (64, WIDTH)).astype(np.float32)
    for stages in (2, 3):
        for tiles in (1, 4):
            y = np.full(THREADS, np.nan, np.float32)
            add_tiles(x, y, tiles, (kind, stages, 0, bound, "before"))
            np.testing.assert_array_equal(y, expected(x, tiles, "before"), f"{stages} stages, {tiles} tiles")
    with pytest.raises(ValueError, match="stages"):
        add_tiles(x, y, 1, (kind, 1, 0, bound, "before"))


@pytest.mark.skipif(ARCH != "gfx1250", reason="tiles that are kept and come in pieces without registers")
@pytest.mark.parametrize("bound", ["static", "dynamic", "rolled", "rolled static"])
def test_pieces_start_behind_the_arrival(device: Any, bound: str) -> None:
    """But for the tile that the wave waits for when it arrives."""
    x = np.random.default_rng(0).integers(-8, 8, (64, WIDTH)).astype(np.float32)
    for tiles in (1, 2, 7, 8):
        y, fixed = np.full(THREADS, np.nan, np.float32), tiles if bound.endswith("static") else 0
        add_tiles(x, y, tiles, ("tensor pieces", 4, fixed, bound, "late"))
        np.testing.assert_array_equal(y, expected(x, tiles, "late"), f"{tiles} tiles")
    with pytest.raises(ValueError, match="started 1 of 2 pieces"):
        add_tiles(x, y, 8, ("tensor pieces", 3, 8, bound, "late"))


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="a barrier of gfx12 has two halves")
def test_a_whole_barrier_has_no_halves(device: Any) -> None:
    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(ValueError, match="split barrier"):
        add_tiles(x, y, 5, ("staged", 2, 5, "static", "arrive"))


def test_a_step_stores_all_pieces_or_none(device: Any) -> None:
    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(ValueError, match="stored 1 of 2 pieces"):
        add_tiles(x, y, 5, ("staged pieces", 2, 5, "static", "one store"))


def test_registers_are_refilled_behind_their_store(device: Any) -> None:
    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(ValueError, match="registers hold that of the next tile"):
        add_tiles(x, y, 5, ("refilled pieces", 2, 5, "loads first", "plain"))


@pytest.mark.parametrize("stages, options", [(2, {}), (1, {"pieces": 2}), (2, {"pieces": 2, "reach": 2})])
def test_registers_are_refilled_in_pieces(stages: int, options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="refilled in pieces"):
        fx.Pipeline(4, stages, fx.Staged(lambda *_: None, lambda *_: None, refilled=True, **options))


@pytest.mark.parametrize("stages, kept", [(2, 1), (4, 2)])
def test_one_of_three_tiles_or_more_is_kept(stages: int, kept: int) -> None:
    with pytest.raises(ValueError, match="three stages or more"):
        fx.Pipeline(4, stages, fx.Staged(lambda tile, slot: None, lambda slot, stage: None), kept=kept)


@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="Direct is of gfx9")
def test_a_step_starts_all_pieces(device: Any) -> None:
    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(ValueError, match="1 of 2 pieces"):
        add_tiles(x, y, 5, ("pieces", 2, 5, "one piece", "plain"))
    with pytest.raises(ValueError, match="pass the turn together"):
        add_tiles(x, y, 5, ("pieces", 2, 5, "static", "turns"))


@pytest.mark.skipif("race" not in os.environ.get("FLYDSL_SIM_CHECK", ""), reason="needs the race checker")
@pytest.mark.skipif(ARCH == "gfx1201", reason="no copies that are waited for by count")
@pytest.mark.parametrize("kind", kinds(ARCH)[2:])
def test_waiting_for_one_less_is_a_race(device: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from flydsl.expr.pipelines import schedule
    from flydsl.runtime import SimulatorError

    exact = schedule.wait_for
    monkeypatch.setattr(schedule, "wait_for", lambda counter, left: exact(counter, left + 1))
    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(SimulatorError, match="race"):
        add_tiles(x, y, 11, (kind, 3, 11, "static", "one less"))


def test_derived_counts(device: Any, tmp_path: Path) -> None:
    """Three stages of two copies: two are in flight while the next tile is waited for, none at the last turn."""
    code = f"""
        import sys; sys.path.insert(0, {str(HERE.parent)!r})
        import numpy as np, test_pipelines as t
        x, y = np.ones((64, t.WIDTH), np.float32), np.zeros(t.THREADS, np.float32)
        t.add_tiles(x, y, 5, ("direct", 3, 5, "static", "plain"))
    """
    env = {**os.environ, "FLYDSL_SIM_ARCH": "gfx942", "FLYDSL_DUMP_IR": "1", "FLYDSL_DUMP_DIR": str(tmp_path),
           "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, check=True)
    (assembly,) = tmp_path.glob("*/*_final_isa.s")
    counts = [int(n) for n in re.findall(r"vmcnt\((\d+)\)(?=[^;]*\n\s*s_barrier)", assembly.read_text())]
    assert counts == [2, 2, 2, 2, 0]


def kinds_of_instructions(assembly: str) -> list[str]:
    """By turn, one letter for each instruction: (l)oad from global memory, (m)atrix, (w)ait for loads, (s)tore to LDS;
    ``|`` ends the turn, a barrier."""
    letters = [("l", r"(?:buffer|global)_load"), ("m", r"v_(?:mfma|wmma)"), ("s", r"ds_(?:write|store)"),
               ("w", r"s_waitcnt vmcnt|s_wait_loadcnt|s_wait_asynccnt"), ("|", "s_barrier(?!_signal)")]
    lines = re.findall(r"\b(?:buffer|global|v|ds|s)_[a-z].*", assembly)
    found = (next((letter for letter, name in letters if re.match(name, line)), "") for line in lines)
    return "".join(found).split("|")


@pytest.mark.parametrize("kind, stages", [("staged", 1), ("staged", 2), ("staged", 3), ("direct", 2)])
def test_loads_stay_in_front_of_the_products(device: Any, kind: str, stages: int,
                                             monkeypatch: pytest.MonkeyPatch) -> None:
    """In the machine code of each step: the loads of the next tile, all products, the wait for the loads."""
    from flydsl.runtime import disasm

    monkeypatch.syspath_prepend(str(HERE.parents[4] / "docs" / "language"))
    import pipeline_examples as examples

    if kind not in examples.available(ARCH):
        pytest.skip(f"{ARCH} has no direct copies")
    a, c = np.zeros((64, 512), np.float16), np.zeros((64, 64), np.float32)
    code = disasm(flyc.compile(examples.gemm, a, a, c, kind, 512, stages, ARCH).artifact.hsaco)
    steps = [turn for turn in kinds_of_instructions(str(code)) if "m" in turn]
    assert len(steps) >= 4 and not re.search("[lws]", steps[-1])
    for turn in steps[:-1]:
        assert re.fullmatch(r"l+m+(w[ws]*)?", turn), turn


@pytest.mark.parametrize("hint", ["", "fx.rocdl.sched_vmem(1)", "fx.rocdl.iglp_opt(0)"])
def test_a_body_that_schedules_itself_decides(load: Any, device: Any, hint: str) -> None:
    module = load(f"""
    @flyc.kernel
    def k(X: fx.Tensor, Y: fx.Tensor):
        t = fx.thread_idx.x
        lds = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 128]).peek().view(fx.make_layout((64, 2), (1, 64)))
        value = fx.make_rmem_tensor(1, fx.Float32)
        def load(tile, slot):
            value[0] = X[tile * 64 + t]
        def store(slot, stage):
            lds[t, stage] = value[0]
        total = fx.Float32(0.0)
        for step in fx.pipeline_range(fx.Pipeline(3, 2, fx.Staged(load, store))):
            total = total + lds[63 - t, step.stage]
            if fx.const_expr({bool(hint)}):
                {hint or "pass"}
        Y[t] = total

    @flyc.jit
    def run(X: fx.Tensor, Y: fx.Tensor):
        k(X, Y).launch(grid=1, block=64)
    """)
    x, y = np.random.default_rng(0).random((3, 64), np.float32), np.zeros(64, np.float32)
    module.run(x.reshape(-1), y)
    np.testing.assert_allclose(y, x.sum(axis=0)[::-1], rtol=1e-6)
    masks = re.findall(r"rocdl.sched.barrier (?:\{mask = )?(\d+)", flyc.compile(module.run, x.reshape(-1), y).source_ir)
    assert masks.count("1222") == (0 if hint else 2) and "0" in masks


def test_turns_that_are_not_whole_stop_the_launch(device: Any) -> None:
    from flydsl.runtime import SimulatorError

    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    for tiles in (3, 7):
        with pytest.raises(SimulatorError, match="trap"):
            add_tiles(x, y, tiles, ("staged", 2, 0, "whole", "plain"))


@pytest.mark.parametrize("tiles", [2.5, True, "4", None])
def test_the_number_of_tiles_is_an_integer(load: Any, tiles: Any) -> None:
    module = load("""
        @flyc.kernel
        def k(X: fx.Tensor):
            for step in fx.pipeline_range(fx.Pipeline(TILES, 2, fx.Staged(lambda tile, slot: None,
                                                                          lambda slot, stage: None))):
                X[fx.thread_idx.x] = step.tile

        @flyc.jit
        def run(X: fx.Tensor):
            k(X).launch(grid=1, block=64)
    """)
    module.TILES = tiles
    with pytest.raises(TypeError, match="the number of tiles is an int or an Int32"):
        module.run(np.zeros(64, np.int32))


def test_no_tile_at_all_stops_the_launch(device: Any) -> None:
    """The first tile would be loaded from before the tensor."""
    from flydsl.runtime import SimulatorError

    x, y = np.ones((64, WIDTH), np.float32), np.zeros(THREADS, np.float32)
    with pytest.raises(SimulatorError, match="trap"):
        add_tiles(x, y, 0, ("staged", 2, 0, "dynamic", "plain"))


@pytest.mark.parametrize("producer, stages, message", [
    (lambda: fx.Direct(lambda tile, stage: None), 1, "two stages"),
    (lambda: fx.Direct(lambda tile, stage: None), 2, "starts no copy"),
    (lambda: fx.Staged(lambda tile, slot: None, lambda slot, stage: None, reach=0), 2, "reach"),
    (lambda: (), 2, "at least one producer"),
    (lambda: fx.Registers(lambda tile, stage: None), 1, "two stages"),
])
@pytest.mark.skipif(not ARCH.startswith("gfx9"), reason="Direct is of gfx9")
def test_refused(load: Any, producer: Any, stages: int, message: str, device: Any) -> None:
    module = load("""
        @flyc.kernel
        def k(X: fx.Tensor):
            for step in fx.pipeline_range(fx.Pipeline(4, STAGES, PRODUCER())):
                X[fx.thread_idx.x] = step.tile

        @flyc.jit
        def run(X: fx.Tensor):
            k(X).launch(grid=1, block=64)
    """)
    module.STAGES, module.PRODUCER = stages, producer
    with pytest.raises(ValueError, match=message):
        module.run(np.zeros(64, np.int32))


def test_what_is_done_while_the_first_tile_comes(load: Any) -> None:
    """It stands behind the loads of tile 0, before these are stored and the next ones start."""
    module, order = load("""
        @flyc.kernel
        def k(X: fx.Tensor):
            pipeline = fx.Pipeline(4, 2, fx.Staged(lambda tile, slot, piece: ORDER.append("load"),
                                                   lambda slot, stage, piece=None: ORDER.append("store"), pieces=1,
                                                   refilled=True))
            pipeline.start(lambda: ORDER.append("meanwhile"))
            ORDER.append("loop")
            for step in fx.pipeline_range(pipeline):
                step.store(0)
                step.start(0)
                X[fx.thread_idx.x] = step.tile

        @flyc.jit
        def run(X: fx.Tensor):
            k(X).launch(grid=1, block=64)
    """), []
    module.ORDER = order
    module.run(np.zeros(64, np.int32))
    assert order[: order.index("loop")] == ["load", "meanwhile", "store", "load"]


@pytest.mark.parametrize("producers, options, message", [
    (lambda: fx.Staged(lambda tile, slot: None, lambda slot, stage: None, reach=2), {}, "one set of registers"),
    (lambda: fx.Registers(lambda tile, stage: None), {}, "one set of registers"),
    (lambda: fx.Staged(lambda tile, slot: None, lambda slot, stage: None), {"whole_turns": True}, "no whole turns"),
])
def test_what_a_rolled_pipeline_has_not(producers: Any, options: dict[str, bool], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fx.Pipeline(4, 2, producers(), rolled=True, **options)


@pytest.mark.skipif("FLYDSL_TEST_ONE_ARCH" in os.environ, reason="this is the process for one architecture")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_on_every_architecture(arch: str) -> None:
    run_on(arch, HERE, FLYDSL_TEST_ONE_ARCH="1", FLYDSL_SIM_CHECK="oob,race,uninit")
