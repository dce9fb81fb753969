#!/usr/bin/env python3
"""The hot loop of each tuned GEMM tile: how busy it keeps the matrix unit, in three estimates.

    python packages/flydsl-kernels/bench/hot_loops.py --arch gfx950 [--only TEXT] [--every] [--launch] [--json]

The tiles are those that the functional forms choose for large problems (``gemm/tuned.py``; with ``--every`` for any),
and the 256 x 256 fp8 kernels. *mca* and *loop*: share of the loop's cycles in which the matrix unit is busy by LLVM's
machine model and by the simulator's timing model, for one wave whose accesses hit the nearest cache. *launch*: the
share in the middle of a launch that fills the chip (the difference of two reduction lengths), where loops also wait for
memory and for other waves; *limit*: the unit that binds it, and its share. *memory*, of tiles of few rows: the share of
the memory's peak bandwidth, which binds them, in the middle of a launch with one block of rows and a workgroup for each
compute unit. No GPU was involved.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from code_facts import code_facts
from limits import MATRIX, binding, limits

NOTE = "estimates of hot loops by llvm-mca, and of one wave and a launch by the simulator; no GPU was involved"
LOOP_TILES = (16, 64)  # tiles of k of the kernel whose loop is looked at; the second where the first is no loop
LAUNCH_TILES = (16, 64)
STREAM_TILES = (6, 18)
FEW_ROWS = 32  # of tiles that are bound by memory
RECORD = Path(__file__).with_name("hot_loops.json")
BUSY = 0.90  # share of a loop's clocks in which the matrix unit should be busy
BYTES = {"bf16": 2, "fp8": 1, "int8": 1, "fp6": 1, "fp4": 0.5, "int4": 0.5}


@dataclass(frozen=True)
class Loop:
    """A kernel with a tuned tile.

    Attributes:
        name: the kernel; `dtype` of its operands, ``"a x b"`` if they differ.
        m, n, k: the tile.
        make: ``make(m, n, k)``: launcher and arguments for a problem.
    """

    name: str
    dtype: str
    m: int
    n: int
    k: int
    make: Callable[[int, int, int], tuple[Any, list[Any]]]

    @property
    def label(self) -> str:
        return f"{self.name} {self.dtype} {self.m}x{self.n}x{self.k}"

    @property
    def operand_bytes(self) -> tuple[float, float]:
        """Of an element of A and of B. fp6 is stored as 32 bytes for 32 values."""
        a, _, b = self.dtype.partition(" x ")
        return BYTES[a], BYTES[b or a]

    @property
    def streams(self) -> bool:
        """Whether it is a product of few rows, bound by memory. A block of experts is one of many."""
        return self.m <= FEW_ROWS and not self.name.startswith("experts")


@dataclass(frozen=True)
class Figures:
    """Shares of busy clocks, 0 to 1; None where there is no model or it was not asked for. `lost` is the share of the
    loop's clocks in which its wave waits, by cause (:func:`losses`); `memory` is of the peak bandwidth
    (:func:`streamed`); `limits` are of each unit in a launch (:func:`limits.limits`), `binds` the one with the largest.
    """

    kernel: str
    arch: str
    mca: float | None
    loop: float | None
    launch: float | None
    vgpr: int
    spills: int
    lds_conflicts: float | None = None
    lost: dict[str, float] = field(default_factory=dict)
    memory: float | None = None
    limits: dict[str, float] = field(default_factory=dict)
    binds: str = ""

    @property
    def limit(self) -> str:
        """What binds a launch, as text."""
        return f"{self.binds} {100 * self.limits[self.binds]:.0f} %" if self.binds else "-"


def _bytes(count: int) -> Any:
    import torch

    return torch.randint(-40, 40, (count,), dtype=torch.int8)


def _half(count: int) -> Any:
    import torch

    return torch.randn(count).bfloat16()


def _ones(*counts: int) -> list[Any]:
    import torch

    return [torch.ones(c) for c in counts]


def _out(m: int, n: int) -> Any:
    import torch

    return torch.empty(m * n, dtype=torch.bfloat16)


def preshuffle(dtype: str, tile: Any) -> Loop:
    """The preshuffle GEMM with a tile of ``tuned.PRESHUFFLE``."""
    from flydsl.kernels import gemm

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        data = _half if dtype == "bf16" else _bytes
        launcher = gemm.compile_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, in_dtype=dtype,
                                                xcd_swizzle=tile.group)
        b = data(n * k // (2 if dtype == "int4" else 1))
        return launcher, [_out(m, n), data(m * k), b, *_ones(m, n, n), m, n]

    return Loop("preshuffle", "int8 x int4" if dtype == "int4" else dtype, tile.m, tile.n, tile.k, make)


def block_scale(tile: Any) -> Loop:
    """The block-scale GEMM with a tile of ``tuned.BLOCK_SCALE``."""
    from flydsl.kernels import gemm

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        launcher = gemm.compile_blockscale_preshuffle_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k)
        blocks = k // 128
        return launcher, [_out(m, n), _bytes(m * k), _bytes(n * k), *_ones(blocks * m, -(-n // 128) * blocks), m, n]

    return Loop("block scale", "fp8", tile.m, tile.n, tile.k, make)


def general(layout: str, tile: Any) -> Loop:
    """The general GEMM with a tile of ``tuned.DENSE``, as its functional form builds it."""
    from flydsl.kernels import gemm

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        launcher = gemm.build_gemm_module(n, k, "bf16", None, layout, use_async_copy=None, **tile.knobs(1))
        out = _out(m, n)
        return launcher, [out, _half(m * k), _half(n * k), out, out, m]

    stages = f" {tile.stages} stages" if tile.stages > 2 else ""
    return Loop(f"general {layout}{stages}", "bf16", tile.m, tile.n, tile.k, make)


def microscaled(kind: str, weights: str, tile: Any) -> Loop:
    """The microscaled GEMM with a tile of ``tuned.MX``: activations of `kind`."""
    import torch

    from flydsl.kernels import gemm

    per_byte = {"fp4": 2, "fp6": 1, "fp8": 1}

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        launcher = gemm.compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=kind,
                                           b_dtype=weights)
        scales = [torch.full((-(-rows // 256) * 256, k // 32), 127, dtype=torch.uint8) for rows in (m, n)]
        return launcher, [_out(m, n).view(m, n), _bytes(m * k // per_byte[kind]).view(m, -1),
                          _bytes(n * k // per_byte[weights]).view(n, -1), *scales, m, n]

    return Loop("microscaled", f"{kind} x {weights}", tile.m, tile.n, tile.k, make)


def row_scale(waves: int, block: tuple[int, int]) -> Loop:
    """The fp8 kernels of gfx950 with both operands through LDS, with a block of ``tuned.ROW_SCALE``."""
    from flydsl.kernels import gemm

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        build = gemm.compile_fp8_gemm_4w if waves == 4 else gemm.compile_fp8_gemm_8w
        launcher = build(K=k, BLOCK_M=block[0], BLOCK_N=block[1])
        return launcher, [_bytes(m * k).view(m, k), _bytes(n * k).view(n, k), _out(m, n).view(m, n), *_ones(m, n), m, n]

    return Loop(f"row scale, {waves} waves", "fp8", *block, 128, make)


def rdna_fp8(tile: Any, target: Any) -> Loop:
    """The fp8 GEMM of gfx120x without LDS, with a tile of ``tuned.RDNA_FP8``."""
    from flydsl.kernels.gemm.rdna_fp8 import rdna_fp8_config
    from flydsl.kernels.gemm.scaled import product

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        config = rdna_fp8_config("bench", target, n=n, k=k, **tile.sizes)
        out = _out(m, n)
        return product(config), [out, _bytes(m * k), _bytes(n * k), *_ones(m, n), out, m]

    return Loop("row scale, no LDS", "fp8", tile.m, tile.n, 4 * tile.k, make)


def wmma(dtypes: tuple[str, ...], tile: Any, target: Any) -> Loop:
    """The 8-bit and 4-bit GEMM of gfx1250 with a tile of ``tuned.WMMA``."""
    import torch

    from flydsl.kernels.gemm.scaled import product, tiled_wmma

    micro = len(dtypes) > 1

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        a, b = (_bytes(int(rows * k * BYTES[dtype])) for rows, dtype in ((m, dtypes[0]), (n, dtypes[-1])))
        scales = [torch.full((rows * k // 32,), 127, dtype=torch.int8) for rows in (m, n)] if micro else _ones(m, n)
        out = _out(m, n)
        return product(tiled_wmma("bench", target, n, k, tile, dtypes, "bf16")), [out, a, b, *scales, out, m]

    return Loop("microscaled" if micro else "row scale", " x ".join(dtypes), tile.m, tile.n, tile.k, make)


def experts(quant: str, gated: bool, block: int, target: Any) -> Loop:
    """A product of a mixture of experts with the tile that `ops.moe` takes for blocks of `block` rows: gate and up with
    silu, or down. All rows are of one expert."""
    import torch

    import flydsl.compiler as flyc
    import flydsl.expr as fx
    from flydsl.kernels.moe.config import FORMATS
    from flydsl.kernels.moe.experts import experts_config
    from flydsl.kernels.moe.grouped import launch_grouped
    from flydsl.kernels.moe.tuned import tiles_of_block
    from flydsl.kernels.parts.index import align_up
    from flydsl.kernels.parts.matrix import SCALE_BLOCK

    kind = FORMATS[quant]
    scale = "e8m0" if kind.b == "fp4" else "bf16"

    def config_of(m: int, n: int, k: int) -> Any:
        model, inter = (k, align_up(n, SCALE_BLOCK) if kind.scales == "micro" else n) if gated else (n, k)
        found = experts_config("bench", target, m, 1, max(m // block, 1), model, inter, "bf16", "silu", None,
                               (False, False), False, quant, (scale, scale),
                               tiles_of_block(target, quant, block, model, inter))
        return found.up if gated else found.down

    def make(m: int, n: int, k: int) -> tuple[Any, list[Any]]:
        config = config_of(m, n, k)

        @flyc.jit
        def run(out, x, w, x_scale, w_scale, rows, weights, expert, valid, out_scale, tokens: fx.Int32,
                stream: fx.Stream = fx.Stream(None)):
            tensors = dict(out=out, x=x, w=w, x_scale=x_scale, w_scale=w_scale, rows=rows, weights=weights,
                           experts=expert, valid=valid, out_scale=out_scale)
            launch_grouped(tensors, tokens, fx.ceildiv(tokens, block), tokens, config, stream)

        words = config.rows_b // 16 * config.strip_words
        x = _half(m * k) if kind.bits_a == 16 else _bytes(m * k * kind.bits_a // 8)
        w = _half(2 * words) if kind.bits_b == 16 else _bytes(4 * words)

        def ones(count: int) -> Any:
            if kind.scales == "micro" or (kind.scales == "groups" and scale == "e8m0"):
                return torch.full((count,), 127, dtype=torch.uint8)
            return torch.ones(count).bfloat16() if kind.scales == "groups" else torch.ones(count)

        columns = -(-config.scales_k // 8) * 8
        return run, [_out(m, n), x, w, ones(m * columns), ones(config.rows_b * columns),
                     torch.arange(m, dtype=torch.int32), torch.ones(m), torch.zeros(m // block, dtype=torch.int32),
                     torch.tensor([m, m], dtype=torch.int32), _bytes(m * n), m]

    config = config_of(16 * block, 1024, 4096)
    dtype = {16: "bf16", 8: "int8" if kind.a == "i8" else "fp8", 4: "fp4"}
    names = dtype[kind.bits_a], {4: "int4" if kind.b == "i4" else "fp4"}.get(kind.bits_b, dtype[kind.bits_b])
    operands = names[0] if names[0] == names[1] else " x ".join(names)
    return Loop(f"experts {'gate and up' if gated else 'down'} {quant}", operands, block, config.tile_n, config.tile_k,
                make)


def tuned_loops(target: Any, every: bool = False) -> Iterator[Loop]:
    """The tuned tiles of an architecture: those for large problems, or with `every` all of them.

    An entry that stands in a table twice is one.
    """
    from flydsl.kernels.gemm import tuned

    arch = target.arch

    def chosen(tiles: Any) -> list[Any]:
        return list(dict.fromkeys(tiles)) if every else list(tiles[:1])

    for size, dtypes in ((0.5, ("int4",)), (1, ("fp8", "int8")), (2, ("bf16",))):
        for dtype in dtypes if arch in tuned.PRESHUFFLE else ():
            yield from (preshuffle(dtype, tile) for tile in chosen(tuned.PRESHUFFLE[arch][size]))
    yield from (block_scale(tile) for tile in chosen(tuned.BLOCK_SCALE.get(arch, ())))
    for layout in ("nt", "nn", "tn", "tt"):
        yield from (general(layout, tile) for tile in chosen(tuned.dense_tiles(target, layout)))
    if every:
        yield from (general("nt", tile) for tile, _ in tuned.DENSE_KNOWN.get(arch, {}).values())
    if target.mx and arch == "gfx950":
        for (kind, weights), tiles in tuned.MX.items():
            yield from (microscaled(kind, weights, tile) for tile in chosen(tiles))
        yield from (row_scale(4, block) for block in (tuned.ROW_SCALE if every else tuned.ROW_SCALE[:1]))
        yield row_scale(8, tuned.ROW_SCALE[0])
    yield from (rdna_fp8(tile, target) for tile in chosen(tuned.RDNA_FP8 if arch == "gfx120" else ()))
    for dtypes, tiles in tuned.WMMA.items() if target.tensor_moves else ():
        yield from (wmma(dtypes, tile, target) for tile in chosen(tiles))


def expert_loops(target: Any, every: bool = False) -> Iterator[Loop]:
    """The products of mixtures of experts, of large blocks or with `every` also of small ones."""
    if target.repeats_operands:  # gfx11 has the general GEMM only
        return
    from flydsl.kernels.moe.tuned import most_rows

    quants = ["none", "fp8", "fp8_block", "int4", "a16w4", "a16i4"]
    quants += [name for name in ("mxfp4", "a8w4") if target.mx]
    for quant in quants:
        large = most_rows(target, quant)
        for block in sorted({large, min(large, 128), min(large, 64)} if every else {large}, reverse=True):
            for gated in (True, False):
                yield experts(quant, gated, block, target)


def losses(loop: Any) -> dict[str, float]:
    """Where a loop's clocks go in which no product is multiplied: shares of at least one per cent in which the wave
    waits, by cause, and ``"issue"``, in which it issues other instructions. A wait may begin while products are on
    their way, so that the shares may be more than what is lost. Waits for the unit that multiplies are none: it is
    busy (on gfx11 and gfx12 it is the vector unit)."""
    waits = {cause: clocks for cause, clocks in loop.stall.items() if cause not in ("matrix", "valu")}
    waits["issue"] = loop.clocks - loop.matrix_busy - sum(waits.values())
    return {cause: clocks / loop.clocks for cause, clocks in sorted(waits.items()) if clocks >= loop.clocks / 100}


def _profiles(loop: Loop, m: int, n: int, lengths: tuple[int, int]) -> list[Any]:
    """Two launches, with these numbers of tiles of k, whose difference is the steady state."""
    import flydsl.runtime as rt

    seen = []
    for tiles in lengths:
        launcher, arguments = loop.make(m, n, tiles * loop.k)
        with rt.profile(timing=True) as profile:
            launcher(*arguments)
        seen.append(profile.launches[-1])
    return seen


def streamed(loop: Loop, target: Any) -> float:
    """Share of the memory's peak bandwidth at which a block of rows and a workgroup for each compute unit read.

    A launch takes no less than its memory does, so that only the shorter one may have begun more slowly: all at most.
    """
    first, last = (x.timing for x in _profiles(loop, loop.m, loop.n * target.compute_units, STREAM_TILES))
    return min((last.memory_cycles - first.memory_cycles) / (last.cycles - first.cycles), 1.0)


def measure(loop: Loop, target: Any, arch: str, launch: bool) -> Figures:
    """Compile a kernel and estimate its hot loop, of few rows also what a launch reads."""
    import flydsl.compiler as flyc
    import flydsl.ir
    import flydsl.runtime as rt

    for tiles in LOOP_TILES:
        launcher, arguments = loop.make(loop.m, loop.n, tiles * loop.k)
        hsaco = flyc.compile(launcher, *arguments).artifact.hsaco
        spills, mca, alone = code_facts(hsaco, arch)
        if alone is not None:
            break
    vgpr = max(r.vgprs for r in flydsl.ir.kernel_resources(hsaco).values())
    shares: dict[str, float] = {}
    conflicts = None
    if launch:
        with rt.profile() as profile:
            launcher(*arguments)
        occupancy = profile.launches[-1].occupancy()
        places = target.compute_units * occupancy["groups_per_cu"]  # as many workgroups as run at once
        seen = _profiles(loop, loop.m * 16, loop.n * (places // 16), LAUNCH_TILES)
        shares = limits(seen[1], seen[0], shared=target.matrix == "wmma")
        clocks, extra, _ = seen[-1].lds_conflicts()
        conflicts = extra / clocks if clocks else None
    return Figures(loop.label, arch, mca, alone and alone.matrix_busy / alone.clocks, shares.get(MATRIX), vgpr, spills,
                   conflicts, losses(alone) if alone else {}, streamed(loop, target) if loop.streams else None, shares,
                   binding(shares) if shares else "")


def recorded(arch: str) -> dict[str, dict[str, float]]:
    """By kernel: ``loop`` (per cent) and ``vgpr`` of each tile as they were last recorded."""
    return json.loads(RECORD.read_text())[arch]


def record(arch: str, found: list[Figures]) -> None:
    """Put the figures of an architecture in the place of those before (kernels that were not measured keep theirs).
    Of loops that are less busy than all should be, what they wait for is kept too."""
    known = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    new: dict[str, dict[str, Any]] = {}
    for f in found:
        if f.loop is None:
            continue
        new[f.kernel] = {"loop": round(100 * f.loop, 1), "vgpr": f.vgpr}
        if f.spills:
            new[f.kernel]["spills"] = f.spills
        if f.memory is not None:
            new[f.kernel]["memory"] = round(100 * f.memory, 1)
        if f.lost and f.loop < BUSY:
            new[f.kernel]["lost"] = {cause: round(100 * share, 1) for cause, share in f.lost.items()}
    known[arch] = dict(sorted({**known.get(arch, {}), **new}.items()))
    RECORD.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n")


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--every", action="store_true", help="all tiles of the tables")
    parser.add_argument("--launch", action="store_true", help="estimate launches too (half a minute each)")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {RECORD.name}; with --every")
    args = parser.parse_args()
    if args.record and not args.every:
        parser.error("--record writes the figures of all tiles: it needs --every")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=args.arch, ARCH=args.arch,
                          FLYDSL_RUNTIME_CACHE_DIR=cache)
        from flydsl.kernels.target import target

        found = []
        for loop in (*tuned_loops(target(), args.every), *expert_loops(target(), args.every)):
            if args.only in loop.label:
                print(f"{loop.label} ...", file=sys.stderr, flush=True)
                found.append(measure(loop, target(), args.arch, args.launch))
    if args.record:
        record(args.arch, found)
    if args.json:
        print(json.dumps({"note": NOTE, "simulated": True, "loops": [asdict(f) for f in found]}, indent=2))
        return 0
    print(f"{args.arch}: {NOTE}\n")
    width = max((len(f.kernel) for f in found), default=6)
    print(f"{'kernel':{width}}  {'mca %':>6} {'loop %':>6} {'launch %':>8} {'memory %':>8}  VGPR  spills  limit")
    for f in found:
        shares = [f"{100 * x:.1f}" if x is not None else "-" for x in (f.mca, f.loop, f.launch, f.memory)]
        mca, alone, launch, memory = shares
        print(f"{f.kernel:{width}}  {mca:>6} {alone:>6} {launch:>8} {memory:>8}  {f.vgpr:4}  {f.spills:6}  {f.limit}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
