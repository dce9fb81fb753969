#!/usr/bin/env python3
"""Measure what FlyDSL promises to keep small, and print the figures beside their budgets.

    python tools/bench/run.py [--json] [--only NAME ...]

Figures that come from the simulator say so: they measure the simulator on this CPU, not any GPU.
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from figures import Figure  # noqa: E402  (the folder of this script is not a package)

MODULES = ("imports", "calls", "stages", "launch", "simulator", "matrix", "profiling", "mca", "hotloop", "layouts",
           "sizes", "build")


def measure(names: list[str]) -> list[Figure]:
    """Run the named bench modules in order, with a line of progress for each on stderr."""
    found: list[Figure] = []
    for number, name in enumerate(names, 1):
        print(f"[{number}/{len(names)}] {name} ...", file=sys.stderr, flush=True)
        found.extend(importlib.import_module(name).measure())
    return found


def show(figures: list[Figure]) -> None:
    """Print a table that a person can read."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"FlyDSL figures on {platform.machine()}, Python {platform.python_version()}")
    for column in ("what", "value", "budget", "", "note"):
        table.add_column(column, justify="right" if column in ("value", "budget") else "left")
    for f in figures:
        table.add_row(f.what, f.formatted(), f.budget_text(), f.verdict(), f.note)
    Console(width=150).print(table)


def main() -> int:
    """Command line; always exits 0, because a missed budget is a figure to report and not a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of the table")
    parser.add_argument("--only", nargs="+", choices=MODULES, default=None, help="measure only these")
    args = parser.parse_args()
    # Cold builds take minutes: only when asked for by name.
    figures = measure(args.only or [m for m in MODULES if m != "build"])
    if args.json:
        print(json.dumps([f.as_dict() for f in figures], indent=2))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
