"""``python -m flydsl.runtime check``: a program on the simulator with its checks on."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .. import _provider
from ..checking import CHECKS
from ..coverage import require_simulated
from ..profiling.collect import writable
from . import reports
from .findings import read

DEFAULT = CHECKS[:4]

#: Names by which programs of different ROCm releases ask for the library.
_LIBRARY_NAMES = ("libamdhip64.so", "libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7")

EPILOG = """\
PROGRAM is an executable that was built with HIP, a Python file, or any command that starts one. Compile with -g for
source lines. Exit status: 1 if something was found, 2 if no kernel ran, else that of the program.
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    """The command with its options."""
    parser = commands.add_parser(
        "check", help="run a program on the simulator and report races, overruns, uninitialised values", epilog=EPILOG)
    for name in CHECKS:
        what = reports.DESCRIPTIONS[name]
        default = " (default)" if name in DEFAULT else ""
        parser.add_argument(f"--{name}", action="append_const", dest="checks", const=name, help=what + default)
    parser.add_argument("--arch", help="architecture to simulate (default: that of the code which is loaded)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="report as JSON; what the program prints goes to stderr")
    form.add_argument("--sarif", action="store_true", help="report as SARIF 2.1.0; likewise")
    parser.add_argument("-o", "--output", help="write the report to this file instead of stdout")
    parser.add_argument("program", metavar="PROGRAM", help="program to run, behind --")
    parser.add_argument("arguments", metavar="ARGS", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def command_line(program: str, arguments: list[str]) -> list[str]:
    """What to execute. Raises ValueError if there is no such program."""
    if program.endswith(".py") and os.path.isfile(program):
        return [sys.executable, program, *arguments]
    if shutil.which(program) is None:
        raise ValueError(f"{program}: no such program (an executable, a command on PATH, or a Python file)")
    return [program, *arguments]


def _triton_backend() -> str:
    """The name under which Triton finds the simulator's driver, "" if it is not installed."""
    from importlib.metadata import entry_points

    return "flydsl" if any(entry.name == "flydsl" for entry in entry_points(group="triton.backends")) else ""


def environment(checks: list[str], arch: str | None, names: Path, record: Path) -> dict[str, str]:
    """The variables of a process whose HIP library is the simulator; ``names`` is an empty folder for its names."""
    library = _provider.simulator_directory() / _provider.SIMULATOR_LIBRARY
    for name in _LIBRARY_NAMES:
        (names / name).symlink_to(library)

    def before(variable: str, value: str, separator: str) -> str:
        given = os.environ.get(variable, "")
        return value + separator + given if given else value

    result = {
        **os.environ,
        # The search path serves every name; the preloaded library also serves programs that carry a path of their own.
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", str(names), ":"),
        "LD_PRELOAD": before("LD_PRELOAD", str(library), " "),
        "FLYDSL_RUNTIME_KIND": "sim",
        "FLYDSL_SIM_CHECK": ",".join(checks),
        "FLYDSL_SIM_FINDINGS": str(record),
    }
    if arch:
        result.update(FLYDSL_SIM_ARCH=arch, FLYDSL_GPU_ARCH=arch)
    if "TRITON_DEFAULT_BACKEND" not in result and (backend := _triton_backend()):
        result["TRITON_DEFAULT_BACKEND"] = backend
    return result


def run(options: argparse.Namespace) -> int:
    """Runs the program and reports. Raises ValueError for a wrong argument, HipError without a simulator."""
    checks = [name for name in CHECKS if name in (options.checks or DEFAULT)]
    arguments = options.arguments
    program = options.program
    if program == "--" and arguments:
        program, *arguments = arguments
    command = command_line(program, arguments)
    if options.arch is not None:
        require_simulated(re.split("[-:]", options.arch)[0])  # without variant and features
    output = writable("-o", options.output) if options.output else None
    apart = (options.json or options.sarif) and not options.output  # stdout has the report only
    with tempfile.TemporaryDirectory(prefix="flydsl-check-") as folder:
        names, file = Path(folder) / "lib", Path(folder) / "findings"
        names.mkdir()
        variables = environment(checks, options.arch, names, file)
        sys.stdout.flush()
        done = subprocess.run(command, env=variables, stdout=sys.stderr if apart else None)
        record = read(file)
    if options.json:
        report = reports.as_json(record, checks, done.returncode)
    elif options.sarif:
        report = reports.sarif(record, checks)
    else:
        report = reports.text(record, checks)
    if output:
        output.write_text(report + "\n", encoding="utf-8")
    else:
        print(report)
    if record.findings:
        return 1
    if done.returncode:
        print(f"{program} ended with status {done.returncode}", file=sys.stderr)
        return done.returncode if done.returncode > 0 else 128 - done.returncode
    if not record.kernels:
        print(f"{program} launched no kernel on the simulator: nothing was checked", file=sys.stderr)
        return 2
    return 0
