"""Commands: the table of operations, tuned tables, and prebuilt artifacts.

    python -m flydsl.kernels table
    python -m flydsl.kernels tune gemm --arch gfx950 --kind "bf16 nt" --size 512x512x4096 --jobs 2
    python -m flydsl.kernels prebuilt build --arch gfx942
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from flydsl.utils.parallel import process_count

from .op import table
from .prebuilt import add_commands


def _table(options: argparse.Namespace) -> int:
    print(table())
    return 0


def _sizes(text: str) -> tuple[int, int, int]:
    parts = text.split("x")
    if len(parts) != 3 or not all(part.isdigit() and int(part) for part in parts):
        raise argparse.ArgumentTypeError(f"a size is MxNxK, got {text!r}")
    m, n, k = map(int, parts)
    return m, n, k


def tune(arguments: argparse.Namespace) -> int:
    """Search the tiles of an operation and write what is better than its own rule, with its provenance."""
    if arguments.arch:
        os.environ.update(FLYDSL_SIM_ARCH=arguments.arch, ARCH=arguments.arch)
    from .host.tuned import FOLDER, write
    from .target import target
    from .tune import Problem, Trial, search, tunable

    found, tuning = target(arguments.arch or None), tunable()[arguments.operation].tuning
    assert tuning is not None
    folder = Path(arguments.out) if arguments.out else FOLDER
    file = folder / f"{arguments.operation}-{found.arch}.json"
    with ProcessPoolExecutor(arguments.jobs, mp_context=get_context("spawn")) as executor:
        for m, n, k in arguments.size:
            problem = Problem(arguments.operation, arguments.kind or tuning.kinds[0], m, n, k)
            print(f"{problem.operation} {problem.kind} {m}x{n}x{k} ({tuning.sizes}) on {found.name}", flush=True)

            def report(number: int, count: int, trial: Trial) -> None:
                time = trial.problem if trial.ms is None else f"{trial.ms * 1e3:.2f} us"
                print(f"  {number}/{count} {trial.choice or 'the rule'}: {time}", flush=True)

            entry = search(problem, found.name, executor, report)
            if entry is None:
                print("  the rule's choice is the best")
                continue
            print(f"  best {entry.choice}: {entry.ms * 1e3:.2f} us, the rule's {entry.usual_ms * 1e3:.2f} us")
            write(file, [entry])
            print(f"  written to {file}", flush=True)
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Run a command; its exit status, which is 2 for what it cannot do, with the reason in one line."""
    parser = argparse.ArgumentParser(prog="python -m flydsl.kernels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("table", help="print the table of operators as Markdown").set_defaults(run=_table)
    add_commands(commands)
    from .tune import tunable

    search = commands.add_parser("tune", help="search the tiles of an operation")
    search.add_argument("operation", choices=sorted(tunable()))
    search.add_argument("--arch", default="", help="architecture; the current one by default")
    search.add_argument("--kind", default="", help="types and layouts of the operands; the first by default")
    search.add_argument("--size", type=_sizes, nargs="+", required=True, help="MxNxK")
    search.add_argument("--jobs", type=process_count, default=os.cpu_count(), help="processes")
    search.add_argument("--out", default="", help="folder of the tables; those of the installed package by default")
    search.set_defaults(run=tune)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except (ValueError, OSError) as error:
        print(f"{parser.prog} {options.command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
