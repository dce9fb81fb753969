#!/usr/bin/env python3
"""Our kernels beside code objects of another library, on the same timing model and at the same shapes.

    python packages/flydsl-kernels/bench/published.py FOLDER [NAME ...] [--quick] [--json]

FOLDER is a calibration corpus: ``index.json`` describes its code objects, ``replay.py`` launches one. Theirs is
launched by that script in a process of its own, ours by the builders that the functional forms use. Names of entries
say what they compute and its sizes; an entry for which there is no operation here is listed as such. With --quick, of
large launches only a part is run and its time scaled, on both sides the same share of the rows: seconds instead of
minutes. Both readings of the timing model are shown, sustained and at peak, and the share of the memory's bandwidth
that theirs reaches at peak: where that is all of it, nothing can be faster. All times are estimates of the simulator;
no GPU was involved.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NOTE = "both estimated by the simulator's timing model; no GPU was involved"
ROWS = 256  # a part of a problem is a multiple of: every tile's rows
MX_BLOCK = 32  # elements of k with one scale
OURS = 34  # characters of the column that names our kernel


@dataclass(frozen=True)
class Times:
    """Microseconds of a whole launch: what a machine sustains, and at its peak."""

    sustained: float
    peak: float

    def over(self, other: Times) -> Times:
        """Quotients of both readings."""
        return Times(self.sustained / other.sustained, self.peak / other.peak)


@dataclass(frozen=True)
class Row:
    """Both times of an entry; `ratio` is theirs / ours, above 1 where ours is faster. `least_us` is the time at peak in
    which each input and output passes once."""

    entry: str
    ours: str
    our_us: Times | None = None
    their_us: Times | None = None
    ratio: Times | None = None
    least_us: float | None = None
    part: float = 1.0


#: The name of our operation, its launcher and arguments for a number of rows.
Run = tuple[str, Callable[[int], tuple[Any, list[Any]]]]


def _codes(rows: int, columns: int, low: int, high: int) -> Any:
    import torch

    return torch.randint(low, high, (rows, columns), dtype=torch.int16).to(torch.uint8).view(torch.int8)


def _result(rows: int, columns: int) -> Any:
    import torch

    return torch.empty(rows, columns, dtype=torch.bfloat16)


def _mx_scales(rows: int, k: int) -> Any:
    import torch

    return torch.randint(125, 130, (-(-rows // 256) * 256, k // MX_BLOCK), dtype=torch.uint8)


def row_scale(waves: str, m: int, n: int, k: int) -> Run:
    """fp8 operands with a scale for each row and column; the block of the 4-wave form is that for m rows."""
    import torch

    from flydsl.kernels import gemm
    from flydsl.kernels.gemm import tuned
    from flydsl.kernels.target import target

    build = {"4": gemm.compile_fp8_gemm_4w, "8": gemm.compile_fp8_gemm_8w}[waves]
    block = tuned.row_scale_block(target(), m, n) if waves == "4" else tuned.ROW_SCALE[0]

    def make(rows: int) -> tuple[Any, list[Any]]:
        a, b = _codes(rows, k, 0, 64), _codes(n, k, 0, 64)
        scales = torch.full((rows,), 0.01), torch.full((n,), 0.01)
        return build(K=k, BLOCK_M=block[0], BLOCK_N=block[1]), [a, b, _result(rows, n), *scales, rows, n]

    return f"{build.__name__} {block[0]}x{block[1]}x128", make


def fp4_four_waves(n: int, k: int) -> Run:
    """fp4 operands, four waves."""
    from flydsl.kernels import gemm

    def make(m: int) -> tuple[Any, list[Any]]:
        a, b = _codes(m, k // 2, 0, 256), _codes(n, k // 2, 0, 256)
        return gemm.compile_fp4_gemm_4w(K=k), [a, b, _result(m, n), _mx_scales(m, k), _mx_scales(n, k), m, n]

    return "compile_fp4_gemm_4w 128x256x256", make


def microscaled(kind: str, m: int, n: int, k: int) -> Run:
    """fp4 or fp6 activations and pre-shuffled fp4 weights, with the tile that the functional form takes for m rows."""
    from flydsl.kernels import gemm
    from flydsl.kernels.gemm import tuned
    from flydsl.kernels.target import target

    tile = tuned.choose(tuned.MX[kind, "fp4"], "mx_gemm", target(), f"{kind} fp4", m, n, k)

    def make(rows: int) -> tuple[Any, list[Any]]:
        run = gemm.compile_mxfp4_gemm(N=n, K=k, tile_m=tile.m, tile_n=tile.n, tile_k=tile.k, a_dtype=kind)
        a = _codes(rows, k // 2, 0, 256) if kind == "fp4" else _codes(rows, k, 0, 64)
        b = _codes(n, k // 2, 0, 256)
        return run, [_result(rows, n), a, b, _mx_scales(rows, k), _mx_scales(n, k), rows, n]

    return f"mx_gemm {kind} x fp4 {tile.m}x{tile.n}x{tile.k}", make


def declared(name: str, n: int, dtype: str, matrices: int, vectors: int) -> Run:
    """An operation on rows of n, by its declaration."""
    import torch

    from flydsl.kernels.op import Op, declarations

    op = next(op for op in declarations() if isinstance(op, Op) and op.name == name)
    kind = {"bf16": torch.bfloat16, "f32": torch.float32}[dtype]

    def make(m: int) -> tuple[Any, list[Any]]:
        rows = [torch.randn(1, n).to(kind).repeat(m, 1) for _ in range(matrices)]
        launcher, arguments, _ = op.prepare(*rows, *(torch.randn(n).to(kind) for _ in range(vectors)))
        return launcher, arguments

    return f"{name} {dtype}", make


def ours(name: str) -> tuple[int, Run] | None:
    """Rows and our counterpart of an entry; None if there is none."""
    if found := re.fullmatch(r"fp8_rowscale_([48])wave_(\d+)x(\d+)x(\d+)", name):
        m, n, k = map(int, found.groups()[1:])
        return m, row_scale(found[1], m, n, k)
    if found := re.fullmatch(r"mxfp4_4wave_(\d+)x(\d+)x(\d+)", name):
        m, n, k = map(int, found.groups())
        return m, fp4_four_waves(n, k)
    if found := re.fullmatch(r"mx(fp[46])_preshuffle_(\d+)x(\d+)x(\d+)_.*", name):
        m, n, k = map(int, found.groups()[1:])
        return m, microscaled(found[1], m, n, k)
    if found := re.fullmatch(r"layernorm_(bf16|f32)_(\d+)x(\d+)", name):
        return int(found[2]), declared("layernorm_fwd", int(found[3]), found[1], 1, 2)
    if found := re.fullmatch(r"softmax_bwd_(bf16|f32)_(\d+)x(\d+)_.*", name):
        return int(found[2]), declared("softmax_bwd", int(found[3]), found[1], 2, 0)
    return None


#: Launches an entry in a process of its own: folder, name, library of the simulator, and what to print.
REPLAY = """
import json, math, sys
folder, library, name, quick = sys.argv[1:]
sys.path.insert(0, folder)
import replay
entry = next(e for e in json.loads((replay.HERE / "index.json").read_text())["entries"] if e["name"] == name)
profile = replay.launch(library, entry, quick == "quick")
print(json.dumps({"part": math.prod(profile["grid"]) / math.prod(entry["grid"]), "peak":
                  profile["timing"]["microseconds"], "sustained": profile["sustained"]["microseconds"],
                  "least": 1e6 * entry["minimum_bytes"] / profile["machine"]["memory_bytes_per_second"]}))
"""


def their_times(folder: Path, library: str, name: str, quick: bool) -> tuple[Times, float, float]:
    """Times of the whole launch, the least at peak, and the part that was run. RuntimeError with what the script
    said."""
    done = subprocess.run([sys.executable, "-c", REPLAY, str(folder), library, name, "quick" if quick else "whole"],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {(done.stderr or done.stdout).strip()[-400:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    part = found["part"]
    return Times(found["sustained"] / part, found["peak"] / part), found["least"], part


def compare(folder: Path, library: str, name: str, quick: bool) -> Row:
    """Both times of an entry."""
    import flydsl.runtime as rt

    counterpart = ours(name)
    if counterpart is None:
        return Row(name, "no operation here computes this")
    rows, (operation, make) = counterpart
    theirs, least, part = their_times(folder, library, name, quick)
    few = min(rows, max(ROWS, round(rows * part / ROWS) * ROWS)) if part < 1 else rows
    launcher, arguments = make(few)
    with rt.profile(timing=True) as profile:
        launcher(*arguments)
    mine = Times(sum(launch.microseconds for launch in profile.launches) * rows / few,
                 sum(launch.timing.microseconds for launch in profile.launches) * rows / few)
    return Row(name, operation, mine, theirs, theirs.over(mine), least, part)


def heading(arch: str, names: list[str]) -> str:
    """What stands above the rows of the table."""
    width, head = max(map(len, names)), f"{'ours us':>9}  {'theirs':>9}  {'ratio':>7}"
    return (f"{arch}: {NOTE}\n\n{'':{width}}  {'':{OURS}}  {'sustained':>29}  {'at peak':>29}\n"
            f"{'entry':{width}}  {'ours':{OURS}}  {head}  {head}  bandwidth")


def line(row: Row, names: list[str]) -> str:
    """A row of the table."""
    cells = [(f"{getattr(x, kind):.{digits}f}" if x else "-") for kind in ("sustained", "peak")
             for x, digits in ((row.our_us, 1), (row.their_us, 1), (row.ratio, 3))]
    cells.append(f"{100 * row.least_us / row.their_us.peak:.1f} %" if row.least_us and row.their_us else "-")
    columns = zip(cells, (9, 9, 7, 9, 9, 7, 9), strict=True)
    return f"{row.entry:{max(map(len, names))}}  {row.ours:{OURS}}  " + "  ".join(f"{c:>{w}}" for c, w in columns)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="entries; all if none is given")
    parser.add_argument("--quick", action="store_true", help="a part of large launches")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    entries = {e["name"]: e for e in json.loads((args.folder / "index.json").read_text())["entries"]}
    if unknown := [name for name in args.names if name not in entries]:
        parser.error(f"not in {args.folder / 'index.json'}: {', '.join(unknown)}")
    names = args.names or list(entries)
    archs = {entries[name]["arch"] for name in names}
    if len(archs) != 1:
        parser.error(f"entries of one architecture at a time, these are for {', '.join(sorted(archs))}")
    (arch,) = archs
    with tempfile.TemporaryDirectory() as cache:
        os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=arch, ARCH=arch, FLYDSL_RUNTIME_CACHE_DIR=cache)
        import flydsl.runtime as rt

        found = []
        if not args.json:
            print(heading(arch, names), flush=True)
        for name in names:
            print(f"{name} ...", file=sys.stderr, flush=True)
            found.append(compare(args.folder.resolve(), str(rt.library_path()), name, args.quick))
            if not args.json:  # a row takes minutes
                print(line(found[-1], names), flush=True)
    if args.json:
        rows = [asdict(r) for r in found]
        print(json.dumps({"note": NOTE, "simulated": True, "arch": arch, "entries": rows}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
