#!/usr/bin/env python3
"""Attention: what share of the unit that binds it each launch keeps busy, and the steady state of its main loops.

    python packages/flydsl-kernels/bench/attention.py --arch gfx950 [--sequence 8192] [--only TEXT] [--loops] [--json]
    python packages/flydsl-kernels/bench/attention.py --arch gfx950 --loops --record

The table has whole launches: forward (with and without a causal mask, fp8), both kernels of the gradients, decode over
pages and MLA. *matrix* and *memory*: shares of the clocks in which the matrix unit works, and of the memory's peak
bandwidth; *uneven*: time of the compute unit with most work over the mean; *compile*: CPU seconds of a first call.
``--loops`` has the share of the matrix unit in the steady state, the difference of two lengths in launches that fill
the chip; ``--record`` writes it to hot_loops.json. All are estimates of the simulator's timing model at peak clocks, no
GPU was involved.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cases import operation
from hot_loops import Figures, record
from limits import MATRIX, binding, limits
from measure import compile_seconds, warm_up

NOTE = "estimates of the simulator's timing model at peak clocks; no GPU was involved"
LENGTHS = (256, 1024)  # passing rows of the two launches whose difference is the steady state
DECODED = 64  # sequences of a decode launch
LATENT_HEADS = 128  # of MLA


@dataclass(frozen=True)
class Case:
    """A launch: ``make()`` gives launcher and arguments."""

    name: str
    shape: str
    make: Callable[[], tuple[Any, list[Any]]]


@dataclass(frozen=True)
class Row:
    """A kernel of a launch, in shares of 0 to 1; `error` says why there is none."""

    name: str
    shape: str
    kernel: str = ""
    microseconds: float = 0.0
    matrix: float = 0.0
    memory: float = 0.0
    uneven: float = 1.0
    vgpr: int = 0
    spills: int = 0
    lds_conflicts: float = 0.0
    compile_seconds: float = 0.0
    error: str = ""


def _prepared(name: str, *arguments: Any) -> tuple[Any, list[Any]]:
    launcher, operands, _ = operation(name).prepare(*arguments)
    return launcher, operands


def _heads(target: Any, rows: int, keys: int, heads: int, d: int, stored: str) -> list[Any]:
    """q, k and v of one sequence."""
    import torch

    dtype = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fnuz if target.arch == "gfx942" else torch.float8_e4m3fn}
    return [torch.randn(1, n, heads, d).to(dtype[stored]) for n in (rows, keys, keys)]


def forward(target: Any, rows: int, keys: int, heads: int, d: int = 128, stored: str = "bf16",
            causal: bool = False) -> tuple[Any, list[Any]]:
    """A forward launch."""
    import torch

    descales = (torch.ones(1),) * 3 if stored == "fp8" else (None,) * 3
    return _prepared("attention_fwd", *_heads(target, rows, keys, heads, d, stored), *(None,) * 7, *descales, None, -1,
                     0 if causal else -1)


def backward(target: Any, rows: int, keys: int, heads: int, d: int = 128,
             causal: bool = False) -> tuple[Any, list[Any]]:
    """Both launches of the gradients."""
    import torch

    q, k, v = _heads(target, rows, keys, heads, d, "bf16")
    lse = torch.full((1, heads, rows), 10.0)
    return _prepared("attention_bwd", torch.randn_like(q), torch.zeros_like(lse), q, k, v, torch.randn_like(q), lse,
                     *(None,) * 4, None, -1, 0 if causal else -1)


def latents(target: Any, rows: int, tokens: int, sequences: int, cache: str) -> tuple[Any, list[Any]]:
    """An MLA launch of `rows` for each of so many sequences, all of the same context: memory does not bind it."""
    from flydsl.kernels.testing import Draw

    q, stored, table, lengths, *options = operation("mla_decode").sample(
        Draw(target), 1, 576, dtype="bf16", cache=cache, context=tokens, page=1, heads=LATENT_HEADS, full=True)
    count = max(rows * sequences // LATENT_HEADS, 1)
    return _prepared("mla_decode", q.repeat(count, 1, 1, 1), stored, table.repeat(count, 1), lengths.repeat(count),
                     *options)


def cases(target: Any, sequence: int, heads: int, context: int) -> Iterator[Case]:
    """The launches of the table."""
    from flydsl.kernels.testing import Draw

    def dense(name: str, build: Callable[..., tuple[Any, list[Any]]], length: int, **options: Any) -> Case:
        return Case(name, f"{length} x {heads} heads", lambda: build(target, length, length, heads, **options))

    yield dense("forward", forward, sequence)
    yield dense("forward, causal", forward, sequence, causal=True)
    yield dense("forward, D 64", forward, sequence, d=64)
    yield dense("forward fp8", forward, sequence, stored="fp8")
    yield dense("forward fp8, causal", forward, sequence, stored="fp8", causal=True)
    yield dense("backward", backward, sequence // 2)
    yield dense("backward, causal", backward, sequence // 2, causal=True)
    for cache in ("bf16", "fp8"):
        yield Case(f"decode, {cache} cache", f"{DECODED} x {context}", lambda cache=cache: _prepared(
            "paged_attention", *operation("paged_attention").sample(
                Draw(target), DECODED, 128, dtype="bf16", cache=cache, context=context, heads=(8, 1), full=True)))
    for cache in ("bf16", "fp8"):
        shape = f"{DECODED // 2} x {context} x {LATENT_HEADS} heads"
        yield Case(f"MLA, {cache} cache", shape, lambda cache=cache: _prepared(
            "mla_decode", *operation("mla_decode").sample(
                Draw(target), DECODED // 2, 576, dtype="bf16", cache=cache, context=context, page=1,
                heads=LATENT_HEADS, full=True)))


def measured(case: Case) -> list[Row]:
    """Each kernel of a launch that is more than a hundredth of its time."""
    import flydsl.compiler as flyc
    import flydsl.ir
    import flydsl.runtime as rt

    try:
        launcher, arguments = case.make()
        seconds = compile_seconds(launcher, arguments)
        with rt.profile(timing=True) as profile:
            launcher(*arguments)
    except (TypeError, ValueError, NotImplementedError) as error:
        return [Row(case.name, case.shape, error=str(error).splitlines()[0])]
    resources = flydsl.ir.kernel_resources(flyc.compile(launcher, *arguments).artifact.hsaco)
    rows, total = [], sum(launch.timing.cycles for launch in profile.launches)
    for launch in profile.launches:
        timing = launch.timing
        if timing.cycles < total / 100:
            continue
        clocks, extra, _ = launch.lds_conflicts()
        rows.append(Row(
            case.name, case.shape, launch.raw["kernel"], timing.microseconds,
            timing.matrix_busy / (timing.sample_cycles * timing.simds), timing.memory_cycles / timing.cycles,
            launch.sustained.unevenness, launch.raw["vgprs"], sum(r.vgpr_spills for r in resources.values()),
            extra / clocks if clocks else 0.0, seconds))
    return rows


@dataclass(frozen=True)
class Steady:
    """A main loop: ``make(rows, passing, heads)`` builds a launch whose kernel number `kernel` holds `rows` a
    workgroup in registers and lets `passing` pass by."""

    name: str
    make: Callable[[int, int, int], tuple[Any, list[Any]]]
    kernel: int = 0

    @property
    def label(self) -> str:
        """In the record."""
        return f"attention {self.name}"


def steady_loops(target: Any) -> list[Steady]:
    """The main loops that are recorded; none where there are no such kernels."""
    if not operation("attention_fwd").available(target):
        return []
    return [
        Steady("forward bf16 128", lambda rows, n, heads: forward(target, rows, n, heads)),
        Steady("forward bf16 64", lambda rows, n, heads: forward(target, rows, n, heads, d=64)),
        Steady("forward bf16 256", lambda rows, n, heads: forward(target, rows, n, heads, d=256)),
        Steady("forward fp8 128", lambda rows, n, heads: forward(target, rows, n, heads, stored="fp8")),
        Steady("backward, queries bf16 128", lambda rows, n, heads: backward(target, rows, n, heads)),
        Steady("backward, keys bf16 128", lambda rows, n, heads: backward(target, n, rows, heads), 1),
        Steady("MLA bf16 128", lambda rows, n, count: latents(target, rows, n, count, "bf16")),
        Steady("MLA fp8 128", lambda rows, n, count: latents(target, rows, n, count, "fp8")),
    ]


def steady_state(loop: Steady, target: Any, arch: str) -> Figures:
    """Share of the matrix unit from one length to another, of workgroups that fill the chip once."""
    import flydsl.compiler as flyc
    import flydsl.ir
    import flydsl.runtime as rt

    launcher, arguments = loop.make(1024, LENGTHS[0], 1)
    resources = list(flydsl.ir.kernel_resources(flyc.compile(launcher, *arguments).artifact.hsaco).values())
    configs = getattr(launcher, "configs", None) or (launcher.config,)
    with rt.profile() as profile:
        launcher(*arguments)
    resident = profile.launches[loop.kernel].occupancy()["groups_per_cu"]
    # A processor of gfx120x has the LDS of two compute units, and the model follows one of these.
    groups = target.compute_units * resident // (2 if target.arch == "gfx120" else 1)
    seen = []
    for length in LENGTHS:
        launcher, arguments = loop.make(32 * configs[loop.kernel].rows, length, max(groups // 32, 1))
        with rt.profile(timing=True) as profile:
            launcher(*arguments)
        seen.append(profile.launches[loop.kernel])
    shares = limits(seen[1], seen[0], shared=target.matrix == "wmma")
    clocks, extra, _ = seen[-1].lds_conflicts()
    return Figures(loop.label, arch, None, shares[MATRIX], None, max(r.vgprs for r in resources),
                   sum(r.vgpr_spills for r in resources), extra / clocks if clocks else None, limits=shares,
                   binds=binding(shares))


HEAD = ("launch", "shape", "kernel", "us", "matrix %", "memory %", "uneven", "VGPR", "spills", "LDS conflicts %",
        "compile s")


def cells(r: Row) -> tuple[str, ...]:
    """The texts of a line, in the order of HEAD."""
    if r.error:
        return (r.name, r.shape, r.error, *("",) * (len(HEAD) - 3))
    return (r.name, r.shape, r.kernel, f"{r.microseconds:.1f}", f"{100 * r.matrix:.1f}", f"{100 * r.memory:.1f}",
            f"{r.uneven:.2f}", str(r.vgpr), str(r.spills), f"{100 * r.lds_conflicts:.1f}", f"{r.compile_seconds:.2f}")


LOOP_HEAD = ("loop", "matrix %", "VGPR", "spills", "LDS conflicts %", "limit")


def loop_cells(f: Figures) -> tuple[str, ...]:
    """The texts of a line, in the order of LOOP_HEAD."""
    return (f.kernel, f"{100 * (f.loop or 0):.1f}", str(f.vgpr), str(f.spills), f"{100 * (f.lds_conflicts or 0):.1f}",
            f.limit)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx950")
    parser.add_argument("--only", default="", help="launches or loops whose name contains this")
    parser.add_argument("--sequence", type=int, default=8192, help="rows and keys; gradients take half of it")
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--context", type=int, default=8192, help="tokens of a decoded sequence")
    parser.add_argument("--loops", action="store_true", help="the steady state of the main loops")
    parser.add_argument("--record", action="store_true", help="write those to hot_loops.json")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.record and not args.loops:
        parser.error("--record writes the figures of the main loops: it needs --loops")
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=args.arch, ARCH=args.arch,
                          FLYDSL_RUNTIME_CACHE_DIR=cache)
        from flydsl.kernels.target import target

        found: list[Any] = []
        if args.loops:
            chosen = [loop for loop in steady_loops(target()) if args.only in loop.label]
            found = [steady_state(loop, target(), args.arch) for loop in chosen]
        else:
            warm_up()
            for case in cases(target(), args.sequence, args.heads, args.context):
                if args.only in case.name:
                    print(f"{case.name} ...", file=sys.stderr, flush=True)
                    found += measured(case)
    if args.record:
        record(args.arch, found)
    if args.json:
        print(json.dumps({"note": NOTE, "simulated": True, "arch": args.arch, "rows": [asdict(f) for f in found]},
                         indent=2))
        return 0
    lines = [LOOP_HEAD, *map(loop_cells, found)] if args.loops else [HEAD, *map(cells, found)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    print(f"{args.arch}: {NOTE}\n")
    for line in lines:
        print("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
