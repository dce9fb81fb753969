#!/usr/bin/env python3
"""Each kernel at its problem sizes: estimated cycles and share of the peak, registers, LDS, occupancy, compile time.

    python packages/flydsl-kernels/bench/table.py --arch gfx942 [--only gemm] [--json FILE] [--markdown] [--plot F.svg]

Nothing here was measured on a GPU. Cycles, times and rates are estimates of the simulator's timing model; *loop* and
*mca* are the share of the hot loop's cycles in which the matrix unit is busy by that model and by LLVM's (one wave,
caches that always hit). Bytes and bank conflicts are counted; registers, LDS and spills are facts of the code object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from cases import cases
from measure import Row, measure, warm_up

NOTE = "estimates of the simulator's timing model, counts and facts of the code; no GPU was involved"
HEAD = ("op", "kernel", "shape", "dtype", "kcycles", "us", "TB/s", "TFLOP/s", "% of peak", "bound", "matrix busy %",
        "loop %", "mca %", "bytes/min", "LDS conflicts %", "VGPR", "AGPR", "LDS B", "spills", "waves/SIMD", "compile s",
        "status")


def cells(r: Row) -> tuple[str, ...]:
    """The texts of a line, in the order of HEAD."""
    if r.status != "ok":
        return (r.op, r.name, r.shape, r.dtype, *("",) * (len(HEAD) - 5), r.status)

    def percent(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.1f}"

    return (r.op, r.name, r.shape, r.dtype, f"{r.estimated_cycles / 1e3:.1f}", f"{r.estimated_us:.1f}",
            f"{r.estimated_tb_s:.2f}", f"{r.estimated_tflop_s:.0f}" if r.estimated_tflop_s else "",
            percent(r.estimated_share), r.bound, percent(r.estimated_matrix_busy), percent(r.estimated_loop_busy),
            percent(r.mca_matrix_busy),
            f"{r.bytes_moved / r.bytes_minimum:.3f}", percent(r.lds_conflicts), str(r.vgpr), str(r.agpr),
            str(r.lds_bytes), str(r.spills), str(r.waves_per_simd), f"{r.compile_seconds:.2f}", "ok")


def text_table(rows: list[Row], markdown: bool) -> str:
    """The table as text for people, or in Markdown."""
    body = [cells(r) for r in rows]
    if markdown:
        lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
        return "\n".join([*lines, *("| " + " | ".join(line) + " |" for line in body)])
    widths = [max(len(line[i]) for line in [HEAD, *body]) for i in range(len(HEAD))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
                     for line in [HEAD, *body])


def plot(rows: list[Row], arch: str) -> str:
    """An SVG with a bar for each kernel: its estimated share of the peak that limits it."""
    bars = [r for r in rows if r.status == "ok"]
    height = 52 + 20 * len(bars)
    colours = {"memory": "#4a7ebb", "matrix": "#c0504d"}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{height}" font-family="sans-serif" '
        f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
        f'<text x="8" y="18" font-size="14">{arch}: estimated share of the limiting peak, % (simulator)</text>',
    ]
    for i, (bound, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{8 + 150 * i}" y="26" width="12" height="12" fill="{colour}"/>'
                     f'<text x="{26 + 150 * i}" y="37">{bound} bound</text>')
    for i, r in enumerate(bars):
        y, width = 46 + 20 * i, 400 * r.estimated_share
        parts.append(f'<text x="8" y="{y + 12}">{r.name} {r.shape} {r.dtype}</text>'
                     f'<rect x="400" y="{y}" width="{width:.1f}" height="15" fill="{colours[r.bound]}"/>'
                     f'<text x="{406 + width:.0f}" y="{y + 12}">{100 * r.estimated_share:.0f}</text>')
    return "\n".join([*parts, "</svg>"])


def main() -> int:
    """Command line; 0 unless a case failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--only", default="", help="cases whose family or name contains this")
    parser.add_argument("--rows", type=int, default=4096, help="rows of the row kernels (quoted figures: 32768)")
    parser.add_argument("--scale", type=int, default=1, help="factor of M and N of the GEMMs")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures (- for standard output)")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="write a chart of the shares of the peak")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        # A fresh cache: compile times are those of a first call.
        os.environ.update(FLYDSL_RUNTIME_KIND="sim", FLYDSL_SIM_ARCH=args.arch, ARCH=args.arch,
                          FLYDSL_RUNTIME_CACHE_DIR=cache)
        from flydsl.kernels.target import target

        warm_up()
        rows = []
        for case in cases(target(), args.rows, scale=args.scale):
            if args.only in case.op or args.only in case.name:
                print(f"{case.name} {case.shape} ...", file=sys.stderr, flush=True)
                rows.append(measure(case, args.arch))
    data = json.dumps({"note": NOTE, "arch": args.arch, "rows": [r.as_dict() for r in rows]}, indent=2)
    if args.json and str(args.json) != "-":
        args.json.write_text(data + "\n")
    if args.plot:
        args.plot.write_text(plot(rows, args.arch) + "\n")
    if str(args.json) == "-":
        print(data)
    else:
        print(f"{args.arch}: {NOTE}\n\n{text_table(rows, args.markdown)}")
    return 0 if all(r.status == "ok" for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
