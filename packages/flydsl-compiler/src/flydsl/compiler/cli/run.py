"""``flydsl run``: a script on a chosen architecture, with the simulator's checks and reports."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .output import CliError, Output
from .target import architecture, run_script, split_target, variables

__all__ = ["register"]


def register(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("run", help="run a script on a device or a simulated architecture")
    parser.add_argument("--arch", default="", type=architecture,
                        help="architecture to compile for and to simulate, e.g. gfx950")
    parser.add_argument("--kind", choices=("rocm", "sim"), default="", help="GPU or simulator (default: what is there)")
    parser.add_argument("--stats", action="store_true", help="report counters and estimates of the simulator")
    parser.add_argument("--check", nargs="?", const="oob,race,uninit", default="", metavar="LIST", type=_checks,
                        help="simulator checks: oob,race,uninit (default: all)")
    parser.add_argument("--trace", default="", metavar="FILE", help="write a Perfetto trace of the simulator")
    parser.add_argument("--timing", action="store_true", help="print the seconds of each compile phase")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    parser.set_defaults(handler=run)


def _checks(text: str) -> str:
    """A list of checks. ArgumentTypeError for one that there is not."""
    from flydsl.runtime.requested_checks import CHECKS

    for name in text.replace(",", " ").split():
        if name not in (*CHECKS, "all"):
            raise argparse.ArgumentTypeError(f"unknown check {name!r}; there are {', '.join(CHECKS)}, all")
    return text


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the script; its exit status."""
    path, name = split_target(options.script)
    if name:
        path, _ = split_target(options.script.partition(":")[0])
    if options.trace and not Path(options.trace).absolute().parent.is_dir():
        raise CliError(f"--trace {options.trace}: there is no folder {Path(options.trace).parent}", 2)
    simulated = bool(options.stats or options.check or options.trace or options.arch)
    settings = {
        "ARCH": options.arch, "FLYDSL_SIM_ARCH": options.arch, "FLYDSL_SIM_STATS": "timing" if options.stats else "",
        "FLYDSL_SIM_CHECK": options.check, "FLYDSL_SIM_TRACE": options.trace,
        "FLYDSL_DEBUG_TIMING": "1" if options.timing else "",
        # Checks, counters and another architecture are things that only the simulator has.
        "FLYDSL_RUNTIME_KIND": options.kind or ("sim" if simulated else ""),
    }
    with variables(settings):
        return run_script(path, options.arguments)
